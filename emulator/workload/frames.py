"""Jobs that a program has in its memory as a workload: a DataFrame, a table or arrays by name (docs/python.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.workload.sound_jobs import sound
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TIMES = {"submit": True, "run": True, "estimate": False}
"""Columns of times, each in seconds (`submit_s`) or microseconds (`submit_us`), and whether there must be one."""
_NUMBERS = {"nodes": True, "number": False, "queue": False, "user": False, "group": False, "status": False}
_LONGEST_US = 9_000_000_000 * US


class GivenJobs:
    """The generator that gives the jobs of a program; it is known by what is in them."""

    def __init__(self, jobs: JobTable) -> None:
        self.jobs = jobs
        digest = hashlib.sha256()
        for column in (
            "number",
            "submit_us",
            "run_us",
            "estimate_us",
            "nodes",
            "kind",
            "queue",
            "user",
            "group",
        ):
            digest.update(np.ascontiguousarray(getattr(jobs, column)).tobytes())
        for column in sorted(jobs.extra):
            digest.update(column.encode() + np.ascontiguousarray(jobs.extra[column]).tobytes())
        self.name = f"given_jobs_{digest.hexdigest()[:16]}"

    def generate(self, _rng: np.random.Generator, *, nodes: int) -> JobTable:
        """These jobs, whatever the seed. Raises ValueError for one that is wider than the cluster."""
        wide = np.flatnonzero(self.jobs.nodes > nodes)
        if len(wide):
            row = int(wide[0])
            raise ValueError(
                f"job {self.jobs.number[row]} asks for {self.jobs.nodes[row]} nodes, the cluster has {nodes}"
                f" ({len(wide)} such jobs); leave them out or say more nodes"
            )
        return self.jobs


def is_jobs(value: Any) -> bool:
    """Whether a value is a table of jobs: of pandas, polars or Arrow, a JobTable, or arrays by the names of columns."""
    if isinstance(value, JobTable):
        return True
    if isinstance(value, Mapping):
        return "submit_s" in value or "submit_us" in value
    return hasattr(value, "column_names") or (hasattr(value, "columns") and hasattr(value, "__getitem__"))


def jobs_of(value: Any) -> JobTable:
    """The table as jobs. Raises ValueError that names the column, and the row from 0."""
    if isinstance(value, JobTable):
        return _sound(value)
    names = _checked_names(value)
    columns: dict[str, Any] = {}
    rows: dict[str, int] = {}
    for name in _TIMES:
        least_us = 0 if name == "submit" else 1
        for unit, scale in (("s", US), ("us", 1)):
            if (given := f"{name}_{unit}") in names:
                columns[f"{name}_us"] = _times_us(value, given, scale, least_us)
                rows[given] = len(columns[f"{name}_us"])
    for name in _NUMBERS:
        if name in names:
            columns[name] = _whole(value, name, least={"nodes": 1, "number": 0}.get(name, -1))
            rows[name] = len(columns[name])
    first, count = next(iter(rows.items()))
    for name, found in rows.items():
        if found != count:
            raise ValueError(f"jobs: the column {name} has {found} rows, {first} has {count}")
    if not len(columns["nodes"]):
        raise ValueError("jobs: there is no row")
    numbers = columns.get("number", [])
    if len(np.unique(numbers)) != len(numbers):
        raise ValueError("jobs: a number is there twice in the column number")
    return JobTable.build(**columns)


def _sound(jobs: JobTable) -> JobTable:
    """The same jobs. Raises ValueError where there is none, or one that cannot be."""
    if not len(jobs):
        raise ValueError("jobs: there is no row")
    try:
        return sound(jobs)
    except ValueError as error:
        raise ValueError(f"jobs: {error}") from error


def _checked_names(value: Any) -> list[str]:
    """The names of the columns. Raises ValueError for one that is not known, there in both units, or missing."""
    names = [str(name) for name in _names(value)]
    known = [f"{name}_{unit}" for name in _TIMES for unit in ("s", "us")] + [*_NUMBERS]
    for name in names:
        if name not in known:
            raise ValueError(f"jobs: unknown column {name!r}; known: {', '.join(known)}")
    for name, is_needed in _TIMES.items():
        if {f"{name}_s", f"{name}_us"} <= {*names}:
            raise ValueError(f"jobs: give {name}_s or {name}_us, not both")
        if is_needed and not {f"{name}_s", f"{name}_us"} & {*names}:
            raise ValueError(f"jobs: there is no column {name}_s (or {name}_us)")
    for name, is_needed in _NUMBERS.items():
        if is_needed and name not in names:
            raise ValueError(f"jobs: there is no column {name}")
    return names


def _names(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Mapping) else list(getattr(value, "column_names", value.columns))


def _floats(value: Any, name: str) -> NDArray[Any]:
    """The column as numbers in one dimension. Raises ValueError."""
    try:
        found = np.asarray(value[name])
    except ValueError as error:  # rows of several lengths
        raise ValueError(f"jobs: the column {name} has no plain numbers: {error}") from error
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        hint = "; give seconds as numbers" if found.dtype.kind in "mM" else ""
        if found.ndim == 1 and found.dtype.kind in "OUST":
            hint = f"; number them, as in `pandas.factorize(frame[{name!r}])[0] + 1`"
        raise ValueError(
            f"jobs: the column {name} has no plain numbers (it is of the type {found.dtype}){hint}"
        )
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        raise ValueError(f"jobs: {name} is {found[wrong[0]]} in row {wrong[0]}, which is no number")
    return found


def _times_us(value: Any, name: str, scale: int, least_us: int) -> NDArray[np.int64]:
    found = _floats(value, name)
    us = found.astype(np.float64) * scale
    wrong = np.flatnonzero((us < least_us) | (us > _LONGEST_US))
    if len(wrong):
        least = "at least 0" if least_us == 0 else "above 0"
        raise ValueError(f"jobs: {name} is {found[wrong[0]]} in row {wrong[0]}; {least}, at most 285 years")
    if found.dtype.kind == "f":
        return np.rint(us).astype(np.int64)
    return found.astype(np.int64) * scale


def _whole(value: Any, name: str, *, least: int) -> NDArray[np.int64]:
    found = _floats(value, name)
    most = 2**62 if name == "number" else 2**31 - 1
    wrong = np.flatnonzero((found < least) | (found > most) | (found != np.rint(found)))
    if len(wrong):
        raise ValueError(
            f"jobs: {name} is {found[wrong[0]]} in row {wrong[0]}; a whole number of at least {least} is expected"
        )
    return found.astype(np.int64)
