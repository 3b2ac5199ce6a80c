"""Before any call: who calls, may they, and do they call too often. A refusal reads no state and changes none."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import g, request

from balancer.api.problems import FORBIDDEN, INVALID, TOO_LARGE, Problem
from balancer.auth.files import AuthFileError
from balancer.auth.gate import TOO_MANY_CALLS, UNAUTHENTICATED, Call
from balancer.auth.identity import NOBODY, Denied, Identity, Role
from balancer.auth.policy import is_public, roles_for
from balancer.clock import wall_us
from balancer.engine import Caller
from balancer.lifecycle.records import ANONYMOUS

if TYPE_CHECKING:
    from flask import Flask

    from balancer.auth.gate import Gate
    from balancer.auth.rates import Rates

_TOO_MANY = 429
_UNAUTHENTICATED = 401
_UNAVAILABLE = 503
_NAME_HEADER = "X-Balancer-Client"
_NAME = re.compile(r"[!-~]{1,100}")
_OPERATOR = "operator"
"""Where nobody has to show who they are, whoever says this name is one."""
_CREDENTIALS_UNREADABLE = "balancer.credentials_unreadable"


@dataclass(frozen=True, slots=True)
class Access:
    """`gate`: None lets everybody who reaches the service do everything. `rates`: per identity."""

    gate: Gate | None = None
    rates: Rates | None = None


def caller() -> Identity:
    """Who made this call."""
    identity: Identity = g.get("identity", NOBODY)
    return identity


def owner() -> Caller:
    """Whose it is what this call asks for: the token's name or, where there are none, the one the client gives."""
    identity = caller()
    if identity is not NOBODY:
        return Caller(identity.name, identity.role is Role.OPERATOR)
    name = request.headers.get(_NAME_HEADER, ANONYMOUS)
    if not _NAME.fullmatch(name):
        raise Problem(400, INVALID, f"{_NAME_HEADER} must be 1 to 100 printable characters without spaces")
    return Caller(name, name == _OPERATOR)


def install(app: Flask, access: Access) -> None:
    """Runs after the request id is known and before the body is looked at."""

    @app.before_request
    def check() -> None:
        rule = request.url_rule
        if rule is None or is_public(request.method, rule.rule):
            return  # no such route or method (404, 405), or for everybody
        length, limit = request.content_length, app.config["MAX_CONTENT_LENGTH"]
        if length is not None and length > limit:
            raise _too_large(limit)
        if access.gate is not None:
            identity = g.identity = _identify(access.gate)
            if identity.role not in roles_for(request.method, rule.rule):
                raise Problem(
                    403, FORBIDDEN, f"the role {identity.role} may not {request.method} {rule.rule}"
                )
        if access.rates is not None:
            wait_s = access.rates.take(caller().principal, wall_us())
            if wait_s:
                raise _problem(Denied(_TOO_MANY, TOO_MANY_CALLS, "you call too often", retry_after_s=wait_s))
        if length is None and request.method == "POST" and len(request.get_data()) >= limit:
            # Sent in chunks: what is read ends at the limit, and would look like half a document.
            raise _too_large(limit)


def _too_large(limit: int) -> Problem:
    return Problem(413, TOO_LARGE, f"the body is too large: {limit} bytes are allowed")


def _identify(gate: Gate) -> Identity:
    call = Call(
        request.method,
        request.path,
        request.remote_addr or "",
        request.headers.get("Authorization", ""),
        request.get_data,
    )
    try:
        return gate.identify(call)
    except Denied as denied:
        raise _problem(denied) from denied
    except AuthFileError as error:
        raise Problem(
            _UNAVAILABLE, _CREDENTIALS_UNREADABLE, str(error), headers={"Retry-After": "5"}
        ) from error


def _problem(denied: Denied) -> Problem:
    headers = {}
    if denied.status == _UNAUTHENTICATED:
        why = "" if denied.code == UNAUTHENTICATED else ', error="invalid_token"'
        headers["WWW-Authenticate"] = f'Bearer realm="Balancer"{why}'
        if request.method == "GET" and request.accept_mimetypes.accept_html:
            headers["WWW-Authenticate"] += ', Basic realm="Balancer: any user, the token as password"'
    if denied.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(denied.retry_after_s)))
    return Problem(denied.status, denied.code, denied.detail, headers=headers)
