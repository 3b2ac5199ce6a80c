"""A decided event: what it leaves in the ledger, and what became of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from balancer.ledger.store import Entry, StoredAnswer
from balancer.lifecycle.events import Event, Grant, Instruction, NodesFailed
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


Moves = list[tuple[NodeRecord, NodeRecord]]
"""Records before and after, of nodes that changed their state."""


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key and what tells one call from another (a digest of operation and body).

    `answer`: what is stored with it, where that is known before the call.
    """

    key: str
    fingerprint: str
    answer: str | None = None


@dataclass(slots=True)
class Decision:
    """An event that was decided, and what became of it."""

    entry: Entry
    instructions: list[Instruction]
    moves: Moves
    stored: bool = False
    error: Exception | None = None

    @property
    def changes(self) -> Changes:
        return self.entry.changes

    @property
    def seq(self) -> int:
        return self.entry.event.seq

    @property
    def answered(self) -> list[RequestRecord]:
        return answered_of(self.changes, self.instructions)


def answered_of(changes: Changes, instructions: Iterable[Instruction]) -> list[RequestRecord]:
    """The requests that were decided by this, and not only changed."""
    granted = {each.request_id for each in instructions if isinstance(each, Grant)}
    return [
        request
        for request in changes.requests
        if request.status in (RequestStatus.REJECTED, RequestStatus.WITHDRAWN)
        or request.request_id in granted
    ]


def kept_answer(key: Key, changes: Changes, answer: Callable[[Changes], str] | None) -> StoredAnswer:
    body = key.answer if answer is None else answer(changes)
    if body is None:
        return StoredAnswer(key.key, key.fingerprint, request_id=changes.requests[0].request_id)
    return StoredAnswer(key.key, key.fingerprint, status=200, body=body)


def event_body(event: Event, moves: Moves, changes: Changes, answered: Sequence[RequestRecord]) -> str:
    """The event's own fields, the nodes it moved and the requests it decided, as JSON."""
    body: dict[str, Any] = {name: getattr(event, name) for name in _FIELDS[type(event)]}
    for name in _SELDOM & body.keys():
        if not body[name]:
            del body[name]
    if moves:
        body["moved"] = [(after.name, before.state, after.state) for before, after in moves]
    if answered:
        body["decided"] = {request.request_id: request.status for request in answered}
    if isinstance(event, NodesFailed):
        body |= _whose(event, changes)
    if overdue := [request.request_id for request in changes.requests if request.overdue]:
        body["overdue"] = overdue
    if ended := [request.request_id for request in changes.requests if request.ended_us is not None]:
        body["ended"] = ended
    return encode(body)


def _whose(event: NodesFailed, changes: Changes) -> dict[str, Any]:
    """For whoever follows the log: whose the failed nodes are, and what was asked for in their place."""
    reservations = {
        record.name: record.reserved_for for record in changes.nodes if record.reserved_for is not None
    }
    lost = {
        each.node: (request.request_id, each.replaced_by)
        for request in changes.requests
        for each in request.lost
        if each.node in event.nodes and each.node not in reservations
    }
    whose = reservations | {node: request_id for node, (request_id, _) in lost.items()}
    replaced = {node: replaced_by for node, (_, replaced_by) in lost.items()}
    return {"requests": whose} | ({"replaced_by": replaced} if replaced else {})


_SELDOM = {
    "as_operator",
    "candidates",
    "cleared",
    "contested",
    "exclude",
    "jobs",
    "lease_us",
    "read_us",
    "reason",
    "replace",
    "trouble",
    "unread",
}
"""Fields that are left out where they say nothing."""


encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

KIND: dict[type[Event], str] = {
    kind: re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in Event.__subclasses__()
}
_FIELDS: dict[type[Event], tuple[str, ...]] = {
    kind: tuple(each.name for each in fields(kind) if each.name not in ("at_us", "event_id")) for kind in KIND
}
