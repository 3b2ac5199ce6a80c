"""Runs whose row another run's row gives are not done."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from emulator.sweeps.chains import Chains
from emulator.sweeps.grid import Sweep, make_run
from emulator.sweeps.pools import Cores, Done, Here, LiveToo, on_cores
from emulator.sweeps.store import Store
from emulator.sweeps.sweep import run_sweep

NODES = (4, 5, 6, 7)


def sweep(count=2):
    """`count` chains of four runs each."""
    runs = [
        make_run({"nodes": nodes, "seed": seed, "workload": {"generate": ["daily_batch"]}}, {"nodes": nodes})
        for seed in range(1, count + 1)
        for nodes in NODES
    ]
    return Sweep("chains", tuple(runs))


def chains(of, settles):
    return Chains([of.runs[at : at + 4] for at in range(0, len(of.runs), 4)], settles)


class Told:
    """A pool that knows each run's figure, and what was done."""

    def __init__(self, at_once=1):
        self.at_once = at_once
        self.done_runs = []

    def done(self, runs, stop):
        pending = []
        for run in runs:
            pending.append(run)
            if len(pending) == self.at_once:
                yield self._over(pending.pop(0))
        for run in pending:
            yield self._over(run)

    def _over(self, run):
        self.done_runs.append((run.scenario.seed, run.scenario.nodes))
        return Done(run, {"figure": run.scenario.nodes * run.scenario.seed})


def figures(store):
    return pq.read_table(store.folder / "results.parquet")["figure"].to_pylist()


def test_a_row_that_settles_is_the_row_of_all_that_come_after(tmp_path):
    runs, pool, store = sweep(), Told(), Store(tmp_path)
    seen = []
    outcome = run_sweep(
        runs, store, pool, on_done=lambda over, every: seen.append((over, every)),
        chains=chains(runs, lambda row: row["figure"] in {5, 8}),
    )  # fmt: skip
    assert pool.done_runs == [(1, 4), (1, 5), (2, 4)]
    assert figures(store) == [4, 5, 5, 5, 8, 8, 8, 8]
    assert seen == [(0, 8), (1, 8), (4, 8), (8, 8)]
    assert (outcome.rows, outcome.skipped, outcome.failed, outcome.interrupted) == (8, 0, (), False)


def test_a_run_comes_before_its_predecessor_is_over_only_if_nothing_else_is_left(tmp_path):
    runs, pool = sweep(count=3), Told(at_once=2)
    run_sweep(runs, Store(tmp_path), pool, chains=chains(runs, lambda _: False))
    two = [(seed, nodes) for nodes in NODES for seed in (1, 2)]
    assert pool.done_runs == [*two, *((3, nodes) for nodes in NODES)]


def test_what_an_earlier_sweep_stored_settles_too(tmp_path):
    runs, store = sweep(), Store(tmp_path)
    store.keep(runs.runs[0], {"figure": 99})
    pool = Told()
    outcome = run_sweep(runs, store, pool, chains=chains(runs, lambda row: row["figure"] == 99))
    assert figures(store) == [99, 99, 99, 99, 8, 10, 12, 14]
    assert (len(pool.done_runs), outcome.skipped) == (4, 1)


def test_a_run_that_fails_settles_nothing(tmp_path):
    class Failing(Told):
        def _over(self, run):
            self.done_runs.append(run.scenario.nodes)
            return Done(run, None, "no nodes") if run.scenario.nodes == 4 else Done(run, {"figure": 1})

    runs, pool, store = sweep(count=1), Failing(), Store(tmp_path)
    outcome = run_sweep(runs, store, pool, chains=chains(runs, lambda _: True))
    assert (pool.done_runs, figures(store), [reason for _, reason in outcome.failed]) == (
        [4, 5],
        [1, 1, 1],
        ["no nodes"],
    )


def test_an_interrupted_sweep_with_chains_says_so(tmp_path):
    runs, over = sweep(count=1), []

    class Stopping(Told):
        def done(self, runs, stop):
            for found in super().done(runs, stop):
                yield found
                if stop():
                    return

    outcome = run_sweep(
        runs, Store(tmp_path), Stopping(), stop=lambda: bool(over), chains=chains(runs, lambda _: False),
        on_done=lambda done, _: over.extend([done] if done else []),
    )  # fmt: skip
    assert (outcome.rows, outcome.interrupted) == (1, True)


@pytest.mark.parametrize("pool", [Here(), Cores(2), LiveToo(Cores(2))])
def test_pools_take_runs_only_when_there_is_something_to_do_them_with(pool):
    runs, taken = sweep(count=10), []

    def given():
        for run in runs.runs:
            taken.append(run.key)
            yield run

    found = pool.done(given(), lambda: False)
    assert next(found).row is not None
    assert len(taken) <= 10  # two processes, and four runs ahead for each
    found.close()


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_function_makes_of_each_is_in_their_order(jobs):
    assert on_cores(abs, list(range(-9, 9)), jobs) == [abs(each) for each in range(-9, 9)]
    assert on_cores(abs, [], jobs) == []
