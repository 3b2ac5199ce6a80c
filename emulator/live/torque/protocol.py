"""What commands, agents and server say to each other: one JSON object a line, over TCP on loopback.

A command sends one request and gets one answer:

    {"do": "command", "argv": ["qstat", "-f"], "user": "alice", "cwd": ..., "env": {...}}
    [status, stdout, stderr]           or ["read", path] / ["read", null]: send this file / stdin, then
    {"text": ...}                      or {"errno": ..., "error": ...}

    {"do": "state"}                    {"all_nodes_up": ..., "nodes_served": ..., "is_over": ..., "all_told": ...}
    {"do": "nodes"}                    {"nodes": [...], "expected": ..., "open": ..., "missing": [...]}
    {"do": "open", "missing": [...]}   {}: wait for these nodes no longer, they are down until they register
    {"do": "export"}                   every job and run, exact to the microsecond (a JSON object)

An agent's connection stays open:

    {"do": "register", "nodes": [...], "np": 2, "jobs": [[number, run], ...]}   ->  {"do": "registered", ...}
    <- {"do": "start", ...}, {"do": "kill", "job": ..., "run": ..., "why": "delete"|"requeue"}
    <- {"do": "change", "job": ..., "run": ..., "seq": ..., "phase": {...}, "hosts": [...], "save_us": ...}
    <- a kill with "why": "preempt" (and "save": true) leaves a process no time, but for writing a checkpoint; "over":
       the job's work is done
    {"do": "changed", "job": ..., "run": ..., "seq": ..., "done": ...}
    {"do": "started", "job": ..., "run": ..., "session": ...}
    {"do": "ended", "job": ..., "run": ..., "exit_status": ..., "requeue": ..., "done": ...}  ->  {"do": "noted", ...}

`done` is the work that an `emulator-job` says it has done; null or absent for other jobs.
"""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

Message = dict[str, Any]


class ProtocolError(ValueError):
    """The other side said something that is not in the protocol."""


class Connection:
    """One line each way at a time; `send` may be called from any thread, `receive` from one."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._file = sock.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: object) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._sock.sendall(line)

    def receive(self) -> Message | None:
        """The next message; None at the end of the connection."""
        line = self._file.readline()
        if not line.endswith(b"\n"):
            return None
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ProtocolError(f"expected one JSON object a line, got {line[:80]!r}") from error
        if not isinstance(message, dict):
            raise ProtocolError(f"expected a JSON object, got {line[:80]!r}")
        return message

    def close(self) -> None:
        # Wakes a thread that waits in `receive`, which closing alone does not.
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other side was faster
        finally:
            self._sock.close()

    def limit(self, timeout_s: float | None) -> None:
        """A TimeoutError after so long without a word from the other side; None: never."""
        self._sock.settimeout(timeout_s)

    def finish(self) -> None:
        """Close, by the thread that receives: nobody will read any more, so the descriptor is freed at once.

        Not when somebody collects garbage.
        """
        self.close()
        self._file.close()


def notice_loss(sock: socket.socket) -> None:
    """Have the connection end when the other side's machine is gone without a word, 20 s to half a minute later.

    A process that stands still does not matter: its kernel answers.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", 20_000),
    ):
        if hasattr(socket, option):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def connect(address: tuple[str, int], timeout_s: float = 10.0) -> Connection:
    """A connection to the server at `address`; OSError when there is none."""
    sock = socket.create_connection(address, timeout_s)
    notice_loss(sock)
    sock.settimeout(None)
    return Connection(sock)


def request(address: tuple[str, int], message: Message, timeout_s: float | None = None) -> Message:
    """One question to the server and its answer. OSError when there is none (`timeout_s`: in that time)."""
    connection = connect(address)
    try:
        connection.limit(timeout_s)
        connection.send(message)
        answer = connection.receive()
    finally:
        connection.finish()
    if answer is None:
        raise ConnectionResetError(f"the batch server at {address[0]}:{address[1]} closed the connection")
    return answer
