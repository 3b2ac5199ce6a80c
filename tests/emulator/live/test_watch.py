"""A live run is watched until everything has happened, whoever started it."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from emulator.live.watch import lag, watch
from emulator.workload.table import Kind


class Run:
    """A run of two batch jobs and a lease. `troubles`: what each look finds."""

    def __init__(self, *, troubles=(), batch_decides=False, replayed=True, settled=True, stuck=None):
        kinds = np.array([Kind.BATCH, Kind.BATCH, Kind.ON_DEMAND])
        self.prepared = SimpleNamespace(jobs=_Jobs(kinds))
        self.batch_decides = batch_decides
        self.notes, self.told, self.looks = [], [], 0
        self._troubles, self._replayed, self._settled, self._stuck = list(troubles), replayed, settled, stuck

    def abort_reason(self):
        self.looks += 1
        assert self.looks < 100
        return self._troubles.pop(0) if self._troubles else ""

    def is_replayed(self):
        return self._replayed

    def is_settled(self):
        return self._settled or self.looks > 3

    def stuck(self):
        return self._stuck

    def annotate(self, at_us, text):
        self.notes.append((at_us, text))

    def report_progress(self, counts):
        self.told.append(counts.ended)


class _Jobs:
    def __init__(self, kind):
        self.kind = kind
        self.submit_us = self.run_us = np.zeros(len(kind), np.int64)

    def __len__(self):
        return len(self.kind)


class Counts:
    """One more job has ended at each look."""

    def __init__(self, failed=0):
        self.ended = self.granted = self.rejected = 0
        self.failed = failed

    def look(self):
        self.ended += 1


def clock(longest_hold_us=0):
    news = [[(5, "n003 was silent")]]
    pace = SimpleNamespace(longest_hold_us=longest_hold_us)
    return SimpleNamespace(now_us=lambda: 7, news=lambda: news.pop() if news else [], pace=pace)


@pytest.fixture
def at_once():
    """Nobody waits."""
    event = threading.Event()
    event.set()
    return event


def test_it_ends_when_all_batch_jobs_have_and_are_told(at_once):
    run = Run(settled=False)
    assert watch(run, clock(), Counts(), at_once, quiet=True) == ""
    assert (run.told, run.notes) == ([1, 2, 3, 4], [(5, "n003 was silent")])


def test_a_mechanism_in_the_batch_system_has_the_leases_too(at_once):
    run = Run(batch_decides=True)
    assert watch(run, clock(), Counts(), at_once, quiet=True) == ""
    assert run.told == [1, 2, 3]


def test_jobs_that_could_not_be_submitted_are_not_waited_for(at_once):
    run = Run()
    assert watch(run, clock(), Counts(failed=1), at_once, quiet=True) == ""
    assert run.told == [1]


def test_trouble_and_a_stop_without_an_end_are_told(at_once):
    assert watch(Run(troubles=["", "the machine is gone"]), clock(), Counts(), at_once, quiet=True) == (
        "the machine is gone"
    )
    assert watch(Run(stuck="jobs wait"), clock(), Counts(), at_once, quiet=True) == "jobs wait"


@pytest.mark.parametrize(
    ("pace", "said"),
    [("strict", "the machine cannot keep up: 3.000 s behind (live.max_lag_s is 2 s)"), ("free", "")],
)
def test_only_a_strict_pace_ends_for_a_lag(pace, said):
    assert lag(SimpleNamespace(pace=pace, max_lag_s=2.0), clock(3_000_000)) == said
