"""The sizes at which jobs can run, as a scenario's `moldable` says (`docs/moldable.md`): by a rule, and by a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from emulator.cluster.moldable import COLUMNS, is_moldable, joined, sizes_in, with_columns
from emulator.kernel.molding import Size
from emulator.kernel.rows import rows_of
from emulator.plugins import make_plugin
from emulator.workload.files import TraceError
from emulator.workload.job_file import lines_by_name, number_in, time_us_in
from emulator.workload.plugin_errors import named
from emulator.workload.speedup import GROUP, Speedup, speeds_of
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.config.scenario_parts import MoldablePart
    from emulator.kernel.rows import Rows
    from emulator.workload.table import JobTable

TOO_WIDE_A_SIZE = "sizes wider than the cluster"
_FILE = ("job", "nodes", "run_s", "walltime_s")
_MOST_SIZES = 1000
_LONGEST_US = 9_000_000_000_000_000
_Size: TypeAlias = tuple[int, int, int]
"""(nodes, run_us, estimate_us)"""


def with_sizes(
    jobs: JobTable,
    part: MoldablePart,
    *,
    nodes: int,
    rng: np.random.Generator,
    kills: bool,
    counted: dict[str, int],
) -> JobTable:
    """The jobs with their sizes in columns. Raises ValueError, and TraceError for the file.

    Those that the table has already stay, but for jobs of the file. `kills`: no run is longer than its walltime.
    `counted` is told how many sizes were left out.
    """
    model = make_plugin(GROUP, part.speedup)
    if not isinstance(model, Speedup):
        raise ValueError(f"{part.speedup!r} is no speed-up model")  # noqa: TRY004 - a border: one kind of error
    speeds = _Speeds(model)
    job, size = sizes_in(jobs)
    if not (part.sizes or part.file or len(job)):
        columns = f"the columns {COLUMNS[0]}, ..."
        raise ValueError(f"no job has sizes; give `sizes` or a `file`, or have a transform fill {columns}")
    drawn = _drawn(jobs, part, rng)
    by_rule = [_by_rule(jobs, row, part.sizes, nodes, speeds) for row in drawn]
    job, size = _added(job, size, drawn, by_rule)
    if part.file is not None:
        of_file = _of_file(jobs, part.file, speeds)
        stays = ~np.isin(job, list(of_file))
        job, size = _added(job[stays], size[stays], list(of_file), list(of_file.values()))
    fits = size["nodes"] <= nodes
    if not fits.all():
        counted[TOO_WIDE_A_SIZE] = int((~fits).sum())
        job, size = job[fits], size[fits]
    if kills:
        size["run_us"][:] = np.minimum(size["run_us"], size["estimate_us"])
    return with_columns(jobs, job, size)


class _Speeds:
    """How much longer a job runs on other nodes than it asks for; each pair is worked out once."""

    def __init__(self, model: Speedup) -> None:
        self._model = model
        self._known: dict[tuple[int, int], float] = {}

    def ratio(self, asked: int, width: int) -> float:
        """Speed on the nodes asked for over that on `width`."""
        if (asked, width) not in self._known:
            speed = speeds_of(self._model, np.array([asked, width], np.int64), asked)
            if not (np.isfinite(speed).all() and (speed > 0).all()):
                raise ValueError(f"{named(GROUP, self._model)} is no speed-up: it must be above 0")
            self._known[asked, width] = float(speed[0] / speed[1])
        return self._known[asked, width]

    def times_us(self, jobs: JobTable, row: int, width: int) -> tuple[int, int]:
        """Run time and walltime of a job on so many nodes."""
        ratio = self.ratio(int(jobs.nodes[row]), width)
        run_us, estimate_us = (round(int(each[row]) * ratio) for each in (jobs.run_us, jobs.estimate_us))
        if max(run_us, estimate_us) > _LONGEST_US:
            raise ValueError(f"job {jobs.number[row]} would run for more than 285 years on {width} nodes")
        return max(run_us, min(int(jobs.run_us[row]), 1)), max(estimate_us, 1)


def _added(
    job: NDArray[np.int64], size: Rows[Size], rows: list[int], found: list[list[_Size]]
) -> tuple[NDArray[np.int64], Rows[Size]]:
    """The sizes, and those that were found for these rows."""
    columns = np.array([each for sizes in found for each in sizes], np.int64).reshape(-1, 3)
    more = rows_of(Size, **dict(zip(("nodes", "run_us", "estimate_us"), columns.T, strict=True)))
    more_job = np.repeat(np.array(rows, np.int64), np.array([len(sizes) for sizes in found], np.int64))
    return np.concatenate((job, more_job)), joined((size, more))


def _drawn(jobs: JobTable, part: MoldablePart, rng: np.random.Generator) -> list[int]:
    """The jobs that have the scenario's `sizes`: a job drawn for a small share is drawn for a larger one, too."""
    if not part.sizes:
        return []
    may = (jobs.kind == Kind.BATCH) & ~is_moldable(jobs)
    if part.users or part.queues or part.jobs:
        named = (
            np.isin(jobs.user, part.users)
            | np.isin(jobs.queue, part.queues)
            | np.isin(jobs.number, part.jobs)
        )
        may &= named
    rows = rng.permutation(np.flatnonzero(may))
    return sorted(rows[: round(part.share * len(rows))].tolist())


