"""The clock of a run as another host sees it: its limits count, its turn is told, its place is given back."""

import socket

import pytest

from balancer.clock import NEVER_US
from emulator.clock.clock_master import SharedClockMaster
from emulator.clock.clock_server import ClockServer
from emulator.clock.event_priority import EventPriority
from emulator.clock.remote_clock import RemoteClock, open_clock
from emulator.clock.shared_clock import SharedClock
from polling import until


@pytest.fixture
def master(tmp_path):
    master = SharedClockMaster(tmp_path / "clock", speed=1e6)
    yield master
    master.stop()


@pytest.fixture
def served(master):
    """HOST:PORT of the clock."""
    with ClockServer(("127.0.0.1", 0), master.path) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.fixture
def connect(served):
    """Open the clock as another host does."""
    made = []

    def open_it(name="n001"):
        made.append(open_clock(served, name))
        return made[-1]

    yield open_it
    for clock in made:
        clock.leave()


def test_the_clock_stands_at_an_alarm_of_another_host_until_it_is_moved(master, connect):
    clock = connect()
    alarm = clock.alarm(EventPriority.JOB_END)
    alarm.set(5_000_000)
    master.start()
    assert alarm.wait(120)
    assert (clock.now_us(), master.now_us()) == (5_000_000, 5_000_000)
    assert [str(party) for party in master.living()] == ["n001"]
    assert (clock.speed, clock.is_held, clock.stopped) == (1e6, True, False)
    alarm.set(NEVER_US)
    until(lambda: clock.now_us() > 5_000_000)


def test_at_one_time_the_lower_rank_goes_first_wherever_it_is(master, connect):
    here, there = SharedClock(master.path, name="batch"), connect()
    last, first = here.alarm(EventPriority.WATCH), there.alarm(EventPriority.JOB_END)
    last.set(1_000_000)
    first.set(1_000_000)
    master.start()
    assert first.wait(120)
    assert not last.wait(0)
    first.set(NEVER_US)
    assert last.wait(120)
    assert not here.alarm(EventPriority.TIMER).wait(0)


def test_whoever_holds_the_clock_from_another_host_has_it_when_the_call_returns(master, connect):
    clock = connect()
    master.start()
    with clock.paused() as at_us:
        until(lambda: master.now_us() >= at_us and master.holders())
        stood_us = master.now_us()
        assert [str(holder.party) for holder in master.holders()] == ["n001"]
        assert clock.now_us() == stood_us
    until(lambda: clock.now_us() > stood_us)


def test_a_host_that_is_gone_gives_its_place_back_and_the_clock_goes_on(master, connect):
    clock = connect()
    clock.alarm(EventPriority.TIMER).set(1_000_000)
    master.start()
    until(lambda: master.now_us() == 1_000_000)
    clock.leave()
    until(lambda: master.now_us() > 1_000_000)
    assert master.living() == []


def test_a_clock_that_stops_or_goes_away_is_noticed(master, connect):
    clock = connect()
    master.stop()
    assert clock.stopped
    clock._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(OSError, match=r"the clock is gone|Broken pipe"):
        clock.now_us()


def test_a_path_is_a_file_and_a_host_with_a_port_is_served(master, connect):
    assert type(open_clock(master.path)) is SharedClock
    assert type(connect()) is RemoteClock
    with pytest.raises(ValueError, match="there is no clock"):
        open_clock("absent/clock")
