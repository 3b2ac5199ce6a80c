"""The gate in front of the filter, for clouds of thousands of hosts: what makes Placement return the Balancer's nodes.

A trait on the nodes' resource providers, for which flavors ask; with an aggregate that has the trait as its metadata,
Nova keeps all other flavors away (`[scheduler] enable_isolated_aggregate_filtering`). The agent keeps both: nodes come
and go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from balancer.nova.cloud import NovaCloud

_log = structlog.get_logger()
_TRAIT = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")


@dataclass(frozen=True, slots=True)
class Aggregate:
    id: str
    hosts: frozenset[str]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gate:
    """`trait`: CUSTOM_...; `aggregate`: the name of one that is kept, too. Raises ValueError for a wrong name."""

    trait: str
    aggregate: str | None = None

    def __post_init__(self) -> None:
        if not _TRAIT.fullmatch(self.trait):
            raise ValueError(f"{self.trait} is no custom trait: CUSTOM_ and capitals, digits and _")

    @property
    def metadata(self) -> dict[str, str]:
        """Of the aggregate: Nova isolates its hosts from flavors that do not ask for the trait."""
        return {f"trait:{self.trait}": "required"}

    def keep(self, cloud: OpenStackGate, nodes: Collection[str]) -> None:
        """Exactly the hosts that are nodes have the trait and are in the aggregate. May be called at any time."""
        providers = cloud.providers()
        self._keep_trait(cloud, {each for host in nodes for each in providers.get(host, ())})
        if self.aggregate is not None:
            self._keep_aggregate(cloud, self.aggregate, set(nodes) & set(providers))

    def _keep_trait(self, cloud: OpenStackGate, target: Collection[str]) -> None:
        found = cloud.with_trait(self.trait)
        if found is None:
            cloud.make_trait(self.trait)
            found = frozenset()
        for provider in sorted(set(target) ^ found):
            has = provider in target
            if cloud.set_trait(provider, self.trait, has=has):
                _log.info("trait given" if has else "trait taken", provider=provider, trait=self.trait)

    def _keep_aggregate(self, cloud: OpenStackGate, name: str, target: Collection[str]) -> None:
        found = cloud.aggregate(name)
        if found is None:
            found = cloud.make_aggregate(name, self.metadata)
        for host in sorted(set(target) - found.hosts):
            cloud.add_host(found.id, host)
            _log.info("into the aggregate", host=host, aggregate=name)
        for host in sorted(found.hosts - set(target)):
            cloud.remove_host(found.id, host)
            _log.info("out of the aggregate", host=host, aggregate=name)


class OpenStackGate:
    """What the gate asks of Nova and Placement. Each raises DriverError."""

    def __init__(self, cloud: NovaCloud) -> None:
        self._cloud = cloud
        self.providers = cloud.providers

    def with_trait(self, trait: str) -> frozenset[str] | None:
        """The resource providers that have it; None: there is no such trait."""
        if self._cloud.call_placement("get", f"/traits/{trait}", known=(204, 404)).status_code == _NOT_FOUND:
            return None
        body = self._cloud.placement(f"/resource_providers?required={trait}")
        return frozenset(each["uuid"] for each in body["resource_providers"])

    def make_trait(self, trait: str) -> None:
        self._cloud.call_placement("put", f"/traits/{trait}", known=(201, 204))

    def set_trait(self, provider: str, trait: str, *, has: bool) -> bool:
        """False: somebody changed the provider meanwhile, and nothing was done."""
        path = f"/resource_providers/{provider}/traits"
        body = self._cloud.placement(path)
        if body is None:
            return False
        traits = set(body["traits"])
        body["traits"] = sorted(traits | {trait} if has else traits - {trait})
        answer = self._cloud.call_placement("put", path, known=(200, _CONFLICT), json=body)
        return bool(answer.status_code != _CONFLICT)

    def aggregate(self, name: str) -> Aggregate | None:
        with self._cloud.calling():
            for each in self._cloud.connection.compute.aggregates():
                if each.name == name:
                    return Aggregate(str(each.id), frozenset(each.hosts or ()), each.metadata or {})
        return None

    def make_aggregate(self, name: str, metadata: Mapping[str, str]) -> Aggregate:
        with self._cloud.calling():
            made = self._cloud.connection.compute.create_aggregate(name=name)
            self._cloud.connection.compute.set_aggregate_metadata(made, dict(metadata))
            return Aggregate(str(made.id), frozenset(), metadata)

    def add_host(self, aggregate: str, host: str) -> None:
        with self._cloud.calling():
            self._cloud.connection.compute.add_host_to_aggregate(aggregate, host)

    def remove_host(self, aggregate: str, host: str) -> None:
        with self._cloud.calling():
            self._cloud.connection.compute.remove_host_from_aggregate(aggregate, host)


_NOT_FOUND, _CONFLICT = 404, 409
