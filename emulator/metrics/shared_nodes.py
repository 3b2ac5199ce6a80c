"""Figures of nodes that jobs share: how much of their memory and GPUs is in use, and how many nodes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.shared_nodes import NodeParts, SharedRecord
from emulator.metrics.runs import ends_us, node_time

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord


def shared_figures(record: RunRecord) -> dict[str, Any] | None:
    """Shares of the makespan, as `utilization` is of cores; None if jobs do not share nodes. `docs/shared-nodes.md`."""
    seen = SharedRecord.of(record)
    if seen is None:
        return None
    shared, nodes = seen.shared, len(seen.names)
    makespan_us = node_time(record).makespan_us
    found: dict[str, Any] = {"nodes": nodes} | ({} if shared.kinds else {"cores": shared.cores})
    runs, jobs = record.runs, record.jobs
    length_us = ends_us(record) - runs.start_us
    whole = jobs.column("whole_nodes", 0)[runs.job]
    for what, name, is_seen in (
        ("memory", "memory_kib", shared.memory_kib is not None),
        ("gpu", "gpus", shared.gpus is not None),
    ):
        if is_seen:
            # As floats: KiB times microseconds leave 64 bits.
            spent = float((jobs.column(name)[runs.job] * whole * length_us.astype(np.float64)).sum())
            most = int(seen.rooms[name].sum())
            found[f"{what}_utilization"] = spent / (most * makespan_us) if makespan_us else None
    parts = NodeParts.of(record, seen.node_of_core)
    if shared.kinds:
        core_us = np.bincount(parts.node, parts.cores * length_us[parts.run].astype(np.float64), nodes)
        found["kinds"] = {
            kind.name: {
                "nodes": len(kind.nodes),
                "cores": kind.cores,
                "utilization": float(core_us[list(kind.nodes)].sum())
                / (len(kind.nodes) * kind.cores * makespan_us)
                if makespan_us
                else None,
            }
            for kind in sorted(shared.kinds, key=lambda kind: kind.name)
        }
    node, at_us, jobs_there = parts.in_use(record, np.ones(len(parts.run), np.int64))
    same = node[1:] == node[:-1]
    spans_us = np.diff(at_us)[same & (jobs_there[:-1] > 0)]
    weights = jobs_there[:-1][same & (jobs_there[:-1] > 0)]
    busy_us = int(spans_us.sum())
    found["node_utilization"] = busy_us / (nodes * makespan_us) if makespan_us else None
    found["jobs_per_busy_node"] = float((spans_us * weights).sum()) / busy_us if busy_us else None
    return found
