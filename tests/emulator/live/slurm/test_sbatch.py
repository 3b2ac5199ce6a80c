"""What sbatch is told, and what becomes of its answers."""

import pytest

from balancer.clock import US
from emulator.live.qsub import QsubError, QsubUnreachableError, Submission
from emulator.live.slurm.sbatch import Sbatch
from emulator.plugins import make_plugin


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
            }
        },
    )
    assert submitter.submit(Submission("j1", 3, 90 * US, "#!/bin/sh\nsleep 60\n", "2/5/-1")) == "17"
    told = (tmp_path / "told").read_text().splitlines()
    assert {
        "--nodes=3",
        "--time=00:01:30",
        "--partition=debug",
        "--uid=root",
        "--account=physics",
        "--gid=0",
        "--comment=2/5/-1",
    } <= set(told)
    assert (tmp_path / "script").read_text() == "#!/bin/sh\nsleep 60\n"


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


def test_a_user_whom_this_machine_does_not_know_is_an_error_that_names_them(program):
    with pytest.raises(QsubError, match="this machine has no user nobody-of-that-name"):
        Sbatch([program("echo 17")], users={5: "nobody-of-that-name"}).submit(
            Submission("j1", 1, US, "#!/bin/sh\n", "2/5/-1")
        )
