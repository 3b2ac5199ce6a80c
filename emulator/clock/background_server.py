"""A server of Python's own that answers in a thread while a block lasts, and how one of HTTP answers."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from socketserver import TCPServer

QUEUE = 512
"""Connections that may wait: hundreds of nodes ask at the same time."""


class Serving:
    """`server` listens already; it answers from entering to leaving. Every `look_s` it looks whether that has come."""

    def __init__(self, server: TCPServer, name: str, look_s: float = 0.5) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(look_s,), name=name, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class HttpServer(ThreadingHTTPServer):
    """One that hundreds of nodes may ask at the same time."""

    daemon_threads = True
    request_queue_size = QUEUE


class HttpHandler(BaseHTTPRequestHandler):
    """`speaker`: with whose name its lines in the log begin; `quiet`: statuses that are no news."""

    speaker: ClassVar[str]
    quiet: ClassVar[tuple[str, ...]] = ("200",)

    def answer_json(self, status: int, found: dict[str, Any]) -> None:
        self._answer(status, "application/json", json.dumps(found))

    def answer_text(self, status: int, text: str) -> None:
        self._answer(status, "text/plain; charset=utf-8", text)

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        if args[1:2] not in [(status,) for status in self.quiet]:
            sys.stderr.write(f"{self.speaker}: {format % args}\n")
