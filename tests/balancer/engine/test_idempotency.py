"""Every call that writes, with a key, in every way a caller may repeat it (T7)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from balancer.clock import micros
from balancer.ledger.errors import LedgerError
from balancer.service.decision import Key
from balancer.service.idempotency import KeyInUseError, KeyReusedError
from gates import GATE

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST, RELEASE, BUSY, IDLE, RESERVE = "request", "release", "busy", "idle", "reserve"
CALLS: dict[str, Callable] = {
    REQUEST: lambda e, key: e.submit_request(1, key=key),
    RELEASE: lambda e, key: e.release_nodes(("n01",), key=replace(key, answer="released")),
    BUSY: lambda e, key: e.update_nodes(busy=("n05",), job="1.server", key=replace(key, answer="started")),
    IDLE: lambda e, key: e.update_nodes(idle=("n06",), job="2.server", key=replace(key, answer="ended")),
    RESERVE: lambda e, key: e.add_reserve(1, micros(60), key=key, answer=lambda r: r.reserve_id),
}
KINDS = {
    REQUEST: "nodes_requested",
    RELEASE: "nodes_released",
    BUSY: "nodes_updated",
    IDLE: "nodes_updated",
    RESERVE: "reserve_added",
}


@dataclass
class Caller:
    """Calls as the API does: the stored answer if there is one, else the call itself."""

    world: object
    name: str

    def key(self, payload: str = "body") -> Key:
        return Key(f"key of {self.name}", f"digest of {self.name} {payload}")

    def call(self, key: Key | None = None):
        key = key or self.key()
        engine = self.world.engine
        with engine.idempotent(key) as stored:
            if stored is None:
                CALLS[self.name](engine, key)
        return engine.ledger.answer(key.key)

    def effects(self) -> int:
        """How often the call is in the log since the set-up."""
        kinds = [e.kind for e in self.world.engine.ledger.events(self.world.set_up_seq, 10_000)]
        return kinds.count(KINDS[self.name])


@pytest.fixture(params=[pytest.param(name, id=name) for name in CALLS] * GATE.key_rounds)
def caller(request, world):
    w = world(nodes=6, reserve=3)
    w.settled()
    w.engine.wait_for_request(w.engine.submit_request(1).request_id)  # n01 is lent
    w.start_job("2.server", "n06")
    w.settled()
    w.set_up_seq = w.engine.ledger.last_seq()
    return Caller(w, request.param)


def test_a_call_whose_answer_was_lost_is_answered_again_without_a_second_effect(caller):
    first = caller.call()
    assert first is not None
    assert caller.call() == first
    assert caller.effects() == 1


def test_ten_copies_of_a_call_have_one_effect_and_one_answer(caller):
    assert len({caller.call() for _ in range(10)}) == 1
    assert caller.effects() == 1


def test_copies_at_the_same_time_have_one_effect_and_one_answer(caller):
    begin, answers, told_to_wait = threading.Barrier(8), [], []

    def copy() -> None:
        begin.wait()
        try:
            answers.append(caller.call())
        except KeyInUseError as error:
            told_to_wait.append(error)

    threads = [threading.Thread(target=copy) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) + len(told_to_wait) == 8
    assert set(answers) == {caller.call()}
    assert caller.effects() == 1


def test_the_key_of_another_body_is_refused_and_changes_nothing(caller):
    first = caller.call()
    caller.world.settled()
    before = caller.effects()
    with pytest.raises(KeyReusedError):
        caller.call(caller.key("another body"))
    assert caller.effects() == before
    assert caller.call() == first


def test_the_answer_is_the_same_after_a_restart(caller):
    first = caller.call()
    caller.world.restart()
    assert caller.call() == first
    assert caller.effects() == 1


def test_a_call_that_was_not_stored_is_done_by_its_repetition(caller, kit, monkeypatch):
    def broken(entries: object) -> None:
        raise LedgerError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(caller.world.engine.ledger, "commit", broken)
        with pytest.raises(LedgerError):
            caller.call()
    kit.until(lambda: caller.world.engine.problem() is None)
    assert caller.call() is not None
    assert caller.effects() == 1


def test_a_key_is_free_again_once_its_answer_is_forgotten(caller):
    caller.call()
    engine = caller.world.engine
    engine._writer.forget(answers_before_us=engine.clock.now_us() + 1, events_before_us=0)
    assert engine.ledger.answer(caller.key().key) is None
    with engine.idempotent(caller.key("another body")) as stored:
        assert stored is None
