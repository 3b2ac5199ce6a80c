"""Submitting jobs with sbatch."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Mapping, Sequence  # noqa: TC003 - parameters of a plug-in are converted to their types
from dataclasses import dataclass, field
from pathlib import Path

from emulator.live.qsub import QsubError, QsubUnreachableError, walltime

_TIMEOUT_S = 60.0
_UNREACHABLE = (
    "unable to contact slurm controller",
    "connection refused",
    "timed out",
    "socket",
    "try again",
)


@dataclass(frozen=True, slots=True)
class Sbatch:
    """The command that submits. `partitions`, `users`: of the trace's queues and users, by number.

    A queue that is not listed has the default partition, a user who is not listed is who runs this; the job's comment
    has the trace's numbers (queue/user/group) in any case. Slurm rounds limits up to whole minutes.
    """

    command: Sequence[str] = ("sbatch",)
    partitions: Mapping[int, str] = field(default_factory=dict)
    users: Mapping[int, str] = field(default_factory=dict)

    def submit(
        self,
        name: str,
        nodes: int,
        estimate_us: int,
        script: str,
        *,
        trace_numbers: str = "-1/-1/-1",
        queue: str | None = None,
        variables: Sequence[str] = (),
        folder: Path | None = None,
    ) -> str:
        number, user, _ = map(int, trace_numbers.split("/"))
        partition = queue or self.partitions.get(number)
        output = "/dev/null" if folder is None else str(folder / f"{name}.o%j")
        command = [
            *self.command, "--parsable", "--exclusive", f"--job-name={name}", f"--nodes={nodes}",
            f"--time={walltime(estimate_us)}", f"--comment={trace_numbers}", f"--output={output}",
            f"--chdir={folder or '/'}", f"--export={','.join(['ALL', *variables])}",
            *([f"--partition={partition}"] if partition else []),
            *(_as_user(self.users[user]) if user in self.users else []),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, input=script, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise QsubUnreachableError(f"no answer within {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise QsubError(str(error)) from error
        job_id = done.stdout.strip().partition(";")[0]
        if done.returncode == 0 and job_id.isdecimal():
            return job_id
        text = done.stderr.strip() or f"exit status {done.returncode} without a word"
        if any(sign in text.lower() for sign in _UNREACHABLE):
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
