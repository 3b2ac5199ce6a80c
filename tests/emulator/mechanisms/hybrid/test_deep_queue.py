"""The index of who waits finds whom a look at everybody finds, whatever has come and gone meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.kernel import tables as t
from emulator.kernel.columns import fill
from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import JobState
from emulator.kernel.rows import new_rows
from emulator.mechanisms.hybrid import claims as c
from emulator.mechanisms.hybrid import deep_queue as q

ROWS = 3 << 3 * q.SHIFT  # three blocks of the highest level
UP_TO = ROWS - 100


@compiled
def add_all(job, attr, count, index, rows):
    for k in range(rows.shape[0]):
        q.waits_here(job, attr, count, index, rows[k])


@compiled
def clear(index):
    q.clear(index)


@compiled
def search(job, attr, index, who, after):
    return q.next_within(job, attr, index, who, after)


class Waiting:
    """Rows of jobs of which some wait, and their index."""

    def __init__(self, rng, share):
        self.rng = rng
        self.job = new_rows(t.Job, ROWS)
        self.job["nodes"][:] = np.minimum(rng.geometric(0.1, ROWS) * rng.choice([1, 1, 400], ROWS), 100_000)
        self.job["estimate_us"][:] = rng.integers(1, 10_000, ROWS)
        self.job["key"][:] = np.where(rng.random(ROWS) < 0.01, t.FRONT, np.arange(ROWS))
        self.attr = new_rows(c.HybridJob, ROWS)
        fill(self.attr, dict.fromkeys(("guest", "promised", "leaving", "place"), -1))
        self.attr["job_class"][:] = rng.choice([0, c.MALLEABLE], ROWS)
        self.attr["least"][:] = np.maximum(self.job["nodes"][:] // 3, 1)
        self.count = new_rows(c.ClaimCounters, 1)[0]
        self.count.deep = 1
        self.index = np.zeros((q.lines_for(ROWS), q.LINE_COLUMNS), np.int64)
        clear(self.index)
        self.come(np.flatnonzero(rng.random(ROWS) < share))

    def come(self, rows):
        self.job["state"][rows] = JobState.QUEUED
        add_all(self.job, self.attr, self.count, self.index, rows)

    def change(self):
        """Many of a stretch leave, and a few come back with another estimate."""
        begin = int(self.rng.integers(0, UP_TO))
        if self.rng.random() < 0.1:
            self.come(self.rng.integers(0, ROWS, 20))
        stretch = np.arange(begin, min(begin + int(self.rng.choice([50, 5000, 50_000])), ROWS))
        left = stretch[self.rng.random(len(stretch)) < 0.7]
        self.job["state"][left] = JobState.RUNNING
        back = left[: int(self.rng.integers(0, 5))]
        self.job["estimate_us"][back] = self.rng.integers(1, 10_000, len(back))
        self.come(back)

    def limit(self):
        """Limits of a search: of some classes none at all, of the others a time."""
        limits = self.rng.choice([-1, 3, 30, 300, t.NEVER - 1], q.COLUMNS, p=[0.5, 0.2, 0.15, 0.1, 0.05])
        self.index[-1, : q.COLUMNS] = limits
        return limits

    def within(self, limits):
        """All rows that wait and are within the limits, looked at one by one."""
        job, attr = self.job[:UP_TO], self.attr[:UP_TO]
        which = np.minimum(np.floor(np.log2(job["nodes"][:])).astype(np.int64), q.CLASSES - 1)
        fits = job["estimate_us"][:] <= limits[which]
        fits |= (attr["job_class"] == c.MALLEABLE) & (attr["least"] <= limits[q.OF_MALLEABLE])
        return np.flatnonzero(fits & (job["state"][:] == JobState.QUEUED) & (job["key"][:] != t.FRONT))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("share", "rounds"), [(0.5, 150), (0.05, 150), (0.0005, 1000)])
def test_a_search_finds_the_first_within_the_limits(share, rounds):
    waiting = Waiting(np.random.default_rng([7, int(1 / share)]), share)
    found_none = 0
    for _ in range(rounds):
        limits = waiting.limit()
        rows = waiting.within(limits)
        begin = int(waiting.rng.choice([0, waiting.rng.integers(0, UP_TO)]))
        for _ in range(3):
            at = np.searchsorted(rows, begin)
            expected = int(rows[at]) if at < len(rows) else -1
            assert search(waiting.job, waiting.attr, waiting.index, begin, UP_TO) == expected
            if expected < 0:
                found_none += 1
                break
            begin = expected + 1
        waiting.change()
    assert found_none > 5


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("edge", [0, -1])
def test_lines_that_are_made_true_leave_out_nobody_at_the_edge_of_a_block(level, edge):
    waiting = Waiting(np.random.default_rng(3), 0)
    size = 1 << level * q.SHIFT
    who, gone = size + (edge % size), size + size // 2
    waiting.job["key"][[who, gone]] = who, gone
    waiting.job["nodes"][[who, gone]] = 1, 64
    waiting.attr["job_class"][[who, gone]] = 0
    waiting.come(np.array([who, gone]))
    waiting.job["state"][gone] = JobState.RUNNING
    waiting.index[-1] = -1
    waiting.index[-1, 6] = t.NEVER - 1  # of the width of the one that has left
    assert search(waiting.job, waiting.attr, waiting.index, 0, UP_TO) == -1
    waiting.index[-1, 0] = t.NEVER - 1
    assert search(waiting.job, waiting.attr, waiting.index, 0, UP_TO) == who


def test_a_search_ends_before_the_row_that_it_ends_at():
    waiting = Waiting(np.random.default_rng(3), 0)
    waiting.job["key"][UP_TO] = UP_TO
    waiting.come(np.array([UP_TO]))
    waiting.index[-1, : q.COLUMNS] = t.NEVER - 1
    assert search(waiting.job, waiting.attr, waiting.index, UP_TO - 1, UP_TO) == -1
    assert search(waiting.job, waiting.attr, waiting.index, UP_TO - 1, ROWS) == UP_TO


def test_a_search_for_nobody_makes_the_lines_true():
    waiting = Waiting(np.random.default_rng(11), 0.3)
    waiting.job["state"][:] = JobState.RUNNING  # all have left, and no line knows
    waiting.index[-1] = t.NEVER - 1
    assert search(waiting.job, waiting.attr, waiting.index, 0, ROWS) == -1
    lines = waiting.index[: ROWS >> q.SHIFT]
    assert (lines[:, : q.COLUMNS] == t.NEVER).all()
    assert not lines[:, q.WHO_WAITS].any()
