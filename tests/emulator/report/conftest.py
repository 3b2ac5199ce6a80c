"""A realistic record: 500 jobs, first come first served, with leases, a reserve, a fault and a requeue."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.record.run_record import LeaseOutcome, Mark, NodePool, PoolMove, RunRecord, RunTable
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

US = 1_000_000


class Simulation:
    """First come first served on sets of nodes; leases take idle nodes at once, a fault requeues its job."""

    def __init__(self, jobs: JobTable, nodes: int, reserve: int) -> None:
        self.jobs = jobs
        self.nodes = nodes
        self.idle = set(range(nodes))
        self.reserve = {self.idle.pop() for _ in range(reserve)}
        self.down: set[int] = set()
        self.queue: list[int] = []
        self.running: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.runs: list[list[object]] = []
        self.moves = [PoolMove(0, tuple(sorted(self.reserve)), NodePool.OD_RESERVE)] if reserve else []
        self.leases: list[LeaseOutcome] = []
        self.marks: list[Mark] = []
        self.ends: list[tuple[int, int, int]] = []
        self.state = np.full(len(jobs), JobState.FUTURE, np.int8)
        self.start_us = np.full(len(jobs), -1, np.int64)
        self.end_us = np.full(len(jobs), -1, np.int64)

    def begin(self, row: int, now_us: int, nodes: tuple[int, ...]) -> None:
        self.runs.append([row, now_us, -1, RunOutcome.RUNNING, nodes])
        run = len(self.runs) - 1
        self.running[row] = (run, nodes)
        limit_us = min(self.jobs.run_us[row], self.jobs.estimate_us[row])
        heapq.heappush(self.ends, (now_us + int(limit_us), run, row))
        self.state[row] = JobState.RUNNING

    def finish(self, run: int, row: int, now_us: int, outcome: RunOutcome) -> None:
        if self.running.get(row, (-1,))[0] != run:
            return
        _, nodes = self.running.pop(row)
        self.runs[run][2:4] = [now_us, outcome]
        if self.jobs.kind[row] == Kind.ON_DEMAND:
            short = 4 - len(self.reserve)
            kept, given = nodes[:short], nodes[max(short, 0) :]
            if short > 0:
                self.reserve.update(kept)
                self.moves.append(PoolMove(now_us, kept, NodePool.OD_RESERVE))
            else:
                given = nodes
            if given:
                self.moves.append(PoolMove(now_us, given, NodePool.OA_IDLE))
            self.idle.update(given)
        else:
            self.idle.update(nodes)
        if outcome is RunOutcome.REQUEUED:
            self.queue.insert(0, row)
            self.state[row] = JobState.QUEUED
        else:
            self.state[row] = JobState.ENDED
            self.start_us[row], self.end_us[row] = self.runs[run][1], now_us

    def fail(self, node: int, now_us: int) -> None:
        self.marks.append(Mark(now_us, f"node n{node:02} fails"))
        for row, (run, nodes) in list(self.running.items()):
            if node in nodes and self.jobs.kind[row] == Kind.BATCH:
                self.finish(run, row, now_us, RunOutcome.REQUEUED)
        if node in self.idle:
            self.idle.discard(node)
            self.down.add(node)
            self.moves.append(PoolMove(now_us, (node,), NodePool.DOWN))

    def repair(self, node: int, now_us: int) -> None:
        self.marks.append(Mark(now_us, f"node n{node:02} is repaired"))
        if node in self.down:
            self.down.discard(node)
            self.idle.add(node)
            self.moves.append(PoolMove(now_us, (node,), NodePool.OA_IDLE))

    def request(self, row: int, now_us: int) -> None:
        count = int(self.jobs.nodes[row])
        free = sorted(self.reserve) + sorted(self.idle)
        if len(free) < count:
            self.state[row] = JobState.REJECTED
            self.leases.append(LeaseOutcome(row, False, now_us, "too few idle nodes"))
            return
        nodes = tuple(free[:count])
        self.reserve.difference_update(nodes)
        self.idle.difference_update(nodes)
        self.moves.append(PoolMove(now_us, nodes, NodePool.OD_ALLOC))
        self.leases.append(LeaseOutcome(row, True, now_us))
        self.begin(row, now_us, nodes)

    def start_queued(self, now_us: int) -> None:
        while self.queue and self.jobs.nodes[self.queue[0]] <= len(self.idle):
            row = self.queue.pop(0)
            nodes = tuple(sorted(self.idle)[: self.jobs.nodes[row]])
            self.idle.difference_update(nodes)
            self.begin(row, now_us, nodes)

    def run(self, horizon_us: int, faults: list[tuple[int, str, int]]) -> None:
        arrivals = [(int(at_us), 2, "arrive", row) for row, at_us in enumerate(self.jobs.submit_us)]
        due = sorted([*arrivals, *((at_us, 1, what, node) for at_us, what, node in faults)])
        while due or self.ends:
            at_us = min(due[0][0] if due else horizon_us, self.ends[0][0] if self.ends else horizon_us)
            if at_us >= horizon_us:
                return
            while self.ends and self.ends[0][0] == at_us:
                _, run, row = heapq.heappop(self.ends)
                killed = self.jobs.run_us[row] > self.jobs.estimate_us[row]
                self.finish(run, row, at_us, RunOutcome.KILLED if killed else RunOutcome.FINISHED)
            while due and due[0][0] == at_us:
                _, _, what, item = due.pop(0)
                if what == "fail":
                    self.fail(item, at_us)
                elif what == "repair":
                    self.repair(item, at_us)
                elif self.jobs.kind[item] == Kind.ON_DEMAND:
                    self.request(item, at_us)
                else:
                    self.queue.append(item)
                    self.state[item] = JobState.QUEUED
            self.start_queued(at_us)

    def table(self) -> RunTable:
        job, start_us, end_us, outcome, nodes = zip(*self.runs, strict=True)
        return RunTable(
            job=np.array(job, np.int32),
            start_us=np.array(start_us, np.int64),
            end_us=np.array(end_us, np.int64),
            outcome=np.array(outcome, np.int8),
            first=np.cumsum([0, *map(len, nodes)]).astype(np.int64),
            node=np.concatenate([np.array(group, np.int32) for group in nodes]),
        )


def simulate(*, jobs: int = 500, leases: int = 36, nodes: int = 64, seed: int = 7) -> RunRecord:
    rng = np.random.default_rng(seed)
    week_us = 7 * 86_400 * US
    run_us = np.minimum(rng.lognormal(8.6, 1.4, jobs), 80_000).astype(np.int64) * US + 1
    batch = JobTable.build(
        submit_us=np.sort(rng.integers(0, week_us, jobs)),
        run_us=run_us,
        estimate_us=(run_us * rng.choice([0.9, 1.2, 2.0, 5.0], jobs, p=[0.02, 0.3, 0.4, 0.28])).astype(
            np.int64
        ),
        nodes=rng.choice([1, 2, 4, 8, 16, 32], jobs, p=[0.25, 0.15, 0.2, 0.2, 0.15, 0.05]),
        user=rng.integers(0, 20, jobs),
    )
    asked = JobTable.build(
        submit_us=rng.integers(0, week_us, leases),
        run_us=rng.integers(1800, 6 * 3600, leases) * US,
        nodes=rng.integers(1, 9, leases),
        kind=Kind.ON_DEMAND,
    )
    table = batch.merge(asked) if leases else batch
    simulation = Simulation(table, nodes, reserve=4 if leases else 0)
    hour_us = 3600 * US
    faults = [(30 * hour_us, "fail", 20), (42 * hour_us, "repair", 20)] if leases else []
    simulation.run(week_us, faults)
    return RunRecord(
        jobs=table,
        node_names=tuple(f"n{node:02}" for node in range(nodes)),
        state=simulation.state,
        start_us=simulation.start_us,
        end_us=simulation.end_us,
        runs=simulation.table(),
        begin_us=0,
        horizon_us=week_us,
        moves=tuple(simulation.moves),
        leases=tuple(simulation.leases),
        marks=tuple(simulation.marks),
        left_out={"wider than the cluster": 3, "no run time": 11},
        counted={"estimate missing, run time taken": 25},
        scenario={"name": "A week at a small site", "nodes": nodes, "balancer": {"reserve": 4, "wait_s": 0}},
        seed=seed,
        wall_s=0.42,
    )


@pytest.fixture(scope="session")
def week() -> RunRecord:
    """A week of 500 batch jobs and 36 leases on 64 nodes, cut off at its horizon."""
    return simulate()


@pytest.fixture
def simulated() -> Callable[..., RunRecord]:
    return simulate


@pytest.fixture
def live_week(week: RunRecord) -> RunRecord:
    pace = {"speed": 600.0, "holds": 812.0, "held_us": 4_250_000.0, "longest_hold_us": 31_000.0, "reached_speed": 598.4,
            "limit_speed": 14_103.2}  # fmt: skip
    return replace(week, clock="live", pace=pace, interrupted="stopped by SIGINT")
