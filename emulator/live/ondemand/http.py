"""What the services' HTTP has in common: request ids, tokens and addresses."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from flask import Flask, g, request

if TYPE_CHECKING:
    from flask import Response

    from emulator.live.ondemand.auth import Keyring, Token

UNAUTHORIZED = "The request you have made requires authentication."


class ApiError(Exception):
    """An answer that is an error; each service shows it in its own form."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def service(name: str) -> Flask:
    """A Flask application whose answers carry a request id, as those of every OpenStack service."""
    app = Flask(name)
    app.url_map.strict_slashes = False

    @app.before_request
    def name_request() -> None:
        g.request_id = f"req-{uuid.uuid4()}"

    @app.after_request
    def show_request(response: Response) -> Response:
        response.headers["x-openstack-request-id"] = g.request_id
        return response

    return app


def service_for_callers(name: str, keyring: Keyring, *, free: frozenset[str]) -> Flask:
    """As `service`; whoever has no token sees only the `free` paths."""
    app = service(name)

    @app.before_request
    def guard() -> tuple[dict[str, object], int, dict[str, str]] | None:
        return None if request.path.rstrip("/") in free or caller(keyring) is not None else unauthorized()

    return app


def body_part(name: str) -> Any:
    """What the request's JSON says under this name; None where it is no such mapping."""
    body = request.get_json(silent=True)
    return body.get(name) if isinstance(body, dict) else None


def caller(keyring: Keyring) -> Token | None:
    """Whoever sends this request."""
    return keyring.token(request.headers.get("X-Auth-Token"))


def unauthorized() -> tuple[dict[str, object], int, dict[str, str]]:
    """The answer of the token check in front of compute and placement."""
    body: dict[str, object] = {"error": {"code": 401, "title": "Unauthorized", "message": UNAUTHORIZED}}
    return body, 401, {"WWW-Authenticate": f'Keystone uri="{site_url()}/identity"'}


def site_url() -> str:
    """Where the services are mounted, as the client sees it: scheme, host and port."""
    return request.host_url.rstrip("/")
