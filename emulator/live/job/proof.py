"""What a job's own output proves: that every unit of its work was done exactly once, or was lost and done again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProofError(ValueError):
    """The output does not prove it; the text names the line."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Amounts in node-microseconds: `done - lost == total` for a job that `finished`.

    `runs`: how often it started. `times_us`: when the last run began and ended.
    """

    total: int
    done: int
    lost: int
    runs: int
    finished: bool
    times_us: tuple[int, int]


def prove(lines: Iterable[str]) -> Proof:
    """Follow the output line by line. Raises ProofError where work is skipped, done twice or not accounted for.

    Every piece of work must begin where the one before ended. A run may begin earlier than the last one came
    (that much is lost and done again), never later. A last line that was cut off counts as not written.
    """
    follower = _Follower()
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            break
        try:
            follower.take(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise ProofError(f"line {number}: {error}") from error
    return follower.proof()


class _Follower:
    def __init__(self) -> None:
        self._total = -1
        self._place = 0
        self._done = 0
        self._lost = 0
        self._runs = 0
        self._finished = False
        self._began_us = self._last_us = 0

    def take(self, line: dict[str, Any]) -> None:
        if self._finished:
            raise ValueError(f"{line['event']} after the end")
        event, at_us = line["event"], int(line["at_us"])
        if event == "begins":
            self._begins(line, at_us)
        elif self._runs == 0:
            raise ValueError(f"{event} before the beginning")
        self._last_us = at_us
        if event == "work":
            self._work(int(line["from"]), int(line["to"]))
        elif event == "finished":
            if self._place != self._total:
                raise ValueError(f"finished with {self._place} of {self._total} done")
            self._finished = True

    def _begins(self, line: dict[str, Any], at_us: int) -> None:
        total, place = int(line["of"]), int(line["done"])
        if self._runs and total != self._total:
            raise ValueError(f"the work was {self._total} and is now {total}")
        if place > self._place:
            raise ValueError(f"begins at {place}, but only {self._place} was done: work is skipped")
        self._total = total
        self._lost += self._place - place
        self._place = place
        self._runs += 1
        self._began_us = at_us

    def _work(self, start: int, end: int) -> None:
        if start != self._place or end < start:
            raise ValueError(f"work from {start} to {end} does not go on from {self._place}")
        self._done += end - start
        self._place = end

    def proof(self) -> Proof:
        if self._runs == 0:
            raise ProofError("there is no line of output")
        return Proof(
            self._total, self._done, self._lost, self._runs, self._finished, (self._began_us, self._last_us)
        )
