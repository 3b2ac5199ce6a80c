"""Scheduling passes at multiples of `cycle_s`."""

from __future__ import annotations

import pytest

from emulator.cluster.cluster import Cluster
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.mechanisms.malleable.mechanism import Malleable
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.workload.table import JobTable, Kind

S = 1_000_000


def starts_s(cycle_s: float, **scheduler: object) -> list[float]:
    jobs = JobTable.build(
        submit_us=[0, 1 * S, 130 * S], run_us=[70 * S, 5 * S, 5 * S], estimate_us=[70 * S, 5 * S, 5 * S],
        nodes=[2, 1, 1], number=[1, 2, 3], kind=[Kind.BATCH] * 3,
    )  # fmt: skip
    record = simulate(jobs, 2, SchedulerConfig(cycle_s=cycle_s, **scheduler))  # type: ignore[arg-type]
    return (record.start_us / S).tolist()


def test_a_job_starts_at_the_next_cycle_after_there_is_room():
    assert starts_s(0) == [0, 70, 130]
    assert starts_s(60) == [0, 120, 180]
    assert starts_s(60, backfill="none") == [0, 120, 180]
    assert starts_s(7.5) == [0, 75, 135]


def test_a_node_waits_idle_for_the_cycle_and_the_balancer_may_have_it_meanwhile():
    jobs = JobTable.build(
        submit_us=[0, 1 * S, 80 * S], run_us=[70 * S, 5 * S, 30 * S], estimate_us=[70 * S, 5 * S, 30 * S],
        nodes=[2, 1, 2], number=[1, 2, 3], kind=[Kind.BATCH, Kind.BATCH, Kind.ON_DEMAND],
    )  # fmt: skip
    rejected = {
        cycle_s: simulate(jobs, 2, SchedulerConfig(cycle_s=cycle_s), mechanism=BalancerMechanism())
        .leases[0]
        .granted
        for cycle_s in (0, 60)
    }
    assert rejected == {0: True, 60: True}
    early = jobs.take([0, 1, 2])
    early.submit_us[2] = 71 * S
    granted = {
        cycle_s: simulate(early, 2, SchedulerConfig(cycle_s=cycle_s), mechanism=BalancerMechanism())
        .leases[0]
        .granted
        for cycle_s in (0, 60)
    }
    assert granted == {0: False, 60: True}


def test_a_cycle_goes_with_passes_after_instants_and_in_virtual_time_only():
    with pytest.raises(ValueError, match="cycle_s: there are no passes after single events"):
        SchedulerConfig(cycle_s=60, pass_="event")
    with pytest.raises(ValueError, match="scheduler: cycle_s"):
        SchedulerConfig(cycle_s=-1)
    with pytest.raises(ValueError, match="cycle_s: a cycle is kept in virtual time only"):
        Cluster(2, SchedulerConfig(cycle_s=60), simulated=False)
    with pytest.raises(ValueError, match="cycle_s must be 0"):
        Malleable().make_machine(2, SchedulerConfig(backfill="conservative", cycle_s=60), JobTable.empty(), 1)
