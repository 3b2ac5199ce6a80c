"""The end of a move between the pools is counted, by direction and outcome; what is no end is not."""

from __future__ import annotations

import pytest

from balancer.lifecycle.records import NodeRecord
from balancer.lifecycle.states import NodeState
from balancer.service.metrics import Metrics


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        ("RECLAIMING", "OD_RESERVE", ("batch", "on_demand", "done")),
        ("RECLAIMING", "OA_BUSY", ("batch", "on_demand", "failed")),
        ("RESTORING", "OA_IDLE", ("on_demand", "batch", "done")),
        ("RESTORING", "OA_BUSY", ("on_demand", "batch", "done")),
        ("RESTORING", "DOWN", ("on_demand", "batch", "failed")),
        ("RESTORING", "QUARANTINED", ("on_demand", "batch", "failed")),
        ("OA_IDLE", "RECLAIMING", None),
        ("OD_RESERVE", "OD_ALLOC", None),
    ],
)
def test_a_move_is_counted_when_it_ends(before, after, counted):
    metrics = Metrics("fake")
    old = NodeRecord(name="n1", state=NodeState(before), since_us=1_000_000)
    metrics.nodes_moved([(old, NodeRecord(name="n1", state=NodeState(after), since_us=3_500_000))])
    lines = [line for line in metrics.text().decode().splitlines() if line.startswith("balancer_move")]
    told = [line for line in lines if line.endswith(" 1.0") and "_total{" in line]
    sums = [line for line in lines if "_sum{" in line]
    if counted is None:
        assert (told, sums) == ([], [])
        return
    (line,), (total,) = told, sums
    source, target, outcome = counted
    assert all(f'="{word}"' in line for word in (source, target, outcome)), line
    assert total.endswith(" 2.5")
