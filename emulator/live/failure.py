"""A plug-in that failed in a process of a live run: a file in that process's home says so, and the run ends."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import requests

from balancer.clock import wall_us
from balancer.whole_file import write_text
from emulator.plugin_failure import traceback_of

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.plugin_failure import PluginError

_PERIOD_US = 500_000


@dataclass(frozen=True, slots=True)
class Failure:
    """`reason`: one sentence with plug-in, event and cluster time."""

    reason: str
    traceback: str = ""


def write_failure(home: Path, error: PluginError) -> Failure:
    """The file appears whole or not at all."""
    failure = Failure(str(error), traceback_of(error))
    write_text(home / "failure", json.dumps(asdict(failure)))
    return failure


def forget_failure(home: Path) -> None:
    """A new process begins here."""
    (home / "failure").unlink(missing_ok=True)


def read_failure(home: Path) -> Failure | None:
    """None while nothing has failed."""
    try:
        return Failure(**json.loads((home / "failure").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


class FailedPlans:
    """Whether the Balancer's algorithm has failed. The service outlives that and answers; a run ends with it."""

    def __init__(self, balancer_url: str) -> None:
        self._url = f"{balancer_url}/readyz"
        self._looked_us = wall_us()

    def now_and_then(self) -> str:
        """The same as `look`, but no more often than it is needed."""
        if wall_us() - self._looked_us < _PERIOD_US:
            return ""
        return self.look()

    def look(self) -> str:
        """The last failure, with algorithm, event and cluster time; empty if there was none, or nobody answers."""
        self._looked_us = wall_us()
        try:
            answer = requests.get(self._url, timeout=5)
        except requests.RequestException:
            return ""  # a Balancer that is gone is noticed elsewhere
        return "".join(answer.text.splitlines()[1:2])
