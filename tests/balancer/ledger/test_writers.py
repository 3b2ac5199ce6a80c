"""One writer: whoever was overtaken changes nothing any more (T15), and of two that race one wins (T6)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from balancer.clock import micros
from balancer.ledger.errors import FencedError, LeaseHeldError, LedgerError
from balancer.ledger.lease import Seen, Watch
from balancer.lifecycle.states import NodeState
from gates import GATE
from ledger_kit.places import Place, entry, node, replayed

if TYPE_CHECKING:
    from balancer.ledger.store import Ledger


def test_an_overtaken_writer_changes_nothing(place):
    old = place.open()
    old.commit([entry(1, nodes=(node(),))])
    new = place.take_over()
    state = new.load()
    for _ in range(2):
        with pytest.raises(FencedError, match="has taken over the ledger"):
            old.commit([entry(2, nodes=(node(state=NodeState.OA_IDLE, generation=1),))])
        with pytest.raises(FencedError):
            old.check_writer()
        with pytest.raises(FencedError):
            old.forget(answers_before_us=100, events_before_us=100)
        with pytest.raises(FencedError):
            old.probe()
    assert old.lease.is_lost
    assert new.load() == state
    new.check_writer()
    new.commit([entry(2, nodes=(node(state=NodeState.DOWN, generation=1),))])
    assert replayed(new) == new.load()
    assert [each.epoch for each in new.log(0)] == [1, 2]


def test_whoever_is_overtaken_is_told_once(place):
    old, told = place.open(), []
    old.lease.on_lost = lambda: told.append(1)
    place.take_over()
    for _ in range(2):
        with pytest.raises(FencedError):
            old.check_writer()
    assert told == [1]


def test_an_overtaken_writer_does_not_end_the_lease_of_the_other(place):
    old = place.open()
    new = place.take_over()
    old.close()
    assert new.writer().holder != ""
    new.check_writer()


def test_a_writer_that_ends_makes_room_at_once(place):
    place.open().close()
    assert place.open().lease.epoch == 2


def test_without_an_epoch_nothing_is_written(place):
    ledger = place.open(writes=False)
    with pytest.raises(LedgerError, match="take_epoch comes first"):
        ledger.commit([entry(1)])
    with pytest.raises(FencedError):
        ledger.check_writer()


def test_a_lease_is_over_when_its_row_did_not_change_for_the_whole_time():
    watch, row = Watch(duration_us=15), Seen(1, "a", 0, 7)
    assert not watch.may_take(row, 100)
    assert not watch.may_take(row, 114)
    assert not watch.may_take(Seen(1, "a", 1, 7), 115)  # renewed
    assert not watch.may_take(Seen(1, "a", 1, 8), 125)  # written
    assert not watch.may_take(Seen(1, "a", 1, 8), 139)
    assert watch.may_take(Seen(1, "a", 1, 8), 140)


def test_a_row_that_nobody_could_change_for_a_while_is_watched_anew():
    watch, row = Watch(duration_us=15), Seen(1, "a", 0, 7)
    assert not watch.may_take(row, 0)
    watch.forget()
    assert not watch.may_take(row, 60)
    assert not watch.may_take(row, 74)
    assert watch.may_take(row, 75)


def test_a_lease_that_was_given_back_is_free_at_once():
    assert Watch().may_take(Seen(1, "", 0, 7), 0)


def standby(place: Place) -> Ledger:
    if place.is_sqlite:
        Path(f"{place.target}.lock").unlink(missing_ok=True)
    made = place.open(writes=False)
    made.lease.exclusive = False
    made.lease.retry_s = 0.01
    made.lease.watch.duration_us = micros(0.1)
    return made


def test_a_standby_waits_while_the_lease_is_renewed_and_takes_over_when_it_is_not(place):
    leader = standby(place)
    leader.take_epoch()
    waiting = standby(place)
    with pytest.raises(LeaseHeldError, match="another Balancer uses the ledger"):
        waiting.take_epoch(0.3)
    leader.lease._ended.set()  # it sleeps from here on
    assert waiting.take_epoch(10) == 2
    with pytest.raises(FencedError):
        leader.commit([entry(1)])


def test_a_holder_that_cannot_renew_gives_no_commands_though_nobody_has_overtaken_it(place):
    leader = standby(place)
    leader.take_epoch()
    leader.lease._ended.set()
    leader.lease.deadline_us = -1
    with pytest.raises(LedgerError, match="could not be renewed in time"):
        leader.check_writer()
    assert not leader.lease.is_lost


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 64])
def test_of_writers_that_race_for_a_generation_one_wins(place, nodes):
    """Writers with the same epoch (fencing is put out of the way): only generations keep them apart."""
    first = place.open()
    names = [f"n{number:02d}" for number in range(nodes)]
    first.commit([entry(1, nodes=tuple(node(name, generation=0) for name in names))])
    writers = [first]
    for _ in range(GATE.race_writers - 1):
        if place.is_sqlite:
            Path(f"{place.target}.lock").unlink(missing_ok=True)
        other = place.open(writes=False)
        other.lease.epoch = first.lease.epoch
        writers.append(other)
    won: list[tuple[str, int, str]] = []
    lost: list[str] = []
    begin = threading.Barrier(GATE.race_writers)

    def race(ledger: Ledger, me: int) -> None:
        begin.wait()
        for step in range(GATE.race_steps):
            name = names[(me + step) % nodes]
            job = f"{me}.{step}"
            try:
                snapshot = ledger.load()
                mine = next(each for each in snapshot.nodes if each.name == name)
                changed = node(name, generation=mine.generation + 1, jobs=(job,))
                ledger.commit([entry(ledger.last_seq() + 1, nodes=(changed,))])
            except LedgerError:  # overtaken, or (PostgreSQL, long without a core) its connection was ended
                lost.append(job)
            else:
                won.append((name, changed.generation, job))

    threads = [threading.Thread(target=race, args=(ledger, me)) for me, ledger in enumerate(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(name, generation) for name, generation, _ in won}) == len(won)
    logged = [
        (each.changes.nodes[0].name, each.changes.nodes[0].generation, each.changes.nodes[0].jobs[0])
        for each in first.log(1)
    ]
    assert sorted(logged) == sorted(won)
    assert replayed(first) == first.load()
    assert won
    assert len(won) + len(lost) == GATE.race_writers * GATE.race_steps
