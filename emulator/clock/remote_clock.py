"""A run's clock that another host serves (`clock_server.py`): like that in a file, at a question each."""

from __future__ import annotations

import json
import re
import socket
import threading
from typing import TYPE_CHECKING

from emulator.clock.clock_file import NO_LIMIT
from emulator.clock.clock_server import ANSWER, LIMIT, NOW, REQUEST, STOPPED, TURN
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock

if TYPE_CHECKING:
    from pathlib import Path

_ADDRESS = re.compile(r"([^/:\s]+):(\d+)")
_CONNECT_S = 20.0


def open_clock(where: Path | str, name: str = "") -> SharedClock:
    """The clock in a file, or at HOST:PORT. Raises ValueError for what is none, OSError for a host that is silent."""
    address = _ADDRESS.fullmatch(str(where))
    return (
        SharedClock(where, name=name) if address is None else RemoteClock((address[1], int(address[2])), name)
    )


class RemoteClock(SharedClock):
    """See the module's text. A connection that breaks ends whoever uses the clock, with OSError."""

    def __init__(self, address: tuple[str, int], name: str = "") -> None:
        self._asking = threading.Lock()
        self._socket = socket.create_connection(address, _CONNECT_S)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._socket.sendall(json.dumps({"host": socket.gethostname(), "name": name}).encode() + b"\n")
        try:
            about = json.loads(self._file.readline())
        except ValueError as error:
            raise ValueError(f"no clock is served at {address[0]}:{address[1]}") from error
        self._rank = EventPriority.TIMER
        self.speed, self.is_held = float(about["speed"]), bool(about["held"])
        self._lock = threading.Lock()
        self._limits: dict[int, int] = {}
        self._next_key = 0

    def now_us(self) -> int:
        return self._ask(NOW)

    @property
    def stopped(self) -> bool:
        return bool(self._ask(STOPPED))

    def _follows(self) -> bool:
        return False

    def _tell_limit(self, limit: int) -> None:
        self._ask(LIMIT, limit)

    def _others_are_later(self, limit: int) -> bool:
        return bool(self._ask(TURN, limit))

    def leave(self) -> None:
        self._file.close()
        self._socket.close()

    def _ask(self, what: bytes, limit: int = NO_LIMIT) -> int:
        with self._asking:
            self._socket.sendall(REQUEST.pack(what, limit))
            answer = self._file.read(ANSWER.size)
        if len(answer) < ANSWER.size:
            raise ConnectionResetError("the clock is gone")
        found: int = ANSWER.unpack(answer)[0]
        return found
