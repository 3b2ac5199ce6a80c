"""Placement: every host is a resource provider that has room for one server or none."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, jsonify, request
from werkzeug.http import http_date

from balancer.clock import SystemClock, seconds
from emulator.live.ondemand.http import ApiError, absent, caller, service, unauthorized
from emulator.live.ondemand.site import Site, provider_id

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Keyring
    from emulator.live.ondemand.config import Flavor, OndemandConfig
    from emulator.live.ondemand.servers import Server

_MINIMUM, _MAXIMUM = (1, 0), (1, 39)
_wall = SystemClock()
_LINKS = ("inventories", "usages", "aggregates", "traits", "allocations")


def placement_app(keyring: Keyring, site: Site, config: OndemandConfig) -> Flask:
    app = service("placement", _shown)

    @app.before_request
    def guard() -> tuple[dict[str, object], int, dict[str, str]] | None:
        g.version = _requested_version()
        if request.path == "/":
            return None
        token = caller(keyring)
        if token is None:
            return unauthorized()
        if not token.account.admin:
            what = request.path.strip("/").split("/", maxsplit=1)[0]
            raise ApiError(
                403,
                "Access was denied to this resource.\n\n "
                f"Policy does not allow placement:{what}:list to be performed.  ",
            )
        if not _MINIMUM <= g.version <= _MAXIMUM:
            raise ApiError(406, f"Unacceptable version header: {g.version[0]}.{g.version[1]}")
        return None

    @app.after_request
    def show_version(response: Response) -> Response:
        response.headers["openstack-api-version"] = f"placement {g.version[0]}.{g.version[1]}"
        response.headers["vary"] = "openstack-api-version"
        if g.version >= (1, 15) and response.status_code == 200:  # noqa: PLR2004
            response.headers["cache-control"] = "no-cache"
            response.headers["last-modified"] = http_date(seconds(_wall.now_us()))
        return response

    @app.get("/")
    def versions() -> dict[str, Any]:
        version = {"id": "v1.0", "max_version": "1.39", "min_version": "1.0", "status": "CURRENT"}
        return {"versions": [{**version, "links": [{"rel": "self", "href": ""}]}]}

    _add_providers(app, site, config.flavor)
    return app


def _shown(error: ApiError) -> Response:
    title = HTTPStatus(error.code).phrase
    fault = {"status": error.code, "title": title, "detail": error.message, "request_id": g.request_id}
    response = jsonify({"errors": [fault]})
    response.status_code = error.code
    return response


def _requested_version() -> tuple[int, int]:
    text = request.headers.get("OpenStack-API-Version", "").removeprefix("placement ").strip()
    if text == "latest":
        return _MAXIMUM
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else _MINIMUM


def _add_providers(app: Flask, site: Site, flavor: Flavor) -> None:
    size = {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.ram_mb, "DISK_GB": flavor.disk_gb}

    def find(uuid: str) -> tuple[str, Server | None]:
        for host, server in site.hosts().items():
            if provider_id(host) == uuid:
                return host, server
        text = f"The resource could not be found.\n\n No resource provider with uuid {uuid} found  "
        raise ApiError(404, text)

    def generation(host: str) -> int:
        """Grows whenever a server comes or goes."""
        past = sum(server.host == host for server in site.cloud.past())
        return 1 + 2 * past + sum(server.host == host for server in site.cloud.servers())

    def row(host: str) -> dict[str, Any]:
        uuid = provider_id(host)
        path = f"/resource_providers/{uuid}"
        links = [{"rel": "self", "href": path}, *({"rel": rel, "href": f"{path}/{rel}"} for rel in _LINKS)]
        return {
            "uuid": uuid, "name": host, "generation": generation(host), "links": links, "parent_provider_uuid": None,
            "root_provider_uuid": uuid,
        }  # fmt: skip

    @app.get("/resource_providers")
    def providers() -> dict[str, Any]:
        if unknown := sorted(request.args.keys() - {"name", "uuid"}):
            raise absent(f"parameter {unknown[0]} of a list of resource providers", 400)
        name, uuid = request.args.get("name"), request.args.get("uuid")
        found = [host for host in site.hosts() if name in {None, host} and uuid in {None, provider_id(host)}]
        return {"resource_providers": [row(host) for host in found]}

    @app.get("/resource_providers/<uuid>/inventories")
    def inventories(uuid: str) -> dict[str, Any]:
        host, _ = find(uuid)
        whole = {"reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
        rows = {kind: whole | {"total": total, "max_unit": total} for kind, total in size.items()}
        return {"resource_provider_generation": generation(host), "inventories": rows}

    @app.get("/resource_providers/<uuid>/usages")
    def usages(uuid: str) -> dict[str, Any]:
        host, server = find(uuid)
        used = size if server is not None else dict.fromkeys(size, 0)
        return {"resource_provider_generation": generation(host), "usages": used}
