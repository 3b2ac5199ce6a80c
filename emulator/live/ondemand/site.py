"""The hosts of the site, as hypervisors (Nova) and resource providers (Placement)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from emulator.live.ondemand.auth import stable_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.servers import Server


CONTROL = ("nova-scheduler", "nova-conductor")
"""What runs on the host `controller`."""


def provider_id(host: str) -> str:
    """The UUID of a host as hypervisor and as resource provider."""
    return str(uuid.UUID(stable_id("host", host)))


def service_id(binary: str, host: str) -> str:
    return str(uuid.UUID(stable_id(f"service/{binary}", host)))


@dataclass(slots=True)
class ServiceState:
    """What an administrator has said about a compute service."""

    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False


@dataclass(slots=True)
class Site:
    """All hosts: those that were configured, and any that has carried a server."""

    cloud: Cloud
    configured: Iterable[str]
    _states: dict[str, ServiceState] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def hosts(self) -> dict[str, Server | None]:
        """Host name -> the server on it, in order of name."""
        hosts: dict[str, Server | None] = dict.fromkeys(self.configured)
        for server in self.cloud.past():
            if server.host is not None:
                hosts.setdefault(server.host, None)
        for server in self.cloud.servers():
            if server.host is not None:
                hosts[server.host] = server
        return dict(sorted(hosts.items()))

    def closed(self) -> set[str]:
        """Hosts whose compute service an administrator has disabled or forced down: they get no server."""
        with self._lock:
            return {host for host, state in self._states.items() if state.disabled or state.forced_down}

    def is_down(self, host: str) -> bool:
        return self.state(host).forced_down or host in self.cloud.faults.down(self.cloud.clock.now_us())

    def state(self, host: str) -> ServiceState:
        with self._lock:
            return self._states.setdefault(host, ServiceState())
