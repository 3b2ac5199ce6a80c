"""What can go wrong with the ledger."""

from __future__ import annotations


class LedgerError(Exception):
    """The ledger cannot be opened, read or written; nothing of what was asked for is stored."""
