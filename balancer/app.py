"""The application factory: an engine behind HTTP."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from apiflask import APIFlask

from balancer.api import context, dashboard, events, health, history, nodes, problems, requests, reserves
from balancer.version import VERSION

if TYPE_CHECKING:
    from balancer.engine import Engine

_DESCRIPTION = """Moves whole nodes between an on-demand pool and a batch pool while jobs run.

Times are ISO 8601 in UTC, durations are seconds. Errors are problem documents (RFC 9457) with a `code`.
POST calls may carry an `Idempotency-Key`: the same call with the same key gets the stored answer for 7 days.
"""
_MAX_BODY = 16 * 1024 * 1024


def create_app(engine: Engine | None, *, max_waiting: int = 24, disable_file: str | None = None) -> APIFlask:
    """The HTTP side. `max_waiting`: calls that may block at a time. No engine: only the description."""
    app = APIFlask("balancer", title="Balancer", version=VERSION, docs_path=None, spec_path="/openapi.json")
    app.config.update(
        VALIDATION_ERROR_STATUS_CODE=400,
        OPENAPI_VERSION="3.1.0",
        DESCRIPTION=_DESCRIPTION,
        MAX_CONTENT_LENGTH=_MAX_BODY,
        TAGS=[{"name": name} for name in ("nodes", "requests", "reserves", "history", "events", "health")],
    )
    problems.install(app)
    if engine is not None:
        slots = threading.BoundedSemaphore(max_waiting)
        context.install(app, context.Service(engine, slots, disable_file))
    for module in (nodes, requests, reserves, history, events, health, dashboard):
        app.register_blueprint(module.blueprint)

    app.spec_processor(_fixed)

    return app


def openapi_text() -> str:
    """The OpenAPI document as it is committed."""
    app = create_app(None)
    with app.app_context():
        return json.dumps(app.spec, indent=2, sort_keys=True) + "\n"


def _fixed(spec: Any) -> Any:
    """What APIFlask leaves out: bodies are required, and errors are problem documents."""
    problem = {"$ref": "#/components/schemas/Problem"}
    spec.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
    for path in spec["paths"].values():
        for operation in path.values():
            if not isinstance(operation, dict):
                continue
            if "requestBody" in operation:
                operation["requestBody"]["required"] = True
                operation.setdefault("parameters", []).append(_KEY_PARAMETER)
            for status, response in operation["responses"].items():
                if status[0] in "45":
                    response["content"] = {problems.MEDIA_TYPE: {"schema": problem}}
    return spec


_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "A retry with the same key and body gets the first answer; another body: 422",
}

_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
        "request_id": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}
