"""Two runs of the same jobs: metrics side by side, and ratios by size and length."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from command_line import emulate
from emulator.metrics import summarize
from emulator.metrics.heat import LENGTH_EDGES_S, SIZE_EDGES, by_size_and_length
from emulator.metrics.jobs import batch_jobs_run
from emulator.report import files
from emulator.report.pairs import LENGTH_NAMES, METRICS, SIZE_NAMES, HeatMap, Pairs

US = 1_000_000


def waiting(record, factor):
    """The same run with each job's wait made so many times as long, its run time as it was."""
    ran = (record.start_us >= 0) & (record.end_us >= 0)
    more_us = np.where(ran, (record.start_us - record.jobs.submit_us) * (factor - 1), 0)
    runs, of_run_us = record.runs, more_us[record.runs.job]
    runs = replace(runs, start_us=runs.start_us + of_run_us, end_us=runs.end_us + of_run_us)
    return replace(record, start_us=record.start_us + more_us, end_us=record.end_us + more_us, runs=runs)


@pytest.fixture
def crowded(simulated):
    return simulated(jobs=300, leases=0, nodes=32)


def test_classes_begin_at_their_edges():
    size = np.array([1, 1, 4, 5, 2000])
    run_us = np.array([0, 59, 60, 3600, 4 * 86_400]) * US
    jobs, mean = by_size_and_length(size, run_us, np.array([1.0, 3, 5, 7, 9]))
    found = {(int(row), int(column)): float(mean[row, column]) for row, column in np.argwhere(jobs)}
    assert found == {(0, 0): 2, (1, 1): 5, (2, 3): 7, (6, 6): 9}
    assert np.isnan(mean[jobs == 0]).all()
    assert (len(SIZE_NAMES), len(LENGTH_NAMES)) == (len(SIZE_EDGES), len(LENGTH_EDGES_S))


def test_the_median_of_a_class_is_not_its_mean():
    ones = np.ones(3, np.int64)
    _, median = by_size_and_length(ones, ones, np.array([1.0, 2, 9]), "median")
    assert median[0, 0] == 2


def test_of_a_run_and_itself_every_ratio_is_one(crowded):
    for metric in METRICS:
        heat = HeatMap.of(Pairs.of(crowded, crowded), metric)
        assert set(heat.ratio[~np.isnan(heat.ratio)]) == {1.0}
        assert heat.jobs.sum() == len(batch_jobs_run(crowded)) > 100


def test_mean_slowdown_is_the_summarys_for_jobs_that_their_limit_killed(simulated):
    record = simulated(jobs=300, leases=0, nodes=32)
    pairs = Pairs.of(record, record)
    mean = pairs.metric("bounded_slowdown", 1).mean()
    assert mean == pytest.approx(summarize(record)["mean_bounded_slowdown"], rel=1e-12)


def test_waits_three_times_as_long_are_three_in_every_class(crowded):
    heat = HeatMap.of(Pairs.of(crowded, waiting(crowded, 3)), "wait_s")
    there = ~np.isnan(heat.ratio)
    assert there.any()
    np.testing.assert_allclose(heat.ratio[there], 3)
    assert {heat.text(*cell) for cell in np.argwhere(there)} == {"3.00"}


def test_the_ratio_is_that_of_the_means_as_in_the_paper(crowded):
    """Not the mean of the ratios: `averaged inside each bin and the ratio is calculated by dividing`."""
    pairs = Pairs.of(crowded, waiting(crowded, 2))
    heat = HeatMap.of(pairs, "slowdown")
    mine = (pairs.size == 1) & (pairs.owed_us[0] >= 600 * US) & (pairs.owed_us[0] < 3600 * US)
    expected = pairs.metric("slowdown", 1)[mine].mean() / pairs.metric("slowdown", 0)[mine].mean()
    assert heat.ratio[0, 2] == pytest.approx(expected)


class TestCommand:
    @pytest.fixture
    def run(self, crowded, tmp_path):
        files.write(crowded, tmp_path / "a")
        files.write(waiting(crowded, 2), tmp_path / "b")

        def run(*options):
            return emulate("compare", tmp_path / "a", tmp_path / "b", *options)

        return run

    def test_the_heat_map_is_shown_below_the_comparison(self, run):
        result = run("--heat-map", "wait_s")
        assert result.exit_code == 0
        assert "Same workload" in result.output
        below = result.output[result.output.index("Mean wait time, other run over baseline") :]
        assert "2.00" in below
        assert "≥ 1 h" in below

    def test_as_json_it_is_one_of_the_keys(self, run, crowded):
        found = json.loads(run("--heat-map", "slowdown", "--average", "median", "--json").output)["heat_map"]
        assert (found["metric"], found["average"]) == ("slowdown", "median")
        assert sum(map(sum, found["jobs"])) == len(batch_jobs_run(crowded))
        assert found["sizes_from"] == list(SIZE_EDGES)
        assert "heat_map" not in json.loads(run("--json").output)

    def test_the_page_shows_it_too(self, run, tmp_path, crowded):
        run("--heat-map", "wait_s", "--html", str(tmp_path / "page.html"))
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert 'aria-label="Mean wait time, other run over baseline"' in page
        assert f"Of {len(batch_jobs_run(crowded))} batch jobs" in page
        assert "src=" not in page
        assert ">2.00<" in page

    def test_jobs_are_written_one_a_row(self, run, tmp_path, crowded):
        run("--jobs", str(tmp_path / "jobs.csv"))
        with (tmp_path / "jobs.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [int(row["job"]) for row in rows] == sorted(
            crowded.jobs.number[batch_jobs_run(crowded)].tolist()
        )
        assert list(rows[0]) == [
            "job", "nodes", "run_s", "slowdown_a", "slowdown_b", "bounded_slowdown_a", "bounded_slowdown_b",
            "response_s_a", "response_s_b", "wait_s_a", "wait_s_b",
        ]  # fmt: skip
        assert all(float(row["wait_s_b"]) == 2 * float(row["wait_s_a"]) for row in rows)

    def test_a_file_that_cannot_be_written_is_an_error(self, run, tmp_path):
        result = run("--jobs", str(tmp_path / "none" / "jobs.csv"))
        assert result.exit_code == 2
        assert "none/jobs.csv: cannot be written: No such file or directory" in result.output
