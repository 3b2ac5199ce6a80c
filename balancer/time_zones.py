"""Time zones by name."""

from __future__ import annotations

from zoneinfo import ZoneInfo


def zone_of(name: str) -> ZoneInfo:
    """The zone of this name. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # a KeyError: ZoneInfoNotFoundError is one
        raise ValueError(
            f"there is no time zone {name!r}; names are such as Europe/Berlin, America/Chicago or UTC"
        ) from error
