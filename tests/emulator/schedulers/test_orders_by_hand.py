"""Figures of orders small enough to be worked out on paper from `docs/schedulers.md`. Times are seconds.

Both the reference and the kernel must meet them: they could agree and be wrong together.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.kernel.tables import FRONT
from emulator.schedulers import regression_orders
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.dynamic import WAITING, order_keys
from emulator.schedulers.multifactor import Multifactor
from emulator.schedulers.utility import Unicef, Wfp3
from oracle.by_hand import Starts, by_kernel, by_reference
from oracle.reference import Job
from oracle.workloads import job_table


@pytest.fixture(params=[by_reference, by_kernel])
def starts(request: pytest.FixtureRequest) -> Starts:
    return request.param


def job(number: int, submit: float, nodes: int, run: float, estimate: float = 0, **more: int) -> Job:
    """A job in seconds; without an estimate it asks for its run time."""
    return Job(number, int(submit * US), int(run * US), int((estimate or run) * US), nodes, **more)


def waiting(*, wait_s: float, estimate_s: float, nodes: int) -> Any:
    record = np.zeros(1, WAITING).view(np.recarray)
    record.wait_us, record.estimate_us, record.nodes, record.share = wait_s * US, estimate_s * US, nodes, 1.0
    return record[0]


# WFP3 and UNICEF.


def test_wfp3_is_the_cube_of_wait_over_estimate_times_nodes():
    assert Wfp3().score(waiting(wait_s=60, estimate_s=20, nodes=4)) == 27 * 4
    assert Wfp3(exponent=1).score(waiting(wait_s=60, estimate_s=20, nodes=4)) == 12


def test_wfp3_serves_who_waited_longest_for_what_they_asked(starts):
    jobs = [
        job(1, 0, 2, 100),
        job(2, 0, 2, 100),  # at 100 s: (100 / 100)^3 x 2 = 2
        job(3, 40, 2, 20),  # at 100 s: (60 / 20)^3 x 2 = 54; at 110 s it has started
        job(
            4, 80, 1, 10
        ),  # at 100 s: (20 / 10)^3 x 1 = 8; at 120 s: (40 / 10)^3 = 64 > (120 / 100)^3 x 2 = 3.5
    ]
    assert starts(jobs, 2, "wfp3", "none") == [0, 130, 100, 120]
    assert starts(jobs, 2, "fcfs", "none") == [0, 100, 200, 220]


def test_who_is_head_changes_with_time(starts):
    """A blocked head is overtaken by a job whose wait grows faster: the reservation goes with the head."""
    jobs = [
        job(1, 0, 1, 200),
        job(2, 0, 1, 300),
        job(3, 0, 2, 100),  # at 200 s: (200 / 100)^3 x 2 = 16: the head, reserved for 300 s
        job(4, 190, 1, 100),  # at 200 s: (10 / 100)^3: may start, over at 300 s
        job(5, 191, 2, 5, 10),  # at 200 s: 0.9^3 x 2 = 1.458; at 300 s: 10.9^3 x 2 = 2590 > 3^3 x 2 = 54
    ]
    assert starts(jobs, 2, "wfp3", "easy") == [0, 0, 305, 200, 300]
    assert starts(jobs, 2, "fcfs", "easy") == [0, 0, 300, 200, 400]


def test_unicef_is_wait_over_the_logarithm_of_nodes_and_estimate():
    assert Unicef().score(waiting(wait_s=60, estimate_s=20, nodes=8)) == 1
    assert Unicef().score(waiting(wait_s=60, estimate_s=20, nodes=2)) == 3


def test_a_negative_wait_is_that_of_a_start_at_minus_one_second():
    job = SimpleNamespace(submit_us=59 * US, wait_us=7, estimate_us=20 * US, nodes=8)
    assert Wfp3(negative_wait=True).score(job) == -27 * 8
    assert Unicef(negative_wait=True).score(job) == -1


def test_unicef_serves_small_jobs_first_and_one_node_before_all(starts):
    jobs = [
        job(1, 0, 4, 100),
        job(2, 0, 4, 10),  # at 100 s: 100 / (2 x 10) = 5
        job(3, 0, 2, 10),  # 100 / (1 x 10) = 10
        job(4, 90, 1, 1000),  # one node
        job(5, 95, 1, 10),  # one node, and waited more in parts of its estimate
    ]
    assert starts(jobs, 4, "unicef", "none") == [0, 1100, 100, 100, 100]
    assert starts(jobs[:3], 4, "unicef", "none") == [0, 110, 100]


# F1 to F4: r = 100 s, n = 4, s = 1000 s; and a job at 0 s, which counts as one at 0.1 s.


@pytest.mark.parametrize(
    ("order", "values"),
    [
        (regression_orders.f1, [2 * 4 + 870 * 3, 2 * 4 - 870]),
        (regression_orders.f2, [10 * 4 + 25_600 * 3, 10 * 4 - 25_600]),
        (regression_orders.f3, [100 * 4 + 6_860_000 * 3, 100 * 4 - 6_860_000]),
        (regression_orders.f4, [100 * 2 + 530_000 * 3, 100 * 2 - 530_000]),
    ],
)
def test_f1_to_f4_are_the_formulas_of_the_paper(order, values):
    jobs = job_table([job(1, 1000, 4, 50, 100), job(2, 0, 4, 50, 100)])  # sorted by submit
    assert order(jobs, SchedulerConfig()).tolist() == order_keys(np.array(values[::-1], float)).tolist()


def test_f1_lets_a_small_job_overtake_a_large_one_that_came_a_little_earlier(starts):
    jobs = [
        job(1, 0, 100, 50),
        job(2, 10, 100, 1000),  # F1: 3 x 100 + 870 x 1 = 1170
        job(3, 20, 1, 1000),  # F1: 3 x 1 + 870 x 1.301 = 1134.9
        job(4, 40, 1, 1000),  # F1: 3 + 870 x 1.602 = 1396.8: too late to overtake
    ]
    assert starts(jobs, 100, "f1", "none") == [0, 1050, 50, 2050]


def test_f1_tells_two_jobs_of_the_ctc_log_apart_by_the_eleventh_digit(starts):
    jobs = [
        job(1, 0, 1, 28_600_000),
        job(2, 28_575_106, 1, 100, 64_839),  # F1: 6491.52126589
        job(3, 28_575_107, 1, 100, 64_837),  # F1: 6491.52126572
    ]
    assert starts(jobs, 1, "f1", "none") == [0, 28_600_100, 28_600_000]


# Multifactor.


def only(**weights: float) -> dict[str, Any]:
    """No factor but these."""
    none = {"age_weight": 0, "size_weight": 0, "fair_share_weight": 0, "queue_weight": 0}
    return none | weights


def test_multifactor_is_the_weighted_sum_of_its_factors():
    order = Multifactor(**only(age_weight=100, fair_share_weight=10), max_age_s=200)
    one = waiting(wait_s=50, estimate_s=1, nodes=1)
    one.usage, one.share, one.fixed = 0.5, 0.25, 7
    assert order.score(one) == pytest.approx(100 * 0.25 + 10 * 2**-2 + 7)
    one.wait_us = 300 * US
    assert order.score(one) == pytest.approx(100 + 10 * 2**-2 + 7)


def test_size_and_queue_factors_lie_between_0_and_1():
    jobs = job_table([job(1, 0, 1, 1, queue=5), job(2, 0, 2, 1, queue=6), job(3, 0, 4, 1, queue=7)])
    weights = only(size_weight=100, queue_weight=1)
    wide = Multifactor(**weights, queues={5: 2, 6: 8})
    assert wide.fixed(jobs, 4).tolist() == [25 + 0.25, 50 + 1, 100]
    narrow = Multifactor(**weights, favor_small=True)
    assert narrow.fixed(jobs, 4).tolist() == [100, 75, 25]


def test_fair_share_serves_who_has_used_less(starts):
    jobs = [
        job(1, 0, 2, 100, user=1),
        job(2, 1, 2, 10, user=1),
        job(3, 50, 2, 10, user=2),
        job(4, 60, 2, 10, user=2),
    ]
    order = {"multifactor": only(fair_share_weight=1) | {"half_life_s": 1e6}}
    # at 100 s user 1 has all usage, at 110 s 10/11 of it: user 2 goes on
    assert starts(jobs, 2, order, "none") == [0, 120, 100, 110]


def test_usage_is_forgotten(starts):
    """User 1 used 100 s, user 2 the 60 s behind; with a half-life of 20 s user 2 has used more."""
    jobs = [
        job(1, 0, 1, 100, user=1),
        job(2, 0, 1, 60, user=2),
        job(3, 150, 1, 10, user=1),
        job(4, 150, 1, 10, user=2),
    ]
    slow = {"multifactor": only(fair_share_weight=1) | {"half_life_s": 1e6}}
    fast = {"multifactor": only(fair_share_weight=1) | {"half_life_s": 20}}
    assert starts(jobs, 1, slow, "none") == [0, 100, 170, 160]
    assert starts(jobs, 1, fast, "none") == [0, 100, 160, 170]


def test_a_larger_share_may_use_more(starts):
    jobs = [
        job(1, 0, 1, 60, user=1),
        job(2, 0, 1, 40, user=2),
        job(3, 10, 1, 10, user=1),
        job(4, 10, 1, 10, user=2),
    ]
    fair = only(fair_share_weight=1) | {"half_life_s": 1e9}
    # at 0 s job 1 is first by number; at 60 s user 1 has used all; at 100 s the parts are 0.6 and 0.4
    assert starts(jobs, 1, {"multifactor": fair}, "none") == [0, 60, 110, 100]
    # with three quarters of the shares user 1 has used 0.6 / 0.75 = 0.8 of its own, user 2 0.4 / 0.25 = 1.6
    assert starts(jobs, 1, {"multifactor": fair | {"shares": {1: 3}}}, "none") == [0, 60, 100, 110]


@pytest.mark.parametrize(
    ("reservation", "expected"), [("refreshed", [0, 0, 0, 200, 210]), ("kept", [0, 0, 0, 250, 100])]
)
def test_a_kept_reservation_lasts_as_long_as_its_job_is_the_head(starts, reservation, expected):
    """Job 4 is reserved for 300 s. Job 1 ends before its time: made anew at 100 s, the reservation is for 200 s."""
    jobs = [
        job(1, 0, 1, 100, 300),
        job(2, 0, 1, 200),
        job(3, 0, 1, 500),
        job(4, 10, 2, 10, 200),  # at 100 s: (90 / 200)^3 x 2 = 0.18: the head
        job(5, 50, 1, 150),  # (50 / 150)^3 = 0.04; over at 250 s if it starts now
    ]
    assert starts(jobs, 3, "wfp3", "easy", reservation=reservation) == expected


# Places in the queue.


def test_priorities_are_compared_to_their_last_digit():
    third = 1 / 3
    values = np.array([math.nextafter(third, 1), third, -third, -math.inf, 0.0, -0.0, 1e300, math.inf])
    keys = order_keys(values)
    assert keys[4] == keys[5]
    assert np.argsort(keys, kind="stable").tolist() == [3, 2, 4, 5, 1, 0, 6, 7]
    assert keys.min() > FRONT
    assert (-keys).min() > FRONT


def test_accounts_whose_usage_differs_in_the_last_digit_have_one_priority():
    order = Multifactor(**only(fair_share_weight=1000))
    one, other = waiting(wait_s=0, estimate_s=1, nodes=1), waiting(wait_s=0, estimate_s=1, nodes=1)
    one.share = other.share = 0.5
    one.usage, other.usage = 0.8, 0.7 + 0.1
    assert one.usage != other.usage
    assert order.score(one) == order.score(other)
    other.usage = 0.800000001
    assert order.score(one) > order.score(other)
