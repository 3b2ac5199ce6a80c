"""Figures of one span of time within a run: the week of an experiment, without its warm-up and its tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import micros
from emulator.metrics import jobs as job_figures
from emulator.metrics import ondemand as ondemand_figures
from emulator.metrics.timeline import timeline
from emulator.record.run_record import NodePool
from emulator.workload.preload import is_preloaded
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.metrics.timeline import Steps, Timeline
    from emulator.record.run_record import RunRecord

_HOUR_US = 3_600_000_000


def window_figures(
    record: RunRecord, begin_s: float, end_s: float, *, without_queue: int | None = None
) -> dict[str, Any]:
    """Figures over [begin_s, end_s): node-time within it, and jobs and requests submitted within it.

    Utilisation is "usage over time" as in Liu 2018, section III-A: node-time used in the span over nodes times
    its length (the whole run's `utilization` would count the days in which the last jobs run out). Waits are
    those of jobs submitted in the span, whenever they start; `mean_wait_after_begin_s` is without the jobs submitted
    at time 0, which are those that ran already when the trace begins (`emulator/workload/preload.py`): they wait 0.
    Jobs of `without_queue` are not among the jobs and their waits, but on average wait `mean_wait_of_queue_s`.
    """
    begin_us, end_us = micros(begin_s), micros(end_s)
    line = timeline(record)
    whole = line.nodes * (end_us - begin_us)
    spent = {pool: _within(line, count, begin_us, end_us) for pool, count in line.pools.items()}
    rows = job_figures.batch_jobs_run(record)
    is_left_out = np.zeros(len(record.jobs), np.bool_)
    if without_queue is not None:
        is_left_out = (record.jobs.queue == without_queue) & (record.jobs.kind == Kind.BATCH)
    apart, rows = rows[is_left_out[rows]], rows[~is_left_out[rows]]
    apart_us = record.jobs.submit_us[apart]
    apart = apart[(apart_us >= begin_us) & (apart_us < end_us)]
    submit_us = record.jobs.submit_us[rows]
    inside = (submit_us >= begin_us) & (submit_us < end_us)
    wait = job_figures.wait_us(submit_us[inside], record.start_us[rows][inside])
    later = inside & ~is_preloaded(record.jobs)[rows]
    later_wait = job_figures.wait_us(submit_us[later], record.start_us[rows][later])
    submitted = (record.jobs.submit_us >= begin_us) & (record.jobs.submit_us < end_us)
    requests = ondemand_figures.requests(record)
    asked = submitted[requests.row]
    rejected = int((requests.answer[asked] == ondemand_figures.REJECTED).sum())
    batch, ondemand = spent[NodePool.OA_BUSY], spent[NodePool.OD_ALLOC]
    return {
        "jobs_submitted": int((submitted & (record.jobs.kind == Kind.BATCH) & ~is_left_out).sum()),
        "mean_wait_s": job_figures.mean_s(wait),
        "jobs_after_begin": int(later.sum()),
        "mean_wait_after_begin_s": job_figures.mean_s(later_wait),
        "mean_wait_of_queue_s": job_figures.mean_s(
            job_figures.wait_us(record.jobs.submit_us[apart], record.start_us[apart])
        ),
        "median_wait_s": job_figures.percentiles_s(wait, (50,))[0],
        "utilization": (batch + ondemand) / whole,
        "batch_utilization": batch / whole,
        "ondemand_utilization": ondemand / whole,
        "reserve_idle_node_h": spent[NodePool.OD_RESERVE] / _HOUR_US,
        "ondemand_requests": int(asked.sum()),
        "ondemand_rejected": rejected,
        "ondemand_reject_rate": rejected / int(asked.sum()) if asked.any() else None,
    }


def _within(line: Timeline, count: Steps, begin_us: int, end_us: int) -> int:
    """The area of a step function within a span, exactly."""
    starts = np.clip(line.at_us, begin_us, end_us)
    ends = np.clip(line.at_us + line.lengths_us, begin_us, end_us)
    return int((count * (ends - starts)).sum())
