"""A Torque that lies, hangs, forgets and is changed by people; and the shipped driver that talks to it.

The driver's own code runs (options, parser, batches); only its `_run`, which starts a program, is replaced.
One answer may be a lie (stale by up to 60 s, a job left out); the answer after a lie is true, and so is the next one
about the same node: two looks a poll apart that agree in a lie are beyond what any reader of reports can survive.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from balancer.clock import US
from balancer.drivers.base import RefusedError, UnclearError, UnreachableError
from balancer.drivers.torque import TorqueDriver, TorqueSettings
from simulation.parts import Violation, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from balancer.drivers.base import NodeStatus
    from balancer.ledger.store import Ledger
    from simulation.world import World

_STALE_US = 60 * US
_CYCLE_US = 600 * US
_REQUEUE_US = 300 * US  # real Torque tries again at once, twice a second: the same to us, and dear


@dataclass(slots=True)
class Job:
    """A batch job; `excused`: it was started on a lent node because a fault took its mark."""

    job_id: str
    width: int
    run_us: int
    state: str = "Q"
    nodes: tuple[str, ...] = ()
    hold_until_us: int = 0
    excused: bool = False
    starts: int = 0


@dataclass(slots=True)
class Host:
    """A node as it really is."""

    name: str
    marked: bool = False
    note: str = ""
    jobs: tuple[str, ...] = ()
    down: bool = False
    listed: bool = True
    mark_lost: bool = False
    """A fault or a person took the mark off, and nobody has set it again."""
    by_hand: bool = False
    """A person marked it."""
    by_hand_us: int = 0
    """When that was."""
    back_us: int = -1
    """When it was back, after it was down or not listed."""

    def copy(self) -> Host:
        return Host(self.name, self.marked, self.note, self.jobs, self.down, self.listed)


@dataclass(slots=True)
class Torque:
    """The batch system. Its scheduler is first come first served."""

    world: World
    hosts: dict[str, Host]
    jobs: dict[str, Job] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)
    lied: bool = False
    lied_about: set[str] = field(default_factory=set)
    """The nodes of which the latest answer was a lie."""
    past: deque[tuple[int, dict[str, Host]]] = field(default_factory=deque)
    down_until_us: int = 0
    commands: int = 0
    finished: int = 0
    cancelled: int = 0

    # Jobs

    def submit(self, job: Job) -> None:
        self.jobs[job.job_id] = job
        self.queue.append(job.job_id)
        self.cycle()

    def tick(self) -> None:
        self.cycle()
        self.world.later(_CYCLE_US, self.tick)

    def cycle(self) -> None:
        """Start the jobs at the head of the queue that fit."""
        now_us = self.world.time.now_us
        for job_id in list(self.queue):
            job = self.jobs[job_id]
            if job.hold_until_us > now_us:
                continue
            free = [h for h in self.hosts.values() if h.listed and not h.marked and not h.down and not h.jobs]
            if len(free) < job.width:
                return
            self.queue.remove(job_id)
            self._start(job, free[: job.width])

    def _start(self, job: Job, hosts: list[Host]) -> None:
        job.state, job.nodes = "R", tuple(host.name for host in hosts)
        job.starts += 1
        job.excused = any(host.mark_lost for host in hosts)
        for host in hosts:
            self.world.checks.job_starts(host, job)
            host.jobs = (job.job_id,)
        self.world.trace(f"torque starts {job.job_id} on {' '.join(job.nodes)}")
        self.world.later(self.world.rng.randrange(US // 2), lambda: self._prologue(job, job.starts))

    def _prologue(self, job: Job, start: int) -> None:
        if job.state != "R" or job.starts != start:
            return
        status = self.world.hooks.prologue(job)
        if status == 1:
            raise Violation("I18", f"the prologue's exit status 1 aborted job {job.job_id}", job.nodes[0])
        if job.state != "R" or job.starts != start:
            return
        if status != 0:
            self.requeue(job, _REQUEUE_US)
        else:
            self.world.later(job.run_us, lambda: self._end(job, start))

    def _end(self, job: Job, start: int) -> None:
        if job.state != "R" or job.starts != start:
            return
        self.world.hooks.epilogue(job)
        self.world.later(self.world.rng.randrange(US // 3, 3 * US // 2), lambda: self._gone(job, start))

    def _gone(self, job: Job, start: int) -> None:
        if job.state != "R" or job.starts != start:
            return
        job.state = "C"
        self.finished += 1
        self._leave(job)
        self.cycle()

    def _leave(self, job: Job) -> None:
        for name in job.nodes:
            if self.hosts[name].jobs == (job.job_id,):
                self.hosts[name].jobs = ()
        self.world.trace(f"torque: {job.job_id} left {' '.join(job.nodes)}")
        job.nodes = ()

    def requeue(self, job: Job, after_us: int) -> None:
        job.state = "Q"
        self._leave(job)
        job.hold_until_us = self.world.time.now_us + after_us
        self.queue.append(job.job_id)
        self.world.later(after_us, self.cycle)

    def cancel(self, job: Job) -> None:
        job.state = "C"
        self.cancelled += 1
        if job.job_id in self.queue:
            self.queue.remove(job.job_id)
        if job.nodes:
            self._leave(job)
        self.cycle()

    # Faults

    def restart(self) -> None:
        """The server comes back with state up to 5 s older, some marks gone, nodes down at first."""
        rng = self.world.rng
        self.down_until_us = self.world.time.now_us + rng.randrange(1, 20) * US
        lost = [h.name for h in self.hosts.values() if h.marked and rng.random() < 0.3]
        self.world.trace(f"torque's server restarts and forgets the marks of {' '.join(lost) or 'nobody'}")
        for name in lost:
            self.lose_mark(self.hosts[name])
        for job in list(self.jobs.values()):
            if job.state == "R" and rng.random() < 0.05:
                self.requeue(job, 5 * US)

    def lose_mark(self, host: Host) -> None:
        if host.marked:
            self.world.trace(f"fault: the mark of {host.name} is lost")
            host.marked, host.by_hand, host.mark_lost, host.note = False, False, True, ""
            self.cycle()

    # What the programs do

    def mark(self, names: list[str], note: str) -> None:
        for name in names:
            host = self.hosts[name]
            self.world.checks.marks(host)
            host.marked, host.mark_lost, host.by_hand, host.note = True, False, False, note

    def clear(self, names: list[str]) -> None:
        for name in names:
            host = self.hosts[name]
            self.world.checks.clears(host)
            host.marked, host.mark_lost, host.by_hand, host.note = False, False, False, ""

    def listing(self, names: list[str]) -> str:
        world = self.world
        now_us = world.time.now_us
        if any(not self.hosts[name].listed for name in names):  # no answer, so not the true one after a lie
            raise RefusedError("pbsnodes -x exited 1: Unknown node")
        copy = {name: host.copy() for name, host in self.hosts.items()}
        while self.past and self.past[0][0] < now_us - _STALE_US:
            self.past.popleft()
        hosts = copy
        about = set(names or self.hosts)
        lies = not self.lied and world.chance("lie") and not about & self.lied_about
        if lies:
            if self.past and world.rng.random() < 0.5:
                at_us, hosts = world.rng.choice(self.past)
                world.trace(f"torque answers as of {(now_us - at_us) // US} s ago")
            else:
                hosts = {name: host.copy() for name, host in copy.items()}
                for host in hosts.values():
                    host.jobs = ()
                world.trace("torque leaves out jobs")
        self.lied = lies
        self.lied_about = self.lied_about | about if lies else self.lied_about - about
        self.past.append((now_us, copy))
        wanted = [hosts[name] for name in names] if names else [h for h in hosts.values() if h.listed]
        is_down = now_us < self.down_until_us
        return f"<Data>{''.join(_node(host, is_down) for host in wanted)}</Data>"


def _node(host: Host, is_down: bool) -> str:
    states = ["down"] if host.down or is_down else []
    if host.marked:
        states.append("offline")
    if host.jobs:
        states.append("job-exclusive")
    jobs = f"<jobs>{','.join(f'0-1/{shown(job)}' for job in host.jobs)}</jobs>" if host.jobs else ""
    note = f"<note>{escape(host.note)}</note>" if host.note else ""
    return f"<Node><name>{host.name}</name><state>{','.join(states) or 'free'}</state>{jobs}{note}</Node>"


class SimulatedTorqueDriver(TorqueDriver):
    """The shipped driver; programs are calls of the fake, with faults on the way there and back."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(TorqueSettings(claim=False))
        self._world, self._ledger = world, ledger

    def get_status_of_all_nodes(self) -> dict[str, NodeStatus]:
        self._world.checks.reading = {}
        self._world.checks.reading = found = super().get_status_of_all_nodes()
        self._world.checks.looked(found, at_all=True)
        return found

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        found = super().get_status_of_nodes(nodes)
        self._world.checks.looked(found, at_all=False)
        return found

    def _run(self, command: tuple[str, ...], *, stderr_is_refusal: bool = False, **_: Any) -> str:
        world = self._world
        what = " ".join(command)
        world.point(f"before {command[0]} {command[1]}")
        if world.is_cut("batch", "there"):
            raise UnreachableError(f"{what}: cannot connect")
        if world.chance("refused"):
            world.trace(f"{what}: refused")
            raise RefusedError(f"{what} exited 1")
        hangs = world.chance("hang")
        if hangs:
            world.time.now_us += round(self.settings.timeout_s * US)
            if world.rng.random() < 0.5:
                raise UnclearError(f"{what} did not end in time")
        said = self._effect(command, what)
        world.point(f"after {command[0]} {command[1]}")
        if hangs or world.is_cut("batch", "back") or world.chance("lost_reply"):
            world.trace(f"{what}: no answer")
            raise UnclearError(f"{what} did not end in time")
        if said and world.chance("garbled"):
            return _garbled(said, world)
        return said

    def _effect(self, command: tuple[str, ...], what: str) -> str:
        world, torque = self._world, self._world.torque
        if command[0] == "qmgr":
            torque.cycle()
            return ""
        if command[1] == "-x":
            return torque.listing(list(command[2:]))
        torque.commands += 1
        rest = list(command[2:])
        note = ""
        if rest[:1] == ["-N"]:
            note, rest = rest[1], rest[2:]
        world.trace(what)
        world.checks.leads(self._ledger)
        world.checks.commanded(command[1], rest)
        rest = [name for name in rest if torque.hosts[name].listed]
        if world.chance("no_effect"):
            world.trace("... has no effect")
            return ""
        if world.chance("half_effect"):
            rest = [name for name in rest if world.rng.random() < 0.5]
            world.trace(f"... has an effect on {' '.join(rest) or 'none'} only")
        if command[1] == "-o":
            torque.mark(rest, note)
        else:
            torque.clear(rest)
        return ""


def _garbled(said: str, world: World) -> str:
    kind = world.rng.randrange(4)
    if kind == 0:
        return said[: world.rng.randrange(len(said))]
    if kind == 1:
        return "*** The cluster will be down on Monday ***\n" + said
    if kind == 2:
        return said.replace("<state>free", "<state>quux", 1)
    return ""
