from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.metrics.timeline import InconsistentRecordError, sampled, timeline
from emulator.record.run_record import NodePool
from emulator.workload.table import Kind

US = 1_000_000


def in_s(line):
    return (line.at_us // US).tolist()


def pools(line):
    return {pool.value: count.tolist() for pool, count in line.pools.items() if count.any()}


def test_a_run_takes_its_nodes_from_its_start_to_its_end(build):
    line = timeline(build(4).job(0, 3, (10, 40)).record())

    assert in_s(line) == [0, 10, 40]
    assert pools(line) == {"OA_BUSY": [0, 3, 0], "OA_IDLE": [4, 1, 4]}
    assert line.queued_jobs.tolist() == [1, 0, 0]
    assert line.queued_nodes.tolist() == [3, 0, 0]


def test_a_requeued_job_takes_nodes_in_each_run_and_queues_in_between(build):
    record = build(4).job(0, 2, (0, 30, RunOutcome.REQUEUED), (50, 90)).record()

    line = timeline(record)

    assert in_s(line) == [0, 30, 50, 90]
    assert line.pools[NodePool.OA_BUSY].tolist() == [2, 0, 2, 0]
    assert line.queued_jobs.tolist() == [0, 1, 0, 0]


def test_a_preempted_job_queues_until_it_goes_on(build):
    record = build(4).job(0, 2, (10, 30, RunOutcome.PREEMPTED), (50, 90)).record()

    line = timeline(record)

    assert in_s(line) == [0, 10, 30, 50, 90]
    assert line.queued_jobs.tolist() == [1, 0, 1, 0, 0]
    assert line.queued_nodes.tolist() == [2, 0, 2, 0, 0]


@pytest.mark.parametrize("outcome", [RunOutcome.RESIZED, RunOutcome.SUSPENDED])
def test_a_job_that_goes_on_with_other_nodes_or_after_a_pause_was_not_in_the_queue(build, outcome):
    record = build(4).job(0, 2, (10, 30, outcome), (40, 90)).job(5, 1, (20, 60)).record()

    line = timeline(record)

    assert in_s(line) == [0, 5, 10, 20, 30, 40, 60, 90]
    assert line.queued_jobs.tolist() == [1, 2, 1, 0, 0, 0, 0, 0]


def test_a_job_that_still_runs_holds_its_nodes_to_the_horizon(build):
    line = timeline(build(4, horizon_s=60).job(0, 1, (20, -1)).record())

    assert line.node_us() == {
        NodePool.OD_RESERVE: 0,
        NodePool.OD_ALLOC: 0,
        NodePool.OA_IDLE: (4 * 60 - 40) * US,
        NodePool.OA_BUSY: 40 * US,
        NodePool.DOWN: 0,
    }


def test_moves_take_nodes_from_the_pool_they_were_in(build):
    record = (
        build(4)
        .move(0, [0], NodePool.OD_RESERVE)
        .lease(20, 2, (20, 60), granted=True, decided_s=20)
        .move(20, [0, 1], NodePool.OD_ALLOC)
        .move(60, [0], NodePool.OD_RESERVE)
        .move(60, [1], NodePool.OA_IDLE)
        .move(70, [3], NodePool.DOWN)
        .record()
    )

    line = timeline(record)

    assert in_s(line) == [0, 20, 60, 70]
    assert pools(line) == {
        "OD_RESERVE": [1, 0, 1, 1],
        "OD_ALLOC": [0, 2, 0, 0],
        "OA_IDLE": [3, 2, 3, 2],
        "DOWN": [0, 0, 0, 1],
    }


def test_a_lease_without_moves_counts_by_its_run(build):
    record = build(4).job(5, 3, (10, 20), kind=Kind.ON_DEMAND).record()

    assert timeline(record).pools[NodePool.OD_ALLOC].tolist() == [0, 3, 0]


def test_of_moves_of_a_node_at_one_time_the_last_counts(build):
    record = build(1).move(9, [0], NodePool.OD_RESERVE).move(9, [0], NodePool.OD_ALLOC).record()

    assert pools(timeline(record)) == {"OA_IDLE": [1, 0], "OD_ALLOC": [0, 1]}


def test_what_began_before_the_begin_is_there_from_the_begin(build):
    line = timeline(build(4, begin_s=50).job(0, 2, (10, 80)).record())

    assert in_s(line) == [50, 80]
    assert line.pools[NodePool.OA_BUSY].tolist() == [2, 0]


def test_a_node_given_away_under_a_job_is_a_contradiction(build):
    record = build(2).job(0, 2, (0, 50)).move(30, [1], NodePool.OD_ALLOC).record()

    with pytest.raises(InconsistentRecordError, match=r"at 30000000 us .* 3 of 2 nodes are taken: 2 busy"):
        timeline(record)


def test_a_job_cancelled_in_the_queue_does_not_wait_for_ever(build):
    record = (
        build(2).job(10, 1, state=JobState.CANCELLED).job(20, 1).job(500, 1, state=JobState.FUTURE).record()
    )

    assert timeline(record).queued_jobs.tolist() == [0, 0, 1]


def test_a_sample_is_the_mean_of_its_interval(build):
    line = timeline(build(4).job(0, 4, (0, 25)).record())

    means = sampled(line, line.used_nodes, np.array([0, 50, 100]) * US * 1.0)

    assert means.tolist() == [2, 0]


def test_a_record_of_nothing_is_idle(build):
    line = timeline(build(3).record())

    assert pools(line) == {"OA_IDLE": [3]}
    assert line.node_us()[NodePool.OA_IDLE] == 300 * US


@given(
    runs=st.lists(
        st.tuples(st.integers(0, 90), st.integers(0, 40), st.integers(0, 40), st.integers(0, 7)), max_size=25
    ),
    moves=st.lists(
        st.tuples(st.integers(0, 99), st.integers(8, 11), st.sampled_from(list(NodePool))), max_size=15
    ),
)
def test_every_node_is_in_one_pool_at_every_moment(build, runs, moves):
    builder = build(12, horizon_s=100)
    free_from = [0] * 8
    for submit_s, wait_s, run_s, node in sorted(runs):
        start_s = max(submit_s + wait_s, free_from[node])
        free_from[node] = start_s + run_s
        builder.job(submit_s, 1, (start_s, start_s + run_s), on=(node,))
    for at_s, node, pool in sorted(moves, key=lambda move: move[0]):
        builder.move(at_s, [node], NodePool.OA_IDLE if pool is NodePool.OA_BUSY else pool)

    line = timeline(builder.record())

    assert (sum(line.pools.values()) == 12).all()
    assert min(int(count.min()) for count in line.pools.values()) >= 0
    assert sum(line.node_us().values()) == 12 * 100 * US
    assert (np.diff(line.at_us) > 0).all()
    assert line.queued_jobs.min() >= 0
