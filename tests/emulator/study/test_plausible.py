"""A study's first question: is today, as it is simulated, what the log recorded?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.study.logs import read_logs
from emulator.study.plausible import (
    FARTHEST,
    Today,
    beside_simulated,
    doubts_of_the_log,
    doubts_of_today,
    recorded,
    remarks,
    sentence,
    trust,
)
from emulator.text.number_text import grouped
from emulator.workload.swf import SwfLog

WEEK, DAY = 604_800, 86_400
SUNDAY = 1_000_000 // DAY * DAY
KNOWN = Today(
    week="1970-01-12", jobs=10, load=0.5, recorded_wait_min=60, simulated_wait_min=60, recorded_used=0.5,
    simulated_used=0.5, most_in_use=8, crowded=0.0,
)  # fmt: skip


def logs(*jobs, nodes=8, **options):
    """(submit_s, wait_s, run_s, procs) each, and one lease."""
    submit, wait, run, width = zip(*jobs, strict=True)
    header = [f"; UnixStartTime: {SUNDAY}", "; MaxProcs: 99", "; MaxNodes: 99"]
    numbers = list(range(1, len(jobs) + 1))
    batch = SwfLog.build(
        len(jobs), header, submit_s=submit, run_s=run, allocated_procs=width, requested_procs=width, wait_s=wait,
        number=numbers,
    )  # fmt: skip
    lease = SwfLog.build(
        1, header, submit_s=[0], run_s=[60], allocated_procs=[1], requested_procs=[1], number=[1]
    )
    return read_logs(batch, lease, batch_nodes=nodes, **options)


def test_a_week_has_the_waits_of_its_submits_and_the_nodes_in_use_in_it():
    found = logs(
        (0, 60, WEEK / 2, 4),
        (100, 180, WEEK, 2),  # runs on into the second week
        (WEEK + 10, 600, 100, 8),
    )
    first, second = recorded(found, [0, 1], ["one", "two"])
    assert (first.jobs, first.recorded_wait_min, first.most_in_use) == (2, 2.0, 6)
    assert first.recorded_used == pytest.approx((4 / 2 + 2 * (1 - 280 / WEEK)) / 8)
    assert first.load == pytest.approx((4 / 2 + 2) / 8)
    assert (second.jobs, second.recorded_wait_min, second.most_in_use) == (1, 10.0, 8)
    assert second.recorded_used == pytest.approx((2 * 280 + 8 * 100) / WEEK / 8)


def test_a_log_without_waits_says_nothing_and_that_is_said():
    (only,) = recorded(logs((0, -1, 100, 4)), [0], ["one"])
    assert (only.recorded_wait_min, only.recorded_used, only.most_in_use) == (None, None, None)
    assert "cannot be seen" in sentence([only])
    assert doubts_of_today([only], 5) == []


def test_one_core_jobs_of_shared_nodes_cannot_be_jobs_of_whole_nodes():
    """The log of 8 nodes of 16 cores, half busy: 64 jobs of one core at any time."""
    jobs = [(0, 0, WEEK, 1)] * 64
    whole = recorded(logs(*jobs), [0], ["one"])
    for told, likely in (
        (
            {},
            "the log counts processors: say --procs-per-node; or jobs share nodes: say --shared-nodes too; or",
        ),
        (
            {"procs_per_node": 4},
            "a node has more processors than --procs-per-node 4; or jobs share nodes: say",
        ),
        ({"shared_nodes": True}, "the log counts processors: say --procs-per-node; or there were more nodes"),
    ):
        assert f"Likely {likely}" in doubts_of_the_log(whole, 8, **told)[-1]
    said = " ".join(doubts_of_the_log(whole, 8))
    assert "up to 64 nodes were in use at once" in said
    assert "8.0 times the node-time of 8 nodes" in said
    assert "--procs-per-node" in said


def test_a_busy_cluster_of_whole_nodes_is_no_reason_to_doubt():
    jobs = [(at * DAY, 3600, DAY, 8) for at in range(7)]
    assert doubts_of_the_log(recorded(logs(*jobs), [0], ["one"]), 8) == []


@pytest.mark.parametrize(
    ("recorded_min", "simulated_min", "likely"),
    [
        (60, 60, None),
        (0, 30, None),  # 10 minutes are added to both: 40 to 10
        (392, 117, None),  # the Balancer paper's own weeks
        (0, 34_560, "there were more nodes"),
        (600, 20, "nodes were down or reserved"),
    ],
)
def test_waits_that_are_far_apart_are_doubted_with_what_is_likely(recorded_min, simulated_min, likely):
    week = replace(KNOWN, recorded_wait_min=recorded_min, simulated_wait_min=simulated_min)
    said = " ".join(doubts_of_today([week], 5))
    assert (likely in said) if likely else not said
    assert not doubts_of_today([week], 1e9)


def test_figures_of_the_split_stand_beside_those_of_the_log_week_by_week():
    week = replace(KNOWN, simulated_wait_min=None, simulated_used=None)
    rows = [
        {"label": label, "week": KNOWN.week, "pairing": 1, "window.mean_wait_after_begin_s": wait_s,
         "window.ondemand_requests": 50, "window.ondemand_rejected": 1,
         "window.batch_utilization": 0.4}
        for label, wait_s in (("split", 1800), ("basic R=0 W=0", 60))
    ]  # fmt: skip
    (found,) = beside_simulated([week], rows, batch_nodes=8, ondemand_nodes=2)
    assert found == replace(KNOWN, simulated_wait_min=30, simulated_used=0.5, requests=50, refused=1)
    assert sentence([found]).startswith(
        "Today in these weeks: batch jobs waited 60 min by the log and wait 30 min simulated"
    )


@pytest.mark.parametrize(
    ("recorded_min", "simulated_min", "ends", "tells"),
    [
        (60, 60, False, False),
        (0, 2, False, False),
        (60, 77, False, False),
        (60, 78, False, True),
        (78, 60, False, True),
        (63, 121, False, True),  # the Balancer paper's two weeks
        (60, 131, True, True),
        (392, 117, True, True),  # and its eight
    ],
)
def test_waits_a_quarter_off_are_told_and_waits_twice_as_long_end_the_study(
    recorded_min, simulated_min, ends, tells
):
    week = replace(KNOWN, recorded_wait_min=recorded_min, simulated_wait_min=simulated_min)
    assert bool(doubts_of_today([week], FARTHEST)) is ends
    assert bool(remarks([week])) is tells
    assert ("(amber)" in trust([week])) is tells


def test_a_week_that_is_far_off_is_told_by_its_name_though_the_mean_is_right():
    weeks = [
        replace(KNOWN, week="early", recorded_wait_min=30, simulated_wait_min=105),
        replace(KNOWN, week="late", recorded_wait_min=105, simulated_wait_min=30),
        KNOWN,
    ]
    assert doubts_of_today(weeks, FARTHEST) == []
    (said,) = remarks(weeks)
    assert said.startswith(
        "in 2 of 3 weeks the waits are more than 2 times apart; farthest in that of early, 30 min"
    )


@pytest.mark.parametrize(
    ("refused", "ends", "is_other_way_round"),
    [(0, False, False), (1, False, False), (10, False, False), (20, True, False), (1425, True, True)],
)
def test_leases_of_the_log_that_today_would_refuse_are_told_or_end_the_study(
    refused, ends, is_other_way_round
):
    week = replace(KNOWN, requests=2335, refused=refused)
    said = " ".join(doubts_of_today([week], FARTHEST))
    assert (f"refuses {grouped(refused)} of the {grouped(2335)} leases" in said) is ends
    assert ("the wrong way round" in said) is is_other_way_round
    assert (f"refuses {grouped(refused)} of the {grouped(2335)} leases" in trust([week])) is bool(refused)


def test_a_single_lease_of_few_does_not_end_the_study():
    week = replace(KNOWN, requests=20, refused=1)
    assert doubts_of_today([week], FARTHEST) == []
    assert "1 of the 20 leases" in trust([week])


def test_without_waits_in_the_log_nobody_knows_and_that_is_no_green():
    week = replace(KNOWN, recorded_wait_min=None, requests=10, refused=0)
    assert "(amber)" in trust([week])
