"""What must hold whatever comes: the laws of the mechanisms, with and without failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancer.clock import NEVER_US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.validation.laws import check
from oracle.hybrid_kit import STRATEGIES, make_loop, random_jobs, simulate

worlds = st.tuples(
    st.integers(0, 10**6), st.sampled_from(STRATEGIES), st.sampled_from([0, 2, 9]), st.sampled_from([0, 2e-5])
)
"""(seed of the workload, strategy, warning in us, MTBF in s)"""


def run(world):
    seed, strategy, warning_us, mtbf_s = world
    jobs, nodes = random_jobs(np.random.default_rng(seed), jobs=30)
    record, mechanism = simulate(jobs, nodes, strategy, warning_us=warning_us, mtbf_s=mtbf_s, repair_s=1e-5)
    return jobs, record, mechanism


@settings(max_examples=120)
@given(worlds)
def test_every_job_ends_and_does_exactly_the_work_it_owes(world):
    _, record, _ = run(world)
    assert (record.state == JobState.ENDED).all()
    assert check(record) == []
    done = np.zeros(len(record.jobs), np.int64)
    np.add.at(done, record.runs.job, record.runs.done_node_us - record.runs.lost_node_us)
    owed = record.jobs.run_us * record.jobs.nodes
    batch = record.jobs.kind == 0
    assert done[batch].tolist() == owed[batch].tolist()


def test_a_node_may_break_under_a_job_that_leaves_for_an_on_demand_job_which_was_put_back():
    """Seed 92: its checkpoint was half written when the node broke, and nobody wanted its nodes any more."""
    _, record, mechanism = run((92, "cup+paa", 9, 2e-5))
    assert (record.state == JobState.ENDED).all()
    assert check(record) == []
    assert mechanism.loans.outstanding == 0


@settings(max_examples=120)
@given(worlds)
def test_a_malleable_job_stays_within_its_bounds_and_a_rigid_one_at_its_size(world):
    jobs, record, _ = run(world)
    widths = np.diff(record.runs.first)
    for job, width in zip(record.runs.job, widths, strict=True):
        least = jobs[job].least if jobs[job].kind == "malleable" else jobs[job].nodes
        assert least <= width <= jobs[job].nodes


@settings(max_examples=120)
@given(worlds)
def test_every_lent_node_came_back_or_is_accounted_for(world):
    _, _, mechanism = run(world)
    loans = mechanism.loans
    assert loans.outstanding == 0
    assert loans.lent == sum(loans.returned.values()) + sum(loans.not_returned.values())


@settings(max_examples=120)
@given(worlds)
def test_figures_are_shares_and_the_longest_wait_is_told(world):
    _, record, _ = run(world)
    for name in ("instant_start_ratio", "preemption_ratio_rigid", "preemption_ratio_malleable"):
        value = record.figures[name]
        assert value is None or 0 <= value <= 1
    assert record.figures["longest_wait_h"] >= 0


@settings(max_examples=120)
@given(worlds)
def test_guests_that_have_to_leave_are_counted_among_the_preempted_runs_and_apart(world):
    _, record, mechanism = run(world)
    evictions = mechanism.tally.evictions
    stopped = np.bincount(
        record.runs.job[record.runs.outcome == RunOutcome.PREEMPTED], minlength=len(record.jobs)
    )
    assert all(0 < times <= stopped[job] for job, times in evictions.items())
    assert record.figures["guest_evictions"] == sum(evictions.values()) <= mechanism.guest_starts
    for kind in ("rigid", "malleable"):
        every, own = (record.figures[f"preemption_ratio_{kind}{end}"] for end in ("", "_without_guests"))
        assert (every is None) == (own is None)
        assert every is None or own <= every


def test_there_are_guests_that_have_to_leave():
    assert sum(run((seed, "cua+paa", 0, 0))[1].figures["guest_evictions"] for seed in range(40)) > 5


def test_nobody_is_preempted_when_the_on_demand_job_cannot_be_satisfied():
    """PAA's all or nothing: where an arrival has to queue, no job leaves its nodes."""
    queued = 0
    for seed in range(200):
        jobs, nodes = random_jobs(np.random.default_rng(seed), jobs=30)
        arrivals = [job.submit_us for job in jobs if job.kind == "on_demand"]
        if len(set(arrivals)) < len(arrivals):
            continue  # another arrival of the same time may have preempted somebody
        record, mechanism = simulate(jobs, nodes, "n+paa", release_us=10**6)
        stopped_us = record.runs.end_us[record.runs.outcome == RunOutcome.PREEMPTED].tolist()
        asked = [row for row, job in enumerate(jobs) if job.kind == "on_demand"]
        waited = [row for row in asked if row not in mechanism.tally.instant]
        assert not {jobs[row].submit_us for row in waited} & set(stopped_us), seed
        queued += len(waited)
    assert queued > 20


@pytest.mark.parametrize("strategy", ["cua+paa", "cup+spaa"])
def test_on_a_held_node_nobody_runs_but_a_guest_of_its_claim(strategy):
    held = guests = 0
    for seed in range(40):
        jobs, nodes = random_jobs(np.random.default_rng(seed), jobs=30)
        _, loop = make_loop(jobs, nodes, strategy, warning_us=2)
        loop.begin()
        while loop.next_us != NEVER_US:
            loop.step()
            holder, runs_here = loop.machine.rules._held["holder"], loop.machine.node_job
            for node in np.flatnonzero(holder >= 0).tolist():
                job = int(runs_here[node])
                assert job < 0 or loop.machine.rules.attributes["guest"][job] == holder[node], (
                    seed,
                    loop.now_us,
                )
                held, guests = held + (job < 0), guests + (job >= 0)
    assert min(held, guests) > 100


def test_the_same_seed_gives_the_same_run():
    jobs, nodes = random_jobs(np.random.default_rng(5), jobs=40)
    one, other = (
        simulate(jobs, nodes, "cup+spaa", warning_us=2, mtbf_s=2e-5, repair_s=1e-5)[0] for _ in range(2)
    )
    assert one.runs.job.tolist() == other.runs.job.tolist()
    assert one.runs.start_us.tolist() == other.runs.start_us.tolist()
    assert one.runs.node.tolist() == other.runs.node.tolist()
