"""One call for one idempotency key: whoever repeats it gets the stored answer."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from balancer.ledger.store import Ledger, StoredAnswer
    from balancer.service.decision import Key


class KeyReusedError(Exception):
    """The idempotency key belongs to another call."""


class KeyInUseError(Exception):
    """A call with this idempotency key has not been stored yet: ask again in a moment."""


class Keys:
    """Which keys belong to calls that are under way; the ledger has those of the others."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._in_use: set[str] = set()

    @contextmanager
    def used(self, key: Key | None) -> Iterator[StoredAnswer | None]:
        """The stored answer to a call with this key, if there is one; nobody else uses the key meanwhile.

        Raises KeyReusedError when the key was used for another call, KeyInUseError while a call with it is under way.
        """
        if key is None:
            yield None
            return
        with self._lock:
            if key.key in self._in_use:
                raise KeyInUseError("a call with this key is under way: repeat it in a moment")
            self._in_use.add(key.key)
        try:
            # Not from a file that is gone: after the next start nobody would know of that answer.
            self._ledger.check_file()
            stored = self._ledger.answer(key.key)
            if stored is not None and stored.fingerprint != key.fingerprint:
                raise KeyReusedError(f"the key {key.key} was used for a call with another body")
            yield stored
        finally:
            with self._lock:
                self._in_use.discard(key.key)
