"""Logs of a live run: what a replayer leaves behind, one JSON line an event, and how far the run has come by it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from balancer.clock import micros, seconds
from emulator.text.json_lines import JsonLines, read_json_lines

if TYPE_CHECKING:
    from pathlib import Path


class ReplayLog:
    """Appends to `PATH.partial`, which becomes PATH when the replay is over, however it ended.

    `resume`: go on behind what an earlier replayer wrote, which is in `past` (None: there was none, or no wish).
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self._path = path
        self._partial = partial_path(path)
        self.past: ReplayResult | None = None
        if resume and path.exists():
            path.replace(self._partial)
        if resume and self._partial.exists():
            self.past = read_replay(path)
        self._lines = JsonLines(self._partial, anew=self.past is None)
        self.counted: dict[str, int] = {}

    def write(self, event: str, at_us: int, number: int | None = None, **details: Any) -> None:
        """One line; `at_us` is cluster time since the start of the trace."""
        self.count(event)
        line: dict[str, Any] = {"event": event, "at_s": seconds(at_us)}
        if number is not None:
            line["number"] = number
        self._lines.write(line | details)

    def count(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def finish(self, at_us: int, interrupted: str) -> None:
        """Write the last line and give the file its name."""
        self.write("over", at_us, interrupted=interrupted, counted=dict(self.counted))
        self._lines.close()
        self._partial.replace(self._path)


@dataclass(frozen=True, slots=True)
class LeaseResult:
    """How a lease went; times since the start of the trace, `ended_us` None while it has not ended."""

    number: int
    granted: bool
    decided_us: int
    ended_us: int | None = None
    reason: str = ""
    hosts: tuple[str, ...] = ()
    """Its nodes, where the cloud told; else only the Balancer knows them."""


@dataclass(slots=True)
class ReplayResult:
    """All that a replay log says. `interrupted` is empty for a replay that came to its end."""

    job_ids: dict[int, str] = field(default_factory=dict)
    """Number of the batch job -> identifier that qsub printed."""
    submitted_us: dict[int, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    """Number of a job that could not be submitted -> why."""
    leases: dict[int, LeaseResult] = field(default_factory=dict)
    noticed_us: dict[int, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    interrupted: str = "the replayer did not finish its log"


def partial_path(path: Path) -> Path:
    """Where the log of a replay that is not over is."""
    return path.with_name(f"{path.name}.partial")


def written_log(path: Path) -> Path:
    """The log of a replay, or what there is of it while that is not over."""
    return path if path.exists() else partial_path(path)


def read_replay(path: Path) -> ReplayResult:
    """Read a log, or what a killed replayer left of it. A last line without its end is left out."""
    result = ReplayResult()
    for _ in read_json_lines(written_log(path), lambda line: _apply(result, line), "a line of a replay log"):
        pass
    return result


def _apply(result: ReplayResult, line: dict[str, Any]) -> None:
    at_us, number, event = micros(line["at_s"]), line.get("number", -1), line["event"]
    if event == "submitted":
        result.job_ids[number], result.submitted_us[number] = line["job_id"], at_us
    elif event == "submit_failed":
        result.failed[number] = line["reason"]
    elif event == "lease_granted":
        hosts = tuple(line.get("hosts", ()))
        result.leases[number] = LeaseResult(number, granted=True, decided_us=at_us, hosts=hosts)
    elif event == "lease_rejected":
        result.leases[number] = LeaseResult(number, granted=False, decided_us=at_us, reason=line["reason"])
    elif event == "lease_ended":
        result.leases[number] = replace(result.leases[number], ended_us=at_us)
    elif event == "noticed":
        result.noticed_us[number] = at_us
    elif event == "over":
        result.interrupted, result.counted = line["interrupted"], line["counted"]


class Tail:
    """The lines that were appended to a file since the last look; a line without its end waits."""

    def __init__(self) -> None:
        self._offset = 0

    def lines(self, path: Path) -> list[bytes]:
        """New lines of `path`: the same file at each call, though its name may change. No file: no lines."""
        try:
            with path.open("rb") as file:
                file.seek(self._offset)
                found = file.read()
        except FileNotFoundError:
            return []
        whole = found[: found.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()


class Counts:
    """Batch jobs that are over, and what became of requests and submits so far."""

    def __init__(self, batch_home: Path, replay_log: Path) -> None:
        self._accounting = batch_home / "server_priv" / "accounting"
        self._replay_log = replay_log
        self._replay_tail = Tail()
        self._day = ""
        self._day_tail = Tail()
        self.ended = 0
        self.granted = 0
        self.rejected = 0
        self.failed = 0
        """Jobs that could not be submitted."""

    def look(self) -> None:
        """Read what is new."""
        self.look_at_accounting()
        for line in self._replay_tail.lines(written_log(self._replay_log)):
            event = json.loads(line)["event"]
            self.granted += event == "lease_granted"
            self.rejected += event == "lease_rejected"
            self.failed += event == "submit_failed"

    def look_at_accounting(self) -> None:
        """One file a day (YYYYMMDD): earlier ones than the newest do not grow any more."""
        days = sorted(path.name for path in self._accounting.glob("*"))
        for day in days:
            if day < self._day:
                continue
            if day > self._day:
                self._day, self._day_tail = day, Tail()
            for line in self._day_tail.lines(self._accounting / day):
                self.ended += line.split(b";", 2)[1] in {b"E", b"D"}
