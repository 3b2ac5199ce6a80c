"""Scenario: a job was submitted at cluster time 0 in the middle of a live run.

The clock file was written with `struct.pack_into`, which clears the eight bytes before it sets them; a process
that read the clock in between saw time 0.
"""

from __future__ import annotations

import multiprocessing

from emulator.clock.clock_master import SharedClockMaster
from emulator.clock.shared_clock import SharedClock

_EARLY, _LATE = 0x0101_0101_0101_0101, 0x0202_0202_0202_0202
_READS = 400_000


def _publish_for_ever(words_owner, stop) -> None:
    while not stop.is_set():
        for _ in range(1000):
            words_owner._words[1] = _EARLY
            words_owner._words[1] = _LATE


def test_a_reader_sees_a_time_that_was_published_and_never_half_of_one(tmp_path):
    master = SharedClockMaster(tmp_path / "clock", speed=1, start_us=_EARLY)
    clock = SharedClock(tmp_path / "clock")
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    writer = context.Process(target=_publish_for_ever, args=(master, stop))
    writer.start()
    try:
        seen = {clock.now_us() for _ in range(_READS)}
    finally:
        stop.set()
        writer.join()
    assert seen <= {_EARLY, _LATE}
