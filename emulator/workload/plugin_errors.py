"""Generators, transforms and trace formats of a user's own: what goes wrong in them is told with name and file."""

from __future__ import annotations

import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from balancer.plugins import whose
from emulator.plugins import PluginError
from emulator.workload.files import TraceError
from emulator.workload.sound_jobs import sound
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_OURS = ("emulator", "balancer")
_Answer = TypeVar("_Answer")


def is_own(thing: object) -> bool:
    """Whether a plug-in is none of the project's."""
    return type(thing).__module__.partition(".")[0] not in _OURS


def named(group: str, thing: object) -> str:
    """A plug-in for an error: of a user's own kind, name and place, of ours what it says of itself."""
    return whose(group, thing) if is_own(thing) else str(thing)


@contextmanager
def errors_named(group: str, thing: object, method: str) -> Iterator[None]:
    """What a plug-in of a user's own raises in the block comes out as PluginError with its name, file and line."""
    try:
        yield
    except (PluginError, TraceError):
        raise
    except Exception as error:
        if not is_own(thing):
            raise
        file = getattr(sys.modules.get(type(thing).__module__), "__file__", None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        where = f", line {lines[-1]}" if lines else ""
        raise PluginError(
            f"{whose(group, thing)} failed in {method}{where}: {type(error).__name__}: {error}"
        ) from error


def answer_of(group: str, thing: object, method: str, kind: type[_Answer], *arguments: Any) -> _Answer:
    """What a plug-in's method returns. Raises PluginError where one of a user's own fails or returns another kind."""
    with errors_named(group, thing, method):
        found = getattr(thing, method)(*arguments)
    if not isinstance(found, kind):
        raise PluginError(
            f"{whose(group, thing)}: {method} must return {kind.__name__} ({kind.__module__}), not {_a_thing(found)}"
        )
    return found


def jobs_from(group: str, thing: object, method: str, *arguments: Any, **named: Any) -> JobTable:
    """What a generator or transform makes. Raises PluginError where one of a user's own fails or makes no job table."""
    own = is_own(thing)
    arguments = tuple(each.read_only() if own and isinstance(each, JobTable) else each for each in arguments)
    with errors_named(group, thing, method):
        found = getattr(thing, method)(*arguments, **named)
    if not isinstance(found, JobTable):
        raise PluginError(
            f"{whose(group, thing)}: {method} must return a JobTable (emulator.workload.table), not "
            f"{_a_thing(found)}"
        )
    if not own:
        return found
    try:
        return sound(found)
    except ValueError as error:
        raise PluginError(f"{whose(group, thing)}: {method}: {error}") from error


class OwnFormat:
    """A trace format of a user's own. Its errors come out as TraceError, with the trace and whose they are."""

    def __init__(self, group: str, reader: Any) -> None:
        self._group = group
        self._reader = reader
        self.name = str(getattr(reader, "name", type(reader).__name__))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def can_read(self, path: Path) -> bool:
        return bool(self._call("can_read", path))

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        from emulator.workload.swf import SwfLog  # noqa: PLC0415 - slow, and only where a log is read

        log = self._call("read", path, lenient=lenient)
        if not isinstance(log, SwfLog):
            raise TraceError(
                f"{path}: {whose(self._group, self._reader)}: read must return an SwfLog "
                f"(emulator.workload.swf), not {_a_thing(log)}"
            )
        return log

    def _call(self, method: str, path: Path, **named: Any) -> Any:
        try:
            with errors_named(self._group, self._reader, method):
                return getattr(self._reader, method)(path, **named)
        except PluginError as error:
            raise TraceError(f"{path}: {error}") from error


def _a_thing(found: object) -> str:
    return "None" if found is None else f"{type(found).__name__}"
