"""The servers of the cloud and what becomes of them. No HTTP.

A create is one *reservation*: all of its servers get their nodes in one request, or none does; and its nodes
go back in one release when all of its servers are deleted together, as a lease does.
"""

from __future__ import annotations

import secrets
import uuid
from functools import partial
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING

import structlog

from balancer.clock import micros, wall_us
from emulator.config.cloud_faults import BOOT_FAILED, CloudFaults
from emulator.live.ondemand.background import RetryQueue, Timers
from emulator.live.ondemand.nodes import (
    Answer,
    Granted,
    NodeSource,
    Refused,
    SourceRefusedError,
    SourceUnreachableError,
    Waiting,
)
from emulator.live.ondemand.servers import Memory, Reservation, Server, ServerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from balancer.clock import Clock

_log = structlog.get_logger(__name__)

NO_VALID_HOST = "No valid host was found. There are not enough hosts available."
_LONG_POLL_S = 10.0
_PAUSE_S = 0.5
_AGAIN_S = 0.1
_ASK_TRIES = 3
_BACK_S = 120.0
"""How long (wall time) a manager that was started again asks a source that may be coming up as well."""


class Cloud:
    """All servers. Safe to use from many threads. What `memory` holds of an earlier life goes on with `resume`."""

    def __init__(
        self,
        source: NodeSource,
        clock: Clock,
        *,
        boot_us: int = 0,
        delete_us: int = 0,
        faults: CloudFaults | None = None,
        release_linger_s: float = 0.05,
        retries: RetryQueue | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.clock = clock
        self._source = source
        self._boot_us, self._delete_us = boot_us, delete_us
        self.faults = faults if faults is not None else CloudFaults()
        self._timers = Timers(clock)
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
                self._start_holding(
                    partial(self._schedule, reservation, _BACK_S), f"schedule {reservation.id}"
                )
            elif reservation.to_be_undone:
                self._undo_later(reservation)
            unreturned = [server for server in reservation.servers if _is_over(server)]
            for server in reservation.servers:
                self._time(server)
            for key in {
                server.release_key for server in unreturned if server.release_key and not server.returned
            }:
                self._give_back(
                    reservation, [server for server in unreturned if server.release_key == key], key
                )
            unsaid = [server for server in unreturned if not server.release_key]
            if unsaid:
                self._release(reservation, unsaid)

    def close(self) -> tuple[str, ...]:
        """Stop working; what could not be returned to the source."""
        self._closing.set()
        self._timers.close()
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

    def reservations(self) -> list[Reservation]:
        """Those with a server that is not deleted, oldest first."""
        with self._lock:
            return list({id(each.reservation): each.reservation for each in self._servers.values()}.values())

    # Create

    def create(self, spec: ServerSpec, exclude: Iterable[str] = ()) -> Reservation:
        """Make the servers, in BUILD, on none of the excluded hosts nor of those that are down.

        On return the worker that gets their nodes holds the clock.
        """
        now_us = self.clock.now_us()
        closed = tuple(sorted(self.faults.down(now_us).union(exclude)))
        reservation = Reservation(f"r-{secrets.token_hex(4)}", exclude=closed)
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
            spec=spec,
            reservation=reservation,
            launch_index=index,
            number=self._made,
            created_us=now_us,
            updated_us=now_us,
            metadata=dict(spec.metadata),
            description=spec.description,
        )

    def _start_holding(self, work: Callable[[], Reservation | None], name: str) -> None:
        """Do `work` on a thread of its own that holds the clock; returns as soon as it does hold it.

        If work returns a reservation, its request waits; that is watched without holding the clock.
        """
        held = Event()

        def run() -> None:
            with self.clock.paused():
                held.set()
                waiting = work()
            if waiting is not None:
                self._watch(waiting)

        Thread(target=run, name=name, daemon=True).start()
        held.wait()

    def _schedule(self, reservation: Reservation, patience_s: float = 0.0) -> Reservation | None:
        """Ask for its nodes; the reservation, if its request waits."""
        while True:
            answer = self._ask(reservation, patience_s)
            if answer is None:
                return None
            if not isinstance(answer, Waiting):
                self._settle(reservation, answer, reservation.waiting_id)
                return None
            with self._lock:
                reservation.waiting_id = answer.request_id
                self._memory.save(reservation)
                if not self._gives_up(reservation):
                    return reservation
                patience_s = self._patience_s(reservation)

    def _ask_for_fewer(self, reservation: Reservation) -> Reservation | None:
        """Where servers were deleted that waited for nodes; the reservation, if its request waits anew."""
        with self._lock:
            if not self._gives_up(reservation):
                return None
        return self._schedule(reservation, self._patience_s(reservation))

    def _gives_up(self, reservation: Reservation) -> bool:
        """Whether its request asks for servers that are deleted. From now on it is not its request any more."""
        deleted = [server for server in reservation.wanting if server.deleted_us is not None]
        if reservation.decided or reservation.waiting_id is None or not deleted:
            return False
        for server in deleted:
            server.given_up = True
        reservation.replaces, reservation.waiting_id = reservation.waiting_id, None
        self._memory.save(reservation)
        return True

    @staticmethod
    def _patience_s(reservation: Reservation) -> float:
        """How long to ask a source that is away: long where servers still wait; a withdrawal is tried again later."""
        return _BACK_S if reservation.wanting else 0.0

    def _ask(self, reservation: Reservation, patience_s: float) -> Answer | None:
        """The source's answer, a refusal if it has none for so long; None: told to stop, so the next life asks."""
        end_us, tries = wall_us() + micros(patience_s), 0
        while tries < _ASK_TRIES or wall_us() < end_us:
            tries += 1
            try:
                return self._request(reservation)
            except SourceUnreachableError as error:
                reason = str(error)
            if patience_s and self._closing.wait(_AGAIN_S):
                return None
        # The request may have been heard: ask until we know, and give back what nobody waits for any more.
        reservation.to_be_undone = True  # saved with the refusal
        self._undo_later(reservation)
        return Refused(f"unreachable: {reason}")

    def _request(self, reservation: Reservation) -> Answer:
        count, larger = len(reservation.wanting), reservation.replaces
        if larger is None:
            return self._source.request(count, reservation.key, reservation.exclude)
        if count:
            return self._source.ask_for_fewer(larger, count, reservation.key, reservation.exclude)
        self._source.withdraw(larger)
        return self._source.poll(larger, 0.0)

    def _undo_later(self, reservation: Reservation) -> None:
        self._retries.add(f"undo request {reservation.id}", lambda: self._undo_request(reservation))

    def _undo_request(self, reservation: Reservation) -> None:
        answer = self._request(reservation)
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
        waiting_id = reservation.waiting_id
        while waiting_id is not None and not self._closing.is_set() and not reservation.decided:
            asked_us = wall_us()
            try:
                answer = self._source.poll(waiting_id, _LONG_POLL_S)
            except SourceUnreachableError as error:
                _log.warning("source_unreachable", reservation=reservation.id, error=str(error))
                answer = Waiting(waiting_id)
            if reservation.waiting_id != waiting_id:
                return  # who asks for fewer nodes in its place settles it, and watches the new one
            with self.clock.paused():
                self._settle(reservation, answer, waiting_id)
            if isinstance(answer, Waiting) and wall_us() - asked_us < micros(_PAUSE_S):
                self._closing.wait(_PAUSE_S)  # a busy source answers at once; do not make it busier

    def _refresh(self, reservation: Reservation) -> None:
        """Ask about a waiting request now, so that who looks sees what is true at this time."""
        waiting_id = reservation.waiting_id
        if reservation.decided or waiting_id is None:
            return
        with self.clock.paused():
            try:
                answer = self._source.poll(waiting_id, 0.0)
            except SourceUnreachableError:
                return
            self._settle(reservation, answer, waiting_id)

    def _settle(self, reservation: Reservation, answer: Answer, waiting_id: str | None) -> None:
        """Write a decision into the servers: the first one counts, and only of the request that asks for them now."""
        if isinstance(answer, Waiting):
            return
        with self._lock:
            if reservation.decided or reservation.waiting_id != waiting_id:
                return
            reservation.decided = True
            now_us = self.clock.now_us()
            if isinstance(answer, Refused):
                _log.info("refused", reservation=reservation.id, reason=answer.reason)
                for server in reservation.servers:
                    server.fault = NO_VALID_HOST
                    server.updated_us = now_us
                self._memory.save(reservation)
                return
            granted_us = now_us if answer.decided_us is None else answer.decided_us
            # A larger request that was granted before it could be withdrawn has nodes for those that were given up too.
            wanting = reservation.wanting
            given_up = [server for server in reservation.servers if server.given_up]
            for server, node in zip(wanting + given_up, answer.nodes, strict=False):
                ready_us = granted_us + self._boot_us
                server.host = node
                server.updated_us = ready_us
                if self.faults.boot_fails(node, granted_us):
                    server.fault, server.failed_us = BOOT_FAILED, ready_us
                else:
                    server.launched_us = ready_us
            self._memory.save(reservation)
            orphans = [
                server for server in reservation.servers if server.host and server.deleted_us is not None
            ]
        if orphans:
            self._release(reservation, orphans)
        for server in reservation.servers:
            self._time(server)

    # What takes time

    def _time(self, server: Server) -> None:
        """What is still to become of the server: it does not start, or its deletion ends."""
        if server.deleted_us is None and server.host is not None and server.failed_us is not None:
            self._at(server.failed_us, lambda: self._fail(server))
        if server.deleted_us is None and server.deleting_us is not None:
            self._at(server.deleting_us + self._delete_us, lambda: self._end(server))

    def _at(self, due_us: int, work: Callable[[], None]) -> None:
        if due_us <= self.clock.now_us():
            work()
        else:
            self._timers.at(due_us, work)

    def _fail(self, server: Server) -> None:
        """It did not start: its node goes back while it stays in ERROR, as Nova has it."""
        with self.clock.paused():
            with self._lock:
                if server.deleted_us is not None or server.host is None:
                    return
                server.failed_on, server.host = server.host, None
            self._release(server.reservation, [server])

    def changed(self, server: Server) -> None:
        """Somebody made something else of it."""
        with self._lock:
            server.updated_us = self.clock.now_us()
            self._memory.save(server.reservation)

    # Delete

    def delete(self, server: Server) -> None:
        """Delete the server; its node goes back with those of the servers deleted together with it."""
        with self.clock.paused() as now_us:
            with self._lock:
                if server.deleting_us is not None:
                    return
                server.deleting_us = server.updated_us = now_us
                takes_us = self._delete_us if server.host is not None else 0
                self._memory.save(server.reservation)
            self._at(now_us + takes_us, lambda: self._end(server))

    def _end(self, server: Server) -> None:
        with self.clock.paused() as now_us:
            with self._lock:
                if server.deleted_us is not None:
                    return
                server.deleted_us = server.updated_us = now_us
                del self._servers[server.id]
                self._past.append(server)
                reservation = server.reservation
                abandoned = self._abandoned(reservation)
                waits = not reservation.decided
                if server.host is not None:
                    reservation.leaving.append(server.host)
                leaving = bool(reservation.leaving)  # of others, too: this may be the last that they wait for
                self._memory.save(reservation)
            if leaving or waits:
                self._leave(reservation, abandoned)

    def _leave(self, reservation: Reservation, abandoned: bool) -> None:
        with self._lock:
            lingering = reservation.all_left
            is_first = lingering is None and not abandoned
            if is_first:
                lingering = reservation.all_left = Event()
                reservation.returned = Event()
            returned = reservation.returned
        if lingering is None:
            self._return_leaving(reservation)
        elif is_first:
            self._start_holding(
                lambda: self._linger(reservation, lingering, returned), f"release {reservation.id}"
            )
        elif abandoned:
            lingering.set()
            returned.wait()
            self._return_leaving(reservation)

    def _linger(self, reservation: Reservation, all_left: Event, returned: Event) -> Reservation | None:
        all_left.wait(self._linger_s)
        with self._lock:
            reservation.all_left = None
        try:
            return self._return_leaving(reservation)
        finally:
            returned.set()

    def _return_leaving(self, reservation: Reservation) -> Reservation | None:
        """Of servers that were deleted: the nodes go back, or are not asked for any more (`_ask_for_fewer`)."""
        with self._lock:
            leaving, reservation.leaving = reservation.leaving, []
            leavers = [server for server in reservation.servers if server.host in leaving]
        if leavers:
            self._release(reservation, leavers)
        return self._ask_for_fewer(reservation)

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
        nodes = tuple(server.owes for server in servers if server.owes)

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


def made_password() -> str:
    return secrets.token_urlsafe(9)


def _is_over(server: Server) -> bool:
    """Its node is no longer its own."""
    return (server.deleted_us is not None and server.host is not None) or server.failed_on is not None
