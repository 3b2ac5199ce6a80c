"""A log on a Slurm that is already there, and what its accounting says became of it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import emulate
from fleet_kit import real_slurm

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.needs("slurm", "libfaketime"),
    pytest.mark.timeout(300),
]


def swf(number, submit_s, run_s, nodes):
    return f"{number} {submit_s} -1 {run_s} {nodes} -1 -1 {nodes} {2 * run_s} -1 1 5 1 -1 1 -1 -1 -1\n"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with real_slurm.cluster(tmp_path_factory.mktemp("slurm"), 2) as environ:
        yield environ


def emulator(slurm, *arguments, **more):
    command = [str(Path(sys.executable).with_name("emulator")), *map(str, arguments)]
    return subprocess.Popen(
        command, env=slurm, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )


def jobcomp(slurm):
    return slurm["SLURM_CONF"].replace("slurm.conf", "jobcomp")


def ended(slurm, count):
    log = Path(jobcomp(slurm))
    while not log.exists() or len(log.read_text().splitlines()) < count:
        subprocess.run(["sleep", "0.2"], check=True)


def test_a_log_goes_to_the_cluster_sixty_times_faster_and_comes_back_as_a_result_in_its_own_time(
    slurm, tmp_path
):
    trace, folder = tmp_path / "log.swf", tmp_path / "replay"
    trace.write_text("; MaxNodes: 2\n" + "".join(swf(n, 60 * n, 120, 1 + n % 2) for n in range(1, 4)))
    with emulator(
        slurm, "replay", "--trace", trace, "--submit", "slurm", "--compress", 60, "--out", folder
    ) as run:
        said, _ = run.communicate()
    assert run.returncode == 0, said
    assert "3 jobs were submitted (" in said
    ended(slurm, 3)

    arguments = [
        "run",
        "--from-accounting",
        jobcomp(slurm),
        "--replay",
        str(folder),
        "--check",
        "--json",
        "--no-report",
    ]
    result = emulate(*arguments)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.output)
    assert (summary["jobs_run"], summary["clock"], summary["interrupted"]) == (3, "live", "")
    assert 60 <= summary["makespan_s"] < 3600
    # Job 2 has both nodes after job 1, job 3 both of them after it: a minute and two of the log, and what Slurm took.
    assert 60 <= summary["mean_wait_s"] < 1200


@pytest.mark.parametrize("cancel", [False, True])
def test_ctrl_c_names_the_jobs_that_are_there_and_cancels_them_if_asked(slurm, tmp_path, cancel):
    trace, folder = tmp_path / "log.swf", tmp_path / "replay"
    trace.write_text("; MaxNodes: 2\n" + swf(1, 0, 3600, 2) + swf(2, 36_000, 60, 1))
    more = ["--cancel"] if cancel else []
    with emulator(
        slurm, "replay", "--trace", trace, "--submit", "slurm", "--compress", 10, "--out", folder, *more
    ) as run:
        log = folder / "replay.jsonl.partial"
        while not (log.exists() and "submitted" in log.read_text()):
            assert run.poll() is None
            subprocess.run(["sleep", "0.1"], check=True)
        os.kill(run.pid, signal.SIGINT)
        said, _ = run.communicate()

    assert run.returncode == 130, said
    job_id = json.loads((folder / "replay.jsonl").read_text().splitlines()[0])["job_id"]
    assert f"1 jobs were submitted ({job_id})" in said
    listed = subprocess.run(
        ["squeue", "-h", "-o", "%A", "--states=PD,R"], env=slurm, capture_output=True, text=True, check=True
    )
    assert (job_id in listed.stdout.split()) == (not cancel)
    subprocess.run(["scancel", job_id], env=slurm, check=False)


def test_what_is_no_replay_and_what_cannot_be_submitted_is_told_and_nothing_is_written(tmp_path):
    trace = tmp_path / "log.swf"
    trace.write_text("; MaxNodes: 2\n" + swf(1, 0, 60, 1))
    for arguments, problem in (
        (["run", "--from-accounting", "sacct"], "--from-accounting and --replay go together"),
        (["run", "--from-accounting", "sacct", "--replay", str(tmp_path)], "is not the folder of a replay"),
        (["replay", "--trace", str(trace), "--submit", "slrum", "--out", str(tmp_path / "out")], "slrum"),
    ):
        result = emulate(*arguments)
        assert result.exit_code == 2, result.output
        assert problem in result.output
    assert not (tmp_path / "out").exists()
