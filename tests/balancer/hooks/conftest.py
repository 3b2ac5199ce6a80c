"""A Balancer that says what the test says."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class FakeBalancer:
    """Answers every POST with the prepared status and problem; once `answers` is set."""

    def __init__(self) -> None:
        self.status = 200
        self.code = ""
        self.body: bytes | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.seen: list[tuple[str, dict]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"]))
                fake.seen.append((self.path, json.loads(text)))
                fake.answers.wait()
                body = fake.body or json.dumps({"code": fake.code, "detail": "n02 is OD_ALLOC"}).encode()
                self.send_response(fake.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.answers.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def fake(monkeypatch):
    server = FakeBalancer()
    monkeypatch.setenv("BALANCER_URL", server.url)
    monkeypatch.setenv("BALANCER_HOOK_DEADLINE_S", "2")
    yield server
    server.close()
