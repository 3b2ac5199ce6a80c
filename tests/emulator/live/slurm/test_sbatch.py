"""What sbatch is told, and what becomes of its answers."""

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from balancer.clock import US
from emulator.live.qsub import QsubError, QsubUnreachableError, Submission
from emulator.live.slurm.sbatch import Sbatch
from emulator.plugins import make_plugin
from polling import until


@pytest.fixture
def program(tmp_path):
    """A stand-in that notes its arguments and its input, and answers as it is told."""

    def make(answer, name="sbatch"):
        path = tmp_path / name
        path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/told\ncat > {tmp_path}/script\n{answer}\n'
        )
        path.chmod(0o755)
        return str(path)

    return make


def test_a_job_goes_to_the_partition_and_the_user_that_stand_for_those_of_its_trace(program, tmp_path):
    submitter = make_plugin(
        "emulator.submitters",
        {
            "sbatch": {
                "command": [program("echo '17;cluster'")],
                "partitions": {"2": "debug"},
                "users": {"5": "root"},
                "accounts": {"5": "physics"},
                "options": {"12": ["--reservation=course", "--cpus-per-task=4"]},
            }
        },
    )
    job = Submission("j1", 3, 90 * US, "#!/bin/sh\nsleep 60\n", "2/5/-1", number=12)
    assert submitter.submit(job) == "17"
    told = (tmp_path / "told").read_text().splitlines()
    assert {
        "--nodes=3",
        "--time=00:01:30",
        "--partition=debug",
        "--uid=root",
        "--account=physics",
        "--gid=0",
        "--comment=2/5/-1",
        "--reservation=course",
        "--cpus-per-task=4",
        "--exclusive",
    } <= set(told)
    assert (tmp_path / "script").read_text() == "#!/bin/sh\nsleep 60\n"


@pytest.mark.parametrize(
    ("variables", "listed"),
    [((), "ALL"), (("PYTHONPATH",), "ALL"), (("PYTHONPATH", "A=1", "B=2"), "ALL,A=1,B=2")],
)
def test_the_environment_goes_with_the_job_and_only_what_it_lacks_is_listed(
    program, tmp_path, variables, listed
):
    """Slurm 26.05 starts no job with a list if it cannot log its user in within 120 s, of the clock that is faked."""
    Sbatch([program("echo 17")]).submit(
        Submission("j1", 1, US, "#!/bin/sh\n", "2/5/-1", variables=list(variables))
    )
    assert f"--export={listed}" in (tmp_path / "told").read_text().splitlines()


def test_a_queue_and_a_user_that_nobody_stands_for_are_left_to_slurm(program, tmp_path):
    Sbatch([program("echo 17")]).submit(Submission("j1", 1, US, "#!/bin/sh\n", "2/5/-1"))
    told = (tmp_path / "told").read_text()
    assert "--partition" not in told
    assert "--uid" not in told


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ("echo 'sbatch: error: invalid partition specified: x' >&2; exit 1", QsubError, "invalid partition"),
        (
            "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1",
            QsubUnreachableError,
            "contact",
        ),
        ("true", QsubError, "exit status 0 without a word"),
    ],
)
def test_a_refusal_is_final_and_a_silence_is_not(program, answer, error, text):
    with pytest.raises(QsubError, match=text) as caught:
        Sbatch([program(answer)]).submit(Submission("j1", 1, US, "#!/bin/sh\n"))
    assert type(caught.value) is error


def test_a_job_that_somebody_submitted_is_found_by_its_name(program, tmp_path):
    sbatch = Sbatch([program("true")])
    program("echo 23", name="squeue")
    assert sbatch.find("j7") == "23"
    assert "--name=j7" in (tmp_path / "told").read_text()
    program("true", name="squeue")
    assert sbatch.find("j7") is None


def test_a_job_is_looked_for_where_it_was_submitted(program, tmp_path):
    """`command` may begin with what leads to another machine."""
    program("echo 23", name="squeue")
    assert Sbatch(["env", "PLACE=there", program("true")]).find("j7") == "23"
    program('echo "$PLACE"', name="squeue")
    assert Sbatch(["env", "PLACE=there", program("true")]).find("j7") == "there"


