"""The servers of the cloud and what becomes of them. No HTTP.

A create is one *reservation*: all of its servers get their nodes in one request, or none does; and its nodes
go back in one release when all of its servers are deleted together, as a lease does.
"""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING

import structlog

from balancer.clock import micros, wall_us
from emulator.live.ondemand.errands import Errands
from emulator.live.ondemand.nodes import (
    Answer,
    Granted,
    NodeSource,
    Refused,
    SourceRefusedError,
    SourceUnreachableError,
    Waiting,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.clock import Clock
    from emulator.live.ondemand.auth import Account

_log = structlog.get_logger(__name__)

NO_VALID_HOST = "No valid host was found. There are not enough hosts available."
_LONG_POLL_S = 10.0
_PAUSE_S = 0.5
_ASK_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """What a create asks for."""

    account: Account
    name: str
    count: int = 1
    image_id: str = ""
    with_address: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    description: str | None = None
    availability_zone: str | None = None
    user_data: str | None = None
    request_id: str = ""


@dataclass(slots=True)
class Action:
    """One entry of a server's history (os-instance-actions)."""

    action: str
    request_id: str
    started_us: int
    updated_us: int
    message: str | None = None


@dataclass(slots=True)
class Server:
    """One whole node for one user. `launched_us` is when it is, or will be, ACTIVE."""

    id: str
    name: str
    hostname: str
    spec: ServerSpec
    reservation: Reservation
    launch_index: int
    number: int
    created_us: int
    updated_us: int
    metadata: dict[str, str]
    description: str | None
    admin_pass: str
    host: str | None = None
    launched_us: int | None = None
    fault: str | None = None
    deleted_us: int | None = None
    stopped: bool = False
    locked: bool = False
    locked_reason: str | None = None
    actions: list[Action] = field(default_factory=list)

    def status(self, now_us: int) -> str:
        """BUILD, ACTIVE, SHUTOFF or ERROR; building takes time, so it depends on it."""
        if self.fault is not None:
            return "ERROR"
        if self.launched_us is None or now_us < self.launched_us:
            return "BUILD"
        return "SHUTOFF" if self.stopped else "ACTIVE"


@dataclass(slots=True)
class Reservation:
    """All servers of one create."""

    id: str
    servers: list[Server] = field(default_factory=list)
    waiting_id: str | None = None
    decided: bool = False
    leaving: list[str] = field(default_factory=list)
    all_left: Event | None = None
    returned: Event = field(default_factory=Event)


class Cloud:
    """All servers. Safe to use from many threads."""

    def __init__(
        self,
        source: NodeSource,
        clock: Clock,
        *,
        boot_us: int = 0,
        release_linger_s: float = 0.05,
        errands: Errands | None = None,
    ) -> None:
        self.clock = clock
        self._source = source
        self._boot_us = boot_us
        self._linger_s = release_linger_s
        self._errands = errands if errands is not None else Errands()
        self._lock = RLock()
        self._servers: dict[str, Server] = {}
        self._past: list[Server] = []
        self._made = 0
        self._closing = Event()

    def close(self) -> tuple[str, ...]:
        """Stop working; what could not be returned to the source."""
        self._closing.set()
        return self._errands.close()

    # What there is

    def servers(self) -> list[Server]:
        """Servers that are not deleted, newest first, waiting requests asked about."""
        with self._lock:
            known = list(self._servers.values())
        for reservation in {id(server.reservation): server.reservation for server in known}.values():
            self._refresh(reservation)
        return known[::-1]

    def server(self, server_id: str) -> Server | None:
        with self._lock:
            server = self._servers.get(server_id)
        if server is not None:
            self._refresh(server.reservation)
        return server

    def past(self) -> list[Server]:
        """Deleted servers, oldest first."""
        with self._lock:
            return list(self._past)

    # Create

    def create(self, spec: ServerSpec) -> Reservation:
        """Make the servers, in BUILD. On return the worker that gets their nodes holds the clock."""
        now_us = self.clock.now_us()
        reservation = Reservation(f"r-{secrets.token_hex(4)}")
        with self._lock:
            for index in range(spec.count):
                server = self._make(spec, reservation, index, now_us)
                reservation.servers.append(server)
                self._servers[server.id] = server
        self._start_holding(lambda: self._schedule(reservation), f"schedule {reservation.id}")
        return reservation

    def _make(self, spec: ServerSpec, reservation: Reservation, index: int, now_us: int) -> Server:
        self._made += 1
        name = spec.name if spec.count == 1 else f"{spec.name}-{index + 1}"
        return Server(
            id=str(uuid.uuid4()),
            name=name,
            hostname=name,
            spec=spec,
            reservation=reservation,
            launch_index=index,
            number=self._made,
            created_us=now_us,
            updated_us=now_us,
            metadata=dict(spec.metadata),
            description=spec.description,
            admin_pass=secrets.token_urlsafe(9),
            actions=[Action("create", spec.request_id, now_us, now_us)],
        )

    def _start_holding(self, work: Callable[[], Reservation | None], name: str) -> None:
        """Do `work` on a thread of its own that holds the clock; returns as soon as it does hold it.

        If work returns a reservation, its request waits; that is watched without holding the clock.
        """
        held = Event()

        def run() -> None:
            with self.clock.held():
                held.set()
                waiting = work()
            if waiting is not None:
                self._watch(waiting)

        Thread(target=run, name=name, daemon=True).start()
        held.wait()

    def _schedule(self, reservation: Reservation) -> Reservation | None:
        answer = self._ask(reservation)
        if isinstance(answer, Waiting):
            with self._lock:
                reservation.waiting_id = answer.request_id
                abandoned = self._abandoned(reservation)
            if abandoned:
                self._withdraw(answer.request_id)
            return reservation
        self._settle(reservation, answer)
        return None

    def _ask(self, reservation: Reservation) -> Answer:
        count = len(reservation.servers)
        for _ in range(_ASK_TRIES):
            try:
                return self._source.request(count, reservation.id)
            except SourceUnreachableError as error:
                reason = str(error)
        # The request may have been heard: ask until we know, and give back what nobody waits for any more.
        self._errands.add(f"undo request {reservation.id}", lambda: self._undo_request(count, reservation.id))
        return Refused(f"unreachable: {reason}")

    def _undo_request(self, count: int, key: str) -> None:
        answer = self._source.request(count, key)
        if isinstance(answer, Waiting):
            self._source.withdraw(answer.request_id)
            answer = self._source.poll(answer.request_id, 0.0)
        if isinstance(answer, Granted):
            self._source.release(answer.nodes, f"undo-{key}")

    def _watch(self, reservation: Reservation) -> None:
        """Wait for news of a waiting request, for as long as somebody wants its nodes."""
        while not self._closing.is_set() and not reservation.decided and reservation.waiting_id is not None:
            asked_us = wall_us()
            try:
                answer = self._source.poll(reservation.waiting_id, _LONG_POLL_S)
            except SourceUnreachableError as error:
                _log.warning("source_unreachable", reservation=reservation.id, error=str(error))
                answer = Waiting(reservation.waiting_id)
            with self.clock.held():
                self._settle(reservation, answer)
            if isinstance(answer, Waiting) and wall_us() - asked_us < micros(_PAUSE_S):
                self._closing.wait(_PAUSE_S)  # a busy source answers at once; do not make it busier

    def _refresh(self, reservation: Reservation) -> None:
        """Ask about a waiting request now, so that who looks sees what is true at this time."""
        waiting_id = reservation.waiting_id
        if reservation.decided or waiting_id is None:
            return
        with self.clock.held():
            try:
                answer = self._source.poll(waiting_id, 0.0)
            except SourceUnreachableError:
                return
            self._settle(reservation, answer)

    def _settle(self, reservation: Reservation, answer: Answer) -> None:
        """Write a decision into the servers; the first one counts."""
        if isinstance(answer, Waiting):
            return
        with self._lock:
            if reservation.decided:
                return
            reservation.decided = True
            now_us = self.clock.now_us()
            if isinstance(answer, Refused):
                _log.info("refused", reservation=reservation.id, reason=answer.reason)
                for server in reservation.servers:
                    server.fault = NO_VALID_HOST
                    server.updated_us = server.actions[0].updated_us = now_us
                    server.actions[0].message = "Error"
                return
            granted_us = now_us if answer.decided_us is None else answer.decided_us
            for server, node in zip(reservation.servers, answer.nodes, strict=True):
                server.host = node
                server.launched_us = granted_us + self._boot_us
                server.updated_us = server.actions[0].updated_us = server.launched_us
            orphans = tuple(
                server.host or "" for server in reservation.servers if server.deleted_us is not None
            )
        if orphans:
            self._release(orphans)

    # Delete

    def delete(self, server: Server) -> None:
        """Delete the server; its node goes back with those of the servers deleted together with it."""
        with self.clock.held() as now_us:
            with self._lock:
                if server.deleted_us is not None:
                    return
                server.deleted_us = server.updated_us = now_us
                del self._servers[server.id]
                self._past.append(server)
                reservation = server.reservation
                abandoned = self._abandoned(reservation)
                waiting_id = None if reservation.decided else reservation.waiting_id
                leaving = server.host is not None
                if server.host is not None:
                    reservation.leaving.append(server.host)
            if leaving:
                self._leave(reservation, abandoned)
            elif abandoned and waiting_id is not None:
                self._withdraw(waiting_id)

    def _leave(self, reservation: Reservation, abandoned: bool) -> None:
        with self._lock:
            lingering = reservation.all_left
            if lingering is None and not abandoned:
                lingering = reservation.all_left = Event()
                reservation.returned = Event()
                first = True
            else:
                first = False
            returned = reservation.returned
        if lingering is None:
            self._return_leaving(reservation)
        elif first:
            self._start_holding(
                lambda: self._linger(reservation, lingering, returned), f"release {reservation.id}"
            )
        elif abandoned:
            lingering.set()
            returned.wait()
            self._return_leaving(reservation)

    def _linger(self, reservation: Reservation, all_left: Event, returned: Event) -> None:
        all_left.wait(self._linger_s)
        with self._lock:
            reservation.all_left = None
        try:
            self._return_leaving(reservation)
        finally:
            returned.set()

    def _return_leaving(self, reservation: Reservation) -> None:
        with self._lock:
            leaving, reservation.leaving = reservation.leaving, []
            nodes = tuple(
                server.host for server in reservation.servers if server.host in leaving and server.host
            )
        if nodes:
            self._release(nodes)

    @staticmethod
    def _abandoned(reservation: Reservation) -> bool:
        return all(server.deleted_us is not None for server in reservation.servers)

    def _release(self, nodes: tuple[str, ...]) -> None:
        key = f"release-{uuid.uuid4()}"
        try:
            self._source.release(nodes, key)
        except SourceUnreachableError as error:
            _log.warning("release_delayed", nodes=nodes, error=str(error))
            self._errands.add(f"release {', '.join(nodes)}", lambda: self._source.release(nodes, key))
        except SourceRefusedError as error:
            _log.error("release_refused", nodes=nodes, error=str(error))

    def _withdraw(self, request_id: str) -> None:
        try:
            self._source.withdraw(request_id)
        except SourceUnreachableError:
            self._errands.add(f"withdraw {request_id}", lambda: self._source.withdraw(request_id))
