"""The requests that wait, in order of arrival, and the hints (dynamic reserve) that are active."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from balancer.algorithms.interface import ReserveWish, Waiting
from balancer.lifecycle.errors import Refused
from balancer.lifecycle.records import RequestRecord, RequestStatus, ReserveRecord
from balancer.lifecycle.states import NodeState
from balancer.lifecycle.wishes import following
from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from balancer.lifecycle.events import (
        GrantConfirmed,
        LeaseRenewed,
        NodesReleased,
        RequestWithdrawn,
        ReserveWithdrawn,
    )
    from balancer.lifecycle.nodes import Node, NodeTable


Wish = tuple[int, "frozenset[str] | None"]
"""So many nodes, of these (None: any)."""


_Record = TypeVar("_Record", RequestRecord, ReserveRecord)


class ChangedRecords(Generic[_Record]):
    """The records that changed since they were last asked for, by id."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def add(self, key: str, record: _Record) -> None:
        self._records[key] = record

    def change(self, key: str, record: _Record, **changes: Any) -> _Record:
        """The record with these changes: a new generation for each event, not for each change."""
        if key not in self._records:
            changes["generation"] = record.generation + 1
        record = self._records[key] = replace(record, **changes)
        return record

    def undo(self, key: str) -> None:
        """As if it had never come."""
        del self._records[key]

    def drain(self) -> tuple[_Record, ...]:
        changed = tuple(self._records.values())
        self._records.clear()
        return changed


class Request:
    """A waiting request and the nodes reserved for it; `ready` of them are OD_RESERVE, the rest RECLAIMING."""

    __slots__ = ("among", "is_looked_for", "ready", "ready_us", "record", "reserved")

    def __init__(self, record: RequestRecord, among: frozenset[str] | None = None) -> None:
        self.record = record
        self.among = among
        """The nodes it may have; None: any."""
        self.ready_us: int | None = None
        """Since when nothing but a fresh look is missing."""
        self.is_looked_for = False
        """All nodes have been read since it arrived."""
        self.reserved: dict[str, None] = {}
        self.ready = 0

    @property
    def short(self) -> int:
        return self.record.count - len(self.reserved)

    @property
    def end_us(self) -> int | None:
        """When it ends, whatever batch does. None: nobody said how long batch may take to obey (it obeys at once)."""
        record = self.record
        return record.deadline_us if record.deadline_us > record.arrived_us else None

    def is_over(self, now_us: int) -> bool:
        """It may not be granted any more."""
        return self.end_us is not None and now_us > self.end_us


