"""The batch server itself: jobs, nodes and their agents around one scheduler (`scheduler.py`).

Everything here happens in the executor's thread and is told the cluster time. What goes out are messages to
agents (`Link.send`) and records of the accounting log.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from balancer.clock import micros
from emulator.kernel.job_states import RunOutcome
from emulator.live.torque import accounting, errors
from emulator.live.torque.format import REPORT_INTERVAL_US, View, started_comment
from emulator.live.torque.job_effects import JobEffects, RunActions
from emulator.live.torque.jobs import DELETED, Job, PbsState, outcome_of
from emulator.live.torque.nodes import Node, NodeFacts
from emulator.live.torque.scheduler import QueueScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from emulator.live.torque.accounting import AccountingLog
    from emulator.live.torque.config import ServerConfig
    from emulator.live.torque.job_effects import Link
    from emulator.live.torque.jobs import JobRequest
    from emulator.live.torque.nodes import MarksFile
    from emulator.live.torque.scheduler import Scheduler
    from emulator.simulation.executor_live import LiveExecutor

_JOB_ID = re.compile(r"(\d+)(?:\.(.+))?")


class BatchServer:
    """See the module's text. `marks` keeps what must survive a restart. `make_scheduler`: for one with a mechanism.

    `checks_work`: the clock waits for jobs, so that what they say of their work must be what their account says.
    """

    def __init__(
        self,
        config: ServerConfig,
        executor: LiveExecutor,
        log: AccountingLog,
        marks: MarksFile,
        *,
        make_scheduler: Callable[[JobEffects], Scheduler] | None = None,
        epoch_us: int,
        checks_work: bool = True,
    ) -> None:
        self.config = config
        self.scheduling = True
        self.comment = ""
        self._executor = executor
        self._log = log
        self._marks = marks
        self._epoch_us = epoch_us
        self._last_pass_us = -1
        self._links: dict[int, Link] = {}
        self._lost_us: dict[int, int] = {}
        self._jobs: dict[int, Job] = {}
        self._by_row: dict[int, Job] = {}
        self._offline_moves: list[tuple[int, int, bool]] = []
        self._down_moves: list[tuple[int, int, bool]] = []
        """When nodes failed and were repaired, as a scenario says."""
        self.contradictions: list[str] = []
        """What jobs say of themselves that their account does not, and nodes that went where they must not."""
        self.actions = RunActions(self, executor, checks_work=checks_work)
        self.scheduler: Scheduler = (
            QueueScheduler(config, executor)
            if make_scheduler is None
            else make_scheduler(JobEffects(self, self.actions, log))
        )
        self.nodes = [Node(name=name, index=index, np=config.np) for index, name in enumerate(config.nodes)]
        self._node_by_name = {node.name: node for node in self.nodes}
        self.next_number = marks.next_number
        for node in self.nodes:
            node.offline, node.note = marks.nodes.get(node.name, (False, ""))

    # What can be seen.

    def view(self, now_us: int) -> View:
        return View(
            server=self.config.server_name,
            queues=self.config.queues,
            epoch_us=self._epoch_us,
            now_us=now_us,
            last_pass_us=self._last_pass_us,
            nodes=self.nodes,
        )

    def jobs(self, now_us: int) -> list[Job]:
        """All jobs but those that have been complete for longer than `keep_completed`."""
        oldest_us = now_us - micros(self.config.keep_completed_s)
        for job in [job for job in self._jobs.values() if job.over and job.end_us < oldest_us]:
            del self._jobs[job.number]
        return list(self._jobs.values())

    def job(self, text: str, now_us: int) -> Job:
        """The job that a user calls `26` or `26.server`."""
        match = _JOB_ID.fullmatch(text)
        if match is None:
            raise errors.PbsError(1, "illegally formed job identifier:", text)
        self.jobs(now_us)
        number, suffix = match.groups()
        known = suffix in (None, self.config.server_name)
        job = self._jobs.get(int(number)) if known else None
        if job is None:
            raise errors.unknown_job(f"{number}.{suffix or self.config.server_name}")
        return job

    def job_of_row(self, row: int) -> Job:
        return self._by_row[row]

    def name_of(self, number: int) -> str:
        """`26.server`, or just the number of a job that is forgotten."""
        return self.id_of(self._jobs[number]) if number in self._jobs else str(number)

    def node(self, name: str) -> Node | None:
        return self._node_by_name.get(name)

    def is_manager(self, user: str) -> bool:
        return user in self.config.managers

    # What users ask for.

    def submit(self, request: JobRequest, now_us: int) -> Job:
        if request.queue not in self.config.queues:
            raise errors.unknown_queue()
        if request.nodes > len(self.nodes) or request.ppn > self.config.np:
            raise errors.infeasible()
        number = self.next_number
        row = self.scheduler.row_of(request, number, now_us)
        job = Job(number=number, row=row, request=request, ctime_us=now_us, mtime_us=now_us)
        job.user_hold = request.hold and isinstance(self.scheduler, QueueScheduler)
        job.etime_us = -1 if job.user_hold else now_us
        self._by_row[row] = job
        self._jobs[number] = job
        self.next_number += 1
        self._marks.save(self.next_number, self.nodes)
        self._log.write("Q", job, self.view(now_us), accounting.queued(job))
        self.scheduler.submit(row, now_us, held=job.user_hold)
        self._follow_holds(job, now_us)
        return job

    def delete(self, job: Job, requestor: str, now_us: int, *, purge: bool = False) -> None:
        """qdel; `purge` (qdel -p) forgets a job whose agent cannot be asked."""
        job_id = self.id_of(job)
        scheduler = self._for_users(job_id)
        if requestor != job.request.user and not self.is_manager(requestor):
            raise errors.unauthorized(f"MSG=operation not permitted {job_id}")
        if job.over:
            raise errors.bad_state(job_id, "invalid state for job - COMPLETE")
        if purge and not self.is_manager(requestor):
            raise errors.unauthorized(f"MSG=operation not permitted {job_id}")
        running = job.exec_nodes and job.state in (PbsState.RUNNING, PbsState.EXITING)
        if running and not purge and job.exec_nodes[0] not in self._links:
            raise errors.PbsError(1, "Server could not connect to MOM", job_id)
        self._log.write(
            "D", job, self.view(now_us), accounting.deleted(f"{requestor}@{self.config.server_name}")
        )
        if not running:
            scheduler.cancel(job.row, now_us)
            self.complete(job, DELETED, now_us)
        elif purge:
            self._over(job, RunOutcome.CANCELLED, DELETED, now_us)
        elif job.state != PbsState.EXITING:
            self._kill(job, "delete", now_us)

    def _for_users(self, job_id: str) -> QueueScheduler:
        """A mechanism's jobs are in its hands: what it does not expect would not be in its account."""
        if not isinstance(self.scheduler, QueueScheduler):
            raise errors.unauthorized(f"MSG=a mechanism decides about the jobs here {job_id}")
        return self.scheduler

    def rerun(self, job: Job, now_us: int) -> None:
        """Send a running job back to the queue (qrerun)."""
        job_id = self.id_of(job)
        self._for_users(job_id)
        if job.state != PbsState.RUNNING:
            raise errors.bad_state(job_id, f"job {job_id} is in a bad state")
        if not job.request.rerunnable:
            raise errors.not_rerunnable(job_id)
        if job.exec_nodes[0] not in self._links:
            raise errors.PbsError(1, "Server could not connect to MOM", job_id)
        self._log.write("R", job, self.view(now_us))
        self._kill(job, "requeue", now_us)

    def _kill(self, job: Job, why: str, now_us: int, *, dead: str = "") -> None:
        job.state, job.mtime_us, job.ended_by = PbsState.EXITING, now_us, why
        self.actions.kill(job, why, dead=dead)

    def hold(self, job: Job, now_us: int) -> None:
        """qhold; a running job only remembers it."""
        self._for_users(self.id_of(job))
        if job.over:
            raise errors.bad_state(self.id_of(job), "invalid state for job - COMPLETE")
        job.user_hold, job.mtime_us = True, now_us
        self._follow_holds(job, now_us)

    def release_hold(self, job: Job, now_us: int) -> None:
        """qrls: the job becomes eligible, which is a reason for a scheduling cycle."""
        job.user_hold, job.mtime_us = False, now_us
        if job.etime_us < 0:
            job.etime_us = now_us
        self._follow_holds(job, now_us)

    def release_deferred(self, job: Job, now_us: int) -> None:
        """Maui's `releasehold`."""
        job.deferred = False
        self._follow_holds(job, now_us)

    def _follow_holds(self, job: Job, now_us: int) -> None:
        """Tell the scheduler of a waiting job's holds; one that is released is a reason for a pass."""
        if job.state in (PbsState.QUEUED, PbsState.HELD):
            self.scheduler.hold(job.row, now_us, held=job.user_hold or job.deferred)
            job.state = PbsState.HELD if job.user_hold else PbsState.QUEUED

    def mark(
        self,
        node: Node,
        now_us: int,
        *,
        offline: bool | None = None,
        note: str | None = None,
        reset: bool = False,
    ) -> None:
        """Do pbsnodes -o, -c, -N and -r. Clearing a node is no reason for a scheduling cycle."""
        if offline is not None and offline != node.offline:
            node.offline = offline
            self._offline_moves.append((now_us, node.index, offline))
            if offline and self.scheduling and self.config.cycle_after_offline:
                self._executor.ask_for_pass(now_us)
        if note is not None:
            node.note = note
        if reset:
            node.down = True
            report_us = (now_us // REPORT_INTERVAL_US + 1) * REPORT_INTERVAL_US
            self._executor.at(report_us, lambda at_us: self._report(node, at_us))
        self._follow_marks(node, now_us)
        self._marks.save(self.next_number, self.nodes)

    def _follow_marks(self, node: Node, now_us: int) -> None:
        if node.usable and not node.pooled:
            self.scheduler.node_back(node.index, now_us)
        elif node.pooled and not node.usable:
            is_let_go = self.scheduler.node_gone(node.index, now_us, died=node.down)
            if not is_let_go:
                self.contradictions.append(
                    f"node {node.name} is gone, and the mechanism's machine still has it"
                )
        node.pooled = node.usable

    def fail_node(self, index: int, now_us: int, *, lost: bool) -> None:
        """The node and all that runs on it are gone: its jobs wait again, or are lost; their other nodes are well."""
        node = self.nodes[index]
        self._down_moves.append((now_us, index, True))
        for number in sorted(node.jobs):
            job = self._jobs[number]
            if job.state == PbsState.RUNNING:
                self._kill(job, "delete" if lost else "requeue", now_us, dead=node.name)
        node.down = True
        if not node.jobs:
            self._follow_marks(node, now_us)  # else when they have left, as in virtual time
        self._executor.ask_for_pass(now_us)  # without this node another job may be backfilled

    def repair_node(self, index: int, now_us: int) -> None:
        node = self.nodes[index]
        self._down_moves.append((now_us, index, False))
        self._report(node, now_us)
        self._executor.ask_for_pass(now_us)

    def start_cycle(self, now_us: int) -> None:
        """`qmgr -c "set server scheduling = True"`."""
        self.scheduling = True
        self._executor.ask_for_pass(now_us)

    # Scheduling.

    def schedule_pass(self, now_us: int) -> None:
        """One scheduling cycle; the next comes after `scheduler_iteration` at the latest."""
        self._executor.ask_for_pass(now_us + self.scheduler.iteration_us)
        if not self.scheduling:
            return
        if self.config.maui_defer_s:
            self._defer(now_us)
        self._last_pass_us = now_us
        for row in self.scheduler.schedule_pass(now_us):
            self.run_begins(row, now_us)
        self.scheduler.pass_over(now_us)

    def _defer(self, now_us: int) -> None:
        """Maui puts a job that is wider than the nodes that are not offline aside for DEFERTIME."""
        online = sum(node.usable for node in self.nodes)
        until_us = now_us + micros(self.config.maui_defer_s)
        for job in self._jobs.values():
            if job.state == PbsState.QUEUED and not job.deferred and job.request.nodes > online:
                job.deferred = True
                self._follow_holds(job, now_us)
                self._executor.at(until_us, partial(self.release_deferred, job))

    def run_begins(self, row: int, now_us: int) -> None:
        """A job has got nodes."""
        job = self._by_row[row]
        # Real Torque listed a job's nodes from the highest down; the first is the mother superior.
        job.exec_nodes = tuple(sorted(self.scheduler.nodes_of(job.row), reverse=True))
        job.state, job.start_us, job.mtime_us = PbsState.RUNNING, now_us, now_us
        job.run += 1
        job.session, job.ended_by = None, ""
        view = self.view(now_us)
        job.comment = started_comment(view.moment(now_us))
        self.occupy(job)
        self._log.write("S", job, view, accounting.started(job, view))
        lost = [index for index in job.exec_nodes if index not in self._links]
        if lost:
            self._cannot_start(job, lost, now_us)
            return
        self.actions.begin(job)

    def link_of(self, job: Job) -> Link | None:
        """The way to the agent of a running job's mother superior."""
        return self._links.get(job.exec_nodes[0]) if job.exec_nodes else None

    def is_served_by(self, node: int, link: Link) -> bool:
        return self._links.get(node) is link

    def _cannot_start(self, job: Job, lost: Sequence[int], now_us: int) -> None:
        """A node whose agent is gone turned out to be dead: it is down from now on, the job waits again."""
        for index in lost:
            self.nodes[index].down = True
            self._follow_marks(self.nodes[index], now_us)
        self._requeue(job, now_us, exit_status=-3, pass_at_us=now_us + micros(self.config.requeue_delay_s))

    # What agents report.

    def register(
        self,
        link: Link,
        names: Sequence[str],
        slots: int,
        running: Iterable[tuple[int, int]],
        now_us: int,
        *,
        facts: NodeFacts | None = None,
    ) -> dict[str, Any]:
        """An agent serves these nodes and runs these jobs, as (number, run). Returns the answer to it."""
        unknown = [name for name in names if name not in self._node_by_name]
        if unknown:
            error = f"unknown nodes: {', '.join(unknown)}; see `nodes` in the server's file"
            return {"do": "refused", "error": error}
        if slots != self.config.np:
            error = f"the agent's nodes have np = {slots}, the server's have np = {self.config.np}"
            return {"do": "refused", "error": error}
        indices = {self._node_by_name[name].index for name in names}
        # The cluster uses the node first that came last: the first node of the list, as at its beginning.
        for index in sorted(indices, reverse=True):
            self._links[index] = link
            self.nodes[index].facts = facts
            self._report(self.nodes[index], now_us)
        here = set(running)
        expected = {(job.number, job.run): job for job in self._jobs.values() if self._runs_on(job, indices)}
        starts = []
        for key in expected.keys() - here:
            self._executor.hold(("start", *key))
            starts.append(self.actions.start_message(expected[key], adopt=expected[key].session is not None))
        if not any(node.down for node in self.nodes):
            self.scheduler.nodes_are_up(now_us)
        return {"do": "registered", "start": starts, "drop": sorted(here - set(expected))}

    def _runs_on(self, job: Job, nodes: set[int]) -> bool:
        there = job.state in (PbsState.RUNNING, PbsState.SUSPENDED, PbsState.EXITING)
        return there and job.exec_nodes[0] in nodes

    def _report(self, node: Node, now_us: int) -> None:
        """The node's mom is heard from: it is up, unless a lost agent means that nobody spoke."""
        if node.index in self._links:
            node.down, node.seen_us = False, now_us
            self._follow_marks(node, now_us)

    def lost(self, link: Link, now_us: int) -> None:
        """An agent is gone: its nodes will be down after a while; its jobs stay R, as in Torque."""
        indices = {index for index, served_by in self._links.items() if served_by is link}
        for index in indices:
            del self._links[index]
            self._lost_us[index] = now_us
        for job in self._jobs.values():
            if self._runs_on(job, indices):
                self._executor.release(("start", job.number, job.run))
                self._executor.release(("kill", job.number, job.run))
        self.actions.lost(link)

        def check(at_us: int) -> None:
            for index in indices - set(self._links):
                if self._lost_us[index] == now_us:  # and not once more since then
                    self.nodes[index].down = True
                    self._follow_marks(self.nodes[index], at_us)

        self._executor.at(now_us + micros(self.config.node_down_after_s), check)

    def started(self, number: int, run: int, session: int) -> None:
        """The prologue let the job start and its agent knows when it ends."""
        job = self._jobs.get(number)
        if job is not None and job.run == run:
            job.session = session
        self._executor.release(("start", number, run))

    def ended(
        self, number: int, run: int, exit_status: int, session: int, now_us: int, *, requeue: bool,
        done: int | None = None,
    ) -> None:  # fmt: skip
        """A run is over, its epilogue included; `requeue`: the prologue sent the job back; `done`: what it has done."""
        job = self._jobs.get(number)
        if self.actions.has_left(number, run, done):
            pass  # it had to: all is accounted for
        elif job is not None and job.run == run and self._runs_on(job, set(job.exec_nodes)):
            job.session = session
            had = job.exec_nodes
            if job.state == PbsState.SUSPENDED:  # its process is gone, and its memory with it
                self._requeue(job, now_us, exit_status=exit_status, pass_at_us=now_us)
            elif job.ended_by == "requeue":
                self._requeue(job, now_us, exit_status=0, pass_at_us=now_us)
            elif job.ended_by == "delete":
                self._over(job, RunOutcome.CANCELLED, exit_status, now_us)
            elif requeue:
                later_us = now_us + micros(self.config.requeue_delay_s)
                self._requeue(job, now_us, exit_status=exit_status, pass_at_us=later_us)
            else:
                self._over(job, outcome_of(exit_status), exit_status, now_us)
            for node in (self.nodes[index] for index in had if self.nodes[index].down):
                self._follow_marks(node, now_us)
        self._executor.release(("start", number, run))
        self._executor.release(("kill", number, run))

    def _over(self, job: Job, outcome: RunOutcome, exit_status: int, now_us: int) -> None:
        if not self.scheduler.run_ended(job.row, outcome, now_us):
            self.contradictions.append(
                f"job {self.id_of(job)} ended with status {exit_status} before its end"
            )
            return
        self.vacate(job)
        self.complete(job, exit_status, now_us)
        view = self.view(now_us)
        self._log.write("E", job, view, accounting.ended(job, view))
        self._executor.ask_for_pass(now_us)

    def complete(self, job: Job, exit_status: int, now_us: int) -> None:
        job.state, job.exit_status, job.end_us, job.mtime_us = PbsState.COMPLETE, exit_status, now_us, now_us

    def _requeue(self, job: Job, now_us: int, *, exit_status: int, pass_at_us: int) -> None:
        self.scheduler.run_lost(job.row, now_us)
        job.exit_status = exit_status
        self.wait_again(job, now_us)
        self._executor.ask_for_pass(pass_at_us)

    def wait_again(self, job: Job, now_us: int) -> None:
        self.vacate(job)
        job.exec_nodes = ()
        job.state, job.start_us, job.mtime_us = PbsState.QUEUED, -1, now_us
        self._follow_holds(job, now_us)

    def occupy(self, job: Job) -> None:
        job.slots = self.scheduler.slots_of(job.row)
        for index in job.exec_nodes:
            self.nodes[index].jobs[job.number] = job.slots_on(index)

    def vacate(self, job: Job) -> None:
        for index in job.exec_nodes:
            self.nodes[index].jobs.pop(job.number, None)

    # Afterwards.

    def short_state(self) -> dict[str, bool | int]:
        """Whether all nodes are up, a mechanism's run has come to its end, all jobs know what was done to them.

        `nodes_served`: those whose agent is there now; a node whose agent is gone is down only after a while.
        """
        # Between an end and the pass that follows it nothing runs either: that is not the end of all.
        over = self.scheduler.is_over and self._executor.is_idle
        return {
            "all_nodes_up": not any(node.down for node in self.nodes),
            "nodes_served": len(self._links),
            "is_over": over,
            "all_told": self.actions.all_done,
        }

    def export(self) -> dict[str, Any]:
        """Every job and run exactly, in us of cluster time; node numbers are places in `nodes`."""
        ready = {"all_nodes_up": not any(node.down for node in self.nodes), "nodes": self.config.nodes}
        facts = {node.name: asdict(node.facts) for node in self.nodes if node.facts is not None}
        exit_status = {row: job.exit_status for row, job in self._by_row.items()}
        moves = {"offline": self._offline_moves}
        if self.config.failures is not None:
            moves["down"] = self._down_moves
        return ready | {"facts": facts} | moves | self.scheduler.export(exit_status)

    def id_of(self, job: Job) -> str:
        return f"{job.number}.{self.config.server_name}"
