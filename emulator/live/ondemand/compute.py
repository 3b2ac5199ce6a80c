"""Nova: microversions, and all of its parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, jsonify, request

from emulator.live.ondemand.compute_servers import add_servers
from emulator.live.ondemand.compute_site import Quotas, add_flavor, add_site
from emulator.live.ondemand.http import ApiError, caller, service, unauthorized

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Keyring
    from emulator.live.ondemand.config import OndemandConfig
    from emulator.live.ondemand.site import Site

_MINIMUM, _MAXIMUM = (2, 1), (2, 104)
_VERSION = re.compile(r"(\d+)\.(\d+)")

_FAULTS = {
    400: "badRequest",
    403: "forbidden",
    404: "itemNotFound",
    406: "computeFault",
    409: "conflictingRequest",
    501: "notImplemented",
}


def compute_app(keyring: Keyring, site: Site, config: OndemandConfig) -> Flask:
    app = service("compute", _shown)

    @app.before_request
    def guard() -> tuple[dict[str, object], int, dict[str, str]] | None:
        g.version = _MINIMUM
        if request.path == "/":
            return None
        g.version = _requested_version()
        if request.path.rstrip("/") == "/v2.1":
            return None
        token = caller(keyring)
        if token is None:
            return unauthorized()
        g.account = token.account
        if not _MINIMUM <= g.version <= _MAXIMUM:
            raise ApiError(
                406,
                f"Version {_text(g.version)} is not supported by the API. "
                f"Minimum is {_text(_MINIMUM)} and maximum is {_text(_MAXIMUM)}.",
            )
        if not request.args.get("limit", "0").isdecimal():
            raise ApiError(400, "Invalid input for query parameters limit.")
        return None

    @app.after_request
    def show_version(response: Response) -> Response:
        response.headers["x-compute-request-id"] = g.request_id
        if request.path != "/" and response.status_code != 401:  # noqa: PLR2004
            response.headers["OpenStack-API-Version"] = f"compute {_text(g.version)}"
            response.headers["X-OpenStack-Nova-API-Version"] = _text(g.version)
            response.headers["Vary"] = "OpenStack-API-Version, X-OpenStack-Nova-API-Version"
        return response

    _add_versions(app)
    quotas = Quotas(config)
    add_servers(app, site, config, quotas)
    add_flavor(app, config.flavor)
    add_site(app, site, config, quotas)
    return app


def _shown(error: ApiError) -> Response:
    response = jsonify({_FAULTS[error.code]: {"code": error.code, "message": error.message}})
    response.status_code = error.code
    response.content_type = "application/json; charset=UTF-8"
    return response


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _requested_version() -> tuple[int, int]:
    text = request.headers.get("OpenStack-API-Version", "").removeprefix("compute ").strip()
    text = text or request.headers.get("X-OpenStack-Nova-API-Version", "").strip()
    if not text:
        return _MINIMUM
    if text == "latest":
        return _MAXIMUM
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ApiError(
            400, f"API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    return int(match[1]), int(match[2])


def _add_versions(app: Flask) -> None:
    def about(link: str) -> dict[str, Any]:
        return {
            "id": "v2.1", "status": "CURRENT", "version": _text(_MAXIMUM), "min_version": _text(_MINIMUM),
            "updated": "2013-07-23T11:33:21Z", "links": [{"rel": "self", "href": link}],
        }  # fmt: skip

    @app.get("/")
    def versions() -> dict[str, Any]:
        return {"versions": [about(f"{request.root_url.rstrip('/')}/v2.1/")]}

    @app.get("/v2.1")
    def version() -> dict[str, Any]:
        found = about(f"{request.root_url.rstrip('/')}/v2.1/")
        found["links"].append(
            {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"}
        )
        kind = "application/vnd.openstack.compute+json;version=2.1"
        return {"version": found | {"media-types": [{"base": "application/json", "type": kind}]}}
