"""Nova and Placement, as the agent and the check read them. The account must be an administrator's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import openstack
from openstack import exceptions as sdk_errors

from balancer.drivers.base import DriverError
from balancer.drivers.openstack import ERRORS, driver_error
from balancer.nova.decide import Allocation, CloudLook, Server

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_PLACEMENT = {"OpenStack-API-Version": "placement 1.39"}
_WITHOUT_TYPE = {"OpenStack-API-Version": "placement 1.28"}
"""Of an allocation that is written back: from 1.38 on it must have a type, which Nova's have not."""
_WITHOUT_UPTIME = "2.53"
"""From API 2.88 on Nova asks each host in turn how long it has been up, which takes too long with hundreds."""
_MOVES_BY_ID = "2.59"
"""From here on migrations are shown with their ids."""
_HOST, _TASK = "OS-EXT-SRV-ATTR:host", "OS-EXT-STS:task_state"
_OVER = ("cancelled", "completed", "confirmed", "done", "error", "failed", "reverted")
"""Of a migration, as Nova itself counts those that are over."""
_NOT_FOUND = 404


class NovaCloud:
    """Raises DriverError where the cloud cannot be read; an answer is whole or none."""

    def __init__(self, cloud: str = "", *, timeout_s: float = 15.0, connection: Any = None) -> None:
        self._name, self._timeout_s, self._connection = cloud, timeout_s, connection
        self._providers: dict[str, tuple[str, ...]] = {}
        """Host -> its resource providers: one, but for clustered drivers such as ironic's."""
        self._moves: dict[str, str] = {}
        """Consumer -> the server that is moved; "": it is no move."""

    @property
    def connection(self) -> Any:
        if self._connection is None:
            self._connection = openstack.connect(cloud=self._name or None, api_timeout=self._timeout_s)
        return self._connection

    def look(self) -> CloudLook:
        """The servers of all projects, by host."""
        try:
            compute = self.connection.compute
            services = list(compute.services(binary="nova-compute"))
            servers = list(compute.servers(all_projects=True))
        except ERRORS as error:
            raise driver_error(error) from error
        found: dict[str, list[Server]] = {host: [] for host in (service.host for service in services)}
        for server in servers:
            if server.compute_host:
                shown = Server(server.id, server.name or "", server.status or "")
                found.setdefault(server.compute_host, []).append(shown)
        # A silent cell's servers are shown without their host.
        whole = all(each.status != "UNKNOWN" for each in (*services, *servers))
        states = dict.fromkeys(found, "gone") | {each.host: _service_state(each) for each in services}
        return CloudLook({host: tuple(each) for host, each in found.items()}, whole, states)

    def allocations(self, hosts: Mapping[str, Collection[str]]) -> Mapping[str, tuple[Allocation, ...]]:
        """What is allocated on these hosts; one that Placement does not know is left out.

        Of each, the servers that Nova shows there: nothing is asked about them.
        """
        if any(host not in self._providers for host in hosts):
            self._providers = self.providers()
        return {
            host: tuple(
                Allocation(consumer) if consumer in servers else self._judged(consumer, host, provider)
                for consumer, provider in sorted(
                    {each: uuid for uuid in self._providers[host] for each in self._consumers(uuid)}.items()
                )
            )
            for host, servers in hosts.items()
            if host in self._providers
        }

    def remove_allocation(self, host: str, consumer: str) -> None:
        """What the consumer has of this host; what it has elsewhere stays. One that changes just now is left alone."""
        path = f"/allocations/{consumer}"
        found = self._body(self.call_placement("get", path, known=(200,), headers=_WITHOUT_TYPE))
        gone = self._providers.get(host, ())
        left = {uuid: each for uuid, each in found["allocations"].items() if uuid not in gone}
        if left == found["allocations"]:
            return
        body = found | {
            "allocations": {uuid: {"resources": each["resources"]} for uuid, each in left.items()}
        }
        self.call_placement("put", path, known=(204, 409), headers=_WITHOUT_TYPE, json=body)

    def providers(self) -> dict[str, tuple[str, ...]]:
        """Of each compute host, the ids of its hypervisors: Nova gives its resource providers the same."""
        found: dict[str, tuple[str, ...]] = {}
        for hypervisor in self._listed("/os-hypervisors/detail", _WITHOUT_UPTIME, "hypervisors", "id"):
            host = str(hypervisor["service"]["host"])
            found[host] = (*found.get(host, ()), str(hypervisor["id"]))
        return found

    def _listed(
        self, path: str, version: str, name: str, key: str, **filters: str
    ) -> Iterator[dict[str, Any]]:
        """Page by page as Nova shows them: the SDK's own listing touches fields that it warns of at this version.

        `name`: of the list in a page; `key`: what a page is asked for by.
        """
        marker: dict[str, str] = {}
        while True:
            page = self._nova(path, version, filters | marker)
            yield from page[name]
            if not page[name] or not page.get(f"{name}_links"):
                return
            marker = {"marker": str(page[name][-1][key])}

    def _consumers(self, uuid: str) -> Collection[str]:
        answer = self.placement(f"/resource_providers/{uuid}/allocations")
        return (
            () if answer is None else answer["allocations"]
        )  # None: the provider is gone, and what was on it

    def _judged(self, consumer: str, host: str, provider: str) -> Allocation:
        """Asked of Nova one by one: its list has no server that waits to be reclaimed, and a move its own id."""
        server = self._server(consumer)
        if server is None:
            return Allocation(consumer, is_orphan=not self._is_move_under_way(consumer, host))
        if server[_HOST] == host or _starts(server):
            return Allocation(consumer)
        if any(_is_under_way(each, host) for each in self._migrations(instance_uuid=consumer)):
            return Allocation(consumer)
        return Allocation(consumer, is_orphan=True, provider=provider)

    def _is_move_under_way(self, consumer: str, host: str) -> bool:
        if consumer not in self._moves:
            # A move is written down before it allocates: what is none now will never be one.
            now = {each["uuid"]: each["instance_uuid"] for each in self._migrations()}
            self._moves = {consumer: "", **self._moves, **now}
        server = self._moves[consumer]
        if not server or self._server(server) is None:
            return False
        moves = self._migrations(instance_uuid=server)
        return any(each["uuid"] == consumer and _is_under_way(each, host) for each in moves)

    def _server(self, server: str) -> Any:
        found = self._nova(f"/servers/{server}", _MOVES_BY_ID, may_lack=True)
        return None if found is None else found["server"]

    def _migrations(self, **filters: str) -> list[dict[str, Any]]:
        """All of them, or those of one server."""
        return list(self._listed("/os-migrations", _MOVES_BY_ID, "migrations", "uuid", **filters))

    def _nova(
        self, path: str, version: str, params: Mapping[str, str] | None = None, *, may_lack: bool = False
    ) -> Any:
        """The body; None: not found, which only what `may_lack` may be."""
        with self.calling():
            response = self.connection.compute.get(path, params=params or {}, microversion=version)
            if may_lack and response.status_code == _NOT_FOUND:
                return None
            sdk_errors.raise_from_response(response)
            return response.json()

    def placement(self, path: str) -> Any:
        """The body; None: not found."""
        response = self.call_placement("get", path, known=(200, 404))
        return None if response.status_code == _NOT_FOUND else self._body(response)

    def call_placement(
        self,
        method: str,
        path: str,
        *,
        known: Collection[int],
        headers: Mapping[str, str] = _PLACEMENT,
        **more: Any,
    ) -> Any:
        """The answer, of a status that is known."""
        with self.calling():
            response = getattr(self.connection.placement, method)(path, headers=dict(headers), **more)
        if response.status_code not in known:
            raise DriverError(f"Placement answers {response.status_code} to {path}")
        return response

    def _body(self, response: Any) -> Any:
        with self.calling():
            return response.json()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """What the SDK raises is a DriverError."""
        try:
            yield
        except ERRORS as error:
            raise driver_error(error) from error


def _starts(server: Mapping[str, Any]) -> bool:
    """Whether Nova is about to put it on some host, which has none of it yet: it is built or unshelved."""
    return not server[_HOST] and (server["status"] == "BUILD" or server[_TASK] is not None)


def _is_under_way(migration: Mapping[str, Any], host: str) -> bool:
    """A finished evacuation is over once Nova has started where the server was: until then its host is not clean."""
    if migration["status"] == "done" and migration["migration_type"] == "evacuation":
        return bool(migration["source_compute"] == host)
    return migration["status"] not in _OVER


def _service_state(service: Any) -> str:
    """Down before disabled: it is the one that keeps servers from running."""
    if service.is_forced_down:
        return "forced down"
    if service.state == "down":
        return "down"
    return "disabled" if service.status == "disabled" else "up"
