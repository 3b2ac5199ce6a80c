"""A job that gets orders by a file and a signal, on a clock that waits for nobody."""

import json
import os
import signal
import subprocess
import sys

import pytest

from emulator.clock.clock_master import SharedClockMaster
from emulator.clock.shared_clock import ClockReader
from emulator.live.job.control import HEARD, NEWS, Order
from emulator.live.job.proof import prove

pytestmark = pytest.mark.live


def test_a_job_stands_still_saves_and_goes_on_as_it_is_ordered_and_its_output_proves_its_work(tmp_path):
    orders, heard, output = tmp_path / "j7", tmp_path / HEARD, tmp_path / "output"

    def answered(seq):
        while True:
            *lines, _unfinished = heard.read_text().split("\n") if heard.exists() else [""]
            if lines and lines[-1].startswith(f"j7 {seq} "):
                return int(lines[-1].split()[-1])
            assert job.poll() is None
            os.sched_yield()

    def order(seq, **what):
        Order(seq=seq, **what).write(orders)
        job.send_signal(NEWS)
        return answered(seq)

    Order(seq=1, nodes=2).write(orders)
    command = [sys.executable, "-m", "emulator.live.job.program", "--work", "4000000", "--name", "j7"]
    command += ["--checkpoints", tmp_path / "saved", "--free-clock", tmp_path / "clock", "--orders", orders]
    with SharedClockMaster(tmp_path / "clock", speed=2000, held=False), output.open("w") as file:
        job = subprocess.Popen(command, stdout=file)
        assert answered(1) == 0
        clock = ClockReader(tmp_path / "clock")
        begun_us = clock.now_us()
        while clock.now_us() == begun_us:  # its master may not have got a processor yet
            os.sched_yield()
        done = order(2, nodes=2, idle_us=None, save_us=0)
        assert order(3, nodes=1, idle_us=None) == done > 0
        job.send_signal(signal.SIGTERM)
        assert job.wait() == 75

        Order(seq=4, nodes=1, idle_us=None).write(orders)
        with output.open("a") as again:
            job = subprocess.Popen(command, stdout=again)
            assert answered(4) == done
            order(5, nodes=4, num=10_000)  # in no time
            assert job.wait() == 0

    events = [json.loads(line)["event"] for line in output.read_text().splitlines()]
    assert events.count("checkpoint") == 1
    with output.open() as file:
        proof = prove(file)
    assert (proof.runs, proof.lost, proof.finished) == (2, 0, True)
