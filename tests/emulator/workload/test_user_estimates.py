"""Walltimes by the model of Tsafrir, Etsion and Feitelson."""

from __future__ import annotations

import numpy as np
import pytest

from balancer.clock import US
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from emulator.workload.transforms import parse_transforms
from emulator.workload.user_estimates import EVERYWHERE_S, POPULARITY, UserEstimates, distribution, head_times
from testdata import TRACES

SITES = (
    ("SDSC-SP2-1998-4.2-cln", 64_800),
    ("CTC-SP2-1996-3.1-cln", 64_800),
    ("KTH-SP2-1996-2.1-cln", 14_400),
)
TOP = 20


def site(name, longest_s):
    """Jobs of a log that ask for no more than this, and what they ask for in s."""
    jobs = to_jobs(load(TRACES / f"{name}.swf.xz"), nodes=None).jobs
    jobs = jobs.take(np.flatnonzero(jobs.estimate_us <= longest_s * US))
    return jobs, jobs.estimate_us // US


def popular(seconds, count=TOP):
    values, jobs = np.unique(seconds, return_counts=True)
    best = np.lexsort((values, -jobs))[:count]
    return {int(values[each]): float(jobs[each] / len(seconds)) for each in best}


def apart(one, other):
    """The largest difference of two distributions' shares."""
    at = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(each), at, side="right") / len(each) for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


@pytest.mark.parametrize(("place", "name", "longest_s"), [(at, *each) for at, each in enumerate(SITES)])
def test_which_value_is_how_popular_is_counted_in_the_logs(place, name, longest_s):
    top = list(popular(site(name, longest_s)[1]))
    rank = {seconds: at for at, seconds in enumerate(top, 1)}
    by_time = [longest_s, *sorted(set(top) - {longest_s})]
    assert [rank[each] for each in by_time] == list(POPULARITY[place])
    assert sum(each in top or each > longest_s for each in EVERYWHERE_S) >= 14


@pytest.mark.parametrize(("name", "longest_s"), SITES)
def test_with_the_values_of_a_site_the_walltimes_are_distributed_as_there(name, longest_s):
    jobs, own = site(name, longest_s)
    found = [
        UserEstimates(longest_s, popular(own))
        .apply_random(jobs, nodes=1, rng=stream(seed, "test"))
        .estimate_us
        // US
        for seed in range(3)
    ]
    assert max(apart(each, own) for each in found) < 0.08
    random = np.random.default_rng(1).random(len(jobs))
    others = np.minimum(jobs.run_us * (1 + 4 * random), longest_s * US) // US
    assert apart(others, own) > 0.25, "a run time times a number at random is further off"


