"""The clocks: time never goes back, alarms ring."""

import threading

import pytest

from balancer.clock import ManualClock, SystemClock, micros, seconds


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

    def test_held_tells_the_time(self):
        clock = SystemClock()
        before_us = clock.now_us()
        with clock.held() as now_us:
            assert before_us <= now_us <= clock.now_us()


class TestManualClock:
    def test_it_moves_by_hand_only_and_never_back(self):
        clock = ManualClock(5)
        clock.advance_to(7)
        assert clock.now_us() == 7
        with pytest.raises(ValueError, match="the clock is at 7 us and cannot go back to 6 us"):
            clock.advance_to(6)
        with clock.held() as now_us:
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
