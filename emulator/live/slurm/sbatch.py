"""Submitting jobs with sbatch."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Mapping, Sequence  # noqa: TC003 - parameters of a plug-in are converted to their types
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.live.qsub import QsubError, QsubUnreachableError, walltime

if TYPE_CHECKING:
    from emulator.live.qsub import Submission

_TIMEOUT_S = 60.0
UNREACHABLE = (
    "unable to contact slurm controller",
    "connection refused",
    "timed out",
    "socket",
    "try again",
)


@dataclass(frozen=True, slots=True)
class Sbatch:
    """The command that submits. `partitions`, `users`, `accounts`: of the trace's queues and users, by number.

    A queue that is not listed has the default partition, a user who is not listed is who runs this; the job's comment
    has the trace's numbers (queue/user/group) in any case. Slurm rounds limits up to whole minutes. `held`: jobs
    wait until somebody releases them.
    """

    command: Sequence[str] = ("sbatch",)
    partitions: Mapping[int, str] = field(default_factory=dict)
    users: Mapping[int, str] = field(default_factory=dict)
    accounts: Mapping[int, str] = field(default_factory=dict)
    held: bool = False

    def submit(self, job: Submission) -> str:
        number, user, _ = map(int, job.trace_numbers.split("/"))
        partition = job.queue or self.partitions.get(number)
        output, errors = (
            "/dev/null" if job.folder is None else str(job.folder / f"{job.name}.{which}%j") for which in "oe"
        )
        command = [
            *self.command, "--parsable", "--exclusive", "--requeue", "--open-mode=append",
            f"--job-name={job.name}", f"--nodes={job.nodes}", f"--time={walltime(job.estimate_us)}",
            f"--comment={job.trace_numbers}", f"--output={output}", f"--error={errors}", f"--chdir={job.folder or '/'}",
            f"--export={','.join(['ALL', *job.variables])}",
            *(["--hold"] if self.held else []),
            *([f"--partition={partition}"] if partition else []),
            *([f"--account={self.accounts[user]}"] if user in self.accounts else []),
            *(_as_user(self.users[user]) if user in self.users else []),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, input=job.script, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise QsubUnreachableError(f"no answer within {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise QsubError(str(error)) from error
        job_id = done.stdout.strip().partition(";")[0]
        if done.returncode == 0 and job_id.isdecimal():
            return job_id
        text = done.stderr.strip() or f"exit status {done.returncode} without a word"
        if any(sign in text.lower() for sign in UNREACHABLE):
            raise QsubUnreachableError(text)
        raise QsubError(text)

    def find(self, name: str) -> str | None:
        squeue = str(Path(self.command[-1]).with_name("squeue"))
        command = [squeue, "--noheader", "--states=all", f"--name={name}", "--format=%A"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise QsubUnreachableError(done.stderr.strip() or f"squeue: exit status {done.returncode}")
        return next(iter(done.stdout.split()), None)


def _as_user(name: str) -> list[str]:
    """Both, or the job's files would be in our group."""
    try:
        return [f"--uid={name}", f"--gid={pwd.getpwnam(name).pw_gid}"]
    except KeyError:
        raise QsubError(f"this machine has no user {name}") from None
