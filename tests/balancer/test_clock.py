"""The clocks: time never goes back, alarms ring."""

import threading

import pytest
import structlog

from balancer import clock as clock_module
from balancer.clock import US, SystemClock, micros, seconds
from manual_clock import ManualClock


def test_seconds_and_microseconds_are_each_others_inverse():
    assert (micros(1.5), seconds(1_500_000), micros(0.000_000_4)) == (1_500_000, 1.5, 0)


class TestSystemClock:
    def test_it_never_goes_back(self):
        clock = SystemClock()
        looks = [clock.now_us() for _ in range(1000)]
        assert looks == sorted(looks)

    def test_an_alarm_that_is_due_rings_at_once(self):
        clock = SystemClock()
        alarm = clock.alarm()
        alarm.set(clock.now_us())
        assert alarm.wait(5)

    def test_an_alarm_that_is_not_due_ends_with_its_timeout(self):
        alarm = SystemClock().alarm()
        assert not alarm.wait(0.01)

    def test_a_wait_can_be_woken(self):
        alarm = SystemClock().alarm()
        alarm.wake()
        assert not alarm.wait(5)

    def test_a_closed_alarm_never_rings(self):
        clock = SystemClock()
        alarm = clock.alarm()
        alarm.set(clock.now_us())
        alarm.close()
        assert not alarm.wait(0.01)

    def test_paused_tells_the_time(self):
        clock = SystemClock()
        before_us = clock.now_us()
        with clock.paused() as now_us:
            assert before_us <= now_us <= clock.now_us()


class TestSystemClockWhenTheMachinesIsSet:
    @pytest.fixture
    def machine(self, monkeypatch):
        """The machine's clock, which people set, and the steady one, which nobody does; both pass together."""

        class Machine:
            utc_us, steady_us = 1_000_000_000 * US, 5 * US

            def passes(self, time_s, steps=1000):
                for _ in range(steps):
                    self.utc_us += micros(time_s) // steps
                    self.steady_us += micros(time_s) // steps
                    yield

        made = Machine()
        monkeypatch.setattr(clock_module, "utc_us", lambda: made.utc_us)
        monkeypatch.setattr(clock_module, "wall_us", lambda: made.steady_us)
        return made

    def test_nothing_ends_earlier_when_it_is_set_ahead(self, machine):
        clock = SystemClock()
        start_us = clock.now_us()
        machine.utc_us += micros(7200)
        for _ in machine.passes(36_000):
            clock.now_us()
        assert clock.now_us() - start_us == micros(36_000)

    def test_it_goes_a_tenth_slower_without_a_step_while_it_is_ahead(self, machine):
        clock = SystemClock()
        machine.utc_us -= micros(7200)
        before_us = clock.now_us()
        off_s, paces = [], set()
        for _ in range(2):
            for _ in machine.passes(36_000):
                now_us = clock.now_us()
                paces.add((now_us - before_us) / 36_000_000)
                before_us = now_us
            off_s.append((now_us - machine.utc_us) / US)
        assert off_s == [3600, 0]
        assert paces == {0.9}

    def test_a_start_at_a_wrong_time_that_the_ledger_keeps_is_right_again_within_a_day(self, machine):
        clock = SystemClock()
        clock.not_before(machine.utc_us + micros(7200))
        assert clock.now_us() - machine.utc_us == micros(7200)
        for _ in machine.passes(86_400):
            clock.now_us()
        assert clock.now_us() == machine.utc_us

    def test_it_says_so_once(self, machine):
        clock = SystemClock()
        with structlog.testing.capture_logs() as lines:
            for set_s in (30, -30, 7200):
                machine.utc_us += micros(set_s)
                for _ in machine.passes(10, steps=10):
                    clock.now_us()
        assert [(line["log_level"], line["ahead_s"]) for line in lines] == [("warning", -7200)]

    def test_an_alarm_on_a_slower_clock_rings_when_the_clock_gets_there(self, machine, monkeypatch):
        clock = SystemClock()
        machine.utc_us -= micros(7200)
        alarm = clock.alarm()
        due_us = clock.now_us() + micros(9)
        alarm.set(due_us)
        for _ in machine.passes(9, steps=9):
            assert not alarm.wait(0)
        for _ in machine.passes(1):
            clock.now_us()
        assert clock.now_us() == due_us
        assert alarm.wait(5)


class TestManualClock:
    def test_it_moves_by_hand_only_and_never_back(self):
        clock = ManualClock(5)
        clock.advance_to(7)
        assert clock.now_us() == 7
        with pytest.raises(ValueError, match="the clock is at 7 us and cannot go back to 6 us"):
            clock.advance_to(6)
        with clock.paused() as now_us:
            assert now_us == 7

    def test_an_alarm_rings_when_the_clock_gets_there(self):
        clock = ManualClock()
        alarm = clock.alarm()
        alarm.set(10)
        assert not alarm.wait(0)
        thread = threading.Thread(target=lambda: clock.advance_to(10))
        thread.start()
        assert alarm.wait(5)
        thread.join()

    def test_a_wait_can_be_woken_and_an_alarm_closed(self):
        clock = ManualClock()
        alarm = clock.alarm()
        alarm.wake()
        assert not alarm.wait(5)
        alarm.set(0)
        alarm.close()
        assert not alarm.wait(0)
