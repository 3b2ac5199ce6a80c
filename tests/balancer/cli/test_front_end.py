"""Callers that are slow, idle, gone or confused: nobody else notices, and nothing half is taken for whole (I24)."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from balancer.clock import seconds, wall_us
from balancer.http.app import openapi_text

if TYPE_CHECKING:
    from pathlib import Path
from polling import until

_HEAD = b"POST /v1/request_nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

_REQUIRED = json.loads(openapi_text())["components"]["schemas"]["Problem"]["required"]

_APP = """
import asyncio, gc, signal, sys, threading, time
from pathlib import Path
from balancer.http import front_end
from balancer.api.call import CLIENT_IS_GONE
from balancer.limits import Limits
from balancer.console.serve import listen, url_of

folder = Path(sys.argv[1])
go_on = threading.Event()
until_told = folder / "closes_until"

def app(environ, start):
    path = environ["PATH_INFO"]
    if path == "/gone":
        (folder / "asked").touch()
        while not environ[CLIENT_IS_GONE]():
            time.sleep(0.01)
        (folder / "gone").touch()
    if path == "/here":
        (folder / "here").write_text(str(environ[CLIENT_IS_GONE]()))
    if path == "/watched":
        gc.collect()
        tasks = [each.get_coro().__name__ for each in gc.get_objects() if isinstance(each, asyncio.Task)]
        start("200 OK", [("Content-Type", "text/plain"), ("X-Watched", str(tasks.count("_disconnected")))])
        return [b""]
    if path == "/block":
        (folder / "blocked").touch()
        go_on.wait(30)
    body = environ["wsgi.input"].read()
    start("200 OK", [("Content-Type", "text/plain")])
    return [str(len(body)).encode()]

listener = listen("127.0.0.1", 0)
url = url_of(listener)
limits = Limits(threads=2, health_threads=1, hook_threads=1, header_s=1, body_s=1, max_body_bytes=1000)
asyncio.run(
    front_end.serve(
        app, [listener], limits, tls=None, on_ready=lambda: (folder / "url").write_text(url), on_stop=go_on.set
    )
)
if until_told.exists():
    (folder / "closing").touch()
    while until_told.exists():
        time.sleep(0.01)
front_end.end_process()
"""


class Bare:
    """The front end before an application that does as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen([sys.executable, "-c", _APP, str(folder)])
        until(lambda: (folder / "url").exists() and (folder / "url").read_text(encoding="utf-8"))
        self.port = int((folder / "url").read_text(encoding="utf-8").rpartition(":")[2])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def send(self, data: bytes, *, half: bool = False) -> bytes:
        """What comes back until the connection ends, or for a second after the last of it."""
        with closing(self.connect()) as caller:
            caller.sendall(data)
            if half:
                caller.shutdown(socket.SHUT_WR)
            caller.settimeout(5)
            return caller.recv(65536)


