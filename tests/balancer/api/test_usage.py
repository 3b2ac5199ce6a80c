"""What was granted, refused and lent in a time, and what could be granted now."""

from __future__ import annotations

from functools import partial

import pytest

from balancer.clock import micros, seconds
from balancer.drivers.base import NodeStatus
from balancer.lending import Lending
from balancer.service.freeze import Order
from balancer.timestamps import iso

HOUR_US = micros(3600)


@pytest.fixture
def site(api):
    return partial(api, reconcile_period_s=0)


def passes(w, time_us):
    w.clock.advance_to(w.clock.now_us() + time_us)


def usage(http, start_us, end_us):
    return http.get("/v1/usage", query_string={"start": iso(start_us), "end": iso(end_us)}).json


def test_usage_counts_requests_and_the_hours_that_nodes_were_lent(site):
    w, http = site(nodes=3, reserve=3)
    begun_us = w.clock.now_us()
    passes(w, HOUR_US)
    lent = w.asked(2).nodes
    passes(w, 2 * HOUR_US)
    w.engine.release_nodes(lent[:1])
    w.settled()
    assert w.asked(3).status == "rejected"
    passes(w, HOUR_US)
    now_us = w.clock.now_us()
    found = usage(http, begun_us, now_us)
    assert (found["requests"], found["granted"], found["rejected"]) == (2, 1, 1)
    assert (found["nodes_granted"], found["nodes_rejected"]) == (2, 3)
    assert found["lent_node_h"] == 2 * 2 + 1
    assert (found["start"], found["end"]) == (iso(begun_us), iso(now_us))
    # A part of the time, kept up with the log or read back afresh.
    assert usage(http, begun_us + 2 * HOUR_US, begun_us + 3 * HOUR_US)["lent_node_h"] == 2
    assert usage(http, begun_us + 5 * HOUR_US // 2, now_us)["lent_node_h"] == 2
    afresh = Lending(w.engine.ledger, w.engine.published.counted)
    assert afresh.between(now_us - HOUR_US, now_us).node_us == HOUR_US
    assert afresh.between(begun_us, now_us).node_us == 5 * HOUR_US


def test_before_the_log_begins_nothing_is_known_to_be_lent(site):
    w, http = site(nodes=2, reserve=1)
    w.asked(1)
    begun_us = w.clock.now_us()
    passes(w, HOUR_US)
    found = usage(http, 0, w.clock.now_us())
    assert (found["lent_node_h"], found["lent_since"]) == (1, iso(begun_us))


def test_by_default_it_is_the_last_week_and_never_longer_than_is_kept_ready(site):
    w, http = site(nodes=2, reserve=1)
    passes(w, micros(40 * 86_400))
    now_us = w.clock.now_us()
    assert http.get("/v1/usage").json["start"] == iso(now_us - micros(7 * 86_400))
    for start_us in (0, now_us + 1):
        answer = http.get("/v1/usage", query_string={"start": iso(start_us)})
        assert (answer.status_code, answer.json["code"]) == (400, "balancer.invalid_request")
    assert http.get("/v1/usage?start=yesterday").status_code == 400


def headroom(http):
    return http.get("/v1/status").json["headroom"]


def test_headroom_is_the_reserve_idle_nodes_and_those_whose_jobs_must_end_in_time(site):
    w, http = site(nodes=5, reserve=1)
    assert headroom(http) == {"nodes": 5, "within_s": 300, "reserve": 1, "idle": 4, "ending": 0, "wanted": 0}
    w.start_job("1", "n02", hook=False)
    w.engine.update_nodes(busy=("n02",), job="1", remaining_us=micros(400))
    w.start_job("2", "n03")  # nobody said how long
    assert (headroom(http)["ending"], headroom(http)["nodes"]) == (0, 3)
    passes(w, micros(100))
    assert (headroom(http)["ending"], headroom(http)["nodes"]) == (1, 4)
    (row,) = (row for row in http.get("/dashboard/nodes").json["nodes"] if row[0] == "n02")
    assert row[5] == round(seconds(w.clock.now_us())) + 300
    w.end_job("1")
    assert (headroom(http)["ending"], headroom(http)["idle"]) == (0, 3)


def test_what_waits_and_what_is_lent_is_not_headroom(site):
    w, http = site(nodes=3, reserve=1, wait_s=600)
    w.asked(1)
    w.start_job("7", "n02")
    w.engine.submit_request(2)
    w.settled()
    assert headroom(http) == {"nodes": 0, "within_s": 300, "reserve": 0, "idle": 0, "ending": 0, "wanted": 1}


def test_what_a_waiting_request_still_wants_is_taken_off(site):
    w, http = site(nodes=4, reserve=1, wait_s=600)
    w.start_job("7", "n03")
    w.start_job("8", "n04", hook=False)
    w.engine.update_nodes(busy=("n04",), job="8", remaining_us=micros(200))
    w.engine.submit_request(4)
    w.settled()
    assert headroom(http) == {"nodes": 0, "within_s": 300, "reserve": 0, "idle": 0, "ending": 1, "wanted": 2}


def test_a_frozen_service_has_no_headroom(site):
    w, http = site(nodes=3, reserve=1)
    assert headroom(http)["nodes"] == 3
    w.freeze.freeze(Order("ada", "work on the switch", iso(w.clock.now_us())))
    assert headroom(http)["nodes"] == 0


def test_the_status_counts_nodes_that_sleep(site):
    w, http = site(nodes=3)
    asleep = NodeStatus("down", note="asleep", is_asleep=True)
    w.batch.reports = {"n01": asleep, "n02": NodeStatus("down"), "n03": NodeStatus("idle")}
    w.engine.reconcile()
    status = http.get("/v1/status").json
    assert (status["asleep"], status["nodes"]["DOWN"]) == (1, 2)
