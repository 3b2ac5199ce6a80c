"""Random events against a model that is a dictionary: I1, I3, I7, I14; no node is granted twice.

The model is the batch system and the on-demand users: what really is the case. The life cycle only
hears of it. A node has one command at a time, the last one, as the commander has it (`balancer/service/commands.py`),
and what the commander tells of a node ends it.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from balancer.algorithms.basic import Basic
from balancer.algorithms.hint import Hint
from balancer.clock import US
from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import (
    Grant,
    NodesFailed,
    NodesObserved,
    NodesReclaimed,
    NodesRecovered,
    NodesReleased,
    NodesRequested,
    NodesRestored,
    NodesUpdated,
    Reclaim,
    Reject,
    RequestWithdrawn,
    ReserveAdded,
    Restore,
    TimerFired,
    WakeAt,
)
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.states import NodeState
from balancer.policy_settings import PickOrder, ReserveRule, Settings

NODES = tuple(f"n{number}" for number in range(6))


class World(RuleBasedStateMachine):
    """`real[node]`: `idle`, `busy` or `down` in an enabled batch node, `offline` in one that is taken out."""

    @initialize(
        reserve=st.integers(0, 3),
        wait_s=st.sampled_from((0, 0, 30)),
        hold_s=st.sampled_from((0, 20)),
        pick=st.sampled_from(PickOrder),
        rule=st.sampled_from(ReserveRule),
        hints=st.booleans(),
    )
    def begin(self, *, reserve, wait_s, hold_s, pick, rule, hints):
        self.algorithm = Hint() if hints else Basic()
        self.settings = Settings(
            static_reserve=0 if hints else reserve,
            reserve_rule=rule,
            wait_us=wait_s * US,
            idle_reserve_us=hold_s * US,
            pick=pick,
        )
        self.lifecycle = Lifecycle(NODES, self.algorithm, self.settings, initial=NodeState.OA_IDLE)
        self.now_us = 0
        self.serial = 0
        self.real = dict.fromkeys(NODES, "idle")
        self.commands = {}  # node -> the last instruction for it that is not carried out yet
        self.waiting = {}  # request id -> (count, deadline)
        self.granted = {}  # node -> request id
        self.failed = set()  # granted nodes that are down
        self.replacements = set()  # ids of requests for others
        self.stored = {record.name: record for record in self.lifecycle.snapshot().nodes}
        self.wake_us = None

    def tell(self, event):
        before = self.lifecycle.snapshot()
        try:
            told = self.lifecycle.handle(event)
        except Refused:
            assert self.lifecycle.snapshot() == before
            raise
        changes = self.lifecycle.drain_changes()
        for request in changes.requests:
            if request.replaces and request.request_id not in self.replacements:
                self.replacements.add(request.request_id)
                self.waiting[request.request_id] = request.count, request.deadline_us
        for record in changes.nodes:
            assert record.generation == self.stored[record.name].generation + 1, "I7"
            self.stored[record.name] = record
        for instruction in told:
            match instruction:
                case Reclaim() | Restore():
                    self.commands |= dict.fromkeys(instruction.nodes, instruction)
                case Grant(request_id=key, nodes=nodes):
                    count, _ = self.waiting.pop(key)
                    assert len(nodes) == len(set(nodes)) == count
                    assert not set(nodes) & set(self.granted), "a node is granted twice"
                    assert all(self.real[node] == "offline" for node in nodes), "I1: batch may still use it"
                    self.granted |= dict.fromkeys(nodes, key)
                case Reject(request_id=key):
                    count, deadline_us = self.waiting.pop(key)
                    assert self.now_us >= deadline_us or count > len(NODES)
                case WakeAt(at_us=at_us):
                    self.wake_us = at_us
        return told

    def next_id(self):
        self.serial += 1
        return f"x{self.serial}"

    @rule(count=st.integers(1, 7), wait_s=st.sampled_from((None, 0, 10)), replace=st.booleans())
    def request(self, count, wait_s, replace):
        key = self.next_id()
        wait_us = self.settings.wait_us if wait_s is None else wait_s * US
        self.waiting[key] = (count, self.now_us + wait_us)
        self.tell(
            NodesRequested(at_us=self.now_us, request_id=key, count=count, wait_us=wait_us, replace=replace)
        )

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data):
        key = data.draw(st.sampled_from(sorted(self.waiting)))
        del self.waiting[key]
        self.tell(RequestWithdrawn(at_us=self.now_us, request_id=key))

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def release(self, data):
        nodes = data.draw(st.lists(st.sampled_from(sorted(self.granted)), min_size=1, unique=True))
        for node in nodes:
            del self.granted[node]
        self.failed -= {*nodes}
        self.tell(NodesReleased(at_us=self.now_us, nodes=tuple(nodes)))

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def granted_nodes_fail(self, data):
        nodes = data.draw(st.lists(st.sampled_from(sorted(self.granted)), min_size=1, unique=True))
        grants = {key: self.lifecycle._leases.get(key).record for key in self.granted.values()}
        is_replaced = {node: grants[self.granted[node]].replace for node in nodes}
        held = {node: self.granted[node] for node in nodes}
        for node in nodes:
            if is_replaced[node]:
                del self.granted[node]
                self.real[node] = "down"
            else:
                self.failed.add(node)
        self.tell(NodesFailed(at_us=self.now_us, nodes=dict.fromkeys(nodes, self.now_us)))
        for node in nodes:
            if is_replaced[node]:
                assert self.lifecycle.node(node).state is NodeState.DOWN
            else:
                assert self.lifecycle.node(node).reserved_for == held[node], "it is its owner's still"

    @precondition(lambda self: self.failed)
    @rule(data=st.data())
    def a_failed_node_recovers(self, data):
        node = data.draw(st.sampled_from(sorted(self.failed)))
        self.failed.remove(node)
        self.tell(NodesRecovered(at_us=self.now_us, nodes=(node,)))

    @rule(count=st.integers(1, 4), ahead_s=st.integers(0, 40))
    def add_reserve(self, count, ahead_s):
        by_us = self.now_us + ahead_s * US
        self.tell(ReserveAdded(at_us=self.now_us, reserve_id=self.next_id(), count=count, by_us=by_us))

    @rule(data=st.data(), is_reported=st.booleans())
    def a_job_starts(self, data, is_reported):
        idle = [node for node in NODES if self.real[node] == "idle"]
        if not idle:
            return
        nodes = data.draw(st.lists(st.sampled_from(idle), min_size=1, unique=True))
        if is_reported:
            try:
                self.tell(NodesUpdated(at_us=self.now_us, busy=tuple(nodes), job=self.next_id()))
            except Refused:
                return  # batch requeues the job
        self.real |= dict.fromkeys(nodes, "busy")

    @rule(data=st.data(), is_reported=st.booleans())
    def a_job_ends(self, data, is_reported):
        busy = [node for node in NODES if self.real[node] == "busy"]
        if not busy:
            return
        node = data.draw(st.sampled_from(busy))
        self.real[node] = "idle"
        if is_reported:
            self.tell(NodesUpdated(at_us=self.now_us, idle=(node,)))

    @rule(node=st.sampled_from(NODES))
    def a_node_goes_down_or_comes_up(self, node):
        if self.real[node] == "down":
            self.real[node] = "idle"
        elif self.real[node] != "offline":
            self.real[node] = "down"

    @rule(nodes=st.lists(st.sampled_from(NODES), unique=True))
    def look(self, nodes):
        states = {node: (self.real[node], self.now_us) for node in nodes if self.real[node] != "offline"}
        for node in [*states]:
            command = self.commands.get(node)
            if self.real[node] == "down" or (self.real[node] == "busy" and isinstance(command, Restore)):
                self.commands.pop(node, None)
            elif command is not None:  # its command sees to it
                del states[node]
        self.tell(NodesObserved(at_us=self.now_us, states=states))

    @rule(node=st.sampled_from(NODES), state=st.sampled_from(("idle", "busy")))
    def a_late_report(self, node, state):
        try:
            self.tell(NodesUpdated(at_us=self.now_us, **{state: (node,)}, job="late"))
        except Refused as refused:
            if refused.code != Refused.NODE_NOT_IN_BATCH:
                raise

    @precondition(lambda self: self.commands)
    @rule(data=st.data(), is_clear=st.booleans())
    def commands_are_carried_out(self, data, is_clear):
        first, *others = data.draw(st.lists(st.sampled_from(sorted(self.commands)), min_size=1, unique=True))
        kind = type(self.commands[first])
        nodes = (first, *(node for node in others if type(self.commands[node]) is kind))
        if not is_clear:
            event = NodesReclaimed if kind is Reclaim else NodesRestored
            self.tell(event(at_us=self.now_us, unclear=nodes))
            return
        for node in nodes:
            del self.commands[node]
        if kind is Reclaim:
            can = tuple(node for node in nodes if self.real[node] in ("idle", "down", "offline"))
            self.real |= dict.fromkeys(can, "offline")
            busy = tuple(node for node in nodes if node not in can)
            self.tell(NodesReclaimed(at_us=self.now_us, done=can, busy=busy))
        else:
            offline = [node for node in nodes if self.real[node] == "offline"]
            self.real |= dict.fromkeys(offline, "idle")
            self.tell(NodesRestored(at_us=self.now_us, done=nodes))

    @rule(ahead_s=st.integers(0, 30))
    def time_passes(self, ahead_s):
        self.now_us += ahead_s * US
        for _ in range(3):
            if self.wake_us is None or self.wake_us > self.now_us:
                return
            self.wake_us = None
            self.tell(TimerFired(at_us=self.now_us))
        raise AssertionError("it wants to be woken over and over again")

    @rule()
    def restart(self):
        snapshot = self.lifecycle.snapshot()
        assert {record.name: record for record in snapshot.nodes} == self.stored, (
            "what was written is what is"
        )
        self.lifecycle = Lifecycle.restore(snapshot, self.algorithm, self.settings)
        orders = [each for each in self.lifecycle.resume() if not isinstance(each, WakeAt)]
        self.commands = {node: each for each in orders for node in each.nodes}
        self.tell(TimerFired(at_us=self.now_us))

    @invariant()
    def laws(self):
        if not hasattr(self, "lifecycle"):
            return
        self.lifecycle.validate()
        states = {record.name: record for record in self.lifecycle.snapshot().nodes}
        assert set(states) == set(NODES), "I3"
        assert sum(self.lifecycle._nodes.counts.values()) == len(NODES), "I3"
        for node, record in states.items():
            on_demand = record.state in (NodeState.OD_RESERVE, NodeState.OD_ALLOC)
            assert not on_demand or self.real[node] == "offline", f"I1: {node} is enabled in both pools"
            assert (record.state is NodeState.OD_ALLOC) == (node in self.granted)
            assert (record.down_since_us is not None) == (node in self.failed)
        requests = self.lifecycle.snapshot().requests
        waiting = {request.request_id for request in requests if request.status == "waiting"}
        assert waiting == set(self.waiting)
        for node, record in states.items():
            if record.state in (NodeState.RECLAIMING, NodeState.RESTORING):
                assert node in self.commands, f"I10: nobody will ever tell how it went with {node}"
        for key, (count, deadline_us) in self.waiting.items():
            held = sum(record.reserved_for == key for record in states.values())
            due = self.wake_us is not None and self.wake_us <= deadline_us
            assert held == count or due, f"I10: nobody wakes {key} when its time is up"


World.TestCase.settings = settings(
    max_examples=100, stateful_step_count=50, suppress_health_check=list(HealthCheck)
)
TestWorld = World.TestCase
