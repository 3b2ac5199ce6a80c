"""Submitting jobs with sbatch."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Mapping, Sequence  # noqa: TC003 - parameters of a plug-in are converted to their types
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.live.qsub import QsubError, QsubUnreachableError, refusal, walltime

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


@dataclass(slots=True)
class Sbatch:
    """The command that submits. `partitions`, `users`, `accounts`: of the trace's queues and users, by number.

    A queue that is not listed has the default partition, a user who is not listed is who runs this; the job's comment
    has the trace's numbers (queue/user/group) in any case. Slurm rounds limits up to whole minutes. `held`: jobs
    wait until somebody releases them. `options`: more of them for single jobs, by number in the trace; `exclusive`: no
    other job on its nodes.

    `ahead`: so many commands are started before their jobs' time. sbatch reads the script from its input before it
    says a word to Slurm, so it waits there; without a script (our end came first) it submits nothing.
    """

    command: Sequence[str] = ("sbatch",)
    partitions: Mapping[int, str] = field(default_factory=dict)
    users: Mapping[int, str] = field(default_factory=dict)
    accounts: Mapping[int, str] = field(default_factory=dict)
    held: bool = False
    options: Mapping[int, Sequence[str]] = field(default_factory=dict)
    exclusive: bool = True
    ahead: int = 8
    _started: dict[str, subprocess.Popen[str]] = field(default_factory=dict, init=False, repr=False)

    def prepare(self, job: Submission) -> None:
        with suppress(OSError, QsubError):  # `submit` tries again, and says so
            self._started[job.name] = self._start(job)

    def send(self, job: Submission) -> None:
        started = self._started.get(job.name)
        if started is None or started.stdin is None:
            return  # it has its script, and may be over by now
        if started.poll() is None:
            _send(started, job.script)
        else:  # it waited for too long, for whatever is between us and Slurm
            _end(self._started.pop(job.name))

    def submit(self, job: Submission) -> str:
        self.send(job)
        try:
            started = self._started.pop(job.name, None)
            if started is None:
                started = self._start(job)
                _send(started, job.script)
            returncode, output, errors = _answer(started)
        except subprocess.TimeoutExpired as error:
            raise QsubUnreachableError(f"no answer within {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise QsubError(str(error)) from error
        job_id = output.strip().partition(";")[0]
        if returncode == 0 and job_id.isdecimal():
            return job_id
        raise refusal(returncode, errors, UNREACHABLE)

    def close(self) -> None:
        for started in self._started.values():
            _end(started)
        self._started.clear()

    def _start(self, job: Submission) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self._command(job), stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def _command(self, job: Submission) -> list[str]:
        number, user, _ = map(int, job.trace_numbers.split("/"))
        partition = job.queue or self.partitions.get(number)
        output, errors = (
            "/dev/null" if job.folder is None else str(job.folder / f"{job.name}.{which}%j") for which in "oe"
        )
        return [
            *self.command, "--parsable", "--requeue", "--open-mode=append",
            *(["--exclusive"] if self.exclusive else []),
            f"--job-name={job.name}", f"--nodes={job.nodes}", f"--time={walltime(job.estimate_us)}",
            f"--comment={job.trace_numbers}", f"--output={output}", f"--error={errors}", f"--chdir={job.folder or '/'}",
            f"--export={','.join(['ALL', *_with_values(job.variables)])}",
            *(["--hold"] if self.held else []),
            *([f"--partition={partition}"] if partition else []),
            *([f"--account={self.accounts[user]}"] if user in self.accounts else []),
            *self.options.get(job.number, ()),
            *(_as_user(self.users[user]) if user in self.users else []),
        ]  # fmt: skip

    def find(self, name: str) -> str | None:
        *before, sbatch = self.command
        squeue = str(Path(sbatch).with_name("squeue"))
        command = [*before, squeue, "--noheader", "--states=all", f"--name={name}", "--format=%A"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise QsubUnreachableError(done.stderr.strip() or f"squeue: exit status {done.returncode}")
        return next(iter(done.stdout.split()), None)


def _with_values(variables: Sequence[str]) -> list[str]:
    """Those that ALL has not. A list of any makes slurmd log the user in, and since 26.05 a job waits for that."""
    return [each for each in variables if "=" in each]


def is_user(name: str) -> bool:
    """Whether this machine has such a user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _as_user(name: str) -> list[str]:
    """Both, or the job's files would be in our group."""
    try:
        return [f"--uid={name}", f"--gid={pwd.getpwnam(name).pw_gid}"]
    except KeyError:
        raise QsubError(f"this machine has no user {name}") from None


def _send(started: subprocess.Popen[str], script: str) -> None:
    """Give it the script and the end of its input."""
    assert started.stdin is not None  # noqa: S101 - once
    with suppress(BrokenPipeError), started.stdin as pipe:  # one that ended says why
        pipe.write(script)
    started.stdin = None


def _answer(started: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, output and errors. Raises TimeoutExpired; then it has ended."""
    try:
        output, errors = started.communicate(timeout=_TIMEOUT_S)
    except BaseException:
        _end(started)
        raise
    return started.returncode, output, errors


def _end(started: subprocess.Popen[str]) -> None:
    """End it if it has not ended, its script unread: its input is closed last."""
    started.kill()
    started.wait()
    for pipe in (started.stdout, started.stderr, started.stdin):
        if pipe is not None:
            pipe.close()
