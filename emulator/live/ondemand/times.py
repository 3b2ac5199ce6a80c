"""Times as OpenStack and the Balancer write them. Cluster time starts at 0, which reads 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from balancer.clock import US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(time_us: int | None) -> str | None:
    """`2026-11-21T00:23:15.000000`, the form of launched_at. None stays None."""
    return None if time_us is None else f"{_moment(time_us):%Y-%m-%dT%H:%M:%S.%f}"


def iso_z(time_us: int) -> str:
    """`2026-11-21T00:23:15Z`, the form of created and updated."""
    return f"{_moment(time_us):%Y-%m-%dT%H:%M:%SZ}"


def from_iso(text: str) -> int:
    """Microseconds since 1970 of a time that `iso` wrote."""
    return round((datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) / timedelta(microseconds=1))


def _moment(time_us: int) -> datetime:
    return _EPOCH + timedelta(seconds=time_us // US, microseconds=time_us % US)
