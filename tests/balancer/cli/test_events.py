"""`balancer events`: the log from a number on, or its end."""

from __future__ import annotations

import pytest

from balancer.client import Balancer
from balancer.client_records import LogEvent
from command_line import balance

NEWEST = 9


@pytest.fixture(autouse=True)
def log(monkeypatch):
    """A service whose log has nine events, and gets a tenth while it is asked."""

    def events(_, *, after):
        return (
            LogEvent(seq=n, at_s=0.0, id=f"e{n}", kind="started", body={})
            for n in range(after + 1, NEWEST + 2)
        )

    monkeypatch.setattr(Balancer, "status", lambda _: {"newest_event": NEWEST})
    monkeypatch.setattr(Balancer, "events", events)


def shown(*options):
    ended = balance("events", *options)
    return ended.exit_code, [line.split()[0] for line in ended.output.splitlines()[1:]]


def test_they_are_listed_from_the_first_or_after_a_number():
    assert shown("--limit", "2") == (0, ["1", "2"])
    assert shown("--after", "8") == (0, ["9", "10"])


def test_the_last_ones_are_the_newest():
    assert shown("--last", "2") == (0, ["8", "9"])
    assert shown("--last", "20") == (0, [str(n) for n in range(1, NEWEST + 2)])


@pytest.mark.parametrize("option", ["--after", "--limit"])
def test_the_last_ones_need_no_other_bounds(option):
    ended = balance("events", "--last", "2", option, "1")
    assert (ended.exit_code, ended.output) == (2, f"balancer: {option}: --last says which; leave it out\n")
