"""Who lent nodes to an on-demand job, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Reason(IntEnum):
    """Why lent nodes did not return."""

    DID_NOT_START = 0
    ON_DEMAND_WAITS = 1
    RUNS_NO_MORE = 2
    HAS_ALL = 3
    NODE_BROKE = 4
    WAITS_NO_MORE = 5
    TOO_FEW = 6
    LEASE_BROKE = 7

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS = {
    Reason.DID_NOT_START: "the on-demand job did not start",
    Reason.ON_DEMAND_WAITS: "an on-demand job waits",
    Reason.RUNS_NO_MORE: "the lender does not run any more",
    Reason.HAS_ALL: "the lender has all its nodes",
    Reason.NODE_BROKE: "a lent node broke",
    Reason.WAITS_NO_MORE: "the lender does not wait any more",
    Reason.TOO_FEW: "too few nodes for the lender to resume",
    Reason.LEASE_BROKE: "a node of the on-demand job broke",
}


@dataclass(frozen=True, slots=True)
class Loan:
    """`nodes` nodes that a batch job gave to an on-demand job.

    `shrunk_run_us`: the start of the run in which it was shrunk, -1 if it was preempted; `width`: what it had before.
    """

    job: int
    nodes: int
    width: int
    shrunk_run_us: int = -1


@dataclass(slots=True)
class LoanBook:
    """Loans of each on-demand job, in order of lending, and the account: lent = returned + not returned, in nodes."""

    open: dict[int, list[Loan]] = field(default_factory=dict)
    lent: int = 0
    returned: dict[str, int] = field(default_factory=lambda: {"resumed": 0, "expanded": 0})
    not_returned: dict[str, int] = field(default_factory=dict)
    outstanding: int = 0

    def lend(self, borrower: int, loan: Loan) -> None:
        if loan.nodes:
            self.open.setdefault(borrower, []).append(loan)
            self.lent += loan.nodes
            self.outstanding += loan.nodes

    def close(self, borrower: int) -> list[Loan]:
        """The borrower is done: its loans, to be settled one by one."""
        return self.open.pop(borrower, [])

    def settle(self, loan: Loan, *, back: int = 0, how: str = "resumed", why: Reason) -> None:
        """`back` of the loan's nodes went back to the lender; the rest did not, for the reason `why`."""
        self.outstanding -= loan.nodes
        self.returned[how] += back
        if back < loan.nodes:
            self.not_returned[why.text] = self.not_returned.get(why.text, 0) + loan.nodes - back
