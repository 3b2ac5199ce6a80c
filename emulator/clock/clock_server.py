"""The clock of a live run for processes of other hosts, which cannot map its file.

Who is connected has a place at the clock through us; its place is given back when the connection ends. A request is
nine bytes, the answer eight (big-endian): `n` the time now, `l LIMIT` the connection's limit from now on, `t LIMIT`
whether nobody else is due before this limit (1, 0), `s` whether the run is over (1, 0). The answer to a limit says that
the clock has it: who lets others go on after that has been heard, as with the file. Before all that a line of JSON each
way: host and name of who asks, speed of the clock and whether it is held.
"""

from __future__ import annotations

import json
import socketserver
import struct
import sys
from typing import TYPE_CHECKING

from emulator.clock.background_server import QUEUE, Serving
from emulator.clock.shared_clock import SharedClock

if TYPE_CHECKING:
    from pathlib import Path

REQUEST, ANSWER = struct.Struct(">cq"), struct.Struct(">q")
NOW, LIMIT, TURN, STOPPED = b"n", b"l", b"t", b"s"
_KEY = 0


class ClockServer(Serving):
    """Listens while the block lasts. The file must be there; a clock that goes on is the same file."""

    def __init__(self, address: tuple[str, int], path: Path) -> None:
        super().__init__(_Server(address, type("_Bound", (_Handler,), {"path": path})), "clock server")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = QUEUE


class _Handler(socketserver.StreamRequestHandler):
    path: Path
    disable_nagle_algorithm = True

    def handle(self) -> None:
        try:
            hello = json.loads(self.rfile.readline())
            clock = SharedClock(self.path, name=str(hello["name"]), host=str(hello["host"]))
        except (ValueError, KeyError, TypeError, RuntimeError) as error:
            sys.stderr.write(f"clock server: {self.client_address[0]} gets no place: {error}\n")
            return
        try:
            about = {"speed": clock.speed, "held": clock.is_held}
            self.wfile.write(json.dumps(about).encode() + b"\n")
            while len(request := self.rfile.read(REQUEST.size)) == REQUEST.size:
                self.wfile.write(ANSWER.pack(_answer(clock, *REQUEST.unpack(request))))
        except OSError:
            pass  # its end is that of the connection
        finally:
            clock.leave()


def _answer(clock: SharedClock, what: bytes, limit: int) -> int:
    match what:
        case b"l":
            clock.set_limit(_KEY, limit)
            return clock.now_us()
        case b"t":
            return int(clock.is_turn_of(_KEY, limit))
        case b"s":
            return int(clock.stopped)
        case _:
            return clock.now_us()
