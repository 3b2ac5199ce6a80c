"""Windows that come again: `Mon-Fri 20:00-06:00`, or a rule of RFC 5545 and the times of day. Pure.

Rules are read by dateutil, zones by zoneinfo. Times of day are those of the zone's clocks: a window from 20:00 to 06:00
is an hour shorter or longer in the nights when the clocks change. A time that a change leaves out counts as the time an
hour later; of one that comes twice the first counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Self

from dateutil.rrule import rrule, rrulestr

from balancer.time_zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WINDOW = re.compile(r"(\S+) +([01]\d|2[0-3]):([0-5]\d) *- *([01]\d|2[0-3]):([0-5]\d)")
_FREQUENCY = re.compile(
    r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)"
    r"(;(INTERVAL|COUNT|UNTIL|WKST|BY(DAY|MONTHDAY|YEARDAY|WEEKNO|MONTH|SETPOS))=[^;=]+)*"
)
_NUMBER = re.compile(r"0*[1-9]\d{0,8}")
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
    is_stored: InitVar[bool] = False
    """Of a ledger: what an older version took is read as it read it."""
    _lasts: tuple[int, int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self, is_stored: bool) -> None:
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
        if not is_stored:
            _check_parts(self.rule.split(maxsplit=1)[0].upper())
        rule = _days(self.rule, date(2000, 1, 1)).rule
        if next(iter(rule.replace(dtstart=_LAST_CYCLE, until=None)), None) is None:
            raise ValueError(
                f"every: {self.rule!r} names no day of any year: compare its months, days and weeks"
            )

    @classmethod
    def of(cls, text: str) -> Self:
        """As `text` gave it."""
        found: dict[str, Any] = json.loads(text)
        return cls(**found | {"exceptions": tuple(found.get("exceptions", ()))}, is_stored=True)

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
        days = _days(self.rule, self._local(added_us).date())
        for day in days.between((local - 2 * _DAY).date(), (local + _HORIZON).date()):
            if day.isoformat() in self.exceptions:
                continue
            begins_us, ends_us = self._on(day)
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


@dataclass(frozen=True, slots=True)
class _Days:
    """The days of a rule whose first period has the day `first`: each `interval`th period, `count` days in all.

    `rule` names those of all periods. What is left out is left out here: dateutil would look to the year 9999 for a day
    in a period that never has one, and at each since `first`.
    """

    rule: rrule
    first: date
    frequency: str
    week_begins: int
    interval: int
    count: int | None

    def between(self, since: date, until: date) -> Iterator[date]:
        begin = max(self.first, self._period(since))
        if self.count is not None:  # all that came before must be counted
            begin = self.first
        found = (each.date() for each in self.rule.replace(dtstart=datetime.combine(begin, time.min)))
        in_time = takewhile(lambda day: day <= until, found)
        counted = islice((day for day in in_time if self._number(day) % self.interval == 0), self.count)
        return (day for day in counted if day >= since)

    def _period(self, day: date) -> date:
        """The first day of the day, week, month or year."""
        if self.frequency == "DAILY":
            return day
        if self.frequency == "WEEKLY":
            return day - (day.weekday() - self.week_begins) % 7 * _DAY
        return day.replace(day=1) if self.frequency == "MONTHLY" else day.replace(month=1, day=1)

    def _number(self, day: date) -> int:
        """Of its period, where that of `first` is 0."""
        if self.frequency in ("DAILY", "WEEKLY"):
            days = (self._period(day) - self._period(self.first)).days
            return days if self.frequency == "DAILY" else days // 7
        years = day.year - self.first.year
        return years if self.frequency == "YEARLY" else 12 * years + day.month - self.first.month


@lru_cache(maxsize=64)
def _days(text: str, first: date) -> _Days:
    """Days of the week count from the day before `first` on."""
    days = text.split(maxsplit=1)[0].upper()
    if days.startswith("FREQ="):
        parts = _parts(days)
    else:
        parts, first = {"FREQ": "WEEKLY", "BYDAY": ",".join(_weekdays(days, text))}, first - _DAY
    interval, count = max(1, int(parts.pop("INTERVAL", "1"))), parts.pop("COUNT", None)
    if not parts.keys() & {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"}:
        parts |= _of_first(first, parts["FREQ"], parts.get("BYMONTH"))
    try:
        rule = rrulestr(
            ";".join(f"{name}={value}" for name, value in parts.items()),
            dtstart=datetime.combine(first, time.min),
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"every: {days!r} is no rule of RFC 5545: {error}") from error
    week_begins = _DAYS.index(parts.get("WKST", "MO"))
    return _Days(rule, first, parts["FREQ"], week_begins, interval, None if count is None else int(count))


def _of_first(first: date, frequency: str, month: str | None) -> dict[str, str]:
    """Which days a rule means that names none: those like the first one."""
    if frequency == "DAILY":
        return {}
    if frequency == "WEEKLY":
        return {"BYDAY": _DAYS[first.weekday()]}
    day = {"BYMONTHDAY": str(first.day)}
    return day if frequency == "MONTHLY" else day | {"BYMONTH": month or str(first.month)}


def _parts(days: str) -> dict[str, str]:
    """`FREQ=DAILY;COUNT=2` by names."""
    if _FREQUENCY.fullmatch(days) is None:
        raise ValueError(
            f"every: {days!r}: FREQ is DAILY, WEEKLY, MONTHLY or YEARLY, with INTERVAL, COUNT, UNTIL, BYDAY, "
            "BYMONTHDAY, BYYEARDAY, BYWEEKNO, BYMONTH, BYSETPOS and WKST (RFC 5545)"
        )
    return dict(re.findall(r"([A-Z]+)=([^;]+)", days))


def _check_parts(days: str) -> None:
    """Raises ValueError for parts that mean nothing, or that another one like them overrides."""
    if not days.startswith("FREQ="):
        return
    names, parts = re.findall(r"([A-Z]+)=", days), _parts(days)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"every: {days!r}: {', '.join(twice)} may stand once")
    for name in ("INTERVAL", "COUNT"):
        if _NUMBER.fullmatch(parts.get(name, "1")) is None:
            raise ValueError(f"every: {days!r}: {name} is a whole number from 1")
    if parts.get("UNTIL", "").endswith("Z"):
        raise ValueError(f"every: {days!r}: UNTIL is a day of the zone's clocks like 20271231")
    if parts.get("WKST", "MO") not in _DAYS:
        raise ValueError(f"every: {days!r}: WKST is one of {', '.join(_DAYS)}")


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
