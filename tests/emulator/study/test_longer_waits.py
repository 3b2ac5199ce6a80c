"""Where nobody had to wait, a longer wait changes nothing: such runs are not done, and no figure differs."""

from __future__ import annotations

import pytest

from emulator.study.longer_waits import chains
from emulator.sweeps.grid import Sweep, make_run
from emulator.sweeps.pools import Done, Here
from emulator.sweeps.store import Store
from emulator.sweeps.sweep import run_sweep

WAITS_S = (0, 60, 300, 900, 3600)
MEASURED = ("wall_s", "jobs_per_s")


def runs_of(seed, *, reserves=(0, 2, 4, 8), **balancer):
    return [
        make_run(
            {
                "nodes": 12,
                "seed": seed,
                "workload": {
                    "generate": [
                        {"daily_batch": {"days": 2, "jobs": 150, "load": 0.8}},
                        {"bursty_leases": {"days": 2}},
                    ]
                },
                "mechanism": {"balancer": {"static_reserve": reserve, "wait_s": wait_s, **balancer}},
            },
            {"reserve": reserve, "wait_s": wait_s},
        )
        for reserve in reserves
        for wait_s in WAITS_S
    ]


class Counting(Here):
    done_runs: list[tuple[int, float]]

    def done(self, runs, stop):
        object.__setattr__(self, "done_runs", [])
        for found in super().done(runs, stop):
            self.done_runs.append((found.run.varied["reserve"], found.run.varied["wait_s"]))
            yield found


def figures(store, runs):
    return [{name: value for name, value in store.row(run).items() if name not in MEASURED} for run in runs]


@pytest.mark.parametrize("rule", ["fixed", "refilled"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_are_those_of_runs_that_are_all_done(tmp_path, seed, rule):
    runs = runs_of(seed, reserve_rule=rule)
    sweep, few, every = Sweep("waits", tuple(runs)), Counting(), Counting()
    stores = [Store(tmp_path / name) for name in ("few", "every")]
    run_sweep(sweep, stores[0], few, chains=chains(sweep))
    run_sweep(sweep, stores[1], every)
    assert figures(stores[0], runs) == figures(stores[1], runs)
    rejected = {
        (run.varied["reserve"], run.varied["wait_s"]): row["ondemand_rejected"]
        for run, row in zip(runs, figures(stores[1], runs), strict=True)
    }
    needed = {
        (reserve, wait_s)
        for reserve, wait_s in rejected
        if all(rejected[reserve, shorter] for shorter in WAITS_S if shorter < wait_s)
    }
    assert set(few.done_runs) == needed
    assert len(few.done_runs) < len(every.done_runs) == len(runs)


@pytest.mark.parametrize(
    "balancer",
    [
        {"algorithm": "hint"},
        {"predictor": "peak"},
        {"cloud_faults": [{"at_s": 5, "do": "fail_boots", "nodes": "n001"}]},
    ],
)
def test_algorithms_that_may_look_at_the_wait_and_servers_that_try_again_are_always_run(balancer):
    assert chains(Sweep("waits", tuple(runs_of(1, reserves=(0,), **balancer)))).chains == []


def test_other_weeks_seeds_and_reserves_have_chains_of_their_own():
    runs = runs_of(1) + runs_of(2)
    found = chains(Sweep("waits", tuple(runs[::-1]))).chains
    assert [
        [(run.scenario.seed, run.varied["reserve"], run.varied["wait_s"]) for run in each] for each in found
    ] == [[(seed, reserve, wait_s) for wait_s in WAITS_S] for seed in (2, 1) for reserve in (8, 4, 2, 0)]


def test_a_run_without_the_balancer_is_in_no_chain():
    document = {"nodes": 8, "workload": {"generate": ["daily_batch"]}}
    others = [None, {"static_partition": {"ondemand_nodes": 2}}, "balancer"]
    sweep = Sweep("none", tuple(make_run({**document, "mechanism": each}, {}) for each in others))
    assert chains(sweep).chains == []
    assert [done.row is not None for done in Here().done(sweep.runs[:1], lambda: False)] == [True]
    assert isinstance(next(iter(Here().done(sweep.runs[:1], lambda: False))), Done)
