"""What every call shares: the engine behind the application, request ids, idempotency keys, waiting slots."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import uuid4

import structlog
from flask import Response, current_app, g, request, url_for
from pydantic import BaseModel, ConfigDict, Field

from balancer.api.access import caller
from balancer.api.problems import INVALID, VERSION_NOT_SUPPORTED, Problem
from balancer.auth.identity import NOBODY
from balancer.clock import seconds, wall_us
from balancer.decided import Key

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from flask import Flask

    from balancer.engine import Engine
    from balancer.pools import PoolHistory

MIN_VERSION = (1, 0)
MAX_VERSION = (1, 0)
"""Versions of the API, one comment each.

1.0  the first
"""

_log = structlog.get_logger()

_EXTENSION = "balancer"
_FAILED = 400
_DENIED = (401, 403, 413, 429)
_REQUEST_ID = re.compile(r"req-[0-9a-fA-F-]{8,59}")
_VERSION = re.compile(r"balancer (?:(\d+)\.(\d+)|latest)")
_KEY = re.compile(r"[!-~]{1,255}")
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})


class Body(BaseModel):
    """A body of a call: unknown fields and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Query(BaseModel):
    """Query parameters: text that is read as what it should be; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Answer(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(extra="forbid")


NodeName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Seconds = Annotated[float, Field(ge=0, le=3.2e9)]
Limit = Annotated[int, Field(ge=1, le=1000, description="At most so many in the answer")]
Generation = Annotated[int, Field(ge=0, le=2**63 - 1)]


@dataclass
class Service:
    """The application's own state. At most `waiting` calls may block, and `streams` go on, at a time."""

    engine: Engine
    waiting: threading.BoundedSemaphore
    streams: threading.BoundedSemaphore
    pools: PoolHistory
    disable_file: str | None = None
    routes: dict[str, str] = field(default_factory=dict)


def service() -> Service:
    return cast("Service", current_app.extensions[_EXTENSION])


def engine() -> Engine:
    return service().engine


def event_id() -> str:
    """The id of this call, which every event it causes carries."""
    return cast("str", g.request_id)


def idempotency_key(body: BaseModel) -> Key | None:
    """The caller's key with what tells this call from others; None when there is none."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    key = key.strip('"')
    if not _KEY.fullmatch(key):
        raise Problem(
            400, INVALID, "Idempotency-Key must be 1 to 255 printable characters, a UUID for instance"
        )
    call = f"{request.path}\n{json.dumps(body.model_dump(), sort_keys=True)}"
    identity = caller()
    if identity is not NOBODY:
        # A key is its owner's: nobody else gets the answer, or is in its way by chance or by will.
        key = _digest(f"{identity.principal}\n{key}")
    return Key(key, _digest(call))


def once(body: BaseModel, answer: dict[str, Any], act: Callable[[Key | None, str], object]) -> Any:
    """The answer, after `act(key, text of the answer)`; for a call whose key is known only the stored one."""
    key = idempotency_key(body)
    with engine().idempotent(key) as stored:
        if stored is not None:
            return json.loads(stored.body or "{}")
        act(key, json.dumps(answer) if key else "")
    return answer


def next_link(endpoint: str, **query: Any) -> list[dict[str, str]]:
    """The `links` of a page after which there is more."""
    return [{"rel": "next", "href": url_for(endpoint, **query)}]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def install(app: Flask, state: Service) -> None:
    """Request ids, versions and metrics around every call."""
    app.extensions[_EXTENSION] = state

    @app.before_request
    def begin() -> None:
        g.start_us = wall_us()
        given = request.headers.get("X-OpenStack-Request-Id", "")
        g.request_id = given if _REQUEST_ID.fullmatch(given) else f"req-{uuid4()}"
        # Whatever is logged while the call is served names it.
        structlog.contextvars.bind_contextvars(request_id=g.request_id)
        g.version = MIN_VERSION
        wanted = request.headers.get("OpenStack-API-Version")
        if wanted is not None:
            g.version = _version(wanted)

    @app.after_request
    def end(response: Response) -> Response:
        headers = response.headers
        headers["X-OpenStack-Request-Id"] = g.get("request_id", "")
        major, minor = g.get("version", MIN_VERSION)
        headers["OpenStack-API-Version"] = f"balancer {major}.{minor}"
        headers["Vary"] = "OpenStack-API-Version, Accept"
        route = request.url_rule.rule if request.url_rule is not None else "unknown"
        took_s = seconds(wall_us() - g.get("start_us", wall_us()))
        method = request.method if request.method in _METHODS else "other"
        if response.status_code in _DENIED:
            state.engine.metrics.denied(response.status_code)
        state.engine.metrics.http_done(method, route, response.status_code, took_s)
        _note(response.status_code, took_s)
        return response

    @app.teardown_request
    def forget(_: BaseException | None) -> None:
        structlog.contextvars.unbind_contextvars("request_id")


def _note(status: int, took_s: float) -> None:
    """One line a call that changes something or fails; reads that went well are for debugging."""
    quiet = request.method in ("GET", "HEAD", "OPTIONS") and status < _FAILED
    if quiet and not _log.is_enabled_for(logging.DEBUG):
        return
    identity = caller()
    (_log.debug if quiet else _log.info)(
        "call",
        method=request.method,
        path=request.path,
        status=status,
        took_ms=round(took_s * 1000, 3),
        caller=identity.principal if identity is not NOBODY else None,
        address=request.remote_addr,
        code=g.get("problem_code"),
    )


def _version(text: str) -> tuple[int, int]:
    """The version to answer in: the asked one, else the lowest."""
    found = MIN_VERSION
    # The header may name other services as well: "compute 2.1, balancer 1.0".
    for part in text.split(","):
        if part.split()[:1] != ["balancer"]:
            continue
        match = _VERSION.fullmatch(part.strip())
        wanted: Any = (
            None if match is None else (MAX_VERSION if match[1] is None else (int(match[1]), int(match[2])))
        )
        if wanted is None or not MIN_VERSION <= wanted <= MAX_VERSION:
            raise Problem(
                406,
                VERSION_NOT_SUPPORTED,
                f"{part.strip()!r} is not served: 1.{MIN_VERSION[1]} to 1.{MAX_VERSION[1]} are",
                min_version=f"1.{MIN_VERSION[1]}",
                max_version=f"1.{MAX_VERSION[1]}",
            )
        found = wanted
    return found
