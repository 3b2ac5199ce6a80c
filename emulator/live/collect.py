"""From the files and servers of a live run to the same record that a virtual run leaves."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from balancer.clock import NEVER_US
from balancer.ledger.connect import url_of
from balancer.ledger.reader import Reader
from balancer.lifecycle.records import RequestStatus
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.lease_history import LeaseHistories
from emulator.live.replay_log import LeaseResult, ReplayResult, read_replay, written_log
from emulator.record.run_record import LeaseOutcome, Mark, NodePool, PoolMove, RunRecord, RunTable
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from balancer.lifecycle.records import RequestRecord
    from emulator.runs.preparation import Prepared

_LEDGER_PAGE = 1_000_000
_RUN_COLUMNS: dict[str, Any] = {
    "job": np.int32, "start_us": np.int64, "end_us": np.int64, "outcome": np.int8, "first": np.int64,
    "node": np.int32, "done_node_us": np.int64, "lost_node_us": np.int64,
}  # fmt: skip
STILL_WORKING = "somebody still had work to do at the end"
_SALVAGED = "the batch server is gone: job times are whole seconds, the reserve is not known"
Run = tuple[int, int, int, int, list[int]]
"""(start_us, job row, end_us or -1, RunOutcome, nodes)."""


@dataclass(frozen=True, slots=True)
class BatchSide:
    """The batch system's part of the record: jobs with their runs, and (us, node, is offline) marks.

    `offline` is None when the server was gone: then times are whole seconds and marks are not known.
    """

    jobs: list[dict[str, Any]]
    offline: list[tuple[int, int, bool]] | None
    record: dict[str, Any] | None = None
    """The whole run, by a server that has the mechanism."""
    tick_us: int = 1
    """Its times are rounded down to multiples of this."""
    refused: Mapping[int, tuple[int, str]] | None = None
    """Of a batch system with a mechanism: number of each on-demand job that got nothing -> when (us), and why."""
    contradictions: tuple[str, ...] = ()
    """What jobs say of their work and their runs do not."""
    now_us: int = 0
    """When it was asked, where time goes on without us: the end of the record is not earlier."""
    offline_pool: NodePool = NodePool.OD_RESERVE
    """Whose nodes that are offline are."""
    down: Sequence[tuple[int, int, bool]] | None = None
    """(us, node, is down) of nodes that failed and were repaired; None: none could."""
    in_cores: Callable[[RunRecord], RunRecord] | None = None
    """Where jobs share nodes: what makes the record one of cores."""


class Source(Protocol):
    """What is left when a fleet has run: where its files are, and what is known of the run."""

    @property
    def prepared(self) -> Prepared: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def marks(self) -> list[Mark]: ...
    @property
    def now_us(self) -> int: ...
    @property
    def replay_log(self) -> Path: ...
    @property
    def ledger(self) -> str | Path | None:
        """File or URL of the Balancer's ledger; None: there is none."""


