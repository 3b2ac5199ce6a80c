"""Times at the borders: ISO 8601 in UTC. A clock that starts at 0 reads 1970-01-01."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


def iso(at_us: int) -> str:
    """Microseconds of cluster time as `2026-11-20T08:00:00.000000Z`."""
    return (_EPOCH + timedelta(microseconds=at_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def iso_s(at_us: int) -> str:
    """To the second: `2026-11-20T08:00:00Z`."""
    return f"{iso(at_us)[:19]}Z"


def iso_or_none(at_us: int | None) -> str | None:
    return iso(at_us) if at_us is not None else None


def parse_iso(text: str) -> int:
    """The reverse of `iso`; a time without a zone is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _US
