"""Made workloads: what the parameters promise is what comes out."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.workload.generators import BurstyLeases, DailyBatch, Generator, parse_generators
from emulator.workload.streams import stream
from emulator.workload.table import COLUMNS, Kind

US = 1_000_000
DAY_S = 86_400


def make(generator, *, nodes=64, seed=1):
    return generator.generate(stream(seed, "test"), nodes=nodes)


def load_of(jobs, nodes, days):
    return float(jobs.run_us / US @ jobs.nodes) / (nodes * days * DAY_S)


def columns(jobs):
    return {name: getattr(jobs, name).tolist() for name in COLUMNS}


@pytest.mark.parametrize("generator", [DailyBatch(), BurstyLeases()])
def test_the_same_seed_gives_the_same_jobs_and_another_seed_others(generator):
    assert isinstance(generator, Generator)
    assert columns(make(generator)) == columns(make(generator))
    assert columns(make(generator)) != columns(make(generator, seed=2))


@pytest.mark.parametrize("generator", [DailyBatch(), BurstyLeases()])
def test_times_are_whole_seconds_within_the_days(generator):
    jobs = make(generator)
    for column in (jobs.submit_us, jobs.run_us, jobs.estimate_us):
        assert (column % US == 0).all()
    assert jobs.submit_us.min() >= 0
    assert jobs.submit_us.max() < generator.days * DAY_S * US


@pytest.mark.parametrize("load", [0.3, 0.8, 1.2])
@pytest.mark.parametrize("nodes", [16, 372])
def test_batch_jobs_have_the_load_asked_for(load, nodes):
    jobs = make(DailyBatch(days=30, load=load), nodes=nodes)
    assert load_of(jobs, nodes, 30) == pytest.approx(load, rel=0.02)


def test_a_number_of_jobs_is_met_and_so_is_the_load():
    jobs = make(DailyBatch(days=30, load=0.7, jobs=20_000), nodes=372)
    assert len(jobs) == 20_000
    assert load_of(jobs, 372, 30) == pytest.approx(0.7, rel=0.02)


def test_two_and_a_half_million_jobs_are_made_with_the_load_asked_for():
    jobs = make(DailyBatch(days=365, load=0.8, jobs=2_600_000), nodes=12_076)
    assert len(jobs) == 2_600_000
    assert load_of(jobs, 12_076, 365) == pytest.approx(0.8, rel=0.02)


def test_batch_jobs_look_like_those_of_a_real_cluster():
    jobs = make(DailyBatch(days=60), nodes=256)
    run_s, hour = jobs.run_us / US, jobs.submit_us // (3600 * US) % 24
    weekday = jobs.submit_us // (DAY_S * US) % 7
    widths = jobs.nodes
    assert (jobs.kind == Kind.BATCH).all()
    assert widths.max() == 128
    assert ((widths & (widths - 1)) == 0).mean() > 0.75
    assert 0.25 < (widths == 1).mean() < 0.5
    assert (jobs.run_us <= jobs.estimate_us).all()
    assert jobs.estimate_us.max() == DAY_S * US
    assert 1.5 < np.median(jobs.estimate_us / jobs.run_us) < 5
    assert np.quantile(run_s, 0.9) > 5 * np.median(run_s)
    assert ((hour >= 9) & (hour < 19)).mean() > 2 * ((hour < 7) | (hour >= 21)).mean()
    assert (weekday < 5).mean() / 5 > 2 * (weekday >= 5).mean() / 2
    assert len(np.unique(jobs.user)) == 50
    assert len(np.unique(jobs.group)) == 10
    assert len(np.unique(jobs.estimate_us)) < 40


def test_a_load_that_the_number_of_jobs_cannot_give_is_an_error():
    with pytest.raises(
        ValueError, match=r"10 jobs give a load of .* take more jobs or a longer max_walltime_s"
    ):
        make(DailyBatch(days=30, load=0.9, jobs=10))
    with pytest.raises(ValueError, match="take fewer jobs"):
        make(DailyBatch(days=0.1, load=0.01, jobs=100_000))


def test_leases_have_the_figures_of_the_balancer_papers_challenging_week():
    leases = make(BurstyLeases(), nodes=372)
    assert len(leases) == 141
    assert load_of(leases, 372, 7) == pytest.approx(0.0125, rel=0.02)
    assert (leases.kind == Kind.ON_DEMAND).all()
    assert (leases.estimate_us == leases.run_us).all()
    busiest = np.mean([busiest_minute(make(BurstyLeases(), nodes=372, seed=seed)) for seed in range(20)])
    assert 6 < busiest < 20  # the paper: 264 a minute when every lease is taken 24 times, so 11


def busiest_minute(leases):
    return int(np.bincount(leases.submit_us // (60 * US)).max())


def test_leases_come_in_bursts_in_working_hours():
    bursty = make(BurstyLeases(days=70, burst_leases=10))
    calm = make(BurstyLeases(days=70, burst_leases=1))
    assert busiest_minute(bursty) > 2 * busiest_minute(calm)
    for leases in (bursty, calm):
        hour = leases.submit_us / (3600 * US) % 24
        assert ((hour >= 8) & (hour < 20.1)).all()
        assert (leases.submit_us // (DAY_S * US) % 7 < 5).all()
    assert (make(BurstyLeases(days=70, weekends=True)).submit_us // (DAY_S * US) % 7 >= 5).any()


def test_leases_may_be_wide_and_have_a_mean_duration_instead_of_a_utilisation():
    leases = make(BurstyLeases(days=70, mean_nodes=5, utilisation=None, mean_duration_s=1800), nodes=372)
    assert leases.nodes.mean() == pytest.approx(5, rel=0.1)
    assert (leases.run_us / US).mean() == pytest.approx(1800, rel=0.02)
    assert make(BurstyLeases(mean_nodes=50), nodes=8).nodes.max() == 8


def test_a_utilisation_that_the_leases_cannot_give_is_an_error():
    with pytest.raises(ValueError, match="take more leases or nodes, or a longer max_duration_s"):
        make(BurstyLeases(utilisation=0.9), nodes=10_000)
    with pytest.raises(ValueError, match=r"0\.2 days from Monday, midnight, have no working hours"):
        make(BurstyLeases(days=0.2))


@pytest.mark.parametrize(
    ("generator", "params", "message"),
    [
        (DailyBatch, {"load": 0}, "daily_batch: load must be more than 0, not 0"),
        (DailyBatch, {"days": "7"}, "daily_batch: days must be a number, not '7'"),
        (DailyBatch, {"jobs": 0}, "daily_batch: jobs must be at least 1, not 0"),
        (DailyBatch, {"users": 5}, "daily_batch: groups must be at most 5, not 10"),
        (DailyBatch, {"widest_share": 1.5}, "daily_batch: widest_share must be at most 1, not 1.5"),
        (BurstyLeases, {"mean_nodes": 0.5}, "bursty_leases: mean_nodes must be at least 1, not 0.5"),
        (BurstyLeases, {"day_end_s": 100}, "bursty_leases: day_end_s must be more than 28800, not 100"),
        (BurstyLeases, {"weekends": "no"}, "bursty_leases: weekends must be true or false, not 'no'"),
        (BurstyLeases, {"leases_per_day": 10**6, "days": 1000}, "bursty_leases: more than 100000000 leases"),
    ],
)
def test_a_bad_parameter_is_an_error_that_names_it(generator, params, message):
    with pytest.raises(ValueError, match=message):
        generator(**params)


@pytest.mark.parametrize("generator", [DailyBatch(), BurstyLeases()])
def test_a_cluster_without_nodes_is_an_error(generator):
    with pytest.raises(ValueError, match="at least 1 node, not 0"):
        make(generator, nodes=0)


def test_a_load_beyond_memory_is_an_error():
    with pytest.raises(ValueError, match="take fewer days"):
        make(DailyBatch(days=36_500, load=10), nodes=10_000_000)


def test_a_scenarios_list_becomes_generators():
    assert parse_generators([{"daily_batch": {"load": 0.5}}, "bursty_leases", {"bursty_leases": None}]) == [
        DailyBatch(load=0.5),
        BurstyLeases(),
        BurstyLeases(),
    ]
    assert parse_generators(None) == []
    with pytest.raises(ValueError, match="there is no generator 'dailybatch'; did you mean 'daily_batch'"):
        parse_generators(["dailybatch"])
    with pytest.raises(ValueError, match="generators are a list"):
        parse_generators("daily_batch")


@pytest.mark.slow
@given(
    days=st.floats(0.05, 20),
    load=st.floats(0.05, 1.5),
    nodes=st.integers(1, 500),
    spread=st.floats(0, 3),
    walltime=st.integers(60, 300_000),
    seed=st.integers(0, 1000),
)
def test_made_jobs_always_fit_the_cluster_and_their_limits(*, days, load, nodes, spread, walltime, seed):
    generator = DailyBatch(
        days=days, load=load, run_spread=spread, max_walltime_s=walltime, median_run_s=min(1200, walltime)
    )
    jobs = make(generator, nodes=nodes, seed=seed)
    assert ((jobs.nodes >= 1) & (jobs.nodes <= nodes)).all()
    assert ((jobs.run_us >= US) & (jobs.run_us <= jobs.estimate_us)).all()
    assert (jobs.estimate_us <= walltime * US).all()
    assert ((jobs.submit_us >= 0) & (jobs.submit_us <= days * DAY_S * US)).all()
    if len(jobs) > 1000:
        assert load_of(jobs, nodes, days) == pytest.approx(load, rel=0.02)


def test_streams_of_different_names_or_seeds_differ_and_equal_ones_agree():
    draws = {
        key: stream(*key).integers(0, 2**62)
        for key in [(1, "batch"), (1, "leases"), (2, "batch"), (0, "batch")]
    }
    assert len(set(draws.values())) == 4
    assert stream(1, "batch").integers(0, 2**62) == draws[1, "batch"]


def test_a_stream_is_the_same_in_every_process():
    code = (
        "from emulator.workload.streams import stream; print(stream(7, 'x').integers(0, 2**62, 3).tolist())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(stream(7, "x").integers(0, 2**62, 3).tolist())


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_a_seed_that_is_no_whole_number_is_an_error(seed):
    with pytest.raises(ValueError, match="a seed is a whole number from 0 on"):
        stream(seed, "x")
