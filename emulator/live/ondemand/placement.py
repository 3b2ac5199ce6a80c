"""Placement: every host is a resource provider that has room for one server or none."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, jsonify, request
from werkzeug.http import http_date

from balancer.clock import SystemClock, seconds
from emulator.live.ondemand.http import ApiError, caller, service, unauthorized
from emulator.live.ondemand.site import Site, provider_id

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Keyring
    from emulator.live.ondemand.config import OndemandConfig
    from emulator.live.ondemand.servers import Server

_MINIMUM, _MAXIMUM = (1, 0), (1, 39)
_wall = SystemClock()
_TRAITS = ["COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_RAW", "OWNER_NOVA"]
_LINKS = ("inventories", "usages", "aggregates", "traits", "allocations")


def placement_app(keyring: Keyring, site: Site, config: OndemandConfig) -> Flask:
    app = service("placement")
    hosts = _Hosts(site, config)

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

    @app.errorhandler(ApiError)
    def show_error(error: ApiError) -> Response:
        title = HTTPStatus(error.code).phrase
        fault = {"status": error.code, "title": title, "detail": error.message, "request_id": g.request_id}
        response = jsonify({"errors": [fault]})
        response.status_code = error.code
        return response

    @app.get("/")
    def versions() -> dict[str, Any]:
        version = {"id": "v1.0", "max_version": "1.39", "min_version": "1.0", "status": "CURRENT"}
        return {"versions": [{**version, "links": [{"rel": "self", "href": ""}]}]}

    _add_providers(app, hosts)
    _add_consumers(app, hosts)
    return app


def _requested_version() -> tuple[int, int]:
    text = request.headers.get("OpenStack-API-Version", "").removeprefix("placement ").strip()
    if text == "latest":
        return _MAXIMUM
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else _MINIMUM


class _Hosts:
    """The site as Placement sees it."""

    def __init__(self, site: Site, config: OndemandConfig) -> None:
        self.site = site
        flavor = config.flavor
        self.size = {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.ram_mb, "DISK_GB": flavor.disk_gb}

    def find(self, uuid: str) -> tuple[str, Server | None]:
        for host, server in self.site.hosts().items():
            if provider_id(host) == uuid:
                return host, server
        text = f"The resource could not be found.\n\n No resource provider with uuid {uuid} found  "
        raise ApiError(404, text)

    def used(self, server: Server | None) -> dict[str, int]:
        return dict.fromkeys(self.size, 0) if server is None else dict(self.size)

    def generation(self, host: str) -> int:
        """Grows whenever a server comes or goes."""
        cloud = self.site.cloud
        past = sum(server.host == host for server in cloud.past())
        return 1 + 2 * past + sum(server.host == host for server in cloud.servers())


def _add_providers(app: Flask, hosts: _Hosts) -> None:
    def row(host: str) -> dict[str, Any]:
        uuid = provider_id(host)
        path = f"/resource_providers/{uuid}"
        links = [{"rel": rel, "href": f"{path}/{rel}"} for rel in _LINKS]
        return {
            "uuid": uuid,
            "name": host,
            "generation": hosts.generation(host),
            "links": [{"rel": "self", "href": path}, *links],
            "parent_provider_uuid": None,
            "root_provider_uuid": uuid,
        }

    @app.get("/resource_providers")
    def providers() -> dict[str, Any]:
        name, uuid = request.args.get("name"), request.args.get("uuid")
        found = [
            host for host in hosts.site.hosts() if name in {None, host} and uuid in {None, provider_id(host)}
        ]
        return {"resource_providers": [row(host) for host in found]}

    @app.get("/resource_providers/<uuid>")
    def provider(uuid: str) -> dict[str, Any]:
        return row(hosts.find(uuid)[0])

    @app.get("/resource_providers/<uuid>/inventories")
    def inventories(uuid: str) -> dict[str, Any]:
        host, _ = hosts.find(uuid)
        rows = {
            kind: {
                "total": total,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": total,
                "step_size": 1,
                "allocation_ratio": 1.0,
            }
            for kind, total in hosts.size.items()
        }
        return {"resource_provider_generation": hosts.generation(host), "inventories": rows}

    @app.get("/resource_providers/<uuid>/usages")
    def usages(uuid: str) -> dict[str, Any]:
        host, server = hosts.find(uuid)
        return {"resource_provider_generation": hosts.generation(host), "usages": hosts.used(server)}

    @app.get("/resource_providers/<uuid>/traits")
    def traits(uuid: str) -> dict[str, Any]:
        host, _ = hosts.find(uuid)
        return {"traits": _TRAITS, "resource_provider_generation": hosts.generation(host)}


def _add_consumers(app: Flask, hosts: _Hosts) -> None:
    @app.get("/allocations/<uuid>")
    def allocations(uuid: str) -> dict[str, Any]:
        server = hosts.site.cloud.server(uuid)
        if server is None or server.host is None:
            return {"allocations": {}}
        host = {"resources": hosts.size, "generation": hosts.generation(server.host)}
        return {
            "allocations": {provider_id(server.host): host},
            "project_id": server.spec.account.project_id,
            "user_id": server.spec.account.user_id,
            "consumer_generation": 1,
            "consumer_type": "unknown",
        }

    @app.get("/allocation_candidates")
    def candidates() -> dict[str, Any]:
        resources = _resources(request.args.get("resources", ""))
        fits = all(amount <= hosts.size.get(kind, 0) for kind, amount in resources.items())
        free = [host for host, server in hosts.site.hosts().items() if fits and server is None]
        return {
            "allocation_requests": [
                {
                    "allocations": {provider_id(host): {"resources": resources}},
                    "mappings": {"": [provider_id(host)]},
                }
                for host in free
            ],
            "provider_summaries": {provider_id(host): _summary(hosts, host) for host in free},
        }

    @app.get("/usages")
    def project_usages() -> dict[str, Any]:
        project_id = request.args.get("project_id")
        count = sum(
            server.host is not None and server.spec.account.project_id == project_id
            for server in hosts.site.cloud.servers()
        )
        used = {kind: count * amount for kind, amount in hosts.size.items()}
        return {"usages": {"unknown": {**used, "consumer_count": count}} if count else {}}


def _resources(text: str) -> dict[str, int]:
    """`VCPU:32,MEMORY_MB:131072`."""
    amounts = {}
    for part in text.split(","):
        kind, _, amount = part.partition(":")
        if not kind or not amount.isdigit():
            raise ApiError(400, f"Badly formed resources parameter: {text}")
        amounts[kind] = int(amount)
    return amounts


def _summary(hosts: _Hosts, host: str) -> dict[str, Any]:
    uuid = provider_id(host)
    return {
        "resources": {kind: {"capacity": total, "used": 0} for kind, total in hosts.size.items()},
        "traits": _TRAITS,
        "parent_provider_uuid": None,
        "root_provider_uuid": uuid,
    }
