"""The clock that processes share: who goes when, and that time waits."""

import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from itertools import cycle

import pytest

from balancer.clock import NEVER_US, US, SystemClock, seconds, wall_us
from emulator.clock.clock_master import Pace, SharedClockMaster
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock, alarm_of
from manual_clock import ManualClock
from polling import until

FAST = 100_000
HOLDS = 'hold = clock.paused(); hold.__enter__(); print("held", flush=True); sys.stdin.readline()'


@pytest.fixture
def master(tmp_path):
    with SharedClockMaster(tmp_path / "clock", speed=FAST) as master:
        yield master


def set_ahead(clock, alarm):
    """Set an alarm 10 s ahead: at this speed they would be over before it is set, did the clock not stand."""
    with clock.paused() as now_us:
        alarm.set(now_us + 10 * US)
    return now_us + 10 * US


@contextmanager
def in_another_process(code, *arguments):
    """A process that runs `code` on the clock file argv[1]; it talks by lines on its standard streams."""
    head = "import sys\nfrom pathlib import Path\nfrom balancer.clock import *\n"
    head += "from emulator.clock.shared_clock import *\nclock = SharedClock(Path(sys.argv[1]))\n"
    process = subprocess.Popen(
        [sys.executable, "-c", head + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process):
    return process.stdout.readline().strip()


class TestSharedClock:
    def test_it_does_not_pass_an_alarm_until_the_alarm_is_moved(self, master):
        clock = SharedClock(master.path)
        alarm = clock.alarm()
        alarm.set(3600 * US)
        assert alarm.wait(120)
        until(lambda: master.pace.longest_hold_us > 0)
        assert clock.now_us() == 3600 * US
        alarm.set(7200 * US)
        assert alarm.wait(120)
        assert clock.now_us() == 7200 * US

    def test_it_never_goes_back(self, master):
        clock = SharedClock(master.path)
        looks = []
        until(lambda: looks.append(clock.now_us()) or looks[-1] > 20_000 * US)
        assert looks == sorted(looks)

    def test_an_alarm_in_the_past_holds_the_clock_where_it_is(self, master):
        clock = SharedClock(master.path)
        until(lambda: clock.now_us() > US)
        clock.alarm().set(0)
        until(lambda: master.pace.longest_hold_us > 0)
        now_us = clock.now_us()
        until(lambda: master.pace.longest_hold_us > 5000)
        assert clock.now_us() == now_us > US

    def test_at_one_time_the_lower_rank_goes_first(self, master):
        clock = SharedClock(master.path)
        order, threads = [], []
        ranks = [
            EventPriority.SUBMIT,
            EventPriority.JOB_END,
            EventPriority.SCHEDULE,
            EventPriority.ARRIVAL,
            EventPriority.TIMER,
        ]
        alarms = {rank: clock.alarm(rank) for rank in ranks}
        for alarm in alarms.values():
            alarm.set(100 * US)

        def owner(rank):
            assert alarms[rank].wait(120)
            order.append(rank)
            alarms[rank].close()

        threads = [threading.Thread(target=owner, args=(rank,)) for rank in ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert order == sorted(ranks)

    def test_ranks_hold_between_processes(self, master):
        code = """
alarm = clock.alarm(EventPriority[sys.argv[2]]); alarm.set(int(sys.argv[3]))
print("ready", flush=True); sys.stdin.readline()
assert alarm.wait(120)
print(clock.now_us(), clock.now_us(), flush=True)
sys.stdin.readline(); alarm.close(); print("moved", flush=True); sys.stdin.readline()
"""
        mine = SharedClock(master.path)
        alarm = mine.alarm(EventPriority.COMPLETION)
        due_us = set_ahead(mine, alarm)
        with (
            in_another_process(code, master.path, "TIMER", due_us) as first,
            in_another_process(code, master.path, "SUBMIT", due_us) as last,
        ):
            for process in (first, last):
                assert line_of(process) == "ready"
            for process in (first, last):
                print(file=process.stdin, flush=True)
            assert line_of(first) == f"{due_us} {due_us}"
            assert not alarm.wait(0.02), "a TIMER of another process goes before a COMPLETION"
            print(file=first.stdin, flush=True)
            assert line_of(first) == "moved"
            assert alarm.wait(120)
            alarm.close()
            assert line_of(last) == f"{due_us} {due_us}"

    def test_time_stands_still_while_it_is_held(self, master):
        clock = SharedClock(master.path)
        until(lambda: clock.now_us() > 0)
        with clock.paused() as held_us:
            until(lambda: master.pace.longest_hold_us > 3000)
            stands_us = clock.now_us()
            until(lambda: master.pace.longest_hold_us > 6000)
            assert clock.now_us() == stands_us >= held_us
        until(lambda: clock.now_us() > stands_us)

    def test_who_holds_the_clock_goes_before_everybody_who_is_due(self, master):
        clock, other = SharedClock(master.path), SharedClock(master.path)
        alarm = clock.alarm(EventPriority.TIMER)
        set_ahead(clock, alarm)
        assert alarm.wait(120)
        with other.paused():
            assert not alarm.wait(0.01)
        assert alarm.wait(120)

    def test_the_hold_of_a_process_that_died_is_dropped(self, master):
        clock = SharedClock(master.path)
        with in_another_process(HOLDS, master.path) as process:
            assert line_of(process) == "held"
            process.kill()  # and nobody asks for its exit status yet: it is a zombie
            until(lambda: master.pace.dropped_processes == 1)
            stood_us = clock.now_us()
            until(lambda: clock.now_us() > stood_us)

    def test_the_place_of_a_process_that_died_is_free_again(self, master):
        for count in range(1, 3):
            with in_another_process(HOLDS, master.path) as process:
                assert line_of(process) == "held"
            until(lambda count=count: master.pace.dropped_processes == count)
            assert [path.name for path in master.path.parent.glob("clock.slot*")] == ["clock.slot0"]

    def test_nobody_waits_for_a_host_that_is_excused(self, tmp_path):
        with SharedClockMaster(tmp_path / "clock", speed=FAST) as master:
            clock = SharedClock(master.path)
            late = clock.alarm()
            due_us = set_ahead(clock, late)
            until(lambda: master.now_us() == due_us)
            assert master.excuse("another-host") == 0
            assert master.excuse(socket.gethostname()) == 1
            until(lambda: master.now_us() > due_us + 10 * US)
            assert master.expect(socket.gethostname()) == 1
            standing_us = master.now_us()
            until(lambda: master._limit_us() == due_us)
            late.close()
            until(lambda: master.now_us() > standing_us)

    def test_a_clock_goes_on_where_its_master_left_it(self, tmp_path):
        first = SharedClockMaster(tmp_path / "clock", speed=FAST, slots=3)
        first.start()
        owner = SharedClock(first.path)
        until(lambda: owner.now_us() > 0)
        first.stand()
        stood_us = owner.now_us()
        assert not owner.stopped
        with SharedClockMaster.resume(first.path) as master:
            assert (master.speed, master.held, len(master.living())) == (FAST, True, 1)
            assert master.now_us() >= stood_us
            until(lambda: owner.now_us() > stood_us)
            SharedClock(first.path), SharedClock(first.path)
            with pytest.raises(RuntimeError, match="all 3 places at the clock"):
                SharedClock(first.path)
        assert owner.stopped

    def test_at_a_free_pace_time_runs_on_and_the_lag_is_told(self, tmp_path):
        with SharedClockMaster(tmp_path / "clock", speed=FAST, held=False) as master:
            clock = SharedClock(master.path)
            alarm = clock.alarm()
            alarm.set(100 * US)
            assert alarm.wait(120)
            until(lambda: master.pace.longest_hold_us > 0)  # told while it lasts
            with clock.paused() as now_us:
                until(lambda: clock.now_us() > now_us + 2000 * US)
            alarm.close()
            until(lambda: master.pace.holds > 0)
            assert seconds(master.pace.held_us) * FAST >= 2000

    def test_who_is_behind_for_long_at_a_free_pace_is_as_late_as_its_latest_alarm(self, tmp_path):
        master, told_us, step_us = (
            SharedClockMaster(tmp_path / "clock", speed=FAST, held=False),
            [1],
            1000 * US,
        )
        master.follow = lambda: told_us[0]
        with master:
            clock = SharedClock(master.path)
            alarm = clock.alarm()
            for _ in range(20):  # one alarm after the other, each of them just past
                alarm.set(told_us[0] - 1)
                told_us[0] += step_us
                until(lambda: clock.now_us() == told_us[0])
            alarm.close()
            until(lambda: master.pace.holds == 1)
            assert master.pace.longest_hold_us == step_us // FAST < master.pace.held_us

    def test_at_a_free_pace_ranks_keep_nobody_waiting(self, tmp_path):
        with SharedClockMaster(tmp_path / "clock", speed=FAST, held=False) as master:
            clock = SharedClock(master.path)
            clock.alarm(EventPriority.JOB_END).set(0)
            late = clock.alarm(EventPriority.WATCH)
            late.set(0)
            assert late.wait(120)

    def test_it_runs_at_its_speed(self, tmp_path):
        begin_wall_us = wall_us()
        with SharedClockMaster(tmp_path / "clock", speed=1000) as master:
            clock = SharedClock(master.path)
            assert clock.speed == 1000
            until(lambda: clock.now_us() >= 100 * US)
            # It may lag behind for as long as its master gets no processor, and is never ahead.
            assert clock.now_us() / 1000 <= wall_us() - begin_wall_us

    def test_the_pace_counts_every_wait(self, master):
        clock = SharedClock(master.path)
        alarm = clock.alarm()
        for _ in range(2):
            set_ahead(clock, alarm)
            assert alarm.wait(120)
            longest_us = master.pace.longest_hold_us
            until(lambda longest_us=longest_us: master.pace.longest_hold_us > longest_us)
        alarm.close()
        until(lambda: master.pace.holds == 2)
        pace = master.pace
        assert 0 < pace.longest_hold_us <= pace.held_us <= 2 * pace.longest_hold_us
        assert pace.dropped_processes == 0
        assert 0 < pace.speeds(held=True)["reached_speed"] <= FAST

    def test_places_run_out_with_a_clear_error(self, master):
        places = [SharedClock(master.path) for _ in range(32)]
        with pytest.raises(
            RuntimeError, match=re.escape(f"all 32 places at the clock {master.path} are taken")
        ):
            SharedClock(master.path)
        assert len(places) == 32

    def test_another_file_is_no_clock(self, tmp_path):
        path = tmp_path / "text"
        path.write_bytes(b"no clock" * 100)
        with pytest.raises(ValueError, match="text is not a clock file"):
            SharedClock(path)

    def test_a_wait_can_be_woken_and_an_alarm_closed(self, master):
        alarm = SharedClock(master.path).alarm()
        alarm.wake()
        assert not alarm.wait(120)
        alarm.set(0)
        alarm.close()
        assert not alarm.wait(0.01)

    def test_it_says_when_nobody_paces_it_any_more(self, tmp_path):
        with SharedClockMaster(tmp_path / "clock", speed=1, start_us=7) as master:
            clock = SharedClock(master.path)
            assert not clock.stopped
        assert clock.stopped
        assert clock.now_us() >= 7
        assert os.listdir(tmp_path) == ["clock"]  # noqa: PTH208 - names

    def test_a_rank_that_is_given_is_that_of_its_alarms(self, master):
        clock, other = SharedClock(master.path, rank="forecast"), SharedClock(master.path)
        first, then = clock.alarm(), other.alarm()
        due_us = set_ahead(clock, first)
        then.set(due_us)
        assert first.wait(120)
        assert not then.wait(0.01), "a FORECAST goes before a TIMER"
        first.close()
        assert then.wait(120)

    def test_an_unknown_rank_and_a_missing_file_are_named(self, tmp_path):
        with pytest.raises(
            ValueError, match="there is no rank 'boss'; there are: job_end, checkpoint, forecast"
        ):
            SharedClock(tmp_path / "clock", rank="boss")
        with pytest.raises(ValueError, match=r"there is no clock .*: No such file or directory"):
            SharedClock(tmp_path / "clock")


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(7)])
def test_a_clock_without_ranks_has_alarms_that_ring_whatever_their_rank(clock):
    alarm = alarm_of(clock, EventPriority.WATCH)
    alarm.set(7, EventPriority.JOB_END)
    assert alarm.wait(5)
    alarm.close()
    assert not alarm.wait(0)


