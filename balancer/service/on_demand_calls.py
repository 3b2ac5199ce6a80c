"""What on-demand users call: nodes that they want, wait for, keep and give back, and reserves for later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from balancer.clock import NEVER_US, micros, seconds, wall_us
from balancer.lifecycle.events import (
    GrantConfirmed,
    LeaseRenewed,
    NodesReleased,
    NodesRequested,
    RequestWithdrawn,
    ReserveAdded,
    ReserveWithdrawn,
)
from balancer.lifecycle.records import Changes, RequestRecord, RequestStatus, ReserveRecord
from balancer.service.callers import CallerGoneError, Callers
from balancer.service.calls import NOBODY, Caller, Calls, TooManyError
from balancer.service.writer import StoppingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from balancer.lifecycle.events import Event
    from balancer.lifecycle.recurrence import Recurrence
    from balancer.service.decision import Key
    from balancer.service.waiters import Waiter

_LOOKS_S = 0.5
"""How often a call that waits looks whether its caller is still there; wall time."""


_SERVICE = Caller("", is_operator=True)
"""What the service ends by itself."""


class OnDemandCalls(Calls):
    _callers: Callers

    def submit_request(
        self,
        count: int,
        wait_us: int | None = None,
        *,
        caller: Caller = NOBODY,
        candidates: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        lease_us: int | None = None,
        replace: bool = False,
        key: Key | None = None,
    ) -> RequestRecord:
        """request_nodes: durable when this returns, and granted, rejected or waiting. Asks the batch system nothing."""

        def requested(at_us: int, seq: int) -> NodesRequested:
            _check_limit("requests", self._writer.pending()[0], self.settings.max_waiting_requests)
            return NodesRequested(
                at_us=at_us,
                event_id=caller.event_id,
                request_id=f"r{seq}",
                count=count,
                wait_us=wait_us,
                owner=caller.name,
                candidates=candidates,
                exclude=exclude,
                lease_us=lease_us,
                replace=replace,
            )

        with self.clock.paused():
            done = self._write(requested, key=key)
            self._reconciler.look_ahead()
            self._waker.look()
        return next(each for each in done.changes.requests if each.request_id == f"r{done.seq}")

    def wait_for_request(
        self,
        request_id: str,
        timeout_s: float | None = None,
        *,
        is_gone: Callable[[], bool] | None = None,
    ) -> Waiter | None:
        """Block until the request is decided, or for `timeout_s` of wall time. None: no such request.

        The answer's `hold` must be closed once it has been sent. Its `record` still waits after the time-out.
        Raises CallerGoneError when `is_gone` says that the owner has hung up: without another call the request is
        withdrawn.
        """
        with self._writer.waiters.waiting(request_id) as waiter:
            record = self.ledger.request(request_id)
            if record is None:
                return None
            if record.status is RequestStatus.WAITING and not self.is_stopping:
                if is_gone is None:
                    waiter.answered.wait(timeout_s)
                else:
                    with self._callers.waiting(request_id):
                        _wait_with(waiter, timeout_s, is_gone)
            decided = waiter.record
        if decided is None and record.status is RequestStatus.WAITING and self.is_stopping:
            raise StoppingError(request_id)
        waiter.record = decided or record
        return waiter

    def calls(self, request_id: str) -> None:
        """The owner of a request has asked for it: after a restart, that keeps it waiting."""
        self._callers.calls(request_id)

    def withdraw_request(
        self, request_id: str, *, caller: Caller = NOBODY, reason: str = ""
    ) -> RequestRecord | None:
        """Nobody waits for it any more. None: no such request; one that has been decided stays as it is."""
        record = self.ledger.request(request_id)
        if record is None or record.status is not RequestStatus.WAITING:
            return record
        self._write(
            lambda at_us, _: RequestWithdrawn(
                at_us=at_us, request_id=request_id, reason=reason, **caller.claim
            )
        )
        return self.ledger.request(request_id)

    def _withdraw_for(self, request_id: str, reason: str) -> None:
        self.withdraw_request(request_id, caller=_SERVICE, reason=reason)

    def confirm_request(self, request_id: str, *, caller: Caller = NOBODY) -> RequestRecord | None:
        """The owner has its nodes: durable when this returns. None: no such request."""
        return self._keep(
            request_id, lambda at_us, _: GrantConfirmed(at_us=at_us, request_id=request_id, **caller.claim)
        )

    def renew_lease(
        self, request_id: str, lease_us: int | None = None, *, caller: Caller = NOBODY
    ) -> RequestRecord | None:
        """The grant is kept for `lease_us` from now on; None: for what was asked. None: no such request."""
        return self._keep(
            request_id,
            lambda at_us, _: LeaseRenewed(
                at_us=at_us, request_id=request_id, lease_us=lease_us, **caller.claim
            ),
        )

    def _keep(self, request_id: str, make: Callable[[int, int], Event]) -> RequestRecord | None:
        if self.ledger.request(request_id) is None:
            return None
        self._write(make)
        return self.ledger.request(request_id)

    def release_nodes(
        self,
        nodes: tuple[str, ...],
        *,
        caller: Caller = NOBODY,
        generations: Mapping[str, int] | None = None,
        key: Key | None = None,
    ) -> None:
        """release_nodes: durable when this returns.

        `generations`: Refused (concurrent_update) unless these nodes still have them.
        """

        def released(at_us: int, _: int) -> NodesReleased:
            self._check_generations(generations)
            return NodesReleased(at_us=at_us, nodes=nodes, **caller.claim)

        self._write(released, key=key)

    def add_reserve(
        self,
        count: int,
        notice_us: int,
        *,
        caller: Caller = NOBODY,
        keep_us: int | None = None,
        every: Recurrence | None = None,
        key: Key | None = None,
        answer: Callable[[ReserveRecord], str] | None = None,
    ) -> ReserveRecord:
        """More nodes in reserve by a time: the paper's H is `notice_us` from now, its N is `count`.

        They are kept for `keep_us` after H; None: for I. With `every` in each of its windows, and collected
        `notice_us` before it.
        """
        if every is not None:
            every = replace(every, origin_us=self.settings.calendar_origin_us)

        def added(changes: Changes) -> ReserveRecord:
            return max(changes.reserves, key=lambda record: record.order)

        def add(at_us: int, seq: int) -> ReserveAdded:
            _check_limit("reserves", self._writer.pending()[1], self.settings.max_reserves)
            return ReserveAdded(
                at_us=at_us,
                event_id=caller.event_id,
                reserve_id=f"h{seq}",
                count=count,
                by_us=at_us + notice_us,
                keep_us=keep_us,
                owner=caller.name,
                every="" if every is None else every.text,
                lead_us=0 if every is None else notice_us,
            )

        def text(changes: Changes) -> str:
            return answer(added(changes)) if answer is not None else ""

        return added(self._write(add, key=key, answer=text).changes)

    def withdraw_reserve(self, reserve_id: str, *, caller: Caller = NOBODY) -> ReserveRecord | None:
        """Nobody wants this reserve any more: as it was. None: there is none (any more). Raises Refused."""
        record = next((each for each in self.ledger.reserves() if each.reserve_id == reserve_id), None)
        if record is not None:
            self._write(lambda at_us, _: ReserveWithdrawn(at_us=at_us, reserve_id=reserve_id, **caller.claim))
        return record


def _check_limit(what: str, pending: int, limit: int) -> None:
    if pending >= limit:
        raise TooManyError(what, limit)


def _wait_with(waiter: Waiter, timeout_s: float | None, is_gone: Callable[[], bool]) -> None:
    """Until there is an answer, or for `timeout_s`. Raises CallerGoneError."""
    end_us = NEVER_US if timeout_s is None else wall_us() + micros(timeout_s)
    while (left_us := end_us - wall_us()) > 0:
        if waiter.answered.wait(min(_LOOKS_S, seconds(left_us))):
            return
        if is_gone():
            raise CallerGoneError("the caller hung up")
