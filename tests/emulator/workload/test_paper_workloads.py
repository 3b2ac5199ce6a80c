"""Generated weeks have the figures that the paper prints."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.workload.formats import load
from emulator.workload.generators import parse_generators
from emulator.workload.packing import pack
from emulator.workload.paper_workloads import PUBLISHED, ApsLeases, LcrcBatch, compare, figures
from emulator.workload.rules import to_jobs
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from testdata import TRACES

US = 1_000_000
SEEDS = range(1, 9)
EXPERIMENTS = (
    "2014-01-19",
    "2014-04-27",
    "2014-05-04",
    "2014-05-11",
    "2014-05-18",
    "2014-05-25",
    "2014-07-20",
    "2014-09-21",
)


def generate(generator, seed=1, nodes=372):
    return generator.generate(stream(seed, "test"), nodes=nodes)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_leases_are_as_many_as_much_and_as_bursty_as_printed(seed):
    leases = generate(ApsLeases(), seed)
    got = figures(leases, nodes=372)
    printed = PUBLISHED["challenging-leases"]
    assert (got.count, got.busiest_minute) == (printed["count"], printed["busiest_minute"])
    assert got.utilisation == pytest.approx(printed["utilisation"], rel=0.001)
    assert got.most_at_once <= 68  # the on-demand cluster, which rejected none of them
    assert (leases.kind == Kind.ON_DEMAND).all()
    assert leases.submit_us.max() < 604_800 * US


def test_where_leases_find_no_place_below_the_limit_other_durations_are_drawn(monkeypatch):
    place, asked = ApsLeases._begins_below_s, []

    def finds_none_at_first(self, rng, sizes, run_s):
        asked.append(run_s.tolist())
        return None if len(asked) < 3 else place(self, rng, sizes, run_s)

    monkeypatch.setattr(ApsLeases, "_begins_below_s", finds_none_at_first)
    assert figures(generate(ApsLeases(most_at_once=11)), nodes=372).most_at_once <= 11
    assert len({tuple(durations) for durations in asked}) == 3
    monkeypatch.setattr(ApsLeases, "_begins_below_s", lambda *_: None)
    with pytest.raises(ValueError, match="141 leases do not fit into a week with 11 at once"):
        generate(ApsLeases(most_at_once=11))


def test_the_main_workload_has_the_printed_figures():
    printed = PUBLISHED["U66-Main"]
    got = [figures(generate(LcrcBatch(), seed), nodes=372) for seed in SEEDS]
    assert all(one.utilisation == pytest.approx(0.665, rel=0.001) for one in got)
    for name, tolerance in (
        ("mean_nodes", 0.05),
        ("std_nodes", 0.15),
        ("mean_run_min", 0.05),
        ("std_run_min", 0.1),
    ):
        assert np.mean([getattr(one, name) for one in got]) == pytest.approx(printed[name], rel=tolerance)


def test_the_challenging_weeks_batch_jobs_are_as_many_and_as_much_as_printed():
    got = figures(generate(LcrcBatch(load=0.844, jobs=24_177)), nodes=372)
    assert got.count == 24_177
    assert got.utilisation == pytest.approx(0.844, rel=0.001)


def test_no_walltime_is_below_the_run_time_and_no_job_wider_than_the_cluster():
    jobs = generate(LcrcBatch(), nodes=20)
    assert (jobs.estimate_us >= jobs.run_us).all()
    assert jobs.nodes.max() == 20


def test_bursts_and_durations_are_those_of_eight_other_weeks():
    sizes, spread = [], []
    for week in EXPERIMENTS:
        leases = pack(load(TRACES / f"aps/{week}.csv.xz"))
        burst = np.cumsum(np.diff(leases.submit_us, prepend=-(10**12)) > 60 * US) - 1
        sizes.append(np.bincount(burst))
        spread.append(np.log(leases.run_us).std())
    size = np.concatenate(sizes)
    full = size >= ApsLeases().least_full
    assert round(float(full.mean()), 3) == ApsLeases().full_share
    assert round(float(size[~full].mean()), 2) == ApsLeases().small_mean
    assert round(float(np.median(spread)), 1) == ApsLeases().duration_spread
    assert size.max() == ApsLeases().peak


def test_widths_are_those_of_the_lcrc_weeks_before():
    logs = to_jobs(load(TRACES / "lcrc"), nodes=372, origin_s=0).jobs
    before = logs.nodes[logs.submit_us < 78 * 604_800 * US]
    made = generate(LcrcBatch(load=5)).nodes
    for width in (1, 2, 5, 8):
        assert float((made == width).mean()) == pytest.approx(float((before == width).mean()), abs=0.01)


def test_a_seed_gives_the_same_and_another_seed_something_else():
    for generator in (ApsLeases(), LcrcBatch()):
        first, again, other = (generate(generator, seed).run_us for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_figures_are_those_of_jobs_that_start_when_submitted():
    jobs = JobTable.build(
        submit_us=[0, 59 * US, 60 * US], run_us=[60 * US, 120 * US, 60 * US], nodes=[1, 2, 3]
    )
    got = figures(jobs, nodes=10)
    assert (got.count, got.busiest_minute, got.most_at_once) == (3, 2, 5)
    assert (got.mean_nodes, got.mean_run_min) == (2.0, pytest.approx(4 / 3))
    assert got.utilisation == pytest.approx((60 + 240 + 180) / 6_048_000)


def test_only_printed_figures_are_compared():
    got = figures(generate(ApsLeases()), nodes=372)
    rows = {name: printed for name, printed, _ in compare("challenging-leases", got)}
    assert (rows["count"], rows["mean_nodes"]) == (141, None)
    with pytest.raises(ValueError, match="no published figures 'U99'; there are: challenging-batch"):
        compare("U99", got)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"aps_leases": {"peak": 200}}, "aps_leases: peak must be at most 141"),
        ({"aps_leases": {"working_share": 2}}, "aps_leases: working_share must be at most 1"),
        ({"lcrc_batch": {"load": 0}}, "lcrc_batch: load must be more than 0"),
        ({"lcrc_batch": {"jobs": 1.5}}, "lcrc_batch: jobs must be a whole number"),
    ],
)
def test_bad_parameters_are_said(item, message):
    with pytest.raises(ValueError, match=message):
        parse_generators([item])


@pytest.mark.parametrize(
    ("generator", "message"),
    [
        (
            ApsLeases(leases=11, utilisation=0.5),
            "11 leases of at most 259200 s cannot take 50.00 % of 372 nodes",
        ),
        (
            ApsLeases(leases=600, small_mean=1.0, full_share=0, working_share=1, weekend_share=1),
            "590 bursts do not fit into a week",
        ),
        (LcrcBatch(load=1, jobs=3), "lcrc_batch: 3 jobs give a load of"),
    ],
)
def test_what_cannot_be_met_is_an_error(generator, message):
    with pytest.raises(ValueError, match=message):
        generate(generator)
