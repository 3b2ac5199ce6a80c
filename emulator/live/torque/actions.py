"""What the server tells agents to do to running jobs, and what it waits for before time may go on.

A run that has to leave is told so; a new run of the same job is only started when its agent has confirmed that the old
one is gone, because it may have to go on from the checkpoint that the old one writes.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.live.torque.batch_parts import Link, Server
    from emulator.live.torque.jobs import Job
    from emulator.simulation.executor_live import LiveExecutor


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