def test_what_is_reached_counts_all_the_time_and_the_limit_only_what_was_waited_for():
    pace = Pace(passed_us=1200 * US, paced_us=3 * US, held_us=US)
    assert pace.speeds(held=True) == {"reached_speed": 400, "limit_speed": 1200}
    assert pace.speeds(held=False) == {"reached_speed": 400}
    assert Pace().speeds(held=True) == {}


class TestFreeze:
    def test_a_frozen_clock_stands_and_what_is_due_is_still_dealt_with(self, master):
        clock = SharedClock(master.path)
        alarm = clock.alarm()
        alarm.set(10 * US)
        assert alarm.wait(120)
        owner = threading.Thread(target=lambda: alarm.wait(120) and alarm.set(NEVER_US))
        owner.start()
        assert master.freeze()
        owner.join()
        frozen_us = clock.now_us()
        assert frozen_us == master.now_us() >= 10 * US
        assert not threading.Event().wait(0.01)
        assert clock.now_us() == frozen_us

    def test_it_says_when_somebody_does_not_come_back(self, master):
        alarm = SharedClock(master.path).alarm()
        alarm.set(0)
        assert not master.freeze(0.05)

    def test_the_dead_are_not_waited_for(self, master):
        with in_another_process(HOLDS, master.path) as process:
            assert line_of(process) == "held"
            process.kill()
            assert master.freeze(120)


