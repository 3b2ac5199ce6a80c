"""Every error of the API in one shape (RFC 9457 with the members OpenStack clients look for), and the codes.

A code is for programs and never changes its meaning; `detail` is for people.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import structlog
from flask import Response, g, request

from balancer.callers import CallerGoneError
from balancer.calls import CONCURRENT_UPDATE, TooManyError
from balancer.idempotency import KeyInUseError, KeyReusedError
from balancer.ledger.errors import FencedError, LedgerError, ReadOnlyError
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.writer import StoppingError

if TYPE_CHECKING:
    from apiflask import APIFlask
    from apiflask.exceptions import HTTPError

_log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"

INVALID = "balancer.invalid_request"
NOT_FOUND = "balancer.not_found"
NOT_OBTAINABLE = "balancer.not_obtainable"
WITHDRAWN = "balancer.withdrawn"
LEASE_ENDED = "balancer.lease_ended"
NODE_NOT_IN_BATCH_POOL = "balancer.node_not_in_batch_pool"
NODE_NOT_ALLOCATED = "balancer.node_not_allocated"
KEY_REUSED = "balancer.idempotency_key_reused"
KEY_IN_USE = "balancer.call_in_progress"
TOO_MANY_STREAMS = "balancer.too_many_streams"
LEDGER_UNAVAILABLE = "balancer.ledger_unavailable"
READ_ONLY = "balancer.read_only"
TAKEN_OVER = "balancer.taken_over"
STOPPING = "balancer.stopping"
ALGORITHM_FAILED = "balancer.algorithm_failed"
VERSION_NOT_SUPPORTED = "balancer.version_not_supported"
INTERNAL = "balancer.internal_error"
TOO_LARGE = "balancer.too_large"
TOO_MANY_WAITING = "balancer.too_many_waiting"
TOO_MANY_RESERVES = "balancer.too_many_reserves"
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
    Refused.NODE_NOT_IN_BATCH: (409, NODE_NOT_IN_BATCH_POOL),
    Refused.NODE_NOT_ALLOCATED: (409, NODE_NOT_ALLOCATED),
    Refused.NODE_NOT_HELD: (409, "balancer.node_not_held"),
    Refused.ID_IN_USE: (409, "balancer.id_in_use"),
    Refused.NOT_OWNER: (403, "balancer.not_owner"),
    Refused.NOT_GRANTED: (409, "balancer.not_granted"),
    Refused.BAD_CANDIDATES: (400, "balancer.bad_candidates"),
    CONCURRENT_UPDATE: (409, "balancer.concurrent_update"),
}

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

    def body(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        request_id = g.get("request_id", "")
        error = {
            "code": self.code,
            "status": self.status,
            "title": title,
            "detail": self.detail,
            "request_id": request_id,
            "links": [],
        }
        return {
            "type": f"urn:problem:{self.code}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            "instance": request.path,
            "code": self.code,
            "request_id": request_id,
            "errors": [error],
            **self.more,
        }

    def response(self) -> Response:
        g.problem_code = self.code
        return Response(json.dumps(self.body()), self.status, self.headers, content_type=MEDIA_TYPE)


def of_refusal(error: Refused) -> Problem:
    status, code = _OF_REFUSAL.get(error.code, (409, f"balancer.{error.code}"))
    return Problem(status, code, error.detail)


def install(app: APIFlask) -> None:  # noqa: C901 - one small handler for each kind of failure
    """Every way in which a call can fail gets the one shape."""

    @app.error_processor
    def http_error(error: HTTPError) -> Any:
        detail = _explain(error.detail) if isinstance(error.detail, dict) and error.detail else error.message
        if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            detail = _SORRY
        if error.status_code == HTTPStatus.BAD_REQUEST and detail == "Bad Request":
            detail = "the body cannot be read as JSON"
        code = _OF_STATUS.get(error.status_code, INTERNAL if error.status_code >= 500 else INVALID)  # noqa: PLR2004
        # Without the exception's own headers a 405 would lose its Allow.
        problem = Problem(
            error.status_code, code, str(detail), headers=dict(cast("dict[str, str]", error.headers or {}))
        )
        g.problem_code = code
        return problem.body(), problem.status, problem.headers | {"Content-Type": MEDIA_TYPE}

    @app.errorhandler(Problem)
    def problem(error: Problem) -> Response:
        return error.response()

    @app.errorhandler(Refused)
    def refused(error: Refused) -> Response:
        return of_refusal(error).response()

    @app.errorhandler(KeyReusedError)
    def key_reused(_: KeyReusedError) -> Response:
        given = request.headers.get("Idempotency-Key", "")
        return Problem(422, KEY_REUSED, f"the key {given} was used for a call with another body").response()

    @app.errorhandler(KeyInUseError)
    def key_in_use(error: KeyInUseError) -> Response:
        return Problem(409, KEY_IN_USE, str(error), headers={"Retry-After": "1"}).response()

    @app.errorhandler(TooManyError)
    def too_many(error: TooManyError) -> Response:
        code = TOO_MANY_WAITING if error.what == "requests" else TOO_MANY_RESERVES
        return Problem(503, code, str(error), headers={"Retry-After": "10"}).response()

    @app.errorhandler(LedgerError)
    def ledger(error: LedgerError) -> Response:
        code = READ_ONLY if isinstance(error, ReadOnlyError) else LEDGER_UNAVAILABLE
        if isinstance(error, FencedError):
            code = TAKEN_OVER
        return Problem(503, code, str(error), headers={"Retry-After": "1"}).response()

    @app.errorhandler(StoppingError)
    def stopping(error: StoppingError) -> Response:
        more = {"id": error.request_id} if error.request_id else {}
        return Problem(503, STOPPING, str(error), headers={"Retry-After": "5"}, **more).response()

    @app.errorhandler(CallerGoneError)
    def caller_gone(_: CallerGoneError) -> Response:
        # Nobody reads this: the number says so in log and metrics.
        return Problem(_CLIENT_CLOSED, "balancer.caller_gone", "the caller hung up").response()

    @app.errorhandler(BadPlan)
    def bad_plan(error: BadPlan) -> Response:
        return Problem(500, ALGORITHM_FAILED, str(error)).response()

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        _log.error("a call failed", path=request.path, request_id=g.get("request_id"), exc_info=error)
        return Problem(500, INTERNAL, _SORRY).response()


def _explain(detail: dict[str, Any]) -> str:
    """`{"json": {"nodes": ["..."]}}` of the framework as one sentence a field."""
    found: list[str] = []

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(f"{path}.{name}" if path else str(name), inner)
        elif isinstance(value, list):
            for inner in value:
                walk(path, inner)
        else:
            found.append(f"{path}: {value}")

    for place, value in detail.items():
        walk("" if place in ("json", "query") else str(place), value)
    return "; ".join(found)
