"""The same sweep in virtual time and live, side by side."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
import yaml

from command_line import emulate
from emulator.sweeps.grid import load_sweep, on_clocks
from emulator.sweeps.side_by_side import beside
from emulator.sweeps.sweep import describe

pytestmark = pytest.mark.live
BOTH = ("virtual", "live")


@pytest.fixture
def grid(tmp_path):
    leases = {
        "days": 0.1,
        "leases_per_day": 100,
        "utilisation": 0.1,
        "mean_duration_s": 1200,
        "day_begin_s": 0,
    }
    scenario = {
        "nodes": 8,
        "workload": {
            "generate": [
                {"daily_batch": {"days": 0.1, "jobs": 8, "median_run_s": 600}},
                {"bursty_leases": leases},
            ]
        },
        "mechanism": "balancer",
        "live": {"speed": 12_000},
    }
    path = tmp_path / "grid.yaml"
    points = [{"label": f"R={reserve}", "mechanism.balancer.static_reserve": reserve} for reserve in (0, 2)]
    path.write_text(yaml.safe_dump({"scenario": scenario, "points": points}))
    return path


def test_each_run_is_one_run_a_clock_with_a_key_of_its_own(grid):
    sweep = load_sweep(grid)
    both = on_clocks(sweep, BOTH).runs
    assert [describe(run).rpartition("clock=")[2] for run in both] == ["virtual", "live", "virtual", "live"]
    assert len({run.key for run in both}) == 4
    assert on_clocks(sweep, ("virtual",)).runs == sweep.runs


@pytest.mark.slow
def test_live_figures_stand_beside_those_of_virtual_time_and_are_the_same(grid, tmp_path):
    clocks = [part for clock in BOTH for part in ("--clock", clock)]
    out = tmp_path / "out"
    done = emulate("sweep", grid, *clocks, "--jobs", "1", "--out", out)
    assert done.exit_code == 0, done.output
    assert "virtual / live" in done.stdout
    rows = pq.read_table(out / "results.parquet").to_pylist()
    assert [(row["label"], row["clock"]) for row in rows] == [
        (label, clock) for label in ("R=0", "R=2") for clock in BOTH
    ]
    for virtual, live in (rows[:2], rows[2:]):
        for figure in ("ondemand_rejected", "mean_wait_s", "utilization", "reserve_idle_node_h", "jobs_run"):
            assert virtual[figure] == live[figure], figure
    assert live["pace.speed"] == 12_000
    assert beside(rows, ["label", "seed"]).row_count == 2
