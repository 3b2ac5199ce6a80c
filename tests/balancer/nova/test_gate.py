"""The trait and the aggregate that the agent keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from balancer.nova.agent import Agent, AgentSettings
from balancer.nova.decide import Rules
from balancer.nova.gate import Aggregate, Gate
from command_line import balance

TRAIT = "CUSTOM_BALANCER_NODE"


@dataclass
class Cloud:
    """Providers with traits, and aggregates, in memory. A provider of `changed` is being changed by somebody."""

    hosts: dict[str, tuple[str, ...]]
    traits: dict[str, set[str]] | None = None
    aggregates: dict[str, Aggregate] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    calls: int = 0

    def providers(self):
        return self.hosts

    def with_trait(self, trait):
        return None if self.traits is None else frozenset(self.traits.get(trait, ()))

    def make_trait(self, trait):
        self.traits = {trait: set()}

    def set_trait(self, provider, trait, *, has):
        self.calls += 1
        if provider in self.changed:
            return False
        (self.traits[trait].add if has else self.traits[trait].discard)(provider)
        return True

    def aggregate(self, name):
        return self.aggregates.get(name)

    def make_aggregate(self, name, metadata):
        self.aggregates[name] = Aggregate(name, frozenset(), metadata)
        return self.aggregates[name]

    def _hosts(self, name, hosts):
        self.calls += 1
        self.aggregates[name] = Aggregate(name, hosts, self.aggregates[name].metadata)

    def add_host(self, aggregate, host):
        self._hosts(aggregate, self.aggregates[aggregate].hosts | {host})

    def remove_host(self, aggregate, host):
        self._hosts(aggregate, self.aggregates[aggregate].hosts - {host})


def a_cloud(**more):
    return Cloud({"n1": ("u1",), "n2": ("u2", "u2b"), "other": ("u3",)}, **more)


def test_exactly_the_nodes_have_the_trait():
    cloud = a_cloud(traits={TRAIT: {"u1", "u3", "gone"}})
    Gate(TRAIT).keep(cloud, ["n1", "n2", "not-in-nova"])
    assert cloud.traits == {TRAIT: {"u1", "u2", "u2b"}}
    assert cloud.aggregates == {}


def test_a_trait_that_is_not_there_is_made():
    cloud = a_cloud()
    Gate(TRAIT).keep(cloud, ["n1"])
    assert cloud.traits == {TRAIT: {"u1"}}


def test_a_second_look_changes_nothing():
    cloud = a_cloud()
    gate = Gate(TRAIT, "balancer")
    gate.keep(cloud, ["n1", "n2"])
    cloud.calls = 0
    gate.keep(cloud, ["n1", "n2"])
    assert cloud.calls == 0


def test_the_aggregate_has_the_trait_as_its_metadata_and_the_nodes_as_its_hosts():
    cloud = a_cloud()
    gate = Gate(TRAIT, "balancer")
    gate.keep(cloud, ["n1", "n2", "not-in-nova"])
    made = cloud.aggregates["balancer"]
    assert (made.hosts, made.metadata) == ({"n1", "n2"}, {f"trait:{TRAIT}": "required"})
    gate.keep(cloud, ["n2"])
    assert cloud.aggregates["balancer"].hosts == {"n2"}


def test_a_provider_that_somebody_changes_meanwhile_is_left_for_the_next_look():
    cloud = a_cloud(changed={"u1"})
    Gate(TRAIT).keep(cloud, ["n1", "n2"])
    assert cloud.traits == {TRAIT: {"u2", "u2b"}}
    cloud.changed.clear()
    Gate(TRAIT).keep(cloud, ["n1", "n2"])
    assert cloud.traits == {TRAIT: {"u1", "u2", "u2b"}}


def test_the_agent_keeps_the_gate_at_its_first_look_and_then_now_and_then(served, client, cloud):
    world, url = served(nodes=3)
    told = []
    settings = AgentSettings(rules=Rules(), gate_period_s=3600)
    agent = Agent(cloud(world.names), client(url), settings, told.append)
    agent.look()
    agent.look()
    assert told == [frozenset(world.names)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trait", "BALANCER"], "BALANCER is no custom trait"),
        (["--aggregate", "balancer"], "give --trait, too"),
        (["--period-s", "3", "--hint-address", "h:1"], "--period-s, --hint-address: --once is one look"),
    ],
)
def test_a_gate_that_cannot_be_is_an_error_at_once(options, said):
    done = balance("nova", "agent", "--once", *options)
    assert done.exit_code == 2
    assert said in done.output
