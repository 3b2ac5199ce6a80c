"""From the Authorization header to an identity. Knows nothing of HTTP frameworks, and changes nothing."""

from __future__ import annotations

import base64
import binascii
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.auth.identity import Denied, Identity, Role
from balancer.auth.policy import roles_for
from balancer.auth.sessions import make_session, token_of
from balancer.auth.signature import SCHEME, Signature
from balancer.clock import micros, seconds, utc_us, wall_us

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.auth.hook_keys import HookKeyFile
    from balancer.auth.rates import Rates
    from balancer.auth.tokens import Token, TokenFile

UNAUTHENTICATED = "balancer.unauthenticated"
TOKEN_EXPIRED = "balancer.token_expired"  # nosec B105 # noqa: S105 - the name of an error
BAD_SIGNATURE = "balancer.bad_signature"
STALE_HOOK = "balancer.stale_hook"
REPLAYED_HOOK = "balancer.replayed_hook"
TOO_MANY_CALLS = "balancer.too_many_calls"

_READERS = roles_for("GET", "/")
_UNAUTHENTICATED = 401
_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the gate sees it."""

    method: str
    path: str
    address: str
    authorization: str
    body: Callable[[], bytes]
    session: str = ""
    """The log-in of a browser (a cookie)."""


class Gate:
    """Recognises callers. `skew_s`: how far a node's clock may be from ours, either way.

    A signature is good once. What was seen is remembered for as long as it is young enough to be accepted;
    what was signed before this gate was made is refused, because what was seen then is forgotten.
    """

    def __init__(
        self,
        tokens: TokenFile,
        hook_keys: HookKeyFile,
        *,
        skew_s: float,
        failures: Rates,
        now_us: Callable[[], int] = utc_us,
    ) -> None:
        self._tokens = tokens
        self._hook_keys = hook_keys
        self._skew_us = micros(skew_s)
        self._failures = failures
        self._now_us = now_us
        self._start_us = now_us()
        self._seen: set[str] = set()
        self._seen_order: deque[tuple[int, str]] = deque()
        self._lock = threading.Lock()

    def identify(self, call: Call) -> Identity:
        """Who calls. Raises Denied or AuthFileError; nothing has changed then."""
        try:
            return self._identify(call)
        except Denied:
            wait_s = self._failures.take(call.address, wall_us())
            if wait_s:
                raise Denied(
                    _TOO_MANY,
                    TOO_MANY_CALLS,
                    "too many calls without valid credentials came from your address",
                    retry_after_s=wait_s,
                ) from None
            raise

    def _identify(self, call: Call) -> Identity:
        scheme, _, credentials = call.authorization.partition(" ")
        match scheme.lower():
            case "bearer":
                return self._of_token(credentials.strip())
            case "basic" if call.method in ("GET", "HEAD"):
                # Not for writes: a browser would send it along with another site's form.
                return self._of_token(_password(credentials))
            case "" if call.session and call.method in ("GET", "HEAD"):
                return self._of_session(call.session)
            case _ if scheme == SCHEME:
                return self._of_hook(call)
        raise Denied(
            _UNAUTHENTICATED,
            UNAUTHENTICATED,
            "the call needs a token: `Authorization: Bearer ...` (made with `balancer token create`)",
        )

    def log_in(self, call: Call, kept_us: int) -> str:
        """A session for the caller, who shows a token that may read. Raises Denied or AuthFileError."""
        identity = self.identify(call)
        token = self._tokens.find(call.authorization.partition(" ")[2].strip())
        if token is None or identity.role not in _READERS:
            raise Denied(403, UNAUTHENTICATED, f"the role {identity.role} may not look at anything")
        return make_session(token, self._now_us() + kept_us)

    def _of_token(self, text: str) -> Identity:
        token = self._valid(self._tokens.find(text), "the token is not known, or was revoked")
        return Identity(token.name, token.role)

    def _of_session(self, session: str) -> Identity:
        """Whatever its token may do: a cookie only reads."""
        token = self._valid(
            token_of(session, self._tokens, self._now_us()), "the log-in is over: log in again"
        )
        if token.role not in _READERS:
            raise Denied(_UNAUTHENTICATED, UNAUTHENTICATED, "its token may not look at anything")
        return Identity(token.name, Role.READ_ONLY)

    def _valid(self, token: Token | None, otherwise: str) -> Token:
        if token is None:
            raise Denied(_UNAUTHENTICATED, UNAUTHENTICATED, otherwise)
        if token.is_expired(self._now_us()):
            raise Denied(_UNAUTHENTICATED, TOKEN_EXPIRED, f"the token {token.id} has expired")
        return token

    def _of_hook(self, call: Call) -> Identity:
        signature = Signature.parse(call.authorization)
        if signature is None:
            raise Denied(_UNAUTHENTICATED, BAD_SIGNATURE, "the signature cannot be read")
        body = call.body()
        keys = self._hook_keys.keys_of(signature.node)
        if not any(signature.is_of(key, call.path, body) for key in keys):
            raise Denied(
                _UNAUTHENTICATED, BAD_SIGNATURE, f"this is not the signature of node {signature.node}"
            )
        now_us = self._now_us()
        age_us = now_us - signature.sequence_us
        if abs(age_us) > self._skew_us:
            raise Denied(
                _UNAUTHENTICATED,
                STALE_HOOK,
                f"it was signed {seconds(age_us):.0f} s ago by the node's clock; at most "
                f"{seconds(self._skew_us):g} s are accepted: check the clocks",
            )
        if signature.sequence_us <= self._start_us or not self._is_new(signature, now_us):
            raise Denied(
                _UNAUTHENTICATED, REPLAYED_HOOK, "it was seen before, or signed before the service started"
            )
        return Identity(signature.node, Role.HOOK, node=signature.node)

    def _is_new(self, signature: Signature, now_us: int) -> bool:
        with self._lock:
            # By arrival: one that came `2 * skew` ago is too old by now, however fast its clock was.
            while self._seen_order and now_us - self._seen_order[0][0] > 2 * self._skew_us:
                self._seen.discard(self._seen_order.popleft()[1])
            if signature.digest in self._seen:
                return False
            self._seen.add(signature.digest)
            self._seen_order.append((now_us, signature.digest))
            return True


def _password(credentials: str) -> str:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return decoded.partition(":")[2]
