"""Trace formats: the protocol one satisfies, and `load`, which finds the right one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from emulator.plugins import make_plugin, plugin_names
from emulator.workload import other_files
from emulator.workload.files import TraceError, open_trace
from emulator.workload.plugin_errors import OwnFormat, is_own

if TYPE_CHECKING:
    from os import PathLike

    from emulator.workload.swf import SwfLog

__all__ = ["GROUP", "TraceError", "TraceFormat", "find_format", "load"]

GROUP = "emulator.trace_formats"
_FEW = 20


@runtime_checkable
class TraceFormat(Protocol):
    """Reads one kind of job log. A class with no constructor arguments, declared in the group above.

    Every format reads into an `SwfLog`: the columns of the Standard Workload Format are the common ground of
    job logs, and what a log does not know is -1 there.
    """

    name: str

    def can_read(self, path: Path) -> bool:
        """Whether the file's beginning looks like this format. TraceError if it cannot be opened.

        A format with a true attribute `reads_folders` is also asked about folders. One with a method
        `hint(path) -> str | None` may say of a file that no format can read what would make it readable.
        """

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """The whole log. A malformed line raises TraceError with file and line, or is counted if lenient."""


def load(path: str | PathLike[str], *, trace_format: str | None = None, lenient: bool = False) -> SwfLog:
    """Read a job log in the named format, or in the first one (by name) that says it can read the file.

    Raises TraceError for a file that is absent, empty, damaged or in no known format, and for a malformed
    line; ValueError for an unknown format name.
    """
    return find_format(path, trace_format=trace_format).read(Path(path), lenient=lenient)


def find_format(path: str | PathLike[str], *, trace_format: str | None = None) -> TraceFormat:
    """The format in which `load` reads a file or folder, and its errors."""
    path = Path(path)
    folder = path.is_dir()
    if not folder:
        with open_trace(path) as stream:
            if not stream.read(1):
                raise TraceError(f"{path}: the file is empty")
    names = plugin_names(GROUP) if trace_format is None else [trace_format]
    for name in names:
        reader = _reader(name)
        if folder and not getattr(reader, "reads_folders", False):
            continue
        if trace_format is not None or reader.can_read(path):
            return reader
    what = "not a folder of logs" if folder else "not a trace"
    hints = _hints_of_folder(path) if folder else _hints(path, names)
    more = "".join(f"; {hint}" for hint in hints)
    raise TraceError(f"{path}: {what} in a known format (known: {', '.join(names)}){more}")


def _reader(name: str) -> TraceFormat:
    reader: TraceFormat = make_plugin(GROUP, name)
    return OwnFormat(GROUP, reader) if is_own(reader) else reader


def _hints_of_folder(path: Path) -> list[str]:
    """What a folder is that no format can read: one of files that a format reads each by itself, or known otherwise."""
    if known := other_files.hints_of_folder(path):
        return known
    files = sorted(file for file in path.iterdir() if file.is_file())[:_FEW]
    for file in files:
        try:
            name = find_format(file).name
        except TraceError:
            continue
        return [
            f"{file.name} is in the format {name}: name the file, or put those of one log one behind the other (cat)"
        ]
    return []


def _hints(path: Path, names: list[str]) -> list[str]:
    """What a file is that no format can read: by its bytes, as the formats say, or of a program that none is for."""
    if by_bytes := other_files.hint_of_bytes(path):
        return [by_bytes]
    readers = (_reader(name) for name in names)
    found = (reader.hint(path) for reader in readers if hasattr(reader, "hint"))
    hints = [hint for hint in found if hint]
    other = None if hints else other_files.hint_of_text(path)
    return hints if other is None else [other]
