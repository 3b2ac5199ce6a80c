"""Each law is broken once on purpose: a record of two nodes and three jobs in which everything is right is
changed in one place, and the law that is broken must say so in a sentence that names job and node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.record.run_record import LeaseOutcome, NodePool, PoolMove, RunRecord, RunTable
from emulator.validation.laws import UnlawfulRunError, Violation, assert_lawful, check
from emulator.validation.node_use import NodeTime, NodeUse
from emulator.workload.table import JobTable, Kind

N1, N2, N3 = 0, 1, 2
"""Node indices of n1, n2, n3."""


def runs(*rows: tuple[int, float, float | None, RunOutcome, list[int]]) -> RunTable:
    """(job row, start s, end s or None, outcome, nodes)."""
    return RunTable(
        job=np.array([row[0] for row in rows], np.int32),
        start_us=np.array([row[1] * US for row in rows], np.int64),
        end_us=np.array([-1 if row[2] is None else row[2] * US for row in rows], np.int64),
        outcome=np.array([row[3] for row in rows], np.int8),
        first=np.cumsum([0, *(len(row[4]) for row in rows)], dtype=np.int64),
        node=np.array([node for row in rows for node in row[4]], np.int32),
    )


@pytest.fixture
def lawful() -> RunRecord:
    """Nodes n1-n3 for 100 s: job 1 on n1 and n2 (0-20), requeued job 2 on n3 (10-15, 30-60), job 3 still on
    n1 (90-), lease 4 on n2, which was OD_ALLOC (50-70) and OD_RESERVE (40-50, 70-80).
    """
    table = JobTable.build(
        submit_us=[0, 5 * US, 9 * US, 45 * US],
        run_us=[20 * US, 30 * US, 40 * US, 20 * US],
        estimate_us=[20 * US, 60 * US, 50 * US, 20 * US],
        nodes=[2, 1, 1, 1],
        kind=[Kind.BATCH, Kind.BATCH, Kind.BATCH, Kind.ON_DEMAND],
    )
    return RunRecord(
        jobs=table,
        node_names=("n1", "n2", "n3"),
        state=np.array([JobState.ENDED, JobState.ENDED, JobState.RUNNING, JobState.ENDED], np.int8),
        start_us=np.array([0, 30, 90, 50], np.int64) * US,
        end_us=np.array([20 * US, 60 * US, -1, 70 * US], np.int64),
        runs=runs(
            (0, 0, 20, RunOutcome.FINISHED, [N1, N2]),
            (1, 10, 15, RunOutcome.REQUEUED, [N3]),
            (1, 30, 60, RunOutcome.FINISHED, [N3]),
            (3, 50, 70, RunOutcome.FINISHED, [N2]),
            (2, 90, None, RunOutcome.RUNNING, [N1]),
        ),
        begin_us=0,
        horizon_us=100 * US,
        moves=(
            PoolMove(40 * US, (N2,), NodePool.OD_RESERVE),
            PoolMove(50 * US, (N2,), NodePool.OD_ALLOC),
            PoolMove(70 * US, (N2,), NodePool.OD_RESERVE),
            PoolMove(80 * US, (N2,), NodePool.OA_IDLE),
        ),
        leases=(LeaseOutcome(3, granted=True, decided_us=50 * US),),
        left_out={"wider than the cluster": 2},
    )


def with_runs(record: RunRecord, **columns: Any) -> RunRecord:
    return replace(record, runs=replace(record.runs, **columns))


def changed(array: Any, **at: Any) -> Any:
    """A copy with `_3=7` meaning array[3] = 7."""
    copy = array.copy()
    for index, value in at.items():
        copy[int(index[1:])] = value
    return copy


def texts(record: RunRecord, **options: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for violation in check(record, **options):
        found.setdefault(violation.law, []).append(violation.text)
    return found


def test_a_lawful_record_breaks_no_law(lawful: RunRecord) -> None:
    assert check(lawful, jobs_in=6) == []
    assert_lawful(lawful, jobs_in=6)


def test_a_job_that_did_not_do_the_work_it_owed_is_named(lawful: RunRecord) -> None:
    done = np.array([40, 5, 30, 20, 10], np.int64) * US
    lost = np.array([0, 5, 0, 0, 0], np.int64) * US
    assert check(with_runs(lawful, done_node_us=done, lost_node_us=lost), jobs_in=6) == []
    lazy = with_runs(lawful, done_node_us=changed(done, _2=29 * US), lost_node_us=lost)
    assert texts(lazy)["work_done_is_work_owed"] == ["job 2 owed 30000000 node-us of work and did 29000000"]
    forgetful = with_runs(lawful, done_node_us=done, lost_node_us=changed(lost, _1=0))
    assert texts(forgetful)["work_done_is_work_owed"] == [
        "job 2 owed 30000000 node-us of work and did 35000000"
    ]


def test_nobody_works_faster_than_its_nodes(lawful: RunRecord) -> None:
    done = np.array([40, 6, 30, 20, 10], np.int64) * US
    fast = with_runs(lawful, done_node_us=done, lost_node_us=np.array([0, 6, 0, 0, 0], np.int64) * US)
    assert texts(fast)["work_done_is_work_owed"] == [
        "job 2 (10 s to 15 s) did 6000000 node-us of work, its nodes could do 5000000"
    ]


def live(record: RunRecord, pace: str, dropped: int = 0) -> RunRecord:
    return replace(
        record, clock="live", scenario={"live": {"pace": pace}}, pace={"dropped_processes": float(dropped)}
    )


def test_live_nobody_works_faster_than_its_nodes_where_the_clock_waits_for_everybody(
    lawful: RunRecord,
) -> None:
    done = np.array([40, 6, 30, 20, 10], np.int64) * US
    fast = with_runs(lawful, done_node_us=done, lost_node_us=np.array([0, 6, 0, 0, 0], np.int64) * US)
    assert texts(live(fast, "held")) == texts(fast)
    assert check(live(fast, "held", dropped=1)) == check(live(fast, "free")) == []


def test_live_a_job_may_last_longer_and_not_shorter_than_it_should(lawful: RunRecord) -> None:
    long = replace(lawful, jobs=replace(lawful.jobs, run_us=changed(lawful.jobs.run_us, _0=19 * US)))
    assert check(live(long, "held")) == []
    short = replace(lawful, jobs=replace(lawful.jobs, run_us=changed(lawful.jobs.run_us, _0=21 * US)))
    assert texts(live(short, "held")) == {
        "runs_last_as_long_as_they_should": ["job 1 (0 s to 20 s) lasted 20 s and should have lasted 21 s"]
    }
    assert check(live(short, "free")) == []


def test_a_malleable_job_may_be_resized_within_its_bounds(lawful: RunRecord) -> None:
    jobs = lawful.jobs.with_extra(min_nodes=np.array([1, -1, -1, -1]), max_nodes=np.array([2, -1, -1, -1]))
    jobs = replace(jobs, run_us=changed(jobs.run_us, _0=15 * US))
    segments = runs(
        (0, 0, 10, RunOutcome.RESIZED, [N1, N2]),
        (1, 10, 15, RunOutcome.REQUEUED, [N3]),
        (0, 10, 20, RunOutcome.FINISHED, [N1]),
        (1, 30, 60, RunOutcome.FINISHED, [N3]),
        (3, 50, 70, RunOutcome.FINISHED, [N2]),
        (2, 90, None, RunOutcome.RUNNING, [N1]),
    )
    done = np.array([20, 5, 10, 30, 20, 10], np.int64) * US
    lost = np.array([0, 5, 0, 0, 0, 0], np.int64) * US
    resized = replace(lawful, jobs=jobs, runs=replace(segments, done_node_us=done, lost_node_us=lost))
    assert check(resized, jobs_in=6) == []
    wider = jobs.with_extra(min_nodes=np.array([2, -1, -1, -1]), max_nodes=np.array([3, -1, -1, -1]))
    assert texts(replace(resized, jobs=wider)) == {
        "every_run_is_as_wide_as_asked": ["job 1 (10 s to 20 s) can use 2 to 3 nodes and got 1"]
    }


def test_an_empty_record_breaks_no_law() -> None:
    nothing = np.zeros(0, np.int64)
    empty = RunRecord(JobTable.empty(), ("n1",), nothing, nothing, nothing, runs(), 0, 0)
    assert check(empty) == []


def test_node_time_is_counted_to_the_microsecond(lawful: RunRecord) -> None:
    assert NodeUse(lawful).node_time() == NodeTime(
        idle_us=(300 - 85 - 40) * US,
        batch_us=(40 + 5 + 30 + 10) * US,
        on_demand_us=20 * US,
        reserve_us=20 * US,
        down_us=0,
    )


def test_only_time_between_begin_and_horizon_is_counted(lawful: RunRecord) -> None:
    window = replace(lawful, begin_us=12 * US, horizon_us=55 * US)
    assert NodeUse(window).node_time() == NodeTime(
        idle_us=(3 * 43 - 44 - 15) * US,
        batch_us=(16 + 3 + 25) * US,
        on_demand_us=5 * US,
        reserve_us=10 * US,
        down_us=0,
    )


def test_node_time_without_node_identities_is_the_same(lawful: RunRecord) -> None:
    counted_only = with_runs(lawful, node=np.zeros(0, np.int32), first=np.zeros(6, np.int64))
    assert NodeUse(counted_only).node_time() == NodeUse(lawful).node_time()
    assert check(counted_only) == []


def test_a_job_that_runs_on_a_node_reported_down_does_not_count_and_is_no_breach(lawful: RunRecord) -> None:
    down = replace(lawful, moves=(PoolMove(50 * US, (N3,), NodePool.DOWN), *lawful.moves[1:]))
    account = NodeUse(down).node_time()
    assert (account.down_us, account.batch_us) == (50 * US, 75 * US)
    assert texts(down) == {}


def test_a_lease_on_a_node_of_the_batch_pool_counts_as_on_demand(lawful: RunRecord) -> None:
    unmoved = replace(lawful, moves=())
    assert NodeUse(unmoved).node_time().on_demand_us == 20 * US
    assert check(unmoved) == []


def test_a_node_booked_twice_is_named(lawful: RunRecord) -> None:
    twice = NodeTime(185 * US, 85 * US, 20 * US, 20 * US, 0)
    assert texts(with_runs(lawful, node=changed(lawful.runs.node, _2=N2))) == {
        "no_node_is_booked_twice": ["node n2 is booked twice: job 1 (0 s to 20 s) and job 2 (10 s to 15 s)"],
        "node_time_adds_up": [f"{twice} adds up to 310000000 us, there are 300000000 us"],
    }


def test_a_run_that_has_a_node_twice_is_named(lawful: RunRecord) -> None:
    found = texts(with_runs(lawful, node=changed(lawful.runs.node, _1=N1)))
    assert found["no_node_is_booked_twice"] == ["job 1 (0 s to 20 s) has node n1 twice"]


def test_more_nodes_in_use_than_there_are_is_found_without_node_identities(lawful: RunRecord) -> None:
    narrow = with_runs(
        replace(lawful, node_names=("n1", "n2"), moves=()),
        node=np.zeros(0, np.int32),
        first=np.zeros(6, np.int64),
    )
    assert texts(narrow) == {"no_node_is_booked_twice": ["3 nodes are in use at 10 s, there are 2"]}


def test_a_run_of_the_wrong_width_is_named(lawful: RunRecord) -> None:
    wider = replace(lawful, jobs=replace(lawful.jobs, nodes=changed(lawful.jobs.nodes, _2=2)))
    assert texts(wider) == {
        "every_run_is_as_wide_as_asked": ["job 3 (90 s to now) asked for 2 nodes and got 1"]
    }


def test_a_start_before_submit_is_named(lawful: RunRecord) -> None:
    later = replace(lawful, jobs=replace(lawful.jobs, submit_us=changed(lawful.jobs.submit_us, _1=11 * US)))
    assert texts(later) == {
        "no_start_before_submit": ["job 2 (10 s to 15 s) was submitted at 11 s, after its start"]
    }


def test_a_run_of_the_wrong_length_is_named(lawful: RunRecord) -> None:
    def lasting(record: RunRecord, **run_us: int) -> RunRecord:
        return replace(record, jobs=replace(record.jobs, run_us=changed(record.jobs.run_us, **run_us)))

    law = "runs_last_as_long_as_they_should"
    assert texts(lasting(lawful, _0=20 * US + 1)) == {
        law: ["job 1 (0 s to 20 s) lasted 20 s and should have lasted 20.000001 s"]
    }
    assert texts(lasting(lawful, _2=9 * US)) == {
        law: ["job 3 (90 s to now) lasted 10 s and should have lasted 9 s"]
    }
    assert texts(replace(lasting(lawful, _0=20 * US + 1), clock="live")) == {}


def test_a_killed_run_lasts_its_limit(lawful: RunRecord) -> None:
    killed = with_runs(lawful, outcome=changed(lawful.runs.outcome, _2=RunOutcome.KILLED))
    limit = replace(
        killed,
        jobs=replace(
            killed.jobs,
            run_us=changed(killed.jobs.run_us, _1=50 * US),
            estimate_us=changed(killed.jobs.estimate_us, _1=30 * US),
        ),
    )
    assert check(limit) == []
    too_early = replace(
        limit, jobs=replace(limit.jobs, estimate_us=changed(limit.jobs.estimate_us, _1=40 * US))
    )
    assert texts(too_early) == {
        "runs_last_as_long_as_they_should": [
            "job 2 (30 s to 60 s) lasted 30 s and should have lasted 40 s",
        ]
    }


def test_a_run_that_ends_before_it_starts_or_after_the_record_is_named(lawful: RunRecord) -> None:
    law = "runs_last_as_long_as_they_should"
    backwards = with_runs(lawful, end_us=changed(lawful.runs.end_us, _1=9 * US))
    assert texts(backwards)[law] == ["job 2 (10 s to 9 s) ends before it starts"]
    cut_short = replace(lawful, horizon_us=65 * US, moves=lawful.moves[:2])
    assert texts(cut_short)[law] == ["job 4 (50 s to 70 s) ends after the record, at 65 s"]


def test_states_that_do_not_agree_with_the_runs_are_named(lawful: RunRecord) -> None:
    law = "states_agree_with_runs"
    waiting = replace(lawful, state=changed(lawful.state, _0=JobState.QUEUED, _2=JobState.QUEUED))
    assert texts(waiting) == {
        law: [
            "job 1 is QUEUED and 1 of its runs came to an end",
            "job 3 is QUEUED and 1 of its runs still go on",
        ]
    }
    finished_twice = with_runs(lawful, outcome=changed(lawful.runs.outcome, _1=RunOutcome.FINISHED))
    assert texts(finished_twice)[law] == [
        "job 2 is ENDED and 2 of its runs came to an end",
        "job 2 (10 s to 15 s) is said to have run from 30 s to 60 s",
    ]


def test_times_of_a_job_that_are_not_those_of_its_run_are_named(lawful: RunRecord) -> None:
    moved = replace(lawful, end_us=changed(lawful.end_us, _1=61 * US))
    assert texts(moved) == {
        "states_agree_with_runs": ["job 2 (30 s to 60 s) is said to have run from 30 s to 61 s"]
    }


def test_a_job_that_runs_twice_at_a_time_is_named(lawful: RunRecord) -> None:
    overlapping = with_runs(lawful, end_us=changed(lawful.runs.end_us, _1=31 * US))
    assert texts(overlapping)["states_agree_with_runs"] == [
        "job 2 (30 s to 60 s) was still running when it started"
    ]


def test_a_batch_job_on_a_node_given_away_is_named(lawful: RunRecord) -> None:
    early = PoolMove(19 * US, (N2,), NodePool.OD_RESERVE)
    assert texts(replace(lawful, moves=(early, *lawful.moves))) == {
        "a_node_given_away_runs_no_batch_job": [
            "node n2 is OD_RESERVE from 19 s to 50 s and runs job 1 (0 s to 20 s)"
        ]
    }


def test_a_lease_on_a_node_that_is_only_reserved_is_named(lawful: RunRecord) -> None:
    assert texts(replace(lawful, moves=(lawful.moves[0], lawful.moves[3]))) == {
        "a_node_given_away_runs_no_batch_job": [
            "node n2 is OD_RESERVE from 40 s to 80 s and runs job 4 (50 s to 70 s)"
        ]
    }


def test_a_job_that_starts_on_a_node_that_is_down_is_named(lawful: RunRecord) -> None:
    down = PoolMove(20 * US, (N3,), NodePool.DOWN)
    assert texts(replace(lawful, moves=(down, *lawful.moves))) == {
        "a_node_given_away_runs_no_batch_job": [
            "node n3 is DOWN from 20 s to 100 s and runs job 2 (30 s to 60 s)"
        ]
    }


def test_a_node_may_change_hands_at_the_very_time_a_job_ends_or_starts(lawful: RunRecord) -> None:
    moves = (
        PoolMove(20 * US, (N1, N2), NodePool.OD_RESERVE),
        *lawful.moves[1:3],
        PoolMove(90 * US, (N1, N2), NodePool.OA_IDLE),
    )
    assert check(replace(lawful, moves=moves)) == []


def test_a_number_that_is_there_twice_is_named(lawful: RunRecord) -> None:
    twice = replace(lawful, jobs=replace(lawful.jobs, number=changed(lawful.jobs.number, _2=1)))
    assert texts(twice) == {"no_number_twice": ["job 1 is in the table 2 times"]}


def test_jobs_that_are_not_accounted_for_are_counted(lawful: RunRecord) -> None:
    assert texts(lawful, jobs_in=7) == {
        "every_job_is_accounted_for": ["7 jobs came in, 4 are here, 2 were left out"]
    }


def test_a_job_that_was_never_submitted_is_named(lawful: RunRecord) -> None:
    forgotten = with_runs(
        replace(lawful, state=changed(lawful.state, _2=JobState.FUTURE)),
        job=lawful.runs.job[:4],
        start_us=lawful.runs.start_us[:4],
        end_us=lawful.runs.end_us[:4],
        outcome=lawful.runs.outcome[:4],
        first=lawful.runs.first[:5],
        node=lawful.runs.node[:-1],
    )
    assert texts(forgotten) == {
        "every_job_is_accounted_for": [
            "job 3 was due at 9 s and was never submitted, though the record goes on to 100 s"
        ]
    }


def test_a_lease_without_an_outcome_or_with_two_is_named(lawful: RunRecord) -> None:
    law = "each_lease_has_one_outcome"
    assert texts(replace(lawful, leases=())) == {law: ["lease job 4 is ENDED and was never decided"]}
    assert texts(replace(lawful, leases=tuple(lawful.leases) * 2)) == {law: ["lease job 4 has 2 outcomes"]}


def test_a_lease_whose_outcome_and_state_disagree_is_named(lawful: RunRecord) -> None:
    rejected = replace(lawful, leases=(LeaseOutcome(3, granted=False, decided_us=45 * US),))
    assert texts(rejected) == {
        "each_lease_has_one_outcome": ["lease job 4 was rejected at 45 s and is ENDED"]
    }


def test_a_lease_decided_before_it_was_asked_for_is_named(lawful: RunRecord) -> None:
    foreseen = replace(lawful, leases=(LeaseOutcome(3, granted=True, decided_us=44 * US),))
    assert texts(foreseen) == {
        "each_lease_has_one_outcome": ["lease job 4 was decided at 44 s, before it was asked for"]
    }


def test_a_batch_job_with_the_outcome_of_a_lease_is_named(lawful: RunRecord) -> None:
    strange = replace(lawful, leases=(*lawful.leases, LeaseOutcome(0, granted=True, decided_us=0)))
    assert texts(strange) == {
        "each_lease_has_one_outcome": ["job 1 is a batch job and has the outcome of a lease"]
    }


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"start_us": np.zeros(2, np.int64)}, "column start_us of the runs has 2 rows for 5 runs"),
        ({"first": np.array([0, 2, 3, 4, 5, 5])}, "`first` of the runs does not cut 6 nodes into 5 runs"),
        ({"first": np.array([0, 2, 1, 4, 5, 6])}, "`first` of the runs does not cut 6 nodes into 5 runs"),
        ({"node": np.array([0, 1, 2, 2, 1, 3])}, "a run names a node outside of the 3 there are"),
        ({"job": np.array([0, 1, 1, 3, 4])}, "a run names a job outside of the 4 there are"),
    ],
)
def test_arrays_that_do_not_fit_together_are_named(
    lawful: RunRecord, columns: dict[str, Any], text: str
) -> None:
    assert check(with_runs(lawful, **columns)) == [Violation("well_formed", text)]


def test_runs_and_moves_out_of_order_are_named(lawful: RunRecord) -> None:
    late = with_runs(lawful, start_us=changed(lawful.runs.start_us, _1=31 * US))
    assert texts(late) == {
        "well_formed": ["the run of job 2 (30 s to 60 s) is listed after one that started later"]
    }
    assert texts(replace(lawful, moves=lawful.moves[::-1]))["well_formed"] == [
        "a move at 70 s is listed after one at 80 s",
        "a move at 50 s is listed after one at 70 s",
        "a move at 40 s is listed after one at 50 s",
    ]


def test_indices_states_and_bounds_that_cannot_be_are_named(lawful: RunRecord) -> None:
    def well_formed(record: RunRecord) -> list[str]:
        return texts(record)["well_formed"]

    assert well_formed(replace(lawful, moves=(PoolMove(0, (3,), NodePool.DOWN),))) == [
        "a move names a node outside of the 3 there are"
    ]
    assert well_formed(replace(lawful, leases=(LeaseOutcome(4, True, 0),))) == [
        "a lease outcome names a job outside of the 4 there are"
    ]
    assert well_formed(replace(lawful, state=changed(lawful.state, _1=9))) == [
        "job 2 is in state 9, which is none"
    ]
    assert well_formed(replace(lawful, state=lawful.state[:3])) == ["state has 3 rows for 4 jobs"]
    assert well_formed(replace(lawful, begin_us=101 * US)) == [
        "the record ends at 100 s, before it begins at 101 s"
    ]


def test_the_first_ten_breaches_of_a_law_are_told_and_the_rest_counted() -> None:
    count = 25
    table = JobTable.build(submit_us=[US] * count, run_us=[US] * count, nodes=[1] * count)
    times = np.zeros(count, np.int64)
    record = RunRecord(
        jobs=table,
        node_names=tuple(f"n{node}" for node in range(count)),
        state=np.full(count, JobState.ENDED, np.int8),
        start_us=times,
        end_us=times + US,
        runs=runs(*((row, 0, 1, RunOutcome.FINISHED, [row]) for row in range(count))),
        begin_us=0,
        horizon_us=US,
    )
    sentences = texts(record)["no_start_before_submit"]
    assert len(sentences) == 11
    assert sentences[-1] == "and 15 more like these"


def test_an_unlawful_run_is_an_error_that_tells_every_breach(lawful: RunRecord) -> None:
    with pytest.raises(UnlawfulRunError) as error:
        assert_lawful(replace(lawful, leases=tuple(lawful.leases) * 2), jobs_in=7)
    assert str(error.value).splitlines() == [
        "every_job_is_accounted_for: 7 jobs came in, 4 are here, 2 were left out",
        "each_lease_has_one_outcome: lease job 4 has 2 outcomes",
    ]