def test_with_no_more_than_the_longest_and_its_share_it_is_nearer_than_run_times_times_a_number():
    for name, longest_s in SITES:
        jobs, own = site(name, longest_s)
        share = float((own == longest_s).mean())
        found = [
            UserEstimates(longest_s, {longest_s: share}).apply_random(jobs, nodes=1, rng=stream(seed, "test"))
            for seed in range(3)
        ]
        assert np.median([apart(each.estimate_us // US, own) for each in found]) < 0.2, name


def test_the_twenty_values_are_the_longest_those_of_all_sites_and_round_ones_from_above():
    hours = [each / 3600 for each in head_times(160 * 3600)]
    assert hours[0] == 160
    assert hours[-5:] == [18, 50, 100, 140, 150]
    assert len(head_times(64_800)) == TOP
    assert [each // 60 for each in head_times(3600)] == [60, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]


def test_the_head_has_89_percent_falling_by_the_papers_curve_and_the_longest_is_first():
    shares = distribution(64_800, {}, 100_000, np.random.default_rng(1))
    ranked = sorted(shares.values(), reverse=True)
    assert sum(shares.values()) == pytest.approx(1)
    assert sum(shares[each] for each in head_times(64_800)) == pytest.approx(0.89)
    assert shares[64_800] == ranked[0]
    for rank in (2, 10, 20):
        assert ranked[rank - 1] == pytest.approx((14.0491 * np.exp(-0.177531 * rank) + 0.462513) / 100)
    assert ranked[20] / ranked[40] == pytest.approx((21 / 41) ** -2.267)
    assert len(shares) == pytest.approx(340 + 30_000 / 180_000 * 225, abs=3)


def test_a_sites_own_values_take_the_place_of_the_nearest_and_keep_their_shares():
    own = {14_400: 0.3, 12_000: 0.1, 60: 0.05}
    shares = distribution(14_400, own, 20_000, np.random.default_rng(1))
    assert {each: pytest.approx(shares[each]) for each in own} == own
    head = sorted(shares, key=lambda each: -shares[each])[:TOP]
    assert sum(shares[each] for each in head) == pytest.approx(0.89, abs=0.01)
    assert set(own) <= set(head)


def made(run_s, estimate_s=3600, kind=Kind.BATCH):
    count = len(run_s)
    return JobTable.build(
        submit_us=np.arange(count) * US,
        run_us=np.array(run_s) * US,
        nodes=np.ones(count, np.int32),
        estimate_us=np.full(count, estimate_s * US),
        kind=kind,
    )


def test_nobody_asks_for_less_than_he_runs_and_leases_stay():
    rng = np.random.default_rng(1)
    jobs = made(rng.integers(1, 1_000, 5_000).tolist(), kind=[Kind.ON_DEMAND] * 10 + [Kind.BATCH] * 4_990)
    (transform,) = parse_transforms([{"user_estimates": {"longest_s": 64_800}}])
    found = transform.apply_random(jobs, nodes=4, rng=np.random.default_rng(2))
    assert (found.estimate_us[10:] >= jobs.run_us[10:]).all()
    assert (found.estimate_us[:10] == jobs.estimate_us[:10]).all()
    assert (found.run_us == jobs.run_us).all()
    again = transform.apply_random(jobs, nodes=4, rng=np.random.default_rng(2))
    other = transform.apply_random(jobs, nodes=4, rng=np.random.default_rng(3))
    assert (again.estimate_us == found.estimate_us).all()
    assert (other.estimate_us != found.estimate_us).any()


def test_one_that_overran_gets_the_longest():
    jobs = made([20_000, *[60] * 99], estimate_s=14_400)
    found = UserEstimates().apply_random(jobs, nodes=1, rng=np.random.default_rng(1))
    assert found.estimate_us[0] == 14_400 * US
    assert found.run_us[0] == 20_000 * US


def test_without_jobs_there_is_nothing_to_do():
    assert len(UserEstimates(3600).apply_random(made([]), nodes=1, rng=np.random.default_rng(1))) == 0


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"longest_s": 600}, "longest_s"),
        ({"popular": [1, 2]}, "a table of seconds and shares"),
        ({"popular": {900: 1.5}}, "popular"),
        ({"popular": {900: 0.7, 1800: 0.7}}, "add up to more than 1"),
        ({"popular": dict.fromkeys(range(60, 60 * 22, 60), 0.01)}, "21 values; 20 at most"),
        ({"longest_s": 7200, "popular": {9000: 0.1}}, "popular"),
        ({"popular": {"an hour": 0.1}}, "'an hour'; the keys are seconds"),
    ],
)
def test_what_is_no_model_is_refused(parameters, says):
    with pytest.raises(ValueError, match=says):
        parse_transforms([{"user_estimates": parameters}])


def test_more_long_jobs_than_long_walltimes_are_said_with_what_to_do():
    with pytest.raises(
        ValueError, match=r"33 jobs run for 3600 s or longer.*share of the longest in popular"
    ):
        UserEstimates(3600).apply_random(made([3600] * 90 + [5] * 10), nodes=1, rng=np.random.default_rng(1))
    with pytest.raises(ValueError, match="the longest walltime is 600 s; give longest_s"):
        UserEstimates().apply_random(made([60], estimate_s=600), nodes=1, rng=np.random.default_rng(1))
