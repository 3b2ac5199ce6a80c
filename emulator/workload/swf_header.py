"""The header of a log in SWF, and that of another one below its jobs, where files were put together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from emulator.workload.files import TraceError

if TYPE_CHECKING:
    from pathlib import Path

HEADER_KEY = re.compile(r"^;\s*([A-Za-z]\w*)\s*:\s*(.*?)\s*$")
_ONCE = re.compile(r"UnixStartTime|MaxProcs|MaxNodes|[A-Z][a-z]+Column")
_OF_ALL_JOBS = {"UnixStartTime", "MaxProcs", "MaxNodes"}
_NUMBERED = {"Queue", "Reservation", "Qos", "Constraint"}
"""Keys that one log has once, and those that it has once for each number."""


class Header:
    """Takes the lines of a header, and of those below jobs what they say anew. `again`: how many these were."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines: list[str] = []
        self.again = 0
        self._jobs_above = 0

    def take(self, text: str, line: int, jobs_above: int) -> None:
        """Raises TraceError for a line that makes two logs of the file."""
        if not jobs_above or not HEADER_KEY.match(text):
            self._refuse_two_sizes(text, line)
            self.lines.append(text)
            return
        name, value = _said_once(text)
        before = next((said for each, said in map(_said_once, self.lines) if name and each == name), value)
        if before != value:
            raise TraceError(
                f"{self._path}:{line}: a second header, whose {name} is {value[:40]!r} and not {before[:40]!r}: these"
                " are two logs; put each into a file of its own"
            )
        if text not in self.lines:
            self.lines.append(text)
        elif jobs_above > self._jobs_above:
            self._jobs_above = jobs_above
            self.again += 1

    def size_from(self) -> str:
        """Why the header does not say the size of the cluster, if it does not."""
        pairs = [match.groups() for line in self.lines if (match := HEADER_KEY.match(line))]
        said = [
            f"{key} of its header is {value[:40]!r}"
            for key, value in pairs
            if key in {"MaxProcs", "MaxNodes"}
        ]
        return ", ".join(said) or "its header has no MaxProcs or MaxNodes"

    def _refuse_two_sizes(self, text: str, line: int) -> None:
        """Where headers stand one behind the other, above all jobs, which one is right is unknown."""
        name, value = _said_once(text)
        if name not in _OF_ALL_JOBS:
            return
        before = next((said for each, said in map(_said_once, self.lines) if each == name), value)
        if before.split()[:1] != value.split()[:1]:
            raise TraceError(
                f"{self._path}:{line}: {name} is {value[:40]!r} here and {before[:40]!r} above: keep the one that is"
                " right"
            )


def _said_once(line: str) -> tuple[str, str]:
    """What a line says that can be so only once in a log, and its value; empty if nothing."""
    match = HEADER_KEY.match(line)
    key, value = match.groups() if match else ("", "")
    if _ONCE.fullmatch(key):
        return key, value
    number, _, name = value.partition(" ")
    return (f"{key} {number}", name.strip()) if key in _NUMBERED else ("", "")
