"""Before any call: who calls, may they, and do they call too often. A refusal reads no state and changes none."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from balancer.api.call import Call, current
from balancer.api.problems import FORBIDDEN, INVALID, TOO_LARGE, Problem
from balancer.auth import gate as gates
from balancer.auth.gate import TOO_MANY_CALLS, UNAUTHENTICATED
from balancer.auth.identity import NOBODY, Denied, Identity, Role
from balancer.auth.policy import is_public, roles_for
from balancer.auth.sessions import COOKIE
from balancer.clock import micros, wall_us
from balancer.secret_files import AuthFileError
from balancer.service.calls import Caller

if TYPE_CHECKING:
    from collections.abc import Callable


_T = TypeVar("_T")
_TOO_MANY = 429
UNKNOWN = 401
"""Status for a caller who does not show who they are."""
_UNAVAILABLE = 503
_NAME_HEADER = "X-Balancer-Client"
_NAME = re.compile(r"[!-~]{1,100}")
_OPERATOR = "operator"
"""Where nobody has to show who they are, whoever says this name is one."""
_CREDENTIALS_UNREADABLE = "balancer.credentials_unreadable"


def caller() -> Identity:
    """Who made this call."""
    return current().identity


def owner() -> Caller:
    """Whose it is what this call asks for: the token's name or, where there are none, the one the client gives."""
    call = current()
    if call.identity is not NOBODY:
        return Caller(call.identity.name, call.identity.role is Role.OPERATOR, call.request_id)
    name = call.header(_NAME_HEADER)
    if name is None:
        return Caller(event_id=call.request_id)
    if not _NAME.fullmatch(name):
        raise Problem(400, INVALID, f"{_NAME_HEADER} must be 1 to 100 printable characters without spaces")
    return Caller(name, name == _OPERATOR, call.request_id)


def log_in(token: str, kept_s: float) -> str | None:
    """A session for a browser whose user shows this token; None: nobody is asked for one. Raises Problem."""
    call = current()
    gate = call.service.access.gate
    if gate is None:
        return None
    shown = replace(_shown(call), method="GET", authorization=f"Bearer {token}")
    return _call_gate(lambda: gate.log_in(shown, micros(kept_s)))


def check(call: Call) -> None:
    """Before the body is looked at. Raises Problem."""
    if call.route is None or is_public(call.method, call.route):
        return  # no such route or method (404, 405), or for everybody
    length, limit, access = call.length, call.service.max_body_bytes, call.service.access
    if length is not None and length > limit:
        raise _too_large(limit)
    gate = access.gate
    if gate is not None:
        call.identity = _call_gate(lambda: gate.identify(_shown(call)))
        if call.identity.role not in roles_for(call.method, call.route):
            raise Problem(403, FORBIDDEN, f"the role {call.identity.role} may not {call.method} {call.route}")
    if access.rates is not None:
        wait_s = access.rates.take(call.identity.principal, wall_us())
        if wait_s:
            raise _problem(Denied(_TOO_MANY, TOO_MANY_CALLS, "you call too often", retry_after_s=wait_s))
    if length is None and call.method == "POST" and len(call.body()) >= limit:
        # Sent in chunks: what is read ends at the limit, and would look like half a document.
        raise _too_large(limit)


def _too_large(limit: int) -> Problem:
    return Problem(413, TOO_LARGE, f"the body is too large: {limit} bytes are allowed")


def _shown(call: Call) -> gates.Call:
    """What the gate looks at."""
    return gates.Call(
        call.method,
        call.path,
        call.address,
        call.header("Authorization") or "",
        call.body,
        call.request.cookies.get(COOKIE, "") if call.header("Cookie") else "",
    )


def _call_gate(ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except Denied as denied:
        raise _problem(denied) from denied
    except AuthFileError as error:
        raise Problem(
            _UNAVAILABLE, _CREDENTIALS_UNREADABLE, str(error), headers={"Retry-After": "5"}
        ) from error


def _problem(denied: Denied) -> Problem:
    headers = {}
    if denied.status == UNKNOWN:
        why = "" if denied.code == UNAUTHENTICATED else ', error="invalid_token"'
        headers["WWW-Authenticate"] = f'Bearer realm="Balancer"{why}'
    if denied.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(denied.retry_after_s)))
    return Problem(denied.status, denied.code, denied.detail, headers=headers)
