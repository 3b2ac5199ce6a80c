"""Schedules small enough to be worked out on paper from `docs/schedulers.md`, one for each rule.

Both the reference and the kernel must meet them: they could agree and be wrong together. Times are seconds.
"""

from __future__ import annotations

import pytest

from balancer.clock import US
from oracle.by_hand import Starts, by_kernel, by_reference
from oracle.reference import Job


@pytest.fixture(params=[by_reference, by_kernel])
def starts(request: pytest.FixtureRequest) -> Starts:
    return request.param


def jobs(*rows: tuple[int, ...], queues: tuple[int, ...] = ()) -> list[Job]:
    """(submit, nodes, run[, estimate]) in seconds, numbered from 1."""
    return [
        Job(
            number=place + 1,
            submit_us=row[0] * US,
            run_us=row[2] * US,
            estimate_us=row[-1] * US,
            nodes=row[1],
            queue=queues[place] if queues else -1,
        )
        for place, row in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fcfs", [0, 1, 6, 9]),
        ("sjf", [0, 8, 1, 4]),
        ("ljf", [0, 1, 10, 6]),
        ("smallest", [0, 4, 1, 9]),
        ("largest", [0, 1, 10, 6]),
        ("priority", [0, 5, 10, 1]),
    ],
)
def test_queue_orders(starts: Starts, order: str, expected: list[int]) -> None:
    """Job 1 fills the machine while the others come; no two of them fit at a time."""
    queue = jobs((0, 3, 1), (1, 3, 5), (1, 2, 3), (1, 3, 4), queues=(0, 0, 1, 2))
    said = {"priorities": {1: -1, 2: 5}} if order == "priority" else {}
    assert starts(queue, 3, order, "none", **said) == expected


def test_without_backfilling_nobody_passes_the_head(starts: Starts) -> None:
    queue = jobs((0, 1, 10), (1, 2, 10), (2, 1, 1))
    assert starts(queue, 2, "fcfs", "none") == [0, 10, 20]
    assert starts(queue, 2, "fcfs", "easy") == [0, 10, 2]


def test_a_job_that_ends_exactly_at_the_shadow_is_backfilled(starts: Starts) -> None:
    assert starts(jobs((0, 1, 10), (1, 2, 10), (2, 1, 8)), 2, "fcfs", "easy") == [0, 10, 2]
    assert starts(jobs((0, 1, 10), (1, 2, 10), (2, 1, 9)), 2, "fcfs", "easy") == [0, 10, 20]


def test_spare_nodes_are_given_to_jobs_that_cross_the_shadow(starts: Starts) -> None:
    queue = jobs((0, 2, 10), (1, 3, 10), (2, 1, 100), (3, 1, 100))
    assert starts(queue, 4, "fcfs", "easy") == [0, 10, 2, 20]
    assert starts(queue, 4, "fcfs", "easy", spare_nodes=False) == [0, 10, 10, 20]


def test_jobs_that_end_exactly_at_the_shadow_all_count_as_spare(starts: Starts) -> None:
    queue = jobs((0, 1, 10), (0, 1, 10), (1, 2, 10), (2, 1, 100))
    assert starts(queue, 3, "fcfs", "easy") == [0, 0, 10, 2]


@pytest.mark.parametrize(
    ("choice", "started_at_once"),
    [("first_fit", {3, 5}), ("best_fit", {4}), ("shortest_first", {5, 6}), ("first_submitted", {3, 5})],
)
def test_choices_among_the_jobs_that_may_start(
    starts: Starts, choice: str, started_at_once: set[int]
) -> None:
    """Three nodes are free until the shadow at 10."""
    queue = jobs((0, 2, 10), (1, 5, 1), (1, 2, 9), (1, 3, 8), (1, 1, 4), (1, 1, 3))
    found = starts(queue, 5, "fcfs", "easy", choice=choice)
    assert {number for number, start in enumerate(found, 1) if start == 1} == started_at_once


def test_best_fit_and_shortest_first_break_ties_in_queue_order(starts: Starts) -> None:
    queue = jobs((0, 1, 10), (1, 2, 1), (2, 1, 3), (2, 1, 3))
    for choice in ("best_fit", "shortest_first"):
        assert starts(queue, 2, "fcfs", "easy", choice=choice) == [0, 10, 2, 5]


