"""A Nova that fails, hangs, answers as of some time ago, leaves servers out and puts one where none may be."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from balancer.clock import US
from balancer.drivers.base import RefusedError, UnclearError, UnreachableError
from balancer.drivers.cloud import CloudStatus
from simulation.parts import Violation

if TYPE_CHECKING:
    from simulation.world import World

_STALE_US = 60 * US
_TIMEOUT_US = 15 * US
_ERRORS = (
    (RefusedError, "401 Unauthorized"),
    (RefusedError, "403 Forbidden"),
    (RefusedError, "404 Not Found"),
    (RefusedError, "409 Conflict"),
    (UnclearError, "429 Too Many Requests, Retry-After: 30"),
    (UnclearError, "500 Internal Server Error"),
    (UnclearError, "502 Bad Gateway"),
    (UnclearError, "503 Service Unavailable"),
    (UnclearError, "504 Gateway Timeout"),
)
"""Made anew each time: one that is raised again keeps everything that any of its raisers held."""


class Cloud:
    """The cloud itself, and the driver the Balancer reads it with (`balancer.drivers.cloud.CloudDriver`)."""

    name = "nova"

    def __init__(self, world: World) -> None:
        self.world = world
        self.rogue: dict[str, str] = {}
        """Host -> a server that somebody started there although the host is batch's."""
        self.shown: dict[str, CloudStatus] | None = None
        """The last answer; None: the last question had none."""
        self._past: deque[tuple[int, dict[str, CloudStatus]]] = deque()

    def get_status_of_hosts(self) -> dict[str, CloudStatus]:
        world = self.world
        self.shown = None
        world.point("before the cloud is asked")
        if world.is_cut("cloud", "there"):
            raise UnreachableError("nova: cannot connect")
        if world.chance("cloud_error"):
            kind, text = world.rng.choice(_ERRORS)
            raise kind(text)
        if world.chance("cloud_hang"):
            world.time.now_us += _TIMEOUT_US
            raise UnclearError("nova did not answer in time")
        now_us, true = world.time.now_us, self._hosts()
        self._past.append((now_us, true))
        while self._past[0][0] < now_us - _STALE_US:
            self._past.popleft()
        said = true
        if world.chance("cloud_lie"):
            if world.rng.random() < 0.5:
                at_us, said = world.rng.choice(self._past)
                world.trace(f"nova answers as of {(now_us - at_us) // US} s ago")
            else:
                said = {host: each for host, each in true.items() if world.rng.random() < 0.5}
                world.trace("nova leaves out hosts")
        if world.is_cut("cloud", "back"):
            raise UnclearError("nova did not answer in time")
        self.shown = said
        return said

    def _hosts(self) -> dict[str, CloudStatus]:
        world = self.world
        servers = {host: [f"vm of {client}"] for host, client in world.vms.items()}
        for host, server in self.rogue.items():
            servers.setdefault(host, []).append(server)
        return {host: CloudStatus(enabled=False, vms=tuple(servers.get(host, ()))) for host in world.names}

    def misplace(self) -> None:
        """A server is started on a host that is not on-demand's; its owner removes it after a while."""
        rng, states = self.world.rng, self.world.checks.states
        hosts = [
            host for host in self.world.names if states[host].startswith("OA_") and host not in self.rogue
        ]
        if hosts:
            host = rng.choice(hosts)
            self.world.trace(f"nova puts a server on {host}, which is batch's")
            self.rogue[host] = f"lost-{len(self.rogue) + 1}"
            self.world.later(rng.randrange(60, 7200) * US, lambda: self._remove(host))

    def _remove(self, host: str) -> None:
        if self.rogue.pop(host, None) is not None:
            self.world.trace(f"the server on {host} is removed")

    def heal(self) -> None:
        for host in list(self.rogue):
            self._remove(host)

    def seen_idle(self, host: str) -> None:
        """A node that was down is taken as idle: not while the cloud has just said that a server is there."""
        if self.shown is not None and host in self.shown and self.shown[host].vms:
            raise Violation("I1", f"{host} counts as idle while {self.shown[host].vms[0]} runs on it", host)
