"""The hosts of the site, as hypervisors (Nova) and resource providers (Placement), and Placement's calls."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request
from werkzeug.http import http_date

from balancer.clock import SystemClock, seconds
from emulator.live.ondemand.http import (
    ApiError,
    absent,
    caller,
    json_answer,
    service,
    stable_id,
    unauthorized,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import Flavor, OndemandConfig
    from emulator.live.ondemand.http import Keyring
    from emulator.live.ondemand.servers import Server

CONTROL = ("nova-scheduler", "nova-conductor")
"""What runs on the host `controller`."""


def provider_id(host: str) -> str:
    """The UUID of a host as hypervisor and as resource provider."""
    return str(uuid.UUID(stable_id("host", host)))


def service_id(binary: str, host: str) -> str:
    return str(uuid.UUID(stable_id(f"service/{binary}", host)))


@dataclass(slots=True)
class ServiceState:
    """What an administrator has said about a compute service."""

    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False


@dataclass(slots=True)
class Site:
    """All hosts: those that were configured, and any that has carried a server."""

    cloud: Cloud
    configured: Iterable[str]
    _states: dict[str, ServiceState] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def hosts(self) -> dict[str, Server | None]:
        """Host name -> the server on it, in order of name."""
        hosts: dict[str, Server | None] = dict.fromkeys(self.configured)
        for server in self.cloud.past():
            if server.host is not None:
                hosts.setdefault(server.host, None)
        for server in self.cloud.servers():
            if server.host is not None:
                hosts[server.host] = server
        return dict(sorted(hosts.items()))

    def closed(self) -> set[str]:
        """Hosts whose compute service an administrator has disabled or forced down: they get no server."""
        with self._lock:
            return {host for host, state in self._states.items() if state.disabled or state.forced_down}

    def is_down(self, host: str) -> bool:
        return self.state(host).forced_down or host in self.cloud.faults.down(self.cloud.clock.now_us())

    def state(self, host: str) -> ServiceState:
        with self._lock:
            return self._states.setdefault(host, ServiceState())


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
    return json_answer({"errors": [fault]}, error.code)


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
