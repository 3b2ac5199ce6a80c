"""The Balancer looks at the batch pool only where something has changed there, and misses nothing."""

from __future__ import annotations

import pytest

from emulator.mechanisms.balancer.mechanism import BalancerMechanism
from emulator.runs.preparation import prepare
from emulator.runs.runner import make_machine
from emulator.runs.scenario import from_mapping
from emulator.simulation.loop import Loop


class LooksEachTime(BalancerMechanism):
    """It has never seen anything."""

    def _look(self, act):
        self._seen = -1
        super()._look(act)


def record(mechanism_class, **parameters):
    scenario = from_mapping(
        {
            "seed": 3,
            "nodes": 40,
            "workload": {
                "generate": [
                    {"daily_batch": {"days": 3, "load": 0.9}},
                    {"bursty_leases": {"days": 3, "utilisation": 0.05}},
                ]
            },
            "mechanism": {"balancer": parameters},
        }
    )
    prepared = prepare(scenario)
    mechanism = mechanism_class(**parameters)
    loop = Loop(make_machine(scenario, prepared, mechanism), mechanism)
    assert loop.run()
    return loop.record()


@pytest.mark.parametrize(
    "parameters",
    [{}, {"wait_s": 1800, "static_reserve": 3}, {"algorithm": "hint", "notice_s": 900}],
    ids=["at once", "waits", "announced"],
)
def test_a_look_that_is_left_out_would_have_seen_nothing(parameters):
    spared, each = record(BalancerMechanism, **parameters), record(LooksEachTime, **parameters)
    assert len(spared.leases) > 20
    assert (spared.start_us == each.start_us).all()
    assert (spared.moves, spared.leases) == (each.moves, each.leases)
