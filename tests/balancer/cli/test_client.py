"""The Python client outlives a restart of the service, and leaves no request behind when it is interrupted."""

from __future__ import annotations

import math
import signal
import ssl
import subprocess
import sys
from urllib.parse import unquote

import pytest
import requests

import balancer.client
from balancer.client import Balancer, Refused, Unreachable, of_environment
from balancer.client_records import Node, node_of
from balancer.clock import US
from polling import until
from service_kit import running


@pytest.fixture
def away(monkeypatch):
    """`away(client, for_s)`: its service is away for so long, by a clock that its pauses move; the calls."""

    def make(client, for_s):
        now_us = [0]
        calls = []

        class Pause:
            def wait(self, pause_s):
                now_us[0] += round(pause_s * US)

        def send(method, url, **more):
            calls.append((method, more["headers"]["Idempotency-Key"]))
            if now_us[0] < for_s * US:
                raise requests.ConnectionError("connection refused")
            answer = requests.Response()
            answer.status_code, answer._content = 200, b'{"nodes": []}'
            return answer

        monkeypatch.setattr(balancer.client, "wall_us", lambda: now_us[0])
        monkeypatch.setattr(client, "_pause", Pause())
        monkeypatch.setattr(client._session, "request", send)
        return calls

    return make


def test_a_call_outlives_a_service_that_is_away_for_60_s_and_is_the_same_call_each_time(away):
    with Balancer("http://gone") as client:
        calls = away(client, 60.0)
        client.release_nodes(["n01"])
    assert len(calls) > 3
    assert len(set(calls)) == 1


@pytest.mark.parametrize(
    ("made", "call", "said"),
    [
        ({"token": "secret\n2"}, Balancer.status, "a header"),
        ({"token": "\u65e5"}, Balancer.status, "a header"),
        ({"name": "a\nb"}, Balancer.status, "a header"),
        ({}, lambda client: client.request_nodes(1, wait_s=math.nan), "not JSON compliant"),
        ({"url": "gone"}, Balancer.status, "No scheme supplied"),
        ({"url": "ftp://gone"}, Balancer.status, "No connection adapters"),
    ],
)
def test_a_call_that_cannot_be_sent_is_refused_at_once_and_shows_no_token(made, call, said):
    with (
        Balancer(**({"url": "http://127.0.0.1:1"} | made)) as client,
        pytest.raises(Refused, match=f"the call cannot be sent: .*{said}") as refused,
    ):
        call(client)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "inner", [ssl.SSLError(1, "[SSL] PEM lib"), UnicodeDecodeError("idna", b"", 0, 1, "x")]
)
def test_an_error_whose_reason_is_a_word_is_told_too(away, monkeypatch, inner):
    def fails(*_: object, **__: object) -> None:
        raise requests.exceptions.SSLError(inner)

    with Balancer("https://gone", patience_s=0.0) as client:
        away(client, 1.0)
        monkeypatch.setattr(client._session, "request", fails)
        with pytest.raises(Unreachable, match=r"^no answer from https://gone: .+"):
            client.release_nodes(["n01"])


@pytest.mark.parametrize("name", ["../nodes", "n 1?limit=1", "r1#", "%2e", "\u00e9"])
def test_what_is_named_in_a_path_is_one_part_of_it(name, monkeypatch):
    asked = []

    def send(_method, url, **_):
        asked.append(url)
        raise requests.ConnectionError

    with Balancer("http://gone", patience_s=0.0) as client:
        monkeypatch.setattr(client._session, "request", send)
        for call in (client.node, client.request, client.withdraw_reserve):
            with pytest.raises(Unreachable):
                call(name)
            with pytest.raises(Refused, match="names nothing"):
                call("")
    assert [unquote(url.rpartition("/")[2]) for url in asked] == [name] * 3


def test_a_client_of_the_environment_says_who_calls(monkeypatch):
    monkeypatch.setenv("BALANCER_CLIENT", "planner")
    monkeypatch.delenv("BALANCER_TOKEN", raising=False)
    with of_environment("http://gone", patience_s=1.0) as client:
        assert client._session.headers["X-Balancer-Client"] == "planner"


def test_a_service_that_stays_away_is_given_up_after_the_patience(away):
    with Balancer("http://gone", patience_s=10.0) as client:
        away(client, 3600.0)
        with pytest.raises(Unreachable, match="connection refused"):
            client.release_nodes(["n01"])


# A process that begins in the background of a shell ignores Ctrl-C; people's do not.
_IN_FRONT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


@pytest.mark.slow
def test_ctrl_c_while_waiting_leaves_no_request(service):
    site = service(1)
    site.start("--wait-s", "600")
    with site.client() as client:
        site.start_job(client, "1.server", "n01")
        with subprocess.Popen(
            [sys.executable, "-c", f"{_IN_FRONT}; from balancer.cli import main; main()", "request", "1"],
            env=site.environment | {"BALANCER_URL": site.url},
            stderr=subprocess.DEVNULL,
        ) as asking:
            until(lambda: client.requests(state="waiting") != [])
            asking.send_signal(signal.SIGINT)
            assert asking.wait(60) != 0
        (request,) = client.requests()
        assert request.state == "withdrawn"


@pytest.mark.slow
def test_a_waiting_client_gets_its_node_after_a_kill_and_a_restart(service):
    site = service(1)
    site.start("--wait-s", "600")
    port = site.url.rpartition(":")[2]
    with site.client() as client, site.client() as hook:
        site.start_job(hook, "1.server", "n01")
        with running(lambda: client.request_nodes(1)) as granted:
            until(lambda: hook.requests(state="waiting") != [])
            site.kill()
            site.start("--wait-s", "600", "--port", port)
            site.end_job(hook, "1.server", "n01")
        (request,) = granted
        assert (request.state, request.nodes, request.confirmed) == ("granted", ("n01",), True)
        assert [each.id for each in hook.requests()] == [request.id]


def test_a_node_of_a_service_of_0_3_is_told_in_the_words_of_this_one():
    body = {
        "name": "n1", "state": "HELD", "pool": "held", "since": "1970-01-01T00:00:05Z", "generation": 2,
        "request_id": None, "jobs": [], "reported": None,
    }  # fmt: skip
    assert node_of(body) == Node(
        name="n1", state="QUARANTINED", pool="quarantined", since_s=5.0, generation=2, request_id=None, jobs=(),
        contested="", reported=None, note="",
    )  # fmt: skip
