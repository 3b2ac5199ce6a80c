"""What a mechanism does to running jobs of the batch server: in its books, and by its agents.

A run that has to leave is told so; a new run of the same job is only started when its agent has confirmed that the old
one is gone, because it may have to go on from the checkpoint that the old one writes.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from balancer.clock import NEVER_US
from emulator.kernel.job_states import RunOutcome
from emulator.live.torque import accounting
from emulator.live.torque.jobs import DELETED, OVER_WALLTIME, PbsState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.live.torque.accounting import AccountingLog
    from emulator.live.torque.config import ServerConfig
    from emulator.live.torque.format import View
    from emulator.live.torque.jobs import Job
    from emulator.live.torque.nodes import Node
    from emulator.live.torque.scheduler import Scheduler
    from emulator.simulation.executor_live import LiveExecutor


class Link(Protocol):
    """The way to an agent. `send` never fails: a broken connection is reported as lost instead."""

    def send(self, message: dict[str, Any]) -> None: ...


class Server(Protocol):
    """A batch server's jobs and nodes. Jobs are found by their row of the workload; times are us.

    `contradictions`: what jobs say of themselves that their account does not.
    """

    config: ServerConfig
    scheduler: Scheduler
    nodes: list[Node]
    contradictions: list[str]

    def view(self, now_us: int) -> View:
        """Itself, for what it prints."""

    def job_of_row(self, row: int) -> Job: ...

    def id_of(self, job: Job) -> str: ...

    def name_of(self, number: int) -> str:
        """`26.server`, or just the number of a job that is forgotten."""

    def link_of(self, job: Job) -> Link | None:
        """The way to the agent of a running job's mother superior."""

    def is_served_by(self, node: int, link: Link) -> bool: ...

    def run_begins(self, row: int, now_us: int) -> None:
        """A job has got nodes."""

    def occupy(self, job: Job) -> None:
        """Its nodes have the job."""

    def vacate(self, job: Job) -> None:
        """Its nodes do not have the job any more."""

    def wait_again(self, job: Job, now_us: int) -> None:
        """The job loses its nodes and is queued."""

    def complete(self, job: Job, exit_status: int, now_us: int) -> None:
        """The job is over."""


