"""Times of logs that do not say their offset from UTC: whose clock wrote them, and the hours in which clocks change.

A user says whose clock it was (`--time-zone Europe/Berlin`, `workload.time_zone`). Where nobody says it such times are
taken to be UTC, and the log says so, so that two logs are not laid together an hour apart (`study/logs.py`).
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from balancer.time_zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from emulator.workload.swf import SwfLog

ASSUMED_KEY = "AssumedZone"
"""Header key of ours: times without an offset from UTC were taken to be in this zone, and nobody said so."""
ZONE_KEY = "TimeZoneString"
"""Header key of the Standard Workload Format: the zone of the clock that wrote the log."""
TWICE = "a time in the hour that {} has twice; the first that fits is taken"
MISSING = "a time in the hour that {} skips; is it the right zone?"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what is taken from it has no zone
SACCT_REMEDY = "SLURM_TIME_FORMAT=%s in front of {} avoids that"


@dataclass(slots=True)
class GivenZone:
    """The zone that a user named, and whether a time was read by it."""

    zone: ZoneInfo
    is_used: bool = False

    @property
    def name(self) -> str:
        return str(self.zone)


_GIVEN: ContextVar[GivenZone | None] = ContextVar("_GIVEN", default=None)


@contextmanager
def in_zone(name: str | None) -> Iterator[GivenZone | None]:
    """Logs that are read inside have local times of this zone; None: of the one outside. Raises ValueError."""
    if name is None:
        yield _GIVEN.get()
        return
    zone = GivenZone(zone_of(name))
    token = _GIVEN.set(zone)
    try:
        yield zone
    finally:
        _GIVEN.reset(token)


def is_assumed(log: SwfLog) -> bool:
    """Whether times of a log were taken to be UTC because nobody says whose clock it was."""
    return ASSUMED_KEY in log.keys


def not_one_clock(local: object, other: object) -> str:
    """What is wrong with the times of two files of which one says no offset from UTC, and what to do."""
    return (
        f"{local}: its times say no offset from UTC, and those of {other} are known, so which of them met is unknown;"
        " say with --time-zone whose clock it was (Europe/Berlin, or UTC)"
    )


class LocalTimes:
    """The times of one log as Unix seconds. `remedy`: how its program writes times that need no zone."""

    def __init__(self, remedy: str = "") -> None:
        self._named_zone = _GIVEN.get()
        self._remedy = f" ({remedy})" if remedy else ""
        self._odd: dict[str, None] = {}
        self._ahead: dict[int, timedelta | None] = {}
        """By how much the clock was ahead of UTC in each hour of which there was a time."""
        self.is_local = False
        """Whether any time so far said no offset from UTC."""

    @property
    def is_assumed(self) -> bool:
        """Whether times were taken to be UTC because nobody says whose clock it was."""
        return self.is_local and self._named_zone is None

    def unix_s(self, when: datetime, *, not_before_s: float | None = None) -> float:
        """Of a time that says its offset or of a local one; of two the first not before."""
        if when.tzinfo is not None:
            return when.timestamp()
        self.is_local = True
        if self._named_zone is None:
            return (when - _EPOCH).total_seconds()
        self._named_zone.is_used = True
        since = when - _EPOCH
        hour = since.days * 24 + since.seconds // 3600
        if hour not in self._ahead:
            self._ahead[hour] = _ahead_in(self._named_zone.zone, hour)
        if (ahead := self._ahead[hour]) is not None:
            return (since - ahead).total_seconds()
        first_s, second_s = _both_s(when, self._named_zone.zone)
        if first_s == second_s:
            return first_s
        is_twice = first_s < second_s
        remark = (TWICE if is_twice else MISSING).format(self._named_zone.name)
        self._odd[remark + self._remedy] = None
        is_too_early = not_before_s is not None and first_s < not_before_s
        return second_s if is_twice and is_too_early else first_s

    @property
    def is_odd(self) -> bool:
        """Whether `odd` has something to tell."""
        return bool(self._odd)

    def odd(self) -> list[str]:
        """What is to be told of the times that were read since this was last asked."""
        remarks = list(self._odd)
        self._odd.clear()
        return remarks

    def header(self) -> list[str]:
        """Lines for the header of the log."""
        if not self.is_local:
            return []
        if self._named_zone is not None:
            return [f"; {ZONE_KEY}: {self._named_zone.name}"]
        return [
            f"; {ASSUMED_KEY}: UTC",
            f"; Note: times say no offset from UTC, taken to be UTC; --time-zone says whose they are{self._remedy}",
        ]


def _both_s(when: datetime, zone: ZoneInfo) -> tuple[float, float]:
    """A local time as Unix seconds: of the first and of the second hour, where a zone has it twice."""
    first, second = (when.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return first, second


def _ahead_in(zone: ZoneInfo, hour: int) -> timedelta | None:
    """By how much the clock of a zone is ahead of UTC in an hour since 1970, None if it is set in it."""
    begin = _EPOCH + timedelta(hours=hour)
    ahead = {
        (at - _EPOCH) - timedelta(seconds=unix_s)
        for at in (begin, begin + timedelta(minutes=59, seconds=59))
        for unix_s in _both_s(at, zone)
    }
    return ahead.pop() if len(ahead) == 1 else None
