"""Which column of a table over time counts nodes, servers or cores: a series of watts is no usage.

A column counts by its own name (`nodes`, `vcpus_used`), and `value` or `volume` by what the rows say of it in another
column (`unit`, `name`, `meter`). Where neither says so a user does, with `--usage-column` or `workload.usage_column`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.workload.files import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


@dataclass(slots=True)
class NamedColumn:
    """The column that a user named, where that was said, and whether a series was read by it."""

    name: str
    source: str = "--usage-column"
    is_used: bool = False


USAGE_COLUMN: ContextVar[NamedColumn | None] = ContextVar("USAGE_COLUMN", default=None)
"""None if nobody named one."""
VALUES = ("value", "volume")
_MOST = 5
DESCRIPTION_COLUMNS = ("unit", "name", "meter", "metric", "type", "counter_name", "counter_unit")
"""Columns that say what the value of a row is."""
_COUNTED = frozenset({
    "node", "host", "hypervisor", "server", "instance", "vm", "machine", "core", "cpu", "vcpu", "pcpu", "processor",
    "proc", "gpu", "slot",
})  # fmt: skip
_ANOTHER = frozenset({
    "temperature", "temp", "celsius", "watt", "power", "energy", "joule", "frequency", "mhz", "ghz", "util",
    "utilization", "utilisation", "usage", "percent", "percentage", "pct", "share", "ratio", "load", "second", "time",
    "hour", "id", "uuid", "name", "memory", "ram", "disk", "byte", "price", "cost", "packet", "error",
})  # fmt: skip
"""With one of these a name is of a property of nodes or cores, not of how many there are."""
_NOT_IN_USE = frozenset({
    "free", "idle", "available", "total", "capacity", "quota", "limit", "down", "drained", "offline", "unused", "spare",
})  # fmt: skip
"""With one of these it is of those that there are or that nobody has, unless it says `used` (`total_cores_used`)."""


@contextmanager
def usage_in(path: Path, name: str | None) -> Iterator[None]:
    """Of a table over time that is read in here this column is usage, unless the command line names one.

    None: nothing is named. Raises TraceError where no table over time was read, so that the name was not used.
    """
    if name is None or USAGE_COLUMN.get() is not None:
        yield
        return
    column = NamedColumn(name.strip().lower(), "workload.usage_column")
    token = USAGE_COLUMN.set(column)
    try:
        yield
    finally:
        USAGE_COLUMN.reset(token)
    if not column.is_used:
        raise TraceError(f"{path}: {column.source} {name}: it is no table over time; leave the key out")


def counts(text: str) -> bool:
    """Whether a name or unit says nodes, servers, cores or such that are in use.

    >>> counts("vcpus_used"), counts("cpu_util"), counts("W")
    (True, False, False)
    """
    words = {word.removesuffix("s") for word in re.findall(r"[a-z]+", text.lower())}
    if words & _NOT_IN_USE and not words & {"used", "use"}:
        return False
    return bool(words & _COUNTED) and not words & {word.removesuffix("s") for word in _ANOTHER}


def might_be_usage(names: Sequence[str]) -> bool:
    """Whether a heading is that of a series over time: a timestamp and a value, or little but a usage."""
    if "timestamp" not in names:
        return False
    named = USAGE_COLUMN.get()
    value_names = [name for name in names if name not in {"timestamp", "granularity"}]
    return (
        any(name in value_names for name in VALUES)
        or (named is not None and named.name in value_names)
        or (len(value_names) == 1 and counts(value_names[0]))
    )


def usage_column(path: Path, names: Sequence[str], rows: Iterable[dict[str, str]]) -> str:
    """The column to read. Raises TraceError with the columns there are, and what they might be."""
    named = USAGE_COLUMN.get()
    if named is not None:
        named.is_used = True
        if named.name not in names or named.name == "timestamp":
            raise TraceError(f"{path}: {named.source} {named.name}: its columns are {', '.join(names)}")
        return named.name
    by_name = [name for name in names if counts(name)]
    if len(by_name) == 1:
        return by_name[0]
    values = [name for name in VALUES if name in names]
    of_rows = [{row[column] for column in DESCRIPTION_COLUMNS if row.get(column)} for row in rows]
    if not by_name and of_rows and all(any(map(counts, each)) for each in of_rows):
        return values[0]
    if by_name:
        raise TraceError(
            f"{path}: {' and '.join(by_name)} may each count what was in use; say which with --usage-column"
        )
    units_found = sorted(set().union(*of_rows))[:_MOST]
    units = f" (said of it: {', '.join(units_found)})" if units_found else ""
    column = next(iter(values), "NAME")
    raise TraceError(
        f"{path}: its columns are {', '.join(names)}, and none says that it counts nodes, servers or cores{units}: it"
        f" might be watts, degrees or a share of load as well; if it is usage, say --usage-column {column}"
    )
