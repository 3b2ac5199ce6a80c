"""One thread, one thing at a time, in the order of the clock."""

import threading

import pytest

from emulator.clock.clock_master import SharedClockMaster
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock
from emulator.simulation.executor_live import ExecutorStoppedError, LiveExecutor
from manual_clock import ManualClock


class Diary(list):
    """Work that writes down what was done, and when."""

    def does(self, what):
        return lambda now_us: self.append((now_us, what))


@pytest.fixture
def diary():
    return Diary()


def test_timers_run_in_order_of_time_rank_and_order(diary):
    clock = ManualClock()
    executor = LiveExecutor(clock, diary.does("pass"))
    executor.at(5, diary.does("watch"), EventPriority.WATCH)
    executor.at(5, diary.does("timer"))
    executor.at(5, diary.does("end of job 7"), EventPriority.JOB_END, order=7)
    executor.at(5, diary.does("end of job 3"), EventPriority.JOB_END, order=3)
    executor.at(9, diary.does("later"))
    executor.ask_for_pass(5)
    clock.advance_to(5)
    executor.settle()
    assert diary == [(5, what) for what in ("end of job 3", "end of job 7", "timer", "pass", "watch")]


def test_many_wishes_for_a_pass_make_one_pass_at_the_earliest_time(diary):
    clock = ManualClock()
    executor = LiveExecutor(clock, diary.does("pass"))
    for at_us in (600, 20, 20, 30):
        executor.ask_for_pass(at_us)
    clock.advance_to(700)
    executor.settle()
    assert diary == [(700, "pass")]


def test_it_is_idle_only_when_nothing_is_due_or_under_way(diary):
    """A run was taken for over between a job's end and the pass that started the next one."""
    clock = ManualClock()
    executor = LiveExecutor(clock, diary.does("pass"))
    seen = []
    executor.at(5, executor.ask_for_pass, EventPriority.JOB_END)
    for rank in (EventPriority.JOB_END, EventPriority.CHECKPOINT, EventPriority.WATCH):
        executor.at(5, lambda _: seen.append(executor.is_idle), rank, order=1)
    clock.advance_to(5)
    executor.settle()
    assert (seen, diary, executor.is_idle) == ([False, False, True], [(5, "pass")], True)
    executor.hold("a job that starts")
    assert not executor.is_idle
    executor.release("a job that starts")
    assert executor.is_idle


def test_work_comes_from_any_thread_and_answers_come_back():
    executor = LiveExecutor(ManualClock(40))
    thread = threading.Thread(target=executor.run)
    thread.start()
    assert executor.call(lambda now_us: now_us + 2, timeout_s=120) == 42
    with pytest.raises(ZeroDivisionError):
        executor.call(lambda now_us: now_us / 0, timeout_s=120)
    executor.stop()
    thread.join(120)
    assert not thread.is_alive()


def test_who_waits_for_an_executor_that_ends_is_told():
    executor = LiveExecutor(ManualClock())
    thread = threading.Thread(target=executor.run)
    thread.start()

    def stop_before_answering(_):
        executor.stop()
        executor.post(lambda now_us: now_us)

    executor.post(stop_before_answering)
    thread.join(120)
    with pytest.raises(ExecutorStoppedError):
        executor.call(lambda now_us: now_us)


def test_an_error_in_posted_work_ends_the_executor():
    executor = LiveExecutor(ManualClock(1))
    executor.post(lambda now_us: now_us / 0)
    with pytest.raises(ZeroDivisionError):
        executor.run()


def test_a_paced_clock_stands_still_while_work_is_under_way_elsewhere(tmp_path, diary):
    with SharedClockMaster(tmp_path / "clock", speed=1_000_000) as master:
        clock = SharedClock(tmp_path / "clock")
        executor = LiveExecutor(clock)
        held, seen = threading.Event(), threading.Event()

        def begin(now_us):
            executor.hold("start of job 1")
            executor.at(now_us + 1000, lambda at_us: (diary.append(at_us), seen.set()))
            diary.append(now_us)
            held.set()

        executor.post(begin)
        thread = threading.Thread(target=executor.run)
        thread.start()
        assert held.wait(120)
        assert not seen.wait(0.1)
        assert master.now_us() == diary[0]
        executor.post(lambda _: executor.release("start of job 1"))
        assert seen.wait(120)
        executor.stop()
        thread.join(120)
    assert diary == [diary[0], diary[0] + 1000]


def test_what_is_not_held_can_be_released():
    LiveExecutor(ManualClock()).release("nothing")
