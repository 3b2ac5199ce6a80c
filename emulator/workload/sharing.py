"""Logs of machines whose nodes are shared: jobs smaller than a node become the nodes that they fill together.

At every time the shared jobs that run, by the log's own starts, need as many nodes as they fill when they are packed
tightly (`packing.py`). Each such node is a job of its own in the log, of one node, from when it is needed until it is
not, last in, first out. It is submitted when it starts, so it has no wait of its own: what the shared jobs waited is
not replayed, and on another machine they ask for their nodes when they did on this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.workload.packing import level, machines, to_leases
from emulator.workload.swf import FIELDS, NODES_KEY, UNKNOWN

if TYPE_CHECKING:
    from emulator.workload.swf import SwfLog

_COMPLETED = 1


@dataclass(frozen=True, slots=True)
class Shared:
    """The `log` of whole nodes. `queue` is the number of the nodes that shared jobs need, a queue of their own.

    `jobs` were packed onto `nodes` jobs of one node, at most `most` at once; `unstarted` have no start (or no run time)
    in the log and are left out.
    """

    log: SwfLog
    queue: int
    jobs: int
    nodes: int
    most: int
    unstarted: int


def pack_shared(log: SwfLog, cores_per_node: int) -> Shared:
    """Jobs of fewer processors than a node has are packed. Raises ValueError if there are none with a start."""
    procs = np.maximum(log.column("allocated_procs"), log.column("requested_procs"))
    submit_s, wait_s, run_s = (log.column(name) for name in ("submit_s", "wait_s", "run_s"))
    shares = (procs > 0) & (procs < cores_per_node)
    if log.nodes is not None:
        shares &= log.nodes <= 1  # a core on each of four nodes is four nodes' business
    ran = shares & (submit_s >= 0) & (wait_s >= 0) & (run_s > 0)
    if not ran.any():
        raise ValueError(
            f"{log.source}: no job with a recorded start has fewer than {cores_per_node} processors: none share nodes"
        )
    start_us = np.rint((submit_s + wait_s)[ran] * US).astype(np.int64)
    end_us = start_us + np.rint(run_s[ran] * US).astype(np.int64)
    need = machines(level(start_us, end_us, np.asarray(procs[ran], np.int64)), cores_per_node)
    spans = to_leases(need)
    count = len(spans)
    queue = max(int(log.column("queue").max(initial=0)), 0) + 1
    added = {
        "number": max(int(log.column("number").max(initial=0)), 0) + 1 + np.arange(count),
        "submit_s": spans.submit_us / US,
        "wait_s": np.zeros(count),
        "run_s": spans.run_us / US,
        "allocated_procs": np.full(count, cores_per_node),
        "requested_procs": np.full(count, cores_per_node),
        "requested_s": spans.run_us / US,
        "status": np.full(count, _COMPLETED),
        "queue": np.full(count, queue),
    }
    columns = []
    nodes_at = log.key_int(NODES_KEY)
    for at, column in enumerate(log.columns):
        name = FIELDS[at] if at < len(FIELDS) else ""
        more = added.get(name, np.full(count, 1 if at + 1 == nodes_at else UNKNOWN))
        joined = np.concatenate((column[~shares], more))
        whole = np.rint(joined).astype(np.int64)
        columns.append(whole if (whole == joined).all() else joined)
    header = (*log.header, f"; Queue: {queue} nodes of jobs that share them")
    return Shared(
        log=replace(log, columns=tuple(columns), header=header),
        queue=queue,
        jobs=int(ran.sum()),
        nodes=count,
        most=int(need.count.max()),
        unstarted=int((shares & ~ran).sum()),
    )
