"""Retries at the HTTP edge: every write x {lost reply, duplicate, concurrent, other body, restart, expiry} (T7, I6)."""

from __future__ import annotations

import json
import sqlite3
import threading

import pytest

from balancer.clock import micros
from balancer.http.app import create_app

KEY = {"Idempotency-Key": "7f4d1a52-5a0e-4e0e-9f56-6d0f7b0f2c11"}
WRITES = {
    "request_nodes": ({"nodes": 1}, {"nodes": 2}),
    "release_nodes": ({"nodes": ["n01"]}, {"nodes": ["n02"]}),
    "update_nodes": ({"states": {"n07": "busy"}, "job": "1.server"}, {"states": {"n08": "busy"}}),
    "add_reserve": ({"nodes": 1, "notice_s": 60}, {"nodes": 1, "notice_s": 61}),
}
IN_PROGRESS = "balancer.call_in_progress"
WRITE = pytest.mark.parametrize("write", WRITES)


class Edge:
    """A service with two lent nodes, and its HTTP edge."""

    def __init__(self, world) -> None:
        self.world = world(nodes=8, reserve=4)
        self.world.settled()
        self._engine = self._app = None
        self.post("request_nodes", {"nodes": 2}, None)
        self.start_count = self.count()

    @property
    def app(self):
        """One for all threads. Routes are compiled from syntax trees, and Python 3.11 cannot do that in two threads at
        once where collecting garbage calls Python code, as Hypothesis lets it: "AST constructor recursion depth
        mismatch".
        """
        if self._engine is not self.world.engine:
            self._engine, self._app = self.world.engine, create_app(self.world.engine)
        return self._app

    def post(self, write: str, body, headers=KEY):
        return self.app.test_client().post(f"/v1/{write}", json=body, headers=headers)

    def count(self) -> int:
        """How many calls have had an effect."""
        kinds = self.world.log()
        return sum(
            kinds.count(kind)
            for kind in ("nodes_requested", "nodes_released", "nodes_updated", "reserve_added")
        )

    @property
    def effects(self) -> int:
        return self.count() - self.start_count


@pytest.fixture
def edge(world):
    return Edge(world)


