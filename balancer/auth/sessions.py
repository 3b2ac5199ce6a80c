"""A browser's log-in: a cookie that reads, for as long as the token that it was made with is good.

Nothing is kept here: the cookie names the token and is signed with what is kept of it, so that it outlives a
restart and ends with the token's revocation.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from balancer.auth.tokens import Token, TokenFile

COOKIE = "balancer_session"
_PARTS = 3


def make_session(token: Token, until_us: int) -> str:
    """The cookie's value, good until then (microseconds since 1970)."""
    return f"{token.id}.{until_us}.{_signature(token, until_us)}"


def token_of(session: str, tokens: TokenFile, now_us: int) -> Token | None:
    """The token that the session was made with; None: it is over, or was never made here. AuthFileError."""
    parts = session.split(".")
    if len(parts) != _PARTS or not (parts[1].isascii() and parts[1].isdigit()) or len(parts[1]) > 18:  # noqa: PLR2004
        return None
    token, until_us = tokens.get(parts[0]), int(parts[1])
    if token is None or not hmac.compare_digest(_signature(token, until_us).encode(), parts[2].encode()):
        return None
    return token if now_us < until_us else None


def _signature(token: Token, until_us: int) -> str:
    text = f"balancer session 1\n{token.id}\n{until_us}"
    return hmac.new(bytes.fromhex(token.sha256), text.encode(), hashlib.sha256).hexdigest()
