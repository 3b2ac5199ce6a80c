"""What the service answers, as the client gives it on. Times are seconds of the service's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from balancer.clock import seconds
from balancer.timestamps import parse_iso

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class DownNode:
    """A node of a grant that has failed and stays with it."""

    node: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """A node that failed and left its grant; `replaced_by` is the request that was made for another one."""

    node: str
    since_s: float
    replaced_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    id: str
    state: str
    count: int
    nodes: tuple[str, ...]
    submitted_s: float
    deadline_s: float
    decided_s: float | None
    reason: str
    owner: str
    confirmed: bool
    confirm_by_s: float | None
    """A grant that is not confirmed by then goes back by itself."""
    lease_ends_s: float | None
    overdue: bool
    ended_s: float | None
    replace: bool = False
    """A node of its grant that fails is replaced."""
    replaces: str | None = None
    """The request whose failed nodes this one was made for."""
    down: tuple[DownNode, ...] = ()
    lost: tuple[LostNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    state: str
    pool: str
    since_s: float
    generation: int
    request_id: str | None
    jobs: tuple[str, ...]
    contested: str
    """Why a lent node is not granted to anybody; "" for none."""
    reported: str | None
    """What the batch system said last: idle, busy, offline, down or unknown."""
    note: str
    doubt: str | None = None
    """QUARANTINED: why nobody may have it."""
    down_since_s: float | None = None
    """Granted: since when it has been down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    id: str
    count: int
    used: int
    added_s: float
    by_s: float
    kept_until_s: float
    every: str | None = None
    """Its windows, by the clocks of `zone`; None: it does not come again. The times are those of the next window."""
    zone: str | None = None
    exceptions: tuple[str, ...] = ()
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    seq: int
    at_s: float
    id: str
    kind: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySlot:
    start_s: float
    end_s: float
    requests: int
    nodes_requested: int
    nodes_granted: int
    nodes_rejected: int
    largest_request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Requests that arrived in a time and what became of them so far; node-hours lent since `lent_since_s`."""

    start_s: float
    end_s: float
    requests: int
    granted: int
    rejected: int
    nodes_granted: int
    nodes_rejected: int
    lent_node_h: float
    lent_since_s: float


def _at(text: str) -> float:
    return seconds(parse_iso(text))


def _at_or_none(body: Mapping[str, Any], name: str) -> float | None:
    """Older services leave out what they do not know."""
    text = body.get(name)
    return _at(text) if text else None


def request_of(body: Mapping[str, Any]) -> Request:
    return Request(
        id=body["id"],
        state=body["state"],
        count=body["count"],
        nodes=tuple(body["nodes"]),
        submitted_s=_at(body["submitted_at"]),
        deadline_s=_at(body["deadline_at"]),
        decided_s=_at_or_none(body, "decided_at"),
        reason=body["reason"],
        owner=body.get("owner", ""),
        confirmed=body.get("confirmed", True),  # a service of an older release waits for no such word
        confirm_by_s=_at_or_none(body, "confirm_by"),
        lease_ends_s=_at_or_none(body, "lease_ends_at"),
        overdue=body.get("overdue", False),
        ended_s=_at_or_none(body, "ended_at"),
        replace=body.get("replace", False),
        replaces=body.get("replaces"),
        down=tuple(DownNode(node=each["node"], since_s=_at(each["since"])) for each in body.get("down", ())),
        lost=tuple(
            LostNode(node=each["node"], since_s=_at(each["since"]), replaced_by=each["replaced_by"])
            for each in body.get("lost", ())
        ),
    )


_NEW_WORDS = {"HELD": "QUARANTINED", "held": "quarantined"}
"""What services up to 0.3 call it."""


def node_of(body: Mapping[str, Any]) -> Node:
    reported = body["reported"] or {}
    return Node(
        name=body["name"],
        state=_NEW_WORDS.get(body["state"], body["state"]),
        pool=_NEW_WORDS.get(body["pool"], body["pool"]),
        since_s=_at(body["since"]),
        generation=body["generation"],
        request_id=body["request_id"],
        jobs=tuple(body["jobs"]),
        contested=body.get("contested", ""),
        reported=reported.get("state"),
        note=reported.get("note", ""),
        doubt=body.get("doubt"),
        down_since_s=_at_or_none(body, "down_since"),
    )


def reserve_of(body: Mapping[str, Any]) -> Reserve:
    return Reserve(
        id=body["id"],
        count=body["count"],
        used=body["used"],
        added_s=_at(body["added_at"]),
        by_s=_at(body["by"]),
        kept_until_s=_at(body["kept_until"]),
        every=body.get("every"),  # older services have none
        zone=body.get("zone"),
        exceptions=tuple(body.get("exceptions", ())),
        owner=body["owner"],
    )


def event_of(body: Mapping[str, Any]) -> LogEvent:
    return LogEvent(
        seq=body["seq"], at_s=_at(body["at"]), id=body["id"], kind=body["kind"], body=body["body"]
    )


def slot_of(body: Mapping[str, Any]) -> HistorySlot:
    counts = {name: value for name, value in body.items() if name not in ("start", "end")}
    return HistorySlot(start_s=_at(body["start"]), end_s=_at(body["end"]), **counts)


def usage_of(body: Mapping[str, Any]) -> Usage:
    counts = {name: value for name, value in body.items() if name not in ("start", "end", "lent_since")}
    return Usage(
        start_s=_at(body["start"]), end_s=_at(body["end"]), lent_since_s=_at(body["lent_since"]), **counts
    )
