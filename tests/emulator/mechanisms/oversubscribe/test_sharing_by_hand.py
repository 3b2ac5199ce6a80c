"""Schedules of shared nodes that one can work out on paper, the examples of Minami et al. 2023 among them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from emulator.mechanisms.oversubscribe.contention import EqualShares, Overhead, PartialUse, speed_table
from oracle.oversubscribe import Machine
from oracle.sharing import cluster_of, job, seconds_of


def run(machine: Machine, *jobs, **options):
    return seconds_of(cluster_of(machine, list(jobs), **options))


# Figure 2.


def test_two_jobs_on_the_same_cores_take_40_and_20_seconds():
    done = run(Machine(1, 4, slots=2), job(0, 0, 30, "n1c4"), job(1, 10, 10, "n1c2"))
    assert done == {0: (0, 40), 1: (10, 30)}


def test_without_sharing_the_second_job_waits():
    done = run(Machine(1, 4, slots=1), job(0, 0, 30, "n1c4"), job(1, 10, 10, "n1c2"))
    assert done == {0: (0, 30), 1: (30, 40)}


# Figure 1: which node and core.


def test_a_serial_job_goes_to_the_least_occupied_node_and_core():
    jobs = [
        job(1, 0, 100, "n1c4"), job(2, 0, 100, "n1c3"), job(3, 0, 100, "n1c2"), job(4, 1, 100, "n1c1")
    ]  # fmt: skip
    cluster = cluster_of(Machine(2, 4, slots=2), jobs)
    cluster.advance(2_000_000)
    # Job 1 fills node 0, jobs 2 and 3 go to node 1 (3 and 4 slots), job 3 finds one core of it free.
    assert cluster.sharing.tolist() == [[2, 1, 1, 1], [2, 1, 1, 1]]


# Figure 3: a candidate may start when no planned start moves, its victims included.

NODES = Machine(2, 2, slots=2, memory=10)


def case_1(candidate_run_s: float):
    """Jobs 0 and 1 share core 0 of node 0, both at half speed; job 2 waits for it and is planned for 100 s.

    Job 3 gets core 1 of node 0 and core 0 of node 1, beside job 0, which it does not slow down further.
    """
    return run(
        NODES,
        job(0, 0, 100, "n2c2"),
        job(1, 0, 50, "n1c1"),
        job(2, 1, 10, "n2c2"),
        job(3, 2, candidate_run_s, "n2c1"),
    )


def test_a_candidate_that_ends_before_the_planned_start_at_its_reduced_speed_is_backfilled():
    done = case_1(candidate_run_s=49)
    assert done[3] == (2, 100)
    assert done[2][0] == 100


def test_a_candidate_that_ends_later_at_its_reduced_speed_waits():
    done = case_1(candidate_run_s=50)
    assert done[2][0] == 100
    assert done[3][0] > 100


def case_2(victim_run_s: float):
    """Job 4 wants memory that job 0 has on node 0 until 40 s and job 1 on node 1; its planned start is 40 s.

    Job 5 gets core 2 of node 0, beside job 2, which is at half speed already, and core 0 of node 1, where it slows
    job 1 down. It would end at 12 s.
    """
    return run(
        Machine(2, 3, slots=2, memory=10),
        job(0, 0, 40, "n1c1", memory=6, limit=1),
        job(1, 0, victim_run_s, "n1c3", memory=6),
        job(2, 0, 200, "n1c2"),
        job(3, 0, 100, "n1c1"),
        job(4, 1, 10, "n2c1", memory=6),
        job(5, 2, 5, "n2c1"),
    )


def test_a_candidate_that_ends_in_time_waits_when_a_victim_would_not():
    done = case_2(victim_run_s=40)
    assert (done[4][0], done[5][0]) == (40, 40)


def test_a_victim_that_still_ends_in_time_keeps_nobody_from_starting():
    done = case_2(victim_run_s=20)
    assert (done[4][0], done[5]) == (40, (2, 12))


# Limits stretch, memory does not.


def test_walltime_limits_stretch_with_the_speed():
    """Job 2 waits for a core that the estimates free at 40, not at 20: a candidate of 30 s fits before it."""
    machine = Machine(1, 2, slots=2)
    jobs = [
        job(0, 0, 20, "n1c2", estimate_s=20), job(1, 0, 20, "n1c1"), job(2, 1, 5, "n1c2"), job(3, 1, 15, "n1c1")
    ]  # fmt: skip
    assert run(machine, *jobs)[3] == (1, 31)


def test_memory_is_never_shared():
    done = run(
        Machine(1, 4, slots=4, memory=10), job(1, 0, 10, "n1c1", memory=6), job(2, 0, 10, "n1c1", memory=6)
    )
    assert done == {1: (0, 10), 2: (10, 20)}


# Beyond the paper.


def test_a_job_that_opts_out_shares_with_nobody():
    done = run(Machine(1, 1, slots=4), job(1, 0, 10, "n1c1", limit=1), job(2, 0, 10, "n1c1"))
    assert done == {1: (0, 10), 2: (10, 20)}


def test_an_idle_phase_leaves_the_core_to_the_neighbour():
    done = run(
        Machine(1, 1, slots=2),
        job(1, 0, 30, "n1c1", phases_s=(10, 10, 10)),
        job(2, 0, 20, "n1c1"),
    )
    # Both at half speed until 20; job 1 thinks until 30 while job 2 does its other 10 s alone.
    assert done == {1: (0, 40), 2: (0, 30)}


def test_gpus_are_shared_like_cores():
    machine = Machine(1, 4, slots=1, gpus=1, gpu_slots=2)
    done = run(
        machine, job(1, 0, 10, "n1c1", gpus=1), job(2, 0, 10, "n1c1", gpus=1), job(3, 0, 10, "n1c1", gpus=1)
    )
    assert done == {1: (0, 20), 2: (0, 20), 3: (20, 30)}


def test_speeds_of_the_contention_models():
    assert [EqualShares().speed(m) for m in (1, 2, 4)] == [1, Fraction(1, 2), Fraction(1, 4)]
    assert [Overhead(percent=10).speed(m) for m in (1, 2, 3)] == [1, Fraction(5, 11), Fraction(5, 18)]
    assert [PartialUse(percent=50).speed(m) for m in (1, 2, 4)] == [1, 1, Fraction(1, 2)]
    assert speed_table(EqualShares(), 4)[0] == 12


def test_a_model_that_gets_faster_is_an_error():
    class Faster:
        def speed(self, jobs: int) -> Fraction:
            return Fraction(jobs)

    with pytest.raises(ValueError, match="more jobs must not be faster"):
        speed_table(Faster(), 3)


def test_a_job_that_the_empty_machine_could_not_run_is_an_error():
    with pytest.raises(ValueError, match="job 7 wants 3 cores on a node, there are 2"):
        run(NODES, job(7, 0, 1, "n1c3"))


def test_a_scheduler_that_shared_nodes_do_not_have_is_an_error():
    with pytest.raises(ValueError, match="none and easy, not conservative"):
        run(NODES, job(1, 0, 1, "n1c1"), scheduler="fcfs+conservative")
