"""What a run of the mechanism counted, as its figures read it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.events.node_failures import Failures
    from emulator.mechanisms.hybrid.loans import LoanAccount


def _no_times() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Tally:
    """What is counted on the way."""

    instant: set[int] = field(default_factory=set)
    """On-demand jobs that got their nodes when they arrived, and have them still or had them to their end."""
    queued: int = 0
    lapsed: int = 0
    preemptions: int = 0
    shrinks: int = 0
    evictions: dict[int, int] = field(default_factory=dict)
    """How often a guest had to leave the nodes that were held for an on-demand job, by job."""
    warning_node_us: int = 0
    decision_us: array[int] = field(default_factory=_no_times)
    """Wall time of each choice at a notice or an arrival: from the event to the plan."""
    handling_us: array[int] = field(default_factory=_no_times)
    """Wall time of each event of an on-demand job, with all that is done to jobs and nodes."""


class Counted(Protocol):
    """A mechanism whose run was counted: `HybridMechanism`."""

    tally: Tally
    loans: LoanAccount
    failures: Failures | None

    @property
    def is_baseline(self) -> bool: ...

    @property
    def guest_starts(self) -> int:
        """Jobs that began on nodes which a claim held."""

    def held_idle_node_us(self, now_us: int) -> int:
        """Node-time that held nodes stood idle."""

    def is_on_demand(self, jobs: NDArray[np.intp]) -> NDArray[np.bool_]: ...
