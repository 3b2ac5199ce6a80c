"""The figures of one run as a dictionary of plain JSON types: what `summary.json` and `--json` show."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US, seconds
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.metrics import classes as class_figures
from emulator.metrics import jobs as job_figures
from emulator.metrics import ondemand as ondemand_figures
from emulator.metrics import runs as run_figures
from emulator.metrics.energy import energy_of
from emulator.metrics.mechanism_tiles import tiles_of
from emulator.metrics.moldable import moldable_figures
from emulator.metrics.pools import node_us_by_pool
from emulator.metrics.shared_nodes import shared_figures
from emulator.metrics.spread import spread_of
from emulator.metrics.timeline import InconsistentRecordError
from emulator.record.moves import MoveTable
from emulator.record.provenance import file_digest, traces, versions
from emulator.record.run_record import NodePool
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

FORMAT = "emulator-results/1"
"""Value of `format` in `summary.json`: how a results folder is told from any other."""

HOUR_US = 3600 * US


def summarize(record: RunRecord, *, bounded_slowdown_threshold_s: float = 10) -> dict[str, Any]:
    """All figures of a run, and what they depend on; `docs/results.md` defines each. The order of keys stays.

    Means and percentiles of wait, response and slowdown are over the batch jobs that were run; on-demand
    figures are present when the run had on-demand requests or nodes. A figure that does not exist is None.
    Laws of the record that do not hold are named in `problems`, and the figures that hang on them are None; so is what
    a job's process said that its account does not.
    """
    found = figures(record, bounded_slowdown_threshold_s=bounded_slowdown_threshold_s)
    tiles = tiles_of(record, found)
    return found | {
        **({"tiles": tiles} if tiles else {}),
        **({"recorded_waits": plain(record.recorded)} if record.recorded else {}),
        **({"not_followed": list(record.not_followed)} if record.not_followed else {}),
        "seed": record.seed,
        "scenario": (scenario := plain(record.scenario)),
        "traces": {path.name: file_digest(path) for path in traces(scenario.get("workload"))},
        "versions": versions(),
    }


def figures(record: RunRecord, *, bounded_slowdown_threshold_s: float = 10) -> dict[str, Any]:
    """The figures alone: a run of a sweep knows its scenario, and its files and versions are in its key."""
    problems = list(record.contradictions)
    try:
        spent_us = node_us_by_pool(record)
    except InconsistentRecordError as error:
        spent_us = None
        problems.append(str(error))
    used = run_figures.node_time(record)
    summary: dict[str, Any] = {
        "format": FORMAT,
        "clock": record.clock,
        "interrupted": record.interrupted,
        "problems": problems,
        **_job_counts(record),
        **_job_means(record, bounded_slowdown_threshold_s),
        "nodes": used.nodes,
        "utilization": used.utilization,
        "makespan_s": seconds(used.makespan_us),
        "begin_s": seconds(record.begin_us),
        "horizon_s": seconds(record.horizon_us),
        "lost_node_h": used.lost_node_us / HOUR_US,
        "overhead_node_h": used.overhead_node_us / HOUR_US,
    }
    if _has_ondemand(record):
        summary |= {
            "batch_utilization": used.batch_utilization,
            "ondemand_utilization": used.ondemand_utilization,
            **_ondemand(record),
        }
    summary |= _node_time(spent_us, with_reserve=_has_ondemand(record))
    if (energy := energy_of(record)) is not None:
        summary["energy"] = energy.figures()
    if (shared := shared_figures(record)) is not None:
        summary["shared_nodes"] = shared
    if (sizes := moldable_figures(record)) is not None:
        summary["moldable"] = sizes
    if (spread := spread_of(record)) is not None:
        summary["placement"] = spread
    if record.figures:
        summary["mechanism"] = plain(record.figures)
    if record.pace:
        summary["pace"] = _in_seconds(record.pace)
    if class_figures.COLUMN in record.jobs.extra:
        summary["job_classes"] = class_figures.class_figures(record)
    jobs_run = summary["jobs_run"]
    return summary | {
        "wall_s": record.wall_s,
        "jobs_per_s": jobs_run / record.wall_s if record.wall_s > 0 else None,
    }


def plain(value: object) -> Any:
    """A value in JSON's types: mappings, lists, numbers, texts, None."""
    if isinstance(value, Enum):
        value = value.value
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if all(type(item) is str for item in value):
            return list(value)  # the names of 80,640 nodes
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _job_counts(record: RunRecord) -> dict[str, Any]:
    """Batch jobs by what became of them.

    in = run + running + suspended + waiting + not submitted + cancelled + left out. What is told of suspended jobs is
    there only if a job left its nodes so.
    """
    is_batch = record.jobs.kind == Kind.BATCH
    count = np.bincount(record.state[is_batch], minlength=len(JobState))
    waiting = int(count[JobState.QUEUED] + count[JobState.HELD])
    not_submitted, running = int(count[JobState.FUTURE]), int(count[JobState.RUNNING])
    outcome = record.runs.outcome[is_batch[record.runs.job]]
    suspended, suspensions = int(count[JobState.SUSPENDED]), int((outcome == RunOutcome.SUSPENDED).sum())
    more = {"jobs_suspended": suspended, "suspensions": suspensions} if suspensions else {}
    return {
        "jobs_in": int(is_batch.sum()) + sum(record.left_out.values()),
        "jobs_run": int(count[JobState.ENDED]),
        "jobs_running": running,
        "jobs_waiting": waiting,
        "jobs_not_submitted": not_submitted,
        "jobs_unfinished": running + suspended + waiting + not_submitted,
        "jobs_cancelled": int(count[JobState.CANCELLED] + count[JobState.REJECTED]),
        "jobs_killed_at_walltime": int((outcome == RunOutcome.KILLED).sum()),
        "jobs_left_out": dict(sorted(record.left_out.items())),
        "jobs_changed": dict(sorted(record.counted.items())),
        "requeues": int((outcome == RunOutcome.REQUEUED).sum()),
        "preemptions": int((outcome == RunOutcome.PREEMPTED).sum()),
        "resizes": int((outcome == RunOutcome.RESIZED).sum()),
        **more,
    }


