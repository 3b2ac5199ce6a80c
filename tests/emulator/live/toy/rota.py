"""A mechanism that means no good: it does everything that can be done to jobs, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import JobState
from emulator.machine.running import Activity, Save
from emulator.workload.table import Kind

DEEDS = (
    "checkpoint", "shrink", "suspend", "slow", "save_and_stop", "grow", "stop_at_checkpoint",
    "full_speed", "write_and_stop", "resize_with_pause", "checkpoint_now", "stop", "suspend", "requeue",
)  # fmt: skip


@dataclass(slots=True)
class Rota:
    """`turns` times, every `period_s`, the next action to the next batch job; a node is kept for on-demand jobs.

    `leaves`: suspended jobs leave their nodes to others.
    """

    period_s: float = 250
    turns: int = 60
    leaves: bool = False
    _turn: int = field(init=False, default=0)
    _kept: set[int] = field(init=False, default_factory=set)
    _waiting: list[int] = field(init=False, default_factory=list)

    def on_begin(self, act):
        taken, _ = act.reserve([act.cluster.node_count - 1])
        self._kept.update(taken)
        act.wake(round(self.period_s * 1e6))

    def on_timer(self, act):
        self._resume_away(act)
        running = self._running(act)
        for job in running:
            is_due = self._turn >= self.turns or (job + self._turn) % 3 == 0
            if is_due and act.running.activity(job) is Activity.SUSPENDED:
                act.resume(job)
        ready = [job for job in running if act.running.activity(job) is Activity.COMPUTING]
        if ready and self._turn < self.turns:
            getattr(self, f"_{DEEDS[self._turn % len(DEEDS)]}")(ready[self._turn % len(ready)], act)
        self._turn += 1
        if self._turn <= self.turns:
            act.wake(act.now_us + round(self.period_s * 1e6))

    def _running(self, act):
        rows = np.flatnonzero(act.cluster.state == JobState.RUNNING)
        kind = act.cluster.job_table().kind
        return [int(job) for job in rows if kind[job] == Kind.BATCH]

    def _idle(self, act):
        return [
            node
            for node in range(act.cluster.node_count)
            if act.cluster.node_job[node] < 0 and not act.cluster.node_offline[node]
        ]

    def _checkpoint(self, job, act):
        act.checkpoint(job, write_us=7_000_001)

    def _checkpoint_now(self, job, act):
        act.checkpoint(job)

    def _shrink(self, job, act):
        nodes = act.cluster.nodes_of(job)
        act.resize(job, nodes[: max(1, len(nodes) // 2)])

    def _grow(self, job, act):
        act.resize(job, [*act.cluster.nodes_of(job), *self._idle(act)[:2]])

    def _resize_with_pause(self, job, act):
        nodes = [*act.cluster.nodes_of(job), *self._idle(act)[:1]]
        act.resize(job, nodes[-max(1, len(nodes) - 1) :], pause_us=11_000_000)

    def _suspend(self, job, act):
        act.suspend(job, free_nodes=self.leaves)

    def _resume_away(self, act):
        """Those that left their nodes, where these are idle again."""
        idle = set(self._idle(act))
        for job in np.flatnonzero(act.cluster.state == JobState.SUSPENDED).tolist():
            nodes = act.cluster.nodes_of(job).tolist()
            if idle.issuperset(nodes):
                act.resume(job)
                idle.difference_update(nodes)

    def _slow(self, job, act):
        act.set_rate(job, 1, 3)

    def _full_speed(self, job, act):
        act.set_rate(job, 1, 1)

    def _save_and_stop(self, job, act):
        act.preempt(job, Save.NOW)

    def _write_and_stop(self, job, act):
        act.preempt(job, Save.NOW, write_us=20_000_000, front=True)

    def _stop_at_checkpoint(self, job, act):
        act.preempt(job, Save.LATEST_CHECKPOINT)

    def _stop(self, job, act):
        act.preempt(job, Save.NONE)

    def _requeue(self, job, act):
        act.requeue(job)

    # On-demand jobs: on what is idle; else they stop others, or wait in the queue.

    def on_arrival(self, job, act):
        wanted = act.cluster.nodes_wanted(job)
        kept = [node for node in sorted(self._kept) if act.cluster.node_job[node] < 0]
        nodes = (kept + self._idle(act))[:wanted]
        if len(nodes) < wanted and job % 3 == 0:
            act.enqueue(job, front=True)
            return
        for victim in reversed(self._running(act)):
            if len(nodes) < wanted and act.running.activity(victim) is not Activity.SAVING:
                freed = act.preempt(victim, Save.LATEST_CHECKPOINT)
                nodes += [node for node in freed if node not in nodes]
        if len(nodes) < wanted:
            act.reject(job, "not even all running jobs have so many nodes")
            return
        act.reserve([node for node in nodes[:wanted] if node not in self._kept])
        self._kept.difference_update(nodes[:wanted])
        act.start(job, nodes[:wanted])

    def on_completion(self, job, nodes, act):
        self._kept.add(int(nodes[0]))
        act.release(nodes[1:].tolist())
        if len(self._kept) > 1:
            extra = [node for node in sorted(self._kept)[1:] if act.cluster.node_job[node] < 0]
            self._kept.difference_update(extra)
            act.release(extra)

    def on_notice(self, job, act):
        taken, busy = act.reserve(self._idle(act)[:1], when_free=True)
        self._kept.update(taken + busy)

    def on_preempted(self, job, nodes, act):
        others = [other for other in self._running(act) if act.running.activity(other) is Activity.SUSPENDED]
        if others:
            act.resume(others[0])

    def on_job_end(self, act):
        self._resume_away(act)
        if len(act.ended_jobs) % 2:
            for job in self._running(act):
                if act.running.activity(job) is Activity.SUSPENDED:
                    act.resume(job)
                    return

    def on_pass(self, act):
        """A job of one node may use a kept node meanwhile."""
        kept = [node for node in sorted(self._kept) if act.cluster.node_job[node] < 0]
        for job in act.cluster.queue.tolist():
            if kept and act.cluster.nodes_wanted(job) == 1:
                act.start(job, [kept[0]])
                return

    notice_us = 0


@dataclass(slots=True)
class Scripted:
    """Does what it is told at the time it is told: `steps` are [seconds, action, row, *arguments], in order of time."""

    steps: list = field(default_factory=list)
    _left: list = field(init=False, repr=False)

    def on_begin(self, act):
        self._left = [list(step) for step in self.steps]
        self._plan(act)

    def _plan(self, act):
        if self._left:
            act.wake(round(self._left[0][0] * 1e6))

    def on_arrival(self, job, act):
        act.reject(job, "this mechanism serves none")

    def on_timer(self, act):
        while self._left and self._left[0][0] * 1e6 <= act.now_us:
            _, action, *arguments = self._left.pop(0)
            getattr(self, f"_{action}")(act, *arguments)
        self._plan(act)

    def _width(self, act, job, count):
        nodes = act.cluster.nodes_of(job).tolist()
        idle = [node for node in range(act.cluster.node_count) if act.cluster.node_job[node] < 0]
        act.resize(job, (nodes + idle)[:count])

    def _nodes(self, act, job, *nodes):
        act.resize(job, nodes)

    def _save_and_stop(self, act, job, write_s):
        act.preempt(job, Save.NOW, write_us=round(write_s * 1e6))

    def _suspend(self, act, job):
        act.suspend(job)

    def _lose(self, act, job):
        act.preempt(job, Save.LATEST_CHECKPOINT)

    def _leave(self, act, job):
        act.suspend(job, free_nodes=True)

    def _resume(self, act, job):
        act.resume(job)

    def _rate(self, act, job, numerator, denominator):
        act.set_rate(job, numerator, denominator)

    def _keep(self, act, *nodes):
        act.reserve(nodes, when_free=True)


@dataclass
class Failing:
    """Serves on-demand jobs of one node on node 0, until `event` comes at `at_s` or later: then it raises."""

    event: str
    at_s: float = 0
    notice_us = 0

    def _come(self, event, act):
        if event == self.event and act.now_us >= self.at_s * 1e6:
            raise ValueError("that was too much")

    def on_begin(self, act):
        self._come("on_begin", act)
        act.reserve([0])
        act.wake(round(self.at_s * 1e6))

    def on_timer(self, act):
        self._come("on_timer", act)

    def on_arrival(self, job, act):
        self._come("on_arrival", act)
        if act.cluster.node_job[0] < 0:
            act.start(job, [0])
        else:
            act.reject(job, "node 0 is taken")

    def on_completion(self, job, nodes, act):
        self._come("on_completion", act)

    def on_job_end(self, act):
        self._come("on_job_end", act)

    def on_pass(self, act):
        self._come("on_pass", act)

    def on_notice(self, job, act):
        self._come("on_notice", act)

    def figures(self, record, machine):
        if self.event == "figures":
            raise ValueError("that was too much")
        return {"mine": 1}


@dataclass(slots=True)
class FailingMachine:
    """Its machine, or the making of it, fails."""

    event: str
    at_s: float = 0

    def make_machine(self, node_count, scheduler, jobs, seed):
        if self.event == "make_machine":
            raise KeyError("that was too much")
        machine = _Brittle(node_count, scheduler, jobs)
        machine.event, machine.at_us = self.event, round(self.at_s * 1e6)
        return machine

    def on_arrival(self, job, act):
        act.reject(job, "this mechanism serves none")


class _Brittle(Cluster):
    def advance(self, until_us, **how):
        stop = super().advance(until_us, **how)
        if self.event == "advance" and self.now_us >= self.at_us:
            raise ValueError("that was too much")
        return stop

    def finish_instant(self, now_us):
        if self.event == "finish_instant" and now_us >= self.at_us:
            raise ValueError("that was too much")
        super().finish_instant(now_us)


def failing_order(jobs, config):
    """Raises as soon as there is a job to order."""
    if len(jobs):
        raise RuntimeError("that was too much")
    return np.zeros(0, np.int64)


def lone_failing_order(jobs, config):
    """Fails where it is asked for one job's key, as a batch server asks when a job comes."""
    if len(jobs) == 1:
        raise RuntimeError("that was too much")
    return jobs.submit_us


@dataclass(frozen=True, slots=True)
class LateFailingOrder:
    """Fails at the first pass at `at_s` or later."""

    at_s: float
    how: str = "raise"

    def priority(self, now_us, queue):
        if now_us < self.at_s * 1e6:
            return np.zeros(len(queue))
        if self.how == "nan":
            return np.full(len(queue), np.nan)
        if self.how == "short":
            return np.zeros(0)
        raise ValueError("that was too much")
