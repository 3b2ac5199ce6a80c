"""Figures of nodes that jobs share: how much of their memory and GPUs is in use, and how many nodes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.harness.shared_nodes import NodeParts, SharedNodes, part_of
from emulator.metrics.runs import ends_us, node_time

if TYPE_CHECKING:
    from emulator.harness.record import RunRecord


def shared_figures(record: RunRecord) -> dict[str, Any] | None:
    """Shares of the makespan, as `utilization` is of cores; None if jobs do not share nodes. `docs/shared-nodes.md`."""
    part = part_of(record)
    if part is None:
        return None
    shared = SharedNodes.of(part)
    nodes = len(record.node_names) // shared.cores
    makespan_us = node_time(record).makespan_us
    found: dict[str, Any] = {"nodes": nodes, "cores": shared.cores}
    runs, jobs = record.runs, record.jobs
    length_us = ends_us(record) - runs.start_us
    whole = jobs.column("whole_nodes", 0)[runs.job]
    for what, name, most in (("memory", "memory_kib", shared.memory_kib), ("gpu", "gpus", shared.gpus)):
        if most is not None:
            # As floats: KiB times microseconds leave 64 bits.
            spent = float((jobs.column(name)[runs.job] * whole * length_us.astype(np.float64)).sum())
            found[f"{what}_utilization"] = spent / (most * nodes * makespan_us) if makespan_us else None
    parts = NodeParts.of(record, shared.cores)
    node, at_us, jobs_there = parts.in_use(record, np.ones(len(parts.run), np.int64))
    same = node[1:] == node[:-1]
    spans_us = np.diff(at_us)[same & (jobs_there[:-1] > 0)]
    weights = jobs_there[:-1][same & (jobs_there[:-1] > 0)]
    busy_us = int(spans_us.sum())
    found["node_utilization"] = busy_us / (nodes * makespan_us) if makespan_us else None
    found["jobs_per_busy_node"] = float((spans_us * weights).sum()) / busy_us if busy_us else None
    return found
