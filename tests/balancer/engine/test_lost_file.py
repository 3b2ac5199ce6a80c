"""The ledger's file is taken away under the running service: nothing is acknowledged from then on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from balancer.ledger.errors import LedgerError, ReplacedError
from balancer.lifecycle.errors import Refused
from balancer.service.decision import Key


def removed(path):
    path.unlink()


def moved_away(path):
    path.rename(path.with_name("elsewhere.db"))


def replaced_by_a_copy(path):
    beside = path.with_name("copy.db")
    beside.write_bytes(path.read_bytes())
    beside.replace(path)


def without_its_log(path):
    Path(f"{path}-wal").unlink()


every_way = pytest.mark.parametrize("take", [removed, moved_away, replaced_by_a_copy, without_its_log])


@every_way
def test_a_service_whose_file_is_taken_away_is_read_only_at_once_and_says_why(world, take):
    w = world(nodes=3)
    w.settled()
    take(w.db)
    assert "read-only" in w.engine.problem()
    commands = len(w.batch.commands())
    for call in (
        lambda: w.engine.submit_request(1),
        lambda: w.engine.update_nodes(busy=("n01",), job="1.server"),
    ):
        with pytest.raises(ReplacedError, match="nothing is stored any more"):
            call()
    assert w.batch.commands()[commands:] == []
    assert w.states() == dict.fromkeys(w.names, "OA_IDLE")


@every_way
def test_under_load_nothing_is_acknowledged_after_the_file_is_gone(world, kit, take):
    """What was acknowledged is in the old file's log; the moment is what a caller sees, not what the service does."""
    w = world(nodes=8, reserve=8)
    w.settled()
    gone, late, stop = threading.Event(), [], threading.Event()

    def work(number):
        for turn in range(10_000):
            if stop.is_set():
                return
            was_gone = gone.is_set()
            try:
                record = w.engine.submit_request(1, key=Key(f"k{number}-{turn}", "f"))
                if was_gone:
                    late.append(record)
                if record.nodes:
                    w.engine.release_nodes(record.nodes)
            except Refused:
                pass
            except LedgerError:
                if was_gone:
                    return

    callers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    before = w.engine.ledger.last_seq()
    kit.until(lambda: w.engine.ledger.last_seq() >= before + 30)
    take(w.db)
    gone.set()
    for caller in callers:
        caller.join(60)
    stop.set()
    assert late == []
    assert "read-only" in w.engine.problem()


def test_no_other_file_appears_in_its_place(world):
    w = world(nodes=2)
    w.settled()
    w.db.unlink()
    with pytest.raises(LedgerError):
        w.engine.submit_request(1)
    assert not w.db.exists()


def test_a_stored_answer_is_not_repeated_from_a_file_that_is_gone(world):
    w = world(nodes=2)
    w.settled()
    w.engine.submit_request(1, key=Key("k", "f"))
    w.db.unlink()
    with pytest.raises(ReplacedError), w.engine.idempotent(Key("k", "f")):
        raise AssertionError("answered")
