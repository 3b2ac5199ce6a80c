"""A run ends when nobody is left who could use a node, whatever timers its mechanism has set."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import JobState
from emulator.plugins.failure import PluginError
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation import progress
from emulator.simulation.loop import Loop
from emulator.workload.table import JobTable, Kind


@dataclass
class Ticker:
    """Wakes after each `period_us`, for ever. Leases join the batch queue at the next tick."""

    period_us: int
    ticks: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    def on_begin(self, act):
        act.wake(self.period_us)

    def on_timer(self, act):
        self.ticks.append(act.now_us)
        while self.waiting:
            act.enqueue(self.waiting.pop(0))
        act.wake(act.now_us + self.period_us)

    def on_arrival(self, job, act):
        self.waiting.append(job)


class Keeper(Ticker):
    """The same, but leases wait for ever."""

    def on_timer(self, act):
        act.wake(act.now_us + self.period_us)


def jobs_of(*rows):
    """Rows (submit, run, nodes, kind)."""
    submit, run, nodes, kind = (list(column) for column in zip(*rows, strict=True))
    return JobTable.build(submit_us=submit, run_us=run, nodes=nodes, kind=kind, estimate_us=run)


def run(jobs, mechanism):
    loop = Loop(Cluster(4, SchedulerConfig(), jobs), mechanism, name="ticker")
    assert loop.run()
    return loop.record()


def test_a_timer_that_is_set_for_ever_does_not_outlive_the_last_job():
    ticker = Ticker(10)
    record = run(jobs_of((0, 35, 2, Kind.BATCH), (5, 20, 4, Kind.BATCH)), ticker)
    assert record.end_us.tolist() == [35, 55]
    assert ticker.ticks == [10, 20, 30, 40, 50]


def test_a_timer_beyond_the_last_end_is_not_heard():
    ticker = Ticker(1000)
    run(jobs_of((0, 35, 2, Kind.BATCH)), ticker)
    assert ticker.ticks == []


def test_a_timer_at_the_last_end_is_heard():
    ticker = Ticker(35)
    run(jobs_of((0, 35, 2, Kind.BATCH)), ticker)
    assert ticker.ticks == [35]


def test_a_lease_to_come_keeps_the_run_going_and_so_does_one_that_waits_for_a_tick():
    ticker = Ticker(100)
    record = run(jobs_of((0, 5, 1, Kind.BATCH), (250, 30, 2, Kind.ON_DEMAND)), ticker)
    assert record.start_us.tolist() == [0, 300]
    assert ticker.ticks == [100, 200, 300]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.integers(1, 40),
            st.integers(1, 4),
            st.sampled_from([Kind.BATCH, Kind.ON_DEMAND]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 50),
)
def test_every_run_ends_with_its_last_job_however_often_the_mechanism_is_woken(rows, period_us):
    ticker = Ticker(period_us)
    record = run(jobs_of(*sorted(rows)), ticker)
    assert (record.state == JobState.ENDED).all()
    last_us = int(record.end_us.max())
    assert ticker.ticks == list(range(period_us, last_us + 1, period_us))


def test_a_mechanism_that_only_wakes_while_a_job_waits_for_ever_is_told_by_name(monkeypatch):
    monkeypatch.setattr(progress, "MOST_EVENTS", 50)
    with pytest.raises(
        PluginError,
        match=r"^mechanism ticker failed in on_timer at .* 1 are not over. A timer must not be set for ever",
    ):
        run(jobs_of((0, 5, 1, Kind.BATCH), (3, 5, 1, Kind.ON_DEMAND)), Keeper(1))


def test_a_mechanism_that_wakes_at_the_same_time_for_ever_is_told_by_name(monkeypatch):
    monkeypatch.setattr(progress, "MOST_EVENTS", 50)
    with pytest.raises(PluginError, match="50 events in a row brought no job"):
        run(jobs_of((0, 5, 1, Kind.BATCH)), Ticker(0))
