"""A streamed run writes what a run at once writes, byte for byte, however small its blocks are."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import emulate
from emulator.report import sheets
from emulator.report.files import load
from emulator.runs.scenario import Scenario, ScenarioError, from_mapping
from emulator.stream.run import check
from emulator.stream.run import stream as run_stream
from emulator.workload import swf
from emulator.workload.files import TraceError

FILES = ("jobs.csv", "jobs.parquet", "events.parquet")
SCHEDULERS = (
    "fcfs+easy",
    "fcfs+none",
    "sjf+easy+best_fit",
    "largest+easy+shortest_first",
    "fcfs+conservative",
    {"order": "sjf", "backfill": "easy", "commit": True},
)


def log_of(path, seed, jobs=500, nodes=40, odd=True):
    """A log with ties, fractions, comments, and jobs that the input rules leave out or mend."""
    rng = np.random.default_rng(seed)
    lines = [f"; MaxProcs: {nodes}", "; Note: drawn"]
    submit = 17
    for number in range(1, jobs + 1):
        submit += int(rng.choice([0, 0, 1, 5, 60]))
        run = int(rng.choice([1, 3, 30, 400]) * rng.integers(1, 5))
        width = int(rng.choice([1, 2, 7, nodes]))
        asked = run * int(rng.integers(1, 4))
        if odd and rng.random() < 0.1:
            run, width, asked = rng.permutation([run, -1, 0])[0], int(rng.choice([width, nodes + 1, -1])), -1
        half = ".5" if odd and rng.random() < 0.1 else ""
        user = int(rng.integers(-1, 5))
        lines.append(
            f"{number} {submit} -1 {run}{half if run > 0 else ''} {width} -1 -1 -1 {asked} -1 1 {user} 2 -1 3 -1 -1 -1"
        )
        if rng.random() < 0.02:
            lines.append("; a comment")
    path.write_text("\n".join(lines) + "\n")
    return path


def scenario_of(log, **keys):
    workload = {"trace": str(log), **keys.pop("workload", {})}
    return {"name": "log", "workload": workload, **keys}


def at_once(document, out):
    from emulator.report.files import write  # noqa: PLC0415
    from emulator.runs.preparation import prepare  # noqa: PLC0415
    from emulator.runs.runner import run_virtual  # noqa: PLC0415

    scenario = from_mapping(document)
    write(run_virtual(scenario, prepare(scenario)), out, report=False)
    return out


def in_blocks(document, out):
    run_stream(from_mapping(document), out)
    return out


def contents(folder):
    summary = json.loads((folder / "summary.json").read_text())
    del summary["wall_s"], summary["jobs_per_s"]
    return {name: (folder / name).read_bytes() for name in FILES}, json.dumps(summary, indent=1)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(swf, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(sheets, "MOST_ROWS", 150)
    monkeypatch.setattr(sheets, "MOST_NODES", 600)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_every_file_is_that_of_a_run_at_once(tmp_path, seed, scheduler):
    document = scenario_of(log_of(tmp_path / "log.swf", seed), scheduler=scheduler)

    found, wanted = in_blocks(document, tmp_path / "blocks"), at_once(document, tmp_path / "whole")

    assert contents(found) == contents(wanted)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "workload",
    [
        {"overrun": "kill"},
        {"zero_run": "one_second", "procs_per_node": 2},
        {"origin_s": 300},
        {"lenient": True},
    ],
)
def test_the_input_rules_hold_in_blocks_too(tmp_path, workload):
    log = log_of(tmp_path / "log.swf", 9)
    if "lenient" in workload:
        log.write_text(log.read_text().replace(" 2 -1 3 -1", " 2 -1 x -1", 3))
    document = scenario_of(log, workload=workload)

    found, wanted = in_blocks(document, tmp_path / "blocks"), at_once(document, tmp_path / "whole")

    assert contents(found) == contents(wanted)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "keys", [{"reservation": "kept"}, {"protect_head": False}, {"estimates": "actual_for_queued"}]
)
def test_options_of_the_scheduler_hold_across_blocks(tmp_path, keys):
    document = scenario_of(log_of(tmp_path / "log.swf", 3), scheduler={"order": "fcfs", **keys})

    found, wanted = in_blocks(document, tmp_path / "blocks"), at_once(document, tmp_path / "whole")

    assert contents(found) == contents(wanted)


def test_the_files_of_a_streamed_run_are_read_back(tmp_path):
    document = scenario_of(log_of(tmp_path / "log.swf", 1))

    found, wanted = (load(made(document, tmp_path / made.__name__)).runs for made in (in_blocks, at_once))

    assert found.node.tolist() == wanted.node.tolist()
    assert found.start_us.tolist() == wanted.start_us.tolist()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:100] + lines[50:], "in order of submit with rising"),
        (lambda lines: [*lines, lines[5]], "in order of submit with rising"),
        (lambda lines: lines[:2], "no job can be replayed"),
        (lambda lines: lines[2:], "header has no MaxProcs"),
    ],
)
def test_a_log_that_cannot_be_read_in_blocks_is_refused_and_nothing_is_left(tmp_path, change, said):
    log = log_of(tmp_path / "log.swf", 2, odd=False)
    log.write_text("\n".join(change(log.read_text().splitlines())) + "\n")

    with pytest.raises(TraceError, match=said):
        in_blocks(scenario_of(log), tmp_path / "out")

    assert [path.name for path in tmp_path.iterdir()] == ["log.swf"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"mechanism": {"static_partition": {"ondemand_nodes": 2}}}, "a mechanism"),
        ({"workload": {"transforms": [{"window": {"to_s": 10}}]}}, "workload.transforms"),
        ({"scheduler": "wfp3+easy"}, "the queue order wfp3"),
        ({"partitions": {"short": {"nodes": "0-3", "queues": [1]}}}, "partitions"),
        ({"features": {"gpu": {"nodes": "0-3", "jobs": [1]}}}, "features"),
        ({"qos": {"table": {}}}, "qos"),
        ({"shared_nodes": {"cores": 4}}, "shared_nodes"),
        ({"placement": {"policy": "contiguous"}}, "placement"),
        ({"moldable": {"sizes": [1, 2]}}, "moldable"),
        ({"energy": {"busy_w": 300, "idle_w": 100}}, "energy"),
        ({"scheduler": {"order": "fcfs", "pass": "event"}}, "scheduler.pass: event"),
    ],
)
def test_what_needs_all_jobs_at_once_is_named(tmp_path, keys, said):
    with pytest.raises(ScenarioError, match=f"--stream: {said} needs all jobs at once"):
        check(from_mapping(scenario_of(tmp_path / "log.swf", **keys)))


def test_every_part_of_a_scenario_goes_with_it_or_is_refused():
    """Whoever adds one looks here: `check` names what a streamed run would pass over."""
    assert set(Scenario.model_fields) == {
        "name", "seed", "nodes", "workload", "scheduler", "live", "results", "plugins",
        "mechanism", "limits", "qos", "features", "partitions", "reservations", "shared_nodes",
        "failures", "maintenance", "energy", "placement", "moldable",
    }  # fmt: skip


def test_the_command_writes_all_but_the_report(tmp_path):
    log = log_of(tmp_path / "log.swf", 4)
    run = ["run", str(log), "--quiet", "--out"]

    found = emulate(*run, tmp_path / "out", "--stream")
    refused = emulate(*run, tmp_path / "no", "--stream", "--check")

    assert found.exit_code == 0, found.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*FILES, "summary.json"])
    assert (refused.exit_code, (tmp_path / "no").exists()) == (2, False)
    assert "--stream goes with none of" in refused.output
