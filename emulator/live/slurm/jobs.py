"""What a mechanism wants done to jobs, done by Slurm's own commands.

    start            scontrol update ReqNodeList=... StartTime=now, scontrol release   (jobs are submitted held)
    any change       an order in a file, scancel --signal=USR2
    preempt          the order to stand still, with a checkpoint or without; once it is answered scontrol requeuehold
    suspend, resume  the same order, scontrol suspend; scontrol resume
    shrink           scontrol update NodeList=...
    expand           salloc --dependency=expand:JOB, scontrol update of that allocation to NumNodes=0
    move             preempt with a checkpoint, start on the other nodes

The mechanism decides by its own account; here each job is brought to what was decided last, one step after the other,
as Slurm and the job report them. A Slurm without slurmdbd takes no update of a running job any more that was resized
("the DB index is being set"): a second shrink is a move.
"""

from __future__ import annotations

import re
import subprocess
import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US, micros, seconds, wall_us
from emulator.kernel.job_states import RunOutcome
from emulator.live.job.control import NEWS, Order
from emulator.live.slurm.accounting import HELPER_NAME
from emulator.live.slurm.sbatch import UNREACHABLE
from emulator.text.json_lines import JsonLines, read_json_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from emulator.live.machine_follower import MachineFollower
    from emulator.machine.account import Account

_TIMEOUT_S = 120.0
_PATIENCE_S = 60.0
_RETRY_S = 0.2
_GRANTED = re.compile(r"Granted job allocation (\d+)")


class SlurmCommandError(RuntimeError):
    """A command that Slurm does not take; the text is Slurm's."""


class Stage(StrEnum):
    """Where a job is, as far as Slurm and the job have said."""

    WAITS = "waits"
    """In the queue, held; or not submitted yet."""
    ASKED = "asked"
    """Released to start on its nodes."""
    RUNS = "runs"
    """Its process has answered."""
    STOPS = "stops"
    """Told to stand still, because it has to leave."""
    LEAVES = "leaves"
    """Sent back to the queue; Slurm cleans up."""
    OVER = "over"


@dataclass(slots=True)
class _Job:
    row: int
    number: int
    partition: str = ""
    job_id: str = ""
    stage: Stage = Stage.WAITS
    target: tuple[str, ...] = ()
    """The nodes that the mechanism has given it; none: it is to wait."""
    has: tuple[str, ...] = ()
    """The nodes that it was started on, or resized to."""
    account: Account | None = None
    account_us: int = 0
    """When, in the mechanism's time, that account was given."""
    save_us: int | None = None
    saves: bool = False
    """Write a checkpoint when it leaves."""
    seq: int = 0
    heard: int = 0
    sent_account: Account | None = None
    was_resized: bool = False
    was_suspended: bool = False
    growth: subprocess.Popen[str] | None = None
    grows_to: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"j{self.number}"

    @property
    def is_to_be_suspended(self) -> bool:
        return self.sent_account is not None and self.sent_account.suspended and not self.was_suspended


