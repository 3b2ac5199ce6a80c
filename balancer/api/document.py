"""What the framework leaves out of the OpenAPI document: problems, credentials, keys, links between calls."""

from __future__ import annotations

from typing import Any

from balancer.api.problems import MEDIA_TYPE
from balancer.auth.policy import is_public, roles_for

_METHODS = ("get", "post", "delete")
_SUBJECTS = {"adoption": "nodes", "status": "health"}
"""Blueprints whose calls belong to another subject."""


def complete(spec: Any) -> Any:
    """The framework's document, made true."""
    components = spec.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = _PROBLEM
    components["securitySchemes"] = _SCHEMES
    for path, item in spec["paths"].items():
        route = path.replace("{", "<").replace("}", ">")
        for method in _METHODS:
            if method in item:
                _complete(item[method], method.upper(), route)
    for operation, status, name, link in _LINKS:
        responses = _operation(spec, operation)["responses"]
        responses[status].setdefault("links", {})[name] = link
    return spec


def _complete(operation: dict[str, Any], method: str, route: str) -> None:
    # The framework says method_blueprint_function, and leaves the blueprint's tag out where all tags are listed.
    _, blueprint, operation["operationId"] = operation["operationId"].split("_", 2)
    operation["tags"] = [_SUBJECTS.get(blueprint, blueprint)]
    responses = operation["responses"]
    plain = [
        _text(response) for status, response in responses.items() if route in _HEALTH and status[0] in "25"
    ]
    if "requestBody" in operation:
        operation["requestBody"]["required"] = True
        operation.setdefault("parameters", []).append(_KEY)
        responses |= {
            "422": _problem("The key was used for another body"),
            "413": _problem("Too large a body"),
            "415": _problem("The body is not JSON by its content type"),
        }
        responses.setdefault("409", _problem("A call with this key is under way: repeat it in a moment"))
        responses.setdefault("400", _problem("The body is not as described, or names unknown nodes"))
    if route.startswith("/v1/") and route != "/v1/":
        operation.setdefault("parameters", []).append(_VERSION)
        responses["406"] = _problem("The asked version of the API is not served")
        responses["503"] = _problem("Not now: try again after Retry-After")
    if is_public(method, route):
        operation["security"] = []
    else:
        schemes = ["bearer", *(["hook"] if route == "/v1/update_nodes" else [])]
        operation["security"] = [{scheme: []} for scheme in schemes]
        roles = ", ".join(sorted(roles_for(method, route)))
        operation["description"] = f"{operation.get('description', '')}\n\nRoles: {roles}.".strip()
        responses |= {
            "401": _problem("No valid credentials"),
            "403": _problem("The role may not do this"),
            "429": _problem("Too many calls: try again after Retry-After"),
        }
    for status, response in responses.items():
        if status[0] in "45" and response not in plain:
            response["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if operation["operationId"] == "request_nodes":
        granted = responses["200"]["content"]
        responses["202"] |= {"content": granted, "headers": {"Location": {"schema": {"type": "string"}}}}
    if operation["operationId"] == "list_events":
        responses["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}


def _operation(spec: Any, operation_id: str) -> Any:
    found = (
        item[method]
        for item in spec["paths"].values()
        for method in _METHODS
        if item.get(method, {}).get("operationId") == operation_id
    )
    return next(found)


def _problem(description: str) -> dict[str, Any]:
    return {"description": description}


def _text(response: dict[str, Any]) -> dict[str, Any]:
    response["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return response


_HEALTH = ("/livez", "/readyz", "/healthz", "/healthcheck", "/metrics")

_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `balancer token create`. Reads also take it as the password of HTTP Basic.",
    },
    "hook": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`Balancer-Hook node=...,sequence=...,signature=...`: see docs/balancer/security.md.",
    },
}

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": "A retry with the same key and body gets the first answer, or 409 balancer.call_in_progress "
    "while there is none; another body: 422",
}

_VERSION = {
    "name": "OpenStack-API-Version",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "examples": ["balancer 1.0", "balancer latest"]},
    "description": "Missing: the lowest version. Not served: 406 with min_version and max_version",
}

_PROBLEM = {
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

_BY_ID = {"request_id": "$response.body#/id"}
_RELEASE = {
    "operationId": "release_nodes",
    "requestBody": {"nodes": "$response.body#/nodes"},
    "description": "Give them back",
}
_LINKS = (
    ("request_nodes", "200", "its_state", {"operationId": "get_request", "parameters": _BY_ID}),
    ("request_nodes", "202", "its_state", {"operationId": "get_request", "parameters": _BY_ID}),
    ("request_nodes", "202", "withdraw", {"operationId": "withdraw_request", "parameters": _BY_ID}),
    ("request_nodes", "200", "release", _RELEASE),
    (
        "list_nodes",
        "200",
        "one",
        {"operationId": "get_node", "parameters": {"name": "$response.body#/nodes/0/name"}},
    ),
    (
        "list_requests",
        "200",
        "one",
        {"operationId": "get_request", "parameters": {"request_id": "$response.body#/requests/0/id"}},
    ),
)
