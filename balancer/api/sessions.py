"""Logging in with a browser: a page, and the cookie that lets it read."""

from __future__ import annotations

from typing import Annotated, Any

from apiflask import APIBlueprint
from flask import Response, render_template, request
from pydantic import Field

from balancer.api.access import log_in
from balancer.api.context import Body
from balancer.api.operations import read_body
from balancer.auth.sessions import COOKIE
from balancer.version import VERSION

blueprint = APIBlueprint("sessions", __name__, enable_openapi=False, template_folder="templates")

_KEPT_S = 12 * 3600
_ASSETS = {
    "dashboard.js": "text/javascript",
    "dashboard_chart.js": "text/javascript",
    "dashboard_words.js": "text/javascript",
    "login.js": "text/javascript",
    "page.css": "text/css",
}


class LogIn(Body):
    token: Annotated[str, Field(max_length=255)]


@blueprint.get("/login")
def page() -> Any:
    """Asks for a token."""
    return render_template("login.html", version=VERSION)


@blueprint.post("/session")
def begin() -> Any:
    """The cookie cannot be read by scripts, is sent by no other site, and never authorizes a write."""
    response = Response(status=204)
    session = log_in(read_body(LogIn).token, _KEPT_S)
    if session is not None:
        response.set_cookie(
            COOKIE, session, max_age=_KEPT_S, httponly=True, samesite="Strict", secure=request.is_secure
        )
    return response


@blueprint.delete("/session")
def end() -> Any:
    """Forget the cookie."""
    response = Response(status=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="Strict", secure=request.is_secure)
    return response


@blueprint.get("/assets/<name>")
def asset(name: str) -> Any:
    """Scripts and style of the pages."""
    if name not in _ASSETS:
        return Response(status=404)
    with blueprint.open_resource(f"assets/{name}") as file:
        response = Response(file.read(), content_type=f"{_ASSETS[name]}; charset=utf-8")
    response.headers["Cache-Control"] = "no-cache"
    response.add_etag()
    return response.make_conditional(request)
