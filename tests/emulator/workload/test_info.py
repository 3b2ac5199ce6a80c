"""What a trace is said to be, on the terminal, as JSON and as a picture."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from command_line import emulate
from emulator.workload.formats import load
from emulator.workload.info import Quantiles, TraceInfo, daily_load, describe, render
from emulator.workload.plot import plot_workload
from emulator.workload.rules import to_jobs


@pytest.fixture
def log_path(swf_file, swf_line):
    return swf_file(
        "; UnixStartTime: 1000",
        "; MaxNodes: 10",
        swf_line(1, 100, run=100, requested=4, estimate=200, wait=0, user=1),
        swf_line(2, 200, run=50, requested=2, estimate=25, wait=10, user=2),
        swf_line(3, 300, run=100, requested=6, estimate=-1, wait=0, user=2),
        swf_line(4, 300, run=-1),
        swf_line(5, 86_500, run=100, requested=20),
    )


def run(*args):
    return emulate("trace", "info", *args)


def test_the_figures_of_a_log(log_path):
    log = load(log_path)
    info = describe(log, to_jobs(log, nodes=None))
    assert info == TraceInfo(
        source=str(log_path),
        records=5,
        rows=5,
        jobs=3,
        nodes=10,
        unix_start=1100,
        span_s=300,
        load=(100 * 4 + 50 * 2 + 100 * 6) / (10 * 300),
        estimate_share=2 / 3,
        overrun_share=1 / 2,
        overestimate=1.25,
        width=Quantiles(2, 3, 4, 5, 6, 4),
        run_s=Quantiles(50, 75, 100, 100, 100, 250 / 3),
        wait_s=Quantiles(0, 0, 0, 5, 10, 10 / 3),
        users=2,
        groups=0,
        queues=0,
        sorted_by_submit=True,
        left_out={"no run time": 1, "wider than the cluster": 1},
        counted={"estimate missing, run time taken": 1, "ran longer than its estimate": 1},
        complaints=(),
    )


def test_a_log_without_waits_or_estimates_says_nothing_about_them(swf_file, swf_line):
    log = load(swf_file(swf_line(wait=-1, estimate=-1)))
    info = describe(log, to_jobs(log, nodes=4))
    assert (info.wait_s, info.overrun_share, info.overestimate, info.unix_start) == (None, None, None, None)
    assert info.span_s == 60
    console = Console(width=100)
    with console.capture() as capture:
        console.print(render(info))
    assert "recorded wait" not in capture.get()


def test_the_daily_load_is_the_submitted_node_time_over_the_node_time_there_is(log_path):
    assert daily_load(to_jobs(load(log_path), nodes=20)).tolist() == [
        1100 / (20 * 86_400),
        2000 / (20 * 86_400),
    ]


def test_the_command_prints_the_figures(log_path):
    result = run(log_path)
    assert result.exit_code == 0
    for text in (
        "3 of 5 lines",
        "10 nodes",
        "0.37",
        "wider than the cluster",
        "ran longer than its estimate",
    ):
        assert text in result.output


def test_the_command_prints_json(log_path):
    result = run(log_path, "--json", "--nodes", "20", "--overrun", "kill")
    figures = json.loads(result.output)
    assert (figures["jobs"], figures["nodes"], figures["left_out"]) == (4, 20, {"no run time": 1})
    assert figures["run_s"]["least"] == 25


@pytest.mark.slow
def test_the_command_draws_a_picture(log_path, tmp_path):
    png, svg = tmp_path / "plot.png", tmp_path / "plot.svg"
    assert run(log_path, "--plot", png).exit_code == 0
    assert run(log_path, "--plot", svg).exit_code == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ET.fromstring(svg.read_text()).tag.endswith("svg")  # noqa: S314 - our own file


@pytest.mark.slow
@pytest.mark.parametrize("end", ["png", "svg"])
def test_equal_workloads_give_equal_pictures(log_path, tmp_path, end):
    workload = to_jobs(load(log_path), nodes=20)
    paths = [tmp_path / f"{name}.{end}" for name in "ab"]
    for path in paths:
        plot_workload(workload, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_log_of_weeks_is_drawn_with_its_weekly_mean(swf_file, swf_line, tmp_path):
    workload = to_jobs(load(swf_file(*(swf_line(day + 1, day * 86_400) for day in range(20)))), nodes=4)
    plot_workload(workload, tmp_path / "plot.svg")
    assert "mean of 7 days" in (tmp_path / "plot.svg").read_text()


def test_lenient_reading_counts_malformed_lines_and_shows_them(swf_file, swf_line):
    path = swf_file(swf_line(), "1 2 12abc")
    assert run(path, "--nodes", 4).exit_code == 2
    result = run(path, "--nodes", 4, "--lenient")
    assert result.exit_code == 0
    assert "1  malformed line" in result.output
    assert "log.swf:2:" in result.output


@pytest.mark.parametrize(
    ("lines", "args", "message"),
    [
        ([], ["--nodes", "4"], "log.swf: the file is empty"),
        (["; MaxNodes: 4"], [], "log.swf: there are no job lines"),
        (["1 2 12abc"], ["--nodes", "4"], "log.swf:1: field 3 (wait_s) is '12abc', not a number"),
        (["LINE"], [], "the cluster has (its header has no MaxProcs or MaxNodes); pass --nodes N"),
        (["LINE"], ["--nodes", "0"], "the cluster needs at least 1 node"),
        (["LINE"], ["--nodes", "2"], "no job can be replayed on 2 nodes (1 wider than the cluster)"),
        (["LINE"], ["--nodes", "4", "--plot", "out.pdf"], "out.pdf: a plot's name ends in .png or .svg"),
        (
            ["LINE"],
            ["--nodes", "4", "--plot", "absent/out.png"],
            "absent/out.png: No such file or directory",
        ),
    ],
)
def test_bad_input_ends_with_status_2_and_one_clear_line(swf_file, swf_line, lines, args, message):
    path = swf_file(*(swf_line() if line == "LINE" else line for line in lines))
    result = run(path, *args)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.startswith("emulator: ")
    assert result.output.count("\n") == 1


def test_an_absent_file_ends_with_status_2(tmp_path):
    result = run(tmp_path / "absent.swf")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "absent.swf: No such file or directory" in result.output
