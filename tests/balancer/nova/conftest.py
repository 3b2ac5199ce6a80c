"""Clients of a Balancer, and a cloud in memory."""

from __future__ import annotations

import pytest

from balancer.client import Balancer
from balancer.drivers.base import UnreachableError
from balancer.nova.decide import Allocation, CloudLook, Server


class MemoryCloud:
    """Nova and Placement in memory: servers by host, and hosts on which something is allocated.

    `orphans`: the host of each; `providers`: of those whose server lives elsewhere.
    """

    def __init__(self, hosts):
        self.servers = dict.fromkeys(hosts, ())
        self.allocated = set()
        self.orphans = {}
        self.providers = {}
        self.services = {}
        self.whole = True
        self.is_away = False

    def put(self, host, *names):
        self.servers[host] = tuple(Server(name, name, "ACTIVE") for name in names)
        (self.allocated.add if names else self.allocated.discard)(host)

    def look(self):
        if self.is_away:
            raise UnreachableError("the cloud cannot be read: no answer")
        return CloudLook(dict(self.servers), self.whole, dict(self.services))

    def allocations(self, hosts):
        return {
            host: tuple(
                [Allocation(f"server on {host}")] * (host in self.allocated)
                + [
                    Allocation(name, is_orphan=True, provider=self.providers.get(name, ""))
                    for name, on in self.orphans.items()
                    if on == host
                ]
            )
            for host in hosts
        }

    def remove_allocation(self, host, consumer):
        assert self.orphans.pop(consumer) == host


@pytest.fixture
def client():
    """`client(url, name)`: closed after the test."""
    made = []

    def make(url, name="nova"):
        made.append(Balancer(url, name=name, patience_s=2.0))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def cloud():
    return MemoryCloud