class RunActions:
    """The messages about runs that are under way. Everything happens in the executor's thread."""

    def __init__(self, batch: Server, executor: LiveExecutor, *, checks_work: bool) -> None:
        self._batch = batch
        self._checks_work = checks_work
        self._executor = executor
        self._leaving: dict[int, tuple[int, Link, int | None]] = {}
        """Job number -> the run that is still to be gone, its agent, and the work that it should have done."""
        self._starting: dict[int, Job] = {}
        """Jobs whose next run waits for that."""
        self._changing: dict[int, tuple[Job, Link, int | None]] = {}
        self._sequence = count()

    @property
    def all_done(self) -> bool:
        """No run is on its way to or from its node, and none has something to hear."""
        return not (self._leaving or self._starting or self._changing)

    def begin(self, job: Job) -> None:
        """Start the job's present run."""
        self._executor.hold(("start", job.number, job.run))
        if job.number in self._leaving:
            self._starting[job.number] = job
        else:
            self._send_start(job)

    def start_message(self, job: Job, *, adopt: bool) -> dict[str, Any]:
        """What the agent of the job's mother superior has to know; `adopt`: its processes are there already."""
        request, phase = job.request, self._batch.scheduler.phase(job.row)
        extra = {} if phase is None else {"phase": phase}
        return extra | {
            "do": "start",
            "adopt": adopt,
            "job": job.number,
            "run": job.run,
            "id": self._batch.id_of(job),
            "name": request.name,
            "user": request.user,
            "group": request.group,
            "queue": request.queue,
            "account": request.account,
            "resources": request.requested,
            "neednodes": request.neednodes,
            "ppn": len(job.slots_on(job.exec_nodes[0])),
            "hosts": [self._batch.nodes[index].name for index in job.exec_nodes],
            "cores": self._batch.scheduler.cores_of(job.row),
            "workdir": request.workdir,
            "join": request.join,
            "output_path": request.output_path or f"{request.name}.o{job.number}",
            "error_path": request.error_path or f"{request.name}.e{job.number}",
            "environment": dict(request.variables),
            "script": request.script,
            "start_us": job.start_us,
            "walltime_us": request.walltime_us,
        }

    def _send_start(self, job: Job) -> None:
        link = self._batch.link_of(job)
        if link is None:  # lost meanwhile: told when the agent registers again
            self._executor.release(("start", job.number, job.run))
        else:
            link.send(self.start_message(job, adopt=False))

    def leave(self, job: Job, *, save: bool = False, is_over: bool = False, done: int | None = None) -> None:
        """The job's present run ends now: because all its work is done (`is_over`), or it has to wait again."""
        link = self._batch.link_of(job)
        if self._starting.pop(job.number, None) is not None:  # it never came to its node
            self._executor.release(("start", job.number, job.run))
        elif link is not None:
            self._send_leave(job, link, "over" if is_over else "preempt", save=save, done=done)

    def _send_leave(self, job: Job, link: Link, why: str, *, save: bool, done: int | None) -> None:
        number, run = job.number, job.run
        self._leaving[number] = (run, link, done)
        self._executor.release(("start", number, run))
        self._executor.hold(("kill", number, run))
        link.send({"do": "kill", "job": number, "run": run, "why": why, "save": save})

    def kill(self, job: Job, why: str, *, dead: str = "") -> None:
        """A user ends the job (`delete`) or sends it back (`requeue`): its agent reports the end.

        `dead`: one of its nodes, which is gone; nothing happens there any more.
        """
        link = self._batch.link_of(job)
        if link is not None:
            self._executor.hold(("kill", job.number, job.run))
            extra = {"dead": dead} if dead else {}
            link.send({"do": "kill", "job": job.number, "run": job.run, "why": why} | extra)

    def move(self, job: Job, old: Link, done: int | None) -> None:
        """The job goes on with all its work on the nodes of another agent."""
        self._send_leave(job, old, "preempt", save=True, done=done)
        job.run += 1
        self.begin(job)

    def change(self, job: Job, hosts: Sequence[str], save_us: int, done: int | None) -> None:
        """Tell the job's agent its nodes and its phase."""
        link = self._batch.link_of(job)
        if link is None or job.number in self._starting:
            return  # told when it starts
        seq = next(self._sequence)
        self._changing[seq] = (job, link, done)
        self._executor.hold(("change", seq))
        values = {"job": job.number, "run": job.run, "seq": seq, "hosts": hosts, "save_us": save_us}
        link.send({"do": "change", "phase": self._batch.scheduler.phase(job.row)} | values)

    def changed(self, seq: int, job_done: int | None = None) -> None:
        """A job knows of a change, and says how much it has done."""
        job, _, done = self._changing.pop(seq, (None, None, None))
        if job is not None:
            self._hold_against(job.number, job_done, done)
        self._executor.release(("change", seq))

    def has_left(self, number: int, run: int, job_done: int | None = None) -> bool:
        """An agent says that a run is over, and what it has done: whether it was one that had to leave."""
        if self._leaving.get(number, (-1,))[0] != run:
            return False
        self._hold_against(number, job_done, self._leaving.pop(number)[2])
        self._executor.release(("kill", number, run))
        job = self._starting.pop(number, None)
        if job is not None:
            self._send_start(job)
        return True

    def _hold_against(self, number: int, job_done: int | None, done: int | None) -> None:
        """What a job says that it has done, and what its account says; None where one of them says nothing."""
        if self._checks_work and job_done != done and None not in (job_done, done):
            job = self._batch.name_of(number)
            self._batch.contradictions.append(
                f"job {job} has done {job_done} units of work, by its account {done}"
            )

    def lost(self, link: Link) -> None:
        """An agent is gone, and with it its processes: nothing is to be waited for."""
        for seq in [seq for seq, (_, agent, _) in self._changing.items() if agent is link]:
            self.changed(seq)
        for number, (run, agent, _) in list(self._leaving.items()):
            if agent is link:
                self.has_left(number, run)