class SlurmCommands:
    """Slurm's programs, in the folder where they are bound to a run (or PATH, for the site's own)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, program: str, *arguments: str) -> str:
        """What it prints. Raises SlurmCommandError; a slurmctld that does not answer may be starting again."""
        end_us = wall_us() + micros(_PATIENCE_S)
        while True:
            done = subprocess.run(
                [str(self._folder / program), *arguments],
                capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return done.stdout
            text = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
            if wall_us() > end_us or not any(sign in text.lower() for sign in UNREACHABLE):
                raise SlurmCommandError(f"{program} {' '.join(arguments)}: {text}")
            threading.Event().wait(_RETRY_S)

    def begin(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self._folder / program), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


class SlurmJobs:
    """`RunEffects` on Slurm. Everything happens in one thread. `orders`: the folder for orders and answers.

    `partition_of(row)`: where a job was submitted to, '' for the default; `refusals`: the file that names the
    on-demand jobs that get nothing.
    """

    def __init__(
        self,
        commands: SlurmCommands,
        numbers: Sequence[int],
        names: Sequence[str],
        *,
        orders: Path,
        refusals: Path,
        partition_of: Callable[[int], str] = lambda _: "",
    ) -> None:
        self.contradictions: list[str] = []
        self._commands = commands
        # A machine of ours takes back what it gave last, the lowest; Slurm cannot take its first node from a job.
        self._names = names[::-1]
        self._orders = orders
        self._refusals = refusals
        self._jobs = [_Job(row, int(number), partition_of(row)) for row, number in enumerate(numbers)]
        self._by_name = {job.name: job for job in self._jobs}
        self._follower: MachineFollower | None = None

    def follow(self, follower: MachineFollower) -> None:
        """Whose decisions these are; he knows nodes and accounts."""
        self._follower = follower

    # What the mechanism decides.

    def run_begins(self, row: int, now_us: int) -> None:  # noqa: ARG002
        job = self._jobs[row]
        self._take_over(job)
        job.save_us = None
        self._settle(job)

    def run_changes(self, row: int, now_us: int, save_us: int = NEVER_US, *, done: int | None = None) -> None:  # noqa: ARG002
        job = self._jobs[row]
        self._take_over(job)
        job.save_us = None if save_us == NEVER_US else max(0, save_us - job.account_us)
        self._settle(job)

    def run_leaves(self, row: int, now_us: int, *, save: bool, done: int | None = None) -> None:  # noqa: ARG002
        job = self._jobs[row]
        job.target, job.saves = (), save
        self._settle(job)

    def run_is_over(self, row: int, outcome: RunOutcome, now_us: int, done: int | None = None) -> None:  # noqa: ARG002
        """Of a job that finishes the process says so itself, when its work is done."""
        if outcome != RunOutcome.FINISHED:
            self._cancel(self._jobs[row])

    def job_rejected(self, row: int, reason: str, now_us: int) -> None:
        job = self._jobs[row]
        lines = JsonLines(self._refusals)
        lines.write({"number": job.number, "at_s": seconds(now_us), "reason": reason})
        lines.close()
        self._cancel(job)

    def _take_over(self, job: _Job) -> None:
        assert self._follower is not None  # noqa: S101 - `follow` comes first
        job.target = tuple(sorted(self._names[node] for node in self._follower.nodes_of(job.row)))
        job.account, job.account_us = self._follower.account(job.row), self._follower.now_us

    def _cancel(self, job: _Job) -> None:
        if job.stage != Stage.OVER and job.job_id:
            job.target = ()
            self._commands.run("scancel", job.job_id)

    # What Slurm and the jobs report.

    def submitted(self, number: int, job_id: str) -> None:
        self._by_name[f"j{number}"].job_id = job_id

    def heard(self, name: str, seq: int) -> None:
        """A job's process has done what order `seq` says."""
        job = self._by_name[name]
        job.heard = seq
        if job.stage == Stage.ASKED:
            job.stage = Stage.RUNS
            if seq != job.seq:
                self._signal(job)  # it began by an order that is not the last
            self._settle(job)
        elif job.stage == Stage.STOPS and seq == job.seq:
            self._stop_growing(job)
            job.stage = Stage.LEAVES
            self._do(job, "scontrol", "requeuehold", job.job_id)
        elif job.stage == Stage.RUNS and seq == job.seq and job.is_to_be_suspended:
            job.was_suspended = True
            self._do(job, "scontrol", "suspend", job.job_id)

    def run_ended(self, name: str, outcome: RunOutcome) -> None:
        """Slurm has written the end of a run into its job log."""
        job = self._by_name.get(name)
        if job is None or job.stage == Stage.OVER or outcome == RunOutcome.RESIZED:
            return
        self._stop_growing(job)
        job.stage = Stage.LEAVES if outcome == RunOutcome.REQUEUED else Stage.OVER

    def look(self) -> None:
        """What nobody reports: jobs that wait again, and allocations that are there."""
        leaving = [job for job in self._jobs if job.stage == Stage.LEAVES]
        if leaving:
            ids = ",".join(job.job_id for job in leaving)
            output = self._commands.run(
                "squeue", "--noheader", "--states=PENDING", f"--jobs={ids}", "--format=%A"
            )
            waiting = set(output.split())
            for job in leaving:
                if job.job_id in waiting:
                    self._waits_again(job)
        for job in self._jobs:
            if job.growth is not None and job.growth.poll() is not None:
                self._has_grown(job, job.growth)

    def _waits_again(self, job: _Job) -> None:
        job.stage, job.has, job.sent_account = Stage.WAITS, (), None
        job.was_resized = job.was_suspended = False
        self._settle(job)

    # One step towards what is wanted.

    def _settle(self, job: _Job) -> None:
        match job.stage:
            case Stage.WAITS if job.target and job.job_id:
                self._start(job)
            case Stage.ASKED if job.target != job.has:
                self._take_back(job)
            case Stage.ASKED:
                self._order(job)  # it reads the newest when it starts
            case Stage.RUNS if not job.target:
                self._stop(job, save=job.saves)
            case Stage.RUNS if job.target != job.has:
                self._resize(job)
            case Stage.RUNS if job.account != job.sent_account:
                self._tell(job)

    def _start(self, job: _Job) -> None:
        self._order(job)
        count = len(job.target)
        self._commands.run(
            "scontrol", "update", f"JobId={job.job_id}", f"ReqNodeList={','.join(job.target)}",
            f"NumNodes={count}-{count}", f"NumCPUs={count}",
            "StartTime=now",  # a job that was requeued would wait two minutes
        )  # fmt: skip
        self._commands.run("scontrol", "release", job.job_id)
        job.stage, job.has = Stage.ASKED, job.target

    def _take_back(self, job: _Job) -> None:
        """It was to start, and may have; then its process answers soon."""
        self._do(job, "scontrol", "hold", job.job_id)
        if self._state(job) == "PENDING":
            self._waits_again(job)

    def _tell(self, job: _Job) -> None:
        if job.was_suspended and job.account is not None and not job.account.suspended:
            job.was_suspended = False
            self._do(job, "scontrol", "resume", job.job_id)
        self._order(job)
        self._signal(job)

    def _stop(self, job: _Job, *, save: bool) -> None:
        if job.was_suspended:
            job.was_suspended = False
            self._do(job, "scontrol", "resume", job.job_id)
        job.stage = Stage.STOPS
        self._order(job, idle_us=None, save_us=0 if save else None)
        self._signal(job)

    def _resize(self, job: _Job) -> None:
        has, target = set(job.has), set(job.target)
        if target < has and job.has[0] in target and not job.was_resized:
            self._stop_growing(job)
            job.was_resized, job.has = True, job.target
            self._tell(job)
            self._do(job, "scontrol", "update", f"JobId={job.job_id}", f"NodeList={','.join(job.target)}")
        elif has < target:
            if job.growth is not None and job.grows_to != job.target:
                self._stop_growing(job)
            if job.growth is None:
                self._begin_to_grow(job)
        else:
            self._stop(job, save=True)

    def _begin_to_grow(self, job: _Job) -> None:
        more = sorted(set(job.target) - set(job.has))
        job.grows_to = job.target
        job.growth = self._commands.begin(
            "salloc", "--no-shell", "--exclusive", f"--job-name={HELPER_NAME}", f"--nodes={len(more)}",
            f"--nodelist={','.join(more)}", f"--dependency=expand:{job.job_id}", "--chdir=/",
            *([f"--partition={job.partition}"] if job.partition else []),
        )  # fmt: skip

    def _has_grown(self, job: _Job, growth: subprocess.Popen[str]) -> None:
        _, output = growth.communicate()
        job.growth = None
        granted = _GRANTED.search(output)
        if granted is None:
            raise SlurmCommandError(f"salloc --dependency=expand:{job.job_id}: {output.strip()}")
        if job.stage != Stage.RUNS or job.target != job.grows_to:
            self._commands.run("scancel", granted[1])
            self._settle(job)
            return
        self._commands.run("scontrol", "update", f"JobId={granted[1]}", "NumNodes=0")
        job.was_resized, job.has = True, job.grows_to
        self._tell(job)

    def _stop_growing(self, job: _Job) -> None:
        if job.growth is None:
            return
        job.growth.terminate()  # it takes its request back
        _, output = job.growth.communicate()
        job.growth = None
        if granted := _GRANTED.search(output):
            self._commands.run("scancel", granted[1])

    # Orders.

    def _order(self, job: _Job, **changes: Any) -> None:
        account = job.account
        job.seq += 1
        values: dict[str, Any] = {"seq": job.seq, "nodes": len(job.has or job.target)}
        if account is not None:
            job.sent_account = account
            stands = account.since_us == NEVER_US
            values |= {
                "num": account.num, "den": account.den, "total": account.total,
                "idle_us": None if stands else max(0, account.since_us - job.account_us),
                "save_us": job.save_us,
                "interval_us": account.interval_us, "cost_us": account.cost_us,
                # What counts is what the job itself has saved, unless it is to begin anew.
                "begun": 0 if account.done == 0 else None,
            }  # fmt: skip
        Order(**values | changes).write(self._orders / job.name)

    def _signal(self, job: _Job) -> None:
        self._do(job, "scancel", "--batch", f"--signal={NEWS.name.removeprefix('SIG')}", job.job_id)

    # Commands to jobs that run, which may end meanwhile: the job log tells that.

    def _do(self, job: _Job, program: str, *arguments: str) -> None:
        try:
            self._commands.run(program, *arguments)
        except SlurmCommandError:
            if self._state(job) in {"PENDING", "RUNNING", "SUSPENDED"}:
                raise

    def _state(self, job: _Job) -> str:
        """Empty for a job that Slurm does not know any more."""
        options = ("--noheader", "--states=all", f"--jobs={job.job_id}", "--format=%T")
        try:
            return self._commands.run("squeue", *options).strip()
        except SlurmCommandError:
            return ""


def refusals_in(path: Path) -> Mapping[int, tuple[float, str]]:
    """Number of each on-demand job that got nothing -> when (s), and why."""
    return dict(read_json_lines(path, _refusal, "a line of refusals"))


def _refusal(line: dict[str, Any]) -> tuple[int, tuple[float, str]]:
    return int(line["number"]), (float(line["at_s"]), str(line["reason"]))
