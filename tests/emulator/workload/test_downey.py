"""Downey's model: work and parallelism are log-uniform, the load is met, and the speed-up makes run times longer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from emulator.workload.downey import DowneyJobs
from emulator.workload.generators import parse_generators
from emulator.workload.streams import stream

US = 1_000_000
BOUNDS = {"least_node_s": 10.0, "most_node_s": 1_000_000.0}


def make(nodes=128, seed=1, **given):
    return DowneyJobs(**(BOUNDS | given)).generate(stream(seed, "test"), nodes=nodes)


def test_work_is_log_uniform_between_its_bounds_and_has_that_mean():
    jobs = make(days=2000)
    work_s = jobs.nodes * (jobs.run_us / US)
    least, most = BOUNDS.values()
    assert len(jobs) > 100_000
    assert work_s.mean() == pytest.approx((most - least) / math.log(most / least), rel=0.03)
    for share in (0.25, 0.5, 0.75):  # whole seconds make the shortest jobs of many nodes longer
        assert np.quantile(work_s, share) == pytest.approx(least * (most / least) ** share, rel=0.06)


def test_parallelism_is_log_uniform_from_one_node_to_the_widest():
    jobs = make(days=2000, widest=64)
    assert (jobs.nodes.min(), jobs.nodes.max()) == (1, 64)
    for edge in (2, 8, 32):  # sizes are rounded to whole nodes
        assert (jobs.nodes < edge).mean() == pytest.approx(math.log(edge - 0.5) / math.log(64), abs=0.01)
    assert abs(np.corrcoef(np.log(jobs.nodes), np.log(jobs.nodes * jobs.run_us))[0, 1]) < 0.02


def test_the_load_is_met_by_the_number_of_jobs_and_submits_are_spread_over_the_days():
    jobs = make(days=100, load=0.6)
    node_s = int((jobs.nodes * (jobs.run_us // US)).sum())
    assert node_s == pytest.approx(0.6 * 128 * 100 * 86_400, rel=0.002)
    assert np.histogram(jobs.submit_us, bins=4)[0] == pytest.approx(len(jobs) / 4, rel=0.1)
    gaps_s = np.diff(jobs.submit_us) / US
    assert gaps_s.std() == pytest.approx(gaps_s.mean(), rel=0.05)  # as exponential gaps have it


def test_varying_parallelism_makes_the_same_work_take_longer_by_downeys_speed_up():
    steady, varying = make(nodes=1), make(nodes=1, sigma=1)
    assert steady.run_us.tolist() == varying.run_us.tolist()  # one node does it one after the other
    wide, waits = make(widest=64, days=300), make(widest=64, days=300, sigma=1)
    few = min(len(wide), len(waits))
    at_64 = wide.nodes[:few] == 64
    slower = waits.run_us[:few][at_64].sum() / wide.run_us[:few][at_64].sum()
    assert slower == pytest.approx((64 + 63 / 2) / 64, rel=0.001)


def test_a_seed_gives_the_same_jobs_and_bounds_are_needed_and_checked():
    assert (
        make(seed=2).submit_us.tolist() == make(seed=2).submit_us.tolist() != make(seed=3).submit_us.tolist()
    )
    (made,) = parse_generators([{"downey": {**BOUNDS, "load": 0.5}}])
    assert made == DowneyJobs(**BOUNDS, load=0.5)
    with pytest.raises(ValueError, match="least_node_s"):
        parse_generators(["downey"])
    with pytest.raises(ValueError, match="downey: most_node_s"):
        DowneyJobs(least_node_s=10, most_node_s=10)
    with pytest.raises(ValueError, match="at least 1 node"):
        make(nodes=0)
