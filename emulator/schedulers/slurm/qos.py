"""QOS: priorities and limits, as `sacctmgr show qos --parsable2` prints them or a scenario says them.

What each means: sacctmgr's manual page, Resource Limits (slurm.schedmd.com). The rules: `docs/slurm-twin.md` for the
twin, `docs/job-rules.md` for the plain schedulers, which know more of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.schedulers.slurm.times import INFINITE, minutes

UNDEFINED = -1
NORMAL = "normal"
"""The QOS of those who ask for none, and have no other default (sacctmgr's manual page)."""
_LIMIT = re.compile(r"(\w+(?:/[\w:]+)?)=(\d+)")
_KEYS = {
    "priority": "priority",
    "grpjobs": "grp_jobs",
    "grptres": "grp_nodes",
    "maxjobspu": "user_jobs",
    "maxjobsperuser": "user_jobs",
    "maxtrespu": "user_nodes",
    "maxtresperuser": "user_nodes",
    "maxtres": "max_nodes",
    "maxtresperjob": "max_nodes",
    "mintres": "min_nodes",
    "mintresperjob": "min_nodes",
    "maxwall": "max_wall",
    "maxwalldurationperjob": "max_wall",
}
_PLAIN_KEYS = {
    "grpsubmit": "grp_submitted",
    "grpsubmitjobs": "grp_submitted",
    "grptresrunmin": "grp_node_min",
    "grptresrunmins": "grp_node_min",
    "maxsubmitpu": "user_submitted",
    "maxsubmitjobspu": "user_submitted",
    "maxsubmitjobsperuser": "user_submitted",
    "maxtresrunminspu": "user_node_min",
    "maxtresrunminsperuser": "user_node_min",
    "maxjobspa": "account_jobs",
    "maxjobsperaccount": "account_jobs",
    "maxtrespa": "account_nodes",
    "maxtresperaccount": "account_nodes",
    "maxsubmitpa": "account_submitted",
    "maxsubmitjobspa": "account_submitted",
    "maxsubmitjobsperaccount": "account_submitted",
    "maxtresrunminspa": "account_node_min",
    "maxtresrunminsperaccount": "account_node_min",
}
"""Columns that the plain schedulers know and the twin does not."""
_NOT_SCHEDULING = {
    "name", "id", "description", "descr", "preemptmode", "preemptexempttime", "gracetime", "rawusage",
    "deleted",
}  # fmt: skip
"""Of no meaning where nobody preempts; who does (`Preempt`) is refused."""
_HARMLESS = {"usagefactor": 1.0, "usagethres": 0.0, "usagethreshold": 0.0, "limitfactor": 1.0}
"""Columns that may be there if they say what they say by default."""


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service. Limits are counts of jobs and whole nodes, `max_wall` minutes; UNDEFINED: none.

    `grp_`: of what runs in it together, `user_` and `account_`: of what runs in it for each user and account;
    `_submitted`: of what runs or waits; `_node_min`: node-minutes as they are asked for. The others are of one job.
    """

    name: str
    priority: int = 0
    grp_jobs: int = UNDEFINED
    grp_nodes: int = UNDEFINED
    user_jobs: int = UNDEFINED
    user_nodes: int = UNDEFINED
    max_nodes: int = UNDEFINED
    min_nodes: int = UNDEFINED
    max_wall: int = UNDEFINED
    grp_submitted: int = UNDEFINED
    grp_node_min: int = UNDEFINED
    user_submitted: int = UNDEFINED
    user_node_min: int = UNDEFINED
    account_jobs: int = UNDEFINED
    account_nodes: int = UNDEFINED
    account_submitted: int = UNDEFINED
    account_node_min: int = UNDEFINED

    @property
    def limits(self) -> tuple[int, int, int, int]:
        """Those that make a job wait for others to end, in the order of `tables.GRP_JOBS`, ..."""
        return self.grp_jobs, self.grp_nodes, self.user_jobs, self.user_nodes


Said = Mapping[str, Mapping[str, Any]]
"""Of each QOS by name the columns, called as sacctmgr calls them."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """How a table is read: who reads it, which columns it knows, and how many CPUs make a node."""

    who: str
    columns: Mapping[str, str]
    cpus_per_node: int | None


def read_qos(said: Path | Said, cpus_per_node: int | None, *, plain: bool = False) -> tuple[Qos, ...]:
    """All QOS of a table, `normal` among them, by name. Raises ValueError that names QOS and column.

    A file is what `sacctmgr show qos --parsable2` printed. In a scenario the columns have the same names. `plain`: for
    the plain schedulers, not for the twin.
    """
    who, columns = ("a plain scheduler", _KEYS | _PLAIN_KEYS) if plain else ("the twin", _KEYS)
    reader = _Reader(who, columns, cpus_per_node)
    rows = (
        {name: (f"{said}:{line}: qos {name}", row) for line, name, row in _rows(said)}
        if isinstance(said, Path)
        else {name: (f"qos {name}", row) for name, row in said.items()}
    )
    found = {name: _qos(name, where, row, reader) for name, (where, row) in rows.items()}
    found.setdefault(NORMAL, Qos(NORMAL))
    return tuple(found[name] for name in sorted(found))


def columns_of(path: Path) -> dict[str, dict[str, str]]:
    """What a table in a file says, as a scenario would say it. Raises ValueError that names file and line."""
    return {name: row for _, name, row in _rows(path)}


def _rows(path: Path) -> list[tuple[int, str, dict[str, str]]]:
    """(line, QOS, its columns) that are not empty."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"qos: {path} cannot be read: {error}") from error
    heading = lines[0].rstrip("|").split("|") if lines else []
    if "Name" not in heading:
        raise ValueError(
            f"qos: {path}:1: {_other_form(lines)}; write what `sacctmgr show qos --parsable2` prints"
        )
    found: dict[str, tuple[int, str, dict[str, str]]] = {}
    for number, line in enumerate(lines[1:], 2):
        values = line.split("|")
        if len(values) < len(heading):
            raise ValueError(f"qos: {path}:{number}: {len(values)} columns, the heading has {len(heading)}")
        row = {column: text for column, text in zip(heading, values, strict=False) if text.strip()}
        name = row.pop("Name", "").strip()
        if not name:
            raise ValueError(f"qos: {path}:{number}: this QOS has no name")
        found[name] = number, name, row
    return list(found.values())


def _other_form(lines: list[str]) -> str:
    """What a file is that has no heading with bars."""
    if lines and lines[0].lstrip().startswith("{"):
        return "this is JSON, which has other names for the columns"
    if lines and "Name" in lines[0].split():
        return "these are columns of a fixed width, which cut long values short"
    return "no heading with Name|..."


def _qos(name: str, who: str, columns: Mapping[str, Any], reader: _Reader) -> Qos:
    values: dict[str, int] = {}
    for column, said in columns.items():
        key, text = column.lower(), str(said).strip()
        if key in _NOT_SCHEDULING or not text:
            continue
        where = f"{who}: {column}={text}"
        if key in _HARMLESS:
            if _number(text, where) != _HARMLESS[key]:
                raise ValueError(f"{where}: {reader.who} does not know it; leave it out to do without")
        elif key == "flags" and text.lower() == "denyonlimit":
            continue  # jobs beyond a limit of single jobs are refused before the run in any case
        elif key not in reader.columns:
            raise ValueError(f"{where}: {reader.who} does not know this; leave it out to do without")
        else:
            values[reader.columns[key]] = _value(reader.columns[key], text, where, reader)
    return Qos(name, **values)


def _value(key: str, text: str, where: str, reader: _Reader) -> int:
    if text == "-1":
        return 0 if key == "priority" else UNDEFINED
    if key.endswith(("_nodes", "_node_min")):
        return _nodes(text, where, reader, at_least=key == "min_nodes")
    if key == "max_wall":
        try:
            limit = minutes(text)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        return UNDEFINED if limit == INFINITE else limit
    return int(_number(text, where))


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0:
        raise ValueError(f"{where}: expected a number that is not negative")
    return value


def _nodes(text: str, where: str, reader: _Reader, *, at_least: bool) -> int:
    """Whole nodes that a list of TRES allows (or asks for). Raises ValueError for what is no matter of nodes."""
    found: list[int] = []
    for each in text.split(","):
        match = _LIMIT.fullmatch(each)
        if match is None:
            raise ValueError(f"{where}: expected TRES=NUMBER, such as node=4")
        kind, count = match[1].lower(), int(match[2])
        if kind == "node":
            found.append(count)
        elif kind == "cpu" and reader.cpus_per_node is not None:
            found.append(-(-count // reader.cpus_per_node) if at_least else count // reader.cpus_per_node)
        elif kind == "cpu":
            raise ValueError(f"{where}: set cpus_per_node, because jobs have whole nodes here")
        else:
            raise ValueError(f"{where}: {reader.who} knows node and cpu; leave {kind} out to do without")
    return max(found) if at_least else min(found)
