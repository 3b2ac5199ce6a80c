"""The out-of-band predictor against a real service."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from balancer.clock import micros
from balancer.predictors.runner import PredictorRunner, Step

if TYPE_CHECKING:
    from balancer.client import BalancerError
    from balancer.predictors.interface import History

pytestmark = pytest.mark.live
SLOT_S = 21_600


@dataclass(frozen=True)
class LikeTheSlotBefore:
    def predict(self, history: History, slot: int) -> int:
        return history.requested(slot - 1) or 0


def test_it_reserves_what_history_says_and_only_once_a_slot(service):
    world, client = service
    client.request_nodes(3)
    world.clock.advance_to(micros(SLOT_S))
    runner = PredictorRunner(balancer=client, predictor=LikeTheSlotBefore())
    step = runner.step(world.clock.now_us())
    (reserve,) = client.reserves()
    assert step == Step(at_s=SLOT_S, slot_s=SLOT_S, nodes=3, reserve_id=reserve.id)
    assert (reserve.count, reserve.by_s, reserve.kept_until_s) == (3, SLOT_S, 2 * SLOT_S)

    world.clock.advance_to(micros(SLOT_S + 60))
    again = PredictorRunner(balancer=client, predictor=LikeTheSlotBefore()).step(world.clock.now_us())
    assert again.reserve_id == ""
    assert len(client.reserves()) == 1


def test_it_reserves_no_more_than_there_are_nodes_and_nothing_on_a_dry_run(service):
    world, client = service
    for _ in range(2):
        client.release_nodes(client.request_nodes(6).nodes)
    world.clock.advance_to(micros(SLOT_S))
    runner = PredictorRunner(balancer=client, predictor=LikeTheSlotBefore())
    assert runner.step(world.clock.now_us(), dry_run=True).nodes == 8
    assert client.reserves() == []


def test_the_loop_takes_a_step_at_each_slot_and_reports_a_service_that_is_away(service):
    world, client = service
    client.request_nodes(2)
    stop = threading.Event()
    told: list[Step | BalancerError] = []
    changed = threading.Condition()

    def tell(step):
        with changed:
            told.append(step)
            changed.notify()

    runner = PredictorRunner(balancer=client, predictor=LikeTheSlotBefore())
    thread = threading.Thread(target=runner.run, args=(world.clock, stop, tell))
    thread.start()
    try:
        with changed:
            assert changed.wait_for(lambda: len(told) == 1, 120)
        world.clock.advance_to(micros(SLOT_S))
        with changed:
            assert changed.wait_for(lambda: len(told) == 2, 120)
    finally:
        stop.set()
        thread.join()
    assert [step.nodes for step in told] == [0, 2]

    client.url = "http://127.0.0.1:9"
    (due_us,) = (runner._step_and_tell(micros(SLOT_S), told.append),)
    assert due_us == micros(SLOT_S + 60)
    assert told[-1].code == "balancer.unreachable"
