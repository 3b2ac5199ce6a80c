"""What a mechanism shows first: each number is the summary's, and each picture adds up to its figures."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest

import emulator
from command_line import emulate
from emulator.metrics.mechanism_tiles import at, picture_of
from emulator.report import html
from emulator.report.tiles import figure_texts, own_tiles, tile_texts
from emulator.simulation.tiles import MOST_TILES
from emulator.text.number_text import duration, number
from mechanism_runs import RUNS, SCENARIOS

HOUR_US = 3_600_000_000


def with_unit(value, path):
    """The unit that a figure's name ends with is written out."""
    if path.endswith("_node_h"):
        return f"{number(value)} node-h"
    return duration(value) if path.endswith("_s") else number(value)


@pytest.fixture(scope="module")
def runs():
    return {
        name: emulator.run(SCENARIOS / f"{file}.yaml", changes=more) for name, (file, more) in RUNS.items()
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_mechanism_shows_at_most_four_tiles_of_figures_that_are_there(runs, name):
    summary = runs[name].summary
    assert 2 < len(summary["tiles"]) <= MOST_TILES
    for tile in summary["tiles"]:
        paths = [tile["figure"], *([tile["of"]] if tile["of"] else []), *(path for _, path in tile["beside"])]
        assert [path for path in paths if at(summary, path) is None] == []


@pytest.mark.parametrize("name", RUNS)
def test_each_number_of_its_tiles_on_the_page_is_the_summarys(runs, name):
    summary = json.loads(json.dumps(runs[name].summary))
    page = unescape(html.render(runs[name].record, runs[name].summary))
    section = page[page.index('id="mechanism"') :]
    cards = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>(?:<dd class=\"remark\">(.*?)</dd>)?", section)
    for tile, (said, value, remark) in zip(summary["tiles"], cards, strict=False):
        whole = f" of {number(at(summary, tile['of']))}" if tile["of"] else ""
        assert (said, value) == (
            tile["name"],
            figure_texts([at(summary, tile["figure"])], tile["unit"])[0] + whole,
        )
        assert remark == ", ".join(
            f"{each} {with_unit(at(summary, path), path)}" for each, path in tile["beside"]
        )


@pytest.mark.parametrize("name", RUNS)
def test_the_terminal_has_them_too(runs, name, tmp_path):
    runs[name].save(tmp_path / "out")
    done = emulate("report", tmp_path / "out")
    assert done.exit_code == 0
    for name_said, value, _ in tile_texts(runs[name].summary, own_tiles(runs[name].summary)):
        assert re.search(f"^{re.escape(name_said)} +{re.escape(value)}", done.stdout, re.MULTILINE)


def spent_us(picture, name=""):
    """Node-time below the bands of this name."""
    length = np.diff(picture.edges_us)
    return sum(float((each.values * length).sum()) for each in picture.series if name in each.name)


def test_on_demand_jobs_of_the_hybrid_picture_have_their_whole_node_time(runs):
    picture, summary = picture_of(runs["hybrid"].record), runs["hybrid"].summary
    assert spent_us(picture) == pytest.approx(summary["node_time_us"]["OD_ALLOC"], rel=1e-9)
    assert spent_us(picture, "preempted") > 0
    assert spent_us(picture, "narrowed") > 0


def test_the_pools_of_a_day_and_refusals_add_up(runs):
    for name in ("balancer", "static_partition"):
        record, summary = runs[name].record, runs[name].summary
        picture = picture_of(record)
        assert picture.counts.values.sum() == summary["ondemand_rejected"] > 0
        first_us = picture.edges_us[:-1]
        days = range(record.horizon_us // (24 * HOUR_US) + 1)
        hours = sum(np.clip((record.horizon_us - first_us) / HOUR_US - 24 * day, 0, 1) for day in days)
        for each in picture.series:
            pool = each.colour.upper().replace("-", "_")
            assert (each.values * hours).sum() == pytest.approx(summary["node_time_h"][pool], rel=1e-9)


def test_cores_of_all_multiplicities_are_the_utilisation(runs):
    picture, summary = picture_of(runs["oversubscribe"].record), runs["oversubscribe"].summary
    whole = summary["nodes"] * summary["makespan_s"] * 1e6
    assert spent_us(picture) == pytest.approx(summary["utilization"] * whole, rel=1e-9)
    assert [each.name for each in picture.series][:2] == ["1 job", "2 jobs"]


def test_lines_of_classes_lie_between_the_smallest_and_the_largest(runs):
    record = runs["malleable"].record
    widths = np.diff(record.runs.first)
    for each in picture_of(record).series:
        known = each.values[np.isfinite(each.values)]
        assert widths.min() - 1e-9 <= known.min() <= known.max() <= widths.max() + 1e-9
    lines = picture_of(runs["realtime"].record).series
    assert [each.name for each in lines] == ["real-time", "batch, run time up to 2 h", "batch, longer"]
    assert np.nanmin(lines[0].values) >= 1


PLUGIN = """
from emulator.simulation.tiles import Picture, Series, Tile, intervals, mean_over


class Refuses:
    tiles = (
        Tile("sent back", "requeues", of="jobs_run"),
        Tile("not there", "mechanism.nothing"),
    )

    @staticmethod
    def picture(record):
        edges_us, runs = intervals(record), record.runs
        nodes = mean_over(edges_us, runs.start_us, runs.end_us, record.jobs.nodes[runs.job])
        return Picture("Nodes in use by all", "Of all jobs.", "nodes", edges_us, (Series("all", nodes),))

    def on_arrival(self, job, act):
        act.reject(job, "never")
"""


def run_with(plugin, out):
    scenario = str(SCENARIOS / "default.yaml")
    words = ["--plugin", f"{plugin}:Refuses", "--set", "mechanism=refuses", "--out", str(out), "--quiet"]
    return emulate("run", scenario, *words)


def test_a_plug_in_shows_its_own(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    out = tmp_path / "out"
    done = run_with(tmp_path / "mine.py", out)
    assert done.exit_code == 0, done.output
    assert re.search("^sent back +0 of 300$", done.stdout, re.MULTILINE)
    assert "Nodes in use by all" in (out / "report.html").read_text()
    summary = json.loads((out / "summary.json").read_text())
    assert [tile["name"] for tile in summary["tiles"]] == ["sent back"]
    again = emulate("report", out, "--plugin", f"{tmp_path / 'mine.py'}:Refuses")
    assert again.exit_code == 0, again.output
    assert "Nodes in use by all" in (out / "report.html").read_text()


def test_a_picture_that_fails_is_told_on_the_page_and_loses_no_results(tmp_path):
    (tmp_path / "mine.py").write_text(
        PLUGIN.replace("edges_us, runs =", "raise KeyError('gone')\n        edges_us, runs =")
    )
    out = tmp_path / "out"
    done = run_with(tmp_path / "mine.py", out)
    assert done.exit_code == 0, done.output
    assert "The picture of refuses could not be made: KeyError: 'gone'" in unescape(
        (out / "report.html").read_text()
    )


def test_a_tile_that_is_none_is_bad_input(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN.replace("tiles = (", "tiles = ('requeues',"))
    done = run_with(tmp_path / "mine.py", tmp_path / "out")
    assert (done.exit_code, "tiles: 'requeues' is no Tile" in done.stderr) == (2, True), done.output
    assert not (tmp_path / "out").exists()


def test_runs_of_one_mechanism_are_compared_by_its_tiles(runs, tmp_path):
    runs["hybrid"].save(tmp_path / "a")
    summary = runs["hybrid"].summary
    done = emulate("compare", tmp_path / "a", tmp_path / "a")
    line = next(line for line in done.stdout.splitlines() if line.startswith("preempted"))
    assert line.split()[1:3] == [str(summary["preemptions"])] * 2


def test_the_report_opens_with_what_ran_and_what_came_of_it(runs):
    summary = runs["balancer"].summary
    granted, asked = summary["ondemand_granted"], summary["ondemand_requests"]
    assert html.opening(summary) == (
        f"{summary['jobs_run']} batch jobs ran on 64 nodes in {duration(summary['makespan_s'])}; the mean wait was"
        f" {duration(summary['mean_wait_s'])}; {granted} of {asked} on-demand requests were granted."
    )
    assert html.opening(runs["oversubscribe"].summary).startswith("8 batch jobs ran on 2 cores in ")


def test_the_legend_of_the_pools_has_the_summarys_node_hours(runs):
    summary = runs["balancer"].summary
    page = unescape(html.render(runs["balancer"].record, summary))
    legend = page[page.index('class="legend"') : page.index('id="node-states"')]
    said = re.findall(r"<b>(.*?) node-h</b>", legend)
    assert sorted(said) == sorted(number(spent) for spent in summary["node_time_h"].values() if spent)


def test_a_scenario_without_a_name_has_that_of_its_file(tmp_path):
    (tmp_path / "my-cluster.yaml").write_text("nodes: 8\nworkload: {generate: [{daily_batch: {days: 1}}]}\n")
    record = emulator.run(tmp_path / "my-cluster.yaml").record
    assert "<title>my-cluster</title>" in html.render(record, emulator.Result(record).summary)
