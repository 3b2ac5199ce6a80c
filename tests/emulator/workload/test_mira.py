"""Weeks like Mira's have the figures of Table 1."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.workload.mira import WEEKS, MiraWeek
from emulator.workload.streams import stream

MINUTE_US, HOUR_US = 60_000_000, 3_600_000_000
NODES = 49_152


def generate(seed: int = 1, **params: object):
    return MiraWeek(**params).generate(stream(seed, "test"), nodes=NODES)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", WEEKS)
def test_a_week_has_the_row_of_table_1(name: str, seed: int):
    printed, jobs = WEEKS[name], generate(seed, week=name)
    assert len(jobs) == printed.jobs
    assert jobs.nodes.mean() == pytest.approx(printed.mean_nodes, rel=0.02)
    assert jobs.estimate_us.mean() / MINUTE_US == pytest.approx(printed.mean_walltime_min, rel=0.02)
    assert jobs.run_us.mean() / jobs.estimate_us.mean() == pytest.approx(printed.accuracy, rel=0.02)
    node_h = (jobs.nodes * (jobs.run_us / HOUR_US)).mean()
    assert node_h == pytest.approx(printed.mean_node_h, rel=0.02)


def test_the_tables_node_hours_are_the_product_of_its_means():
    """Which is why they do not say how busy a week was, and `load` may be set."""
    for week in WEEKS.values():
        product = week.mean_nodes * week.mean_walltime_min / 60 * week.accuracy
        assert product == pytest.approx(week.mean_node_h, rel=0.002)


def test_load_makes_wide_jobs_longer_and_changes_nothing_else():
    usual, full = generate(), generate(load=0.9)
    assert (full.nodes * (full.run_us / HOUR_US)).sum() == pytest.approx(0.9 * NODES * 168, rel=0.02)
    assert sorted(full.nodes) == sorted(usual.nodes)
    assert sorted(full.run_us) == sorted(usual.run_us)


def test_about_63_per_cent_are_narrow_and_short():
    shares = []
    for seed in range(1, 11):
        jobs = generate(seed, load=0.9)
        shares.append(((jobs.nodes <= 4096) & (jobs.run_us <= 120 * MINUTE_US)).mean())
    assert np.mean(shares) == pytest.approx(0.63, abs=0.04)


def test_all_are_partitions_of_mira_and_no_job_runs_past_its_walltime():
    jobs = generate()
    assert set(jobs.nodes.tolist()) <= {512, 1024, 2048, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 49_152}
    assert (jobs.run_us <= jobs.estimate_us).all()
    assert jobs.submit_us.max() < 7 * 24 * HOUR_US


@pytest.mark.parametrize("name", WEEKS)
def test_no_job_is_wider_than_told_and_the_mean_stays(name: str):
    jobs = generate(week=name, widest=12_288)
    assert jobs.nodes.max() == 12_288
    assert jobs.nodes.mean() == pytest.approx(WEEKS[name].mean_nodes, rel=0.02)
    assert len(jobs) == WEEKS[name].jobs


def test_campaigns_bring_jobs_together():
    def gap(campaign: float) -> float:
        return float(np.median(np.diff(generate(campaign=campaign).submit_us)))

    assert gap(30) < gap(1) / 4


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"widest": 4096}, "mira_week: widest"),
        ({"week": "e"}, "week is one of a, b, c, d"),
        ({"campaign": 0}, "campaign must be"),
        ({"load": 0}, "load must be"),
    ],
)
def test_a_wrong_parameter_is_named(params: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        MiraWeek(**params)  # type: ignore[arg-type]


def test_a_load_that_no_pairing_reaches_and_another_machine_are_errors():
    with pytest.raises(ValueError, match="week a comes to a load of"):
        generate(load=5)
    with pytest.raises(ValueError, match="Mira has 49152 nodes, the machine 100"):
        MiraWeek().generate(stream(1, "test"), nodes=100)