@WRITE
def test_a_duplicate_gets_the_first_answer_and_has_no_effect(edge, write):
    body, _ = WRITES[write]
    answers = [edge.post(write, body) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({json.dumps(answer.get_json(), sort_keys=True) for answer in answers}) == 1
    assert edge.effects == 1


@WRITE
def test_duplicates_at_the_same_time_have_one_effect(edge, kit, write):
    body, _ = WRITES[write]
    with (
        kit.running(lambda: edge.post(write, body)) as first,
        kit.running(lambda: edge.post(write, body)) as second,
    ):
        third = edge.post(write, body)
    done = [each for each in (first[0], second[0], third) if each.status_code == 200]
    assert all(each.get_json()["code"] == IN_PROGRESS for each in {first[0], second[0], third} - {*done})
    again = edge.post(write, body)
    assert again.status_code == 200
    assert {json.dumps(each.get_json(), sort_keys=True) for each in done} == {
        json.dumps(again.get_json(), sort_keys=True)
    }
    assert edge.effects == 1


@WRITE
def test_while_the_first_is_under_way_a_duplicate_is_told_to_come_again(edge, kit, monkeypatch, write):
    body, other = WRITES[write]
    ledger = edge.world.engine.ledger
    commit, begun, go = ledger.commit, threading.Event(), threading.Event()

    def slow(entries):
        if any(each.answer is not None for each in entries):  # not a timer's
            begun.set()
            go.wait()
        commit(entries)

    monkeypatch.setattr(ledger, "commit", slow)
    with kit.running(lambda: edge.post(write, body)) as first:
        begun.wait()
        try:
            early = [edge.post(write, each) for each in (body, other)]
        finally:
            go.set()
    assert [(each.status_code, each.get_json()["code"]) for each in early] == [(409, IN_PROGRESS)] * 2
    assert early[0].headers["Retry-After"] == "1"
    assert first[0].status_code == 200
    assert edge.post(write, body).get_json() == first[0].get_json()
    assert edge.effects == 1


@WRITE
def test_a_missing_key_is_no_error_and_nothing_is_stored_for_it(edge, write):
    """Where we differ from the convention, which asks for one: `docs/balancer/api.md` says why."""
    assert edge.post(write, WRITES[write][0], {}).status_code == 200
    stored = sqlite3.connect(edge.world.db)
    (answers,) = stored.execute("SELECT count(*) FROM answers").fetchone()
    stored.close()
    assert (answers, edge.effects) == (0, 1)


def joined(edge, kit, body):
    """The answer of a retry. While the first call is about to wait it is told to come again, as clients do."""
    answers = []

    def is_answered():
        answers.append(edge.post("request_nodes", body))
        return answers[-1].status_code != 409

    kit.until(is_answered)
    return answers[-1]


def test_a_request_that_still_waits_is_joined_by_its_retry(edge, kit):
    """It is stored already: the retry waits for the same decision instead of making another request."""
    body = {"nodes": 8, "wait_s": 600}
    with kit.running(lambda: edge.post("request_nodes", body)) as first:
        kit.until(lambda: edge.effects == 1)
        with kit.running(lambda: joined(edge, kit, body)) as second:
            edge.post("release_nodes", {"nodes": ["n01", "n02"]}, {})
    assert [each[0].status_code for each in (first, second)] == [200, 200]
    assert first[0].get_json() == second[0].get_json()


@WRITE
def test_another_body_under_the_same_key_is_refused_and_changes_nothing(edge, write):
    body, other = WRITES[write]
    edge.post(write, body)
    answer = edge.post(write, other)
    assert (answer.status_code, answer.get_json()["code"]) == (422, "balancer.idempotency_key_reused")
    assert edge.effects == 1


@WRITE
def test_the_same_body_of_another_call_under_the_same_key_is_refused(edge, write):
    other = next(each for each in WRITES if each != write)
    edge.post(write, WRITES[write][0])
    assert edge.post(other, WRITES[other][0]).status_code == 422
    assert edge.effects == 1


@WRITE
def test_a_retry_after_a_restart_gets_the_first_answer(edge, write):
    body, other = WRITES[write]
    first = edge.post(write, body).get_json()
    edge.world.restart()
    assert edge.post(write, body).get_json() == first
    assert edge.post(write, other).status_code == 422
    assert edge.effects == 1


@WRITE
def test_a_lost_reply_before_a_crash_is_found_by_the_retry(edge, write):
    """The reply was never read; the answer was stored together with the effect."""
    body, _ = WRITES[write]
    edge.post(write, body)
    connection = sqlite3.connect(edge.world.db)
    stored = connection.execute("SELECT count(*) FROM answers").fetchone()[0]
    connection.close()
    edge.world.restart()
    assert (stored, edge.post(write, body).status_code, edge.effects) == (1, 200, 1)


@WRITE
def test_after_its_time_a_key_is_forgotten_and_the_call_decided_anew(edge, write):
    body, _ = WRITES[write]
    edge.post(write, body)
    later_us = edge.world.clock.now_us() + micros(7 * 86400) + 1
    edge.world.engine._writer.forget(answers_before_us=later_us, events_before_us=0)
    again = edge.post(write, body)
    assert again.status_code == (409 if write == "release_nodes" else 200)
    assert edge.effects == (1 if write == "release_nodes" else 2)


@WRITE
def test_a_refusal_is_not_stored_and_the_key_stays_free(edge, write):
    assert edge.post(write, {"nonsense": 1}).status_code == 400
    assert edge.post(write, WRITES[write][0]).status_code == 200
    assert edge.effects == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\x7f"])
def test_a_key_that_cannot_be_one_is_refused(edge, key):
    answer = edge.post("request_nodes", {"nodes": 1}, {"Idempotency-Key": key})
    assert (answer.status_code, answer.get_json()["code"]) == (400, "balancer.invalid_request")
    assert edge.effects == 0


def test_a_key_is_its_callers_own_where_the_caller_only_gives_a_name(edge):
    answers = [
        edge.post("request_nodes", {"nodes": 1}, KEY | name).get_json()
        for name in ({}, {"X-Balancer-Client": "ann"}, {"X-Balancer-Client": "bob"}) * 2
    ]
    owners = [(each["id"], each["owner"]) for each in answers]
    assert owners[:3] == owners[3:]
    assert [owner for _, owner in owners[:3]] == ["anonymous", "ann", "bob"]
    assert edge.effects == 3
