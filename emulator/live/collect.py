"""From the files and servers of a live run to the same record that a virtual run leaves."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.ledger.store import Ledger
from balancer.lifecycle.records import RequestStatus
from emulator.harness.record import (
    JobState,
    LeaseOutcome,
    Mark,
    NodePool,
    PoolMove,
    RunOutcome,
    RunRecord,
    RunTable,
)
from emulator.live.process import read_address
from emulator.live.replay_log import LeaseResult, ReplayResult, partial_path, read_replay
from emulator.live.torque.protocol import request
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.live.fleet import Fleet

_LEDGER_PAGE = 1_000_000
Run = tuple[int, int, int, int, list[int]]
"""(start_us, job row, end_us or -1, RunOutcome, nodes)."""


def jobs_ended(batch_home: Path) -> int:
    """Batch jobs that are over, by the accounting log of the batch server."""
    ended = 0
    for path in (batch_home / "server_priv" / "accounting").glob("*"):
        with path.open("rb") as log:
            ended += sum(1 for line in log if line.split(b";", 2)[1:2] in ([b"E"], [b"D"]))
    return ended


def collect(fleet: Fleet, interrupted: str) -> RunRecord:
    """The record of a fleet whose batch server still answers."""
    jobs = fleet.prepared.jobs
    address = read_address(fleet.batch_home)
    exported: dict[str, Any] = request(address, {"do": "export"}) if address else {"jobs": [], "offline": []}
    replay = _replay(fleet.replay_log)
    rows = {int(number): row for row, number in enumerate(jobs.number)}
    by_torque = {_torque_number(text): rows[number] for number, text in replay.job_ids.items()}
    submit_us = jobs.submit_us.copy()
    state = np.full(len(jobs), JobState.FUTURE, np.int8)
    runs: list[Run] = []
    for job in exported["jobs"]:
        row = by_torque.get(job["number"])
        if row is None:
            continue
        submit_us[row] = job["submit_us"]
        state[row] = JobState[job["state"]]
        runs += [
            (run["start_us"], row, run["end_us"], int(RunOutcome[run["outcome"]]), run["nodes"])
            for run in job["runs"]
        ]
    outcomes, lease_runs, lease_moves = _leases(fleet, replay, rows, state)
    runs = sorted(runs + lease_runs, key=lambda run: run[:2])
    now_us = fleet.now_us
    last_us = max((run[2] for run in runs), default=0)
    horizon_us = now_us if interrupted or not runs else last_us
    marks = [*fleet.marks]
    if interrupted:
        marks.append(Mark(now_us, f"interrupted: {interrupted}"))
    start_us, end_us = _last_runs(len(jobs), runs)
    return RunRecord(
        jobs=_with_submits(jobs, submit_us),
        node_names=fleet.names,
        state=state,
        start_us=start_us,
        end_us=end_us,
        runs=_run_table(runs),
        begin_us=0,
        horizon_us=horizon_us,
        moves=_moves(exported["offline"], lease_moves, horizon_us),
        leases=tuple(outcomes),
        marks=tuple(marks),
        clock="live",
        interrupted=interrupted,
    )


def _replay(log: Path) -> ReplayResult:
    if log.exists() or partial_path(log).exists():
        return read_replay(log)
    return ReplayResult()


def _torque_number(job_id: str) -> int:
    return int(job_id.split(".", 1)[0])


def _leases(
    fleet: Fleet, replay: ReplayResult, rows: dict[int, int], state: np.ndarray[Any, np.dtype[np.int8]]
) -> tuple[list[LeaseOutcome], list[Run], list[PoolMove]]:
    """Outcomes in the order of decision, runs and moves of all leases; sets their states."""
    granted = _granted_nodes(fleet)
    outcomes: list[LeaseOutcome] = []
    runs: list[Run] = []
    moves: list[PoolMove] = []
    nodes = fleet.prepared.jobs.nodes
    for lease in sorted(replay.leases.values(), key=_decision_order):
        row = rows[lease.number]
        outcomes.append(LeaseOutcome(row, lease.granted, lease.decided_us, lease.reason))
        if not lease.granted:
            state[row] = JobState.REJECTED
            continue
        names = granted[lease.decided_us, int(nodes[row])].pop(0)
        chosen = tuple(fleet.names.index(name) for name in names)
        ended_us = -1 if lease.ended_us is None else lease.ended_us
        state[row] = JobState.RUNNING if ended_us < 0 else JobState.ENDED
        outcome = RunOutcome.RUNNING if ended_us < 0 else RunOutcome.FINISHED
        runs.append((lease.decided_us, row, ended_us, int(outcome), list(chosen)))
        moves.append(PoolMove(lease.decided_us, chosen, NodePool.OD_ALLOC))
        if ended_us >= 0:
            moves.append(PoolMove(ended_us, chosen, NodePool.OD_RESERVE))
    return outcomes, runs, moves


def _decision_order(lease: LeaseResult) -> tuple[int, int]:
    return lease.decided_us, lease.number


def _granted_nodes(fleet: Fleet) -> dict[tuple[int, int], list[tuple[str, ...]]]:
    """(time of the grant, number of nodes) -> nodes of each such grant in order, from the Balancer's ledger."""
    found: dict[tuple[int, int], list[tuple[str, ...]]] = defaultdict(list)
    if fleet.mechanism is None:
        return found
    ledger = Ledger(fleet.work / "ledger.db")
    try:
        requests = ledger.requests(status=RequestStatus.GRANTED, before=None, limit=_LEDGER_PAGE)
    finally:
        ledger.close()
    for each in reversed(requests):
        if each.decided_us is not None:
            found[each.decided_us, each.count].append(tuple(each.nodes))
    return found


def _moves(
    offline: list[tuple[int, int, bool]], leases: list[PoolMove], horizon_us: int
) -> tuple[PoolMove, ...]:
    """Marks of the batch system and leases in order: at one time an end, then marks, then grants."""
    grouped: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for at_us, node, is_offline in offline:
        grouped[at_us, is_offline].append(node)
    moves = [
        (at_us, 2 if is_offline else 1, PoolMove(at_us, tuple(nodes), pool))
        for (at_us, is_offline), nodes in grouped.items()
        for pool in (NodePool.OD_RESERVE if is_offline else NodePool.OA_IDLE,)
    ]
    moves += [(move.at_us, 3 if move.pool == NodePool.OD_ALLOC else 0, move) for move in leases]
    return tuple(move for at_us, _, move in sorted(moves, key=lambda each: each[:2]) if at_us <= horizon_us)


def _last_runs(
    count: int, runs: list[Run]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    start_us = np.full(count, -1, np.int64)
    end_us = np.full(count, -1, np.int64)
    for begun_us, row, over_us, outcome, _ in runs:
        if outcome != RunOutcome.REQUEUED:
            start_us[row], end_us[row] = begun_us, over_us
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


def _with_submits(jobs: JobTable, submit_us: np.ndarray[Any, np.dtype[np.int64]]) -> JobTable:
    """The jobs with the submit times they really had; a lease keeps the time it asked at."""
    columns = {name: getattr(jobs, name) for name in JobTable.__slots__}
    return JobTable(**columns | {"submit_us": np.where(jobs.kind == Kind.BATCH, submit_us, jobs.submit_us)})
