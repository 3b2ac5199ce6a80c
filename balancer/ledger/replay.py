"""The state from the log: what all events together say must be what the tables say (I9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from balancer.ledger.errors import BrokenLogError
from balancer.lifecycle.records import (
    Changes,
    NodeRecord,
    RequestRecord,
    ReserveRecord,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Record = TypeVar("_Record", NodeRecord, RequestRecord, ReserveRecord)


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event with every record it changed, as it was after it, and the epoch of its writer."""

    seq: int
    at_us: int
    serial: int
    epoch: int
    event_id: str
    kind: str
    changes: Changes


@dataclass(frozen=True, slots=True)
class Base:
    """The state after event `seq`: where a replay begins when the events up to it are gone."""

    seq: int
    snapshot: Snapshot
    head: str = ""
    """The digest of that event; what the next one follows."""


EMPTY = Base(0, Snapshot(now_us=0, serial=0, nodes=(), requests=(), reserves=()))
"""Before the first event."""


class Replay:
    """A state that events are applied to, one after the other. Raises BrokenLogError."""

    def __init__(self, base: Base = EMPTY) -> None:
        snapshot = base.snapshot
        self.seq = base.seq
        self._epoch = 0
        self._now_us, self._serial = snapshot.now_us, snapshot.serial
        self._nodes = {record.name: record for record in snapshot.nodes}
        self._requests = {record.request_id: record for record in snapshot.requests}
        self._reserves = {record.reserve_id: record for record in snapshot.reserves}

    def expect(self, seq: int) -> None:
        """Raises BrokenLogError unless this is the number of the next event."""
        if seq != self.seq + 1:
            raise BrokenLogError(f"event {self.seq + 1} is missing: {seq} follows {self.seq}")

    def apply(self, event: LoggedEvent) -> None:
        """The next event."""
        self.expect(event.seq)
        if event.epoch < self._epoch:
            raise BrokenLogError(
                f"event {event.seq} was written by epoch {event.epoch}, after one of epoch {self._epoch}"
            )
        changes = event.changes
        for node in changes.nodes:
            self._put(self._nodes, node.name, node, event.seq)
        for request in changes.requests:
            self._put(self._requests, request.request_id, request, event.seq)
            if not request.is_open:
                del self._requests[request.request_id]
        for reserve in changes.reserves:
            self._put(self._reserves, reserve.reserve_id, reserve, event.seq)
            if reserve.ended:
                del self._reserves[reserve.reserve_id]
        self.seq, self._epoch = event.seq, event.epoch
        self._now_us, self._serial = event.at_us, event.serial

    def _put(self, records: dict[str, _Record], key: str, record: _Record, seq: int) -> None:
        before = records.get(key)
        expected = 0 if before is None else before.generation + 1
        if record.generation != expected:
            raise BrokenLogError(
                f"event {seq} gives {key} generation {record.generation}, and {expected} is next"
            )
        records[key] = record

    def base(self) -> Base:
        """The state now."""
        return Base(
            self.seq,
            Snapshot(
                now_us=self._now_us,
                serial=self._serial,
                nodes=tuple(sorted(self._nodes.values(), key=lambda record: record.name)),
                requests=tuple(sorted(self._requests.values(), key=lambda record: record.order)),
                reserves=tuple(sorted(self._reserves.values(), key=lambda record: record.order)),
            ),
        )


def replay(events: Iterable[LoggedEvent], base: Base = EMPTY) -> Snapshot:
    """The state after these events, in the order of `Ledger.load`. Raises BrokenLogError."""
    state = Replay(base)
    for event in events:
        state.apply(event)
    return state.base().snapshot


def differences(stored: Snapshot, replayed: Snapshot) -> list[str]:
    """Where two states differ, one line each; empty when they are equal."""
    found = [
        f"{name} is {getattr(stored, name)} in the tables and {getattr(replayed, name)} by the log"
        for name in ("now_us", "serial")
        if getattr(stored, name) != getattr(replayed, name)
    ]
    found += _compare("node", stored.nodes, replayed.nodes, "name")
    found += _compare("request", stored.requests, replayed.requests, "request_id")
    found += _compare("reserve", stored.reserves, replayed.reserves, "reserve_id")
    return found


def _compare(kind: str, stored: Sequence[object], replayed: Sequence[object], key: str) -> list[str]:
    left = {getattr(each, key): each for each in stored}
    right = {getattr(each, key): each for each in replayed}
    return [
        f"{kind} {name} is {left.get(name, 'absent')} in the tables and {right.get(name, 'absent')} by the log"
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name)
    ]
