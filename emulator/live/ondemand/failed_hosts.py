"""What the manager does for its users when the Balancer tells of failed nodes: it looks as often as the Balancer reads.

`end`: a user gives the whole create up as soon as one of its hosts is down. `replace`: what the Balancer grants in the
place of a failed host becomes the host of the server that was there. A create whose last host failed, and which got no
other at once, ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING

import structlog

from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import alarm_of
from emulator.live.ondemand.nodes import SourceUnreachableError

if TYPE_CHECKING:
    from balancer.clock import Clock
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.nodes import BalancerSource
    from emulator.live.ondemand.servers import Reservation, Server

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watched:
    """A create: its requests, and those that are to replace failed hosts."""

    reservation: Reservation
    requests: list[str]
    seen: set[tuple[str, str]] = field(default_factory=set)
    """(request, node) of each loss that is dealt with."""
    replacements: dict[str, list[Server]] = field(default_factory=dict)
    """Request that waits -> the servers without a host that it is for."""


class FailedHosts:
    """Looks every `period_us` of cluster time, after all that the Balancer does then, until `close`."""

    def __init__(
        self, cloud: Cloud, source: BalancerSource, clock: Clock, *, period_us: int, replace: bool
    ) -> None:
        self._cloud, self._source, self._clock = cloud, source, clock
        self._period_us = period_us
        self._replace = replace
        self._watched: dict[str, _Watched] = {}
        self._alarm = alarm_of(clock, EventPriority.COMPLETION)
        self._closing = False
        self._next_us = (clock.now_us() // period_us + 1) * period_us
        self._alarm.set(self._next_us)
        self._thread = Thread(target=self._run, name="failed hosts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._alarm.wake()
        self._thread.join()
        self._alarm.close()

    def _run(self) -> None:
        while not self._closing:
            if not self._alarm.wait() or self._closing:
                continue
            with self._clock.paused() as now_us:
                try:
                    self.look()
                except SourceUnreachableError as error:
                    _log.warning("failures_unknown", error=str(error))
                self._next_us = (now_us // self._period_us + 1) * self._period_us
                self._alarm.set(self._next_us)

    def look(self) -> None:
        """Once: at all creates that have hosts, or wait for other ones. Raises SourceUnreachableError."""
        for reservation in self._cloud.reservations():
            if not reservation.decided or reservation.id in self._watched:
                continue
            asked_at_once = self._source.request_of(reservation.key)
            request_id = reservation.waiting_id or asked_at_once or reservation.replaces
            if request_id is not None:
                self._watched[reservation.id] = _Watched(reservation, [request_id])
        for key, watched in list(self._watched.items()):
            if all(server.deleting_us is not None for server in watched.reservation.servers):
                self._let_go(watched)
                del self._watched[key]
            else:
                self._look_at(watched)

    def _look_at(self, watched: _Watched) -> None:
        if not self._replace:
            if any(self._source.status_of(request)["down"] for request in watched.requests):
                self._give_up(watched)
            return
        for request in list(watched.requests):
            for lost in self._source.status_of(request)["lost"]:
                if (request, lost["node"]) not in watched.seen:
                    watched.seen.add((request, lost["node"]))
                    self._lose(watched, lost["node"], lost["replaced_by"])
        for request in list(watched.replacements):
            self._take(watched, request)
        if all(server.host is None for server in watched.reservation.servers):
            self._give_up(watched)

    def _lose(self, watched: _Watched, node: str, replaced_by: str) -> None:
        for server in watched.reservation.servers:
            if server.host == node:
                server.host = None
                watched.replacements.setdefault(replaced_by, []).append(server)

    def _take(self, watched: _Watched, request: str) -> None:
        """The nodes of a replacement, if it is decided."""
        status = self._source.status_of(request)
        if status["state"] == "waiting":
            return
        servers = watched.replacements.pop(request)
        if status["state"] == "granted":
            watched.requests.append(request)
            for server, node in zip(servers, status["nodes"], strict=True):
                server.host = node
                self._cloud.changed(server)

    def _give_up(self, watched: _Watched) -> None:
        for server in watched.reservation.servers:
            self._cloud.delete(server)

    def _let_go(self, watched: _Watched) -> None:
        """It is over: what it still waits for is not wanted, and what it got meanwhile goes back."""
        for request in watched.replacements:
            self._source.withdraw(request)
            status = self._source.status_of(request)
            if status["state"] == "granted" and status["ended_at"] is None:
                self._source.release(tuple(status["nodes"]), f"release-{request}")
