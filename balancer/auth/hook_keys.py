"""The site's master keys for hooks: one a line in hexadecimal, the newest first; all of them are accepted."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from balancer.auth.signature import node_key
from balancer.secret_files import AuthFileError, Stamp, locked, read, replace, stamp

if TYPE_CHECKING:
    from pathlib import Path

_BYTES = 32


class HookKeyFile:
    """The master keys in a file. Raises AuthFileError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Stamp | None = None
        self._masters: tuple[bytes, ...] = ()
        self._of_node: dict[str, tuple[bytes, ...]] = {}
        self._reading = threading.Lock()

    def keys_of(self, node: str) -> tuple[bytes, ...]:
        """What the node may sign with, the newest first; none without a master key."""
        now = stamp(self.path)
        with self._reading:
            if now != self._stamp or now is None:
                self._masters, self._of_node = self._parse(read(self.path)), {}
                self._stamp = now
            keys = self._of_node.get(node)
            if keys is None:
                keys = self._of_node[node] = tuple(node_key(master, node) for master in self._masters)
        return keys

    def issue(self, node: str, *, rotate: bool = False) -> bytes:
        """The node's newest key; the first call makes the master key, `rotate` makes a new one."""
        with locked(self.path):
            if rotate or not self._parse(read(self.path)):
                replace(self.path, secrets.token_hex(_BYTES) + "\n" + read(self.path))
        return self.keys_of(node)[0]

    def _parse(self, text: str) -> tuple[bytes, ...]:
        try:
            masters = tuple(bytes.fromhex(line) for line in text.split())
        except ValueError as error:
            raise AuthFileError(f"{self.path}: a line is not hexadecimal; restore the file") from error
        if any(len(master) < _BYTES for master in masters):
            raise AuthFileError(f"{self.path}: a key is shorter than {_BYTES} bytes; restore the file")
        return masters
