"""Every call of the API is found and answered by the framework, with the same around each answer."""

from __future__ import annotations

import json

import pytest

from balancer.http.app import create_app, openapi_text

DOCUMENT = json.loads(openapi_text())
OPERATIONS = {
    f"{method.upper()} {path.replace('{', '<').replace('}', '>')}"
    for path, item in DOCUMENT["paths"].items()
    for method in item
}


@pytest.fixture
def site(world):
    w = world(nodes=2, reserve=1)
    w.settled()
    return create_app(w.engine, max_streams=1)


def test_every_call_of_the_document_is_a_route_of_the_framework(site):
    routes = {f"{method} {rule.rule}" for rule in site.url_map.iter_rules() for method in rule.methods or ()}
    assert routes >= OPERATIONS


def test_every_call_answers(site):
    http = site.test_client()
    for operation in OPERATIONS:
        method, path = operation.split(" ")
        more = {"json": {}} if method == "POST" else {}
        assert http.open(path.replace("<name>", "n01"), method=method, **more).status_code < 500
        if method == "GET":
            assert http.head(path).status_code < 500


def test_a_head_has_the_headers_of_a_get_and_no_body(site):
    http = site.test_client()
    head, get = http.head("/v1/nodes"), http.get("/v1/nodes")
    changing = {"X-OpenStack-Request-Id"}
    assert head.data == b""
    assert {k: v for k, v in head.headers if k not in changing} == {
        k: v for k, v in get.headers if k not in changing
    }
    assert int(head.headers["Content-Length"]) == len(get.data) > 0


def test_a_head_of_the_stream_leaves_its_place_to_the_next(site):
    http = site.test_client()
    for _ in range(2):
        with http.head("/v1/events", headers={"Accept": "text/event-stream"}) as answer:
            assert answer.status_code == 200


def test_pages_and_calls_carry_the_same_headers(site):
    http = site.test_client()
    of_page, of_call = http.get("/login").headers, http.get("/v1/status").headers
    own = {"Content-Type", "Content-Length"}
    assert set(of_page.keys()) - own == set(of_call.keys()) - own
    of_nothing = http.get("/nothing").headers
    assert set(of_nothing.keys()) - own == set(of_call.keys()) - own