def test_a_user_whom_this_machine_does_not_know_is_an_error_that_names_them(program):
    with pytest.raises(QsubError, match="this machine has no user nobody-of-that-name"):
        Sbatch([program("echo 17")], users={5: "nobody-of-that-name"}).submit(
            Submission("j1", 1, US, "#!/bin/sh\n", "2/5/-1")
        )


@pytest.fixture
def slurm(tmp_path):
    """An sbatch that submits as the real one does: not before it has read its script, and nothing without one."""
    ids, journal = tmp_path / "ids", tmp_path / "journal"
    journal.touch()
    path = tmp_path / "sbatch"
    path.write_text(
        "#!/bin/sh\n"
        f'echo "started $5" >> {journal}\n'
        "script=$(cat)\n"
        '[ -n "$script" ] || { echo "sbatch: error: Batch script is empty!" >&2; exit 1; }\n'
        f'echo "submitted $5" >> {journal}\n'
        f"echo x >> {ids}\n"
        f"wc -l < {ids}\n"
    )
    path.chmod(0o755)

    def told(count):
        """What happened, once it is so many lines."""
        until(lambda: len(journal.read_text().splitlines()) >= count)
        lines = journal.read_text().splitlines()
        return [line.replace("--job-name=", "") for line in lines]

    return SimpleNamespace(command=str(path), told=told)


def job(number):
    return Submission(f"j{number}", 1, US, f"#!/bin/sh\nsleep {number}\n")


def test_jobs_that_are_prepared_wait_for_their_turn_and_have_the_order_in_which_they_are_submitted(slurm):
    sbatch = Sbatch([slurm.command])
    for number in (1, 2, 3):
        sbatch.prepare(job(number))
    assert sorted(slurm.told(3)) == ["started j1", "started j2", "started j3"]
    assert [sbatch.submit(job(number)) for number in (2, 1, 3)] == ["1", "2", "3"]
    assert slurm.told(6)[3:] == ["submitted j2", "submitted j1", "submitted j3"]


def test_a_job_that_was_sent_is_not_submitted_again_however_long_ago_it_was_answered(slurm):
    sbatch = Sbatch([slurm.command])
    sbatch.prepare(job(1))
    sbatch.send(job(1))
    sbatch._started["j1"].wait()
    assert sbatch.submit(job(1)) == "1"
    assert slurm.told(2) == ["started j1", "submitted j1"]


def test_a_prepared_command_that_ended_while_it_waited_is_started_again(slurm):
    sbatch = Sbatch([slurm.command])
    sbatch.prepare(job(1))
    slurm.told(1)
    sbatch._started["j1"].kill()
    sbatch._started["j1"].wait()
    assert sbatch.submit(job(1)) == "1"
    assert slurm.told(3) == ["started j1", "started j1", "submitted j1"]


def test_what_was_prepared_and_not_submitted_ends_and_never_is(slurm):
    sbatch = Sbatch([slurm.command])
    sbatch.prepare(job(1))
    slurm.told(1)
    started = sbatch._started["j1"]
    sbatch.close()
    assert started.returncode == -signal.SIGKILL
    assert slurm.told(1) == ["started j1"]


def test_nobody_submits_what_a_replayer_that_was_killed_had_prepared(slurm, tmp_path):
    """The commands outlive it, and get the end of their input instead of a script."""
    text = """
import os, sys
from balancer.clock import US
from emulator.live.qsub import Submission
from emulator.live.slurm.sbatch import Sbatch
sbatch = Sbatch([sys.argv[1]])
for number in (1, 2):
    sbatch.prepare(Submission(f"j{number}", 1, US, "#!/bin/sh\\n"))
    print(sbatch._started[f"j{number}"].pid, flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", text, slurm.command]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as replayer:
        waiting = [Path("/proc") / replayer.stdout.readline().strip() for _ in range(2)]
        slurm.told(2)
        replayer.kill()
    until(lambda: not any(map(_lives, waiting)))
    assert sorted(slurm.told(2)) == ["started j1", "started j2"]


def _lives(process):
    try:
        return (process / "cmdline").read_bytes() != b""
    except OSError:
        return False


def test_a_program_that_is_not_there_is_told_when_the_job_is_submitted(tmp_path):
    sbatch = Sbatch([str(tmp_path / "nowhere")])
    sbatch.prepare(job(1))
    with pytest.raises(QsubError, match="No such file"):
        sbatch.submit(job(1))
