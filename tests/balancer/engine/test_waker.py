"""Nodes that sleep are woken when on-demand wants more than is awake, and no more of them than that."""

from __future__ import annotations

import threading

import pytest

import balancer.service.waker
import service_kit
from balancer.drivers.base import NodeStatus, RefusedError
from balancer.lifecycle.records import RequestStatus
from balancer.service.calls import Caller
from balancer.service.freeze import Order


class SleepyBatch(service_kit.FakeBatch):
    """All its nodes are asleep until they are woken and `came` says that they are up."""

    def __init__(self, nodes):
        super().__init__(nodes)
        self.asleep = set(self.marked)
        self.falling_asleep = set()

    def wake_nodes(self, nodes):
        self._command("wake", nodes)

    def status(self, node):
        if node in self.asleep:
            return NodeStatus("down", is_asleep=True, is_off=node not in self.falling_asleep)
        return super().status(node)

    def woken(self):
        return [node for name, nodes in self.commands() if name == "wake" for node in nodes]


@pytest.fixture
def site(world):
    def make(**options):
        batch = SleepyBatch([f"n{number:02d}" for number in range(1, 5)])
        w = world(nodes=4, has_cloud=False, driver=lambda _, __: batch, **{"wait_s": 600} | options)
        w.batch = batch
        w.settled()
        return w

    return make


def test_a_request_wakes_as_many_as_it_lacks_and_gets_them_within_w(site, kit):
    w = site()
    assert w.batch.woken() == []
    asked = w.engine.submit_request(2)
    kit.until(lambda: len(w.batch.woken()) == 2)
    w.engine.reconcile()
    assert len(w.batch.woken()) == 2, "those on their way count"
    w.batch.asleep -= {*w.batch.woken()}
    w.engine.reconcile()
    record = w.engine.wait_for_request(asked.request_id).record
    assert (record.status, {*record.nodes}) == (RequestStatus.GRANTED, {*w.batch.woken()})


def test_a_node_that_is_switched_off_on_its_way_home_is_at_home_and_can_be_woken(site, kit):
    w = site(idle_reserve_s=0)
    w.batch.asleep.clear()
    w.engine.reconcile()
    (lent,) = w.engine.wait_for_request(w.engine.submit_request(1).request_id).record.nodes
    w.batch.asleep |= {lent}
    w.engine.release_nodes((lent,))
    kit.until(lambda: w.states()[lent] == "DOWN")
    w.engine.submit_request(4)
    w.engine.reconcile()
    kit.until(lambda: w.batch.woken() == [lent])


def test_only_nodes_that_it_may_have_are_woken(site, kit):
    w = site()
    w.engine.submit_request(2, candidates=("n03", "n04"))
    kit.until(lambda: w.batch.woken() == ["n03", "n04"])
    w.engine.submit_request(1, exclude=("n01",))
    kit.until(lambda: w.batch.woken() == ["n03", "n04", "n02"])


def test_one_that_does_not_come_up_in_time_rejects_the_request_and_is_asked_again_later(
    site, kit, monkeypatch
):
    w = site(wait_s=60)
    asked = w.engine.submit_request(1)
    kit.until(lambda: w.batch.woken() == ["n01"])
    w.clock.advance_to(w.clock.now_us() + 61_000_000)
    assert w.engine.wait_for_request(asked.request_id).record.status is RequestStatus.REJECTED
    began_us = balancer.service.waker.wall_us()
    monkeypatch.setattr(balancer.service.waker, "wall_us", lambda: began_us + 1_000_000_000)
    w.engine.submit_request(1)
    kit.until(lambda: w.batch.woken() == ["n01", "n01"])


def test_of_two_looks_at_once_the_second_knows_what_the_first_has_woken(site, kit, monkeypatch):
    w = site()
    choose = balancer.service.waker._chosen
    other = threading.Thread(target=w.engine.reconcile)

    def chosen_while_another_looks(*what):
        monkeypatch.setattr(balancer.service.waker, "_chosen", choose)
        nodes = choose(*what)
        other.start()
        other.join(0.3)  # long enough for a look that does not wait for this one
        return nodes

    monkeypatch.setattr(balancer.service.waker, "_chosen", chosen_while_another_looks)
    w.engine.submit_request(1)
    other.join(60)
    w.engine.reconcile()
    w.settled()
    assert w.batch.woken() == ["n01"]


def test_one_that_is_still_being_switched_off_is_woken_once_it_is_off(site, kit):
    w = site()
    w.batch.falling_asleep = {"n01", "n02", "n03", "n04"}
    w.engine.reconcile()
    w.engine.submit_request(1)
    w.engine.reconcile()
    assert w.batch.woken() == []
    w.batch.falling_asleep.clear()
    w.engine.reconcile()
    kit.until(lambda: w.batch.woken() == ["n01"])


def test_a_reserve_wakes_what_it_lacks(site, kit):
    w = site(reserve=3)
    w.engine.reconcile()  # the plan after the first look knows what it lacks
    kit.until(lambda: len(w.batch.woken()) == 3)


@pytest.mark.parametrize("error", [RefusedError("no such state"), ValueError("a bug")])
def test_a_driver_that_cannot_is_no_end(site, kit, error):
    w = site()
    w.batch.fails["wake"] = error
    asked = w.engine.submit_request(1)
    kit.until(lambda: w.batch.woken() == ["n01"])
    w.batch.asleep.discard("n01")
    w.engine.reconcile()
    assert w.engine.wait_for_request(asked.request_id).record.nodes == ("n01",)


def test_while_nodes_may_not_move_none_is_woken(site):
    w = site()
    w.freeze.freeze(Order("root", "looking", "now"))
    w.engine.submit_request(2, caller=Caller("me"))
    w.engine.reconcile()
    assert w.batch.woken() == []