def collect(fleet: Source, batch: BatchSide, interrupted: str) -> RunRecord:
    """The record of a fleet, by the batch system, the Balancer's ledger and the replayer's log."""
    jobs = fleet.prepared.jobs
    if batch.record is not None:
        return _mechanism_record(fleet, batch.record, interrupted)
    replay = replayed(fleet.replay_log)
    rows = {int(number): row for row, number in enumerate(jobs.number)}
    row_of_job = {int(text.split(".", 1)[0]): rows[number] for number, text in replay.job_ids.items()}
    submit_us = jobs.submit_us.copy()
    state = np.full(len(jobs), JobState.FUTURE, np.int8)
    runs: list[Run] = []
    for job in batch.jobs:
        row = row_of_job.get(job["number"])
        if row is None:
            continue
        submit_us[row] = job.get("submit_us", submit_us[row])
        state[row] = JobState[job["state"]]
        runs += [
            (run["start_us"], row, run["end_us"], int(RunOutcome[run["outcome"]]), run["nodes"])
            for run in job["runs"]
        ]
    offline = None if batch.offline is None else _handed_over(batch.offline, runs)
    histories = LeaseHistories(() if fleet.ledger is None else _requests(fleet.ledger, None), fleet.names)
    outcomes, lease_runs, lease_moves = _leases(
        fleet, replay, rows, state, tick_us=batch.tick_us, histories=histories
    )
    runs = sorted(runs + lease_runs, key=lambda run: run[:2])
    if batch.refused is not None:
        outcomes = _decided_by_the_batch_system(jobs, rows, batch.refused, runs, state)
    now_us = fleet.now_us
    last_us = max((run[2] for run in runs), default=0)
    horizon_us = now_us if interrupted or not runs else last_us
    marks = [*fleet.marks]
    if batch.offline is None:
        marks.append(Mark(now_us, _SALVAGED))
    if interrupted:
        marks.append(Mark(now_us, f"interrupted: {interrupted}"))
    start_us, end_us = _last_runs(len(jobs), runs)
    figures = {}
    if batch.down is not None:
        of_leases = [run for run in runs if jobs.kind[run[1]] == Kind.ON_DEMAND]
        figures = histories.figures(jobs, of_leases, batch.down, horizon_us)
    record = RunRecord(
        # When they were submitted; a lease keeps the time it asked at.
        jobs=replace(jobs, submit_us=np.where(jobs.kind == Kind.BATCH, submit_us, jobs.submit_us)),
        node_names=fleet.names,
        state=state,
        start_us=start_us,
        end_us=end_us,
        runs=_run_table(runs),
        begin_us=0,
        horizon_us=horizon_us,
        moves=with_down(
            _moves(offline, lease_moves, horizon_us, batch.offline_pool), batch.down or (), horizon_us
        ),
        leases=tuple(outcomes),
        marks=tuple(marks),
        clock="live",
        interrupted=interrupted,
        contradictions=batch.contradictions,
        figures=figures,
    )
    return record if batch.in_cores is None else batch.in_cores(record)


def _decided_by_the_batch_system(
    jobs: JobTable,
    rows: dict[int, int],
    refused: Mapping[int, tuple[int, str]],
    runs: list[Run],
    state: NDArray[np.int8],
) -> list[LeaseOutcome]:
    """An on-demand job was granted when it first started; sets the states of those that were refused."""
    first_us: dict[int, int] = {}
    for start_us, row, *_ in runs:
        first_us.setdefault(row, start_us)
    outcomes = [
        LeaseOutcome(row, granted=True, decided_us=at_us)
        for row, at_us in first_us.items()
        if jobs.kind[row] == Kind.ON_DEMAND
    ]
    for number, (at_us, reason) in refused.items():
        state[rows[number]] = JobState.REJECTED
        outcomes.append(LeaseOutcome(rows[number], granted=False, decided_us=at_us, reason=reason))
    return sorted(outcomes, key=lambda each: each.decided_us)


def _mechanism_record(fleet: Source, found: dict[str, Any], interrupted: str) -> RunRecord:
    """The record that the server kept itself."""
    runs = RunTable(**{name: np.array(found["runs"][name], dtype) for name, dtype in _RUN_COLUMNS.items()})
    if found["interrupted"]:  # a plug-in failed: nothing has happened since
        interrupted, horizon_us = found["interrupted"], int(found["horizon_us"])
    else:
        horizon_us = fleet.now_us if interrupted else int(runs.end_us.max(initial=0))
    marks = [*fleet.marks]
    if interrupted:
        marks.append(Mark(horizon_us, f"interrupted: {interrupted}"))
    moves = (PoolMove(at_us, tuple(nodes), NodePool(pool)) for at_us, nodes, pool in found["moves"])
    columns: dict[str, Any] = {
        "submit_us": np.array(found["submit_us"], np.int64),
        "nodes": np.array(found["nodes"], np.int32),
        "extra": {name: np.array(column, np.int64) for name, column in found["extra"].items()},
    }
    return RunRecord(
        jobs=replace(fleet.prepared.jobs, **columns),
        node_names=tuple(found["node_names"]),
        state=np.array(found["state"], np.int8),
        start_us=np.array(found["start_us"], np.int64),
        end_us=np.array(found["end_us"], np.int64),
        runs=runs,
        begin_us=0,
        horizon_us=horizon_us,
        moves=tuple(move for move in moves if move.at_us <= horizon_us),
        leases=tuple(LeaseOutcome(*lease) for lease in found["leases"]),
        marks=tuple(marks),
        clock="live",
        interrupted=interrupted,
        traceback=found["traceback"],
        figures=found["figures"],
        contradictions=tuple(found["contradictions"]),
    )


