"""What the server tells agents to do to running jobs, and what it waits for before time may go on.

A run that has to leave is told so; a new run of the same job is only started when its agent has confirmed that the old
one is gone, because it may have to go on from the checkpoint that the old one writes.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.harness.executor_live import LiveExecutor
    from emulator.live.torque.batch import BatchServer, Link
    from emulator.live.torque.jobs import Job


class RunActions:
    """The messages about runs that are under way. Everything happens in the executor's thread."""

    def __init__(self, batch: BatchServer, executor: LiveExecutor) -> None:
        self._batch = batch
        self._executor = executor
        self._leaving: dict[int, tuple[int, Link]] = {}
        """Job number -> the run that is still to be gone, and its agent."""
        self._starting: dict[int, Job] = {}
        """Jobs whose next run waits for that."""
        self._changing: dict[int, Link] = {}
        self._sequence = count()

    def begin(self, job: Job) -> None:
        """Start the job's present run."""
        self._executor.hold(("start", job.number, job.run))
        if job.number in self._leaving:
            self._starting[job.number] = job
        else:
            self._send_start(job)

    def _send_start(self, job: Job) -> None:
        link = self._batch.link_of(job)
        if link is None:  # lost meanwhile: told when the agent registers again
            self._executor.release(("start", job.number, job.run))
        else:
            link.send(self._batch.start_message(job, adopt=False))

    def leave(self, job: Job, *, save: bool) -> None:
        """The job's present run ends now, without a word about how it did."""
        link = self._batch.link_of(job)
        if self._starting.pop(job.number, None) is not None:  # it never came to its node
            self._executor.release(("start", job.number, job.run))
        elif link is not None:
            self._send_leave(job.number, job.run, link, save=save)

    def _send_leave(self, number: int, run: int, link: Link, *, save: bool) -> None:
        self._leaving[number] = (run, link)
        self._executor.release(("start", number, run))
        self._executor.hold(("kill", number, run))
        link.send({"do": "kill", "job": number, "run": run, "why": "preempt", "save": save})

    def move(self, job: Job, old: Link) -> None:
        """The job goes on with all its work on the nodes of another agent."""
        self._send_leave(job.number, job.run, old, save=True)
        job.run += 1
        self.begin(job)

    def change(self, job: Job, hosts: Sequence[str], save_us: int) -> None:
        """Tell the job's agent its nodes and its phase."""
        link = self._batch.link_of(job)
        if link is None or job.number in self._starting or self._batch.host is None:
            return  # told when it starts
        seq = next(self._sequence)
        self._changing[seq] = link
        self._executor.hold(("change", seq))
        told = {"job": job.number, "run": job.run, "seq": seq, "hosts": hosts, "save_us": save_us}
        link.send({"do": "change", "phase": self._batch.host.phase(job.row)} | told)

    def changed(self, seq: int) -> None:
        self._changing.pop(seq, None)
        self._executor.release(("change", seq))

    def has_left(self, number: int, run: int) -> bool:
        """An agent says that a run is over: whether it was one that had to leave."""
        if self._leaving.get(number, (-1,))[0] != run:
            return False
        del self._leaving[number]
        self._executor.release(("kill", number, run))
        job = self._starting.pop(number, None)
        if job is not None:
            self._send_start(job)
        return True

    def lost(self, link: Link) -> None:
        """An agent is gone, and with it its processes: nothing is to be waited for."""
        for seq in [seq for seq, agent in self._changing.items() if agent is link]:
            self.changed(seq)
        for number, (run, agent) in list(self._leaving.items()):
            if agent is link:
                self.has_left(number, run)
