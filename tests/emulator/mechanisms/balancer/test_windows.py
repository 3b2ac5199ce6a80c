"""Capacity that comes again, in virtual time: by the service's own rule."""

from __future__ import annotations

import pytest

from balancer.clock import US
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.record.run_record import NodePool
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping

HOUR_S = 3600


def scenario(**balancer):
    batch = {"days": 3, "jobs": 200, "load": 0.5, "median_run_s": 900, "max_walltime_s": 7200}
    return from_mapping(
        {
            "nodes": 8,
            "workload": {"generate": [{"daily_batch": batch}]},
            "mechanism": {"balancer": {"idle_reserve_s": 0} | balancer},
            "seed": 5,
        }
    )


def reserved(result):
    """(time in s, nodes in reserve after it), whenever that changes."""
    inside, counts = set(), []
    for move in result.moves:
        inside = (
            inside.union(move.nodes) if move.pool is NodePool.OD_RESERVE else inside.difference(move.nodes)
        )
        if not counts or counts[-1][0] != move.at_us // US:
            counts.append((move.at_us // US, len(inside)))
        counts[-1] = (move.at_us // US, len(inside))
    return counts


def test_nodes_are_reserved_in_each_window_and_batchs_outside():
    found = scenario(every=[{"windows": "daily 20:00-06:00", "nodes": 3, "notice_s": 0}])
    counts = reserved(run_virtual(found, prepare(found)))
    assert counts
    for at_s, count in counts:
        hour = at_s % (24 * HOUR_S) / HOUR_S
        assert count <= 3
        assert (count > 0) <= (hour >= 20 or hour < 6), (hour, count)
    assert {count for _, count in counts} >= {0, 3}


def test_the_calendar_begins_where_the_scenario_says():
    windows = [{"windows": "Sat,Sun 00:00-00:00", "nodes": 2, "notice_s": 0}]
    begun = BalancerMechanism(every=windows, time_zero="2026-01-03T00:00:00Z").standing()[0]  # a Saturday
    assert begun.every.window(0, 0) == (0, 24 * HOUR_S * US)
    later = BalancerMechanism(every=windows, time_zero="2026-01-05T00:00:00Z").standing()[0]
    assert later.every.window(0, 0) == (5 * 24 * HOUR_S * US, 6 * 24 * HOUR_S * US)


def test_a_run_ends_with_its_work_whatever_windows_are_to_come():
    found = scenario(every=[{"windows": "daily 20:00-06:00", "nodes": 3}])
    result = run_virtual(found, prepare(found))
    assert result.horizon_us < 30 * 24 * HOUR_S * US


@pytest.mark.parametrize(
    ("every", "more", "said"),
    [
        ("daily", {}, "every is a list, each of windows and nodes"),
        ([{"nodes": 3}], {}, "must have windows and nodes"),
        ([{"windows": "daily 20:00-06:00", "nodes": 3, "when": 1}], {}, "must have windows and nodes"),
        ([{"windows": "at night", "nodes": 3}], {}, "'at night' is no window"),
        ([{"windows": "daily 20:00-06:00", "nodes": 0}], {}, "nodes"),
        ([{"windows": "daily 20:00-06:00", "nodes": 3, "zone": "Mars"}], {}, "there is no time zone 'Mars'"),
        ([{"windows": "daily 20:00-06:00", "nodes": 3}], {"time_zero": "Monday"}, "'Monday' is no time"),
        ([], {"time_zero": "2026-01-05T00:00:00Z"}, "time_zero: only windows of every go by it"),
    ],
)
def test_what_makes_no_sense_is_told(every, more, said):
    with pytest.raises(ValueError, match=said):
        BalancerMechanism(every=every, **more)
