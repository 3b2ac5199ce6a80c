"""Queue orders that are asked at each pass: what they see, what they say, and how that becomes a place in the queue.

Such an order is a dataclass of the group `emulator.queue_orders`, whose fields are its parameters. It has one of

* `priority(now_us, queue)`: the priorities of all jobs of the `QueueView` at once, in Python;
* `score(job)`: the priority of one job, a row of the view. It is compiled, so that passes need no Python.
  In it `self` is a record of the numbers among the parameters (as floats), and `job` one of `WAITING`: arithmetic and
  `math`, no more.

The highest priority is served first, ties by (submit, number). Priorities are compared as the numbers that they are, to
the last digit, as programs do that sort by them. The docs: `docs/schedulers.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from emulator.plugins import check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

WAITING = np.dtype(
    [
        ("row", "i8"), ("submit_us", "i8"), ("wait_us", "i8"), ("estimate_us", "i8"), ("nodes", "i8"), ("queue", "i8"),
        ("user", "i8"), ("group", "i8"), ("account", "i8"), ("usage", "f8"), ("share", "f8"), ("fixed", "f8"),
    ]
)  # fmt: skip
"""A waiting job. `row`: its row of the job table; `wait_us`: now less its submit time; `estimate_us` and `nodes`:
what its next run asks for; `queue`, `user` and `group`: the trace's numbers, -1 where unknown. For an order with
`fair_share`: `account` (an index), `usage` (the account's part of all decayed usage) and `share` (its part of all
shares), 0 without. `fixed`: what the order's method `fixed` said of the job, else 0."""

VIEW = np.dtype((np.record, WAITING))
"""The same, for tables whose rows have names also where nothing is compiled."""

QueueView: TypeAlias = "NDArray[np.void]"
"""Waiting jobs in order of their rows, read only; each field of `WAITING` is an attribute (`queue.wait_us`)."""


@runtime_checkable
class AskedInPython(Protocol):
    def priority(self, now_us: int, queue: QueueView) -> NDArray[np.float64]:
        """The priority of each waiting job now; higher ones first, no NaN."""


@runtime_checkable
class AskedInLoop(Protocol):
    def score(self, job: Any) -> float:
        """The priority of a waiting job now; higher ones first, no NaN."""


@runtime_checkable
class HasFixed(Protocol):
    def fixed(self, jobs: JobTable, node_count: int) -> NDArray[np.float64]:
        """What of the priorities never changes, one number a job."""


@dataclass(frozen=True, slots=True)
class FairShare:
    """Whose usage counts, and how it is forgotten.

    Usage of an account is the node time of its runs, of which each second counts half as much after `half_life_us`
    (the integral of nodes x 2^(-age / half-life), exactly). `shares`: of an account, by its number; 1 for all others.
    All shares are those of accounts that had a job in the queue when the order was asked, now or before.
    """

    half_life_us: float
    account: Literal["user", "group"] = "user"
    shares: dict[int, float] = field(default_factory=dict)


@runtime_checkable
class HasFairShare(Protocol):
    def fair_share(self) -> FairShare:
        """Whose usage the order wants to see."""


_SIZE_BITS = (1 << 63) - 1


def order_keys(priorities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers in the order of the priorities, equal for equal ones.

    A float's bits, without its sign, are in its own order.
    """
    bits = np.ascontiguousarray(priorities, np.float64).view(np.int64)
    size = bits & _SIZE_BITS
    return np.where(bits < 0, -size, size)


def one_a_job(said: object, jobs: int, method: str = "") -> NDArray[Any]:
    """What an order says of all jobs: one number each, no NaN. Raises TypeError."""
    found = np.asarray(said)
    if found.dtype.kind not in "biuf" or found.shape != (jobs,) or np.isnan(found).any():
        it = method or "it"
        raise TypeError(
            f"{it} returned {found.dtype} of shape {found.shape} of {jobs} jobs; return one number a job, no NaN"
        )
    return found


def sort_keys(said: object, jobs: int) -> NDArray[np.int64]:
    """The keys that an order that never changes gave so many jobs; fractions become whole numbers in their order."""
    found = one_a_job(said, jobs)
    return order_keys(found) if found.dtype.kind == "f" else found.astype(np.int64, copy=False)


def numbered(owner: str, name: str, values: object) -> dict[int, float]:
    """The parameter that maps numbers of users, groups or queues to something. Raises ValueError."""
    if not isinstance(values, dict):
        raise ValueError(f"{owner}: {name} must map numbers to values, not {values!r}")  # noqa: TRY004
    found: dict[int, float] = {}
    for key, value in values.items():
        if not str(key).removeprefix("-").isdecimal():  # JSON has them as text
            raise ValueError(f"{owner}: {name} are given by number, not by {key!r}")
        check_number(owner, f"{name} of {key}", value)
        found[int(key)] = value
    return found
