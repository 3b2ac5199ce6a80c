"""Whose the nodes are, as it is noted on the batch system itself: what a driver that can keep such a note has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_BETWEEN = " | "
_CLAIM = re.compile(
    r"(?:(?P<kept>.*) \| )?balancer claim (?P<ledger>[0-9a-f]{8})-(?P<count>\d{1,18})", re.DOTALL
)


@runtime_checkable
class KeepsClaims(Protocol):
    """A driver that can note on the batch system which ledger has the nodes, where each other Balancer sees it."""

    keeps_claims: bool
    """Whether this site lets it."""

    def read_claims(self) -> Mapping[str, str]:
        """Id of a ledger -> a text that is another one after each renewal. It only reads. Raises DriverError."""

    def renew_claim(self, ledger_id: str, *, instead_of: Collection[str] = ()) -> None:
        """Note that this ledger has the nodes, and no longer those. Raises DriverError."""


def claim_in(comment: str) -> tuple[str, str, int] | None:
    """A comment that holds a claim: what others wrote before it, the ledger's id, the number of the renewal."""
    match = _CLAIM.fullmatch(comment)
    return None if match is None else (match["kept"] or "", match["ledger"], int(match["count"]))


def claimed(comment: str, ledger_id: str) -> str:
    """The comment with the next claim of this ledger in place of the one that is there; what others wrote stays."""
    found = claim_in(comment)
    operator_text, count = (comment, 0) if found is None else (found[0], found[2])
    return f"{operator_text}{_BETWEEN if operator_text else ''}balancer claim {ledger_id}-{count + 1}"
