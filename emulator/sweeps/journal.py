"""Lines that processes add to a folder, perhaps at once and on several machines: each writes a file of its own.

A file for each line would be thousands; to make one costs more than all that is done for a short run, and a folder of
many is what parallel file systems are slowest at.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is whole, and where it is: file and number, from 1."""

    path: Path
    number: int
    text: bytes


class Journal:
    """The lines of a folder, which must be there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: Path | None = None
        self._read: dict[Path, tuple[int, int]] = {}
        """Of each file how many bytes and lines were read."""

    def add(self, text: str) -> None:
        """Add a line, whole or not at all. Raises OSError."""
        line = text.encode() + b"\n"
        with self._file().open("ab", buffering=0) as file:
            end = file.tell()
            if file.write(line) != len(line):
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._own))

    def new(self) -> Iterator[Line]:
        """Whole lines of others since this was asked last. What a killed process was writing is no line."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            if path == self._own:
                continue
            begin, number = self._read.get(path, (0, 0))
            with path.open("rb") as file:
                file.seek(begin)
                for text in file:
                    if not text.endswith(b"\n"):
                        break
                    begin, number = begin + len(text), number + 1
                    self._read[path] = begin, number
                    yield Line(path, number, text)

    def _file(self) -> Path:
        """Ours: a new one when the first line is added."""
        if self._own is None:
            path = self._folder / f"{token_hex(8)}{_SUFFIX}"
            path.touch(exist_ok=False)
            self._own = path
        return self._own
