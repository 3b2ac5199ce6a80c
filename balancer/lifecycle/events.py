"""What the life cycle is told (events) and what it asks for (instructions).

Events are facts with the time they became true; instructions are done by somebody else (`engine.py`), who
reports the outcome as another event. Times are cluster time in integer microseconds; nodes are host names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from balancer.lifecycle.records import ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something became true at `at_us`. `event_id` names the cause in the story of every node it touches."""

    at_us: int
    event_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRequested(Event):
    """On-demand wants `count` nodes, at the latest `wait_us` from now (None: the configured W).

    Only of the `candidates` and none of the `exclude`d (names or patterns; no candidates: any node). `lease_us`:
    how long from the confirmation on (None: the configured lease). `replace`: a granted node that fails leaves the
    grant, and a request for another one takes its place.
    """

    request_id: str
    count: int
    wait_us: int | None = None
    owner: str = ANONYMOUS
    candidates: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    lease_us: int | None = None
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWithdrawn(Event):
    """Nobody waits for this request any more. `by` is the owner, unless `as_operator`."""

    request_id: str
    by: str = ANONYMOUS
    as_operator: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantConfirmed(Event):
    """The owner has the answer. `by` is the owner, unless `as_operator`."""

    request_id: str
    by: str = ANONYMOUS
    as_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed(Event):
    """The grant is kept for `lease_us` from now on (None: as long as was asked for)."""

    request_id: str
    lease_us: int | None = None
    by: str = ANONYMOUS
    as_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReleased(Event):
    """On-demand gives these OD_ALLOC nodes back. `by` is the owner of all, unless `as_operator`."""

    nodes: tuple[str, ...]
    by: str = ANONYMOUS
    as_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesUpdated(Event):
    """The batch system starts (`busy`) or has ended (`idle`) one job on all these nodes; all or none.

    `remaining_us` is the wall time the job may still run, None where unknown.
    """

    busy: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    job: str | None = None
    remaining_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveAdded(Event):
    """`count` more reserve nodes are wanted before `by_us` (paper: add_reserve(H, N)).

    They are kept for `keep_us` after that; None: for I. With `every` (`recurrence.Recurrence.text`) they are wanted in
    each window of that rule, and collected `lead_us` before it; the two times say nothing then.
    """

    reserve_id: str
    count: int
    by_us: int = 0
    keep_us: int | None = None
    owner: str = ANONYMOUS
    every: str = ""
    lead_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveWithdrawn(Event):
    """Nobody wants this reserve any more. `by` is the owner, unless `as_operator`."""

    reserve_id: str
    by: str = ANONYMOUS
    as_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesContested(Event):
    """A job was reported on these nodes, which batch may not use (node -> what was said).

    Nobody is given them before a look at the batch system has cleared that up.
    """

    nodes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReclaimed(Event):
    """Outcome of `Reclaim`: `done` read offline and empty; `busy` run a job; `unclear` cannot be told."""

    done: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRestored(Event):
    """Outcome of `Restore`: `done` are seen in the batch pool again; `unclear` cannot be told."""

    done: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesObserved(Event):
    """What the batch system reports of nodes it owns: name -> (state `idle|busy|down`, since_us).

    `since_us` is when the state began or, where that cannot be read, when it was seen first; it must not
    change from one look to the next while the state stays. A node that is offline because we said so is not
    `down`: it is left out. Nodes that are not ours are ignored.

    A look at all nodes that began at `read_us` also says which jobs run on busy nodes (`jobs`), which nodes that batch
    may not use are not as they should be (`contested`: node -> what was seen), which of those are again (`cleared`),
    and of which it says nothing (`unread`: they changed after it began, or are granted and were not there to be seen).
    """

    states: dict[str, tuple[str, int]] = field(default_factory=dict)
    read_us: int | None = None
    jobs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    contested: dict[str, str] = field(default_factory=dict)
    cleared: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersObserved(Event):
    """What the cloud said, when it was asked at `asked_us`, of OD_ALLOC nodes: there is a server, or there is none.

    A node that it does not list is in neither.
    """

    asked_us: int
    servers: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFailed(Event):
    """OD_ALLOC nodes that are down: name -> since when. What is not OD_ALLOC has moved on: the report is late."""

    nodes: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRecovered(Event):
    """OD_ALLOC nodes that had failed read well again, and are still their owners'."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesDoubted(Event):
    """The ledger may be wrong about these nodes: name -> why. What was doubted for the same reason is no news."""

    reasons: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAdopted(Event):
    """Whose QUARANTINED nodes are: an operator (`by`) says so (all or none), or the `cloud` shows it."""

    on_demand: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    by_cloud: bool = False
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """The time of an earlier `WakeAt` has come. `trouble`: what the batch system's commands failed with last."""

    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Something to be done because of the event `event_id`."""

    event_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim(Instruction):
    """Take these nodes out of the batch pool (reclaim_node), then report `NodesReclaimed`."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Instruction):
    """Put these nodes back into the batch pool (restore_node), then report `NodesRestored`."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Instruction):
    """Answer the request: these nodes are OD_ALLOC now."""

    request_id: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject(Instruction):
    """Answer the request: it cannot be met; nodes gathered for it stay reserved for I."""

    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt(Instruction):
    """Report `TimerFired` at this time; replaces the earlier wish."""

    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Instruction):
    """Look at all nodes in the batch system and, with `cloud`, for their servers; then report what was seen."""

    cloud: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRefused(Instruction):
    """Tell the operator: the algorithm failed; the event stands, but no move was made for it."""

    algorithm: str
    detail: str
