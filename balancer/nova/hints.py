"""A hint says: look now. One datagram, which may get lost: the agent looks anyway, later."""

from __future__ import annotations

import socket
import threading
from typing import Self

_HINT = b"look"


def parse_address(address: str) -> tuple[str, int]:
    """`host:port`. Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) <= 65_535:  # noqa: PLR2004
        raise ValueError(f"{address} is no address: give host:port, 127.0.0.1:8092 say")
    return host.strip("[]"), int(port)


class HintSender:
    """Never waits and never raises: Nova has other things to do."""

    def __init__(self, address: str) -> None:
        host, port = parse_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._to = (host, port)

    def send(self) -> bool:
        """Whether it was sent; whether it arrived nobody knows."""
        try:
            self._socket.sendto(_HINT, self._to)
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class HintReceiver:
    """`address`: port 0 is a free one; None: no hint ever comes."""

    def __init__(self, address: str | None = None) -> None:
        host, port = parse_address(address or "127.0.0.1:0")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind((host, port))
        self._pause = threading.Event()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}"

    def wait(self, timeout_s: float) -> bool:
        """Whether there was a hint within that time; those that came meanwhile count as one."""
        self._socket.settimeout(timeout_s)
        try:
            self._socket.recv(64)
        except TimeoutError:
            return False
        self._socket.setblocking(False)
        try:
            while self._socket.recv(64):
                pass
        except BlockingIOError:
            return True
        return True

    def pause(self, wait_s: float) -> None:
        """Wait, hints or not."""
        self._pause.wait(wait_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
