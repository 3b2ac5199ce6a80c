"""What the system refuses, and options that a command would not use, are one clear line and exit status 2."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from command_line import emulate
from emulator.report import files
from emulator.report.terminal import file_error
from emulator.runs.scenario import ScenarioError
from emulator.sweeps import store
from emulator.sweeps.store import Store
from testdata import TRACES


def refused(*words):
    """What the command says."""
    done = emulate(*words)
    assert done.exit_code == 2, (done.output, done.exception)
    assert done.stderr.count("\n") == 1
    assert "[Errno" not in done.stderr
    return done.stderr.strip()


@pytest.mark.parametrize(
    ("number", "name", "text"),
    [
        (errno.ENOSPC, "out/a.csv", "out/a.csv: No space left on device; free space, or name another folder"),
        (errno.ENOSPC, None, "No space left on device; free space, or name another folder"),
        (errno.EACCES, "log", "log: Permission denied; ask for the right, or name another"),
    ],
)
def test_what_the_system_refuses_says_where_why_and_what_to_do(number, name, text):
    error = file_error(OSError(number, f"Detail: [errno {number}] {os.strerror(number)}", name))
    assert error is not None
    assert (error.message, error.exit_code) == (text, 2)


def test_what_no_file_can_have_caused_is_no_input_error():
    assert file_error(ConnectionRefusedError(errno.ECONNREFUSED, "refused")) is None


def test_a_usage_error_with_choices_is_one_line():
    assert "batsim, accasim; `" in refused("export", "runs/default")


def test_a_library_that_writes_results_adds_no_words(tmp_path):
    refusal = OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")
    text = ": No space left on device; "
    with pytest.raises(files.ResultsError, match=text), files.folder_for(tmp_path / "out"):
        raise refusal
    with pytest.raises(ScenarioError, match=text), store._refusals(tmp_path):
        raise refusal


def test_any_command_tells_it_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    said = refused("trace", "convert", TRACES / "day-64.swf", tmp_path / "file" / "x.swf")
    assert said == f"emulator: {tmp_path / 'file' / 'x.swf'}: Not a directory; name a folder"


def test_a_paper_whose_folder_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    said = refused("reproduce", "oversubscribe", "--quick", "--stand-in", "--out", tmp_path / "file" / "x")
    assert said == f"emulator: {tmp_path / 'file' / 'x'}: Not a directory; name another folder with --out"


def test_many_runs_do_not_go_into_the_folder_of_one(tmp_path):
    (tmp_path / "summary.json").touch()
    with pytest.raises(ScenarioError, match="holds the results of one run; name another folder with --out"):
        Store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["run", "--from-accounting", "sacct", "--replay", "x", "--seed", "3", "--set", "seed=4"],
            "--seed, --set: --from-accounting runs nothing, and a replay knows its scenario; leave them out",
        ),
        (["reproduce", "tables", "--seeds", "3"], "--seeds: not used by reproduce tables; leave it out"),
        (
            ["run", TRACES / "day-64.swf", "--clock", "live", "--baseline"],
            "--baseline: a live run has none; leave it out",
        ),
        (
            ["run", TRACES / "day-64.swf", "--scheduler", "slurm", "--baseline"],
            "--baseline: there is none beside slurm; leave it out",
        ),
        (
            ["run", TRACES / "day-64.swf", "--baseline"],
            "--baseline: there is none beside fcfs+easy; leave it out",
        ),
        (
            ["run", TRACES / "day-64.swf", "--stream", "--baseline"],
            "--stream goes with none of --clock live, --watch, --check, --baseline, --keep",
        ),
    ],
)
def test_an_option_that_would_not_be_used_is_refused(words, text):
    assert refused(*words) == f"emulator: {text}"


_FOLDER = "Is a directory; name a file"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "{folder}"], f"{{folder}}: {_FOLDER}"),
        (["sweep", "{folder}"], f"{{folder}}: {_FOLDER}"),
        (["run", "gone.yaml"], "gone.yaml: No such file or directory; look at the name"),
        (["trace", "info", "gone.swf"], "gone.swf: No such file or directory; look at the name"),
        (
            ["whatif", "--log", "{log}", "--slurm-conf", "{folder}", "--set", "bf_interval=60"],
            f"{{folder}}: cannot be read: {_FOLDER}",
        ),
        (
            [
                "whatif",
                "--log",
                "{log}",
                "--slurm-conf",
                "{conf}",
                "--qos",
                "{folder}",
                "--set",
                "bf_interval=60",
            ],
            f"qos: {{folder}} cannot be read: {_FOLDER}",
        ),
    ],
)
def test_a_folder_in_place_of_a_file_and_a_wrong_name_say_what_to_do(tmp_path, words, text):
    folder, conf = tmp_path / "folder.yaml", tmp_path / "slurm.conf"
    folder.mkdir()
    conf.write_text("NodeName=n[1-64] CPUs=1\nPartitionName=a Nodes=ALL Default=YES\n", encoding="utf-8")
    names = {"folder": folder, "conf": conf, "log": TRACES / "day-64.swf"}
    assert refused(*[word.format(**names) for word in words]) == f"emulator: {text.format(**names)}"


def test_a_name_that_is_not_utf_8_is_refused_before_the_run(tmp_path):
    odd = tmp_path / os.fsdecode(b"log\xfc.swf")
    odd.write_bytes((TRACES / "day-64.swf").read_bytes())
    said = refused("run", odd, "--out", tmp_path / "out")
    assert said.endswith(f"{tmp_path}/log\\udcfc.swf: the name is not UTF-8, as results are; rename it")
    base, grid = tmp_path / "base.yaml", tmp_path / "grid.yaml"
    base.write_text(f"{{nodes: 64, workload: {{trace: {TRACES / 'day-64.swf'}}}}}\n", encoding="utf-8")
    grid.write_text("base: base.yaml\npoints: [{seed: 1}]\n", encoding="utf-8")
    for words in (["run", TRACES / "day-64.swf"], ["sweep", grid]):
        said = refused(*words, "--out", odd.with_suffix(""))
        assert said.endswith(f"{tmp_path}/log\\udcfc: the name is not UTF-8, as results are; rename it")
    assert not (tmp_path / "out").exists()


def test_a_closed_stdout_is_no_failure(tmp_path):
    words = [sys.executable, "-c", "from emulator.cli import main; main()", "run", TRACES / "day-64.swf"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', *words, "--out", "out", "--no-baseline"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert (tmp_path / "out" / "report.html").exists()


def test_a_command_that_is_interrupted_says_so(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("emulator.workload.formats.load", interrupt)
    done = emulate("trace", "info", TRACES / "day-64.swf")
    assert (done.exit_code, done.stderr) == (
        130,
        "emulator: stopped by the user; run the same command again\n",
    )


def test_all_papers_and_a_name_beside_them():
    assert refused("reproduce", "all", "balancer").endswith("all stands alone: leave out the other names")
