"""The account of nodes that batch jobs lent to on-demand jobs."""

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


@dataclass(slots=True)
class LoanAccount:
    """What became of lent nodes: lent = returned + not returned + outstanding."""

    lent: int = 0
    returned: dict[str, int] = field(default_factory=lambda: {"resumed": 0, "expanded": 0})
    not_returned: dict[str, int] = field(default_factory=dict)
    """By the text of the reason."""
    outstanding: int = 0
