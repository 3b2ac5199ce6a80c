"""Nova's servers: made, listed, shown, changed, stopped and started, and deleted. Each has a node to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand import server_view
from emulator.live.ondemand.cloud import made_password
from emulator.live.ondemand.http import ApiError, absent, body_part, page_of, site_url, wrong_value
from emulator.live.ondemand.server_create import METADATA_ITEMS, is_metadata, is_name, is_text, read_create
from emulator.live.ondemand.server_query import requested_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from emulator.live.ondemand.auth import Account
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.compute_site import Quotas
    from emulator.live.ondemand.config import OndemandConfig
    from emulator.live.ondemand.servers import Server
    from emulator.live.ondemand.site import Site


_CHANGES = {
    "os-stop": ("ACTIVE ERROR", "SHUTOFF"),
    "os-start": ("SHUTOFF", "ACTIVE"),
    "reboot": ("ACTIVE", "ACTIVE"),
    "pause": ("ACTIVE", "PAUSED"),
    "unpause": ("PAUSED", "ACTIVE"),
    "suspend": ("ACTIVE", "SUSPENDED"),
    "resume": ("SUSPENDED", "ACTIVE"),
    "rescue": ("ACTIVE SHUTOFF ERROR", "RESCUE"),
    "unrescue": ("RESCUE", "ACTIVE"),
}
"""Action -> from which statuses it leads, and to which, as the decorators of nova/compute/api.py have it."""
_HARD = ("ACTIVE SHUTOFF PAUSED SUSPENDED ERROR", "ACTIVE")
_MAY_CHANGE = frozenset({"ACTIVE", "PAUSED", "SUSPENDED", "SHUTOFF"})
"""Statuses in which metadata may change."""


def add_servers(app: Flask, site: Site, config: OndemandConfig, quotas: Quotas) -> None:
    """All routes of this module."""
    cloud = site.cloud

    def show(server: Server) -> dict[str, Any]:
        return server_view.detail(
            server,
            config.flavor,
            site=site_url(),
            version=g.version,
            admin=g.account.admin,
            now_us=cloud.clock.now_us(),
        )

    @app.post("/v2.1/servers")
    def create() -> tuple[dict[str, Any], int, dict[str, str]]:
        account: Account = g.account
        order = read_create(request.get_json(silent=True), g.version, config)
        quotas.check(cloud, account.project_id, order.count)
        reservation = cloud.create(order.spec(account), exclude=site.closed())
        if order.return_reservation:
            return {"reservation_id": reservation.id}, 202, {}
        body = server_view.created(reservation.servers[0], site_url())
        return {"server": body}, 202, {"Location": body["links"][0]["href"]}

    def listing(path: str, shown: Callable[[Server], dict[str, Any]]) -> dict[str, Any]:
        page = page_of(requested_servers(cloud), lambda server: server.id, "servers", path)
        return page | {"servers": [shown(server) for server in page["servers"]]}

    @app.get("/v2.1/servers")
    def servers() -> dict[str, Any]:
        return listing("servers", lambda server: server_view.brief(server, site_url()))

    @app.get("/v2.1/servers/detail")
    def servers_detail() -> dict[str, Any]:
        return listing("servers/detail", show)

    _add_one(app, cloud, show)
    _add_actions(app, cloud)
    _add_metadata(app, cloud)


def _add_one(app: Flask, cloud: Cloud, show: Callable[[Server], dict[str, Any]]) -> None:
    def one(server: Server) -> dict[str, Any]:
        """What a list leaves out, too."""
        return {"server": show(server) | ({"server_groups": []} if g.version >= (2, 71) else {})}

    @app.get("/v2.1/servers/<server_id>")
    def one_server(server_id: str) -> dict[str, Any]:
        return one(find_server(cloud, server_id))

    @app.put("/v2.1/servers/<server_id>")
    def update(server_id: str) -> dict[str, Any]:
        server = find_server(cloud, server_id)
        changes = body_part("server")
        if not isinstance(changes, dict) or not changes.keys() <= {"name", "description"}:
            raise absent(f"change {changes} of a server", 400)
        name, description = changes.get("name", server.name), changes.get("description", server.description)
        if not is_name(name):
            raise wrong_value("name", name)
        if description is not None and not is_text(description):
            raise wrong_value("description", description)
        server.name, server.description = name, description
        cloud.changed(server)
        return one(server)

    @app.delete("/v2.1/servers/<server_id>")
    def delete(server_id: str) -> Response:
        cloud.delete(find_server(cloud, server_id))
        return Response(status=204, content_type="application/json")


def find_server(cloud: Cloud, server_id: str) -> Server:
    """The server, if the caller may see it."""
    server = cloud.server(server_id)
    account: Account = g.account
    if server is None or not (account.admin or server.spec.account.project_id == account.project_id):
        raise ApiError(404, f"Instance {server_id} could not be found.")
    return server


def _check_status(server: Server, verb: str, allowed: Collection[str], now_us: int) -> None:
    status = server.status(now_us)
    if status not in allowed:
        state = server_view.VM_STATES[status]
        raise ApiError(409, f"Cannot '{verb}' instance {server.id} while it is in vm_state {state}")


def _add_actions(app: Flask, cloud: Cloud) -> None:
    """Its node stays a server's own whatever is made of it."""

    @app.post("/v2.1/servers/<server_id>/action")
    def act(server_id: str) -> Any:
        server = find_server(cloud, server_id)
        body = request.get_json(silent=True)
        if not isinstance(body, dict) or len(body) != 1:
            raise ApiError(400, "There is no such action. Malformed request body")
        (name, arguments), *_ = body.items()
        if name not in _CHANGES:
            raise absent(f"action {name} of a server")
        allowed, to = _CHANGES[name]
        if name == "reboot":
            kind = arguments.get("type") if isinstance(arguments, dict) else None
            if kind not in {"SOFT", "HARD"}:
                raise wrong_value(name, arguments)
            allowed, to = _HARD if kind == "HARD" else (allowed, to)
        elif arguments:
            raise absent(f"argument {arguments} of the action {name}", 400)
        has_run = server.launched_us is not None
        _check_status(
            server, name.removeprefix("os-"), allowed.split() if has_run else (), cloud.clock.now_us()
        )
        server.condition = "" if to == "ACTIVE" else to
        cloud.changed(server)
        if name == "rescue":
            return {"adminPass": made_password()}
        return Response(status=202, content_type="application/json")


