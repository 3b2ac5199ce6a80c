"""Every error of the API in one shape (RFC 9457 with the members OpenStack clients look for), and the codes.

A code is for programs and never changes its meaning; `detail` is for people.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import structlog
from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from balancer.api.call import current
from balancer.ledger.errors import FencedError, LedgerError, ReadOnlyError
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.service.callers import CallerGoneError
from balancer.service.calls import CONCURRENT_UPDATE, TooManyError
from balancer.service.idempotency import KeyInUseError, KeyReusedError
from balancer.service.writer import StoppingError
from balancer.wrong_values import place, reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError

_log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"

INVALID = "balancer.invalid_request"
NOT_FOUND = "balancer.not_found"
NOT_OBTAINABLE = "balancer.not_obtainable"
WITHDRAWN = "balancer.withdrawn"
LEASE_ENDED = "balancer.lease_ended"
TOO_MANY_STREAMS = "balancer.too_many_streams"
VERSION_NOT_SUPPORTED = "balancer.version_not_supported"
INTERNAL = "balancer.internal_error"
TOO_LARGE = "balancer.too_large"
EVENTS_FORGOTTEN = "balancer.events_forgotten"
FORBIDDEN = "balancer.forbidden"
FOREIGN_HOST = "balancer.foreign_host"
FOREIGN_ORIGIN = "balancer.foreign_origin"
UNSUPPORTED = "balancer.unsupported_media_type"
WRONG_NODE = "balancer.wrong_node"

_OF_REFUSAL: dict[str, tuple[int, str]] = {
    Refused.UNKNOWN_NODE: (400, "balancer.unknown_node"),
    Refused.DUPLICATE_NODE: (400, "balancer.duplicate_node"),
    Refused.BAD_COUNT: (400, "balancer.bad_count"),
    Refused.BAD_TIME: (400, "balancer.bad_time"),
    Refused.BAD_STATE: (400, "balancer.bad_state"),
    Refused.NODE_NOT_IN_BATCH: (409, "balancer.node_not_in_batch_pool"),
    Refused.NODE_NOT_ALLOCATED: (409, "balancer.node_not_allocated"),
    Refused.NODE_NOT_QUARANTINED: (409, "balancer.node_not_quarantined"),
    Refused.ID_IN_USE: (409, "balancer.id_in_use"),
    Refused.NOT_OWNER: (403, "balancer.not_owner"),
    Refused.NOT_GRANTED: (409, "balancer.not_granted"),
    Refused.BAD_CANDIDATES: (400, "balancer.bad_candidates"),
    CONCURRENT_UPDATE: (409, "balancer.concurrent_update"),
}

_SOON = {"Retry-After": "1"}

_CLIENT_CLOSED = 408
"""Request Timeout: the nearest there is to a caller that is not there any more."""

_SORRY = "something went wrong here; the log has the details under the request id"

_OF_STATUS = {400: INVALID, 404: NOT_FOUND, 405: "balancer.method_not_allowed", 413: TOO_LARGE}


class Problem(Exception):
    """An error to answer with. `more` are members of its own."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}
        self.more = more

    def text(self) -> bytes:
        """The document. The log of this call names its code."""
        call = current()
        call.problem_code = self.code
        shown = document(self.status, self.code, self.detail, instance=call.path, request_id=call.request_id)
        return json.dumps(shown | self.more).encode()


def document(status: int, code: str, detail: str, *, instance: str, request_id: str) -> dict[str, Any]:
    """With all that openapi.json requires of a problem."""
    title = HTTPStatus(status).phrase
    error = {
        "code": code,
        "status": int(status),
        "title": title,
        "detail": detail,
        "request_id": request_id,
        "links": [],
    }
    return {
        "type": f"urn:problem:{code}",
        "title": title,
        "status": int(status),
        "detail": detail,
        "instance": instance,
        "code": code,
        "request_id": request_id,
        "errors": [error],
    }


def of(error: Exception) -> Problem:
    """Every way in which a call can fail, in the one shape."""
    if isinstance(error, Problem):
        return error
    make = next((_OF_ERROR[kind] for kind in type(error).__mro__ if kind in _OF_ERROR), None)
    if make is not None:
        return make(error)
    call = current()
    _log.error("a call failed", path=call.path, request_id=call.request_id, exc_info=error)
    return Problem(500, INTERNAL, _SORRY)


def _of_refusal(error: Refused) -> Problem:
    status, code = _OF_REFUSAL.get(error.code, (409, f"balancer.{error.code}"))
    return Problem(status, code, error.detail)


def of_input(error: ValidationError) -> Problem:
    """A body or query that is not as described: one sentence a field."""
    found: dict[str, list[str]] = {}
    for each in error.errors(include_url=False):
        where = place(each) or "the body"
        found.setdefault(where, []).append(f"{where}: {reason(each, with_value=False)}")
    detail = "; ".join(sentence for sentences in found.values() for sentence in sentences)
    return Problem(400, INVALID, detail)


def _of_framework(error: HTTPException) -> Problem:
    status = error.code or 500
    is_ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    # Without the exception's own headers a 405 would lose its Allow.
    headers = {name: value for name, value in error.get_headers() if name != "Content-Type"}
    code = _OF_STATUS.get(status, INTERNAL if is_ours else INVALID)
    return Problem(status, code, _SORRY if is_ours else error.name, headers=headers)


def _key_reused(_: KeyReusedError) -> Problem:
    key = current().header("Idempotency-Key") or ""
    return Problem(
        422, "balancer.idempotency_key_reused", f"the key {key} was used for a call with another body"
    )


def _plainly(status: int, code: str, headers: dict[str, str] | None = None) -> Callable[[Exception], Problem]:
    """A problem that says what the error says."""
    return lambda error: Problem(status, code, str(error), headers=headers)


def _too_many(error: TooManyError) -> Problem:
    code = "balancer.too_many_waiting" if error.what == "requests" else "balancer.too_many_reserves"
    return Problem(503, code, str(error), headers={"Retry-After": "10"})


def _stopping(error: StoppingError) -> Problem:
    more = {"id": error.request_id} if error.request_id else {}
    return Problem(503, "balancer.stopping", str(error), headers={"Retry-After": "5"}, **more)


_OF_ERROR: dict[type[BaseException], Callable[[Any], Problem]] = {
    Refused: _of_refusal,
    HTTPException: _of_framework,
    KeyReusedError: _key_reused,
    KeyInUseError: _plainly(409, "balancer.call_in_progress", _SOON),
    TooManyError: _too_many,
    LedgerError: _plainly(503, "balancer.ledger_unavailable", _SOON),
    ReadOnlyError: _plainly(503, "balancer.read_only", _SOON),
    FencedError: _plainly(503, "balancer.taken_over", _SOON),
    StoppingError: _stopping,
    # Nobody reads this: the number says so in log and metrics.
    CallerGoneError: _plainly(_CLIENT_CLOSED, "balancer.caller_gone"),
    BadPlan: _plainly(500, "balancer.algorithm_failed"),
}
"""By the class of an error or, where that has no entry, of the nearest one that it is derived from."""


def install(app: Flask) -> None:
    """What fails in the framework gets the same shape."""

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        problem = of(error)
        return Response(problem.text(), problem.status, problem.headers, content_type=MEDIA_TYPE)