def test_the_first_submitted_is_backfilled_first_whatever_the_order(starts: Starts) -> None:
    """Job 2 is the head, one node is free until 10: room for job 3, or for job 4, which the order puts before it."""
    queue = jobs((0, 3, 10), (1, 4, 1), (1, 1, 8), (1, 1, 4))
    assert starts(queue, 4, "sjf", "easy") == [0, 10, 11, 1]
    assert starts(queue, 4, "sjf", "easy", choice="first_submitted") == [0, 10, 1, 11]


def test_actual_run_times_of_queued_jobs_let_more_of_them_pass(starts: Starts) -> None:
    queue = jobs((0, 1, 10), (1, 2, 10), (2, 1, 5, 50))
    assert starts(queue, 2, "fcfs", "easy") == [0, 10, 20]
    assert starts(queue, 2, "fcfs", "easy", estimates="actual_for_queued") == [0, 10, 2]


def test_the_reservation_is_made_with_estimates_even_if_actual_run_times_are_known(starts: Starts) -> None:
    queue = jobs((0, 1, 10, 30), (1, 2, 10), (2, 1, 25))
    for estimates in ("user", "actual_for_queued"):
        assert starts(queue, 2, "fcfs", "easy", estimates=estimates) == [0, 27, 2]


def test_a_kept_reservation_does_not_learn_that_a_job_ended_early(starts: Starts) -> None:
    """The head sees a shadow at 40; once job 2 has ended at 5 the true one is 30; job 4 would end at 36."""
    queue = jobs((0, 1, 30), (0, 1, 5, 40), (1, 3, 1), (6, 1, 30))
    assert starts(queue, 3, "fcfs", "easy") == [0, 0, 30, 31]
    assert starts(queue, 3, "fcfs", "easy", reservation="kept") == [0, 0, 36, 6]


def test_kept_spare_nodes_are_never_given_back(starts: Starts) -> None:
    """One node is spare; job 3 takes it from 2 to 4, job 4 wants it at 5."""
    queue = jobs((0, 2, 10), (1, 3, 10), (2, 1, 2, 50), (5, 1, 50))
    assert starts(queue, 4, "fcfs", "easy") == [0, 10, 2, 5]
    assert starts(queue, 4, "fcfs", "easy", reservation="kept") == [0, 10, 2, 10]


def test_an_unprotected_head_is_passed_again_and_again(starts: Starts) -> None:
    queue = jobs((0, 1, 10), (1, 2, 5), (2, 1, 20), (9, 1, 20))
    assert starts(queue, 2, "fcfs", "easy") == [0, 10, 15, 15]
    assert starts(queue, 2, "fcfs", "easy", protect_head=False) == [0, 30, 2, 10]


def test_a_pass_after_each_event_cannot_wait_for_the_other_submits_of_the_time(starts: Starts) -> None:
    queue = jobs((0, 1, 10), (0, 1, 5))
    assert starts(queue, 1, "sjf", "easy") == [5, 0]
    assert starts(queue, 1, "sjf", "easy", pass_="event") == [0, 10]


def test_a_pass_after_each_event_sees_the_ends_of_a_time_one_by_one(starts: Starts) -> None:
    queue = jobs((0, 1, 10), (0, 1, 10), (1, 2, 5), (2, 1, 5))
    assert starts(queue, 2, "fcfs", "easy", protect_head=False) == [0, 0, 10, 15]
    assert starts(queue, 2, "fcfs", "easy", protect_head=False, pass_="event") == [0, 0, 15, 10]


def test_conservative_protects_every_job_and_not_the_head_alone(starts: Starts) -> None:
    queue = jobs((0, 2, 10), (1, 2, 10), (2, 3, 5), (3, 1, 30))
    assert starts(queue, 3, "fcfs", "easy") == [0, 10, 33, 3]
    assert starts(queue, 3, "fcfs", "conservative") == [0, 10, 20, 25]


def test_conservative_fills_the_holes_that_early_ends_leave(starts: Starts) -> None:
    """Job 1 ends at 4 and not at 10, so job 2 and with it job 3 are planned anew."""
    queue = jobs((0, 2, 4, 10), (1, 2, 10), (2, 3, 5))
    assert starts(queue, 3, "fcfs", "conservative") == [0, 4, 14]


def test_a_running_job_past_its_estimate_is_expected_to_end_now(starts: Starts) -> None:
    """From 5 on the shadow is now, so that nothing of any length may pass the head; its node is not spare."""
    queue = jobs((0, 1, 10, 5), (1, 2, 10), (6, 1, 1))
    assert starts(queue, 2, "fcfs", "easy") == [0, 10, 20]
    assert starts(queue, 2, "fcfs", "conservative") == [0, 10, 20]
