"""Windows that come again: `Mon-Fri 20:00-06:00`, or a rule of RFC 5545 and the times of day. Pure.

Rules are read by dateutil, zones by zoneinfo. Times of day are those of the zone's clocks: a window from 20:00 to 06:00
is an hour shorter or longer in the nights when the clocks change. A time that a change leaves out counts as the time an
hour later; of one that comes twice the first counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from dateutil.rrule import rrulestr

from balancer.time_zones import zone_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from dateutil.rrule import rrule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WINDOW = re.compile(r"(\S+) +([01]\d|2[0-3]):([0-5]\d) *- *([01]\d|2[0-3]):([0-5]\d)")
_FREQUENCY = re.compile(
    r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)"
    r"(;(INTERVAL|COUNT|UNTIL|WKST|BY(DAY|MONTHDAY|YEARDAY|WEEKNO|MONTH|SETPOS))=[^;=]+)*"
)
_HORIZON = timedelta(days=5 * 366)
"""A rule that names no day within this time names none."""
_LAST_CYCLE = datetime(9972, 1, 1)  # noqa: DTZ001 - of any zone's clocks
"""The last 28 years that dateutil looks at. All 14 kinds of year (leap or not, by first weekday) are among them."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """`rule`: days and times of day. `zone`: a name of the IANA database. `exceptions`: days on which none begins.

    `origin_us`: what is added to a time to have it since 1970-01-01T00:00Z, where the cluster's clock does not count
    from there. Raises ValueError.
    """

    rule: str
    zone: str = "UTC"
    exceptions: tuple[str, ...] = ()
    origin_us: int = 0
    _lasts: tuple[int, int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        match = _WINDOW.fullmatch(self.rule.strip())
        if match is None:
            raise ValueError(
                f"every: {self.rule!r} is no window: write days and times like 'Mon-Fri 20:00-06:00', "
                "'daily 08:00-18:00' or 'FREQ=MONTHLY;BYDAY=1MO 08:00-18:00'"
            )
        object.__setattr__(self, "_lasts", tuple(int(each) for each in match.groups()[1:]))
        _zone(self.zone)
        for day in self.exceptions:
            try:
                date.fromisoformat(day)
            except ValueError as error:
                raise ValueError(f"exceptions: {day!r} is no day: write it like 2026-12-24") from error
        _rule(self.rule, date(2000, 1, 1))

    @classmethod
    def of(cls, text: str) -> Self:
        """As `text` gave it."""
        found: dict[str, Any] = json.loads(text)
        return cls(**found | {"exceptions": tuple(found.get("exceptions", ()))})

    @property
    def text(self) -> str:
        """For the ledger: what is not as by default."""
        found = {name: getattr(self, name) for name in ("rule", "zone", "exceptions", "origin_us")}
        return json.dumps({name: each for name, each in found.items() if each}, separators=(",", ":"))

    def window(self, added_us: int, after_us: int) -> tuple[int, int] | None:
        """Begin and end of the first window that ends after `after_us`; None: there is none in the next five years.

        `added_us`: when the rule was made; intervals and counts go from that day on.
        """
        local = self._local(after_us)
        rule = _rule(self.rule, self._local(added_us).date())
        if "COUNT=" not in self.rule.upper() and "UNTIL=" not in self.rule.upper():
            rule = rule.replace(
                until=local + _HORIZON
            )  # else one that names no day is looked through to the year 9999
        for begin in rule.xafter(local - 2 * _DAY, inc=True):
            if begin.date().isoformat() in self.exceptions:
                continue
            begins_us, ends_us = self._on(begin.date())
            if after_us < ends_us and begins_us < ends_us:
                return begins_us, ends_us
        return None

    def _on(self, day: date) -> tuple[int, int]:
        """Begin and end of the window that begins on this day."""
        from_hour, from_minute, to_hour, to_minute = self._lasts
        begin = datetime(day.year, day.month, day.day, from_hour, from_minute)  # noqa: DTZ001 - of the zone's clocks
        end = begin.replace(hour=to_hour, minute=to_minute)
        return self._us(begin), self._us(end if end > begin else end + _DAY)

    def _local(self, at_us: int) -> datetime:
        return (_EPOCH + (at_us + self.origin_us) * _US).astimezone(_zone(self.zone)).replace(tzinfo=None)

    def _us(self, local: datetime) -> int:
        return (local.replace(tzinfo=_zone(self.zone)) - _EPOCH) // _US - self.origin_us


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return zone_of(name)
    except ValueError as error:
        raise ValueError(f"zone: {error}") from error


@lru_cache(maxsize=64)
def _rule(text: str, first: date) -> rrule:
    """The days, beginning at midnight of the zone's clocks; days of the week count from the day before `first` on."""
    days = text.split(maxsplit=1)[0].upper()
    start = datetime(first.year, first.month, first.day)  # noqa: DTZ001 - of the zone's clocks
    if days.startswith("FREQ="):
        if _FREQUENCY.fullmatch(days) is None:
            raise ValueError(
                f"every: {days!r}: FREQ is DAILY, WEEKLY, MONTHLY or YEARLY, with INTERVAL, COUNT, UNTIL, BYDAY, "
                "BYMONTHDAY, BYYEARDAY, BYWEEKNO, BYMONTH, BYSETPOS and WKST (RFC 5545)"
            )
    else:
        days, start = f"FREQ=WEEKLY;BYDAY={','.join(_weekdays(days, text))}", start - _DAY
    try:
        rule = rrulestr(days, dtstart=start)
    except (ValueError, TypeError) as error:
        raise ValueError(f"every: {days!r} is no rule of RFC 5545: {error}") from error
    if next(iter(rule.replace(dtstart=_LAST_CYCLE, interval=1, count=None, until=None)), None) is None:
        raise ValueError(f"every: {days!r} names no day of any year: compare its months, days and weeks")
    return rule


def _weekdays(words: str, text: str) -> list[str]:
    """`MON-FRI`, `SAT,SUN` or `DAILY` as the two letters of RFC 5545."""
    if words == "DAILY":
        return list(_DAYS)
    found = []
    for part in words.split(","):
        ends = [each[:2] for each in part.split("-")]
        names = re.fullmatch(r"[A-Z]{2,9}(-[A-Z]{2,9})?", part)
        if names is None or not {*ends} <= {*_DAYS}:
            raise ValueError(
                f"every: {part!r} in {text!r} is no day: write Mon, Tue, Wed, Thu, Fri, Sat, Sun or daily"
            )
        first, last = _DAYS.index(ends[0]), _DAYS.index(ends[-1])
        found += [_DAYS[(first + n) % 7] for n in range((last - first) % 7 + 1)]
    return sorted({*found}, key=_DAYS.index)
