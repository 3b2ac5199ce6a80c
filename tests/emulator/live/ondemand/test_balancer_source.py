"""Nodes from a Balancer that says what the test wants."""

from __future__ import annotations

import json
from threading import Thread

import pytest
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from emulator.live.ondemand.nodes import (
    BalancerSource,
    Granted,
    Refused,
    SourceRefusedError,
    SourceUnreachableError,
    Waiting,
)

pytestmark = pytest.mark.live


class FakeBalancer:
    def __init__(self):
        self.answers = []
        self.calls = []
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @Request.application
    def answer(self, request):
        body = json.loads(request.get_data() or "null")
        wanted = {
            name: request.headers[name] for name in ("Prefer", "Idempotency-Key") if name in request.headers
        }
        self.calls.append((request.method, request.full_path.rstrip("?"), body, wanted))
        status, document = self.answers.pop(0)
        return Response(json.dumps(document), status=status, content_type="application/json")


@pytest.fixture
def balancer():
    fake = FakeBalancer()
    thread = Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield fake
    fake.server.shutdown()
    thread.join()
    fake.server.server_close()


def request_json(state, nodes=(), decided_at=None, reason=""):
    return {"id": "r1", "state": state, "nodes": list(nodes), "decided_at": decided_at, "reason": reason}


def test_a_request_is_sent_with_its_key_and_does_not_block(balancer):
    balancer.answers = [(200, request_json("granted", ["n1", "n2"], "1970-01-01T00:01:40.000001Z"))]
    source = BalancerSource(balancer.url, wait_s=600)
    assert source.request(2, "k") == Granted(("n1", "n2"), 100_000_001)
    assert balancer.calls == [
        (
            "POST",
            "/v1/request_nodes",
            {"nodes": 2, "wait_s": 600},
            {"Prefer": "respond-async", "Idempotency-Key": "k"},
        )
    ]


def test_a_waiting_request_is_asked_about_until_it_is_decided(balancer):
    balancer.answers = [(202, request_json("waiting")), (200, request_json("waiting"))]
    balancer.answers += [(200, request_json("rejected", reason="the wait is over"))]
    source = BalancerSource(balancer.url)
    assert source.request(1, "k") == Waiting("r1")
    assert source.poll("r1", 10) == Waiting("r1")
    assert source.poll("r1", 0) == Refused("the wait is over")
    assert balancer.calls[1][1] == "/v1/requests/r1?wait_s=10"


def test_fewer_nodes_are_asked_for_within_what_is_left_of_the_wait(balancer):
    larger = request_json("withdrawn", decided_at="1970-01-01T00:01:40Z", reason="withdrawn")
    balancer.answers = [
        (200, larger | {"deadline_at": "1970-01-01T00:06:10.5Z"}),
        (202, request_json("waiting") | {"id": "r2"}),
    ]
    assert BalancerSource(balancer.url, wait_s=600).ask_for_fewer("r1", 2, "k", ("n9",)) == Waiting("r2")
    headers = {"Prefer": "respond-async", "Idempotency-Key": "k"}
    assert balancer.calls == [
        ("DELETE", "/v1/requests/r1", None, {}),
        ("POST", "/v1/request_nodes", {"nodes": 2, "exclude": ["n9"], "wait_s": 270.5}, headers),
    ]


@pytest.mark.parametrize(
    ("decided", "answer"),
    [
        (request_json("granted", ["n1", "n2"], "1970-01-01T00:01:40Z"), Granted(("n1", "n2"), 100_000_000)),
        (request_json("rejected", reason="the wait is over"), Refused("the wait is over")),
    ],
)
def test_a_request_that_is_decided_is_not_made_smaller(balancer, decided, answer):
    balancer.answers = [(200, decided)]
    assert BalancerSource(balancer.url).ask_for_fewer("r1", 1, "k") == answer


def test_a_request_that_cannot_be_met_is_refused_with_the_balancers_words(balancer):
    balancer.answers = [(409, {"code": "balancer.not_obtainable", "detail": "2 of 9 nodes"})]
    assert BalancerSource(balancer.url).request(9, "k") == Refused("balancer.not_obtainable: 2 of 9 nodes")


def test_nodes_are_released_once_under_their_key(balancer):
    balancer.answers = [
        (200, {"nodes": ["n1"]}),
        (409, {"code": "balancer.node_not_allocated", "detail": "n1"}),
    ]
    source = BalancerSource(balancer.url)
    source.release(("n1",), "k1")
    assert balancer.calls[0] == (
        "POST",
        "/v1/release_nodes",
        {"nodes": ["n1"]},
        {"Idempotency-Key": "k1"},
    )
    with pytest.raises(SourceRefusedError, match=r"balancer\.node_not_allocated: n1"):
        source.release(("n1",), "k2")


def test_a_balancer_that_fails_or_is_away_is_unreachable(balancer):
    balancer.answers = [(503, {"code": "balancer.stopping", "detail": "stopping"})]
    with pytest.raises(SourceUnreachableError, match="stopping"):
        BalancerSource(balancer.url).request(1, "k")
    with pytest.raises(SourceUnreachableError):
        BalancerSource("http://127.0.0.1:9").request(1, "k")
