"""Ports that a run keeps for itself until the servers that are told of them listen."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress

_FIRST, _END = 10_000, 30_000
"""Below those that the kernel gives to whoever asks for any."""


class KeptPorts:
    """TCP ports that are free, `count` of them; other runs on this machine leave them alone until `close`.

    Slurm cannot choose a port and tell it. The UDP half of each port is bound as long as the run lasts, which is what
    another run looks at.
    """

    def __init__(self, count: int, host: str = "127.0.0.1") -> None:
        self._kept = ExitStack()
        self.ports: list[int] = []
        for port in range(_FIRST, _END):
            if len(self.ports) == count:
                return
            kept = socket.socket(type=socket.SOCK_DGRAM)
            with suppress(OSError), socket.create_server((host, port)):
                kept.bind((host, port))
                self._kept.enter_context(kept)
                self.ports.append(port)
                continue
            kept.close()
        if len(self.ports) < count:
            self.close()
            raise OSError(f"only {len(self.ports)} of {count} ports from {_FIRST} to {_END} are free")

    def close(self) -> None:
        self._kept.close()
