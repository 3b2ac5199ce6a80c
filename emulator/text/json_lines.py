"""Files to which JSON lines are appended, and that are read again after their writer may have died.

A line is flushed before `write` returns: what a process has written survives its death (not a power cut: no fsync).
"""

from __future__ import annotations

import json
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Parsed = TypeVar("Parsed")


class JsonLines:
    """Appends to one file. `path` None: nothing is kept. Methods may be called from any thread."""

    def __init__(self, path: Path | None, *, anew: bool = False) -> None:
        """`anew`: what is in the file goes; else half a line at its end does. Raises OSError."""
        if path is not None and not anew:
            _cut_half_line(path)
        self._lock = Lock()
        self._file = None if path is None else path.open("w" if anew else "a", encoding="utf-8")

    def write(self, value: Any) -> None:
        """Add a line."""
        if self._file is None:
            return
        line = json.dumps(value, separators=(",", ":")) + "\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_json_lines(path: Path, parse: Callable[[Any], Parsed], what: str) -> Iterator[Parsed]:
    """What `parse` makes of each line; nothing if there is no file. Nothing is changed.

    A last line without its end was being written when the writer died: nobody was told of it, and it is left out.
    Raises ValueError with file, line and `what` a line should be, for what is no JSON or what `parse` does not take.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                parsed = parse(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}:{number}: not {what}: {error!r}") from error
            yield parsed


def _cut_half_line(path: Path) -> None:
    """So that lines can follow what a writer that died has left."""
    if not path.exists():
        return
    text = path.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        with path.open("r+b") as file:
            file.truncate(whole)