class TestSilence:
    def test_who_does_not_move_its_alarm_is_excused_and_named_and_expected_when_it_moves(self, tmp_path):
        with SharedClockMaster(tmp_path / "clock", speed=FAST, patience_us=US // 2) as master:
            clock = SharedClock(master.path, name="n003")
            alarm = clock.alarm()
            due_us = set_ahead(clock, alarm)
            until(lambda: [holder.party.name for holder in master.holders()] == ["n003"])
            until(lambda: master.now_us() > due_us)
            assert [party.name for party in master.silent()] == ["n003"]
            assert (master.holders(), master.pace.excused_processes) == ([], 1)
            alarm.set(0)
            until(lambda: not master.silent())
            told = []
            until(lambda: told.extend(master.news()) or len(told) == 2)
        (first_us, first), (back_us, back) = told
        assert first_us == due_us < back_us
        assert re.fullmatch(r"n003 was silent for \d+ s: the clock goes on without it", first)
        assert back == "n003 is back: the clock waits for it again"

    def test_whoever_moves_is_not_silent_and_who_waits_for_its_turn_is_not_named(self, tmp_path):
        master = SharedClockMaster(tmp_path / "clock", speed=FAST, patience_us=US)
        busy, patient = SharedClock(master.path, name="busy"), SharedClock(master.path, name="patient")
        alarm, later = busy.alarm(), patient.alarm(EventPriority.SCHEDULE)
        later.set(0)
        ranks = cycle([EventPriority.JOB_END, EventPriority.CHECKPOINT])
        for at_us in range(0, 8 * US, US // 2):
            alarm.set(0, next(ranks))
            master.look_for_silence(at_us)  # it paces nothing: no wall time passes but this
            assert [holder.party.name for holder in master.holders()] == ["busy"]
        assert (master.silent(), master.news()) == ([], [])
        master.look_for_silence(at_us + US + 1)
        assert [party.name for party in master.silent()] == ["busy"]

    def test_without_a_limit_the_clock_waits_for_ever(self, master):
        clock = SharedClock(master.path)
        clock.alarm().set(0)
        until(lambda: master.holders() and master.holders()[0].for_us > US)
        assert str(master.holders()[0].party) == f"a process on {socket.gethostname()}"
        assert master.silent() == []


class TestSleep:
    def test_nobody_looks_at_the_time_before_it_can_have_come(self, tmp_path):
        with SharedClockMaster(tmp_path / "clock", speed=1) as master:
            clock = SharedClock(master.path)
            assert clock.sleep_s(3600 * US) == 3600
            assert clock.sleep_s(-5) == 0
        other = SharedClockMaster(tmp_path / "other", speed=1)
        other.follow = lambda: 0
        with other:
            assert SharedClock(other.path).sleep_s(3600 * US) < 1  # it may jump

    def test_who_sleeps_till_an_alarm_goes_by_one_that_another_thread_sets_sooner(self, master):
        alarm = SharedClock(master.path).alarm()
        with in_another_process(HOLDS, master.path) as process:
            assert line_of(process) == "held"
            waits = threading.Thread(target=alarm.wait)
            waits.start()
            alarm.set(0)
            print(file=process.stdin, flush=True)
            process.wait()
        waits.join(120)
        assert not waits.is_alive()


@pytest.mark.parametrize("speed", [0, -1])
def test_a_speed_must_be_positive(tmp_path, speed):
    with pytest.raises(ValueError, match=f"the speed must be positive, not {speed}"):
        SharedClockMaster(tmp_path / "clock", speed=speed)
