"""Random rules of jobs, and runs with rules and limits, for the tests that hold them against the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.events.external_events import ExternalEvents
from emulator.events.job_rules import JobRules
from emulator.kernel.job_states import JobState
from emulator.simulation.loop import Loop
from emulator.simulation.run import make_cluster
from emulator.workload.relations import KIND_NAMES, ready_to_run
from oracle.job_rules import After, Rule
from oracle.workloads import job_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.events.job_limits import Limit
    from emulator.record.run_record import RunRecord
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable
    from oracle.reference import Job


def random_rules(rng: np.random.Generator, jobs: list[Job]) -> dict[int, Rule]:
    """Rules for many of the jobs; each waits only for jobs with smaller numbers, so nobody waits for himself."""
    longest = 1 + max(job.submit_us + job.run_us for job in jobs) // US
    limits = {array: int(rng.integers(1, 4)) for array in range(3)}
    has = {name: rng.random() < 0.6 for name in ("after", "cancel", "deadline", "array")}
    rules = {}
    for job in jobs:
        before = [other.number for other in jobs if other.number < job.number]
        after = tuple(
            After(
                int(rng.choice(before)), str(rng.choice(list(KIND_NAMES))), int(rng.choice((0, 0, 1, 7))) * US
            )
            for _ in range(int(rng.choice((0, 0, 1, 1, 2, 3))))
            if before and has["after"]
        )
        array = int(rng.integers(3)) if has["array"] and rng.random() < 0.5 else None
        rules[job.number] = Rule(
            after=after,
            cancel_us=int(rng.integers(0, longest)) * US if has["cancel"] and rng.random() < 0.3 else None,
            deadline_us=int(rng.integers(0, longest)) * US
            if has["deadline"] and rng.random() < 0.3
            else None,
            array=array,
            limit=None if array is None else limits[array],
            status=int(rng.choice((-1, 0, 1, 1, 5))),
        )
    return rules


def ruled_table(jobs: list[Job], rules: dict[int, Rule]) -> JobTable:
    table = job_table(jobs)
    mine = [rules.get(number, Rule()) for number in table.number.tolist()]

    def column(values: list[int | None]) -> np.ndarray:
        return np.array([-1 if value is None else value for value in values], np.int64)

    columns = {
        "cancel_after_us": column([rule.cancel_us for rule in mine]),
        "deadline_after_us": column([rule.deadline_us for rule in mine]),
        "array": column([rule.array for rule in mine]),
        "array_limit": column([rule.limit for rule in mine]),
    }
    for k in range(max((len(rule.after) for rule in mine), default=0)):
        suffix = "" if k == 0 else f"_{k + 1}"
        kth = [rule.after[k] if len(rule.after) > k else None for rule in mine]
        columns["after_number" + suffix] = column([each and each.number for each in kth])
        columns["after_kind" + suffix] = column(
            [None if each is None else KIND_NAMES[each.kind] for each in kth]
        )
        columns["after_delay_us" + suffix] = column([None if each is None else each.delay_us for each in kth])
    status = np.array([rule.status for rule in mine], np.int32)
    return ready_to_run(replace(table, status=status).with_extra(**columns))


def run_ruled(
    jobs: JobTable, nodes: int, scheduler: SchedulerConfig, limits: Sequence[Limit] = ()
) -> RunRecord:
    loop = Loop(make_cluster(nodes, scheduler, jobs), external_events=ExternalEvents(JobRules(jobs, limits)))
    loop.run()
    return loop.record()


def told(record: RunRecord) -> dict[int, tuple[int | None, int | None, bool]]:
    """Of each job when it started and ended, and whether it was cancelled."""
    rows = zip(
        record.jobs.number.tolist(),
        record.start_us.tolist(),
        record.end_us.tolist(),
        record.state.tolist(),
        strict=True,
    )
    return {
        number: (
            None if start < 0 else start,
            None if end < 0 else end,
            state == JobState.CANCELLED,
        )
        for number, start, end, state in rows
    }
