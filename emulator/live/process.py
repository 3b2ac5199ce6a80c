"""What processes of the live fleet have in common: how they say that they are ready, are found, and are stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.whole_file import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_EPHEMERAL, _FIRST_FREE, _PORTS = 32_768, 1024, 8192


def write_ready(path: Path | None, **more: str) -> None:
    """Write `{"pid": ..., **more}`; the file appears whole. Nothing happens without a path."""
    if path is not None:
        write_text(path, json.dumps(more | {"pid": os.getpid()}) + "\n")


def lasting_port() -> int:
    """A free port that nobody is given by chance: a server that is started again finds it free again.

    It is below those that the kernel gives to connections, which ask the dead server's port again and again meanwhile.
    """
    low = int(_EPHEMERAL.read_text(encoding="ascii").split()[0]) if _EPHEMERAL.exists() else _FIRST_EPHEMERAL
    ports = list(range(max(_FIRST_FREE, low - _PORTS), low))
    random.SystemRandom().shuffle(ports)
    for port in ports:
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def write_address(path: Path, address: tuple[str, int]) -> None:
    """Tell where a server listens; the file appears whole or not at all."""
    write_text(path, json.dumps({"host": address[0], "port": address[1]}))


def read_address(home: Path) -> tuple[str, int] | None:
    """Where the server with this home listens; None until it does."""
    try:
        found = json.loads((home / "address").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return str(found["host"]), int(found["port"])


def stop_on_signal(stop: Callable[[], None]) -> None:
    """SIGTERM and SIGINT call `stop`, in a thread: the handler may have interrupted a lock it needs."""

    def handler(*_: object) -> None:
        threading.Thread(target=stop, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
