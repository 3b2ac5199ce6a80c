"""Files to which whole lines are appended, read again after their writer may have died."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def whole_lines(path: Path) -> list[bytes]:
    """The lines of the file, none if there is no file.

    A last line without its end was being written when the writer died: nobody was told of it. It is cut off, so that
    lines can be appended.
    """
    if not path.exists():
        return []
    text = path.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        with path.open("r+b") as file:
            file.truncate(whole)
    return text[:whole].splitlines()
