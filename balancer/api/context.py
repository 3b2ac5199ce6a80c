"""What every call shares: the engine behind the application, request ids, idempotency keys, waiting slots."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import structlog
from pydantic import BaseModel, ConfigDict, Field

from balancer.api import access, bodies, browsers
from balancer.api.access import caller, owner
from balancer.api.call import Call, address_of, current
from balancer.api.problems import INVALID, VERSION_NOT_SUPPORTED, Problem
from balancer.auth.identity import NOBODY
from balancer.clock import LONGEST_S, seconds, wall_us
from balancer.service.calls import Caller
from balancer.service.decision import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.api.service import Service
    from balancer.service.engine import Engine

MIN_VERSION = (1, 0)
MAX_VERSION = (1, 0)
"""Versions of the API, one comment each.

1.0  the first
"""

_log = structlog.get_logger()

_FAILED = 400
_DENIED = (401, 403, 413, 429)
_REQUEST_ID = re.compile(r"req-[0-9a-fA-F-]{8,59}")
_VERSION = re.compile(r"balancer (?:(\d+)\.(\d+)|latest)")
_KEY = re.compile(r"[!-~]{1,255}")
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = _READS | {"POST", "DELETE", "PUT", "PATCH"}


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
PRINTABLE = r"^[^\x00-\x1f]+$"
"""A text that stays one line of a table or log, and that each database takes."""
Seconds = Annotated[float, Field(ge=0, le=LONGEST_S)]
Limit = Annotated[int, Field(ge=1, le=1000, description="At most so many in the answer")]
Held = Annotated[
    dict[str, str], Field(deprecated=True, description="The old name of `quarantined`, for this version")
]
Generation = Annotated[int, Field(ge=0, le=2**63 - 1)]


def service() -> Service:
    return current().service


def engine() -> Engine:
    return current().service.engine


def idempotency_key(body: BaseModel) -> Key | None:
    """The caller's key with what tells this call from others; None when there is none."""
    key = current().header("Idempotency-Key")
    if key is None:
        return None
    key = key.strip('"')
    if not _KEY.fullmatch(key):
        raise Problem(
            400, INVALID, "Idempotency-Key must be 1 to 255 printable characters, a UUID for instance"
        )
    call = f"{current().path}\n{json.dumps(body.model_dump(), sort_keys=True)}"
    identity = caller()
    principal = owner().name if identity is NOBODY else identity.principal
    if principal != Caller().name:
        # A key is its owner's: nobody else gets the answer, or is in its way by chance or by will.
        key = _digest(f"{principal}\n{key}")
    return Key(key, _digest(call))


def once(body: BaseModel, answer: dict[str, Any], act: Callable[[Key | None], object]) -> Any:
    """The answer, after `act(key)`; for a call whose key is known only the stored one."""
    key = idempotency_key(body)
    with engine().idempotent(key) as stored:
        if stored is not None:
            return json.loads(stored.body or "{}")
        act(None if key is None else replace(key, answer=json.dumps(answer)))
    return answer


def next_link(path: str, **query: Any) -> list[dict[str, str]]:
    """The `links` of a page after which there is more."""
    return [{"rel": "next", "href": address_of(path, **query)}]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# Around every call, in this order


def begin(environ: dict[str, Any], state: Service) -> Call:
    """Whatever is logged while the call is served names it."""
    call = Call(environ, state, wall_us())
    client_id = call.header("X-OpenStack-Request-Id")
    call.request_id = client_id if client_id and _REQUEST_ID.fullmatch(client_id) else f"req-{uuid4()}"
    structlog.contextvars.bind_contextvars(request_id=call.request_id)
    return call


def check(call: Call) -> None:
    """What is asked of any call before it is looked at. Raises Problem."""
    version_text = call.header("OpenStack-API-Version")
    if version_text is not None:
        call.version = _version(version_text)
    browsers.check(call)
    access.check(call)
    bodies.check(call)


def headers_of(call: Call) -> dict[str, str]:
    """What every answer has."""
    return browsers.HEADERS | {
        "X-OpenStack-Request-Id": call.request_id,
        "OpenStack-API-Version": f"balancer {call.version[0]}.{call.version[1]}",
        "Vary": "OpenStack-API-Version, Accept",
    }


def end(call: Call, status: int) -> None:
    """The call has its answer: count it, and say so in the log."""
    metrics, took_s = call.service.engine.metrics, seconds(wall_us() - call.start_us)
    if status in _DENIED:
        metrics.denied(status)
    method = call.method if call.method in _METHODS else "other"
    metrics.http_done(method, call.route or "unknown", status, took_s)
    _note(call, status, took_s)


def forget() -> None:
    """The call is over."""
    structlog.contextvars.unbind_contextvars("request_id")


def _note(call: Call, status: int, took_s: float) -> None:
    """One line a call that changes something or fails; reads that went well are for debugging."""
    quiet = call.method in _READS and status < _FAILED
    if quiet and not _log.is_enabled_for(logging.DEBUG):
        return
    (_log.debug if quiet else _log.info)(
        "call",
        method=call.method,
        path=call.path,
        status=status,
        took_ms=round(took_s * 1000, 3),
        caller=call.identity.principal if call.identity is not NOBODY else None,
        address=call.address,
        code=call.problem_code,
    )


def _version(text: str) -> tuple[int, int]:
    """The version to answer in: the asked one, else the lowest."""
    found = MIN_VERSION
    # The header may name other services as well: "compute 2.1, balancer 1.0".
    for part in text.split(","):
        if part.split()[:1] != ["balancer"]:
            continue
        match = _VERSION.fullmatch(part.strip())
        version: Any = (
            None if match is None else (MAX_VERSION if match[1] is None else (int(match[1]), int(match[2])))
        )
        if version is None or not MIN_VERSION <= version <= MAX_VERSION:
            raise Problem(
                406,
                VERSION_NOT_SUPPORTED,
                f"{part.strip()!r} is not served: 1.{MIN_VERSION[1]} to 1.{MAX_VERSION[1]} are",
                min_version=f"1.{MIN_VERSION[1]}",
                max_version=f"1.{MAX_VERSION[1]}",
            )
        found = version
    return found