class RequestQueue:
    """Waiting requests by id, in order of arrival."""

    def __init__(self, records: Iterable[RequestRecord], nodes: NodeTable) -> None:
        self._nodes = nodes
        self._waiting = {
            record.request_id: Request(record, self._among(record))
            for record in sorted(records, key=lambda r: r.order)
            if record.status is RequestStatus.WAITING
        }
        self.changed: ChangedRecords[RequestRecord] = ChangedRecords()
        for node in nodes:
            if node.reserved_for in self._waiting and node.state is not NodeState.OD_ALLOC:
                self.keep(node.reserved_for, node)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._waiting.values())

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._waiting

    def __getitem__(self, request_id: str) -> Request:
        return self._waiting[request_id]

    def get(self, request_id: str) -> Request | None:
        return self._waiting.get(request_id)

    def add(self, record: RequestRecord) -> Request:
        """Raises Refused for candidates that cannot be read."""
        request = self._waiting[record.request_id] = Request(record, self._among(record))
        self.changed.add(record.request_id, record)
        return request

    def _among(self, record: RequestRecord) -> frozenset[str] | None:
        if not record.candidates and not record.exclude:
            return None
        try:
            candidates = expand(",".join(record.candidates)) if record.candidates else self._nodes.names
            unwanted = expand(",".join(record.exclude)) if record.exclude else ()
        except NodeListError as error:
            raise Refused(Refused.BAD_CANDIDATES, f"candidates or exclude: {error}") from error
        return frozenset(candidates).difference(unwanted).intersection(self._nodes.names)

    def wishes(self, unmet: int) -> tuple[Wish, ...]:
        """Of each that is short of nodes, then what is wanted beyond them of `unmet` nodes."""
        found = [(each.short, each.among) for each in self if each.short]
        return (*found, (max(0, unmet - sum([short for short, _ in found])), None))

    def undo_add(self, request_id: str) -> None:
        """As if it had never come."""
        del self._waiting[request_id]
        self.changed.undo(request_id)

    def keep(self, request_id: str, node: Node) -> None:
        """The node is reserved for this request now."""
        request = self._waiting[request_id]
        request.reserved[node.name] = None
        request.ready += node.state is NodeState.OD_RESERVE

    def lose(self, node: Node) -> None:
        """The node is about to leave the request it is reserved for, which is short of one more then."""
        if node.reserved_for is not None:
            request = self._waiting[node.reserved_for]
            del request.reserved[node.name]
            request.ready -= node.state is NodeState.OD_RESERVE
            request.ready_us = None

    def let_go_all(self, request: Request) -> None:
        """Nothing is reserved for it any more."""
        for name in request.reserved:
            self._nodes.let_go(self._nodes[name])
        request.reserved.clear()
        request.ready = 0

    def change(self, record: RequestRecord, **changes: Any) -> RequestRecord:
        return self.changed.change(record.request_id, record, **changes)

    def decide(self, request: Request, status: RequestStatus, at_us: int, **changes: Any) -> RequestRecord:
        """The request waits no longer. Its record now, with these changes."""
        del self._waiting[request.record.request_id]
        return self.change(request.record, status=status, decided_us=at_us, **changes)

    def view(self, now_us: int, *, is_due_now: bool) -> tuple[Waiting, ...]:
        """The requests as an algorithm sees them; `is_due_now`: one whose last moment is now is due."""
        if not self._waiting:
            return ()
        return tuple(
            Waiting(
                request.record.request_id,
                request.record.count,
                request.short,
                request.record.arrived_us,
                request.record.deadline_us,
                is_due(request.record, now_us, is_due_now=is_due_now),
                request.among,
            )
            for request in self
        )


def is_due(record: RequestRecord, now_us: int, *, is_due_now: bool) -> bool:
    """Whether a request may not wait for jobs any longer.

    At the very moment of its deadline it still waits for the other reports of that moment, until the timer
    fires; one that may not wait at all (W = 0) is due when it arrives.
    """
    return record.at_once or now_us > record.deadline_us or (now_us == record.deadline_us and is_due_now)


def reason_of(request: Request, *, trouble: str, is_late: bool) -> str:
    """Why it is rejected. `trouble`: what the batch system's commands failed with; `is_late`: a look came too late."""
    found, count = len(request.reserved), request.record.count
    if request.short and request.record.at_once:
        reason = f"{count} nodes are not available at once"
    elif request.short:
        reason = f"only {found} of {count} nodes became available in time"
    elif request.ready < count:
        reason = f"the batch system did not hand over {count - request.ready} of {count} nodes in time"
    else:
        reason = "the batch system did not show in time that its nodes are free"
    has_not_obeyed = not request.short or (request.record.at_once and is_late)
    return f"{reason}: {trouble}" if trouble and has_not_obeyed else reason


