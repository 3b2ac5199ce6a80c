"""Schedules that a person can follow, by the reference and by the compiled passes: when each job starts."""

from __future__ import annotations

from typing import Any, Protocol

from balancer.clock import US
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from oracle.reference import Job, Options, reference_schedule
from oracle.workloads import job_table


class Starts(Protocol):
    """Start of each job in seconds, in the order of the jobs."""

    def __call__(
        self, jobs: list[Job], nodes: int, order: Any, backfill: str, **options: Any
    ) -> list[float]: ...


def by_reference(jobs: list[Job], nodes: int, order: Any, backfill: str, **options: Any) -> list[float]:
    schedule = reference_schedule(jobs, nodes, order=order, backfill=backfill, options=Options(**options))
    return [schedule[job.number][0] / US for job in jobs]


def by_kernel(jobs: list[Job], nodes: int, order: Any, backfill: str, **options: Any) -> list[float]:
    config = SchedulerConfig(order=order, backfill=backfill, **options)  # type: ignore[arg-type]
    record = simulate(job_table(jobs), nodes, config)
    start_us = dict(zip(record.jobs.number.tolist(), record.start_us.tolist(), strict=True))
    return [start_us[job.number] / US for job in jobs]
