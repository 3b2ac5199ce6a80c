"""The metrics of hybrid-fan-2021, section IV-D, of one run, and what was lost to what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.kernel.job_states import JobState
from emulator.mechanisms.hybrid.run_sums import RunSums
from emulator.metrics.runs import node_time
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from emulator.mechanisms.hybrid.tally import Counted
    from emulator.record.run_record import RunRecord

_HOUR_US = 3600 * US


def figures(mechanism: Counted, record: RunRecord) -> dict[str, Any]:
    """Figures by name, units in the names; None where there is no such figure.

    `turnaround_*_h`: mean of end - submit. `instant_start_ratio`: on-demand jobs for which all nodes were found when
    they arrived (the time to preempt or shrink is not counted, as in the paper), over all that arrived.
    `preemption_ratio_*`: jobs that were preempted once or more, over all of the kind; `_without_guests`: where it does
    not count that a guest had to leave held nodes, which it was lent until then. `useful_utilization`: node-time
    of all runs less work done twice, setups of restarts and warnings, over nodes x makespan. `lost_*_node_h`: what was
    lost, by cause.
    """
    jobs = record.jobs
    on_demand = jobs.kind == Kind.ON_DEMAND
    malleable = ~on_demand & (jobs.column("job_class", 0) == JobClass.MALLEABLE)
    rigid = ~on_demand & ~malleable
    sums = RunSums.of(record)
    losses = _losses(mechanism, record, sums)
    done, took_us = record.state == JobState.ENDED, record.end_us - jobs.submit_us
    preempted = sums.preempted > 0
    without_guests = _less(sums.preempted, mechanism.tally.evictions) > 0
    used = node_time(record)
    whole = used.nodes * used.makespan_us
    useful = used.batch_node_us + used.ondemand_node_us
    useful -= losses["recomputed"] + losses["restart_setup"] + losses["warning"]
    return {
        "turnaround_h": _mean_h(took_us, done),
        **{
            f"turnaround_{name}_h": _mean_h(took_us, done & rows)
            for name, rows in (("on_demand", on_demand), ("rigid", rigid), ("malleable", malleable))
        },
        "instant_start_ratio": _instant(mechanism, record, on_demand),
        **{
            f"preemption_ratio_{name}": _share(preempted, rows)
            for name, rows in (("rigid", rigid), ("malleable", malleable))
        },
        **{
            f"preemption_ratio_{name}_without_guests": _share(without_guests, rows)
            for name, rows in (("rigid", rigid), ("malleable", malleable))
        },
        "useful_utilization": useful / whole if whole else None,
        **{f"lost_{name}_node_h": lost / _HOUR_US for name, lost in losses.items()},
        "longest_wait_h": _longest_wait(record, sums.ran_us) / _HOUR_US,
        **_counts(mechanism),
        **_wall_times("decision", mechanism.tally.decision_us),
        **_wall_times("handling", mechanism.tally.handling_us),
    }


def _mean_h(times_us: NDArray[np.int64], rows: NDArray[np.bool_]) -> float | None:
    return float(times_us[rows].mean()) / _HOUR_US if rows.any() else None


def _instant(mechanism: Counted, record: RunRecord, on_demand: NDArray[np.bool_]) -> float | None:
    arrived = on_demand & (record.state != JobState.FUTURE)
    if not arrived.any():
        return None
    if mechanism.is_baseline:
        at_once = record.start_us[arrived] == record.jobs.submit_us[arrived]
        return float(at_once.mean())
    return len(mechanism.tally.instant) / int(arrived.sum())


def _share(rows: NDArray[np.bool_], of: NDArray[np.bool_]) -> float | None:
    """How many of these rows are such rows, too."""
    whole = np.count_nonzero(of)
    return np.count_nonzero(rows & of) / whole if whole else None


def _less(times: NDArray[np.int32], less: Mapping[int, int]) -> NDArray[np.int32]:
    """How often something happened to each job, without so many times by job."""
    fewer = times.copy()
    jobs, many = (np.fromiter(each, np.int64, len(less)) for each in (less.keys(), less.values()))
    fewer[jobs] -= many
    return fewer


def _losses(mechanism: Counted, record: RunRecord, sums: RunSums) -> dict[str, int]:
    """Node-us by cause. Checkpoints and idle held nodes are no waste in the paper's utilisation, the rest is."""
    return {
        "recomputed": int(record.runs.lost_node_us.sum()) if record.runs.has_work else 0,
        "restart_setup": sums.setups_again_node_us,
        "warning": mechanism.tally.warning_node_us,
        "checkpoint": sums.checkpoints_node_us,
        "held_idle": mechanism.held_idle_node_us(record.horizon_us),
    }


def _longest_wait(record: RunRecord, ran_us: NDArray[np.int64]) -> int:
    """The longest time that a batch job waited in all, its waits after preemptions included; unfinished ones too."""
    end = np.where(record.state == JobState.ENDED, record.end_us, record.horizon_us)
    known = (record.jobs.kind == Kind.BATCH) & (record.state != JobState.FUTURE)
    return int((end - record.jobs.submit_us - ran_us)[known].max(initial=0))


def _counts(mechanism: Counted) -> dict[str, Any]:
    tally, loans = mechanism.tally, mechanism.loans
    return {
        "on_demand_queued": tally.queued,
        "claims_lapsed": tally.lapsed,
        "preemptions": tally.preemptions,
        "guest_evictions": sum(tally.evictions.values()),
        "shrinks": tally.shrinks,
        "guests": mechanism.guest_starts,
        "node_failures": mechanism.failures.count if mechanism.failures is not None else 0,
        "nodes_lent": loans.lent,
        **{f"nodes_returned_{how}": nodes for how, nodes in loans.returned.items()},
        "nodes_not_returned": sum(loans.not_returned.values()),
        "nodes_outstanding": loans.outstanding,
    }


def _wall_times(name: str, times_us: array[int]) -> dict[str, Any]:
    """Of choices (`decision`) and of whole events with all that they cause (`handling`)."""
    names = [f"{name}_{which}_ms" for which in ("median", "p99", "max")]
    if not times_us:
        return dict.fromkeys(names)
    values = np.percentile(np.array(times_us), (50, 99, 100)) / 1000
    return dict(zip(names, values.tolist(), strict=True))
