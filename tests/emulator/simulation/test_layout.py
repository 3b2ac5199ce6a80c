"""Which nodes plain runs get: laid out afterwards, in intervals. No start changes, and a slow layout gives the same."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from emulator.cluster.cluster import Cluster
from emulator.kernel import tables as t
from emulator.record.layout import BINS, Layout, bin_of
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable

SCHEDULERS = ("fcfs+none", "fcfs+easy", "sjf+easy+best_fit", "fcfs+conservative", "wfp3+easy")


def drawn(seed, count=300, nodes=60):
    rng = np.random.default_rng(seed)
    run_us = rng.integers(1, 40, count) * rng.choice([1, 1, 20], count)
    return JobTable.build(
        submit_us=np.sort(rng.integers(0, 8 * count, count)),
        run_us=run_us,
        estimate_us=run_us * rng.integers(1, 4, count),
        nodes=np.where(rng.random(count) < 0.5, rng.integers(1, 4, count), rng.integers(1, nodes + 1, count)),
    )


def intervals(nodes):
    """(first, how many) of each interval of sorted numbers."""
    joined = [
        [node for _, node in run] for _, run in groupby(enumerate(nodes), lambda pair: pair[1] - pair[0])
    ]
    return [(run[0], len(run)) for run in joined]


class SlowLayout:
    """The rule in plain words: the set of free nodes, and since which change each interval of it is one."""

    def __init__(self, nodes):
        self.free = set(range(nodes))
        self.changes = 0
        self.since = {(0, nodes): 0}

    def changed(self):
        self.changes += 1
        found = intervals(sorted(self.free))
        self.since = {each: self.since.get(each, self.changes) for each in found}

    def by_bin(self, which):
        """Free intervals of a bin, the newest first."""
        found = [each for each in self.since if bin_of.py_func(each[1]) == which]
        return sorted(found, key=lambda each: -self.since[each])

    def chosen(self, needed):
        own = bin_of.py_func(needed)
        fitting = [each for each in self.by_bin(own) if each[1] >= needed]
        for which in range(own + 1, BINS):
            fitting = fitting or self.by_bin(which)
        if fitting:
            return fitting[0][0], needed
        top = max(bin_of.py_func(length) for _, length in self.since)
        return self.by_bin(top)[0]

    def take(self, needed):
        taken = []
        while needed:
            begin, count = self.chosen(needed)
            self.free -= set(range(begin, begin + count))
            self.changed()
            taken.append((begin, count))
            needed -= count
        return sorted(taken)

    def give(self, pieces):
        for begin, count in pieces:
            self.free |= set(range(begin, begin + count))
            self.changed()


def slow_layout(nodes, start_us, end_us, width):
    """The pieces of each run."""
    layout, found = SlowLayout(nodes), []
    to_end = sorted((end, row) for row, end in enumerate(end_us) if end >= 0)
    for row, (start, wanted) in enumerate(zip(start_us, width, strict=True)):
        while to_end and to_end[0][0] <= start and to_end[0][1] < row:
            layout.give(found[to_end.pop(0)[1]])
        found.append(layout.take(wanted))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_layout_is_that_of_a_slow_one_piece_by_piece(seed):
    nodes = 60 if seed % 2 else 700
    runs = simulate(drawn(seed, 120, nodes), nodes, SchedulerConfig()).runs
    width = np.diff(runs.first)
    layout = Layout(nodes)

    layout.lay_out(runs.start_us, runs.end_us, width)

    pieces = [tuple(piece) for piece in layout.pieces.tolist()]
    found = [pieces[a:b] for a, b in zip(layout.cut, layout.cut[1:], strict=False)]
    assert found == slow_layout(nodes, runs.start_us.tolist(), runs.end_us.tolist(), width.tolist())


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("seed", range(3))
def test_no_start_changes_and_the_laws_hold(seed, scheduler):
    jobs, config = drawn(seed), SchedulerConfig.parse(scheduler)
    as_always = Cluster(60, config, jobs)
    as_always.advance(t.NEVER)

    record = simulate(jobs, 60, config)

    assert_lawful(record)
    assert record.start_us.tolist() == as_always.start_us.tolist()
    assert record.end_us.tolist() == as_always.end_us.tolist()
    assert np.diff(record.runs.first).tolist() == np.diff(as_always.run_table().first).tolist()


def test_a_run_has_few_intervals_and_its_nodes_are_in_order():
    rng = np.random.default_rng(1)
    count, nodes = 3000, 2000
    jobs = JobTable.build(
        submit_us=np.cumsum(rng.integers(0, 30, count)),
        run_us=rng.integers(1, 1000, count),
        nodes=rng.choice([1, 2, 16, 100, 500], count),
    )

    runs = simulate(jobs, nodes, SchedulerConfig()).runs

    parts = np.split(runs.node, runs.first[1:-1])
    assert all((np.diff(part) > 0).all() for part in parts)
    assert np.mean([len(intervals(part.tolist())) for part in parts]) < 2


def test_nodes_of_a_run_are_the_same_however_late_one_looks():
    jobs = drawn(5)
    whole = simulate(jobs, 60, SchedulerConfig()).runs
    cluster = Cluster(60, SchedulerConfig(), jobs)
    loop = Loop(cluster)
    for _ in range(100):
        loop.step()
        cluster.advance(t.NEVER, pause_after=7)
        sofar = cluster.run_table()
        assert sofar.node.tolist() == whole.node[: len(sofar.node)].tolist()


def test_who_asks_for_nodes_in_mid_run_is_answered_and_the_run_goes_on():
    jobs = drawn(6)
    wanted = simulate(jobs, 60, SchedulerConfig())
    cluster = Cluster(60, SchedulerConfig(), jobs)
    loop = Loop(cluster)
    cluster.advance(t.NEVER, pause_after=80)
    before = cluster.run_table()
    running = [row for row in range(len(jobs)) if before.end_us[before.job == row].tolist() == [-1]]
    assert running

    node_job = cluster.node_job.copy()  # from here on nodes have names

    for job in running:
        (row,) = np.flatnonzero(before.job == job)
        nodes = before.node[before.first[row] : before.first[row + 1]].tolist()
        assert cluster.nodes_of(job).tolist() == nodes == np.flatnonzero(node_job == job).tolist()
    assert cluster.run_table().node.tolist() == before.node.tolist()
    loop.run()
    record = loop.record()
    assert_lawful(record)
    assert record.start_us.tolist() == wanted.start_us.tolist()
