"""Where the processes of `emulator-job` call their node's agent, which tells them the time and what happens to them.

One JSON object a line over loopback. Each message of the agent is answered by `wait` or `over`; in between the agent
holds a paced clock, so that a job never misses its moment and needs no clock of its own.

    {"do": "hello", "key": ..., "total": ...}     ->  {"what": "begin", ...}      the messages of `job/control.py`
    {"do": "wait", "until_us": ..., "done": ...}  ->  {"what": "tick" | "change" | "leave", ...}
    {"do": "over", "done": ...}                   ->  {"do": "noted"}
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from emulator.live.job.control import ADDRESS_VARIABLE, KEY_VARIABLE
from emulator.live.torque.protocol import Connection, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.torque.protocol import Message


class JobLine:
    """The agent's end of the line to one run's process, which may not have called yet. Owned by one thread."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._owes_answer = False
        self._messages: deque[dict[str, Any]] = deque()
        self.until_us: int | None = None
        """When it wants to be told the time; None while it does not wait."""
        self.is_over = False
        self.done: int | None = None
        """What it said last that it has done."""

    @property
    def has_called(self) -> bool:
        return self._connection is not None

    @property
    def is_busy(self) -> bool:
        """A message is under way or waits for its turn."""
        return self._owes_answer or bool(self._messages)

    def called(self, connection: Connection) -> None:
        """The process is there; its first message must be among those that wait for it."""
        self._connection = connection
        self._send_next()

    def say(self, message: dict[str, Any]) -> None:
        """Say this when all that was said before is answered."""
        self._messages.append(message)
        if not self._owes_answer:
            self._send_next()

    def answered(self, until_us: int, done: int) -> None:
        """The process has done what it was told, and waits."""
        self._owes_answer = False
        self.done = done
        self.until_us = until_us
        self._send_next()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _send_next(self) -> None:
        if self._connection is None or not self._messages or self.is_over:
            return
        message = self._messages.popleft()
        self._owes_answer, self.until_us = True, None
        try:
            self._connection.send(message)
        except OSError:
            self._connection.close()  # the process is gone, which its end tells


class JobPort:
    """Listens for processes; `heard(key, connection, message)` is called from a thread for each thing one says."""

    def __init__(self, heard: Callable[[str, Connection, Message], None]) -> None:
        self._heard = heard
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        host, port = self._listener.getsockname()[:2]
        self._address = f"{host}:{port}"
        threading.Thread(target=self._accept, name="jobs", daemon=True).start()

    def environ(self, key: str) -> dict[str, str]:
        """What a process needs in order to call."""
        return {ADDRESS_VARIABLE: self._address, KEY_VARIABLE: key}

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept, which closing does not
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return  # closed: the agent ends
            threading.Thread(target=self._serve, args=(Connection(sock),), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        key = ""
        try:
            while (message := connection.receive()) is not None:
                key = str(message.get("key", key))
                self._heard(key, connection, message)
        except ProtocolError:
            connection.close()  # not one of our processes
        except OSError:
            pass  # it is gone, which its end tells


def new_key() -> str:
    """A secret by which a process shows which run it belongs to."""
    return secrets.token_hex(16)
