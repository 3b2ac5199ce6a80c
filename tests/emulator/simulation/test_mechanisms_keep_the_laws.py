"""Whatever a mechanism does with nodes and jobs, the run it leaves behind is lawful."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.mechanisms.balancer.mechanism import BalancerMechanism
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.validation.node_use import NodeUse
from emulator.workload.table import JobTable, Kind
from oracle.reference import BACKFILLS, CHOICES, ORDERS
from oracle.workloads import job_table, random_workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.simulation.mechanism import Actions


class Restless:
    """Does at every decision point whatever it is allowed to do, at random."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.reserved: set[int] = set()
        self.waiting: list[int] = []
        self.requeues = 0

    def on_begin(self, act: Actions) -> None:
        self.is_batch = act.cluster.job_table().kind == Kind.BATCH
        self.stir(act)

    def on_arrival(self, job: int, act: Actions) -> None:
        if self.rng.random() < 0.3:
            act.reject(job, "no mood")
        else:
            self.waiting.append(job)
        self.stir(act)

    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:
        self.reserved.update(nodes.tolist())
        self.stir(act)

    def on_timer(self, act: Actions) -> None:
        self.stir(act)

    def on_job_end(self, act: Actions) -> None:
        self.stir(act)

    def stir(self, act: Actions) -> None:
        running = np.flatnonzero(self.is_batch & (act.cluster.state == JobState.RUNNING))
        if len(running) and self.requeues < 30 and self.rng.random() < 0.3:
            self.requeues += 1
            act.requeue(int(self.rng.choice(running)), front=bool(self.rng.random() < 0.5))
        others = np.flatnonzero(act.cluster.node_offline == 0)
        taken, _ = act.reserve(others[self.rng.random(len(others)) < 0.3].tolist())
        self.reserved.update(taken)
        for job in list(self.waiting):
            wanted = act.cluster.nodes_wanted(job)
            if wanted <= len(self.reserved):
                chosen = sorted(self.reserved)[:wanted]
                act.start(job, chosen)
                self.reserved.difference_update(chosen)
                self.waiting.remove(job)
        if not self.waiting or self.rng.random() < 0.3:
            given = [node for node in self.reserved if not self.waiting or self.rng.random() < 0.5]
            act.release(given)
            self.reserved.difference_update(given)
        if self.waiting or self.reserved or self.rng.random() < 0.2:
            act.wake(act.now_us + int(self.rng.integers(1, 9)) * US)


def batch_and_leases(rng: np.random.Generator) -> tuple[JobTable, int]:
    """A random workload of which some jobs are on-demand leases."""
    jobs, nodes = random_workload(rng)
    table = job_table(jobs)
    kinds = np.where(rng.random(len(table)) < rng.random() / 2, Kind.ON_DEMAND, Kind.BATCH)
    return replace(table, kind=kinds.astype(np.int8)), nodes


def random_scheduler(rng: np.random.Generator) -> SchedulerConfig:
    return SchedulerConfig(
        order=str(rng.choice(ORDERS)),
        backfill=str(rng.choice(BACKFILLS)),  # type: ignore[arg-type]
        choice=str(rng.choice(CHOICES)),  # type: ignore[arg-type]
        pass_=str(rng.choice(("instant", "event"))),  # type: ignore[arg-type]
        reservation=str(rng.choice(("refreshed", "kept"))),  # type: ignore[arg-type]
    )


@pytest.mark.slow
def test_a_mechanism_that_does_anything_at_any_time_leaves_a_lawful_run() -> None:
    rng = np.random.default_rng(6)
    outcomes = np.zeros(len(RunOutcome), np.int64)
    on_demand_us = reserve_us = 0
    for _ in range(250):
        jobs, nodes = batch_and_leases(rng)
        record = simulate(jobs, nodes, random_scheduler(rng), mechanism=Restless(rng))
        assert_lawful(record, jobs_in=len(jobs))
        assert set(record.state.tolist()) <= {JobState.ENDED, JobState.REJECTED}
        outcomes += np.bincount(record.runs.outcome, minlength=len(RunOutcome))
        account = NodeUse(record).node_time()
        on_demand_us, reserve_us = on_demand_us + account.on_demand_us, reserve_us + account.reserve_us
    assert outcomes[RunOutcome.REQUEUED] > 500
    assert min(on_demand_us, reserve_us) > 10_000 * US


@pytest.mark.parametrize("algorithm", ["basic", "hint"])
def test_the_balancer_leaves_a_lawful_run(algorithm: str) -> None:
    rng = np.random.default_rng([7, *algorithm.encode()])
    granted = 0
    for _ in range(60):
        jobs, nodes = batch_and_leases(rng)
        mechanism = BalancerMechanism(
            algorithm=algorithm,
            static_reserve=int(rng.integers(0, nodes // 2 + 1)) if algorithm == "basic" else 0,
            wait_s=float(rng.choice((0, 5, 60))),
            idle_reserve_s=float(rng.choice((0, 3, 600))),
            notice_s=float(rng.choice((0, 20))),
        )
        record = simulate(jobs, nodes, random_scheduler(rng), mechanism=mechanism)
        assert_lawful(record, jobs_in=len(jobs))
        granted += sum(lease.granted for lease in record.leases)
    assert granted > 100
