"""The durable state of the life cycle, as plain frozen records: what a ledger stores and gives back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from balancer.lifecycle.states import NodeState


ANONYMOUS = "anonymous"
"""The owner of what was asked for without a name."""


class RequestStatus(StrEnum):
    """How a request stands."""

    WAITING = "waiting"
    GRANTED = "granted"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


class Lost(NamedTuple):
    """A node that failed and left its grant. A tuple, because the ledger keeps it as a JSON list."""

    node: str
    since_us: int
    """Since when it had been down."""
    replaced_by: str
    """The request that was made for another node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One node. `generation` goes up by one with each handled event that changed the record."""

    name: str
    state: NodeState
    since_us: int
    """Since when it is in this state; for a free OD_RESERVE node, since when it is reserved for no request."""
    reserved_for: str | None = None
    """The waiting request it is kept for (RECLAIMING, OD_RESERVE) or the one it was granted to (OD_ALLOC)."""
    generation: int = 0
    jobs: tuple[str, ...] = ()
    """Jobs known to run on it (their start was reported, their end was not)."""
    contested: str = ""
    """Why it may not be granted although it is OD_RESERVE, OD_ALLOC or RECLAIMING; "": it may."""
    doubt: str = ""
    """QUARANTINED: why. In other states: the doubt that cloud or operator have settled; it is not raised again."""
    down_since_us: int | None = None
    """OD_ALLOC: since when it has been down; None: it is not known to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request for on-demand nodes and the grant it led to; `order` is its place among all ever made.

    Only those that are open are part of a snapshot: they wait, or have nodes.
    """

    request_id: str
    count: int
    arrived_us: int
    deadline_us: int
    order: int
    status: RequestStatus = RequestStatus.WAITING
    nodes: tuple[str, ...] = ()
    """What was granted. The nodes reserved for a waiting request name it in their `reserved_for`."""
    decided_us: int | None = None
    reason: str = ""
    generation: int = 0
    """As of a node: goes up by one with each handled event that changed the record."""
    owner: str = ANONYMOUS
    """Who asked; "" in ledgers of older releases, which did not know."""
    at_once: bool = False
    """It does not wait for jobs to end (W = 0): `deadline_us` is how long the batch system may take to obey."""
    candidates: tuple[str, ...] = ()
    """Names or patterns of the nodes it may have; empty: any."""
    exclude: tuple[str, ...] = ()
    lease_us: int | None = None
    """How long it is wanted for, from its confirmation or renewal on; None: until it is released."""
    confirmed: bool = False
    """Of a grant: its owner has said that it arrived, or the cloud has shown a server there."""
    due_us: int | None = None
    """Of a grant: by when it must be confirmed, then the end of its lease; None: no end."""
    overdue: bool = False
    """Of a grant: `due_us` is past, and nobody can tell whether a server runs there, or one does."""
    ended_us: int | None = None
    """Of a grant: when the last of its nodes went back."""
    replace: bool = False
    """Of a grant: a node that fails leaves it, and another request is made in its place."""
    replaces: str = ""
    """The request whose failed nodes this one was made for; "": somebody asked for it."""
    lost: tuple[Lost, ...] = ()
    """Of a grant: the nodes that failed and left it, oldest first."""

    @property
    def is_open(self) -> bool:
        """It waits, or has nodes."""
        if self.status is RequestStatus.GRANTED:
            return self.ended_us is None
        return self.status is RequestStatus.WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveRecord:
    """One hint: `count` nodes more are wanted in the reserve before `by_us`, and kept until `ends_us`."""

    reserve_id: str
    count: int
    by_us: int
    ends_us: int
    added_us: int
    order: int
    used: int = 0
    """How many of them were granted at `by_us` or later and are not collected again."""
    ended: bool = False
    generation: int = 0
    owner: str = ANONYMOUS
    every: str = ""
    """When it comes again (`recurrence.Recurrence.text`); "": it does not. The times are those of the next window."""
    lead_us: int = 0
    """Of one that comes again: how long before `by_us` its nodes are collected."""

    @property
    def begins_us(self) -> int:
        """From when on its nodes are collected."""
        return self.by_us - self.lead_us if self.every else self.added_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All durable state. Settings and algorithm are configuration and not part of it."""

    now_us: int
    """Time of the latest event."""
    serial: int
    """How many events, requests and reserves have been numbered."""
    nodes: tuple[NodeRecord, ...]
    requests: tuple[RequestRecord, ...]
    reserves: tuple[ReserveRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The records that changed since they were last asked for: exactly these have to be written.

    A request that is not open, and a reserve that `ended`, are forgotten by the life cycle.
    """

    nodes: tuple[NodeRecord, ...] = ()
    requests: tuple[RequestRecord, ...] = ()
    reserves: tuple[ReserveRecord, ...] = ()
    now_us: int = 0
    serial: int = 0
