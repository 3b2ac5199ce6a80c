"""A run in the files of other simulators, beside `jobs.csv`, which is Batsim's already.

Batsim: `_schedule.csv` and `_machine_states.csv` (its documentation, "Schedule", "Aggregated machine state trace").
AccaSim: its dispatching plan, the `sched-` file.
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.cluster.shared_nodes import SharedRecord
from emulator.kernel.job_states import JobState
from emulator.metrics.energy import energy_of
from emulator.metrics.jobs import batch_jobs_run
from emulator.metrics.runs import last_run_of_job
from emulator.metrics.timeline import timeline
from emulator.record.run_record import NodePool
from emulator.report.files import ResultsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.record.run_record import RunRecord

_BUSY = (NodePool.OA_BUSY, NodePool.OD_ALLOC)
_IDLE = (NodePool.OA_IDLE, NodePool.OD_RESERVE)
_STATES = ("nb_sleeping", "nb_switching_on", "nb_switching_off", "nb_idle", "nb_computing")


def batsim(record: RunRecord) -> dict[str, str]:
    """Batsim's two files by their names' ends. Raises ResultsError for a run whose nodes sleep."""
    energy: Any = record.scenario.get("energy")
    if energy and energy.get("sleep_after_s") is not None:
        raise ResultsError("the nodes of this run sleep: how many at each time is not known here")
    return {
        "_schedule.csv": _table([_schedule(record)]),
        "_machine_states.csv": _table(_machine_states(record)),
    }


def accasim(record: RunRecord) -> dict[str, str]:
    """AccaSim's plan: a line a job that ended, in order of end, times as seconds from 1970 on.

    A node has one core, but where jobs share nodes.
    """
    if not len(record.runs.node) and len(record.runs.job):
        raise ResultsError("AccaSim's file names each job's nodes, and those of this run were not recorded")
    seen = SharedRecord.of(record)
    node_of = np.arange(len(record.node_names)) if seen is None else seen.node_of_core
    last, lines = last_run_of_job(record), []
    rows = batch_jobs_run(record)
    for row in rows[np.argsort(record.end_us[rows], kind="stable")]:
        run = last[row]
        run_nodes = record.runs.node[record.runs.first[run] : record.runs.first[run + 1]]
        nodes, cores = np.unique(node_of[run_nodes], return_counts=True)
        jobs = record.jobs
        lines.append(
            f"{jobs.number[row]};{jobs.user[row]};{_date(jobs.submit_us[row])}__"
            + "".join(f"{node + 1};{of_it}#" for node, of_it in zip(nodes, cores, strict=True))
            + f"__{_date(record.start_us[row])};{_date(record.end_us[row])};{len(nodes)};{len(run_nodes)};NA;"
            + f"{jobs.estimate_us[row] // US};\n"
        )
    return {"": "".join(lines)}


EXPORTS: dict[str, Callable[[RunRecord], dict[str, str]]] = {"batsim": batsim, "accasim": accasim}
"""By the program's name: the texts of files by what follows the prefix."""


def _date(at_us: Any) -> str:
    return datetime.fromtimestamp(int(at_us) // US, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _schedule(record: RunRecord) -> dict[str, Any]:
    """Batsim's fields in its order, as far as a run of ours has them."""
    rows = batch_jobs_run(record)
    submit_us, start_us, end_us = record.jobs.submit_us[rows], record.start_us[rows], record.end_us[rows]
    run_s, turnaround_s, wait_s = (
        (end_us - start_us) / US,
        (end_us - submit_us) / US,
        (start_us - submit_us) / US,
    )
    slowdown = turnaround_s[run_s > 0] / run_s[run_s > 0]
    line = timeline(record)
    node_us, state = line.node_us(), record.state
    energy = energy_of(record)
    success = int((state == JobState.ENDED).sum())
    found = {
        "consumed_joules": None if energy is None else energy.total_j,
        "makespan": float(end_us.max(initial=0)) / US,
        **{
            f"{name}_{what}": float(of(values)) if len(values) else None
            for name, of in (("max", np.max), ("mean", np.mean))
            for what, values in (
                ("slowdown", slowdown),
                ("turnaround_time", turnaround_s),
                ("waiting_time", wait_s),
            )
        },
        "nb_computing_machines": len(record.node_names),
        "nb_jobs": len(record.jobs),
        "nb_jobs_finished": len(rows),
        "nb_jobs_killed": int((state == JobState.CANCELLED).sum()),
        "nb_jobs_rejected": int((state == JobState.REJECTED).sum()),
        "nb_jobs_success": success,
        "success_rate": success / len(record.jobs) if len(record.jobs) else None,
        "time_computing": sum(node_us[pool] for pool in _BUSY) / US,
        "time_idle": sum(node_us[pool] for pool in _IDLE) / US,
        "time_unavailable": node_us[NodePool.DOWN] / US,
    }
    return {key: "" if value is None else value for key, value in found.items()}


def _machine_states(record: RunRecord) -> Iterable[dict[str, Any]]:
    """How many nodes compute and idle, from each change on; nodes that are down are in no state of Batsim's."""
    line = timeline(record)
    busy, idle = (sum(line.pools[pool] for pool in pools) for pools in (_BUSY, _IDLE))
    before = None
    for at_us, computing, idling in zip(
        line.at_us.tolist(), np.asarray(busy).tolist(), np.asarray(idle).tolist(), strict=True
    ):
        if (computing, idling) != before:
            before = computing, idling
            yield {
                "time": at_us / US,
                **dict.fromkeys(_STATES, 0),
                "nb_idle": idling,
                "nb_computing": computing,
            }


def _table(rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer: Any = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return text.getvalue()
