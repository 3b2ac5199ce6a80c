"""Token buckets."""

from __future__ import annotations

import pytest

from balancer.auth import rates as module
from balancer.auth.rates import Rates
from balancer.clock import US


def test_a_burst_is_let_through_and_then_the_rate():
    rates = Rates(10, 3)
    assert [rates.take("a", 0) for _ in range(3)] == [0, 0, 0]
    assert rates.take("a", 0) == pytest.approx(0.1)
    assert rates.take("a", US // 20) == pytest.approx(0.05)
    assert rates.take("a", US // 10) == 0
    assert rates.take("a", US // 10) > 0


def test_one_caller_does_not_use_up_what_is_another_ones():
    rates = Rates(1, 1)
    assert rates.take("a", 0) == 0
    assert rates.take("a", 0) > 0
    assert rates.take("b", 0) == 0


def test_no_rate_is_no_limit():
    rates = Rates(0, 1)
    assert {rates.take("a", 0) for _ in range(100)} == {0}


def test_a_bucket_never_holds_more_than_the_burst():
    rates = Rates(1000, 2)
    assert rates.take("a", 0) == 0
    assert [rates.take("a", 3600 * US) > 0 for _ in range(3)] == [False, False, True]


def test_of_many_callers_the_one_that_called_longest_ago_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "_MOST_BUCKETS", 2)
    rates = Rates(1, 1)
    assert [rates.take(name, 0) for name in ("a", "b", "c")] == [0, 0, 0]
    assert (rates.take("c", 0) > 0, rates.take("b", 0) > 0) == (True, True)  # the newest are known
    assert rates.take("a", 0) == 0
