"""Why a live run must end early: a plug-in failed in one of its processes, or the volume where they write is full.

A plug-in that fails leaves a file in its process's home.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import requests

from balancer.clock import wall_us
from balancer.whole_file import write_text
from emulator.live.process import read_ready
from emulator.plugins.failure import traceback_of

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.plugins.failure import PluginError

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
    found = read_ready(home / "failure")
    return None if found is None else Failure(**found)


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


# Room where processes write.

_LEAST_BYTES = 16 << 20
_BALLAST_BYTES = 1 << 20
_SHARE = 16
"""Of a volume that is smaller than 256 MiB this part is kept free instead."""
_MIB = 1 << 20


class DiskGuard:
    """The file system of a folder. Its ballast is a file that is given up at the end, so that others can write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"

    def reserve(self) -> None:
        """Raises OSError where there is not even room for the ballast."""
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, min(_BALLAST_BYTES, self._total // _SHARE))

    def release(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _total(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_blocks * found.f_frsize

    def shortage(self) -> str:
        """Why nobody can go on writing there, '' as long as everybody can."""
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        if free >= min(_LEAST_BYTES, self._total // _SHARE):
            return ""
        return (
            f"the volume of {self._folder} is full: {free / _MIB:.1f} MiB of "
            f"{self._total / _MIB:.0f} MiB are free; make room, then start the run again"
        )


def is_full(error: OSError) -> bool:
    return error.errno in {errno.ENOSPC, errno.EDQUOT}
