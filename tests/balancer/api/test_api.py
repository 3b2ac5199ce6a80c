"""The HTTP side, in process: shapes, codes, strictness, idempotency."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from balancer.api.problems import MEDIA_TYPE
from balancer.clock import micros
from balancer.http.app import create_app, openapi_text
from balancer.policy_settings import ReserveRule
from balancer.timestamps import parse_iso
from service_kit import check_replay

ROOT = Path(__file__).parents[3]
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def problem(response, status: int, code: str) -> dict:
    assert response.status_code == status
    assert response.content_type == MEDIA_TYPE
    body = response.get_json()
    assert body["status"] == status
    assert body["code"] == code == body["errors"][0]["code"]
    assert body["request_id"] == response.headers["X-OpenStack-Request-Id"]
    return body


def test_granted_nodes_are_in_the_answer(api):
    _, http = api(nodes=3, reserve=3)
    response = http.post("/v1/request_nodes", json={"nodes": 2})
    body = response.get_json()
    assert response.status_code == 200
    assert ISO.fullmatch(body.pop("submitted_at"))
    assert ISO.fullmatch(body.pop("deadline_at"))
    assert ISO.fullmatch(body.pop("decided_at"))
    assert body.pop("id").startswith("r")
    assert body == {
        "state": "granted",
        "count": 2,
        "nodes": ["n01", "n02"],
        "reason": "",
        "owner": "anonymous",
        "confirmed": True,
        "confirm_by": None,
        "lease_ends_at": None,
        "overdue": False,
        "ended_at": None,
        "replace": False,
        "replaces": None,
        "down": [],
        "lost": [],
    }


def test_a_grant_has_an_owner_who_confirms_renews_and_releases_it(api):
    _, http = api(nodes=3, confirm_s=60, has_cloud=False)
    mine, others = {"X-Balancer-Client": "nova"}, {"X-Balancer-Client": "eve"}
    body = {"nodes": 1, "lease_s": 600, "candidates": ["n[02-03]"], "exclude": ["n02"]}
    granted = http.post("/v1/request_nodes", json=body, headers=mine).get_json()
    assert (granted["owner"], granted["nodes"], granted["confirmed"]) == ("nova", ["n03"], False)
    place = f"/v1/requests/{granted['id']}"
    release = {"nodes": granted["nodes"]}
    for response in (
        http.post(f"{place}/confirm", json={}, headers=others),
        http.post(f"{place}/renew", json={}, headers=others),
        http.post("/v1/release_nodes", json=release, headers=others),
        http.post("/v1/release_nodes", json=release),
    ):
        assert (response.status_code, response.get_json()["code"]) == (403, "balancer.not_owner")
    confirmed = http.post(f"{place}/confirm", json={}, headers=mine).get_json()
    assert (confirmed["confirmed"], confirmed["confirm_by"]) == (True, None)
    renewed = http.post(f"{place}/renew", json={"lease_s": 60}, headers=mine).get_json()
    assert renewed["lease_ends_at"] < confirmed["lease_ends_at"]
    assert [
        each["id"] for each in http.get("/v1/requests?owner=me", headers=mine).get_json()["requests"]
    ] == [granted["id"]]
    assert http.get("/v1/requests?owner=me", headers=others).get_json()["requests"] == []
    assert http.get("/v1/requests?overdue=true", headers=mine).get_json()["requests"] == []
    operator = {"X-Balancer-Client": "operator"}
    assert http.post("/v1/release_nodes", json=release, headers=operator).status_code == 200
    late = http.post(f"{place}/confirm", json={}, headers=mine)
    assert (late.status_code, late.get_json()["code"]) == (409, "balancer.not_granted")


def failures(http):
    """What the log says of granted nodes that failed; timers may come in between."""
    found = http.get("/v1/events").get_json()["events"]
    return [each["body"] for each in found if each["kind"] == "nodes_failed"]


def test_the_owner_of_a_node_that_fails_finds_it_in_the_request_the_log_and_the_status(api):
    w, http = api(nodes=1, has_cloud=False, reconcile_period_s=0)
    granted = http.post("/v1/request_nodes", json={"nodes": 1}).get_json()
    since = w.fails("n01")
    request = http.get(f"/v1/requests/{granted['id']}").get_json()
    assert (request["down"], request["lost"]) == ([{"node": "n01", "since": since}], [])
    assert http.get("/v1/nodes/n01").get_json()["down_since"] == since
    assert http.get("/v1/status").get_json()["failed"] == {"n01": since}
    assert "\nbalancer_nodes_failed 1.0\n" in http.get("/metrics").get_data(as_text=True)
    assert failures(http) == [{"nodes": {"n01": parse_iso(since)}, "requests": {"n01": granted["id"]}}]


def test_a_node_that_fails_is_replaced_where_that_was_asked_for(api, kit):
    w, http = api(nodes=2, has_cloud=False, reconcile_period_s=0, confirm_s=60)
    granted = http.post("/v1/request_nodes", json={"nodes": 1, "replace": True}).get_json()
    http.post(f"/v1/requests/{granted['id']}/confirm", json={})
    since = w.fails("n01")
    request = http.get(f"/v1/requests/{granted['id']}").get_json()
    (lost,) = request["lost"]
    assert lost == {"node": "n01", "since": since, "replaced_by": lost["replaced_by"]}
    place = f"/v1/requests/{lost['replaced_by']}"
    other = http.get(f"{place}?wait_s=10").get_json()
    assert (other["state"], other["nodes"], other["replaces"]) == ("granted", ["n02"], granted["id"])
    assert http.post(f"{place}/confirm", json={}).get_json()["confirmed"]
    (event,) = failures(http)
    assert event["replaced_by"] == {"n01": lost["replaced_by"]}
    assert w.states() == {"n01": "DOWN", "n02": "OD_ALLOC"}


def test_an_unobtainable_request_is_a_conflict_that_names_the_request(api):
    _, http = api(nodes=2)
    body = problem(http.post("/v1/request_nodes", json={"nodes": 3}), 409, "balancer.not_obtainable")
    assert http.get(f"/v1/requests/{body['id']}").get_json()["state"] == "rejected"


def test_an_asynchronous_request_is_answered_with_a_place_to_ask(api, kit):
    w, http = api(nodes=1)
    w.start_job("1.server", "n01")
    response = http.post(
        "/v1/request_nodes", json={"nodes": 1, "wait_s": 600}, headers={"Prefer": "respond-async"}
    )
    assert response.status_code == 202
    place = response.headers["Location"]
    assert http.get(place).get_json()["state"] == "waiting"
    with kit.running(lambda: http.application.test_client().get(f"{place}?wait_s=10")) as answer:
        w.end_job("1.server")
    assert answer[0].get_json()["nodes"] == ["n01"]


def test_a_request_blocks_until_it_is_granted(api, kit):
    w, http = api(nodes=1, wait_s=600)
    w.start_job("1.server", "n01")
    with kit.running(lambda: http.post("/v1/request_nodes", json={"nodes": 1})) as answer:
        kit.until(lambda: w.engine.ledger.requests(status="waiting", before=None, limit=1))
        w.end_job("1.server")
    assert answer[0].get_json()["nodes"] == ["n01"]


def test_when_too_many_calls_wait_the_next_one_is_told_to_poll(api, kit):
    w, _ = api(nodes=1, wait_s=600)
    w.start_job("1.server", "n01")
    app = create_app(w.engine, max_waiting=1)
    with kit.running(lambda: app.test_client().post("/v1/request_nodes", json={"nodes": 1})) as first:
        kit.until(lambda: w.engine._writer.waiters._waiting)
        assert app.test_client().post("/v1/request_nodes", json={"nodes": 1}).status_code == 202
        w.end_job("1.server")
    assert first[0].status_code == 200


def test_a_waiting_request_can_be_withdrawn(api):
    w, http = api(nodes=1)
    w.start_job("1.server", "n01")
    place = http.post(
        "/v1/request_nodes", json={"nodes": 1, "wait_s": 60}, headers={"Prefer": "respond-async"}
    ).headers["Location"]
    assert http.delete(place).get_json()["state"] == "withdrawn"
    problem(http.delete("/v1/requests/r0"), 404, "balancer.not_found")


def test_a_release_of_a_node_that_is_not_allocated_changes_nothing(api):
    w, http = api(nodes=2, reserve=2)
    http.post("/v1/request_nodes", json={"nodes": 1})
    before = w.states()
    response = http.post("/v1/release_nodes", json={"nodes": ["n01", "n02"]})
    problem(response, 409, "balancer.node_not_allocated")
    assert w.states() == before
    assert http.post("/v1/release_nodes", json={"nodes": ["n01"]}).get_json() == {"nodes": ["n01"]}


def test_a_job_on_a_lent_node_is_a_conflict(api):
    _, http = api(nodes=1, reserve=1)
    response = http.post("/v1/update_nodes", json={"states": {"n01": "busy"}, "job": "1.server"})
    problem(response, 409, "balancer.node_not_in_batch_pool")


def test_a_reserve_is_announced_and_listed(api):
    _, http = api(nodes=2)
    body = http.post("/v1/add_reserve", json={"nodes": 1, "notice_s": 60}).get_json()
    assert http.get("/v1/reserves").get_json() == {"reserves": [body], "links": []}


def test_a_reserve_that_comes_again_is_listed_with_its_next_window_and_withdrawn(api):
    w, http = api(nodes=4)  # on Thursday 1970-01-01 at 00:16:40
    asked = {
        "nodes": 2,
        "every": "Mon-Fri 20:00-06:00",
        "zone": "Europe/Berlin",
        "exceptions": ["1969-12-31", "1970-01-01"],
    }
    made = http.post("/v1/add_reserve", json=asked).get_json()
    assert made | {"added_at": ""} == {
        "id": made["id"],
        "count": 2,
        "used": 0,
        "added_at": "",
        "by": "1970-01-02T19:00:00.000000Z",
        "kept_until": "1970-01-03T05:00:00.000000Z",
        "owner": "anonymous",
        "every": "Mon-Fri 20:00-06:00",
        "zone": "Europe/Berlin",
        "exceptions": ["1969-12-31", "1970-01-01"],
    }
    assert http.get("/v1/reserves").get_json()["reserves"] == [made]
    w.restart()
    assert [record.every for record in w.engine.ledger.reserves()] != [""]
    http = create_app(w.engine).test_client()
    assert http.delete(f"/v1/reserves/{made['id']}").get_json() == made
    assert http.get("/v1/reserves").get_json()["reserves"] == []
    problem(http.delete(f"/v1/reserves/{made['id']}"), 404, "balancer.not_found")
    check_replay(w.engine.ledger)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"every": "at night"}, "every: 'at night' is no window"),
        (
            {"every": "daily 20:00-06:00", "zone": "Mars/Olympus"},
            "zone: there is no time zone 'Mars/Olympus'",
        ),
        ({"every": "daily 20:00-06:00", "exceptions": ["24.12."]}, "exceptions: '24.12.' is no day"),
        (
            {"every": "daily 20:00-06:00", "keep_s": 60},
            "keep_s: a reserve that comes again is kept until its window ends",
        ),
        ({"notice_s": 60, "exceptions": ["2026-12-24"]}, "every: it is missing"),
        ({"notice_s": 60, "zone": "Europe/Berlin"}, "every: it is missing"),
        ({"every": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30 08:00-18:00"}, "names no day of any year"),
    ],
)
def test_windows_that_cannot_be_are_a_bad_request(api, body, said):
    w, http = api(nodes=4)
    before = w.log()
    response = http.post("/v1/add_reserve", json={"nodes": 2} | body)
    assert (response.status_code, said in response.get_json()["detail"], w.log()) == (400, True, before)


def test_a_reserve_is_kept_as_long_as_it_says_or_for_i(api):
    _, http = api(nodes=4, idle_reserve_s=600)
    for keep in ({}, {"keep_s": 3600}):
        http.post("/v1/add_reserve", json={"nodes": 1, "notice_s": 60} | keep)
    found = http.get("/v1/reserves").get_json()["reserves"]
    lasts_s = {
        (datetime.fromisoformat(each["kept_until"]) - datetime.fromisoformat(each["by"])).total_seconds()
        for each in found
    }
    assert lasts_s == {600, 3600}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("request_nodes", {}, "nodes"),
        ("request_nodes", {"nodes": 0}, "nodes"),
        ("request_nodes", {"nodes": "2"}, "nodes"),
        ("request_nodes", {"nodes": True}, "nodes"),
        ("request_nodes", {"nodes": 1.5}, "nodes"),
        ("request_nodes", {"nodes": 1, "wait_s": -1}, "wait_s"),
        ("request_nodes", {"nodes": 1, "wait_s": 1e300}, "wait_s"),
        ("request_nodes", {"nodes": 1, "wait": 1}, "wait"),
        ("request_nodes", [], "the body"),
        ("release_nodes", {"nodes": []}, "nodes: must have at least 1 item"),
        ("request_nodes", {"nodes": 1, "candidates": []}, "candidates: must have at least 1 item"),
        ("release_nodes", {"nodes": ["../x"]}, "nodes.0"),
        ("update_nodes", {"states": {"n01": "broken"}}, "states.n01"),
        ("update_nodes", {"states": {}}, "states"),
        ("add_reserve", {"nodes": 1}, "notice_s"),
    ],
)
def test_a_body_that_is_not_as_described_is_refused_naming_the_field(api, path, body, field):
    w, http = api(nodes=1)
    before = w.log()
    detail = problem(http.post(f"/v1/{path}", json=body), 400, "balancer.invalid_request")["detail"]
    assert field in detail
    assert w.log() == before


@pytest.mark.parametrize("data", [b"", b"{", b"null", b"\xff\xfe", b'{"nodes": NaN}', b'"text"'])
def test_a_body_that_is_not_json_is_a_bad_request(api, data):
    _, http = api(nodes=1)
    given = http.post("/v1/request_nodes", data=data, content_type="application/json")
    problem(given, 400, "balancer.invalid_request")


def test_unknown_nodes_in_a_body_are_a_bad_request(api):
    _, http = api(nodes=1)
    response = http.post("/v1/update_nodes", json={"states": {"x99": "busy"}})
    problem(response, 400, "balancer.unknown_node")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/nodes?x=1",
        "/v1/nodes?state=odd",
        "/v1/requests?limit=0",
        "/v1/events?after=-1",
        "/v1/history?slot_s=0",
    ],
)
def test_strange_query_parameters_are_a_bad_request(api, path):
    _, http = api(nodes=1)
    problem(http.get(path), 400, "balancer.invalid_request")


def test_unknown_paths_and_methods_have_problem_documents_too(api):
    _, http = api(nodes=1)
    problem(http.get("/v2"), 404, "balancer.not_found")
    response = http.delete("/v1/request_nodes")
    problem(response, 405, "balancer.method_not_allowed")
    assert "POST" in response.headers["Allow"]


def test_the_same_key_gets_the_stored_answer_also_after_a_restart(api):
    w, http = api(nodes=3, reserve=3)
    headers = {"Idempotency-Key": "5c0a7b9e"}
    first = http.post("/v1/request_nodes", json={"nodes": 1}, headers=headers).get_json()
    http.post("/v1/release_nodes", json={"nodes": first["nodes"]}, headers={"Idempotency-Key": "k2"})
    w.restart()
    http = create_app(w.engine).test_client()
    again = http.post("/v1/request_nodes", json={"nodes": 1}, headers=headers).get_json()
    assert again | {"ended_at": None} == first
    again = http.post("/v1/release_nodes", json={"nodes": first["nodes"]}, headers={"Idempotency-Key": "k2"})
    assert again.get_json() == {"nodes": first["nodes"]}
    assert list(w.states().values()).count("OD_ALLOC") == 0


def test_the_same_key_with_another_body_is_refused(api):
    _, http = api(nodes=3, reserve=3)
    headers = {"Idempotency-Key": "k1"}
    http.post("/v1/request_nodes", json={"nodes": 1}, headers=headers)
    response = http.post("/v1/request_nodes", json={"nodes": 2}, headers=headers)
    problem(response, 422, "balancer.idempotency_key_reused")


def test_nodes_are_paged_by_name_also_after_one_that_is_gone(api):
    _, http = api(nodes=5)
    page = http.get("/v1/nodes?limit=2").get_json()
    assert [each["name"] for each in page["nodes"]] == ["n01", "n02"]
    rest = http.get(page["links"][0]["href"]).get_json()
    assert [each["name"] for each in rest["nodes"]] == ["n03", "n04"]
    last = http.get("/v1/nodes?marker=n04x&limit=2").get_json()
    assert ([each["name"] for each in last["nodes"]], last["links"]) == (["n05"], [])


def test_the_old_words_for_quarantine_are_still_taken_and_told(api):
    w, http = api(nodes=2, has_cloud=False)
    w.settled()
    http.post("/v1/hold_nodes", json={"nodes": ["n01"], "reason": "nobody knows what runs there"})
    status = http.get("/v1/status").json
    assert (status["held"], status["held"].keys()) == (status["quarantined"], {"n01"})
    for word in ("HELD", "QUARANTINED"):
        found = http.get(f"/v1/nodes?state={word}").json["nodes"]
        assert [(node["name"], node["state"], node["pool"]) for node in found] == [
            ("n01", "QUARANTINED", "quarantined")
        ]
    paths = http.get("/openapi.json").json["paths"]
    assert [path for path, item in paths.items() if "deprecated" in item.get("post", {})] == [
        "/v1/hold_nodes"
    ]


def test_reserves_are_paged_oldest_first(api):
    _, http = api(nodes=5)
    made = [http.post("/v1/add_reserve", json={"nodes": 1, "notice_s": 60}).get_json() for _ in range(3)]
    page = http.get("/v1/reserves?limit=2").get_json()
    assert page["reserves"] == made[:2]
    assert http.get(page["links"][0]["href"]).get_json() == {"reserves": made[2:], "links": []}
    problem(http.get("/v1/reserves?marker=h999"), 400, "balancer.invalid_request")


def test_one_node_has_its_generation_as_etag(api):
    _, http = api(nodes=1, reserve=1)
    response = http.get("/v1/nodes/n01")
    assert response.headers["ETag"] == f'"{response.get_json()["generation"]}"'
    problem(http.get("/v1/nodes/n99"), 404, "balancer.not_found")


def test_a_wrong_value_is_told_in_the_words_of_the_api(api):
    _, http = api(nodes=1)
    wrong = http.get("/v1/nodes?state=odd"), http.post("/v1/request_nodes", json=[])
    assert [problem(each, 400, "balancer.invalid_request")["detail"] for each in wrong] == [
        (
            "state: must be 'OD_RESERVE', 'OD_ALLOC', 'OA_IDLE', 'OA_BUSY', 'DOWN', 'RECLAIMING', 'RESTORING' or "
            "'QUARANTINED'; state: must be 'HELD'"
        ),
        "the body: must be keys with values",
    ]


@pytest.mark.parametrize("job", ["1\n2", "1\0", "\x1b[31m1"])
def test_a_job_whose_name_is_no_line_is_refused(api, job):
    _, http = api(nodes=1)
    body = {"states": {"n01": "busy"}, "job": job}
    problem(http.post("/v1/update_nodes", json=body), 400, "balancer.invalid_request")


def test_a_write_with_a_stale_generation_is_a_conflict_and_changes_nothing(api):
    w, http = api(nodes=2, reserve=2)
    http.post("/v1/request_nodes", json={"nodes": 1})
    generation = http.get("/v1/nodes/n01").get_json()["generation"]
    before = w.log()
    for path, body in (
        ("release_nodes", {"nodes": ["n01"]}),
        ("update_nodes", {"states": {"n01": "idle"}}),
    ):
        stale = body | {"generations": {"n01": generation - 1}}
        problem(http.post(f"/v1/{path}", json=stale), 409, "balancer.concurrent_update")
    assert w.log() == before
    absent = {"nodes": ["n01"], "generations": {"n01": generation, "n09": 1}}
    assert problem(http.post("/v1/release_nodes", json=absent), 400, "balancer.unknown_node")["detail"] == (
        "generations: there is no node n09"
    )
    current = {"nodes": ["n01"], "generations": {"n01": generation}}
    assert http.post("/v1/release_nodes", json=current).status_code == 200
    assert http.get("/v1/nodes/n01").get_json()["generation"] == generation + 1


def test_more_waiting_requests_or_reserves_than_the_limit_are_told_to_come_later(api):
    w, http = api(nodes=1, max_waiting_requests=1, max_reserves=1)
    w.start_job("1.server", "n01")
    body, headers = {"nodes": 1, "wait_s": 600}, {"Prefer": "respond-async", "Idempotency-Key": "k1"}
    assert http.post("/v1/request_nodes", json=body, headers=headers).status_code == 202
    assert http.post("/v1/add_reserve", json={"nodes": 1, "notice_s": 60}).status_code == 200
    before = w.log()
    response = http.post("/v1/request_nodes", json=body)
    problem(response, 503, "balancer.too_many_waiting")
    assert response.headers["Retry-After"] == "10"
    problem(
        http.post("/v1/add_reserve", json={"nodes": 1, "notice_s": 60}), 503, "balancer.too_many_reserves"
    )
    assert w.log() == before
    assert http.post("/v1/request_nodes", json=body, headers=headers).status_code == 202, (
        "a retry gets through"
    )


def test_a_body_beyond_the_limit_is_refused_unread(api):
    w, _ = api(nodes=1)
    http = create_app(w.engine, max_body_bytes=1024).test_client()
    given = http.post("/v1/request_nodes", data=b" " * 1025, content_type="application/json")
    problem(given, 413, "balancer.too_large")
    chunked = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    body = b'{"nodes": 1' + b" " * 2000 + b"}"
    response = http.post(
        "/v1/request_nodes", data=body, content_type="application/json", environ_overrides=chunked
    )
    problem(response, 413, "balancer.too_large")


def test_requests_are_paged_newest_first(api):
    _, http = api(nodes=3, reserve=3)
    made = [http.post("/v1/request_nodes", json={"nodes": 1}).get_json()["id"] for _ in range(3)]
    page = http.get("/v1/requests?limit=2").get_json()
    assert [each["id"] for each in page["requests"]] == made[:0:-1]
    rest = http.get(page["links"][0]["href"]).get_json()
    assert [each["id"] for each in rest["requests"]] == made[:1]


def test_history_counts_by_slot_of_arrival(api):
    w, http = api(nodes=3, reserve=3)
    http.post("/v1/request_nodes", json={"nodes": 2})
    http.post("/v1/request_nodes", json={"nodes": 9})
    w.clock.advance_to(w.clock.now_us() + micros(100))
    http.post("/v1/request_nodes", json={"nodes": 1})
    slots = http.get("/v1/history?slot_s=100&start=1970-01-01T00:16:40Z").get_json()["slots"]
    names = ("requests", "nodes_requested", "nodes_granted", "nodes_rejected", "largest_request")
    assert [tuple(slot[name] for name in names) for slot in slots] == [(2, 11, 2, 9, 9), (1, 1, 1, 0, 1)]


def test_events_are_numbered_and_carry_the_request_id_that_caused_them(api):
    _, http = api(nodes=1, reserve=1)
    headers = {"X-OpenStack-Request-Id": "req-11111111-2222-3333-4444-555555555555"}
    assert (
        http.post("/v1/request_nodes", json={"nodes": 1}, headers=headers).headers.get(
            "X-OpenStack-Request-Id"
        )
        == headers["X-OpenStack-Request-Id"]
    )
    events = http.get("/v1/events").get_json()["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["id"] == headers["X-OpenStack-Request-Id"]
    assert http.get(f"/v1/events?after={len(events)}").get_json()["events"] == []


def test_what_a_call_leads_to_later_carries_its_id_too(api):
    w, http = api(nodes=1)
    given = "req-11111111-2222-3333-4444-555555555555"
    http.post("/v1/request_nodes", json={"nodes": 1}, headers={"X-OpenStack-Request-Id": given})
    w.settled()
    events = http.get("/v1/events").get_json()["events"]
    assert [event["kind"] for event in events if event["id"] == given] == [
        "nodes_requested",
        "nodes_reclaimed",
    ]
    strange = http.get("/v1/nodes", headers={"X-OpenStack-Request-Id": "<script>"})
    assert re.fullmatch(r"req-[0-9a-f-]{36}", strange.headers["X-OpenStack-Request-Id"])


def test_events_can_be_followed_as_a_stream(api):
    _, http = api(nodes=1, reserve=1)
    response = http.get("/v1/events", headers={"Accept": "text/event-stream"})
    chunks = response.iter_encoded()
    assert next(chunks).startswith(b":")
    first = next(chunks).decode().splitlines()
    assert first[:2] == ["id: 1", "event: started"]
    assert json.loads(first[2].removeprefix("data: "))["kind"] == "started"
    response.close()


def test_a_stream_goes_on_after_the_last_event_the_caller_has_seen(api):
    _, http = api(nodes=1, reserve=1)
    newest = http.get("/v1/events").get_json()["events"][-1]["seq"]
    http.post("/v1/request_nodes", json={"nodes": 1})
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(newest)}
    response = http.get("/v1/events", headers=headers)
    chunks = response.iter_encoded()
    next(chunks)
    assert next(chunks).decode().splitlines()[0] == f"id: {newest + 1}"
    response.close()
    bad = http.get("/v1/events", headers=headers | {"Last-Event-ID": "last"})
    problem(bad, 400, "balancer.invalid_request")


def test_going_on_after_events_that_were_forgotten_is_an_error_and_not_a_hole(api):
    w, http = api(nodes=1, reserve=1)
    w.engine._writer.forget(answers_before_us=0, events_before_us=w.clock.now_us() + 1)
    oldest = http.get("/v1/events").get_json()["events"][0]["seq"]
    assert oldest > 2
    for headers in ({}, {"Accept": "text/event-stream"}):
        body = problem(http.get("/v1/events?after=1", headers=headers), 410, "balancer.events_forgotten")
        assert body["oldest"] == oldest


def test_going_on_after_an_event_that_the_ledger_does_not_have_is_an_error_and_not_silence(api):
    w, http = api(nodes=1, reserve=1)
    newest = w.engine.ledger.last_seq()
    assert http.get(f"/v1/events?after={newest}").get_json()["events"] == []
    for headers in ({}, {"Accept": "text/event-stream", "Last-Event-ID": str(newest + 1)}):
        body = problem(
            http.get(f"/v1/events?after={newest + 1}", headers=headers), 410, "balancer.events_forgotten"
        )
        assert body["detail"] == (
            f"the newest event is {newest}: the ledger was put back, or is another; begin with after=0"
        )


def test_health_says_why_it_is_not_ready(api, tmp_path):
    w, _ = api(nodes=1)
    http = create_app(w.engine, disable_file=str(tmp_path / "off")).test_client()
    assert [http.get(path).status_code for path in ("/livez", "/readyz", "/healthz", "/healthcheck")] == [
        200
    ] * 4
    (tmp_path / "off").touch()
    assert http.get("/healthz").status_code == http.get("/healthcheck").status_code == 503
    w.clock.advance_to(w.clock.now_us() + micros(10))
    w.engine._writer.is_stopping = True
    assert http.get("/readyz").get_data(as_text=True) == "it is stopping\n"


def test_metrics_have_the_published_names(api):
    w, http = api(nodes=2, reserve=1, reserve_rule=ReserveRule.REFILLED)
    http.post("/v1/request_nodes", json={"nodes": 1})
    w.settled()  # the reserve is filled again: two nodes have moved
    text = http.get("/metrics").get_data(as_text=True)
    for line in (
        'balancer_nodes{pool="on_demand",state="OD_ALLOC"} 1.0',
        'balancer_requests_total{outcome="granted"} 1.0',
        'balancer_driver_commands_total{command="reclaim",driver="fake",outcome="ok"}',
        'balancer_http_request_duration_seconds_count{code="200",method="POST",route="/v1/request_nodes"}',
        'balancer_move_duration_seconds_count{source="batch",target="on_demand"} 2.0',
        'balancer_moves_total{outcome="done",source="batch",target="on_demand"} 2.0',
        "balancer_ledger_commit_duration_seconds_count",
        "balancer_reconcile_last_success_timestamp_seconds 1000.0",
        "balancer_leader 1.0",
        "balancer_build_info{version=",
    ):
        assert line in text
    assert "n01" not in text


def test_programs_get_the_versions_at_the_root_and_unknown_ones_are_refused(api):
    _, http = api(nodes=1)
    versions = http.get("/", headers={"Accept": "application/json"}).get_json()["versions"]
    assert versions[0]["max_version"] == "1.0"
    assert http.get("/v1/nodes", headers={"OpenStack-API-Version": "balancer latest"}).status_code == 200
    assert http.get("/v1/").get_json() == {"version": versions[0]}
    assert http.get("/v1/nodes").headers["OpenStack-API-Version"] == "balancer 1.0"
    others = {"OpenStack-API-Version": "compute 2.1, balancerx 7"}
    assert http.get("/v1/nodes", headers=others).status_code == 200
    for wanted in ("balancer 9.0", "balancer 0.9", "balancer new", "compute 2.1, balancer 1.1"):
        response = http.get("/v1/nodes", headers={"OpenStack-API-Version": wanted})
        body = problem(response, 406, "balancer.version_not_supported")
        assert (body["min_version"], body["max_version"]) == ("1.0", "1.0")


def test_the_committed_openapi_document_is_current():
    committed = (ROOT / "docs" / "balancer" / "openapi.json").read_text(encoding="utf-8")
    assert committed == openapi_text(), "run: balancer openapi > docs/balancer/openapi.json"


def test_every_error_in_the_document_is_a_problem_and_every_body_required():
    spec = json.loads(openapi_text())
    health = ("/livez", "/readyz", "/healthz", "/healthcheck")
    for path, item in spec["paths"].items():
        for operation in item.values():
            assert operation.get("requestBody", {"required": True})["required"]
            for status, response in operation["responses"].items():
                if status[0] in "45":
                    assert list(response["content"]) == ["text/plain" if path in health else MEDIA_TYPE]