def replayed(log: Path) -> ReplayResult:
    if written_log(log).exists():
        return read_replay(log)
    return ReplayResult()


def _leases(
    fleet: Source,
    replay: ReplayResult,
    rows: dict[int, int],
    state: NDArray[np.int8],
    *,
    tick_us: int,
    histories: LeaseHistories,
) -> tuple[list[LeaseOutcome], list[Run], list[PoolMove]]:
    """Outcomes in the order of decision, runs and moves of all leases; sets their states."""
    nodes_of = _nodes_of_leases(fleet, replay, rows, tick_us)
    outcomes: list[LeaseOutcome] = []
    runs: list[Run] = []
    moves: list[PoolMove] = []
    for lease in sorted(replay.leases.values(), key=_decision_order):
        row = rows[lease.number]
        outcomes.append(LeaseOutcome(row, lease.granted, lease.decided_us, lease.reason))
        if not lease.granted:
            state[row] = JobState.REJECTED
            continue
        if (whole := histories.of(lease, nodes_of[lease.number])) is not None:
            state[row] = whole.state
            runs += [(begin, row, end, int(outcome), list(on)) for begin, end, outcome, on in whole.rows]
            moves += whole.moves
            continue
        chosen = tuple(fleet.names.index(name) for name in nodes_of[lease.number])
        # Of two clocks the coarser: a job that started after this end must not seem to have started before.
        ended_us = -1 if lease.ended_us is None else _rounded(lease.ended_us, lease.decided_us, tick_us)
        state[row] = JobState.RUNNING if ended_us < 0 else JobState.ENDED
        outcome = RunOutcome.RUNNING if ended_us < 0 else RunOutcome.FINISHED
        runs.append((lease.decided_us, row, ended_us, int(outcome), list(chosen)))
        moves.append(PoolMove(lease.decided_us, chosen, NodePool.OD_ALLOC))
        if ended_us >= 0:
            moves.append(PoolMove(ended_us, chosen, NodePool.OD_RESERVE))
    return outcomes, runs, moves


