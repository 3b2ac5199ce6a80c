"""The server's memory of jobs: everything it was told, in order, from which it is rebuilt after a death.

The server does nothing by itself: commands, agents' messages and due times go in, one after the other in one
thread, each with its cluster time. So the same entries into a new server give the same server again, jobs, queue
and scheduler's state included. An entry is one JSON line, written before its consequences can be seen (for a
command: before its answer); a process that dies loses nothing of it. Power cuts are not covered (no fsync).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.live.settings import SettingsError
from emulator.text.json_lines import JsonLines, read_json_lines

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
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = JsonLines(path)

    def write(self, now_us: int, what: str, *details: Any) -> None:
        self._lines.write([now_us, what, *details])

    def close(self) -> None:
        self._lines.close()


def is_change(argv: tuple[str, ...]) -> bool:
    """Whether a command may change the server, so that it must be remembered."""
    if argv[0] == "pbsnodes":
        return any(argument.startswith(_CHANGING_OPTIONS) for argument in argv[1:])
    return argv[0] not in _READING


def _read(path: Path) -> Iterator[tuple[int, str, list[Any]]]:
    try:
        yield from read_json_lines(path, _entry, "a line of a journal")
    except ValueError as error:
        raise SettingsError(f"{error}; delete the file to start without jobs") from error


def _entry(line: list[Any]) -> tuple[int, str, list[Any]]:
    now_us, what, *details = line
    return int(now_us), str(what), details