class JobEffects:
    """Carries out what a mechanism decides. Jobs are rows of the workload, times are us.

    `done`: the work that a job has done by now; what it says of itself is held against that.
    """

    def __init__(self, batch: Server, actions: RunActions, log: AccountingLog) -> None:
        self._batch = batch
        self._actions = actions
        self._log = log

    @property
    def contradictions(self) -> list[str]:
        """What jobs said of themselves that their account does not."""
        return self._batch.contradictions

    def run_begins(self, row: int, now_us: int) -> None:
        """The job has nodes from now on."""
        self._batch.run_begins(row, now_us)

    def run_leaves(self, row: int, now_us: int, *, save: bool, done: int | None = None) -> None:
        """The job has lost its nodes and waits again; `save`: it may write a checkpoint first, which takes no time."""
        job = self._batch.job_of_row(row)
        self._log.write("R", job, self._batch.view(now_us))
        self._actions.leave(job, save=save, done=done)
        self._batch.wait_again(job, now_us)

    def run_changes(self, row: int, now_us: int, save_us: int = NEVER_US, *, done: int | None = None) -> None:
        """Other nodes or another phase; `save_us`: when what is done by now is a whole checkpoint."""
        job = self._batch.job_of_row(row)
        link = self._batch.link_of(job)
        nodes = sorted(self._batch.scheduler.nodes_of(row), reverse=True)
        if link is not None and set(nodes) != set(job.exec_nodes):
            self._batch.vacate(job)
            # The mother superior stays if it can; another node of its agent may take over, else the job moves.
            places = [job.exec_nodes[0], *(node for node in nodes if self._batch.is_served_by(node, link))]
            first = next((node for node in places if node in nodes), nodes[0])
            job.exec_nodes = (first, *(node for node in nodes if node != first))
            self._batch.occupy(job)
            if not self._batch.is_served_by(first, link):
                self._actions.move(job, link, done)
                return
        job.mtime_us = now_us
        self._actions.change(job, self._hosts(job), save_us, done)

    def run_suspends(self, row: int, now_us: int, *, done: int | None = None) -> None:
        """The job stands still and keeps its processes; others may have its nodes."""
        job = self._batch.job_of_row(row)
        self._batch.vacate(job)
        job.state, job.mtime_us = PbsState.SUSPENDED, now_us
        self._actions.change(job, self._hosts(job), NEVER_US, done)

    def run_resumes(self, row: int, now_us: int, save_us: int, *, done: int | None = None) -> None:
        """The job has its nodes again; `save_us` as for `run_changes`."""
        job = self._batch.job_of_row(row)
        self._batch.occupy(job)
        job.state, job.mtime_us = PbsState.RUNNING, now_us
        self._actions.change(job, self._hosts(job), save_us, done)

    def _hosts(self, job: Job) -> list[str]:
        return [self._batch.nodes[index].name for index in job.exec_nodes]

    def run_is_over(self, row: int, outcome: RunOutcome, now_us: int, done: int | None = None) -> None:
        """The job has come to its end by the account of a machine that keeps the time itself."""
        job = self._batch.job_of_row(row)
        self._actions.leave(job, is_over=outcome == RunOutcome.FINISHED, done=done)
        self._batch.vacate(job)
        self._batch.complete(job, OVER_WALLTIME if outcome == RunOutcome.KILLED else 0, now_us)
        view = self._batch.view(now_us)
        self._log.write("E", job, view, accounting.ended(job, view))

    def job_rejected(self, row: int, reason: str, now_us: int) -> None:
        """An on-demand job gets nothing."""
        job = self._batch.job_of_row(row)
        job.comment = reason
        self._log.write(
            "D",
            job,
            self._batch.view(now_us),
            accounting.deleted(f"mechanism@{self._batch.config.server_name}"),
        )
        self._batch.complete(job, DELETED, now_us)
