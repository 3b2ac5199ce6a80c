"""Digests by which a ledger knows itself: of each event with the one before it, and of each row by itself.

They are for damage and for mistakes (a flipped bit, a lost tail, another file), not against somebody who writes to the
database on purpose and could compute them as well.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

EVENT_COLUMNS = ("seq", "at_us", "serial", "event_id", "kind", "body", "epoch", "changes")
"""What the digest of an event covers, besides the digest of the event before."""

DIGITS = 8
"""So many of a digest's hexadecimal digits stand in a mark: room for little more, and enough to tell two events."""


def link(before: str, row: Any) -> str:
    """The digest of an event (a mapping of its columns) that follows the one with the digest `before`."""
    return _digest((before, *[row[name] for name in EVENT_COLUMNS]), 16)


def seal(values: Iterable[object]) -> str:
    """The digest of a row's values, which stands beside them."""
    return _digest(values, 8)


def _digest(values: Iterable[object], size: int) -> str:
    # A separator that no value has: text in the ledger is JSON, or checked before it gets here.
    return blake2b("\x1f".join(map(str, values)).encode(), digest_size=size).hexdigest()
