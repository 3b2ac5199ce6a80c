"""What if users asked for more: the recommendation when the batch load, or the on-demand load, has grown.

How a load is grown: `emulator/workload/grow.py`. A week still begins with what ran when it began, so a load that is
more than the machine can do builds up its queue for one week and no longer: its wait is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.study.judge import choice, sums
from emulator.study.logs import Pair, from_origin
from emulator.study.merge import PAIRING, plan
from emulator.study.settings import SPLIT, Setting
from emulator.sweeps.grid import LABEL, Sweep
from emulator.workload.grow import WEEK_US, more_jobs, node_time, turned
from emulator.workload.streams import stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from emulator.study.judge import Wishes
    from emulator.study.logs import Logs
    from emulator.sweeps.grid import Run
    from emulator.workload.table import JobTable

GROWN = "grown"
"""Column of the rows: `batch +10 %`."""
LOADS = ("batch", "on-demand")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A setting at a load: `wait_min` is the mean of the runs, `wait_ratio` its wait over the split's at this load."""

    setting: str
    given_up: int
    requests: int
    rejected: int
    wait_min: float
    wait_ratio: float | None


@dataclass(frozen=True, slots=True)
class GrowthOutcome:
    """`load` ('' as it is) has `percent` more node-time, or nearly: `reached` per cent.

    `today` is the split, `kept` what is recommended now, `best` what would be recommended then, None where nothing that
    was tried keeps to the wishes. `used` is the node-time asked for, of both, over that of the machine.
    """

    load: str
    percent: float
    reached: float
    used: float
    today: Outcome
    kept: Outcome
    best: Outcome | None


@dataclass(frozen=True, slots=True)
class Step:
    """One growth: `name` as in the column, the rest as in `GrowthOutcome`."""

    name: str
    load: str
    percent: float
    reached: float
    used: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The runs of all growths; the first of `steps` is the load as it is."""

    sweep: Sweep
    steps: tuple[Step, ...]


def candidates(settings: Sequence[Setting], recommended: Setting, wishes: Wishes) -> list[Setting]:
    """What is tried at a grown load: the split, the static reserves whose wait is accepted, and what is recommended."""
    tried = [
        each
        for each in settings
        if each == recommended
        or each.algorithm == SPLIT
        or (each.algorithm == "basic" and each.wait_min <= wishes.longest_wait_min)
    ]
    return list(dict.fromkeys(tried))


def plan_growth(
    logs: Logs,
    weeks: Sequence[int],
    settings: Sequence[Setting],
    percents: Sequence[float],
    *,
    ondemand_nodes: int,
    scheduler: Any,
    seed: int,
    folder: Path,
) -> Growth:
    """Stores the grown weeks in `folder`; each week has its own leases."""
    pairs = [Pair(week, week, 1) for week in weeks]
    room = WEEK_US * len(weeks) * (logs.batch_nodes + ondemand_nodes)
    tables = dict(zip(LOADS, (logs.batch, logs.leases), strict=True))
    work_by_load = {load: _work_of(from_origin(logs, table), weeks) for load, table in tables.items()}
    work_now = sum(work_by_load.values())
    runs: list[Run] = []
    steps = [Step("", "", 0.0, 0.0, work_now / room)]
    for load, table in tables.items():
        for percent in percents:
            name = f"{load} +{percent:g} %"
            more, work = added(logs, table, weeks, percent / 100, seed=seed, name=load)
            reached = 100 * work / work_by_load[load] if work_by_load[load] else 0.0
            steps.append(Step(name, load, percent, reached, (work_now + work) / room))
            part = plan(
                logs, pairs, settings, ondemand_nodes=ondemand_nodes, scheduler=scheduler, seed=seed,
                folder=folder / f"{load}-{percent:g}", more={load: more}, varied={GROWN: name},
            )  # fmt: skip
            runs += part.runs
    return Growth(Sweep("growth", tuple(runs)), tuple(steps))


def added(
    logs: Logs, table: JobTable, weeks: Iterable[int], share: float, *, seed: int, name: str
) -> tuple[dict[int, JobTable], float]:
    """By week the jobs that are added, at times from the begin of its run, and the node-microseconds of all of them.

    What one week could not take, because every job is larger, the next one gets, so that all weeks together have
    grown by the share. Growths of one load by several shares draw in the same order, so the larger has most of the
    smaller. A warm-up grows with its week.
    """
    jobs = from_origin(logs, table)
    every = jobs.submit_us // WEEK_US
    found: dict[int, JobTable] = {}
    work = rest = 0.0

    def grown(week: int, rest: float) -> tuple[JobTable, float]:
        week_jobs = jobs.take(every == week)
        rng = stream(seed, f"study.growth.{name}.{week}")
        pool = jobs.take(every != week)
        target = share * float(node_time(week_jobs).sum()) + rest
        more = more_jobs(pool if len(pool) else turned(week_jobs, rng), target, rng)
        return more, target - float(node_time(more).sum())

    for week in sorted(weeks):
        more, left = grown(week, rest)
        work, rest = work + float(node_time(more).sum()), left
        if logs.warm_up_us:
            later = replace(more, submit_us=more.submit_us + logs.warm_up_us)
            more = grown(week - 1, 0.0)[0].merge(later)
        found[week] = more
    return found, work


def outcomes(  # noqa: PLR0917 - of the study, and of its growths
    rows: Sequence[Mapping[str, Any]],
    grown_rows: Sequence[Mapping[str, Any]],
    growth: Growth,
    settings: Sequence[Setting],
    recommended: Setting,
    wishes: Wishes,
    ondemand_nodes: int,
) -> tuple[GrowthOutcome, ...]:
    """As it is first, then each growth. `rows` are of the study itself, of which the weeks as they were count."""
    asis = [row for row in rows if row[PAIRING] == 1]
    found = []
    for step in growth.steps:
        load_rows = asis if not step.load else [row for row in grown_rows if row[GROWN] == step.name]
        best = choice(load_rows, settings, wishes)
        then = None if best is None else _outcome(load_rows, best, ondemand_nodes)
        if then is not None and not wishes.accept(then.rejected, then.requests):
            then = None
        today = _outcome(load_rows, Setting(SPLIT), 0)
        unchanged = _outcome(load_rows, recommended, ondemand_nodes)
        if today is not None and unchanged is not None:  # none where all runs failed
            found.append(
                GrowthOutcome(step.load, step.percent, step.reached, step.used, today, unchanged, then)
            )
    return tuple(found)


def _outcome(rows: Sequence[Mapping[str, Any]], setting: Setting, ondemand_nodes: int) -> Outcome | None:
    runs = sum(row[LABEL] == setting.label for row in rows)
    if not runs:
        return None
    requests, rejected, wait_s = sums(rows, setting)
    today_s = sums(rows, Setting(SPLIT))[2]
    return Outcome(
        setting=setting.label,
        given_up=ondemand_nodes - setting.reserve,
        requests=requests,
        rejected=rejected,
        wait_min=wait_s / runs / 60,
        wait_ratio=wait_s / today_s if today_s else None,
    )


def _work_of(jobs: JobTable, weeks: Iterable[int]) -> int:
    """Node-microseconds of the jobs of these weeks."""
    selected = np.isin(jobs.submit_us // WEEK_US, list(weeks))
    return int(node_time(jobs)[selected].sum())
