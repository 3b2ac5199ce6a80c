"""What can be done to a server that exists: metadata, actions, their history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand import server_view
from emulator.live.ondemand.servers import Action, Server
from emulator.live.ondemand.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.cloud import Cloud

    Find = Callable[[Cloud, str], Server]
    Error = Callable[[int, str], Exception]


_ONLY_ADMIN = {
    "migrate": "os-migrate-server:migrate",
    "os-migrateLive": "os-migrate-server:migrate_live",
    "evacuate": "os-evacuate",
    "os-resetState": "os-admin-actions:reset_state",
    "injectNetworkInfo": "os-admin-actions:inject_network_info",
}
"""Action -> Nova's policy. Nobody can do them here; who may not is told so first."""


def add_actions(
    app: Flask,
    cloud: Cloud,
    find: Find,
    error: Error,
) -> None:
    """Routes below /servers/ID; `find` and `error` are those of `compute.py`."""
    _add_metadata(app, cloud, find, error)
    _add_history(app, cloud, find, error)

    @app.get("/v2.1/servers/<server_id>/ips")
    def addresses(server_id: str) -> dict[str, Any]:
        server = find(cloud, server_id)
        return {"addresses": server_view.addresses(server, server.status(cloud.clock.now_us()))}

    @app.get("/v2.1/servers/<server_id>/tags")
    def tags(server_id: str) -> dict[str, Any]:
        return {"tags": list(find(cloud, server_id).spec.tags)}

    @app.get("/v2.1/servers/<server_id>/os-security-groups")
    def security_groups(server_id: str) -> dict[str, Any]:
        find(cloud, server_id)
        return {"security_groups": []}

    @app.get("/v2.1/servers/<server_id>/os-interface")
    def interfaces(server_id: str) -> dict[str, Any]:
        find(cloud, server_id)
        return {"interfaceAttachments": []}

    @app.post("/v2.1/servers/<server_id>/action")
    def act(server_id: str) -> Response | dict[str, Any]:
        server = find(cloud, server_id)
        body = request.get_json(silent=True)
        if not isinstance(body, dict) or len(body) != 1:
            raise error(400, "There is no such action. Malformed request body")
        (name, arguments), *_ = body.items()
        if name == "os-getConsoleOutput":
            return {"output": ""}
        _act(server, name, arguments, cloud.clock.now_us(), error)
        return Response(status=202, content_type="application/json")


def _add_metadata(app: Flask, cloud: Cloud, find: Find, error: Error) -> None:
    @app.get("/v2.1/servers/<server_id>/metadata")
    def metadata(server_id: str) -> dict[str, Any]:
        return {"metadata": find(cloud, server_id).metadata}

    @app.post("/v2.1/servers/<server_id>/metadata")
    def add_metadata(server_id: str) -> dict[str, Any]:
        server = find(cloud, server_id)
        body = request.get_json(silent=True)
        added = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(added, dict) or not all(isinstance(value, str) for value in added.values()):
            raise error(400, f"Invalid input for field/attribute metadata. Value: {added}.")
        server.metadata |= added
        server.updated_us = cloud.clock.now_us()
        return {"metadata": server.metadata}

    @app.delete("/v2.1/servers/<server_id>/metadata/<key>")
    def remove_metadata(server_id: str, key: str) -> Response:
        server = find(cloud, server_id)
        if server.metadata.pop(key, None) is None:
            raise error(404, "Metadata item was not found")
        server.updated_us = cloud.clock.now_us()
        return Response(status=204)


def _add_history(app: Flask, cloud: Cloud, find: Find, error: Error) -> None:
    @app.get("/v2.1/servers/<server_id>/os-instance-actions")
    def history(server_id: str) -> dict[str, Any]:
        server = find(cloud, server_id)
        return {
            "instanceActions": [
                server_view.action(server, entry, g.version) for entry in server.actions[::-1]
            ]
        }

    @app.get("/v2.1/servers/<server_id>/os-instance-actions/<request_id>")
    def one_action(server_id: str, request_id: str) -> dict[str, Any]:
        server = find(cloud, server_id)
        for entry in server.actions:
            if entry.request_id == request_id:
                events = [_event(server, entry)] if g.account.admin or g.version >= (2, 51) else []
                return {"instanceAction": server_view.action(server, entry, g.version) | {"events": events}}
        raise error(404, f"Action for request_id {request_id} on instance {server_id} not found")


def _act(server: Server, name: str, arguments: object, now_us: int, error: Error) -> None:
    if name in _ONLY_ADMIN and not g.account.admin:
        raise error(403, f"Policy doesn't allow os_compute_api:{_ONLY_ADMIN[name]} to be performed.")
    if name == "reboot" and not (isinstance(arguments, dict) and arguments.get("type") in {"SOFT", "HARD"}):
        raise error(400, f"Invalid input for field/attribute reboot. Value: {arguments}.")
    if name in {"lock", "unlock"}:
        server.locked = name == "lock"
        reason = arguments.get("locked_reason") if isinstance(arguments, dict) else None
        server.locked_reason = reason if server.locked else None
    elif name in {"os-stop", "os-start", "reboot"}:
        verb, wanted = {
            "os-stop": ("stop", "ACTIVE"),
            "os-start": ("start", "SHUTOFF"),
            "reboot": ("reboot", "ACTIVE"),
        }[name]
        status = server.status(now_us)
        if status != wanted:
            state = {"SHUTOFF": "stopped", "BUILD": "building"}.get(status, status.lower())
            raise error(409, f"Cannot '{verb}' instance {server.id} while it is in vm_state {state}")
        if server.locked and not g.account.admin:
            raise error(409, f"Instance {server.id} is locked")
        server.stopped = name == "os-stop"
    else:
        raise error(400, f"There is no such action: {name}. Malformed request body")
    server.updated_us = now_us
    server.actions.append(Action(name.removeprefix("os-"), g.request_id, now_us, now_us))


def _event(server: Server, entry: Action) -> dict[str, Any]:
    event: dict[str, Any] = {
        "event": "conductor_schedule_and_build_instances"
        if entry.action == "create"
        else f"compute_{entry.action}_instance",
        "start_time": iso(entry.started_us),
        "finish_time": iso(entry.updated_us),
        "result": "Error" if entry.message else "Success",
        "traceback": server.fault if entry.message and g.account.admin else None,
    }
    if g.account.admin:
        event["host"] = server.host or "controller"
    if g.version >= (2, 62):
        event["hostId"] = ""
    if g.version >= (2, 84):
        event["details"] = server.fault
    return event
