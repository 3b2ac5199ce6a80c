from __future__ import annotations

import json

import pytest

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.metrics import summarize
from emulator.metrics.runs import node_time, widths
from emulator.record.run_record import NodePool
from emulator.workload.table import Kind

US = 1_000_000


def picked(summary, *keys):
    return {key: summary[key] for key in keys}


def test_the_figures_of_three_jobs_worked_by_hand(build):
    # Waits 0, 20, 30; responses 20, 60, 40; runs 20, 40, 10; areas 40, 160, 10; slowdowns 1, 1.5, 4.
    record = build(4).job(0, 2, (0, 20)).job(0, 4, (20, 60)).job(30, 1, (60, 70)).record(wall_s=1.5, seed=3)

    summary = summarize(record)

    assert picked(
        summary,
        "jobs_in",
        "jobs_run",
        "mean_wait_s",
        "median_wait_s",
        "max_wait_s",
        "mean_response_s",
        "mean_bounded_slowdown",
        "slowdown_weighted_by_area",
        "makespan_s",
        "utilization",
        "jobs_per_s",
        "seed",
    ) == {
        "jobs_in": 3,
        "jobs_run": 3,
        "mean_wait_s": pytest.approx(50 / 3),
        "median_wait_s": 20,
        "max_wait_s": 30,
        "mean_response_s": 40,
        "mean_bounded_slowdown": pytest.approx(6.5 / 3),
        "slowdown_weighted_by_area": pytest.approx((40 * 1 + 160 * 1.5 + 10 * 4) / 210),
        "makespan_s": 70,
        "utilization": pytest.approx(210 / 280),
        "jobs_per_s": 2,
        "seed": 3,
    }
    assert summary["node_time_us"] == {
        "OD_RESERVE": 0,
        "OD_ALLOC": 0,
        "OA_IDLE": 190 * US,
        "OA_BUSY": 210 * US,
        "DOWN": 0,
    }
    assert "ondemand_requests" not in summary


def test_utilization_counts_each_run_of_a_requeued_job_and_says_what_was_lost(build):
    record = build(2).job(0, 2, (0, 36, RunOutcome.REQUEUED), (50, 100)).record()

    summary = summarize(record)

    assert picked(summary, "utilization", "requeues", "lost_node_h", "mean_wait_s") == {
        "utilization": 0.86,
        "requeues": 1,
        "lost_node_h": 2 * 36 / 3600,
        "mean_wait_s": 50,
    }


def test_on_demand_is_counted_apart_from_batch(build):
    record = (
        build(4)
        .move(0, [0], NodePool.OD_RESERVE)
        .job(0, 2, (0, 50))
        .lease(10, 1, (15, 35), granted=True, decided_s=15)
        .move(15, [0], NodePool.OD_ALLOC)
        .lease(20, 4, granted=False, decided_s=30, reason="too few nodes")
        .move(35, [0], NodePool.OD_RESERVE)
        .job(40, 1, kind=Kind.ON_DEMAND)
        .record()
    )

    summary = summarize(record)

    assert picked(
        summary,
        "jobs_in",
        "mean_wait_s",
        "ondemand_requests",
        "ondemand_granted",
        "ondemand_rejected",
        "ondemand_undecided",
        "ondemand_rejected_by_reason",
        "mean_ondemand_wait_s",
        "utilization",
        "batch_utilization",
        "ondemand_utilization",
        "reserve_idle_node_h",
    ) == {
        "jobs_in": 1,
        "mean_wait_s": 0,
        "ondemand_requests": 3,
        "ondemand_granted": 1,
        "ondemand_rejected": 1,
        "ondemand_undecided": 1,
        "ondemand_rejected_by_reason": {"too few nodes": 1},
        "mean_ondemand_wait_s": 5,
        "utilization": pytest.approx(120 / 200),
        "batch_utilization": 0.5,
        "ondemand_utilization": 0.1,
        "reserve_idle_node_h": 80 / 3600,
    }


def test_a_mechanism_without_lease_outcomes_is_judged_by_the_states(build):
    record = (
        build(4)
        .job(0, 1, (4, 9), kind=Kind.ON_DEMAND)
        .job(1, 1, kind=Kind.ON_DEMAND, state=JobState.REJECTED)
        .record()
    )

    summary = summarize(record)

    assert picked(summary, "ondemand_granted", "ondemand_rejected", "mean_ondemand_wait_s") == {
        "ondemand_granted": 1,
        "ondemand_rejected": 1,
        "mean_ondemand_wait_s": 4,
    }


def test_every_job_given_is_accounted_for(build):
    record = (
        build(4)
        .job(0, 1, (0, 10))
        .job(0, 1, (0, 10, RunOutcome.KILLED))
        .job(0, 1, (20, -1))
        .job(0, 1)
        .job(0, 1, state=JobState.HELD)
        .job(0, 1, state=JobState.CANCELLED)
        .job(300, 1, state=JobState.FUTURE)
        .record(left_out={"wider than the cluster": 2, "no run time": 1}, interrupted="stopped by SIGINT")
    )

    summary = summarize(record)

    parts = picked(
        summary, "jobs_run", "jobs_running", "jobs_waiting", "jobs_not_submitted", "jobs_cancelled"
    )
    assert parts == {
        "jobs_run": 2,
        "jobs_running": 1,
        "jobs_waiting": 2,
        "jobs_not_submitted": 1,
        "jobs_cancelled": 1,
    }
    assert summary["jobs_in"] == 10 == sum(parts.values()) + sum(summary["jobs_left_out"].values())
    assert summary["jobs_unfinished"] == 4
    assert summary["jobs_killed_at_walltime"] == 1
    assert summary["interrupted"] == "stopped by SIGINT"


def test_a_run_of_no_jobs_has_figures_that_do_not_exist_rather_than_zeros(build):
    summary = summarize(build(4).record())

    assert picked(summary, "jobs_run", "mean_wait_s", "utilization", "slowdown_weighted_by_area") == {
        "jobs_run": 0,
        "mean_wait_s": None,
        "utilization": None,
        "slowdown_weighted_by_area": None,
    }
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_record_that_contradicts_itself_is_summarized_with_the_contradiction(build):
    summary = summarize(build(1).job(0, 1, (0, 50)).move(20, [0], NodePool.OD_ALLOC).record())

    assert summary["mean_wait_s"] == 0
    assert summary["node_time_us"] is None
    assert summary["problems"] == [
        (
            "at 20000000 us of cluster time 2 of 1 nodes are taken: "
            "1 busy with batch jobs, 1 leased, 0 in reserve, 0 down"
        )
    ]


def test_pace_figures_are_in_seconds(build):
    record = build(1).record(clock="live", pace={"holds": 3, "held_us": 2_500_000})

    assert summarize(record)["pace"] == {"held_s": 2.5, "holds": 3}


def test_the_width_of_a_run_is_what_it_was_given(build):
    # The second run of the job was moulded to three nodes.
    record = build(4).job(0, 2, (0, 10), on=(0, 1, 2)).job(0, 2, (10, 20)).record()

    assert widths(record).tolist() == [3, 2]
    assert node_time(record).batch_node_us == 50 * US
