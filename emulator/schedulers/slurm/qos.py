"""QOS: priorities and limits, as `sacctmgr show qos` prints them or a scenario says them.

What each means: sacctmgr's manual page, Resource Limits (slurm.schedmd.com). The rules: `docs/slurm-twin.md` for the
twin, `docs/job-rules.md` for the plain schedulers, which know more of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from emulator.schedulers.slurm.preemption_settings import (
    PreemptMode,
    exempt_time,
    grace_time,
    not_followed,
    preempt_mode,
)
from emulator.schedulers.slurm.sacctmgr import Table, read_rows
from emulator.schedulers.slurm.times import INFINITE, minutes
from emulator.schedulers.slurm.unsupported_limits import would_have_done

UNDEFINED = -1
NORMAL = "normal"
"""The QOS of those who ask for none, and have no other default (sacctmgr's manual page)."""
_LIMIT = re.compile(r"([^=,]+)=(\d+)([KMGTP]?)")
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
"""Of no meaning where nobody preempts; who does (`Preempt`) is refused by the plain schedulers."""
_MODES_OF_ALL = {"", "cluster", "disabled"}
"""What `PreemptMode` of a QOS says where that of slurm.conf counts."""
_TABLE = Table(
    what="qos",
    shown="qos",
    column="Name",
    listed="qos",
    columns={
        "name": "Name",
        "description": "Description",
        "flags": "Flags",
        "priority": "Priority",
        "usage_factor": "UsageFactor",
        "usage_threshold": "UsageThreshold",
        "limits/factor": "LimitFactor",
        "limits/grace_time": "GraceTime",
        "limits/max/active_jobs/count": "GrpJobs",
        "limits/max/active_jobs/accruing": "GrpJobsAccrue",
        "limits/max/jobs/count": "GrpSubmit",
        "limits/max/tres/total": "GrpTRES",
        "limits/max/tres/minutes/total": "GrpTRESMins",
        "limits/max/tres/minutes/per/qos": "GrpTRESRunMins",
        "limits/max/wall_clock/per/qos": "GrpWall",
        "limits/max/jobs/active_jobs/per/account": "MaxJobsPA",
        "limits/max/jobs/active_jobs/per/user": "MaxJobsPU",
        "limits/max/accruing/per/account": "MaxJobsAccruePA",
        "limits/max/accruing/per/user": "MaxJobsAccruePU",
        "limits/max/jobs/per/account": "MaxSubmitPA",
        "limits/max/jobs/per/user": "MaxSubmitPU",
        "limits/max/tres/minutes/per/job": "MaxTRESMins",
        "limits/max/tres/per/account": "MaxTRESPA",
        "limits/max/tres/per/job": "MaxTRES",
        "limits/max/tres/per/node": "MaxTRESPerNode",
        "limits/max/tres/per/user": "MaxTRESPU",
        "limits/max/tres/minutes/per/account": "MaxTRESRunMinsPA",
        "limits/max/tres/minutes/per/user": "MaxTRESRunMinsPU",
        "limits/max/wall_clock/per/job": "MaxWall",
        "limits/min/priority_threshold": "MinPrioThreshold",
        "limits/min/tres/per/job": "MinTRES",
        "preempt/list": "Preempt",
        "preempt/mode": "PreemptMode",
        "preempt/exempt_time": "PreemptExemptTime",
    },
    seconds=frozenset({"preempt/exempt_time"}),
    harmless=frozenset(_NOT_SCHEDULING - {"name", "preemptmode", "preemptexempttime", "gracetime"}),
)
_DEFAULTS = {"usagefactor": 1.0, "usagethres": 0.0, "usagethreshold": 0.0, "limitfactor": 1.0}
"""Columns that may be there if they say what they say by default."""
_OF_THE_TWIN = {"preempt", "usagefactor"}
_NO_FLAGS = {"denyonlimit", "deny_limit"}
"""Jobs beyond a limit of single jobs are refused before the run in any case."""


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service. Limits are counts of jobs and whole nodes, `max_wall` minutes; UNDEFINED: none.

    `grp_`: of what runs in it together, `user_` and `account_`: of what runs in it for each user and account;
    `_submitted`: of what runs or waits; `_node_min`: node-minutes as they are asked for. The others are of one job.
    `preempt`: whose jobs its jobs may take the nodes of; `preempt_mode`: what becomes of its own jobs then, None for
    what becomes of all; `grace_time`: so many seconds they go on before; `preempt_exempt_time`: who has run for
    fewer seconds keeps its nodes, UNDEFINED for what holds for all. `usage_factor`: so many times what its jobs use
    counts for fair shares.
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
    preempt: tuple[str, ...] = ()
    preempt_mode: PreemptMode | None = None
    grace_time: int = 0
    preempt_exempt_time: int = UNDEFINED
    usage_factor: float = 1.0

    @property
    def limits(self) -> tuple[int, int, int, int]:
        """Those that make a job wait for others to end, in the order of `tables.GRP_JOBS`, ..."""
        return self.grp_jobs, self.grp_nodes, self.user_jobs, self.user_nodes


Said = Mapping[str, Mapping[str, Any]]
"""Of each QOS by name the columns, called as sacctmgr calls them."""


class LeftOut(NamedTuple):
    """What a column says of who has it (a QOS, an association), and what it would have done."""

    who: str
    column: str
    text: str
    why: str

    def __str__(self) -> str:
        return f"{self.who}: {self.column}={self.text}: {self.why}"


@dataclass(frozen=True, slots=True)
class LimitReader:
    """How a table is read: who reads it, which columns it knows, and how many CPUs make a node.

    `left_out`: None if what it does not know is an error, else it is told there. `in_cores`: jobs share nodes, so that
    limits are of cores (`cpu`), and those of nodes are not known.
    """

    who: str
    columns: Mapping[str, str]
    cpus_per_node: int | None
    left_out: list[LeftOut] | None = None
    of_the_twin: bool = False
    in_cores: bool = False

    def values(
        self, place: str, who: str, columns: Mapping[str, Any], no_meaning: Container[str]
    ) -> dict[str, int]:
        """What the columns of a row say, by the names in `columns`. Raises ValueError that begins with its place."""
        found: dict[str, int] = {}
        for column, value in columns.items():
            key, text = column.lower(), str(value).strip()
            if key in no_meaning or not text:
                continue
            said = LeftOut(who, column, text, f"{self.who} does not know this; leave it out to do without")
            if key in self.columns:
                found[self.columns[key]] = _value(self.columns[key], place, said, self)
            elif self.left_out is None:
                raise ValueError(f"{place}{said}")
            else:
                self.left_out.append(said._replace(why=would_have_done(key)))
        return found


def read_qos(
    said: Path | Said,
    cpus_per_node: int | None,
    *,
    plain: bool = False,
    left_out: list[LeftOut] | None = None,
    in_cores: bool = False,
) -> tuple[Qos, ...]:
    """All QOS of a table, `normal` among them, by name. Raises ValueError that names QOS and column.

    A file is what `sacctmgr show qos` printed, in any of its forms. In a scenario the columns have the same names.
    `plain`: for the plain schedulers, not for the twin. `left_out`: what is not known is no error, but told there.
    `in_cores`: jobs share nodes, and limits of nodes are of cores.
    """
    who, columns = ("a plain scheduler", _KEYS | _PLAIN_KEYS) if plain else ("the twin", _KEYS)
    reader = LimitReader(who, columns, cpus_per_node, left_out, of_the_twin=not plain, in_cores=in_cores)
    rows = (
        {name: (f"{place}: ", row) for place, name, row in _rows(said)}
        if isinstance(said, Path)
        else {name: ("", row) for name, row in said.items()}
    )
    found = {name: _qos(name, where, row, reader) for name, (where, row) in rows.items()}
    found.setdefault(NORMAL, Qos(NORMAL))
    table = tuple(found[name] for name in sorted(found))
    return table if plain else tuple(_with_more(each, rows.get(each.name), reader, table) for each in table)


def _with_more(
    qos: Qos, row: tuple[str, Mapping[str, Any]] | None, reader: LimitReader, table: tuple[Qos, ...]
) -> Qos:
    """With what its row says of preemption and usage. Raises ValueError that begins with the row's place."""
    where, columns = row or ("", {})
    said = {column.lower(): "off" if text is False else str(text).strip() for column, text in columns.items()}
    names = tuple(name for name in re.split(r"[,\s]+", said.get("preempt", "")) if name)
    for name in names:
        if name not in {each.name for each in table}:
            there = ", ".join(each.name for each in table)
            raise ValueError(f"{where}qos {qos.name}: Preempt={name}: no such QOS; there are: {there}")
    mode = said.get("preemptmode", "")
    has_own = mode.lower() not in _MODES_OF_ALL
    if has_own and (why := not_followed(mode)):
        left_out = LeftOut(f"qos {qos.name}", "PreemptMode", mode, why)
        if reader.left_out is None:
            raise ValueError(f"{where}{left_out}; leave it out to do without")
        reader.left_out.append(left_out)

    def time(column: str, read: Callable[[str], int]) -> int:
        text = said.get(column.lower(), "")
        try:
            return read(text)
        except ValueError as error:
            raise ValueError(f"{where}qos {qos.name}: {column}={text}: {error}") from error

    factor = said.get("usagefactor") or "1"
    return replace(
        qos,
        preempt=names,
        preempt_mode=preempt_mode(mode) if has_own else None,
        grace_time=time("GraceTime", grace_time),
        preempt_exempt_time=time("PreemptExemptTime", exempt_time),
        usage_factor=_number(factor, f"{where}qos {qos.name}: UsageFactor={factor}"),
    )


def levels(table: tuple[Qos, ...]) -> list[int]:
    """How many QOS stand below each that it may preempt, one below the other. Raises ValueError for a circle."""
    by_name = {each.name: each for each in table}

    def level(qos: Qos, above: tuple[str, ...]) -> int:
        if qos.name in above:
            raise ValueError(f"slurm: qos: {' and '.join(sorted(above))} preempt each other")
        return max((1 + level(by_name[name], (*above, qos.name)) for name in qos.preempt), default=0)

    return [level(each, ()) for each in table]


def columns_of(path: Path) -> dict[str, dict[str, str]]:
    """What a table in a file says, as a scenario would say it. Raises ValueError that names file and line."""
    return {name: dict(row) for _, name, row in _rows(path)}


def _rows(path: Path) -> list[tuple[str, str, Mapping[str, str]]]:
    """(place, QOS, its columns) that are not empty; of several with one name the last."""
    found: dict[str, tuple[str, str, Mapping[str, str]]] = {}
    for each in read_rows(path, _TABLE):
        row = {column: text.strip() for column, text in each.said.items()}
        name = row.pop("Name", "")
        if not name:
            raise ValueError(f"qos: {each.place}: this QOS has no name")
        found[name] = each.place, name, row
    return list(found.values())


def _qos(name: str, place: str, columns: Mapping[str, Any], reader: LimitReader) -> Qos:
    who, limits = f"qos {name}", {}
    for column, said in columns.items():
        key, text = column.lower(), str(said).strip()
        if key in _DEFAULTS and text and _number(text, f"{place}{who}: {column}={text}") == _DEFAULTS[key]:
            continue
        if key == "flags" and text.lower() in _NO_FLAGS:
            continue
        if key in _OF_THE_TWIN and reader.of_the_twin:
            continue
        limits[column] = said
    values: dict[str, Any] = {**reader.values(place, who, limits, _NOT_SCHEDULING)}
    return Qos(name, **values)


def _value(key: str, place: str, said: LeftOut, reader: LimitReader) -> int:
    where, text = f"{place}{said.who}: {said.column}={said.text}", said.text
    if text == "-1":
        return 0 if key == "priority" else UNDEFINED
    if key.endswith(("_nodes", "_node_min")):
        return _nodes(where, said, reader, at_least=key == "min_nodes")
    if key == "max_wall":
        try:
            limit = minutes(text)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        return UNDEFINED if limit == INFINITE else limit
    return int(min(_number(text, where), INFINITE))


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0:
        raise ValueError(f"{where}: expected a number that is not negative")
    return value


def _nodes(where: str, said: LeftOut, reader: LimitReader, *, at_least: bool) -> int:
    """Whole nodes, or cores, that a list of TRES allows (or asks for). Raises ValueError for what is neither."""
    found: list[int] = []
    for each in said.text.split(","):
        match = _LIMIT.fullmatch(each)
        if match is None:
            raise ValueError(f"{where}: expected TRES=NUMBER, such as node=4")
        kind, count = match[1].lower(), min(int(match[2]), INFINITE)
        if kind == ("cpu" if reader.in_cores else "node"):
            found.append(count)
        elif kind == "cpu" and reader.cpus_per_node is not None:
            found.append(-(-count // reader.cpus_per_node) if at_least else count // reader.cpus_per_node)
        elif reader.left_out is not None:
            why = ", unless cpus_per_node is set" if kind == "cpu" else ""
            reader.left_out.append(said._replace(why=f"{kind} is no limit in {reader.who}{why}"))
        elif reader.in_cores:
            raise ValueError(
                f"{where}: jobs share nodes, and limits are of cpu; leave {kind} out to do without"
            )
        elif kind == "cpu":
            raise ValueError(f"{where}: set cpus_per_node, because jobs have whole nodes here")
        else:
            raise ValueError(f"{where}: {reader.who} knows node and cpu; leave {kind} out to do without")
    if not found:
        return UNDEFINED
    return max(found) if at_least else min(found)
