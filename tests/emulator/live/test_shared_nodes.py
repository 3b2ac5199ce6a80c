"""Jobs that share nodes live: the run is that of virtual time."""

import numpy as np
import pytest

from emulator.scenario import from_mapping
from emulator.workload.table import JobTable
from fleet_kit.both_clocks import assert_same, run_both

S = 1_000_000
pytestmark = pytest.mark.live


def workload(seed, jobs=40):
    draw = np.random.default_rng(seed)
    run_us = draw.integers(10 * S, 900 * S, jobs)
    return JobTable.build(
        submit_us=np.sort(draw.integers(0, 2000, jobs) * S),
        run_us=run_us,
        estimate_us=(run_us * draw.uniform(1, 3, jobs)).astype(np.int64),
        nodes=draw.choice([1, 1, 1, 2, 3], jobs),
        queue=draw.integers(0, 2, jobs),
        extra={"cores": draw.integers(1, 5, jobs), "share_limit": draw.choice([-1, -1, 1], jobs)},
    )


def scenario(mechanism, *, nodes=3, scheduler="fcfs+easy", **live):
    return from_mapping(
        {
            "name": "shared",
            "nodes": nodes,
            "scheduler": scheduler,
            "workload": {"generate": [{"daily_batch": {}}]},
            "mechanism": mechanism,
            "live": {"speed": 20_000} | live,
        }
    )


@pytest.mark.parametrize(
    ("mechanism", "scheduler"),
    [
        pytest.param({"oversubscribe": {"cores": 4, "multiplicity": 2}}, "fcfs+none", id="fcfs"),
        pytest.param({"oversubscribe": {"cores": 4, "multiplicity": 4}}, "fcfs+easy", id="easy"),
        pytest.param(
            {"dedicated_nodes": {"cores": 4, "percent": 34, "refuse_too_wide": True}},
            "fcfs+easy",
            id="dedicated",
        ),
    ],
)
def test_it_is_the_run_of_virtual_time(tmp_path, mechanism, scheduler):
    virtual, live = run_both(tmp_path, scenario(mechanism, scheduler=scheduler), workload(1))
    assert_same(virtual, live)
    assert live.node_names == virtual.node_names
    assert live.figures == virtual.figures
    assert {name: column.tolist() for name, column in live.jobs.extra.items()} == {
        name: column.tolist() for name, column in virtual.jobs.extra.items()
    }