def _job_means(record: RunRecord, threshold_s: float) -> dict[str, Any]:
    rows = job_figures.batch_jobs_run(record)
    submit, start, end = record.jobs.submit_us[rows], record.start_us[rows], record.end_us[rows]
    wait, response = job_figures.wait_us(submit, start), job_figures.response_us(submit, end)
    median, p90, p95, p99, most = job_figures.percentiles_s(wait, (50, 90, 95, 99, 100))
    owed = job_figures.owed_us(record, rows)
    slowdown = job_figures.bounded_slowdown(response, owed, threshold_s=threshold_s)
    return {
        "mean_wait_s": job_figures.mean_s(wait),
        "median_wait_s": median,
        "p90_wait_s": p90,
        "p95_wait_s": p95,
        "p99_wait_s": p99,
        "max_wait_s": most,
        "mean_response_s": job_figures.mean_s(response),
        "mean_bounded_slowdown": job_figures.mean(slowdown),
        "bounded_slowdown_threshold_s": threshold_s,
        "slowdown_weighted_by_area": job_figures.slowdown_weighted_by_area(
            record.jobs.nodes[rows], response, owed
        ),
    }


def _has_ondemand(record: RunRecord) -> bool:
    given = (NodePool.OD_RESERVE, NodePool.OD_ALLOC)
    return (
        bool((record.jobs.kind == Kind.ON_DEMAND).any())
        or bool(record.leases)
        or MoveTable.of(record.moves).has(*given)
    )


def _ondemand(record: RunRecord) -> dict[str, Any]:
    requests = ondemand_figures.requests(record)
    wait = requests.granted_wait_us
    return {
        "ondemand_requests": len(requests.row),
        "ondemand_granted": int((requests.answer == ondemand_figures.GRANTED).sum()),
        "ondemand_rejected": int((requests.answer == ondemand_figures.REJECTED).sum()),
        "ondemand_undecided": int((requests.answer == ondemand_figures.UNDECIDED).sum()),
        "ondemand_rejected_by_reason": requests.rejected_by_reason,
        "mean_ondemand_wait_s": job_figures.mean_s(wait),
        "max_ondemand_wait_s": seconds(int(wait.max())) if len(wait) else None,
    }


def _node_time(exact: dict[NodePool, int] | None, *, with_reserve: bool) -> dict[str, Any]:
    """Node-time by pool from begin to horizon; the integers add up exactly, the hours are for reading."""
    reserve = None if exact is None else exact[NodePool.OD_RESERVE] / HOUR_US
    return {
        **({"reserve_idle_node_h": reserve} if with_reserve else {}),
        "node_time_h": exact and {pool.value: spent / HOUR_US for pool, spent in exact.items()},
        "node_time_us": exact and {pool.value: spent for pool, spent in exact.items()},
    }


def _in_seconds(pace: dict[str, float]) -> dict[str, float]:
    """The pace figures with times in seconds, as everywhere in files."""
    return {
        f"{name.removesuffix('_us')}_s" if name.endswith("_us") else name: (
            value / US if name.endswith("_us") else value
        )
        for name, value in sorted(pace.items())
    }
