"""The files of a streamed run, written as they come, each in the blocks in which it would be written whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.lists import gather, gather_intervals
from emulator.record.layout import PIECE
from emulator.record.run_record import RunRecord, RunTable
from emulator.report import files, sheets, tables
from emulator.report.batsim_jobs import batsim_table
from emulator.workload.table import JobTable, joined

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.report.sheets import Sheet
    from emulator.stream.figures import Figures
    from emulator.stream.window import Happened

    Ints = NDArray[np.int64]


class _Regrouped:
    """A Parquet file of parts of a sheet: its row groups are those of the whole sheet."""

    def __init__(self, path: Path) -> None:
        self._file = files.ParquetFile(path)
        self._parts: list[pa.Table] = []
        self._rows = self._nodes = 0

    def add(self, sheet: Sheet) -> None:
        part, widths = sheet.whole(), sheet.widths
        while len(part):
            room = int(np.searchsorted(np.cumsum(widths), sheets.MOST_NODES - self._nodes, "right"))
            count = min(room, sheets.MOST_ROWS - self._rows, len(part))
            if not self._rows:
                count = max(count, 1)
            self._parts.append(part.slice(0, count))
            self._rows += count
            self._nodes += int(widths[:count].sum())
            part, widths = part.slice(count), widths[count:]
            if len(part):
                self._write(sheet.name)

    def _write(self, name: str) -> None:
        if self._rows:
            self._file.write(pa.concat_tables(self._parts).combine_chunks(), name)
        self._parts, self._rows, self._nodes = [], 0, 0

    def end(self, name: str, metadata: dict[bytes, str] | None = None) -> None:
        self._write(name)
        self._file.close(metadata)

    def close(self) -> None:
        self._file.close()


class Streamed:
    """Keeps the jobs that are not over, and all jobs behind the first of these: files have them in order."""

    def __init__(self, folder: Path, like: RunRecord, figures: Figures) -> None:
        self._like = like
        self._figures = figures
        self._jobs_file, self._events_file = (
            _Regrouped(folder / files.JOBS),
            _Regrouped(folder / files.EVENTS),
        )
        self._csv = files.CsvFile(folder / files.JOBS_CSV)
        self._first = 0
        """The first job that is kept."""
        self._jobs = JobTable.empty()
        self._start_us, self._end_us = np.empty(0, np.int64), np.empty(0, np.int64)
        # Intervals of each job: `pieces[begin:begin + count]`, one number each (first << 32 | how many).
        self._begin, self._count = np.empty(0, np.int64), np.empty(0, np.int64)
        self._pieces = np.empty(0, np.int64)

    def add(self, jobs: JobTable, happened: Happened) -> None:
        """A block of jobs and what happened while it was the last one."""
        self._jobs = joined(self._jobs, jobs)
        for name, value in (("_start_us", -1), ("_end_us", -1), ("_begin", 0), ("_count", 0)):
            setattr(self, name, np.append(getattr(self, name), np.full(len(jobs), value, np.int64)))
        started, ended = happened.started - self._first, happened.ended - self._first
        self._start_us[started] = happened.start_us
        self._end_us[ended] = happened.end_us
        self._begin[started] = len(self._pieces) + happened.cut[:-1]
        self._count[started] = np.diff(happened.cut)
        packed = (happened.pieces["begin"].astype(np.int64) << 32) | happened.pieces["count"]
        self._pieces = np.append(self._pieces, packed)
        self._write_events(jobs, happened)
        running = np.flatnonzero(self._end_us < 0)
        self._write_jobs(int(running[0]) if len(running) else len(self._jobs))

    def close(self) -> None:
        """Whatever became of it."""
        for file in (self._jobs_file, self._events_file, self._csv):
            file.close()

    def end(self, record: RunRecord) -> None:
        """All jobs are over; `record` has what is known of the run only now."""
        self._jobs_file.end("node_list", files.kept_metadata(record))
        self._events_file.end("nodes")

    def _write_events(self, jobs: JobTable, happened: Happened) -> None:
        number, wide = self._jobs.number, self._jobs.nodes
        started = happened.started - self._first
        first = np.append(0, np.cumsum(wide[started], dtype=np.int64))
        sheet = tables.plain_events(
            jobs,
            ends=(happened.end_us, number[happened.ended - self._first], happened.over),
            starts=(
                happened.start_us, number[started], happened.first_run + np.arange(len(started)),
            ),
            nodes=(first, _nodes(happened.pieces, int(first[-1]))),
        )  # fmt: skip
        self._events_file.add(sheet)

    def _write_jobs(self, count: int) -> None:
        """The first jobs that are kept, which are over."""
        if not count:
            return
        record = self._record(count)
        self._jobs_file.add(tables.jobs_table(record))
        self._csv.write(batsim_table(record))
        self._figures.add(
            record.jobs.submit_us, record.start_us, record.end_us, record.jobs.nodes.astype(np.int64)
        )
        self._first += count
        self._jobs = self._jobs.take(np.arange(count, len(self._jobs)))
        for name in ("_start_us", "_end_us", "_begin", "_count"):
            setattr(self, name, getattr(self, name)[count:].copy())
        pieces = np.empty(int(self._count.sum()), np.int64)
        gather(self._pieces, self._begin, self._count, pieces)
        self._begin, self._pieces = np.cumsum(self._count) - self._count, pieces

    def _record(self, count: int) -> RunRecord:
        jobs = self._jobs.take(np.arange(count))
        packed = np.empty(int(self._count[:count].sum()), np.int64)
        gather(self._pieces, self._begin[:count], self._count[:count], packed)
        pieces = np.empty(len(packed), PIECE)
        pieces["begin"], pieces["count"] = packed >> 32, packed & 0xFFFF_FFFF
        first = np.append(0, np.cumsum(jobs.nodes, dtype=np.int64))
        start_us, end_us = self._start_us[:count].copy(), self._end_us[:count].copy()
        runs = RunTable(
            job=np.arange(count, dtype=np.int32),
            start_us=start_us,
            end_us=end_us,
            outcome=np.full(count, RunOutcome.FINISHED, np.int8),
            first=first,
            node=_nodes(pieces, int(first[-1])),
        )
        return RunRecord(
            jobs=jobs,
            node_names=self._like.node_names,
            state=np.full(count, JobState.ENDED, np.int8),
            start_us=start_us,
            end_us=end_us,
            runs=runs,
            begin_us=0,
            horizon_us=0,
            scenario=self._like.scenario,
        )


def _nodes(pieces: NDArray[Any], count: int) -> NDArray[np.int32]:
    nodes: NDArray[Any] = np.empty(count, np.int32)
    gather_intervals(np.ascontiguousarray(pieces), nodes)
    return nodes
