"""The Balancer's decisions in virtual time."""

import pytest

from balancer.algorithms.basic import Basic
from balancer.algorithms.hint import Hint
from balancer.clock import US
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.lifecycle.nodes import NodeTable
from balancer.policy_settings import Settings
from emulator.mechanisms.balancer.policy import BalancerPolicy, Granted, Rejected, Waiting


class FakePool:
    """A batch pool that knows which nodes run jobs and keeps a list of what was asked of it."""

    def __init__(self, busy=()):
        self.busy = set(busy)
        self.log = []

    def take(self, nodes):
        self.log.append(("take", *nodes))
        return [node for node in nodes if node not in self.busy], [
            node for node in nodes if node in self.busy
        ]

    def give(self, nodes):
        self.log.append(("give", *nodes))


def policy(pool, *, nodes=4, algorithm=None, **settings):
    names = [f"node-{number}" for number in range(nodes)]
    return BalancerPolicy(names, algorithm or Basic(), Settings(**settings), pool)


def test_a_lease_gets_idle_nodes_at_once_and_they_go_back_after_i():
    pool = FakePool()
    p = policy(pool, idle_reserve_us=100 * US)
    assert p.request(0, 7, 2) == [Granted(7, (0, 1))]
    assert p.release(10 * US, [0, 1]) == []
    assert p.next_wake_us == 110 * US
    assert p.timer(110 * US) == []
    assert pool.log == [("take", 0, 1), ("give", 0, 1)]
    assert p.next_wake_us is None
    p.lifecycle.validate()


def test_a_lease_that_cannot_be_met_is_rejected_and_nothing_is_taken():
    pool = FakePool()
    p = policy(pool)
    p.observe(0, {0: ("busy", 0), 1: ("busy", 0)})
    assert p.request(0, 7, 3) == [Rejected(7, "3 nodes are not available at once")]
    assert pool.log == []


def test_a_waiting_lease_is_answered_by_a_later_call():
    p = policy(FakePool(), wait_us=60 * US)
    p.observe(0, dict.fromkeys(range(4), ("busy", 0)))
    assert p.request(0, 7, 1) == [Waiting(7, 60 * US)]
    assert p.wants_idle
    assert p.next_wake_us == 60 * US
    assert p.observe(20 * US, {3: ("idle", 20 * US)}) == [Granted(7, (3,))]
    assert not p.wants_idle


def test_a_waiting_lease_is_rejected_when_its_time_is_up():
    p = policy(FakePool(), wait_us=60 * US)
    p.observe(0, dict.fromkeys(range(3), ("busy", 0)))
    p.request(0, 7, 2)
    assert p.timer(60 * US) == [Rejected(7, "only 1 of 2 nodes became available in time")]


def test_one_call_may_answer_several_leases():
    p = policy(FakePool(), wait_us=60 * US)
    p.observe(0, dict.fromkeys(range(2), ("busy", 0)))
    p.request(0, 7, 4)
    p.request(1, 8, 1)
    assert p.timer(60 * US) == [Rejected(7, "only 2 of 4 nodes became available in time"), Granted(8, (2,))]


def test_a_withdrawn_lease_gets_no_outcome():
    p = policy(FakePool(), wait_us=60 * US)
    p.observe(0, dict.fromkeys(range(4), ("busy", 0)))
    p.request(0, 7, 2)
    assert p.withdraw(1, 7) == []
    assert p.timer(60 * US) == []


def test_the_reserve_is_collected_at_the_first_wake():
    pool = FakePool()
    p = policy(pool, static_reserve=2)
    assert p.next_wake_us == 0
    assert p.timer(0) == []
    assert pool.log == [("take", 0, 1)]
    assert not p.wants_idle


def test_a_node_that_runs_a_job_is_not_taken_and_another_is():
    pool = FakePool(busy=[0])
    assert policy(pool).request(0, 7, 2) == [Granted(7, (1, 2))]
    assert pool.log == [("take", 0, 1), ("take", 2)]


def test_hints_collect_nodes():
    pool = FakePool()
    p = policy(pool, algorithm=Hint())
    p.add_reserve(0, 900 * US, 3)
    assert pool.log == [("take", 0, 1, 2)]
    assert p.next_wake_us == (900 + 600) * US


def test_what_contradicts_is_refused():
    p = policy(FakePool())
    with pytest.raises(Refused):
        p.release(0, [1])
    with pytest.raises(Refused):
        p.request(0, 7, 0)


def test_a_failing_algorithm_ends_the_experiment():
    class Broken:
        def plan(self, view):
            raise RuntimeError("no")

    with pytest.raises(BadPlan, match="algorithm Broken: raised RuntimeError: no"):
        policy(FakePool(), algorithm=Broken()).observe(0, {0: ("busy", 0)})


def test_the_cost_of_a_decision_does_not_grow_with_the_cluster(monkeypatch):
    """Counted in nodes looked at, not in time: no pass over all nodes."""
    p = policy(FakePool(), nodes=5000, static_reserve=3)
    p.timer(0)

    def scan(_):
        raise AssertionError("a decision goes over all nodes")

    monkeypatch.setattr(NodeTable, "__iter__", scan)
    assert isinstance(p.request(US, 7, 4)[0], Granted)
    p.release(2 * US, [0])
    p.timer(3 * US)
