"""`emulator trace convert`, `weeks`, `pack` and `generate` as a user types them."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from command_line import emulate
from emulator.workload import store
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from testdata import TRACES

APS = "submit_time,start_time,end_time,run_time,wait_time"


@pytest.mark.parametrize("name", ["out.swf", "out.swf.gz", "out.swf.xz"])
def test_a_converted_log_gives_the_same_jobs(output_of, tmp_path, name):
    source = output_of("torque/accounting-log.txt")
    result = emulate("trace", "convert", source, tmp_path / name)
    counts = [(14, "Q"), (14, "S"), (1, "R"), (2, "D")]
    passed_over = ", ".join(f"{n} x {kind} record passed over" for n, kind in counts)
    assert (result.exit_code, result.output) == (
        0,
        f"{tmp_path / name}: 13 jobs of 44 records, {passed_over}\n",
    )
    before, after = (to_jobs(load(path), nodes=8).jobs for path in (source, tmp_path / name))
    assert all(
        np.array_equal(getattr(before, column), getattr(after, column)) for column in ("submit_us", "nodes")
    )


def test_converting_a_bad_log_names_file_and_line_and_leaves_nothing(text_file, tmp_path):
    path = text_file(APS, "1,2,x,4,5", "1,1,2,1,0")
    result = emulate("trace", "convert", path, tmp_path / "out.swf")
    assert result.exit_code == 2
    assert f"{path}:2: end_time is 'x', not a number; mend the line" in result.output
    assert not (tmp_path / "out.swf").exists()
    lenient = emulate("trace", "convert", "--lenient", path, tmp_path / "out.swf")
    assert lenient.exit_code == 0
    assert "1 job of 2 records, 1 malformed line left out" in lenient.output


def test_a_log_is_not_converted_onto_itself(tmp_path):
    """Else what is no job in it would be lost."""
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 8\n; 1 0 0 9\n1 -5 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    (tmp_path / "link.swf").symlink_to(log)
    before = log.read_bytes()
    done = emulate("trace", "convert", log, tmp_path / "link.swf")
    assert (done.exit_code, done.stderr) == (
        2,
        f"emulator: {tmp_path}/link.swf is the log itself; name another file\n",
    )
    assert log.read_bytes() == before


@pytest.mark.parametrize("command", [("trace", "info"), ("trace", "check"), ("run", "--out", "out")])
def test_a_pipe_in_the_place_of_a_log_is_told_and_nobody_waits_for_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("jobs")
    done = emulate(*command, "jobs")
    assert done.exit_code == 2
    assert done.stderr == (
        "emulator: jobs: a pipe, and a log is read more than once: write it into a file and name that\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_converted_logs_name_must_end_in_swf(text_file, tmp_path):
    result = emulate("trace", "convert", text_file(APS), tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "the name must end in .swf, .swf.gz or .swf.xz" in result.output


def test_weeks_show_the_most_challenging_one():
    logs = [TRACES / f"lcrc/{week}.csv.xz" for week in ("2015-03-29", "2015-04-05")]
    result = emulate("trace", "weeks", *logs, "--usage", "2015-04-05=12499")
    assert result.exit_code == 0
    (line,) = [line for line in result.output.splitlines() if line.strip().endswith("*")]
    assert line.startswith("2015-04-05")
    as_json = emulate("trace", "weeks", *logs, "--nodes", 304, "--json")
    document = json.loads(as_json.output)
    assert (document["hardest"], len(document["weeks"])) == ("2015-04-05", 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--usage", "easter=1"], "--usage easter=1: expected DATE=CORE_HOURS"),
        (["--usage", "2015-04-05=nan"], "--usage 2015-04-05=nan: expected DATE=CORE_HOURS"),
        (["--usage", "2014-01-01=1"], "no week begins on 2014-01-01"),
        (["--on-demand", "nowhere"], "nowhere: No such file"),
    ],
)
def test_what_weeks_cannot_use_is_one_line_and_status_2(words, message):
    result = emulate("trace", "weeks", TRACES / "lcrc/2015-04-05.csv.xz", *words)
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert message in result.output


def test_packing_shows_and_stores_the_leases(text_file, tmp_path):
    path = text_file(APS, *["0,0,3600,3600,0"] * 17)
    result = emulate("trace", "pack", path, "--json", "--out", tmp_path / "leases.npz")
    (row,) = json.loads(result.output)
    assert (row["leases"], row["vms"], row["hours"], row["busiest_minute"]) == (2, 2, 2.0, 2)
    assert len(store.load(tmp_path / "leases.npz")) == 2
    assert "VM-hours" in emulate("trace", "pack", path).output


def test_packing_several_logs_into_one_file_is_refused(text_file, tmp_path):
    path = text_file(APS)
    result = emulate("trace", "pack", path, path, "--out", tmp_path / "leases.npz")
    assert result.exit_code == 2
    assert "stores the leases of one log" in result.output


def test_generated_leases_stand_beside_the_printed_figures(tmp_path):
    out = tmp_path / "leases.parquet"
    result = emulate(
        "trace", "generate", "aps_leases", "--target", "challenging-leases", "--json", "--out", out
    )
    document = json.loads(result.output)
    assert document["count"] == {"printed": 141, "obtained": 141}
    assert len(store.load(out)) == 141
    table = emulate("trace", "generate", "lcrc_batch: {load: 0.5}", "--target", "U66-Main")
    assert "mean_run_min" in table.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["aps_lease"], "did you mean 'aps_leases'?"),
        (["aps_leases", "--target", "x"], "no published figures 'x'"),
        (["aps_leases: {"], "not valid YAML"),
        (["aps_leases", "--seed", "-1"], "a seed is a whole number from 0 on"),
    ],
)
def test_what_generate_cannot_use_is_one_line_and_status_2(words, message):
    result = emulate("trace", "generate", *(["--", *words] if words[0].startswith("-") else words))
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert message in result.output


def test_info_tells_what_is_no_job_of_its_own(output_of):
    result = emulate("trace", "info", output_of("torque/accounting-log.txt"), "--nodes", 8)
    assert result.exit_code == 0
    assert "of 44 lines" in result.output
    assert "14  no job of its own: Q record" in result.output


HEADINGS = {
    "sacct": "JobIDRaw|Submit|Start|End|ElapsedRaw|NNodes|State",
    "nova_servers": "uuid,created_at,deleted_at,vcpus",
    "usage_series": "timestamp,nodes",
    "aps": APS,
    "swf": "; MaxNodes: 4",
    "pbs": "04/27/2026 00:00:01;Q;1.srv;queue=batch",
    "lsf": '"EVENT_ADRSV_FINISH" "10.1" 1767225600 1',
    "oar": '{"items": [], "wanted_resources": "", "state": ""}',
    "sacct_json": '{"jobs": [], "association": {"derived_exit_code": 0}}',
    "comments alone": "# nothing\n# nothing",
}


@pytest.mark.parametrize("command", ["convert", "check", "info"])
@pytest.mark.parametrize("name", HEADINGS)
def test_a_log_without_a_job_is_an_error_and_nothing_is_written(text_file, tmp_path, name, command):
    path, out = text_file(HEADINGS[name]), tmp_path / "out.swf"
    result = emulate("trace", command, path, *([out] if command == "convert" else ["--nodes", 4]))
    assert result.exit_code == 2
    assert str(path) in result.output
    assert not out.exists()
