"""Outcomes of leases as arrays: what compiled runs leave behind, and what figures are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from emulator.record.run_record import LeaseOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeaseTable(Sequence[LeaseOutcome]):
    """Outcomes as columns. It equals any sequence of the same outcomes.

    `reason` is that of each outcome, or empty where all were granted.
    """

    job: NDArray[np.int64]
    granted: NDArray[np.bool_]
    decided_us: NDArray[np.int64]
    reason: tuple[str, ...] = ()

    @classmethod
    def of(cls, leases: Iterable[LeaseOutcome]) -> LeaseTable:
        """The same outcomes as columns."""
        if isinstance(leases, LeaseTable):
            return leases
        listed = list(leases)
        reason = tuple(lease.reason for lease in listed)
        return cls(
            job=np.array([lease.job for lease in listed], np.int64),
            granted=np.array([lease.granted for lease in listed], np.bool_),
            decided_us=np.array([lease.decided_us for lease in listed], np.int64),
            reason=reason if any(reason) else (),
        )

    @classmethod
    def of_granted(cls, job: NDArray[np.int64], decided_us: NDArray[np.int64]) -> LeaseTable:
        return cls(job, np.ones(len(job), np.bool_), decided_us)

    def and_then(self, other: LeaseTable) -> LeaseTable:
        """These outcomes and behind them those."""
        reason = (*self.reasons, *other.reasons) if self.reason or other.reason else ()
        return LeaseTable(
            np.concatenate((self.job, other.job)),
            np.concatenate((self.granted, other.granted)),
            np.concatenate((self.decided_us, other.decided_us)),
            reason,
        )

    @property
    def reasons(self) -> Sequence[str]:
        """One an outcome."""
        return self.reason or ("",) * len(self)

    def __len__(self) -> int:
        return len(self.job)

    @overload
    def __getitem__(self, place: int) -> LeaseOutcome: ...
    @overload
    def __getitem__(self, place: slice) -> LeaseTable: ...
    def __getitem__(self, place: int | slice) -> LeaseOutcome | LeaseTable:
        if isinstance(place, slice):
            return LeaseTable(
                self.job[place], self.granted[place], self.decided_us[place], self.reason[place]
            )
        return LeaseOutcome(
            int(self.job[place]),
            granted=bool(self.granted[place]),
            decided_us=int(self.decided_us[place]),
            reason=self.reason[place] if self.reason else "",
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == its for one, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]
