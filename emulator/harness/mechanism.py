"""What a mechanism is: handlers for the decision points it wants, and one object through which it acts.

A mechanism is a plug-in of the group `emulator.mechanisms`. It must have `on_arrival`; every other handler is
an ability it may have (`HasTimer`, `HasJobEnd`, ...), and the harness looks which ones are there. At one
time the order is: job ends, timers, on-demand completions, arrivals, notices; then submits and one pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from emulator.harness.cluster import Cluster


class Actions(Protocol):
    """All a mechanism can do. Times are microseconds of cluster time, nodes are indices, jobs are rows."""

    @property
    def now_us(self) -> int: ...

    @property
    def node_names(self) -> tuple[str, ...]:
        """Name of each node."""

    @property
    def cluster(self) -> Cluster:
        """To look at; what changes it goes through the methods below."""

    def reserve(self, nodes: Iterable[int]) -> tuple[list[int], list[int]]:
        """Take idle nodes out of the batch pool. Returns (taken, refused because a job runs on them)."""

    def release(self, nodes: Iterable[int]) -> None:
        """Give reserved nodes back to the batch pool."""

    def start(self, job: int, nodes: Iterable[int]) -> None:
        """Run an on-demand job on reserved nodes for its run time; they are reserved again afterwards."""

    def reject(self, job: int, reason: str) -> None:
        """Refuse an on-demand job for good."""

    def requeue(self, job: int, *, front: bool = False) -> None:
        """Stop a running batch job and put it back into the queue; its work is lost."""

    def wake(self, at_us: int) -> None:
        """Call `on_timer` at this time; replaces an earlier wish."""

    def watch_ends(self, watching: bool) -> None:
        """Call `on_job_end` whenever batch jobs ended, before the scheduling pass sees their nodes."""


class Mechanism(Protocol):
    """The one handler that every mechanism has."""

    def on_arrival(self, job: int, act: Actions) -> None:
        """An on-demand job wants its nodes now: start it, reject it, or remember it and do so later."""


@runtime_checkable
class HasBegin(Protocol):
    def on_begin(self, act: Actions) -> None:
        """The run begins; nothing is submitted yet."""


@runtime_checkable
class HasTimer(Protocol):
    def on_timer(self, act: Actions) -> None:
        """The time of the last `wake` has come."""


@runtime_checkable
class HasJobEnd(Protocol):
    def on_job_end(self, act: Actions) -> None:
        """Batch jobs have ended (asked for with `watch_ends`); their nodes are idle and not given yet."""


@runtime_checkable
class HasCompletion(Protocol):
    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:
        """An on-demand job is over; its nodes are reserved and idle."""


@runtime_checkable
class HasNotice(Protocol):
    notice_us: int
    """How long before its arrival an on-demand job is announced; 0: never."""

    def on_notice(self, job: int, act: Actions) -> None:
        """An on-demand job will arrive `notice_us` from now."""


_Ability = TypeVar("_Ability")


def ability(mechanism: object, kind: type[_Ability]) -> _Ability | None:
    """The mechanism as one that has this ability, or None."""
    return mechanism if isinstance(mechanism, kind) else None
