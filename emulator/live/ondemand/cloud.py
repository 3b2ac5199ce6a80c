"""The servers of the cloud and what becomes of them. No HTTP.

A create is one *reservation*: all of its servers get their nodes in one request, or none does; and its nodes
go back in one release when all of its servers are deleted together, as a lease does.
"""

from __future__ import annotations

import secrets
import uuid
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING

import structlog

from balancer.clock import micros, wall_us
from emulator.live.ondemand.memory import Memory
from emulator.live.ondemand.nodes import (
    Answer,
    Granted,
    NodeSource,
    Refused,
    SourceRefusedError,
    SourceUnreachableError,
    Waiting,
)
from emulator.live.ondemand.retry_queue import RetryQueue
from emulator.live.ondemand.servers import Action, Reservation, Server, ServerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.clock import Clock

_log = structlog.get_logger(__name__)

NO_VALID_HOST = "No valid host was found. There are not enough hosts available."
_LONG_POLL_S = 10.0
_PAUSE_S = 0.5
_ASK_TRIES = 3


class Cloud:
    """All servers. Safe to use from many threads. What `memory` holds of an earlier life goes on with `resume`."""

    def __init__(
        self,
        source: NodeSource,
        clock: Clock,
        *,
        boot_us: int = 0,
        release_linger_s: float = 0.05,
        retries: RetryQueue | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.clock = clock
        self._source = source
        self._boot_us = boot_us
        self._linger_s = release_linger_s
        self._retries = retries if retries is not None else RetryQueue()
        self._lock = RLock()
        self._servers: dict[str, Server] = {}
        self._past: list[Server] = []
        self._made = 0
        self._closing = Event()
        self._memory = memory if memory is not None else Memory(None)

    def resume(self) -> None:
        """Take up what an earlier manager left: undecided requests are asked for again, owed nodes given back."""
        for reservation in self._memory.past:
            for server in reservation.servers:
                self._made = max(self._made, server.number)
                if server.deleted_us is None:
                    self._servers[server.id] = server
                else:
                    self._past.append(server)
        for reservation in self._memory.past:
            if not reservation.decided:
                # The same key gives the same answer, also to a request that was never answered.
                self._start_holding(lambda it=reservation: self._schedule(it), f"schedule {reservation.id}")  # type: ignore[misc]
            elif reservation.to_be_undone:
                self._undo_later(reservation)
            owed = [server for server in reservation.servers if server.deleted_us is not None and server.host]
            for key in {server.release_key for server in owed if server.release_key and not server.returned}:
                self._give_back(reservation, [server for server in owed if server.release_key == key], key)
            unsaid = [server for server in owed if not server.release_key]
            if unsaid:
                self._release(reservation, unsaid)

    def close(self) -> tuple[str, ...]:
        """Stop working; what could not be returned to the source."""
        self._closing.set()
        left = self._retries.close()
        self._memory.close()
        return left

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
            self._memory.save(reservation)
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
                self._memory.save(reservation)
                abandoned = self._abandoned(reservation)
            if abandoned:
                self._withdraw(answer.request_id)
            return reservation
        self._settle(reservation, answer)
        return None

    def _ask(self, reservation: Reservation) -> Answer:
        if why := reservation.servers[0].spec.impossible:
            return Refused(why)
        for _ in range(_ASK_TRIES):
            try:
                return self._source.request(len(reservation.servers), reservation.id)
            except SourceUnreachableError as error:
                reason = str(error)
        # The request may have been heard: ask until we know, and give back what nobody waits for any more.
        reservation.to_be_undone = True  # saved with the refusal
        self._undo_later(reservation)
        return Refused(f"unreachable: {reason}")

    def _undo_later(self, reservation: Reservation) -> None:
        self._retries.add(f"undo request {reservation.id}", lambda: self._undo_request(reservation))

    def _undo_request(self, reservation: Reservation) -> None:
        answer = self._source.request(len(reservation.servers), reservation.id)
        if isinstance(answer, Waiting):
            self._source.withdraw(answer.request_id)
            answer = self._source.poll(answer.request_id, 0.0)
        if isinstance(answer, Granted):
            self._source.release(answer.nodes, f"undo-{reservation.id}")
        with self._lock:
            reservation.to_be_undone = False
            self._memory.save(reservation)

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
                self._memory.save(reservation)
                return
            granted_us = now_us if answer.decided_us is None else answer.decided_us
            for server, node in zip(reservation.servers, answer.nodes, strict=True):
                server.host = node
                server.launched_us = granted_us + self._boot_us
                server.updated_us = server.actions[0].updated_us = server.launched_us
            self._memory.save(reservation)
            orphans = [server for server in reservation.servers if server.deleted_us is not None]
        if orphans:
            self._release(reservation, orphans)

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
                self._memory.save(reservation)
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
            leavers = [server for server in reservation.servers if server.host in leaving]
        if leavers:
            self._release(reservation, leavers)

    @staticmethod
    def _abandoned(reservation: Reservation) -> bool:
        return all(server.deleted_us is not None for server in reservation.servers)

    def _release(self, reservation: Reservation, servers: list[Server]) -> None:
        key = f"release-{uuid.uuid4()}"
        with self._lock:
            for server in servers:
                server.release_key = key
            self._memory.save(reservation)
        self._give_back(reservation, servers, key)

    def _give_back(self, reservation: Reservation, servers: list[Server], key: str) -> None:
        nodes = tuple(server.host for server in servers if server.host)

        def release() -> None:
            self._source.release(nodes, key)
            with self._lock:
                for server in servers:
                    server.returned = True
                self._memory.save(reservation)

        try:
            release()
        except SourceUnreachableError as error:
            _log.warning("release_delayed", nodes=nodes, error=str(error))
            self._retries.add(f"release {', '.join(nodes)}", release)
        except SourceRefusedError as error:
            _log.error("release_refused", nodes=nodes, error=str(error))

    def _withdraw(self, request_id: str) -> None:
        try:
            self._source.withdraw(request_id)
        except SourceUnreachableError:
            self._retries.add(f"withdraw {request_id}", lambda: self._source.withdraw(request_id))