@pytest.fixture
def bare(tmp_path):
    made = Bare(tmp_path)
    yield made
    made.process.terminate()
    assert made.process.wait(30) == 0


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One for all who only ask."""
    made = Bare(tmp_path_factory.mktemp("front"))
    yield made
    made.process.terminate()
    assert made.process.wait(30) == 0


@pytest.mark.live
def test_of_a_call_that_is_answered_nothing_is_kept_while_its_connection_stays(bare):
    """A client that asks again and again over one connection for days: each answer left a task behind it once."""
    with closing(http.client.HTTPConnection("127.0.0.1", bare.port, timeout=30)) as caller:

        def ask(path):
            caller.request("GET", path)
            answer = caller.getresponse()
            answer.read()
            return answer.getheader("X-Watched")

        for _ in range(50):
            ask("/here")
        assert (bare.folder / "here").read_text(encoding="utf-8") == "False"
        until(lambda: ask("/watched") == "0")


@pytest.mark.live
def test_a_handler_can_tell_whether_its_caller_has_hung_up(bare):
    with closing(bare.connect()) as caller:
        caller.sendall(b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n")
        assert caller.recv(100).startswith(b"HTTP/1.1 200")
    assert (bare.folder / "here").read_text(encoding="utf-8") == "False"
    with closing(bare.connect()) as caller:
        caller.sendall(b"GET /gone HTTP/1.1\r\nHost: a\r\n\r\n")
        until((bare.folder / "asked").exists)
        assert not (bare.folder / "gone").exists()
    until((bare.folder / "gone").exists)


@pytest.mark.live
def test_calls_that_block_leave_health_and_hooks_their_threads(bare):
    with ExitStack() as stack:
        for _ in range(4):
            caller = stack.enter_context(closing(bare.connect()))
            caller.sendall(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
        until((bare.folder / "blocked").exists)
        assert bare.send(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").startswith(b"HTTP/1.1 200")
        hook = b"POST /v1/update_nodes HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        assert bare.send(hook).startswith(b"HTTP/1.1 200")


@pytest.mark.live
def test_a_call_under_way_is_answered_when_the_service_is_told_to_end(bare):
    with closing(bare.connect()) as caller:
        caller.sendall(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
        until((bare.folder / "blocked").exists)
        bare.process.terminate()
        assert caller.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.live
@pytest.mark.parametrize("again", ["SIGTERM", "SIGINT"])
def test_a_service_that_is_told_to_end_again_closes_what_is_its_own_first(bare, again):
    until_told = bare.folder / "closes_until"
    until_told.touch()
    bare.process.terminate()
    until((bare.folder / "closing").exists)
    bare.process.send_signal(signal.Signals[again])
    with pytest.raises(subprocess.TimeoutExpired):
        bare.process.wait(0.3)
    until_told.unlink()
    assert bare.process.wait(30) == 0


@pytest.mark.live
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", b"411"),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n", b"411"),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", b"400"),
        (b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
        (b"GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\nAuthorization: y\r\n\r\n", b"400"),
        (b"GET /x HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
        (b"GET /x HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", b"431"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_what_cannot_be_told_for_certain_is_refused(shared, request_, status):
    answer = shared.send(request_)
    assert answer[9:12] == status
    if b"application/problem+json" in answer.lower():
        document = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert document.keys() >= {*_REQUIRED}
        assert document["instance"].startswith("/")
        assert document["errors"][0]["request_id"] == document["request_id"]


@pytest.mark.live
def test_a_body_that_breaks_off_is_no_call_and_a_slow_one_times_out(bare):
    begun = b"POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345"
    bare.send(begun, half=True)
    assert bare.send(begun)[9:12] == b"408"
    assert not (bare.folder / "asked").exists()
    assert bare.send(b"GET /slow HTTP/1.1\r\nHo") == b""


@pytest.mark.live
def test_the_largest_body_is_read_whole_and_a_larger_one_is_not_read(shared):
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    assert shared.send(head % 1000 + bytes(1000)).endswith(b"1000")
    assert shared.send(head % 1001).endswith(b"\r\n\r\n0")


@pytest.mark.slow
@pytest.mark.live
def test_forty_slow_callers_of_each_kind_and_a_hanging_batch_system_delay_nobody(service):
    running = service(4)
    running.start("--reserve", "1", "--threads", "8", "--refresh-age-s", "0")
    pbsnodes = running.folder / "bin" / "pbsnodes"
    pbsnodes.rename(pbsnodes.with_name("pbsnodes.real"))
    pbsnodes.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    pbsnodes.chmod(0o755)
    address = ("127.0.0.1", int(running.url.rpartition(":")[2]))
    body = json.dumps({"nodes": 4}).encode()
    kinds = (
        _HEAD + b"X: ",
        _HEAD + b"Content-Length: 1000\r\n\r\n{",
        b"",
        _HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body,  # waits for the batch system
    )
    end = threading.Event()
    with ExitStack() as stack:
        slow = []
        for kind in kinds * 40:
            caller = stack.enter_context(closing(socket.create_connection(address, timeout=30)))
            caller.sendall(kind)
            slow += [caller] if kind in kinds[:2] else []

        def drip() -> None:
            while not end.wait(0.1):
                for caller in slow:
                    caller.send(b"x")

        sender = threading.Thread(target=drip)
        sender.start()
        stack.callback(sender.join)
        stack.callback(end.set)
        for path in ("/livez", "/readyz"):
            for _ in range(10):
                begin_us = wall_us()
                with closing(socket.create_connection(address, timeout=30)) as caller:
                    caller.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
                    assert caller.recv(100).startswith(b"HTTP/1.1")
                # A starved service takes as long as pbsnodes; a busy machine is not that slow.
                assert seconds(wall_us() - begin_us) < 5
    pbsnodes.with_name("pbsnodes.real").replace(pbsnodes)
    running.kill()


@pytest.mark.slow
@pytest.mark.live
def test_a_unix_socket_serves_the_same_for_those_who_may_use_its_file(service):
    running = service(2)
    path = running.folder / "balancer.sock"
    config = running.folder / "balancer.yaml"
    config.write_text(f"unix_socket: {path}\n", encoding="utf-8")
    running.start("--config", str(config))
    with closing(socket.socket(socket.AF_UNIX)) as caller:
        caller.connect(str(path))
        caller.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert caller.recv(1000).startswith(b"HTTP/1.1 200")
    assert path.stat().st_mode & 0o777 == 0o660
    running.kill()
    running.start("--config", str(config))
    assert running.stop() == 0
    assert not path.exists()
