"""Before any call: who calls, may they, and do they call too often. A refusal reads no state and changes none."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from flask import current_app, g, redirect, request

from balancer.api.problems import FORBIDDEN, INVALID, TOO_LARGE, Problem
from balancer.auth.files import AuthFileError
from balancer.auth.gate import TOO_MANY_CALLS, UNAUTHENTICATED, Call
from balancer.auth.identity import NOBODY, Denied, Identity, Role
from balancer.auth.policy import is_public, roles_for
from balancer.auth.sessions import COOKIE
from balancer.calls import Caller
from balancer.clock import micros, wall_us
from balancer.lifecycle.records import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Flask
    from werkzeug.wrappers import Response as BaseResponse

    from balancer.auth.gate import Gate
    from balancer.auth.rates import Rates

_T = TypeVar("_T")
_EXTENSION = "balancer.access"
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


def log_in(token: str, kept_s: float) -> str | None:
    """A session for a browser whose user shows this token; None: nobody is asked for one. Raises Problem."""
    gate: Gate | None = current_app.extensions[_EXTENSION].gate
    if gate is None:
        return None
    call = replace(_call(), method="GET", authorization=f"Bearer {token}")
    return _asked(lambda: gate.log_in(call, micros(kept_s)))


def install(app: Flask, access: Access) -> None:
    """Runs after the request id is known and before the body is looked at."""
    app.extensions[_EXTENSION] = access

    @app.before_request
    def check() -> BaseResponse | None:
        rule = request.url_rule
        if rule is None or is_public(request.method, rule.rule):
            return None  # no such route or method (404, 405), or for everybody
        length, limit = request.content_length, app.config["MAX_CONTENT_LENGTH"]
        if length is not None and length > limit:
            raise _too_large(limit)
        if access.gate is not None:
            try:
                identity = g.identity = _identify(access.gate)
            except Problem as problem:
                if problem.status == _UNAUTHENTICATED and rule.rule == "/" and _is_browser():
                    return redirect("/login", 303)
                raise
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
        return None


def _is_browser() -> bool:
    return request.accept_mimetypes.best_match(["application/json", "text/html"]) == "text/html"


def _too_large(limit: int) -> Problem:
    return Problem(413, TOO_LARGE, f"the body is too large: {limit} bytes are allowed")


def _identify(gate: Gate) -> Identity:
    return _asked(lambda: gate.identify(_call()))


def _call() -> Call:
    return Call(
        request.method,
        request.path,
        request.remote_addr or "",
        request.headers.get("Authorization", ""),
        request.get_data,
        request.cookies.get(COOKIE, ""),
    )


def _asked(ask: Callable[[], _T]) -> _T:
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
    if denied.status == _UNAUTHENTICATED:
        why = "" if denied.code == UNAUTHENTICATED else ', error="invalid_token"'
        headers["WWW-Authenticate"] = f'Bearer realm="Balancer"{why}'
    if denied.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(denied.retry_after_s)))
    return Problem(denied.status, denied.code, denied.detail, headers=headers)
