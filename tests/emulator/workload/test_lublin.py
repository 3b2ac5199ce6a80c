"""The model of Lublin and Feitelson: what it says of jobs is what comes out, and a slow reading of it agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.workload import lublin
from emulator.workload.lublin import ALL, BATCH, INTERACTIVE, LublinFeitelson
from emulator.workload.streams import stream
from emulator.workload.table import COLUMNS

US, DAY_S = 1_000_000, 86_400
MANY = 200_000
EACH = pytest.mark.parametrize("made_by", [ALL, BATCH, INTERACTIVE], ids=["all", "batch", "interactive"])


def rng(seed=1):
    return stream(seed, "test")


def make(generator=LublinFeitelson(), *, nodes=128, seed=1):  # noqa: B008 - frozen
    return generator.generate(rng(seed), nodes=nodes)


@EACH
def test_sizes_have_the_shares_and_the_mean_of_the_two_stages(made_by):
    widths = lublin.sizes(rng(), made_by, MANY, 128)
    assert widths.min() == 1
    assert widths.max() <= 128
    assert (widths == 1).mean() == pytest.approx(made_by.serial_share, abs=0.02)
    is_power = (widths & (widths - 1)) == 0
    assert is_power.mean() >= made_by.serial_share + made_by.power_of_two_share - 0.01
    parallel = np.log2(widths[widths > 1])
    largest = 7 - made_by.below_machine
    medium = largest - made_by.medium_below
    # The mean of log2 that the authors give: (prob x low + medium + (1 - prob) x high) / 2.
    mean = (made_by.low_share * made_by.low_log2 + medium + (1 - made_by.low_share) * largest) / 2
    assert parallel.mean() == pytest.approx(mean, abs=0.15)  # rounding to whole nodes moves it a little


@EACH
@pytest.mark.parametrize("nodes", [1, 32, 100])
def test_logarithms_of_run_times_have_the_mean_of_the_hyper_gamma(made_by, nodes):
    run_s = lublin.run_times_s(rng(), made_by, np.full(MANY, nodes))
    p = min(1.0, max(0.0, made_by.pa * nodes + made_by.pb))
    mean = p * made_by.a1 * made_by.b1 + (1 - p) * made_by.a2 * made_by.b2
    # Whole seconds, and logarithms above 12 drawn again, take some away.
    assert np.log(run_s + 0.5).mean() == pytest.approx(mean, rel=0.04)
    assert run_s.max() <= math.exp(12)


def test_wider_jobs_run_longer():
    one, wide = (lublin.run_times_s(rng(), ALL, np.full(MANY, nodes)).mean() for nodes in (1, 128))
    assert wide > 2 * one


@EACH
def test_the_day_has_a_cycle_with_most_submits_where_the_gamma_has_them(made_by):
    points = lublin.day_points(made_by.day_a, made_by.day_b)
    assert points.mean() == pytest.approx(1)
    peak = round((made_by.day_a - 1) * made_by.day_b)  # the gamma's mode, in half hours
    assert abs(int(points.argmax()) - (peak - 1)) <= 1
    assert 11 * 2 <= points.argmax() < 17 * 2  # people are at work
    assert points.argmin() < 8 * 2


def gamma_share(low, high, shape, scale, steps=2000):
    """The gamma density's integral, by the midpoint rule."""
    width = (high - low) / steps
    xs = (low + (step + 0.5) * width for step in range(steps))
    norm = math.gamma(shape) * scale**shape
    return sum(x ** (shape - 1) * math.exp(-x / scale) / norm * width for x in xs)


def test_the_points_of_half_hours_are_shares_of_the_gamma():
    shares = {at % 48: gamma_share(at + 0.5, at + 1.5, ALL.day_a, ALL.day_b) for at in range(10, 58)}
    mean = sum(shares.values()) / 48
    assert lublin.day_points(ALL.day_a, ALL.day_b).tolist() == pytest.approx(
        [shares[at] / mean for at in range(48)], rel=1e-6
    )


def paid_bucket_by_bucket(gaps, points):
    """The arrival process as the authors describe it: a gap's points are paid to each half hour in turn."""
    found, bucket, at_s, have, used = [], 0, 0, 0.0, 0.0
    for gap in gaps:
        have += gap
        while have > points[bucket] - used:
            have -= points[bucket] - used
            used = 0.0
            bucket = (bucket + 1) % 48
            at_s += 1800
        used += have
        have = 0.0
        found.append(at_s + 1800 * used / points[bucket])
    return found


@given(seed=st.integers(0, 2**32), made_by=st.sampled_from([ALL, BATCH, INTERACTIVE]))
def test_submits_are_those_of_paying_gaps_half_hour_by_half_hour(seed, made_by):
    gaps = lublin.gap_points(rng(seed), made_by, 200)
    points = lublin.day_points(made_by.day_a, made_by.day_b)
    slow = paid_bucket_by_bucket(gaps.tolist(), points.tolist())
    assert lublin.seconds_of(np.cumsum(gaps), points).tolist() == pytest.approx(slow, abs=1.001)


@EACH
def test_gaps_have_the_gammas_mean(made_by):
    logs = np.log(lublin.gap_points(rng(), made_by, MANY) * 1800)
    assert logs.mean() == pytest.approx(made_by.gap_a * made_by.rush_ratio * made_by.gap_b, rel=0.01)
    assert logs.max() <= 13


@pytest.mark.parametrize("jobs", ["all", "batch", "interactive", "both"])
def test_the_same_seed_gives_the_same_jobs_within_the_days(jobs):
    generator = LublinFeitelson(days=3, jobs=jobs)
    one, same, other = make(generator), make(generator), make(generator, seed=2)
    columns = [{name: getattr(table, name).tolist() for name in COLUMNS} for table in (one, same, other)]
    assert columns[0] == columns[1] != columns[2]
    assert 0 <= one.submit_us.min() <= one.submit_us.max() < 3 * DAY_S * US
    assert set(one.queue.tolist()) == ({0, 1} if jobs == "both" else {-1})


@pytest.mark.parametrize("nodes", [1, 5, 100, 4392])
@pytest.mark.parametrize("jobs", ["all", "both"])
def test_a_load_is_met_and_no_job_is_wider_than_the_cluster(nodes, jobs):
    table = make(LublinFeitelson(days=30, load=0.7, jobs=jobs), nodes=nodes)
    assert table.nodes.max() <= nodes
    assert table.submit_us.max() < 30 * DAY_S * US
    got = float(table.run_us / US @ table.nodes) / (nodes * 30 * DAY_S)
    longest = 2 * 2 * DAY_S / (30 * DAY_S)  # the last job of each class is whole
    assert 0.7 <= got <= 0.7 + longest


def test_a_load_moves_submits_and_nothing_else():
    light, heavy = (make(LublinFeitelson(days=30, load=load)) for load in (0.4, 0.8))
    drawn = len(light)
    assert (heavy.run_us[:drawn] == light.run_us).all()
    assert (heavy.nodes[:drawn] == light.nodes).all()


def test_what_it_cannot_be_is_said():
    with pytest.raises(
        ValueError, match="lublin: jobs must be one of all, batch, interactive, both, not 'serial'"
    ):
        LublinFeitelson(jobs="serial")
    with pytest.raises(ValueError, match="days"):
        LublinFeitelson(days=0)
    with pytest.raises(ValueError, match="at least 1 node, not 0"):
        make(nodes=0)
