"""Calls of the API are found and answered as the framework would, without it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from balancer.api.call import path_of
from balancer.api.operations import Routes
from balancer.app import create_app, openapi_text, operations

DOCUMENT = json.loads(openapi_text())
OPERATIONS = {
    f"{method.upper()} {path.replace('{', '<').replace('}', '>')}"
    for path, item in DOCUMENT["paths"].items()
    for method in item
}
ROUTES = Routes(operations())
PARTS = sorted({part for route in OPERATIONS for part in route.split(" ")[1].split("/")} | {"n01", "a b"})
PATHS = st.lists(st.sampled_from(PARTS), max_size=6).map("/".join)


@pytest.fixture(scope="module")
def app():
    """Without an engine: nothing is called."""
    return create_app(None)


@pytest.fixture
def site(world):
    w = world(nodes=2, reserve=1)
    w.settled()
    return create_app(w.engine)


def test_no_call_of_the_document_needs_the_framework(site, monkeypatch):
    def asked(environ, _):
        raise AssertionError(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")

    monkeypatch.setattr(site.wsgi_app, "_framework", asked)
    http = site.test_client()
    for operation in OPERATIONS:
        method, path = operation.split(" ")
        more = {"json": {}} if method == "POST" else {}
        assert http.open(path.replace("<name>", "n01"), method=method, **more).status_code < 500
        if method == "GET":
            assert http.head(path).status_code < 500


@given(
    path=st.one_of(PATHS, PATHS.map("/".__add__)),
    method=st.sampled_from(["GET", "HEAD", "POST", "DELETE", "PUT"]),
)
def test_a_path_leads_where_the_framework_would_lead_it(app, path, method):
    try:
        rule, arguments = app.url_map.bind("balancer").match(path, method, return_rule=True)
        wanted = rule.rule, arguments
    except (HTTPException, RequestRedirect):
        wanted = None
    operation, named = ROUTES.find(method, path_of({"PATH_INFO": path}))
    if wanted is not None and f"{'GET' if method == 'HEAD' else method} {wanted[0]}" in OPERATIONS:
        assert operation is not None
        assert (operation.route, named) == wanted
    else:
        assert operation is None


def test_a_head_has_the_headers_of_a_get_and_no_body(site):
    http = site.test_client()
    head, get = http.head("/v1/nodes"), http.get("/v1/nodes")
    changing = {"X-OpenStack-Request-Id"}
    assert head.data == b""
    assert {k: v for k, v in head.headers if k not in changing} == {
        k: v for k, v in get.headers if k not in changing
    }
    assert int(head.headers["Content-Length"]) == len(get.data) > 0


def test_pages_and_calls_carry_the_same_headers(site):
    http = site.test_client()
    of_page, of_call = http.get("/login").headers, http.get("/v1/status").headers
    own = {"Content-Type", "Content-Length"}
    assert set(of_page.keys()) - own == set(of_call.keys()) - own
    of_nothing = http.get("/nothing").headers
    assert set(of_nothing.keys()) - own == set(of_call.keys()) - own
