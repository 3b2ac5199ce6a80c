"""Reserves that come again: when their windows are, and what the life cycle makes of them."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import ReserveAdded, ReserveWithdrawn
from balancer.lifecycle.recurrence import Recurrence

US = 1_000_000
HOUR_US = 3600 * US
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def us(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * US


def windows(rule: str, after: int, count: int, **more: object) -> list[tuple[str, str]]:
    """The next windows, in UTC."""
    recurrence, found, at_us = Recurrence(rule, **more), [], after
    for _ in range(count):
        window = recurrence.window(after, at_us)
        if window is None:
            break
        found.append(tuple(f"{datetime.fromtimestamp(each / US, UTC):%a %d %H:%M}" for each in window))
        at_us = window[1]
    return found


MONDAY = us(2026, 11, 23, 12)


@pytest.mark.parametrize(
    ("rule", "more", "expected"),
    [
        ("Mon-Fri 20:00-06:00", {}, [("Mon 23 20:00", "Tue 24 06:00"), ("Tue 24 20:00", "Wed 25 06:00")]),
        ("fri-mon 00:00-00:00", {}, [("Mon 23 00:00", "Tue 24 00:00"), ("Fri 27 00:00", "Sat 28 00:00")]),
        ("Sun 20:00-14:00", {}, [("Sun 22 20:00", "Mon 23 14:00"), ("Sun 29 20:00", "Mon 30 14:00")]),
        ("Wed,Sat 08:00-09:30", {}, [("Wed 25 08:00", "Wed 25 09:30"), ("Sat 28 08:00", "Sat 28 09:30")]),
        ("daily 20:00-06:00", {"zone": "Asia/Tokyo"}, [("Mon 23 11:00", "Mon 23 21:00"), ("Tue 24 11:00", "Tue 24 21:00")]),  # noqa: E501
        (
            "daily 08:00-09:00",
            {"exceptions": ("2026-11-24", "2026-11-25")},
            [("Thu 26 08:00", "Thu 26 09:00"), ("Fri 27 08:00", "Fri 27 09:00")],
        ),
        ("FREQ=MONTHLY;BYDAY=-1MO 08:00-18:00", {}, [("Mon 30 08:00", "Mon 30 18:00"), ("Mon 28 08:00", "Mon 28 18:00")]),  # noqa: E501
        ("FREQ=DAILY;COUNT=2 08:00-18:00", {}, [("Mon 23 08:00", "Mon 23 18:00"), ("Tue 24 08:00", "Tue 24 18:00")]),
    ],
)  # fmt: skip
def test_when_the_next_windows_are(rule, more, expected):
    assert windows(rule, MONDAY, 3, **more)[:2] == expected


def test_a_rule_that_names_no_day_is_refused_after_28_years_of_days():
    looked_at = 0

    def count(frame, event, _):
        nonlocal looked_at
        looked_at += event == "call" and frame.f_code.co_name == "ddayset"

    sys.setprofile(count)
    try:
        with pytest.raises(ValueError, match="names no day of any year"):
            Recurrence("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30 09:00-18:00")
    finally:
        sys.setprofile(None)
    assert looked_at == 28 * 365 + 7


def test_a_day_that_comes_once_in_28_years_is_one():
    assert Recurrence("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 08:00-18:00")


def test_clocks_that_change_make_a_night_longer_or_shorter():
    def hours(*day):
        begins_us, ends_us = Recurrence("Sat 20:00-06:00", "Europe/Berlin").window(us(*day), us(*day))
        return (ends_us - begins_us) / HOUR_US

    assert (hours(2026, 3, 28), hours(2026, 10, 24), hours(2026, 11, 21)) == (9, 11, 10)


@pytest.mark.parametrize(
    ("rule", "more", "said"),
    [
        ("at night", {}, "every: 'at night' is no window"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30 08:00-18:00", {}, "names no day of any year"),
        ("FREQ=DAILY;BYMONTH=4;BYMONTHDAY=31;UNTIL=20270101 08:00-18:00", {}, "names no day of any year"),
        ("Mon 20:00-26:00", {}, "every: 'Mon 20:00-26:00' is no window"),
        ("Someday 20:00-22:00", {}, "'SOMEDAY' in 'Someday 20:00-22:00' is no day"),
        ("Mon-Tue-Wed 20:00-22:00", {}, "is no day"),
        ("FREQ=HOURLY 20:00-22:00", {}, "FREQ is DAILY, WEEKLY, MONTHLY or YEARLY"),
        ("FREQ=DAILY;BYDAY=XX 20:00-22:00", {}, "is no rule of RFC 5545"),
        ("FREQ=DAILY;INTERVAL=0 20:00-22:00", {}, "INTERVAL is a whole number from 1"),
        ("FREQ=DAILY;INTERVAL=-1 20:00-22:00", {}, "INTERVAL is a whole number from 1"),
        ("FREQ=DAILY;COUNT=0 20:00-22:00", {}, "COUNT is a whole number from 1"),
        ("FREQ=DAILY;COUNT=3;COUNT=4 20:00-22:00", {}, "COUNT may stand once"),
        ("FREQ=DAILY;WKST=XX 20:00-22:00", {}, "WKST is one of MO, TU"),
        ("FREQ=DAILY;UNTIL=20270101T000000Z 20:00-22:00", {}, "UNTIL is a day of the zone's clocks"),
        ("daily 20:00-22:00", {"zone": "Berlin"}, "zone: there is no time zone 'Berlin'"),
        ("daily 20:00-22:00", {"zone": "../etc"}, "zone: there is no time zone"),
        ("daily 20:00-22:00", {"exceptions": ("24.12.",)}, "exceptions: '24.12.' is no day"),
    ],
)
def test_what_is_no_rule_is_told(rule, more, said):
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        Recurrence(rule, **more)


@given(
    days=st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=7, unique=True),
    begin=st.integers(0, 24 * 60 - 1),
    end=st.integers(0, 24 * 60 - 1),
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
    ),
    added_s=st.integers(0, 4 * 10**9),
    later_s=st.integers(0, 10**8),
    excepted=st.integers(0, 9),
)
def test_windows_are_in_order_on_their_days_and_none_is_left_out(  # noqa: PLR0917
    days, begin, end, zone, added_s, later_s, excepted
):
    """Against every day looked at one by one."""
    after_us = (added_s + later_s) * US
    clock = ZoneInfo(zone)
    today = datetime.fromtimestamp(after_us / US, clock).date()
    exceptions = ((today + timedelta(days=excepted)).isoformat(),)
    text = f"{','.join(days)} {begin // 60:02d}:{begin % 60:02d}-{end // 60:02d}:{end % 60:02d}"
    recurrence = Recurrence(text, zone, exceptions)

    def window_on(day):
        at = datetime(day.year, day.month, day.day, begin // 60, begin % 60)  # noqa: DTZ001
        to = datetime(day.year, day.month, day.day, end // 60, end % 60) + timedelta(days=end <= begin)  # noqa: DTZ001
        return tuple(int(each.replace(tzinfo=clock).timestamp()) * US for each in (at, to))

    wanted = (today + timedelta(days=ahead) for ahead in range(-2, 16))
    of_days = [
        window_on(day)
        for day in wanted
        if WEEKDAYS[day.weekday()] in days and day.isoformat() not in exceptions
    ]
    expected = [(at, to) for at, to in of_days if at < to and to > after_us and to - at > 0]
    assert Recurrence.of(recurrence.text) == recurrence
    assert recurrence.window(added_s * US, after_us) == expected[0]


BY_DAY = ("", ";BYDAY=MO,WE", ";BYDAY=SU", ";BYDAY=TU,SA")
PARTS = {
    "DAILY": (*BY_DAY, ";BYMONTH=2,11", ";BYMONTHDAY=29,31"),
    "WEEKLY": (*BY_DAY, ";BYMONTH=3;BYDAY=FR", ";WKST=SU;BYDAY=MO,SU", ";BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"),
    "MONTHLY": (*BY_DAY, ";BYMONTHDAY=31", ";BYMONTHDAY=-1", ";BYDAY=2TU", ";BYDAY=MO,FR;BYSETPOS=-1"),
    "YEARLY": ("", ";BYMONTH=4", ";BYDAY=20MO", ";BYWEEKNO=1,53;BYDAY=MO", ";BYYEARDAY=1,366"),
}


@given(
    rule=st.sampled_from([f"FREQ={each}{part}" for each, parts in PARTS.items() for part in parts]),
    interval=st.integers(
        1, 6
    ),  # each seventh day is never another weekday: dateutil alone would look to the year 9999
    ends=st.sampled_from(["", ";COUNT=3", ";COUNT=500", ";UNTIL=20240229", ";UNTIL=20300101"]),
    first=st.dates(date(1999, 1, 1), date(2026, 1, 1)),
    later=st.integers(0, 40 * 365),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    excepted=st.integers(0, 2),
)
def test_a_rule_that_began_years_ago_keeps_its_days(rule, interval, ends, first, later, zone, excepted):  # noqa: PLR0917
    """Against all its days since, one by one."""
    clock, day = ZoneInfo(zone), first + timedelta(days=later)
    rule += f";INTERVAL={interval}{ends}"
    days = []
    for each in rrulestr(rule, dtstart=datetime(first.year, first.month, first.day)):  # noqa: DTZ001
        if each.date() > day + timedelta(days=5 * 366):
            break
        days += [each.date()] if each.date() >= day else []
    exceptions = tuple(each.isoformat() for each in days[:excepted])
    added_us, after_us = (
        int(datetime(each.year, each.month, each.day, 6, tzinfo=clock).timestamp()) * US
        for each in (first, day)
    )
    window = Recurrence(f"{rule} 08:00-09:00", zone, exceptions).window(added_us, after_us)
    found = None if window is None else datetime.fromtimestamp(window[0] / US, clock)
    left = days[excepted : excepted + 1]
    assert found == (datetime(left[0].year, left[0].month, left[0].day, 8, tzinfo=clock) if left else None)


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        ("FREQ=DAILY;INTERVAL=3 08:00-09:00", 9),
        ("FREQ=WEEKLY;INTERVAL=5 08:00-09:00", 9),
        ("FREQ=MONTHLY;INTERVAL=7;BYDAY=1MO 08:00-09:00", 9),
        # It has no day: each seventh is a Friday. All days of five years are looked at, none of later years.
        ("FREQ=DAILY;INTERVAL=7;BYDAY=TU 08:00-09:00", 1850),
    ],
)
def test_the_next_window_is_found_without_all_those_that_were(rule, most):
    looked_at = 0

    def count(frame, event, _):
        nonlocal looked_at
        looked_at += event == "call" and frame.f_code.co_name in ("ddayset", "wdayset", "mdayset")

    recurrence = Recurrence(rule)
    sys.setprofile(count)
    try:
        recurrence.window(us(1971, 1, 1), us(2026, 11, 28))
    finally:
        sys.setprofile(None)
    assert 0 < looked_at <= most


# What the life cycle makes of them


def nightly(w, count, *, lead_s=0, rule="daily 20:00-06:00", key="h1", **who):
    w.handle(
        ReserveAdded(
            at_us=w.now_us,
            reserve_id=key,
            count=count,
            every=Recurrence(rule).text,
            lead_us=lead_s * US,
            **who,
        )
    )


def test_nodes_are_collected_before_each_window_and_go_back_after_it(world):
    w = world(4, hold_s=0)
    w.at(12 * 3600)
    nightly(w, 2, lead_s=1800)
    assert (w.in_state("OD_RESERVE"), w.wake_s) == ((), 19.5 * 3600)
    for day in range(3):
        w.wake()
        assert (len(w.in_state("OD_RESERVE")), w.now_s) == (2, (day * 24 + 19.5) * 3600)
        w.wake()
        assert (w.in_state("OD_RESERVE"), w.now_s) == ((), (day * 24 + 30) * 3600)


def test_in_its_window_what_comes_back_is_kept_again_and_never_more_than_was_asked_for(world):
    w = world(6, hold_s=0)
    w.at(21 * 3600)
    nightly(w, 3)
    w.timer()
    w.request("a", 2)
    assert (len(w.in_state("OD_RESERVE")), len(w.in_state("OD_ALLOC"))) == (1, 2)
    w.at(22 * 3600).release(*w.answers["a"])
    assert (len(w.in_state("OD_RESERVE")), len(w.in_state("OD_ALLOC"))) == (3, 0)
    w.request("b", 5)
    assert (len(w.in_state("OD_RESERVE")), len(w.in_state("OD_ALLOC"))) == (0, 5)
    w.release(*w.answers["b"])
    assert len(w.in_state("OD_RESERVE")) == 3


def test_after_a_stop_of_days_the_next_window_counts(world):
    w = world(4, hold_s=0)
    nightly(w, 2)
    w.at(9 * 86400 + 12 * 3600).timer()
    (record,) = w.lifecycle.snapshot().reserves
    assert (record.by_us, record.ends_us, record.used) == (
        (9 * 24 + 20) * HOUR_US,
        (9 * 24 + 30) * HOUR_US,
        0,
    )


def test_a_rule_that_ends_ends_the_reserve(world):
    w = world(4, hold_s=0)
    nightly(w, 2, rule="FREQ=DAILY;COUNT=2 20:00-21:00")
    for _ in range(4):
        w.wake()
    assert (w.lifecycle.snapshot().reserves, w.wake_s, w.in_state("OD_RESERVE")) == ((), None, ())


def test_its_owner_withdraws_it_and_nobody_else(world):
    w = world(4, hold_s=0)
    w.at(21 * 3600)
    nightly(w, 2, owner="carol")
    w.timer()
    with pytest.raises(Refused, match="reserve h1 is carol's, and you are dave"):
        w.handle(ReserveWithdrawn(at_us=w.now_us, reserve_id="h1", by="dave"))
    w.handle(ReserveWithdrawn(at_us=w.now_us, reserve_id="h1", by="carol"))
    assert (w.lifecycle.snapshot().reserves, w.in_state("OD_RESERVE")) == ((), ())
    w.handle(ReserveWithdrawn(at_us=w.now_us, reserve_id="h1", by="carol"))


def test_what_makes_no_sense_is_refused(world):
    w = world(4)
    with pytest.raises(Refused, match="no window begins within five years"):
        nightly(w, 2, rule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO 08:00-18:00")
    with pytest.raises(Refused, match="collected -1000000 us ahead"):
        nightly(w, 2, lead_s=-1)
    assert w.lifecycle.snapshot().reserves == ()


@pytest.mark.parametrize("parts", ["BYDAY=MO;BYDAY=TU", "INTERVAL=0", "COUNT=0"])
def test_a_stored_rule_that_is_refused_today_is_read_all_the_same(parts):
    rule = f"FREQ=WEEKLY;{parts} 20:00-06:00"
    with pytest.raises(ValueError, match="every: "):
        Recurrence(rule)
    stored = Recurrence.of(json.dumps({"rule": rule}))
    assert json.loads(stored.text)["rule"] == rule
    stored.window(0, 10**15)
