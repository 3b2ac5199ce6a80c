"""Nova's older and lesser lists: hosts as they were shown up to 2.42, agents, moves, volumes, shares and consoles."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand.compute_checks import (
    NOT_FOUND,
    find_server,
    only_admin,
    wrong_value,
)
from emulator.live.ondemand.http import ApiError
from emulator.live.ondemand.site import CONTROL, Site, service_id

if TYPE_CHECKING:
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import OndemandConfig


_LAST_WITH_HOSTS = (2, 42)


def add_hosts(app: Flask, site: Site, config: OndemandConfig) -> None:
    """All routes of this module."""
    _add_hosts(app, site, config)
    _add_deletion(app, site)
    _add_moves(app, site.cloud)
    _add_attached(app, site.cloud)


def _add_hosts(app: Flask, site: Site, config: OndemandConfig) -> None:
    def check(policy: str, host: str | None = None) -> None:
        if g.version > _LAST_WITH_HOSTS:
            raise ApiError(404, NOT_FOUND)
        only_admin(f"os-hosts:{policy}")
        if host is not None and host not in site.hosts():
            raise ApiError(404, f"Compute host {host} could not be found.")

    @app.get("/v2.1/os-hosts")
    def hosts() -> dict[str, Any]:
        check("list")
        zone, closed = request.args.get("zone"), site.disabled()
        rows = [("controller", binary.removeprefix("nova-"), "internal") for binary in CONTROL]
        rows += [(host, "compute", "nova") for host in site.hosts() if host not in closed]
        found = [row for row in rows if zone in {None, row[2]}]
        return {"hosts": [{"host_name": host, "service": kind, "zone": where} for host, kind, where in found]}

    @app.get("/v2.1/os-hosts/<host>")
    def host(host: str) -> dict[str, Any]:
        check("show", host)
        server = site.hosts()[host]
        project = None if server is None else server.spec.account.project_id
        shares = [("(total)", True), ("(used_now)", server is not None), ("(used_max)", server is not None)]
        shares += [] if project is None else [(project, True)]
        size = {
            "cpu": config.flavor.vcpus,
            "memory_mb": config.flavor.ram_mb,
            "disk_gb": config.flavor.disk_gb,
        }
        return {
            "host": [
                {"resource": {"host": host, "project": name, **(size if used else dict.fromkeys(size, 0))}}
                for name, used in shares
            ]
        }

    @app.put("/v2.1/os-hosts/<host>")
    def update_host(host: str) -> dict[str, Any]:
        check("update")
        changes = request.get_json(silent=True)
        if (
            not isinstance(changes, dict)
            or not changes
            or not changes.keys() <= {"status", "maintenance_mode"}
        ):
            raise wrong_value("body", changes)
        if not all(str(value).strip().lower() in {"enable", "disable"} for value in changes.values()):
            raise wrong_value("status", changes)
        check("update", host)
        if "maintenance_mode" in changes:
            raise ApiError(501, "The requested functionality is not supported.")
        state = site.state(host)
        state.disabled = changes["status"].strip().lower() == "disable"
        return {"host": host, "status": "disabled" if state.disabled else "enabled"}


def _add_deletion(app: Flask, site: Site) -> None:
    @app.delete("/v2.1/os-services/<requested_id>")
    def delete_service(requested_id: str) -> Response:
        only_admin("os-services:delete")
        try:
            uuid.UUID(requested_id)
        except ValueError as fault:
            raise ApiError(400, f"Invalid uuid {requested_id}") from fault
        for host, server in site.hosts().items():
            if service_id("nova-compute", host) != requested_id:
                continue
            if server is not None:
                text = "Unable to delete compute service that is hosting instances."
                raise ApiError(409, f"{text} Migrate or delete the instances first.")
            site.remove(host)
            return Response(status=204, content_type="application/json")
        raise ApiError(404, f"Service {requested_id} could not be found.")


def _add_moves(app: Flask, cloud: Cloud) -> None:
    """No server ever moves, and no host has an agent."""

    @app.route("/v2.1/os-agents", methods=["GET", "POST"])
    @app.route("/v2.1/os-agents/<agent>", methods=["PUT", "DELETE"])
    def agents(agent: str = "") -> dict[str, Any]:  # noqa: ARG001 - gone from Nova 22 on
        raise ApiError(410, "This resource is no longer available. No forwarding address is given.")

    @app.get("/v2.1/os-migrations")
    def migrations() -> dict[str, Any]:
        only_admin("os-migrations:index")
        return {"migrations": []}

    @app.get("/v2.1/servers/<server_id>/migrations")
    def migrations_of(server_id: str) -> dict[str, Any]:
        only_admin("servers:migrations:index")
        find_server(cloud, server_id)
        return {"migrations": []}

    @app.route("/v2.1/servers/<server_id>/migrations/<number>", methods=["GET", "DELETE"])
    @app.route("/v2.1/servers/<server_id>/migrations/<number>/action", methods=["POST"])
    def migration(server_id: str, number: str) -> dict[str, Any]:
        only_admin("servers:migrations:show")
        find_server(cloud, server_id)
        raise ApiError(404, f"In-progress live migration {number} is not found for server {server_id}.")


def _add_attached(app: Flask, cloud: Cloud) -> None:
    """Nothing is: there are no volumes, shares and consoles."""

    @app.get("/v2.1/servers/<server_id>/os-volume_attachments")
    def volumes(server_id: str) -> dict[str, Any]:
        find_server(cloud, server_id)
        return {"volumeAttachments": []}

    @app.route("/v2.1/servers/<server_id>/os-volume_attachments/<volume>", methods=["GET", "PUT", "DELETE"])
    def volume(server_id: str, volume: str) -> dict[str, Any]:
        find_server(cloud, server_id)
        raise ApiError(404, f"Volume {volume} could not be found.")

    @app.get("/v2.1/servers/<server_id>/shares")
    def shares(server_id: str) -> dict[str, Any]:
        find_server(cloud, server_id)
        if g.version < (2, 97):
            raise ApiError(404, NOT_FOUND)
        return {"shares": []}

    @app.get("/v2.1/os-console-auth-tokens/<token>")
    def console_token(token: str) -> dict[str, Any]:  # noqa: ARG001 - nobody was given one
        only_admin("os-console-auth-tokens")
        raise ApiError(404, "Token not found")
