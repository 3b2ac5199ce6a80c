"""Mechanisms with timers of any kind: the batch server's run is that of virtual time, and both come to an end.

The server's scheduler and its executor are the real ones, on a clock that is moved by hand; nodes end jobs on time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.torque.mechanism_scheduler import MechanismScheduler
from emulator.machine.running import Save
from emulator.plugins.failure import PluginError
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation import progress
from emulator.simulation.executor_live import LiveExecutor
from emulator.simulation.loop import Loop
from emulator.workload.table import JobTable, Kind
from gates import GATE
from manual_clock import ManualClock

NODES = 4
NAMES = tuple(f"n{number}" for number in range(NODES))


@dataclass
class Timers:
    """Does one `action` a timer, `delays_us` apart; then it wakes for ever, at the longest delay, and serves leases."""

    delays_us: list[int]
    actions: list[str]
    at_us: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    def on_begin(self, act):
        act.wake(self.delays_us[0])

    def on_arrival(self, job, act):
        self.waiting.append(job)

    def on_timer(self, act):
        done = len(self.at_us)
        self.at_us.append(act.now_us)
        action = self.actions[done] if done < len(self.actions) else "serve"
        if action == "serve":
            while self.waiting:
                act.enqueue(self.waiting.pop(0))
        elif action == "give":
            act.release(range(NODES))
        elif action == "take":
            act.reserve(range(NODES // 2), when_free=True)
        elif action != "nothing":
            running = [
                job for job, state in enumerate(act.cluster.state.tolist()) if state == JobState.RUNNING
            ]
            for job in running[:1]:
                act.preempt(job, Save(action))
        after = self.delays_us[done + 1] if done + 1 < len(self.delays_us) else max(*self.delays_us, 1)
        act.wake(act.now_us + after)


class Nodes:
    """The other half of a batch server: submits, passes, and nodes that end each job on time."""

    def __init__(self, jobs, mechanism):
        self.clock = ManualClock()
        self.executor = LiveExecutor(self.clock, self._pass)
        self.scheduler = MechanismScheduler(
            Cluster(NODES, SchedulerConfig(), jobs, simulated=False), mechanism, "timers",
            node_names=NAMES, executor=self.executor, effects=self,
        )  # fmt: skip
        self.jobs = jobs
        self.run = [0] * len(jobs)
        for row in range(len(jobs)):
            rank = EventPriority.ARRIVAL if jobs.kind[row] == Kind.ON_DEMAND else EventPriority.SUBMIT
            self.executor.at(int(jobs.submit_us[row]), partial(self._submit, row), rank, order=row)

    def _submit(self, row, now_us):
        self.scheduler.submit(row, now_us, held=False)

    def _pass(self, now_us):
        for row in self.scheduler.schedule_pass(now_us):
            self.run_begins(row, now_us)
        self.scheduler.pass_over(now_us)

    def run_begins(self, row, now_us):
        self.run[row] += 1
        end_us = self.scheduler._actions.account(row).end_us
        self.executor.at(end_us, partial(self._ends, row, self.run[row]), EventPriority.JOB_END, order=row)

    def _ends(self, row, run, now_us):
        if run == self.run[row]:
            self.scheduler.run_ended(row, RunOutcome.FINISHED, now_us)

    def run_leaves(self, row, now_us, *, save, done=None):
        self.run[row] += 1

    def job_rejected(self, row, reason, now_us):
        raise AssertionError("nobody rejects here")

    @property
    def is_over(self):
        return bool((self.scheduler.cluster.state == JobState.ENDED).all())

    def go(self):
        """To the end of the last job."""
        for node in range(NODES):
            self.scheduler.node_back(node, 0)
        self.scheduler.nodes_are_up(0)
        while not self.is_over and self.executor._next_us < NEVER_US:
            self.clock.advance_to(self.executor._next_us)
            self.executor.settle()
        return self.scheduler._decisions.record()


def runs_of(record):
    """Job, start, end and outcome of all runs, and where jobs are."""
    runs = record.runs
    rows = zip(
        runs.job.tolist(), runs.start_us.tolist(), runs.end_us.tolist(), runs.outcome.tolist(), strict=True
    )
    return sorted(rows), record.state.tolist(), record.start_us.tolist(), record.end_us.tolist()


def in_both_clocks(rows, delays_us, actions):
    """(runs, times of timers) in virtual time and live; timers count up to the end of the last job."""
    submit, run, nodes, kind = (list(column) for column in zip(*sorted(rows), strict=True))
    jobs = JobTable.build(submit_us=submit, run_us=run, nodes=nodes, kind=kind, estimate_us=run)
    virtual, live = Timers(delays_us, actions), Timers(delays_us, actions)
    loop = Loop(Cluster(NODES, SchedulerConfig(), jobs), virtual, name="timers")
    assert loop.run()
    recorded = loop.record()
    return (runs_of(recorded), virtual.at_us), (runs_of(Nodes(jobs, live).go()), live.at_us)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 40),
        st.integers(1, NODES),
        st.sampled_from([Kind.BATCH, Kind.ON_DEMAND]),
    ),
    min_size=1,
    max_size=10,
)
ACTIONS = st.sampled_from(["nothing", "serve", "take", "give", "none", "latest_checkpoint", "now"])


@given(ROWS, st.lists(st.integers(0, 25), min_size=1, max_size=8), st.lists(ACTIONS, max_size=8))
@settings(max_examples=GATE.fuzz_examples, deadline=None)
def test_a_run_with_timers_is_the_same_in_both_clocks_and_ends(rows, delays_us, actions):
    virtual, live = in_both_clocks(rows, delays_us, [*actions, "give"])
    assert live == virtual
    assert set(virtual[0][1]) == {JobState.ENDED}


def test_a_timer_that_is_set_for_ever_ends_with_the_last_job_in_both_clocks():
    virtual, live = in_both_clocks([(0, 35, 2, Kind.BATCH), (5, 20, 4, Kind.BATCH)], [10], [])
    assert live == virtual
    assert virtual[1] == [10, 20, 30, 40, 50]


def test_timers_that_lead_nowhere_end_the_run_live_too(monkeypatch):
    monkeypatch.setattr(progress, "MOST_EVENTS", 50)
    jobs = JobTable.build(submit_us=[0], run_us=[30], nodes=[2], kind=[Kind.BATCH], estimate_us=[30])
    for_ever = Timers([10] * 500, ["none"] * 500)
    said = r"^mechanism timers failed in on_timer at .* brought no job or lease nearer to its end"
    with pytest.raises(PluginError, match=said):
        Nodes(jobs, for_ever).go()
    with pytest.raises(PluginError, match=said):
        Loop(Cluster(NODES, SchedulerConfig(), jobs), Timers([10] * 500, ["none"] * 500), name="timers").run()
