"""What the service says to systemd (sd_notify(3)): that it is ready, lives, waits for another one, or ends."""

from __future__ import annotations

import os
import socket

import structlog

from balancer.clock import US

_log = structlog.get_logger()


def notify(*states: str) -> None:
    """Send these (`READY=1`). Nothing is sent where nobody listens: `NOTIFY_SOCKET` is not set."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # systemd's way to write a socket that is no file.
    target = f"\0{address[1:]}" if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.sendto("\n".join(states).encode(), target)
    except OSError as error:
        _log.warning("the service manager cannot be reached", socket=address, error=error.strerror)


def beat_s() -> float | None:
    """How often `WATCHDOG=1` is to be sent: half the time after which systemd ends us. None: it does not watch."""
    limit_us, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not limit_us.isdecimal() or int(limit_us) == 0 or process not in ("", str(os.getpid())):
        return None
    return int(limit_us) / 2 / US
