"""Bearer tokens: made, listed and revoked by `balancer token`, known to the service by their digests only.

They are kept in a file beside the ledger and not in it, because the ledger has one writer, the service, and
a token must be made before the service is used and revoked whatever state it is in. The service reads the
file again as soon as it changes: a revoked token ends with the next call.

A secret has 256 random bits, so that a plain SHA-256 of it tells nothing and costs a call nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import threading
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from balancer.auth.identity import Role
from balancer.secret_files import AuthFileError, Stamp, locked, read, replace, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VERSION = 1
_TEXT = re.compile(r"bal_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token. Times are microseconds since 1970 by the machine's clock."""

    id: str
    name: str
    role: Role
    sha256: str
    created_us: int
    expires_us: int | None

    def is_expired(self, now_us: int) -> bool:
        return self.expires_us is not None and now_us >= self.expires_us


class TokenFile:
    """The tokens in a file. Safe to use from several threads and processes. Raises AuthFileError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Stamp | None = None
        self._tokens: dict[str, Token] = {}
        self._reading = threading.Lock()

    def tokens(self) -> list[Token]:
        """All that were not revoked, the expired ones too, oldest first."""
        return list(self._current().values())

    def create(
        self, role: Role, name: str, *, now_us: int, expires_us: int | None = None
    ) -> tuple[Token, str]:
        """A new token, and its text, which nobody can find out later. ValueError: the name cannot be used."""
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot be a token's name: use letters, digits and . _ @ -, at most 64"
            )
        token_id = secrets.token_hex(6)
        text = f"bal_{token_id}_{secrets.token_urlsafe(32)}"
        token = Token(token_id, name, role, _digest(text), now_us, expires_us)
        with locked(self.path):
            self._write([*self._current().values(), token])
        return token, text

    def revoke(self, token_id: str) -> bool:
        """From now on it is unknown. False: there is no such token."""
        with locked(self.path):
            tokens = self.tokens()
            left = [token for token in tokens if token.id != token_id]
            if len(left) == len(tokens):
                return False
            self._write(left)
        return True

    def find(self, text: str) -> Token | None:
        """The token with this text, expired or not; None: there is none."""
        match = _TEXT.fullmatch(text)
        token = None if match is None else self._current().get(match[1])
        if token is None or not hmac.compare_digest(token.sha256, _digest(text)):
            return None
        return token

    def get(self, token_id: str) -> Token | None:
        """The token with this id, expired or not; None: there is none."""
        return self._current().get(token_id)

    def _write(self, tokens: Sequence[Token]) -> None:
        content = {"version": _VERSION, "tokens": [asdict(token) for token in tokens]}
        replace(self.path, json.dumps(content, indent=1) + "\n")

    def _current(self) -> dict[str, Token]:
        now = stamp(self.path)
        if now != self._stamp or now is None:
            with self._reading:
                # Read after the stamp was taken: a change in between is seen by the next call.
                self._tokens = self._parse(read(self.path))
                self._stamp = now
        return self._tokens

    def _parse(self, text: str) -> dict[str, Token]:
        if not text:
            return {}
        try:
            content = json.loads(text)
            if content["version"] != _VERSION:
                raise AuthFileError(f"{self.path} was written by another version of the Balancer")
            tokens = [Token(**each | {"role": Role(each["role"])}) for each in content["tokens"]]
        except (ValueError, TypeError, KeyError) as error:
            raise AuthFileError(
                f"{self.path} is not a file of tokens: {error!r}; restore or remove it"
            ) from error
        return {token.id: token for token in tokens}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
