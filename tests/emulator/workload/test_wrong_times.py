"""A job whose times no job had is left out, and told of, by every command that reads a log."""

from __future__ import annotations

import json

import pytest

from command_line import emulate
from emulator.study.logs import read_logs
from emulator.workload.formats import load

DAY_S, FIRST_S = 86_400, 1_767_225_600
LINE = "{number} {submit} 5 {run} 1 -1 -1 1 600 -1 1 1 1 -1 1 -1 -1 -1"
FAR, LONG, UNKNOWN = "20 years or more from the rest of the log", "longer than 285 years", "no submit time"
WRONG = {
    "far": (FIRST_S - 30 * 365 * DAY_S, 60),
    "early": (86_400, 60),
    "long": (FIRST_S, 10**10),
    "unknown": (-1, 60),
}
REASONS = {"far": FAR, "early": FAR, "long": LONG, "unknown": UNKNOWN}


@pytest.fixture(params=WRONG)
def kind(request):
    return request.param


@pytest.fixture
def logs(kind, swf_file):
    """A log of two weeks with one such job, and the same without."""
    lines = [LINE.format(number=day + 1, submit=FIRST_S + day * DAY_S, run=600) for day in range(14)]
    submit, ran = WRONG[kind]
    odd = LINE.format(number=99, submit=submit, run=ran)
    header = "; MaxProcs: 4\n; MaxNodes: 4"
    return swf_file(header, *lines, odd), swf_file(header, *lines, name="good.swf")


def test_convert_leaves_it_out_and_says_so(logs, kind, tmp_path):
    done = emulate("trace", "convert", logs[0], tmp_path / "out.swf")
    assert done.output == f"{tmp_path / 'out.swf'}: 14 jobs of 15 records, 1 x {REASONS[kind]} left out\n"
    assert len(load(tmp_path / "out.swf")) == 14


@pytest.mark.parametrize("command", ["info", "check"])
def test_what_looks_at_a_log_tells_of_it_and_of_the_others_times(logs, kind, command):
    done = emulate("trace", command, logs[0], "--json")
    assert REASONS[kind] in done.output
    if command == "check":
        assert "submits from 2026-01-01 00:00 to 2026-01-14 00:00 UTC" in done.output


@pytest.mark.parametrize("command", ["weeks", "pack"])
def test_what_counts_rows_has_the_same_figures_without_it(logs, kind, command):
    found = [emulate("trace", command, path, "--json") for path in logs]
    assert [done.exit_code for done in found] == [0, 0], found[0].output
    assert found[0].stderr == f"{logs[0]}: 1 x {REASONS[kind]} left out\n"
    with_it, without = (
        json.loads(done.stdout.replace(str(path), "")) for done, path in zip(found, logs, strict=True)
    )
    assert with_it == without


@pytest.mark.parametrize("which", ["batch", "on-demand"])
def test_merging_tells_of_it_and_gives_the_same_study(logs, kind, which):
    odd, good = map(load, logs)
    pair = (odd, good) if which == "batch" else (good, odd)
    found, right = (read_logs(*each, batch_nodes=4) for each in (pair, (good, good)))
    assert f"{which}: left out: 1 {REASONS[kind]}" in found.notes
    assert [note for note in found.notes if "left out" not in note] == list(right.notes)
    assert found.weeks == right.weeks
    for name in ("batch", "leases"):
        assert (getattr(found, name).submit_us == getattr(right, name).submit_us).all()


def test_running_it_counts_it(logs, kind, tmp_path):
    done = emulate("run", "--trace", logs[0], "--out", tmp_path / "run", "--quiet")
    assert done.exit_code == 0, done.output
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["jobs_left_out"] == {REASONS[kind]: 1}
