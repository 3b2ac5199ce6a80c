"""Predictors are pure: a history and a slot in, nodes out."""

from __future__ import annotations

import pytest

from balancer.plugins import PREDICTORS, PluginError, make_plugin
from balancer.predictors.backtest import backtest, pinball
from balancer.predictors.interface import History
from balancer.predictors.peak import Peak
from balancer.predictors.planner import Keep, Reservation, reservation
from balancer.predictors.quantiles import weighted_quantile
from balancer.predictors.recency_weighted import RecencyWeighted
from balancer.predictors.seasonal_quantile import SeasonalQuantile

HOUR_US = 3_600_000_000
ALL = (Peak(), SeasonalQuantile(), RecencyWeighted())


def days(*daily: tuple[int, int, int, int]) -> History:
    """Days of four slots, oldest first, from slot 0 on."""
    return History(0, [nodes for day in daily for nodes in day])


def test_the_peak_is_the_largest_of_the_same_slot_a_day_a_week_and_a_month_ago():
    quiet = (0, 0, 0, 0)
    history = days((0, 7, 0, 0), *[quiet] * 20, (0, 5, 0, 0), *[quiet] * 5, (9, 3, 9, 9))
    tomorrow_morning = 4 * 28 + 1
    assert Peak().predict(history, tomorrow_morning) == 7
    assert Peak(combine="mean").predict(history, tomorrow_morning) == 5
    assert Peak(combine="last").predict(history, tomorrow_morning) == 3


def test_the_other_reading_of_the_peak_looks_at_every_day_of_the_month():
    history = days((0, 0, 0, 0), (0, 6, 0, 0), (0, 1, 0, 0))
    assert Peak().predict(history, 13) == 1
    assert Peak(window=True).predict(history, 13) == 6


@pytest.mark.parametrize("predictor", ALL)
def test_without_a_history_nothing_is_reserved(predictor):
    assert predictor.predict(History(0, []), 0) == 0


@pytest.mark.parametrize("predictor", ALL)
def test_a_constant_need_is_predicted_exactly(predictor):
    assert predictor.predict(days(*[(4, 4, 4, 4)] * 28), 4 * 28) == 4


def test_one_burst_does_not_stay_in_the_seasonal_quantile():
    history = days(*[(2, 2, 2, 2)] * 20, (90, 2, 2, 2), *[(2, 2, 2, 2)] * 7)
    assert Peak(window=True).predict(history, 4 * 28) == 90
    assert SeasonalQuantile(quantile=0.9).predict(history, 4 * 28) == 2


def test_recent_days_weigh_more():
    history = days(*[(0, 0, 0, 0)] * 20, *[(8, 8, 8, 8)] * 4)
    assert RecencyWeighted(quantile=0.5, half_life_days=2).predict(history, 4 * 24) == 8
    assert RecencyWeighted(quantile=0.5, half_life_days=100).predict(history, 4 * 24) == 0


def test_a_weighted_quantile_covers_its_share_of_the_weight():
    samples = [(1, 1.0), (5, 2.0), (9, 1.0)]
    assert [weighted_quantile(samples, q) for q in (0.25, 0.26, 0.75, 0.76)] == [1, 5, 5, 9]


def test_pinball_loss_counts_shortfall_and_excess_by_the_quantile():
    assert pinball(0.9, 10, 6) == pytest.approx(3.6)
    assert pinball(0.9, 6, 10) == pytest.approx(0.4)


def test_a_backtest_predicts_each_slot_from_what_was_known_before_it():
    seen = []

    class Spy:
        def predict(self, history: History, slot: int) -> int:
            seen.append((slot, history.first + len(history.nodes)))
            return 3

    score = backtest(Spy(), days((1, 1, 1, 1), (5, 0, 3, 0)), quantile=0.5, warmup_days=1)
    assert seen == [(4, 4), (5, 5), (6, 6), (7, 7)]
    assert (score.slots, score.slots_short, score.nodes_requested, score.nodes_short) == (4, 1, 8, 2)
    assert score.wasted_node_h == (3 + 3) * 6
    assert score.pinball_loss == (2 + 3 + 3) * 0.5 / 4
    assert score.covered == 0.75


def test_a_history_shorter_than_the_warm_up_is_an_error():
    with pytest.raises(ValueError, match="the history has 1 days: fewer than the warm-up of 28"):
        backtest(Peak(), days((1, 1, 1, 1)))


def test_a_reservation_lasts_to_the_end_of_its_slot():
    history = days(*[(4, 4, 4, 4)] * 2)
    assert reservation(Peak(), history, 48 * HOUR_US, most=100) == Reservation(4, 6 * HOUR_US)
    assert reservation(Peak(), history, 48 * HOUR_US, most=3, keep=Keep.HOLD) == Reservation(3, None)


def test_called_in_the_middle_of_a_slot_it_takes_off_what_has_come():
    history = History(-4, (5, 5, 5, 5, 2))
    assert reservation(Peak(), history, 2 * HOUR_US, most=100) == Reservation(3, 4 * HOUR_US)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("peek", "there is no predictor 'peek'; did you mean 'peak'?"),
        (
            {"peak": {"combin": "max"}},
            "predictor peak has no parameter 'combin'; did you mean 'combine'?",
        ),
        ({"peak": {"combine": "min"}}, "combine must be one of max, mean, last, not 'min'"),
        ({"seasonal_quantile": {"quantile": 1}}, "quantile must lie between 0 and 1"),
        (7, "a predictor is written as `name` or `name: {parameter: value}`, not 7"),
    ],
)
def test_a_wrong_predictor_is_an_error_that_says_what_to_do(item, text):
    with pytest.raises(ValueError) as error:
        make_plugin(PREDICTORS, item)
    assert text in str(error.value)


def test_parameters_are_converted_to_their_types():
    made = make_plugin(PREDICTORS, {"recency_weighted": {"half_life_days": 3}})
    assert made == RecencyWeighted(half_life_days=3.0)
    with pytest.raises(
        PluginError, match=r"predictor recency_weighted: half_life_days: must be a number, not 'long'"
    ):
        make_plugin(PREDICTORS, {"recency_weighted": {"half_life_days": "long"}})
