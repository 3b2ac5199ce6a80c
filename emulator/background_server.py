"""A server of Python's own that answers in a thread while a block lasts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from socketserver import TCPServer

QUEUE = 512
"""Connections that may wait: hundreds of nodes ask at the same time."""


class Serving:
    """`server` listens already; it answers from entering to leaving."""

    def __init__(self, server: TCPServer, name: str) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)

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