def _add_metadata(app: Flask, cloud: Cloud) -> None:
    path = "/v2.1/servers/<server_id>/metadata"

    def change(server: Server, metadata: dict[str, str], verb: str) -> None:
        _check_status(server, f"{verb} metadata", _MAY_CHANGE, cloud.clock.now_us())
        if len(metadata) > METADATA_ITEMS:
            raise ApiError(403, f"Maximum number of metadata items exceeds {METADATA_ITEMS}")
        server.metadata = metadata
        cloud.changed(server)

    @app.get(path)
    def metadata(server_id: str) -> dict[str, Any]:
        return {"metadata": find_server(cloud, server_id).metadata}

    @app.post(path)
    def add(server_id: str) -> dict[str, Any]:
        values, server = body_part("metadata"), find_server(cloud, server_id)
        if not is_metadata(values):
            raise wrong_value("metadata", values)
        change(server, server.metadata | values, "update")
        return {"metadata": server.metadata}

    @app.delete(f"{path}/<key>")
    def remove(server_id: str, key: str) -> Response:
        server = find_server(cloud, server_id)
        if key not in server.metadata:
            raise ApiError(404, "Metadata item was not found")
        change(server, {name: text for name, text in server.metadata.items() if name != key}, "delete")
        return Response(status=204)
