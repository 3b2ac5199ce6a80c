"""`sweep --keep-runs`: the results of each run beside the table, linked from the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command_line import emulate
from emulator.sweeps.grid import load_sweep
from emulator.sweeps.kept_runs import keep_runs, links_of

DAY = Path(__file__).parents[3] / "scenarios" / "default.yaml"


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(f"base: {DAY}\ngrid: {{mechanism.balancer.static_reserve: [0, 6]}}\nseeds: 2\n")
    return path


def sweep(grid, out, *more):
    return emulate("sweep", grid, "--out", out, "--jobs", "1", "--quiet", *more)


def test_each_run_of_the_page_is_a_link_to_a_report_whose_figures_are_those_of_its_row(grid, tmp_path):
    assert sweep(grid, tmp_path / "out", "--keep-runs").exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text()
    links = re.findall(r'<a href="([^"]*)">(\d)</a>', page)
    assert [seed for _, seed in links] == ["1", "2", "1", "2"]
    waits = []
    for link, _ in links:
        folder = (tmp_path / "out" / link).parent
        assert (folder / "report.html").exists()
        waits.append(json.loads((folder / "summary.json").read_text())["mean_wait_s"])
    rows = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert sorted(waits) == sorted(row["mean_wait_s"] for row in rows)
    assert "--keep-runs" not in page


def test_runs_are_found_whatever_the_varied_values_become_in_the_table(tmp_path):
    """A column with 10 and 0.5 has 10.0, one of mappings has JSON."""
    path = tmp_path / "grid.yaml"
    split = "{static_partition: {ondemand_nodes: 12}}"
    path.write_text(
        f"base: {DAY}\ngrid: {{mechanism: [null, {split}], results.bounded_slowdown_threshold_s: [10, 0.5]}}\n"
    )
    assert sweep(path, tmp_path / "out", "--keep-runs").exit_code == 0
    assert (tmp_path / "out" / "report.html").read_text().count("<a href=") == 4


def test_a_run_that_is_interrupted_is_not_kept(grid, tmp_path):
    (plan, asked) = load_sweep(grid), iter([False, False])
    keep_runs(plan.runs[:1], tmp_path, stop=lambda: next(asked, True))
    assert links_of(plan, tmp_path) == {}


def test_without_it_the_page_says_how_to_have_them_and_the_sweep_goes_on_with_it(grid, tmp_path):
    assert sweep(grid, tmp_path / "out").exit_code == 0
    assert "--keep-runs" in (tmp_path / "out" / "report.html").read_text()
    assert not (tmp_path / "out" / "kept").exists()

    again = sweep(grid, tmp_path / "out", "--keep-runs")

    assert again.stdout.startswith("4 runs (4 were there already) in ")
    assert len(list((tmp_path / "out" / "kept").iterdir())) == 4


def test_live_runs_alone_are_refused(grid, tmp_path):
    line = ["sweep", str(grid), "--out", str(tmp_path / "out"), "--keep-runs", "--clock", "live"]
    done = emulate(*line)
    assert done.exit_code == 2
    assert "--keep-runs" in done.stderr
    assert not (tmp_path / "out").exists()