def _by_rule(
    jobs: JobTable, row: int, factors: tuple[float, ...], nodes: int, speeds: _Speeds
) -> list[_Size]:
    """Multiples of the nodes asked for, halves rounded up; not those without a node, beyond the cluster, or twice."""
    asked = int(jobs.nodes[row])
    widths = sorted({int(np.floor(factor * asked + 0.5)) for factor in factors})
    return [(width, *speeds.times_us(jobs, row, width)) for width in widths if 1 <= width <= nodes]


def _of_file(jobs: JobTable, path: Path, speeds: _Speeds) -> dict[int, list[_Size]]:
    """The sizes of each row that a file says something of."""
    place = {number: row for row, number in enumerate(jobs.number.tolist())}
    found: dict[int, list[_Size]] = {}
    for where, said in lines_by_name(path, _FILE):
        row = place.get(number_in(said, "job", where))
        width = number_in(said, "nodes", where)
        if width < 1:
            raise TraceError(f"{where}: nodes is 0; a job needs one at least")
        if row is None or jobs.kind[row] != Kind.BATCH:
            continue
        sizes = found.setdefault(row, [])
        if any(width == other for other, *_ in sizes):
            raise TraceError(f"{where}: job {said['job']} has a size of {width} nodes already")
        if len(sizes) == _MOST_SIZES:
            raise TraceError(f"{where}: a job can have {_MOST_SIZES} sizes at most")
        sizes.append((width, *_times_us(jobs, row, width, said, where, speeds)))
    return found


def _times_us(  # noqa: PLR0917
    jobs: JobTable, row: int, width: int, said: dict[str, str], where: str, speeds: _Speeds
) -> tuple[int, int]:
    """As the line says; a walltime that it does not say is as much longer or shorter as the run time."""
    if said["run_s"]:
        run_us = time_us_in(said, "run_s", where)
        if run_us < 1:
            raise TraceError(f"{where}: run_s is 0; a job runs for some time")
        ratio = run_us / max(int(jobs.run_us[row]), 1)
        estimate_us = round(int(jobs.estimate_us[row]) * ratio)
    else:
        run_us, estimate_us = speeds.times_us(jobs, row, width)
    if said["walltime_s"]:
        estimate_us = time_us_in(said, "walltime_s", where)
    if max(run_us, estimate_us) > _LONGEST_US:
        raise TraceError(f"{where}: job {said['job']} would run for more than 285 years")
    return run_us, max(estimate_us, 1)
