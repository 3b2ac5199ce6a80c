"""The server's memory of jobs: everything it was told, in order, from which it is rebuilt after a death.

The server does nothing by itself: commands, agents' messages and due times go in, one after the other in one
thread, each with its cluster time. So the same entries into a new server give the same server again, jobs, queue
and scheduler's state included. An entry is one JSON line, written before its consequences can be seen (for a
command: before its answer); a process that dies loses nothing of it. Power cuts are not covered (no fsync).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from emulator.live.lines import whole_lines
from emulator.live.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READING = {"qstat", "qselect"}
_CHANGING_OPTIONS = ("-o", "-c", "-r", "-N", "-A")


class Journal:
    """Appends to one file. `path` None: nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.past = [] if path is None else list(_read(path))
        """(cluster time, what, details) of the server that wrote here before."""
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")

    def write(self, now_us: int, what: str, *details: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps([now_us, what, *details], separators=(",", ":")) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def is_change(argv: tuple[str, ...]) -> bool:
    """Whether a command may change the server, so that it must be remembered."""
    if argv[0] == "pbsnodes":
        return any(argument.startswith(_CHANGING_OPTIONS) for argument in argv[1:])
    return argv[0] not in _READING


def _read(path: Path) -> Iterator[tuple[int, str, list[Any]]]:
    for number, line in enumerate(whole_lines(path), 1):
        try:
            now_us, what, *details = json.loads(line)
        except ValueError as error:
            raise SettingsError(
                f"{path}:{number}: not a line of a journal; delete the file to start without jobs"
            ) from error
        yield int(now_us), str(what), details
