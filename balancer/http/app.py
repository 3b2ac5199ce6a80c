"""The application factory: an engine behind HTTP."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from apiflask import APIFlask

from balancer.api import (
    adoption,
    dashboard,
    events,
    health,
    history,
    nodes,
    problems,
    requests,
    reserves,
    sessions,
    status,
)
from balancer.api.document import complete
from balancer.api.operations import Front
from balancer.api.service import MAX_BODY_BYTES, Access, Service
from balancer.lending import Lending
from balancer.service.pools import PoolHistory
from balancer.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Collection

    from balancer.service.engine import Engine

_DESCRIPTION = """Moves whole nodes between an on-demand pool and a batch pool while jobs run.

Times are ISO 8601 in UTC, durations are seconds. Errors are problem documents (RFC 9457) with a `code`.
POST calls may carry an `Idempotency-Key`: the same call with the same key gets the stored answer for 7 days.
"""
_CALLS = (nodes, adoption, requests, reserves, history, events, status, health)


def create_app(
    engine: Engine | None,
    *,
    max_waiting: int = 24,
    disable_file: str | None = None,
    access: Access | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    max_streams: int = 32,
    hosts: Collection[str] | None = None,
) -> APIFlask:
    """The HTTP side. `max_waiting`: calls that may block at a time; `access`: missing: everybody may do everything.

    `hosts`: names by which callers may call the service; None: any. Without an engine: only the description.
    """
    app = APIFlask(
        "balancer",
        title="Balancer",
        version=VERSION,
        docs_path=None,
        spec_path="/openapi.json",
        json_errors=False,  # all errors go through `problems`
        static_folder=None,  # type: ignore[arg-type] # Flask's way to say: no files are served
    )
    app.config.update(
        VALIDATION_ERROR_STATUS_CODE=400,
        OPENAPI_VERSION="3.1.0",
        DESCRIPTION=_DESCRIPTION,
        MAX_CONTENT_LENGTH=max_body_bytes,
        AUTO_OPERATION_ID=True,
        TAGS=[{"name": name} for name in ("nodes", "requests", "reserves", "history", "events", "health")],
    )
    problems.install(app)
    for module in (*_CALLS, dashboard, sessions):
        app.register_blueprint(module.blueprint)
    if engine is not None:
        state = Service(
            engine,
            waiting=threading.BoundedSemaphore(max_waiting),
            streams=threading.BoundedSemaphore(max_streams),
            pools=PoolHistory(engine.ledger, engine.published.counted),
            lending=Lending(engine.ledger, engine.published.counted),
            disable_file=disable_file,
            max_body_bytes=max_body_bytes,
            hosts=None if hosts is None else frozenset(hosts),
            access=access or Access(),
        )
        app.wsgi_app = Front(app, state)  # type: ignore[assignment, method-assign] # where Flask wants what stands before it

    app.spec_processor(complete)

    return app


def openapi_text() -> str:
    """The OpenAPI document as it is committed."""
    app = create_app(None)
    with app.app_context():
        return json.dumps(app.spec, indent=2, sort_keys=True) + "\n"
