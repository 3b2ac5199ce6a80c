"""A Balancer that is down, hangs or talks nonsense leaves the batch system running (T17, I18)."""

from __future__ import annotations

import json
import os
import socket
import threading

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from balancer.auth.signature import Signature, node_key, sign
from balancer.clock import utc_us, wall_us
from balancer.hooks.client import HookSettings, read_keys
from balancer.hooks.torque import main, prologue

PROLOGUE = ["prologue", "39.server", "alice", "alice", "name", "nodes=1,walltime=60", "batch", "acct", "x"]
EPILOGUE = ["epilogue", "39.server"]
REFUSAL = b'{"code": "balancer.node_not_in_batch_pool", "detail": "n01 is lent"}'


class Peer:
    """Takes a connection, reads the request, says exactly `said`, and closes unless `hangs`."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.said = b""
        self.endless = False
        self.hangs = threading.Event()
        self.heard: list[bytes] = []
        self.threads: list[threading.Thread] = []
        self.acceptor = threading.Thread(target=self._accept)
        self.acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self.threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                text = b""
                while b"\r\n\r\n" not in text or not text.endswith(b"}"):
                    more = connection.recv(65536)
                    if not more:
                        return
                    text += more
                self.heard.append(text)
                connection.sendall(self.said)
                while self.endless:
                    connection.sendall(self.said)
                if self.hangs.is_set():
                    connection.recv(1)
            except OSError:
                return

    def close(self) -> None:
        self.endless = False
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in [self.acceptor, *self.threads]:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def peer(tmp_path, monkeypatch):
    made = Peer()
    (tmp_path / "nodefile").write_text("n01\nn01\n", encoding="utf-8")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodefile"))
    monkeypatch.setenv("BALANCER_URL", made.url)
    monkeypatch.setenv("BALANCER_MARKER", str(tmp_path / "marker"))
    monkeypatch.setenv("BALANCER_HOOK_KEY_FILE", str(tmp_path / "hook.key"))
    monkeypatch.setenv("BALANCER_HOOK_DEADLINE_S", "0.5")
    yield made
    made.close()


def answer(status: object, body: bytes, *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 %s X\r\nContent-Length: %d\r\n\r\n%s" % (str(status).encode(), size, body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["code", "detail", "x"]) | st.text(), inner)
    ),
)
BODIES = st.binary() | JSON.map(lambda value: json.dumps(value).encode()) | st.just(REFUSAL)
STATUSES = st.integers(-1, 1000) | st.sampled_from([200, 204, 301, 401, 403, 409, 429, 500, 503])
ANSWERS = st.binary(max_size=300) | st.builds(answer, STATUSES, BODIES)


@pytest.mark.slow
@given(said=ANSWERS)
@example(said=b"")
@example(said=answer(409, b"[" * 60_000))
@example(said=answer(409, b'{"code": ' * 30_000))
@example(said=answer(409, REFUSAL, length=10))
@example(said=b"HTTP/1.1 409 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
@example(said=b"HTTP/1.1 100 Continue\r\n\r\n" * 50)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_whatsoever_makes_a_prologue_exit_with_anything_but_0_or_2(peer, said):
    peer.said = said
    status = main(PROLOGUE)
    assert status in (0, 2)
    if status == 2:
        assert said.startswith(b"HTTP/1.1 409")
        assert b"balancer.node_not_in_batch_pool" in said
    assert main(EPILOGUE) == 0


def test_a_clear_refusal_is_still_one(peer):
    peer.said = answer(409, REFUSAL)
    assert main(PROLOGUE) == 2
    peer.said = answer(500, REFUSAL)
    assert main(PROLOGUE) == 0


@pytest.mark.parametrize("cut", range(0, len(answer(409, REFUSAL)), 7))
def test_half_a_refusal_is_none(peer, cut):
    peer.said = answer(409, REFUSAL)[:cut]
    assert main(PROLOGUE) == 0


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 409", answer(409, REFUSAL[:-1], length=len(REFUSAL))])
def test_an_answer_that_does_not_end_costs_no_more_than_the_deadline(peer, said):
    peer.said = said
    peer.hangs.set()
    start_us = wall_us()
    assert main(PROLOGUE) == 0
    assert wall_us() - start_us < 20_000_000


def test_an_answer_without_end_is_not_read_to_its_end(peer):
    peer.said, peer.endless = b"HTTP/1.1 200 X\r\n\r\n" + b"x" * 65536, True
    assert main(PROLOGUE) == 0


def test_for_as_long_as_it_is_down_jobs_start_and_end(peer, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("BALANCER_URL", f"http://127.0.0.1:{port}")
    assert [(main(PROLOGUE), main(EPILOGUE)) for _ in range(50)] == [(0, 0)] * 50


@pytest.mark.parametrize(
    "content", ["", "n01", "n01 xyz", "n01 abc", "\x00", "n01 ab cd", "n09 " + "ab" * 32, "\udcff"]
)
def test_a_key_file_that_cannot_be_used_does_not_stop_a_job(peer, tmp_path, content):
    (tmp_path / "hook.key").write_bytes(content.encode("utf-8", "surrogateescape"))
    peer.said = answer(200, b"{}")
    assert main(PROLOGUE) == 0
    assert b"Authorization" not in peer.heard[-1]


def test_a_call_is_signed_with_the_key_of_a_node_of_the_job(peer, tmp_path):
    key = node_key(b"m" * 32, "n01")
    (tmp_path / "hook.key").write_text(f"n00 {'ab' * 32}\nn01 {key.hex()}\n", encoding="utf-8")
    peer.said = answer(200, b"{}")
    before_us = utc_us()
    assert main(PROLOGUE) == 0
    head, _, body = peer.heard[-1].partition(b"\r\n\r\n")
    header = next(line for line in head.decode().splitlines() if line.startswith("Authorization: "))
    signature = Signature.parse(header.removeprefix("Authorization: "))
    assert signature == sign(key, "n01", signature.sequence_us, "/v1/update_nodes", body)
    assert before_us <= signature.sequence_us <= utc_us()


def test_a_key_is_never_said(peer, tmp_path, capsys):
    (tmp_path / "hook.key").write_text(f"n01 {'ab' * 32} extra\nn02 {'cd' * 32}\n", encoding="utf-8")
    assert main(PROLOGUE) == 0
    assert read_keys(tmp_path / "hook.key") == {"n02": "cd" * 32}
    said = capsys.readouterr()
    assert "ab" * 32 not in said.err + said.out
    assert "cd" * 32 not in said.err + said.out + repr(HookSettings.from_environment(os.environ))


@pytest.mark.parametrize("marker", ["x" * 5000, "a\x00b", ""])
def test_a_marker_that_cannot_be_looked_at_is_none(marker):
    environ = {"BALANCER_MARKER": marker, "BALANCER_URL": "http://127.0.0.1:9"}
    assert prologue(HookSettings.from_environment(environ), ["n01"], "39.server", None) == 0


@pytest.mark.parametrize("deadline", ["nan", "inf", "1e300", "-1", "0", "x"])
def test_a_strange_deadline_is_the_default_one(deadline):
    environ = {"BALANCER_HOOK_DEADLINE_S": deadline, "BALANCER_HOOK_KEY_FILE": "/nowhere"}
    assert HookSettings.from_environment(environ).deadline_s == 5.0
