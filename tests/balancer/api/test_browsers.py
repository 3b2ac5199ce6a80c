"""Other people's web pages: what a browser sends for them changes nothing and gets no answer."""

from __future__ import annotations

import pytest

from balancer.http.app import create_app


@pytest.fixture
def http(world):
    return create_app(world(nodes=2, reserve=1).engine, hosts={"localhost", "balancer.site"}).test_client()


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_page_can_post_without_asking_is_no_call(http, kind):
    answer = http.post("/v1/request_nodes", data=b'{"nodes": 1}', content_type=kind)
    assert (answer.status_code, answer.json["code"]) == (415, "balancer.unsupported_media_type")


def test_json_with_a_character_set_is_json(http):
    answer = http.post(
        "/v1/request_nodes", data=b'{"nodes": 1}', content_type="application/json; charset=utf-8"
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:8090", "127.0.0.1.evil.example", "localhost.evil.example"]
)
@pytest.mark.parametrize("path", ["/", "/v1/nodes", "/metrics", "/openapi.json"])
def test_a_page_whose_name_was_pointed_here_gets_nothing(http, name, path):
    answer = http.get(path, headers={"Host": name})
    assert (answer.status_code, answer.json["code"]) == (403, "balancer.foreign_host")


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST:8090", "balancer.site", "127.0.0.1:8090", "[::1]:8090", "10.1.2.3"]
)
def test_own_names_and_addresses_are_served(http, name):
    assert http.get("/v1/nodes", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:81", "file://", "https://localhost.evil.example"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_origin_is_refused(http, origin, method):
    answer = http.open(
        "/v1/request_nodes" if method == "POST" else "/v1/nodes",
        method=method,
        headers={"Origin": origin, "Host": "localhost:80"},
        json={"nodes": 1} if method == "POST" else None,
    )
    assert (answer.status_code, answer.json["code"]) == (403, "balancer.foreign_origin")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost", "localhost"),
        ("http://localhost:8090", "localhost:8090"),
        ("https://balancer.site", "balancer.site"),
    ],
)
def test_the_own_origin_is_served(http, origin, host):
    answer = http.post("/v1/request_nodes", json={"nodes": 1}, headers={"Origin": origin, "Host": host})
    assert answer.status_code == 200


def test_a_post_that_the_browser_says_comes_from_another_site_is_refused(http):
    answer = http.post("/v1/request_nodes", json={"nodes": 1}, headers={"Sec-Fetch-Site": "cross-site"})
    assert (answer.status_code, answer.json["code"]) == (403, "balancer.foreign_origin")


@pytest.mark.parametrize("path", ["/", "/login", "/v1/nodes", "/nowhere"])
def test_every_answer_says_what_a_browser_may_do_with_it(http, path):
    headers = http.get(path, headers={"Accept": "text/html, application/json"}).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")
    assert (headers["Referrer-Policy"], headers["Cache-Control"]) == ("no-referrer", "no-store")


def test_the_pages_carry_no_script_or_style_that_the_policy_forbids(http):
    for path in ("/", "/login"):
        text = http.get(path, headers={"Accept": "text/html"}).text
        assert "<style" not in text
        assert " style=" not in text
        assert "<script>" not in text
        assert " onclick=" not in text


@pytest.mark.parametrize("body", [b'{"nodes": 1, "nodes": 2}', b'{"nodes": 1, "wait_s": 0, "nodes": 1}'])
def test_a_key_given_twice_is_named(http, body):
    answer = http.post("/v1/request_nodes", data=body, content_type="application/json")
    assert (answer.status_code, answer.json["detail"]) == (400, "nodes: the key is given twice")


def test_a_node_given_twice_in_an_object_is_named(http):
    body = b'{"states": {"n01": "busy", "n01": "idle"}}'
    answer = http.post("/v1/update_nodes", data=body, content_type="application/json")
    assert (answer.status_code, answer.json["detail"]) == (400, "n01: the key is given twice")


def test_a_parameter_given_twice_is_named(http):
    answer = http.get("/v1/nodes?limit=1&limit=2")
    assert (answer.status_code, answer.json["detail"]) == (400, "limit: the parameter is given twice")


@pytest.mark.parametrize("deep", [b"[" * 200_000, b'{"a":' * 200_000, b"[" * 200_000 + b"]" * 200_000])
def test_deep_json_is_a_bad_request(http, deep):
    answer = http.post("/v1/request_nodes", data=deep, content_type="application/json")
    assert (answer.status_code, answer.json["code"]) == (400, "balancer.invalid_request")


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate, gzip", "br"])
def test_a_body_that_is_said_to_be_packed_is_refused_whether_it_is_or_not(world, coding):
    http = create_app(world(nodes=2).engine).test_client()
    answer = http.post("/v1/request_nodes", json={"nodes": 1}, headers={"Content-Encoding": coding})
    assert (answer.status_code, answer.json["code"]) == (415, "balancer.unsupported_media_type")
    plain = http.post("/v1/request_nodes", json={"nodes": 1}, headers={"Content-Encoding": "identity"})
    assert plain.status_code < 300


@pytest.mark.parametrize(
    ("charset", "status"), [("utf-8", 200), ("UTF-8", 200), ("iso-8859-1", 415), ("nonsense", 415)]
)
def test_a_body_in_another_charset_is_refused_before_it_is_read(world, charset, status):
    http = create_app(world(nodes=2).engine).test_client()
    answer = http.post(
        "/v1/request_nodes", data=b'{"nodes":1}', content_type=f"application/json; charset={charset}"
    )
    assert answer.status_code == status
