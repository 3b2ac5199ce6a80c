"""What the dashboard asks for: pools over the last day, who waits and why, nodes as rows."""

from __future__ import annotations

import html
import re
from pathlib import Path

from flask import render_template

import balancer.api
import emulator.report
from balancer.clock import micros, seconds
from balancer.lifecycle.states import STATE_WORDS, NodeState
from balancer.service.decision import KIND
from balancer.service.pools import SLOT_US, PoolHistory

ASSETS = Path(balancer.api.__file__).parent / "assets"


def counts_at(pools, at_us, state="OD_ALLOC"):
    """At the end of the minute that `at_us` lies in."""
    end_s = (at_us // SLOT_US + 1) * SLOT_US / 1e6
    column = pools["states"].index(state)
    return [counts[column] for since_s, counts in pools["steps"] if since_s < end_s][-1]


def test_the_pools_of_the_last_day_follow_the_log(api):
    w, http = api(nodes=4, reserve=2, reconcile_period_s=0)
    begun_us = w.clock.now_us()
    w.clock.advance_to(begun_us + 50 * SLOT_US)
    w.asked(1)
    w.clock.advance_to(w.clock.now_us() + 10 * SLOT_US)
    w.engine.release_nodes(("n01",))
    w.settled()
    w.clock.advance_to(w.clock.now_us() + 5 * SLOT_US)
    pools = http.get("/dashboard/pools").json
    assert (pools["start_s"], pools["end_s"]) == (begun_us / 1e6, w.clock.now_us() / 1e6)
    assert [counts_at(pools, begun_us + minute * SLOT_US) for minute in (0, 49, 50, 59, 60, 65)] == [
        0,
        0,
        1,
        1,
        0,
        0,
    ]
    assert all(sum(counts) == 4 for _, counts in pools["steps"])
    w.asked(2)
    w.clock.advance_to(w.clock.now_us() + SLOT_US)
    followed = http.get("/dashboard/pools").json
    assert [counts_at(followed, begun_us + minute * SLOT_US) for minute in (50, 60, 65, 66)] == [1, 0, 2, 2]
    # What is kept up agrees with what is read back whole.
    afresh = PoolHistory(w.engine.ledger, w.engine.published.counted).slots(w.clock.now_us())[1]
    kept = [slot["OD_ALLOC"] for slot in afresh if slot is not None]
    assert kept == [counts_at(followed, begun_us + minute * SLOT_US) for minute in range(len(kept))]


def test_a_new_service_has_a_day_that_begins_with_it(api):
    w, http = api(nodes=3, reserve=1)
    pools = http.get("/dashboard/pools").json
    assert pools["start_s"] == pools["end_s"] == w.clock.now_us() / 1e6
    assert [sum(counts) for _, counts in pools["steps"]] == [3]


def test_what_was_a_day_ago_is_forgotten_and_the_state_then_is_known(api):
    w, http = api(nodes=2, reserve=1, reconcile_period_s=0)
    w.asked(1)
    w.settled()
    w.clock.advance_to(w.clock.now_us() + micros(3 * 86_400))
    pools = http.get("/dashboard/pools").json
    (step,) = pools["steps"]
    assert step[1][pools["states"].index("OD_ALLOC")] == 1
    assert step[0] == pools["start_s"]
    assert pools["end_s"] - pools["start_s"] > 86_300


def test_the_log_leaves_out_what_changed_nothing(api):
    w, http = api(nodes=3, reserve=1)
    w.asked(1)
    for _ in range(50):
        w.clock.advance_to(w.clock.now_us() + micros(60))
        w.engine.reconcile()
        w.settled()
    told = http.get("/dashboard/now").json["events"]
    assert "nodes_requested" in [event["kind"] for event in told]
    for event in told:
        if event["kind"] in ("timer_fired", "nodes_observed"):
            assert event["body"].keys() & {"moved", "decided", "contested", "overdue", "ended"}


def test_a_waiting_request_says_why_and_what_would_end_it(api):
    w, http = api(nodes=3, reserve=1, wait_s=600)
    w.start_job("7", "n02", "n03")
    w.engine.submit_request(2)
    w.engine.submit_request(1)
    waiting = http.get("/dashboard/now").json["waiting"]
    assert [(each["count"], each["reserved"], each["why"], each["end"]) for each in waiting] == [
        (2, 1, "1 of 2 nodes are missing", "jobs end on 1 of the 2 busy nodes"),
        (1, 0, "1 of 1 nodes are missing, behind 1 earlier", "jobs end on 1 of the 2 busy nodes"),
    ]


def test_nodes_are_rows_with_their_job_and_what_is_odd_about_them(api):
    w, http = api(nodes=3, reserve=0)
    w.start_job("7.server", "n02", hook=False)
    end_s = round(seconds(w.clock.now_us())) + 100
    w.engine.update_nodes(busy=("n02",), job="7.server", remaining_us=micros(100))
    w.clock.advance_to(w.clock.now_us() + micros(40))
    w.batch.down.add("n03")
    w.engine.reconcile()
    w.settled()
    rows = {row[0]: row[1:] for row in http.get("/dashboard/nodes").json["nodes"]}
    assert rows["n01"][0] == "OA_IDLE"
    assert (rows["n02"][0], rows["n02"][3], rows["n02"][4]) == ("OA_BUSY", "7.server", end_s)
    assert (rows["n03"][0], rows["n03"][5]) == ("DOWN", "reads down")


def test_every_kind_of_event_has_its_words():
    text = (ASSETS / "dashboard_words.js").read_text(encoding="utf-8")
    words = text[text.index("const WORDS") : text.index("};", text.index("const WORDS"))]
    assert set(re.findall(r"^  (\w+): \(", words, re.MULTILINE)) == {"started", "configured", *KIND.values()}


def test_the_states_have_the_words_of_the_terminal():
    text = (ASSETS / "dashboard_words.js").read_text(encoding="utf-8")
    found = re.findall(r'([A-Z_]+): "([^"]+)"', text[text.index("const MEANING") : text.index("};")])
    assert dict(found) == {state.value: words for state, words in STATE_WORDS.items()}
    assert set(STATE_WORDS) == set(NodeState)


def test_the_colours_of_the_pools_are_those_of_the_report():
    report = Path(emulator.report.__file__).parent / "style.html.j2"
    ours, theirs = (ASSETS / "page.css").read_text(encoding="utf-8"), report.read_text(encoding="utf-8")
    theirs = theirs[: theirs.index("@media print")]
    for state in ("OA_BUSY", "OA_IDLE", "OD_ALLOC", "OD_RESERVE", "DOWN"):
        name = state.lower().replace("_", "-")
        assert re.findall(f"--{state}: (#[0-9a-f]+)", ours) == re.findall(f"--{name}: (#[0-9a-f]+)", theirs)


def test_the_page_of_the_api_has_every_call_and_every_field(api):
    _, http = api(nodes=2)
    answer = http.get("/docs")
    page = html.unescape(answer.text)
    spec = http.get("/openapi.json").json
    for path, item in spec["paths"].items():
        for method, call in item.items():
            assert f"<code>{method.upper()} {path}</code>" in page
            part = page[page.index(f'<div id="{call["operationId"]}">') :]
            part = part[: part.index("</details>")]
            for status in call["responses"]:
                assert f"<b>{status}</b>" in part
    for name in ("headroom", "asleep", "lent_node_h", "Idempotency-Key"):
        assert f"<code>{name}</code>" in page
    assert "<script" not in page
    assert "style=" not in page


def test_only_a_service_with_tokens_offers_to_log_out(api):
    _, http = api(nodes=2)
    assert "logout" not in http.get("/", headers={"Accept": "text/html"}).text
    page = {"has_login": True, "version": "1"}
    with http.application.app_context():
        assert 'id="logout"' in render_template("dashboard.html", **page)


def test_the_pages_fetch_nothing_from_elsewhere():
    for file in ASSETS.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text, file.name
        assert "innerHTML" not in text, file.name
        assert "eval" not in text, file.name


def test_an_event_that_names_thousands_of_nodes_is_told_in_short(api):
    w, http = api(nodes=400, reserve=400)
    w.asked(400)
    told = http.get("/dashboard/now").json["events"]
    assert {"long": True} in [event["body"] for event in told]
    assert len(http.get("/dashboard/now").data) < 50_000
