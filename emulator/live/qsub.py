"""Submitting jobs with the batch system's own command."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from balancer.clock import US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SUBMITTERS = "emulator.submitters"
TRACE_NUMBERS = "TRACE_NUMBERS"
"""The variable with which a replayed job says its queue, user and group in the trace, as in `3/17/-1`."""
_TIMEOUT_S = 60.0
_RETRY_S = 0.5
_UNREACHABLE = ("cannot connect", "connection refused", "unable to communicate", "timed out", "pbs_iff")


class QsubError(Exception):
    """The job was not accepted; the text is the command's."""


class QsubUnreachableError(QsubError):
    """Nobody answered: the same command may succeed later."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, to run in `folder`. `estimate_us` is its limit.

    `number`: its own in the trace, `trace_numbers`: its queue, user and group there; `variables`: for its environment,
    NAME or NAME=VALUE.
    """

    name: str
    nodes: int
    estimate_us: int
    script: str
    trace_numbers: str = "-1/-1/-1"
    queue: str | None = None
    variables: Sequence[str] = ()
    folder: Path | None = None
    number: int = -1


class Submitter(Protocol):
    """A batch system's own way of taking jobs; a plug-in (`emulator.submitters`)."""

    def submit(self, job: Submission) -> str:
        """The identifier that the job got. Raises QsubError."""

    def find(self, name: str) -> str | None:
        """The identifier of a job with this name that waits or runs, or was over a short while ago."""


@runtime_checkable
class Prepares(Protocol):
    """A submitter that can begin with jobs before their time: so many `ahead`."""

    ahead: int

    def prepare(self, job: Submission) -> None:
        """Begin; the batch system must not hear of it. What is wrong with the job is told by `submit`."""

    def send(self, job: Submission) -> None:
        """Submit one that was prepared, without waiting for the answer, which `submit` returns then."""

    def close(self) -> None:
        """What was prepared and not submitted never will be."""


@dataclass(frozen=True, slots=True)
class Qsub:
    """The command that submits, and the queue it submits to."""

    command: Sequence[str] = ("qsub",)
    queue: str = "batch"
    environment: Mapping[str, str] | None = None

    def submit(self, job: Submission) -> str:
        resources = f"nodes={job.nodes},walltime={walltime(job.estimate_us)}"
        more = ["-v", ",".join([f"{TRACE_NUMBERS}={job.trace_numbers}", *job.variables])]
        more += [] if job.folder is None else ["-d", str(job.folder)]
        command = [*self.command, "-N", job.name, "-l", resources, "-q", job.queue or self.queue, *more]
        try:
            done = self._run(command, job.script)
        except subprocess.TimeoutExpired as error:
            raise QsubUnreachableError(f"no answer within {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise QsubError(str(error)) from error
        if done.returncode == 0 and (job_id := done.stdout.strip()):
            return job_id
        raise refusal(done.returncode, done.stderr, _UNREACHABLE)

    def find(self, name: str) -> str | None:
        command = [*self.command[:-1], str(Path(self.command[-1]).with_name("qselect")), "-N", name]
        while True:
            done = self._run(command)
            if done.returncode == 0:
                return next(iter(done.stdout.split()), None)
            if not any(sign in done.stderr.lower() for sign in _UNREACHABLE):
                raise QsubError(done.stderr.strip() or f"qselect: exit status {done.returncode}")
            threading.Event().wait(_RETRY_S)

    def _run(self, command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, env=self.environment, check=False
        )  # fmt: skip


def refusal(status: int, errors: str, unreachable: Iterable[str]) -> QsubError:
    """Of a command that has submitted nothing. `unreachable`: what it says where nobody answered it."""
    text = errors.strip() or f"exit status {status} without a word"
    kind = QsubUnreachableError if any(sign in text.lower() for sign in unreachable) else QsubError
    return kind(text)


def sleeping(run_us: int) -> str:
    """The script of a job that sleeps so long.

    No process is left over where the job is killed: the first process of a container may take seconds to see that one
    is gone, and until then a batch system does not have the job's nodes back.
    """
    return f"#!/bin/sh\nexec sleep {seconds_text(run_us)}\n"


def working(run_us: int, nodes: int, checkpoints: Path, *options: str) -> str:
    """The script of a job that owes so much work, as a process that proves it; `options`: more of `emulator-job`'s."""
    words = [sys.executable, "-m", "emulator.live.job.program", "--work", seconds_text(run_us * nodes)]
    words += ["--checkpoints", str(checkpoints), *options]
    if options:  # its time comes from a file; a faster machine's would confuse it
        words = ["env", "-u", "LD_PRELOAD", *words]
    return f"#!/bin/sh\nexec {shlex.join(words)}\n"


def following(clock: Path, name: str, nodes: int, orders: Path | None) -> list[str]:
    """Options of a job that nobody tells the time: it reads the clock itself, and orders, if somebody gives them."""
    orders_option = [] if orders is None else ["--orders", str(orders / name)]
    return ["--free-clock", str(clock), "--name", name, "--nodes", str(nodes), *orders_option]


def computing() -> str:
    """The script of a job that computes on its processors until it is ended."""
    return f"#!/bin/sh\nexec {sys.executable} -m emulator.live.job.spin\n"


def walltime(time_us: int) -> str:
    """HH:MM:SS, rounded up to whole seconds, since a limit below the run time would kill the job."""
    total_s = max(1, -(-time_us // US))
    return f"{total_s // 3600:02d}:{total_s // 60 % 60:02d}:{total_s % 60:02d}"


def seconds_text(time_us: int) -> str:
    """Seconds to the microsecond, without needless zeros."""
    return f"{time_us // US}.{time_us % US:06d}".rstrip("0").rstrip(".")
