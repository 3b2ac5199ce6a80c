"""What can go wrong with the ledger."""

from __future__ import annotations


class EndingError(Exception):
    """The service ends: what is not stored now the next start sees to."""


class LedgerError(Exception):
    """The ledger cannot be opened, read or written; nothing of what was asked for is stored."""


class OlderError(LedgerError):
    """An older release wrote the ledger; the next start of the service brings it up to date."""


class StaleError(LedgerError):
    """A record or the log is not as the writer believes; nothing is stored, and the state must be read again."""


class FencedError(LedgerError):
    """Another Balancer writes this ledger now: this one may neither write nor command any more."""


class ReplacedError(LedgerError):
    """The ledger is gone, or not the one that was opened: nothing may be written or decided before a restart."""


class DamagedError(LedgerError):
    """What was read is not what was written."""


class LeaseHeldError(LedgerError):
    """Another Balancer writes this ledger, and goes on doing so."""


class ReadOnlyError(LedgerError):
    """Writing failed a moment ago (a full disk, for instance); calls that only read go on."""


class UnprovenError(LedgerError):
    """Marks and ledger have not been compared since the start, and nothing else says that it is the newest."""


class ClaimedError(LedgerError):
    """Another Balancer, with a ledger of its own, claims the same nodes: this one commands nothing."""


class BrokenLogError(LedgerError):
    """The events contradict each other or have a gap: something else has written to the database."""
