"""Where the servers of a run listen: an address that only this machine has, and ports that the run keeps for itself."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack, suppress
from ipaddress import ip_address

_FIRST, _END = 10_000, 20_000
"""Below those that the kernel gives to whoever asks for any."""


class AddressError(ValueError):
    """Slurm cannot be kept to this machine; the text says what to do."""


def own_address() -> str:
    """Where this machine's name leads, which is where Slurm listens if not everywhere. Raises AddressError."""
    name = socket.gethostname()
    how = f"let it lead to this machine alone, by a line in /etc/hosts: 127.0.1.1 {name}"
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise AddressError(f"the name of this machine, {name}, leads nowhere ({error}); {how}") from error
    if not ip_address(address).is_loopback:
        raise AddressError(
            f"the name of this machine, {name}, leads to {address}, where others could reach Slurm; {how}"
        )
    return address


def problem_with_address() -> str:
    try:
        own_address()
    except AddressError as error:
        return str(error)
    return ""


class ReservedPorts:
    """TCP ports that are free, `count` of them; other runs on this machine leave them alone until `close`.

    Slurm cannot choose a port and tell it. The UDP half of each port is bound as long as the run lasts, which is what
    another run looks at. The first one is anywhere: what is left of a Slurm that ended a moment ago (the keeper of a
    job that was killed, say) still reports to the port of its controller, and must not reach that of a later one.
    """

    def __init__(self, count: int, host: str = "127.0.0.1") -> None:
        self._sockets = ExitStack()
        self.ports: list[int] = []
        first = _FIRST + secrets.randbelow(_END - _FIRST)
        for port in (*range(first, _END), *range(_FIRST, first)):
            if len(self.ports) == count:
                return
            reserved = socket.socket(type=socket.SOCK_DGRAM)
            with suppress(OSError), socket.create_server((host, port)):
                reserved.bind((host, port))
                self._sockets.enter_context(reserved)
                self.ports.append(port)
                continue
            reserved.close()
        if len(self.ports) < count:
            self.close()
            raise OSError(f"only {len(self.ports)} of {count} ports from {_FIRST} to {_END} are free")

    def close(self) -> None:
        self._sockets.close()