class HintBook:
    """The hints that have not ended, in order of their time."""

    def __init__(self, records: Iterable[ReserveRecord] = ()) -> None:
        self._active = {record.reserve_id: record for record in sorted(records, key=_by_time)}
        self._wishes = {key: _wish(record) for key, record in self._active.items()}
        """The active ones as an algorithm sees them, in the same order: it looks far more often than they change."""
        self._next_end_us = self._first_end_us()
        self.changed: ChangedRecords[ReserveRecord] = ChangedRecords()

    def __iter__(self) -> Iterator[ReserveRecord]:
        return iter(self._active.values())

    def __len__(self) -> int:
        return len(self._active)

    def __contains__(self, reserve_id: object) -> bool:
        return reserve_id in self._active

    def add(self, record: ReserveRecord) -> None:
        last = next(reversed(self._active.values()), record)
        self._put(record)
        self.changed.add(record.reserve_id, record)
        if _by_time(record) < _by_time(last):
            self._in_order()
        if self._next_end_us is None or record.ends_us < self._next_end_us:
            self._next_end_us = record.ends_us

    def undo_add(self, reserve_id: str) -> None:
        """As if it had never come."""
        del self._active[reserve_id], self._wishes[reserve_id]
        self.changed.undo(reserve_id)
        self._next_end_us = self._first_end_us()

    def use(self, count: int, now_us: int) -> None:
        """`count` nodes were granted: take them off the hints whose time has come, the earliest first."""
        for record in list(self._active.values()):
            if count == 0 or record.by_us > now_us:
                return
            used = min(count, record.count - record.used)
            if used:
                count -= used
                self._change(record, used=record.used + used)

    def end(self, now_us: int) -> None:
        """Forget those whose time is over."""
        if self._next_end_us is None or self._next_end_us > now_us:
            return
        for record in [record for record in self if record.ends_us <= now_us]:
            again = _again(record, now_us)
            if again is not None:
                self._change(record, by_us=again.by_us, ends_us=again.ends_us, used=0)
            else:
                self._forget(record)
        self._in_order()

    def withdrawn(self, event: ReserveWithdrawn) -> None:
        """Nobody wants it any more. Raises Refused for somebody else's."""
        record = self._active.get(event.reserve_id)
        if record is not None:  # else it has ended meanwhile
            check_owner(record, event, f"reserve {event.reserve_id} is")
            self._forget(record)
            self._in_order()

    def _forget(self, record: ReserveRecord) -> None:
        self._change(record, ended=True)
        del self._active[record.reserve_id], self._wishes[record.reserve_id]

    def _in_order(self) -> None:
        self._active = {known.reserve_id: known for known in sorted(self._active.values(), key=_by_time)}
        self._wishes = {key: self._wishes[key] for key in self._active}
        self._next_end_us = self._first_end_us()

    def freed(self, count: int, now_us: int) -> None:
        """`count` granted nodes have come back: in its window, a reserve that comes again has so many more to give."""
        if count <= 0:
            return
        for record in [each for each in self if each.every and each.by_us <= now_us]:
            given_back = min(count, record.used)
            if given_back:
                count -= given_back
                self._change(record, used=record.used - given_back)

    def next_due_us(self, now_us: int) -> int | None:
        """When the next one ends, or begins to be collected."""
        begins_us = [each.begins_us for each in self if each.every and each.begins_us > now_us]
        return min((each for each in (self._next_end_us, *begins_us) if each is not None), default=None)

    def view(self, now_us: int) -> tuple[ReserveWish, ...]:
        wishes = tuple(
            self._wishes[each.reserve_id] for each in self if not each.every or each.begins_us <= now_us
        )
        if self._next_end_us is None or self._next_end_us > now_us:
            return wishes
        return tuple(wish for wish in wishes if wish.ends_us > now_us)

    def _change(self, record: ReserveRecord, **changes: Any) -> None:
        self._put(self.changed.change(record.reserve_id, record, **changes))

    def _put(self, record: ReserveRecord) -> None:
        self._active[record.reserve_id] = record
        self._wishes[record.reserve_id] = _wish(record)

    def _first_end_us(self) -> int | None:
        return min([record.ends_us for record in self._active.values()], default=None)

    def check(self) -> None:
        """Assert that what an algorithm is shown is what there is."""
        assert self._wishes == {record.reserve_id: _wish(record) for record in self}  # noqa: S101
        in_order = [record.reserve_id for record in sorted(self, key=_by_time)]
        assert [*self._active] == [*self._wishes] == in_order  # noqa: S101
        assert self._next_end_us == self._first_end_us(), self._next_end_us  # noqa: S101


def _again(record: ReserveRecord, now_us: int) -> ReserveRecord | None:
    """In its next window; None: it ends, also where its rule cannot be read any more (the zone is gone)."""
    try:
        return following(record, now_us) if record.every else None
    except Refused:
        return None


def _wish(record: ReserveRecord) -> ReserveWish:
    return ReserveWish(record.reserve_id, record.count, record.by_us, record.ends_us, record.used)


def _by_time(record: ReserveRecord) -> tuple[int, int]:
    return record.by_us, record.order


def check_owner(
    record: RequestRecord | ReserveRecord,
    event: GrantConfirmed | LeaseRenewed | NodesReleased | RequestWithdrawn | ReserveWithdrawn,
    what: str,
) -> None:
    """Raises Refused for what is somebody else's. What is older than owners is everybody's."""
    if record.owner not in ("", event.by) and not event.as_operator:
        raise Refused(Refused.NOT_OWNER, f"{what} {record.owner}'s, and you are {event.by}")