def _rounded(at_us: int, least_us: int, tick_us: int) -> int:
    return max(least_us, at_us // tick_us * tick_us)


def _decision_order(lease: LeaseResult) -> tuple[int, int]:
    return lease.decided_us, lease.number


def _nodes_of_leases(
    fleet: Source, replay: ReplayResult, rows: dict[int, int], tick_us: int
) -> dict[int, tuple[str, ...]]:
    """Number of each granted lease -> its nodes: as the cloud told them, else from the Balancer's ledger.

    The ledger knows the time and the size of a grant, not whose it was. Of several of one time and size the first is
    that of the first lease; unless a lease would then have lasted beyond the next grant of its nodes, as after a
    restart, when they are asked for in another order: then who ended first had the nodes that were granted first.
    """
    nodes = fleet.prepared.jobs.nodes
    found: dict[int, tuple[str, ...]] = {}
    alike: dict[tuple[int, int], list[LeaseResult]] = defaultdict(list)
    for lease in sorted(replay.leases.values(), key=_decision_order):
        if lease.granted and lease.hosts:
            found[lease.number] = lease.hosts
        elif lease.granted:
            alike[lease.decided_us, int(nodes[rows[lease.number]])].append(lease)
    requests = reversed(granted_requests(fleet.ledger)) if fleet.ledger is not None else ()
    grants = Grants((each.decided_us, tuple(each.nodes)) for each in requests if each.decided_us is not None)
    for key, leases in alike.items():
        found |= grants.shared_out(key, leases, tick_us)
    return found


class Grants:
    """What the Balancer's ledger says of grants: (time, nodes) of each, the oldest first."""

    def __init__(self, grants: Iterable[tuple[int, tuple[str, ...]]]) -> None:
        self._alike: dict[tuple[int, int], list[tuple[str, ...]]] = defaultdict(list)
        """(time, number of nodes) -> nodes of each such grant in order."""
        self._times_us: dict[str, list[int]] = defaultdict(list)
        for at_us, names in grants:
            self._alike[at_us, len(names)].append(names)
            for name in names:
                self._times_us[name].append(at_us)

    def _again_us(self, names: tuple[str, ...], after_us: int) -> int:
        """When one of the nodes was granted again."""
        times = (at_us for name in names for at_us in self._times_us[name] if at_us > after_us)
        return min(times, default=NEVER_US)

    def shared_out(
        self, key: tuple[int, int], leases: list[LeaseResult], tick_us: int
    ) -> dict[int, tuple[str, ...]]:
        """Number of each of these leases, which have one time and size -> its nodes."""
        granted_us, _ = key
        nodes = self._alike[key][: len(leases)]
        ends = [
            NEVER_US if lease.ended_us is None else _rounded(lease.ended_us, granted_us, tick_us)
            for lease in leases
        ]
        again = [self._again_us(names, granted_us) for names in nodes]
        if any(end_us > again_us for end_us, again_us in zip(ends, again, strict=True)):
            leases = [leases[place] for place in sorted(range(len(leases)), key=ends.__getitem__)]
            nodes = [nodes[place] for place in sorted(range(len(nodes)), key=again.__getitem__)]
        return {lease.number: names for lease, names in zip(leases, nodes, strict=True)}


def granted_requests(at: str | Path) -> Sequence[RequestRecord]:
    """Those of a ledger (file or URL), the newest first. The service may still be there."""
    return _requests(at, RequestStatus.GRANTED)


def _requests(at: str | Path, status: RequestStatus | None) -> Sequence[RequestRecord]:
    ledger = Reader(url_of(at))
    try:
        return ledger.requests(status=status, before=None, limit=_LEDGER_PAGE)
    finally:
        ledger.close()


def _handed_over(offline: list[tuple[int, int, bool]], runs: list[Run]) -> list[tuple[int, int, bool]]:
    """The marks at the times from which they mean something.

    Where the clock does not wait, a node may be marked between its job's epilogue and the job's end, or at the very
    time at which a job has started. The Balancer confirms each mark and takes such a node when the job is gone, or
    leaves it. Of a start and a mark at one time the start was first: no job starts on a marked node.
    """
    busy: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for start_us, _, end_us, _, nodes in runs:
        for node in nodes:
            busy[node].append((start_us, end_us if end_us >= 0 else NEVER_US))
    returned_us: dict[int, int] = {}
    found: list[tuple[int, int, bool]] = []
    for at_us, node, is_offline in offline:
        if is_offline:
            returned_us[node] = max([at_us, *(end for start, end in busy[node] if start <= at_us < end)])
        elif (taken_us := returned_us.pop(node, -1)) < at_us:
            found += [(taken_us, node, True)] if taken_us >= 0 else []
            found.append((at_us, node, False))
    return found + [(taken_us, node, True) for node, taken_us in returned_us.items()]


def _moves(
    offline: list[tuple[int, int, bool]] | None,
    leases: list[PoolMove],
    horizon_us: int,
    offline_pool: NodePool,
) -> tuple[PoolMove, ...]:
    """Marks of the batch system and leases in order: at one time an end, then marks, then grants."""
    if offline is None:
        # Nobody tells when a returned node went back to batch: as if that had been at once.
        offline = []
        leases = [
            replace(move, pool=NodePool.OA_IDLE) if move.pool == NodePool.OD_RESERVE else move
            for move in leases
        ]
    grouped: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for at_us, node, is_offline in offline:
        grouped[at_us, is_offline].append(node)
    moves = [
        (at_us, 2 if is_offline else 1, PoolMove(at_us, tuple(nodes), pool))
        for (at_us, is_offline), nodes in grouped.items()
        for pool in (offline_pool if is_offline else NodePool.OA_IDLE,)
    ]
    moves += [(move.at_us, 3 if move.pool == NodePool.OD_ALLOC else 0, move) for move in leases]
    return tuple(move for at_us, _, move in sorted(moves, key=lambda each: each[:2]) if at_us <= horizon_us)


def with_down(
    moves: tuple[PoolMove, ...], down: Sequence[tuple[int, int, bool]], horizon_us: int
) -> tuple[PoolMove, ...]:
    """The same, where nodes that failed are nobody's but a lease's that still has them."""
    if not down:
        return moves
    events: dict[int, list[tuple[int, NodePool | bool]]] = defaultdict(list)
    for move in moves:
        for node in move.nodes:
            events[node].append((move.at_us, move.pool))
    for at_us, node, is_down in down:
        events[node].append((at_us, is_down))
    found: dict[tuple[int, NodePool], list[int]] = defaultdict(list)
    for node, changes in events.items():
        for at_us, pool in _pools(sorted(changes, key=lambda each: each[0])):
            found[at_us, pool].append(node)
    in_order = sorted(found.items(), key=lambda each: each[0][0])
    return tuple(
        PoolMove(at_us, tuple(sorted(nodes)), pool)
        for (at_us, pool), nodes in in_order
        if at_us <= horizon_us
    )


def _pools(changes: Iterable[tuple[int, NodePool | bool]]) -> list[tuple[int, NodePool]]:
    """Of one node, by its moves and by when it was down: what it is from when on; of one time the last."""
    owner, is_down, found = NodePool.OA_IDLE, False, [(-1, NodePool.OA_IDLE)]
    for at_us, change in changes:
        if isinstance(change, NodePool):
            owner = change
        else:
            is_down = change
        pool = NodePool.DOWN if is_down and owner is not NodePool.OD_ALLOC else owner
        if found[-1][0] == at_us:
            found.pop()
        if found[-1][1] is not pool or at_us == -1:
            found.append((at_us, pool))
    return found[1:]


def _last_runs(count: int, runs: list[Run]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start_us = np.full(count, -1, np.int64)
    end_us = np.full(count, -1, np.int64)
    went_on: dict[int, int] = {}
    """Jobs that were resized -> when that run of them began."""
    for begun_us, row, over_us, outcome, _ in runs:
        first_us = went_on.pop(row, begun_us)
        if outcome == RunOutcome.RESIZED:
            went_on[row] = first_us
        elif outcome != RunOutcome.REQUEUED:
            start_us[row], end_us[row] = first_us, over_us
    return start_us, end_us


def _run_table(runs: list[Run]) -> RunTable:
    sizes = [len(nodes) for *_, nodes in runs]
    return RunTable(
        job=np.array([run[1] for run in runs], np.int32),
        start_us=np.array([run[0] for run in runs], np.int64),
        end_us=np.array([run[2] for run in runs], np.int64),
        outcome=np.array([run[3] for run in runs], np.int8),
        first=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        node=np.array([node for *_, nodes in runs for node in nodes], np.int32),
    )
