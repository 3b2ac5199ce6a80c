"""What the services' HTTP has in common: request ids, tokens, times and identifiers."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from flask import Flask, g, request

from balancer.clock import US

if TYPE_CHECKING:
    from flask import Response

    from emulator.live.ondemand.auth import Keyring, Token

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNAUTHORIZED = "The request you have made requires authentication."


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


def caller(keyring: Keyring) -> Token | None:
    """Whoever sends this request."""
    return keyring.token(request.headers.get("X-Auth-Token"))


def unauthorized(identity_url: str) -> tuple[dict[str, object], int, dict[str, str]]:
    """The answer of the token check in front of compute and placement."""
    body: dict[str, object] = {"error": {"code": 401, "title": "Unauthorized", "message": UNAUTHORIZED}}
    return body, 401, {"WWW-Authenticate": f'Keystone uri="{identity_url}"'}


def site_url() -> str:
    """Where the services are mounted, as the client sees it: scheme, host and port."""
    return request.host_url.rstrip("/")


def iso(time_us: int | None) -> str | None:
    """`2026-11-21T00:23:15.000000`, the form of launched_at. None stays None."""
    return None if time_us is None else f"{_moment(time_us):%Y-%m-%dT%H:%M:%S.%f}"


def iso_z(time_us: int) -> str:
    """`2026-11-21T00:23:15Z`, the form of created and updated."""
    return f"{_moment(time_us):%Y-%m-%dT%H:%M:%SZ}"


def from_iso(text: str) -> int:
    """Microseconds since 1970 of a time that `iso` wrote."""
    return round((datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) / timedelta(microseconds=1))


def _moment(time_us: int) -> datetime:
    return _EPOCH + timedelta(seconds=time_us // US, microseconds=time_us % US)
