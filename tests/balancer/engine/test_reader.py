"""The one thread that reads for everybody."""

from __future__ import annotations

from structlog.testing import capture_logs

from balancer.service.reader import Reader
from balancer.service.timers import Timers
from balancer.service.writer import StoppingError
from manual_clock import ManualClock


def test_it_is_idle_only_when_no_reading_is_wanted_or_under_way():
    seen = []

    def read(_with_cloud: bool) -> bool:
        seen.append(reader.is_idle)
        return True

    reader = Reader(read, ManualClock(), 0.0, threaded=False)
    seen.append(reader.is_idle)
    reader.ask()
    seen.append(reader.is_idle)
    reader.step()
    seen.append(reader.is_idle)
    assert seen == [True, False, False, True]


def test_what_comes_too_late_for_a_service_that_ends_is_no_error_in_the_log():
    def ends(_: object) -> bool:
        raise StoppingError

    clock = ManualClock()
    timers = Timers(clock, 0.0, on_wake=ends, on_period=ends, threaded=False)
    timers.wake_at(clock.now_us())
    with capture_logs() as logged:
        timers.fire()
        Reader(ends, clock, 0.0, threaded=False).step()
    assert [(each["log_level"], each["event"]) for each in logged] == [
        ("info", "the service ends, the next start sees to this")
    ] * 2
