"""What `emulator.run` gives: the figures, tables and pictures of one run."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emulator.metrics import summarize
from emulator.metrics.timeline import timeline
from emulator.report import files, tables
from emulator.report.summary_text import html_table, summary_rows

if TYPE_CHECKING:
    from os import PathLike

    from emulator.record.run_record import RunRecord
    from emulator.report.compare import Comparison
    from emulator.report.gantt import Gantt

Which = Literal["jobs", "events", "nodes", "timeline"]
Unit = Literal["us", "s"]


class Result:
    """One run. Tables are Arrow tables, made when they are first asked for; times are microseconds (`_us`).

    `record`: all that the run left behind, as the harness keeps it. It is for the curious: it changes with the code.
    """

    def __init__(self, record: RunRecord, *, bounded_slowdown_threshold_s: float = 10) -> None:
        self.record = record
        self._threshold_s = bounded_slowdown_threshold_s

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every figure of the run by name, as in `summary.json` (docs/results.md defines each)."""
        return summarize(self.record, bounded_slowdown_threshold_s=self._threshold_s)

    @cached_property
    def jobs(self) -> pa.Table:
        """One row a job or lease, sorted by (submit, number): the columns of `jobs.parquet`."""
        return tables.jobs_table(self.record).whole()

    @cached_property
    def events(self) -> pa.Table:
        """Everything that happened, in order: the columns of `events.parquet`."""
        return tables.events_table(self.record).whole()

    @cached_property
    def nodes(self) -> pa.Table:
        """One row a node: `node` (its index), `name`, `runs` that had it, `busy_us` with them, `utilization`.

        The last three are null where it was not recorded which nodes a run had.
        """
        record, runs = self.record, self.record.runs
        count = len(record.node_names)
        sizes = np.diff(runs.first)
        end_us = np.where(runs.end_us < 0, record.horizon_us, runs.end_us)
        busy_us = np.zeros(count, np.int64)
        np.add.at(busy_us, runs.node, np.repeat(end_us - runs.start_us, sizes))
        is_unknown = np.full(count, len(runs.job) > 0 and not len(runs.node))
        span_us = max(record.horizon_us - record.begin_us, 1)
        return pa.table(
            {
                "node": pa.array(np.arange(count, dtype=np.int32)),
                "name": pa.array(record.node_names, pa.string()),
                "runs": pa.array(np.bincount(runs.node, minlength=count), mask=is_unknown),
                "busy_us": pa.array(busy_us, mask=is_unknown),
                "utilization": pa.array(busy_us / span_us, mask=is_unknown),
            }
        )

    def timeline(self) -> pa.Table:
        """The cluster over time as steps: a row holds from its `at_us` to that of the next one.

        Nodes by pool (`oa_idle`, `oa_busy`, `od_reserve`, `od_alloc`, `down`), `queued_jobs`, `queued_nodes` (batch
        jobs that wait, and what they ask for), and `utilization`.
        """
        line = timeline(self.record)
        return pa.table(
            {
                "at_us": line.at_us,
                **{pool.value.lower(): steps for pool, steps in line.pools.items()},
                "queued_jobs": line.queued_jobs,
                "queued_nodes": line.queued_nodes,
                "utilization": line.used_nodes / line.nodes,
            }
        )

    def to_pandas(self, table: Which = "jobs", *, unit: Unit = "us") -> Any:
        """A table as a pandas.DataFrame. Raises ImportError where pandas is not installed.

        `unit`: times as they are (`wait_us`), or with "s" in seconds (`wait_s`, with fractions). Raises ValueError for
        a table or unit that there is not.
        """
        return as_pandas(self._table(table, unit))

    def to_polars(self, table: Which = "jobs", *, unit: Unit = "us") -> Any:
        """A table as a polars.DataFrame, as `to_pandas`. Raises ImportError where polars is not installed."""
        return as_polars(self._table(table, unit))

    def _table(self, name: str, unit: str) -> pa.Table:
        if name not in get_args(Which):
            raise ValueError(f"there is no table {name!r}; known: {', '.join(get_args(Which))}")
        if unit not in get_args(Unit):
            raise ValueError(f"unit: us or s, not {unit!r}")
        found = self.timeline() if name == "timeline" else getattr(self, name)
        return in_seconds(found) if unit == "s" else found

    def compare(self, other: Result) -> Comparison:
        """Hold it beside another run, job by job."""
        from emulator.report.compare import compare  # noqa: PLC0415 - only then

        return compare(self.record, other.record)

    def gantt(self) -> Gantt:
        """The schedule as a chart, which job had which nodes when: shown in a notebook, `save` writes a page."""
        from emulator.report.gantt import Gantt  # noqa: PLC0415 - only then

        return Gantt(self.record, self.name)

    def save(self, folder: str | PathLike[str], *, report: bool = True) -> Path:
        """Write the results as `emulator run` does, with `report.html` unless told otherwise. Raises ResultsError."""
        files.write(self.record, Path(folder), bounded_slowdown_threshold_s=self._threshold_s, report=report)
        return Path(folder)

    @property
    def name(self) -> str:
        """The scenario's."""
        return str(self.record.scenario.get("name") or "run")

    def __repr__(self) -> str:
        rows = dict(summary_rows(self.summary))
        return f"<Result {self.name}: {rows['batch jobs run']} batch jobs run, wait {rows['wait time']}>"

    def _repr_html_(self) -> str:
        warnings = [f"interrupted: {self.summary['interrupted']}"] if self.summary["interrupted"] else []
        warnings += [f"the record contradicts itself: {problem}" for problem in self.summary["problems"]]
        return html_table(self.name, summary_rows(self.summary), [*warnings])


def in_seconds(table: pa.Table) -> pa.Table:
    """The table with its times, columns `..._us` of numbers, in seconds as `..._s`."""
    names = [
        name.removesuffix("_us") + "_s" if _is_time(table.schema.field(name)) else name
        for name in table.column_names
    ]
    columns = [
        pc.divide(column.cast(pa.float64()), 1e6) if _is_time(field) else column
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.table(columns, names=names)


def _is_time(field: pa.Field) -> bool:
    return bool(field.name.endswith("_us") and pa.types.is_integer(field.type))


def as_pandas(table: pa.Table) -> Any:
    """The table as a pandas.DataFrame. Raises ImportError where pandas is not installed."""
    _needed("pandas")
    return table.to_pandas()


def as_polars(table: pa.Table) -> Any:
    """The table as a polars.DataFrame. Raises ImportError where polars is not installed."""
    return _needed("polars").from_arrow(table)


def _needed(library: str) -> Any:
    """A library that is not ours to bring."""
    try:
        return import_module(library)
    except ImportError as error:
        raise ImportError(f"to_{library} needs {library}: pip install {library}") from error
