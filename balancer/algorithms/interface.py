"""What an algorithm sees (`View`) and what it answers (`Plan`).

The life cycle calls `plan` after each event, re-checks the answer against the present state and carries it
out; a plan that cannot be carried out as a whole is refused, naming the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from balancer.policy_settings import Settings


class Candidates(Protocol):
    """Nodes in the order in which they should be taken; reading them changes nothing."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, node: object) -> bool: ...

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...

    def since_us(self, node: str) -> int:
        """Since when the node is in its state (NodeRecord.since_us)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that waits. `short` nodes have still to be found; the others are reserved for it already."""

    request_id: str
    count: int
    short: int
    arrived_us: int
    deadline_us: int
    due: bool
    """It cannot wait any longer: unless this plan finds all that it is short of, it is rejected."""
    among: frozenset[str] | None = None
    """The only nodes it may have (`candidates` without `exclude` of request_nodes); None: any."""


@dataclass(frozen=True, slots=True)
class ReserveWish:
    """A wish for `count` more reserve nodes before `by_us` (add_reserve).

    It is gone at `ends_us`: I after `by_us` unless the wish says otherwise.
    """

    reserve_id: str
    count: int
    by_us: int
    ends_us: int
    used: int
    """Nodes that were granted at `by_us` or later: the announced request has come for them."""


@dataclass(frozen=True, slots=True)
class View:
    """The state as an algorithm sees it. Valid during the call of `plan`."""

    now_us: int
    settings: Settings
    requests: tuple[Waiting, ...]
    """In order of arrival."""
    hints: tuple[ReserveWish, ...]
    """In order of `by_us`."""
    free: Candidates
    """OD_RESERVE nodes reserved for no request, longest reserved first."""
    coming: Candidates
    """RECLAIMING nodes reserved for no request: they will be free, unless a job turns out to run on them."""
    idle: Candidates
    """OA_IDLE nodes in the order of `Settings.pick`."""
    busy: int
    """How many nodes are OA_BUSY."""
    contested: int = 0
    """OD_RESERVE nodes that nobody may be given until a look at the batch system has cleared something up."""
    granted: int = 0
    """How many nodes are OD_ALLOC."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the algorithm wants done now. Each node may be named once."""

    hold: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Request id -> free, coming or idle nodes to keep for it; idle ones are reclaimed. The request is
    granted as soon as all its nodes are reserved."""
    collect: tuple[str, ...] = ()
    """Idle nodes to reclaim for the reserve."""
    restore: tuple[str, ...] = ()
    """Free nodes to give back to the batch pool."""
    wake_us: int | None = None
    """Plan again at this time at the latest (it must lie ahead)."""
    unmet: int = 0
    """How many more idle nodes it would take at once, if there were any."""


class Algorithm(Protocol):
    """Decides which nodes change pools. Deterministic: the same view, the same plan."""

    def plan(self, view: View) -> Plan:
        """The moves that are right now. Must not keep the view, read a clock or draw random numbers."""


@runtime_checkable
class ChecksSettings(Protocol):
    """An optional ability: an algorithm that cannot work with some settings says so when it is set up."""

    def check(self, settings: Settings) -> None:
        """Raise ValueError saying what to change."""
