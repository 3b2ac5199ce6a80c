"""What every call shares: the engine behind the application, request ids, idempotency keys, waiting slots."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import uuid4

from flask import Response, current_app, g, request
from pydantic import BaseModel, ConfigDict, Field

from balancer.api.problems import INVALID, VERSION_NOT_SUPPORTED, Problem
from balancer.clock import seconds, wall_us
from balancer.writer import Key

if TYPE_CHECKING:
    import threading

    from flask import Flask

    from balancer.engine import Engine

MIN_VERSION = (1, 0)
MAX_VERSION = (1, 0)
"""Versions of the API. 1.0: the first."""

_EXTENSION = "balancer"
_REQUEST_ID = re.compile(r"req-[0-9a-fA-F-]{8,59}")
_VERSION = re.compile(r"balancer (?:(\d+)\.(\d+)|latest)")
_KEY = re.compile(r"[!-~]{1,255}")


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
Limit = Annotated[int, Field(ge=1, le=1000)]


@dataclass
class Service:
    """The application's own state. At most `waiting` calls may block at a time: hooks must find a thread."""

    engine: Engine
    waiting: threading.BoundedSemaphore
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
    return Key(key, hashlib.sha256(call.encode()).hexdigest())


def install(app: Flask, state: Service) -> None:
    """Request ids, versions and metrics around every call."""
    app.extensions[_EXTENSION] = state

    @app.before_request
    def begin() -> None:
        g.start_us = wall_us()
        given = request.headers.get("X-OpenStack-Request-Id", "")
        g.request_id = given if _REQUEST_ID.fullmatch(given) else f"req-{uuid4()}"
        wanted = request.headers.get("OpenStack-API-Version")
        if wanted is not None:
            _check_version(wanted)

    @app.after_request
    def end(response: Response) -> Response:
        headers = response.headers
        headers["X-OpenStack-Request-Id"] = g.get("request_id", "")
        headers["OpenStack-API-Version"] = f"balancer {MAX_VERSION[0]}.{MAX_VERSION[1]}"
        headers["Vary"] = "OpenStack-API-Version, Accept"
        route = request.url_rule.rule if request.url_rule is not None else "unknown"
        took_s = seconds(wall_us() - g.get("start_us", wall_us()))
        state.engine.metrics.http_done(request.method, route, response.status_code, took_s)
        return response


def _check_version(text: str) -> None:
    # The header may name other services as well: "compute 2.1, balancer 1.0".
    for part in text.split(","):
        if not part.strip().startswith("balancer"):
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
