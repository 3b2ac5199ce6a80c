"""What the dashboard asks for: pools over the last day, who waits and why, nodes as rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import balancer.api
from balancer.app import create_app
from balancer.clock import micros
from balancer.decision import KIND
from balancer.pools import SLOT_US, SLOTS, PoolHistory

ASSETS = Path(balancer.api.__file__).parent / "assets"


@pytest.fixture
def board(world):
    def make(**options):
        w = world(**options)
        w.settled()
        return w, create_app(w.engine).test_client()

    return make


def granted(pools):
    return pools["states"]["OD_ALLOC"]


def test_the_pools_of_the_last_day_follow_the_log(board):
    w, http = board(nodes=4, reserve=2, reconcile_period_s=0)
    now_us = w.clock.now_us()
    w.clock.advance_to(now_us - now_us % SLOT_US + 10 * SLOT_US)
    w.asked(1)
    w.clock.advance_to(w.clock.now_us() + 2 * SLOT_US)
    w.engine.release_nodes(("n01",))
    w.settled()
    w.clock.advance_to(w.clock.now_us() + SLOT_US)
    pools = http.get("/dashboard/pools").json
    assert granted(pools)[-4:] == [1, 1, 0, 0]
    assert all(sum(counts) == 4 for counts in zip(*pools["states"].values(), strict=True))
    assert len(granted(pools)) + pools["missing"] == SLOTS
    w.asked(2)
    w.clock.advance_to(w.clock.now_us() + SLOT_US)
    followed = http.get("/dashboard/pools").json
    assert granted(followed)[-5:] == [1, 1, 0, 2, 2]
    # What is kept up agrees with what is read back whole.
    afresh = PoolHistory(w.engine.ledger, w.engine.counted)
    assert [slot["OD_ALLOC"] for slot in afresh.slots(w.clock.now_us())[1] if slot is not None] == granted(
        followed
    )


def test_what_was_a_day_ago_is_forgotten_and_the_state_then_is_known(board):
    w, http = board(nodes=2, reserve=1, reconcile_period_s=0)
    w.asked(1)
    w.settled()
    w.clock.advance_to(w.clock.now_us() + micros(3 * 86_400))
    pools = http.get("/dashboard/pools").json
    assert (pools["missing"], granted(pools)) == (0, [1] * SLOTS)


def test_a_waiting_request_says_why_and_what_would_end_it(board):
    w, http = board(nodes=3, reserve=1, wait_s=600)
    w.start_job("7", "n02", "n03")
    w.engine.submit_request(2)
    w.engine.submit_request(1)
    waiting = http.get("/dashboard/now").json["waiting"]
    assert [(each["count"], each["held"], each["why"], each["end"]) for each in waiting] == [
        (2, 1, "1 of 2 nodes are missing", "jobs end on 1 of the 2 busy nodes"),
        (1, 0, "1 of 1 nodes are missing, behind 1 earlier", "jobs end on 1 of the 2 busy nodes"),
    ]


def test_nodes_are_rows_with_their_job_and_what_is_odd_about_them(board):
    w, http = board(nodes=3, reserve=0)
    w.start_job("7.server", "n02")
    w.batch.down.add("n03")
    w.engine.reconcile()
    w.settled()
    rows = {row[0]: row[1:] for row in http.get("/dashboard/nodes").json["nodes"]}
    assert rows["n01"][0] == "OA_IDLE"
    assert (rows["n02"][0], rows["n02"][3]) == ("OA_BUSY", "7.server")
    assert (rows["n03"][0], rows["n03"][5]) == ("DOWN", "reads down")


def test_every_kind_of_event_has_its_words():
    text = (ASSETS / "dashboard.js").read_text(encoding="utf-8")
    words = text[text.index("const WORDS") : text.index("};", text.index("const WORDS"))]
    assert set(re.findall(r"^  (\w+): \(", words, re.MULTILINE)) == {"started", "configured", *KIND.values()}


def test_the_pages_fetch_nothing_from_elsewhere():
    for file in ASSETS.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text, file.name
        assert "innerHTML" not in text, file.name
        assert "eval" not in text, file.name


def test_an_event_that_names_thousands_of_nodes_is_told_in_short(board):
    w, http = board(nodes=400, reserve=400)
    w.asked(400)
    told = http.get("/dashboard/now").json["events"]
    assert {"long": True} in [event["body"] for event in told]
    assert len(http.get("/dashboard/now").data) < 50_000
