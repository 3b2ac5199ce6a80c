"""What fails once is done again, and what failed was never acknowledged."""

from __future__ import annotations

import os
import random
import threading

import pytest

from balancer.clock import micros, wall_us
from balancer.drivers.base import UnclearError
from balancer.drivers.programs import run_program
from balancer.ledger.errors import LedgerError, StaleError
from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import NodesReclaimed, Reclaim
from balancer.service.commands import Commander, CommandSettings
from balancer.service.metrics import Metrics
from balancer.service.timers import Timers
from manual_clock import ManualClock


def test_no_acknowledged_grant_is_lost_when_commits_fail_under_many_callers(world, kit):
    """A commit fails while others decide: what was decided meanwhile rests on what is undone, and is undone too."""
    w = world(nodes=12, reserve=12)
    w.settled()
    commit, chance, acknowledged = w.engine.ledger.commit, random.Random(3), []
    pause = threading.Event()

    def failing(entries):
        pause.wait(0.002)  # so that others decide meanwhile
        if chance.random() < 0.3:
            raise StaleError("planned")  # one that leaves the service writing
        commit(entries)

    w.engine.ledger.commit = failing

    def call():
        for _ in range(40):
            try:
                record = w.asked(1)
                acknowledged.append(record)
                if record.nodes:
                    w.engine.release_nodes(record.nodes)
            except (LedgerError, Refused):
                pause.wait(0.001)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        while caller.is_alive():
            caller.join(0.05)
            # A timer whose commit failed is tried again a second later: with it the last request would wait for good.
            w.clock.advance_to(w.clock.now_us() + micros(1))
    w.engine.ledger.commit = commit
    kit.until(lambda: w.engine.problem() is None)
    numbers = [record.request_id for record in acknowledged]
    assert numbers
    assert len(set(numbers)) == len(numbers), "two callers were given the same request"
    stored = [w.engine.ledger.request(number) for number in numbers]
    assert [(each.status, each.nodes) for each in stored] == [
        (each.status, each.nodes) for each in acknowledged
    ]
    kit.check_replay(w.engine.ledger)


def test_a_reading_does_not_undo_what_was_reported_after_it(world):
    w = world(nodes=1, reconcile_period_s=0)
    w.settled()
    read = w.batch.get_status_of_all_nodes

    def read_and_then_a_job_starts(**more):
        found = read(**more)
        w.batch.jobs["n01"] = "1.server"
        w.engine.update_nodes(busy=("n01",), job="1.server")
        return found

    w.batch.get_status_of_all_nodes = read_and_then_a_job_starts
    w.engine.reconcile()
    w.batch.get_status_of_all_nodes = read
    assert w.states() == {"n01": "OA_BUSY"}


def test_a_timer_that_failed_is_tried_again():
    clock, fired = ManualClock(0), []

    def on_wake(now_us):
        fired.append(now_us)
        if len(fired) == 1:
            raise RuntimeError("planned")

    timers = Timers(clock, 0, on_wake=on_wake, on_period=lambda _: None, threaded=False)
    timers.wake_at(micros(10))
    clock.advance_to(micros(10))
    timers.fire()
    assert timers.due_us <= micros(20)
    clock.advance_to(timers.due_us)
    timers.fire()
    assert len(fired) == 2


def test_an_outcome_that_could_not_be_stored_is_told_again(kit):
    batch, told = kit.FakeBatch(["n01"]), []

    def report(event):
        told.append(event)
        if len(told) == 1:
            raise LedgerError("planned: it could not be written")

    commander = Commander(
        batch,
        ManualClock(0),
        CommandSettings(confirm_poll_s=0.001, confirm_limit_s=60),
        report=report,
        observer=Metrics("fake"),
        threaded=False,
    )
    commander.submit([Reclaim(event_id="e1", nodes=("n01",))])
    limit_us = wall_us() + micros(30)
    while len(told) < 2 and wall_us() < limit_us:
        commander.step()
    assert [type(event) for event in told] == [NodesReclaimed] * 2
    assert [event.done for event in told] == [("n01",)] * 2
    assert commander.pending == 0


def test_a_program_that_takes_too_long_is_killed_with_its_children(tmp_path):
    pipe, ended = tmp_path / "pipe", threading.Event()
    os.mkfifo(pipe)

    def wait_for_the_end():
        pipe.read_bytes()  # until nobody has it open any more
        ended.set()

    reader = threading.Thread(target=wait_for_the_end, daemon=True)
    reader.start()
    with pytest.raises(UnclearError, match="did not end within"):
        run_program(("sh", "-c", f"sleep 1000 > {pipe} & wait"), timeout_s=1.0)
    assert ended.wait(30), "the child is still there"
