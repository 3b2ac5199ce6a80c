"""Nodes in doubt belong to their grant, and it ends with nothing while they are."""

import pytest

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import NodesAdopted, NodesDoubted


def leased(world, **options):
    """r has n1 and n2 until 100 s; n1 is quarantined since 50 s."""
    w = world(2, **options)
    w.request("r", 2, lease_s=100)
    w.confirm("r")
    w.at(50).handle(NodesDoubted(at_us=w.now_us, reasons={"n1": "an older ledger"}))
    return w


def adopted(w, *, on_demand=(), batch=()):
    w.handle(NodesAdopted(at_us=w.now_us, on_demand=on_demand, batch=batch))


def test_a_lease_that_ends_leaves_a_quarantined_node_where_it_is(world):
    w = leased(world, confirm_s=60)
    w.at(100).timer()
    assert w.states() == {"n1": "QUARANTINED", "n2": "OD_RESERVE"}
    assert (w.grant("r").overdue, w.grant("r").ended_us) == (True, None)


def test_a_quarantined_node_that_is_on_demands_ends_with_its_lease(world):
    w = leased(world, confirm_s=60)
    w.at(100).timer()
    adopted(w.at(120), on_demand=("n1",))
    assert w.states() == {"n1": "OD_RESERVE", "n2": "OD_RESERVE"}
    assert w.grant("r") is None


def test_a_quarantined_node_that_is_on_demands_in_time_stays_with_its_grant(world):
    w = leased(world, confirm_s=60)
    adopted(w.at(60), on_demand=("n1",))
    assert w.states() == {"n1": "OD_ALLOC", "n2": "OD_ALLOC"}
    assert (w.grant("r").overdue, w.wake_s) == (False, 100)


def test_a_quarantined_node_that_is_batchs_leaves_its_grant(world):
    w = leased(world, confirm_s=60)
    adopted(w.at(60), batch=("n1",))
    assert w.states() == {"n1": "OA_IDLE", "n2": "OD_ALLOC"}
    w.release("n2")
    assert w.grant("r") is None


def test_a_quarantined_node_is_not_released(world):
    w = leased(world, confirm_s=60)
    with pytest.raises(Refused, match="node n1 is QUARANTINED"):
        w.release("n1")


def test_with_a_cloud_a_quarantined_node_waits_for_its_word(world):
    w = leased(world, confirm_s=60, has_cloud=True)
    w.at(100).timer()
    w.at(110).servers(empty=("n1", "n2"))
    assert w.states() == {"n1": "QUARANTINED", "n2": "OD_RESERVE"}
    adopted(w.at(120), on_demand=("n1",))
    assert w.grant("r").overdue
    w.at(130).servers(empty=("n1",))
    assert w.grant("r") is None


def test_a_quarantined_node_is_not_granted(world):
    w = world(1)
    w.handle(NodesDoubted(at_us=w.now_us, reasons={"n1": "an older ledger"}))
    w.request("r", 1)
    assert w.grant("r") is None
    assert w.states() == {"n1": "QUARANTINED"}


def test_a_reserve_whose_time_is_over_ends_with_the_event_that_only_holds_nodes(world):
    w = world(2, hold_s=10)
    w.add_reserve("h", 1, by_s=10)
    w.at(30).handle(NodesDoubted(at_us=w.now_us, reasons={"n1": "an older ledger"}))
    assert w.lifecycle.snapshot().reserves == ()
