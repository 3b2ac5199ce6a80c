"""The compiled kernel starts and ends every job when the slow reference does; nothing is ever shared too often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.cluster.cluster import Stop
from emulator.mechanisms.oversubscribe.contention import EqualShares, Overhead, PartialUse
from gates import GATE
from oracle.sharing import cluster_of, dense_case, random_case, reference_of, schedule_of
from oracle.workloads import smallest_part

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.contention import Contention
    from emulator.mechanisms.oversubscribe.machine import OversubscribedMachine
    from oracle.oversubscribe import Machine, SharedJob

MODELS = (EqualShares(), Overhead(percent=10), PartialUse(percent=40))


def compare(machine: Machine, jobs: list[SharedJob], scheduler: str, contention: Contention) -> None:
    def both(part: list[SharedJob]) -> tuple[dict, dict]:
        reference = reference_of(machine, part, scheduler=scheduler, contention=contention)
        return schedule_of(
            cluster_of(machine, part, scheduler=scheduler, contention=contention)
        ), reference.run()

    def differ(part: list[SharedJob]) -> bool:
        ours, expected = both(part)
        return ours != expected

    ours, expected = both(jobs)
    if ours != expected:
        part = smallest_part(jobs, differ)
        ours, expected = both(part)
        pytest.fail(
            f"{scheduler} with {contention} on {machine}\n"
            + "\n".join(f"{job}: kernel {ours[job.number]}, reference {expected[job.number]}" for job in part)
        )


def compare_many(scheduler: str, contention: Contention, *, workloads: int, seed: int) -> None:
    rng = np.random.default_rng([seed, *f"{scheduler}{contention}".encode()])
    for _ in range(workloads):
        machine, jobs = random_case(rng)
        compare(machine, jobs, scheduler, contention)


@pytest.mark.sample(2)
@pytest.mark.parametrize("contention", MODELS, ids=str)
@pytest.mark.parametrize("scheduler", ["fcfs+none", "fcfs+easy"])
def test_every_job_starts_and_ends_when_it_does_in_the_reference(scheduler, contention):
    compare_many(scheduler, contention, workloads=60, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [3, 6])
def test_whoever_backfills_before_a_full_queue_does_so_in_the_reference(nodes):
    rng = np.random.default_rng(nodes)
    for _ in range(40):
        machine, jobs = dense_case(rng, nodes, jobs=40)
        compare(machine, jobs, "fcfs+easy", EqualShares())


def test_and_where_the_head_waits_for_gpus():
    rng = np.random.default_rng(2)
    for _ in range(40):
        machine, jobs = dense_case(rng, 4, jobs=30, gpus=2)
        compare(machine, jobs, "fcfs+easy", EqualShares())


@pytest.mark.slow
def test_and_on_a_machine_of_many_nodes():
    rng = np.random.default_rng(70)
    for _ in range(6):
        machine, jobs = dense_case(rng, 70, jobs=30)
        compare(machine, jobs, "fcfs+easy", EqualShares())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_full_queues_of_hundreds_of_workloads_run_as_in_the_reference():
    rng = np.random.default_rng(3)
    for _ in range(GATE.reference_workloads):
        machine, jobs = dense_case(rng, int(rng.integers(2, 9)), jobs=40)
        compare(machine, jobs, "fcfs+easy", EqualShares())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("contention", MODELS, ids=str)
@pytest.mark.parametrize("scheduler", ["fcfs+none", "fcfs+easy"])
def test_hundreds_of_workloads_run_as_in_the_reference(scheduler, contention):
    compare_many(scheduler, contention, workloads=GATE.reference_workloads, seed=2)


def instants(cluster: OversubscribedMachine):
    """The machine after every instant of a run."""
    while cluster.advance((1 << 63) - 1, pause_after=1) == Stop.PAUSED:
        yield cluster


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_no_core_is_above_m_and_no_node_above_its_memory_at_any_time(seed):
    machine, jobs = random_case(np.random.default_rng(seed), most_jobs=40)
    by_row = sorted(jobs, key=lambda job: (job.submit_us, job.number))
    for cluster in instants(cluster_of(machine, jobs)):
        slots = cluster.slots
        assert (slots[:, : machine.cores] >= 0).sum(2).max() <= machine.slots
        assert (slots[:, machine.cores :] >= 0).sum(2).max(initial=0) <= machine.gpu_slots
        for node in range(machine.nodes):
            there = {int(row) for row in slots[node].ravel() if row >= 0}
            in_use = sum(by_row[row].memory for row in there)
            assert cluster.free_memory_kib[node] == machine.memory - in_use
            assert in_use <= machine.memory or not machine.memory
            for unit in slots[node]:
                sharing = [by_row[row] for row in unit if row >= 0]
                assert all(len(sharing) <= job.limit for job in sharing)
                assert len({job.number for job in sharing}) == len(sharing)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_work_is_conserved_exactly(seed):
    """A job's speeds over time add up to its run time, all but what its last microsecond had to spare."""
    machine, jobs = random_case(np.random.default_rng(seed), most_jobs=40)
    jobs = [job for job in jobs if len(job.phases_us) == 1]
    if not jobs:
        return
    cluster = cluster_of(machine, jobs)
    run_us = cluster.job_table().run_us
    done, since_us, speed = np.zeros(len(jobs), np.int64), 0, np.zeros(len(jobs), np.int64)
    full = cluster.full_speed
    for now in instants(cluster):
        done += (now.now_us - since_us) * speed
        since_us = now.now_us
        running = now.state == 2
        speed = np.where(running, [cluster.parts_of_full_speed(row) for row in range(len(jobs))], 0)
        over = now.state == 3
        assert (done[over] >= run_us[over] * full).all()
        assert (done[over] - run_us[over] * full < full).all()
    schedule = reference_of(machine, jobs)
    schedule.run()
    assert all(schedule.done[job.number] == job.run_us for job in jobs)
