"""Logs of machines whose nodes are shared: jobs smaller than a node become the nodes that they fill together.

The shared jobs are put onto nodes as they started by the log: each on the node that the log names, or where it names
none on the first node that has room for its processors, its memory and its GPUs (first fit), on another one if none
has. From when a node gets its first job until its last one ends it is a job of its own in the log, of one node, which
was submitted when that first job was. So it waits as that job did by the log, and on another machine it waits there.
Jobs that find room on a node that is in use do not wait for it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.workload.packing import level
from emulator.workload.requests import gpus, memory_kb
from emulator.workload.swf import FIELDS, HOST_KEY, NODES_KEY, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.workload.swf import SwfLog

_COMPLETED = 1


@dataclass(frozen=True, slots=True)
class Shared:
    """The `log` of whole nodes. `queue` is the number of the nodes that shared jobs need, a queue of their own.

    `jobs` were packed onto `nodes` jobs of one node, at most `most` at once; `unstarted` have no start (or no run time)
    in the log and are left out. Of the jobs `listed` are where the log says; by first fit at most `fitted` nodes would
    be in use at once. `crowded` has by its number each listed node on which more processors were in use at once than a
    node has, and how many.
    """

    log: SwfLog
    queue: int
    jobs: int
    nodes: int
    most: int
    unstarted: int
    listed: int = 0
    fitted: int = 0
    crowded: Mapping[int, int] = field(default_factory=dict)


def pack_shared(
    log: SwfLog,
    cores_per_node: int,
    memory_kb_per_node: int | None = None,
    gpus_per_node: int | None = None,
) -> Shared:
    """Jobs of fewer processors than a node has are packed. Raises ValueError if there are none with a start.

    `memory_kb_per_node`, `gpus_per_node`: nodes have so much memory and so many GPUs, and jobs want what the log says.
    """
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
    demands, room = [np.asarray(procs[ran], np.int64)], [cores_per_node]
    if memory_kb_per_node is not None:
        # SWF says memory of each processor.
        demands.append(np.rint(memory_kb(log)[ran] * procs[ran]).astype(np.int64))
        room.append(memory_kb_per_node)
    if gpus_per_node is not None and (gpu_request := gpus(log)) is not None:
        demands.append(gpu_request[ran])
        room.append(gpus_per_node)
    fitted = first_fit(start_us, end_us, np.column_stack(demands), room)
    begins_us, ends_us, first = fitted
    hosts = log.further(HOST_KEY)
    host = np.full(len(start_us), UNKNOWN) if hosts is None else np.asarray(hosts[ran], np.int64)
    is_listed = host > 0
    if is_listed.any():
        begins_us, ends_us, first = _placed(start_us, end_us, host, np.column_stack(demands), room)
    submits_s = submit_s[ran][first]
    count = len(begins_us)
    most = _most(begins_us, ends_us)
    queue = max(int(log.column("queue").max(initial=0)), 0) + 1
    added = {
        "number": max(int(log.column("number").max(initial=0)), 0) + 1 + np.arange(count),
        "submit_s": submits_s,
        "wait_s": begins_us / US - submits_s,
        "run_s": (ends_us - begins_us) / US,
        "allocated_procs": np.full(count, cores_per_node),
        "requested_procs": np.full(count, cores_per_node),
        "requested_s": (ends_us - begins_us) / US,
        "status": np.full(count, _COMPLETED),
        "queue": np.full(count, queue),
    }
    header = (*log.header, f"; Queue: {queue} nodes of jobs that share them")
    return Shared(
        log=replace(log, columns=_with_rows(log, ~shares, added), header=header),
        queue=queue,
        jobs=int(ran.sum()),
        nodes=count,
        most=most,
        unstarted=int((shares & ~ran).sum()),
        listed=int(is_listed.sum()),
        fitted=_most(*fitted[:2]),
        crowded=_crowded(
            start_us[is_listed], end_us[is_listed], host[is_listed], demands[0][is_listed], cores_per_node
        ),
    )


def _with_rows(
    log: SwfLog, stays: NDArray[np.bool_], added: dict[str, NDArray[Any]]
) -> tuple[NDArray[Any], ...]:
    """The columns of the jobs that stay, and one-node jobs behind them; a field that is not added is unknown."""
    count, nodes_at = len(added["number"]), log.key_int(NODES_KEY)
    columns = []
    for at, column in enumerate(log.columns):
        name = FIELDS[at] if at < len(FIELDS) else ""
        more = added.get(name, np.full(count, 1 if at + 1 == nodes_at else UNKNOWN))
        joined = np.concatenate((column[stays], more))
        whole = np.rint(joined).astype(np.int64)
        columns.append(whole if (whole == joined).all() else joined)
    return tuple(columns)


def _most(begins_us: NDArray[np.int64], ends_us: NDArray[np.int64]) -> int:
    """How many there are at once at most."""
    return int(level(begins_us, ends_us, np.ones(len(begins_us), np.int64)).count.max())


def _placed(
    start_us: NDArray[np.int64],
    end_us: NDArray[np.int64],
    host: NDArray[np.int64],
    demands: NDArray[np.int64],
    room: Sequence[int],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """As `first_fit`, but each job on its host; those whose host is not known by first fit on nodes beside these."""
    there, elsewhere = np.flatnonzero(host > 0), np.flatnonzero(host <= 0)
    begins_us, ends_us, first = on_hosts(start_us[there], end_us[there], host[there])
    spans = [(begins_us, ends_us, there[first])]
    if len(elsewhere):
        begins_us, ends_us, first = first_fit(
            start_us[elsewhere], end_us[elsewhere], demands[elsewhere], room
        )
        spans.append((begins_us, ends_us, elsewhere[first]))
    begins_us, ends_us, first = (np.concatenate(column) for column in zip(*spans, strict=True))
    order = np.lexsort((first, ends_us, begins_us))
    return begins_us[order], ends_us[order], first[order]


def on_hosts(
    start_us: NDArray[np.int64], end_us: NDArray[np.int64], host: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """From when to when each host is in use by at least one job, and the first of its jobs, host by host."""
    order = np.lexsort((np.arange(len(host)), start_us, host))
    found: list[tuple[int, int, int]] = []
    now_host, begin_us, until_us, first = UNKNOWN, 0, 0, 0
    for job in order.tolist():
        if int(host[job]) != now_host or int(start_us[job]) >= until_us:
            if now_host != UNKNOWN:
                found.append((begin_us, until_us, first))
            now_host, begin_us, until_us, first = int(host[job]), int(start_us[job]), int(end_us[job]), job
        else:
            until_us = max(until_us, int(end_us[job]))
    found.append((begin_us, until_us, first))
    spans = np.array(found, np.int64).reshape(-1, 3)
    return spans[:, 0], spans[:, 1], spans[:, 2]


def _crowded(
    start_us: NDArray[np.int64],
    end_us: NDArray[np.int64],
    host: NDArray[np.int64],
    procs: NDArray[np.int64],
    cores_per_node: int,
) -> dict[int, int]:
    """Hosts on which more processors were in use at once than a node has, and how many at most."""
    change = np.concatenate((-procs, procs))
    where, when = np.tile(host, 2), np.concatenate((end_us, start_us))
    order = np.lexsort((change, when, where))  # at each time jobs end before others start
    in_use, where = np.cumsum(change[order]), where[order]
    over = in_use > cores_per_node
    return {int(each): int(in_use[where == each].max()) for each in np.unique(where[over])}


def first_fit(
    start_us: NDArray[np.int64], end_us: NDArray[np.int64], demands: NDArray[np.int64], room: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """From when to when which node is in use by at least one job, in order of begin, and the first of its jobs.

    `demands` has a row a job and a column a resource, of which a node has `room`; a job that wants more has all of it.
    At each time jobs end before others start.
    """
    whole = np.asarray(room, np.int64)
    demands = np.minimum(demands, whole)
    free = np.tile(whole, (16, 1))
    running = [0] * len(free)
    first = [0] * len(free)
    ends: list[tuple[int, int, int]] = []
    found: list[tuple[int, int, int]] = []

    def end_until(time_us: int) -> None:
        while ends and ends[0][0] <= time_us:
            ended_us, job, node = heapq.heappop(ends)
            free[node] += demands[job]
            running[node] -= 1
            if not running[node]:
                found.append((int(start_us[first[node]]), ended_us, first[node]))

    for job in np.argsort(start_us, kind="stable").tolist():
        now_us = int(start_us[job])
        end_until(now_us)
        fits = (free >= demands[job]).all(axis=1)
        node = int(fits.argmax())
        if not fits[node]:
            node = len(free)
            free = np.concatenate((free, np.tile(whole, (node, 1))))
            running += [0] * node
            first += [0] * node
        if not running[node]:
            first[node] = job
        running[node] += 1
        free[node] -= demands[job]
        heapq.heappush(ends, (int(end_us[job]), job, node))
    end_until(int(end_us.max()))
    spans = np.array(sorted(found), np.int64).reshape(-1, 3)
    return spans[:, 0], spans[:, 1], spans[:, 2]
