"""Bits of a ledger's file are flipped, one at a time: it is found, or it changes nothing that is answered (I23)."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import astuple
from pathlib import Path

import pytest

from balancer.ledger.errors import LedgerError
from balancer.ledger.reader import open_to_read
from balancer.ledger.store import StoredAnswer
from balancer.ledger.verify import verify
from balancer.lifecycle.records import RequestStatus
from balancer.lifecycle.states import NodeState
from gates import GATE
from ledger_kit.places import Place, entry, node, request

_KEYS = 30
SEED = 17


def filled(place):
    """A ledger in use: decided and waiting requests, answers, nodes in all states."""
    ledger = place.open()
    states = list(NodeState)
    for seq in range(1, _KEYS + 1):
        name, turn = f"n{seq % 10}", (seq - 1) // 10
        changes = {"nodes": (node(name, states[seq % len(states)], generation=turn),)}
        changes["requests"] = (request(seq, at_us=seq),)
        if seq > 5:
            decided = request(seq - 5, at_us=seq - 5, status=RequestStatus.GRANTED, generation=1)
            changes["requests"] = (*changes["requests"], decided)
        answer = StoredAnswer(f"k{seq}", "digest", status=200, body=f'{{"nodes": ["{name}"]}}')
        ledger.commit([entry(seq, at_us=seq, answer=answer, **changes)])
    return ledger


def folded(ledger):
    """The oldest events go into the base."""
    ledger.forget(answers_before_us=0, events_before_us=_KEYS // 3)


def last_row_is_lost(path, table):
    """The page of a small table says that its last row is where there is no room for one."""
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    start = (page - 1) * size
    rows = int.from_bytes(content[start + 3 : start + 5], "big")
    content[start + 8 + 2 * (rows - 1) : start + 8 + 2 * rows] = b"\xff\xff"
    path.write_bytes(content)


def test_damage_that_sqlite_meets_after_the_first_row_is_the_ledgers_error(sqlite_place):
    folded(filled(sqlite_place))
    sqlite_place.close()
    last_row_is_lost(sqlite_place.target, "nodes")
    with closing(open_to_read(sqlite_place.target)) as reader:
        # It is read from the end of the page and what lies behind it: SQLite notices, or the row makes no sense.
        with pytest.raises(LedgerError, match=r"malformed|does not read as it was written"):
            reader.load()
        found, _ = verify(reader)
        assert found


def answered(path):
    """All that a service would answer from this file, and what its start would go on from."""
    with closing(open_to_read(path)) as reader:
        requests = reader.requests(status=None, before=None, limit=1000)
        waiting = reader.requests(status="waiting", before=None, limit=1000)
        return (
            reader.load(),
            reader.last_seq(),
            requests,
            waiting,
            [reader.request(f"r{number}") for number in range(1, _KEYS + 1)],
            reader.reserves(),
            [reader.answer(f"k{number}") for number in range(1, _KEYS + 1)],
            [astuple(event) for event in reader.events(0, 1000)],
            reader.history(0, 100, 10),
        )


def is_found(path):
    try:
        with closing(open_to_read(path)) as reader:
            found, _ = verify(reader)
    except LedgerError:
        return True
    return bool(found)


def flipped(content, place):
    return content[: place // 8] + bytes([content[place // 8] ^ (1 << place % 8)]) + content[place // 8 + 1 :]


@pytest.mark.slow
@pytest.mark.timeout(120 * GATE.patience)
def test_a_flipped_bit_is_found_or_changes_nothing_that_is_answered(memory):
    place = Place(memory / "ledger.db")
    folded(filled(place))
    place.close()
    content, chance = place.target.read_bytes(), random.Random(SEED)
    before, found = answered(place.target), 0
    path = memory / "flipped.db"
    for _ in range(GATE.bit_flips):
        bit = chance.randrange(len(content) * 8)
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
        path.write_bytes(flipped(content, bit))
        if is_found(path):
            found += 1
        else:
            assert answered(path) == before, f"bit {bit % 8} of byte {bit // 8}"
    print(f"{found} of {GATE.bit_flips} flips found, the others without effect")
    assert found > GATE.bit_flips // 10  # most of so small a file is room that nothing has been written to


@pytest.mark.slow
@pytest.mark.timeout(120 * GATE.patience)
def test_a_flipped_bit_in_the_log_that_was_not_copied_yet_is_found(memory):
    """SQLite drops what follows such a bit as if it had never been written: only the note beside the ledger knows.

    If that was the fold alone, the events that it had dropped are back: nobody is told anything wrong.
    """
    place = Place(memory / "ledger.db")
    ledger = filled(place)
    unfolded = answered(place.target)
    folded(ledger)
    database, log = place.target.read_bytes(), Path(f"{place.target}-wal").read_bytes()
    note = Path(f"{place.target}.head").read_bytes()
    ledger.close()
    before, chance = answered(place.target), random.Random(18)
    path = memory / "flipped.db"
    Path(f"{path}.head").write_bytes(note)
    found = 0
    for _ in range(max(20, GATE.bit_flips // 10)):
        Path(f"{path}-shm").unlink(missing_ok=True)
        path.write_bytes(database)
        Path(f"{path}-wal").write_bytes(flipped(log, chance.randrange(len(log) * 8)))
        if is_found(path):
            found += 1
        else:
            assert answered(path) in (before, unfolded)
    assert found > 0
