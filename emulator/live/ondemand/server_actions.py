"""What can be done to a server that exists: actions, and their history."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from balancer.timestamps import parse_iso
from emulator.live.ondemand import server_states, server_view
from emulator.live.ondemand.cloud import NO_VALID_HOST
from emulator.live.ondemand.compute_checks import (
    NOT_FOUND,
    after_marker,
    find_server,
    forbidden,
    only_admin,
    wrong_parameter,
    wrong_value,
)
from emulator.live.ondemand.http import ApiError, body_part
from emulator.live.ondemand.server_metadata import add_metadata
from emulator.live.ondemand.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.servers import Action, Server


_ONLY_ADMIN = {
    "migrate": "os-migrate-server:migrate",
    "os-migrateLive": "os-migrate-server:migrate_live",
    "evacuate": "os-evacuate",
    "os-resetState": "os-admin-actions:reset_state",
}
"""Action -> Nova's policy."""
_MOVES = frozenset({"migrate", "os-migrateLive", "evacuate"})
"""Which node a server has its source decides, once: there is no other host for it."""
_CONSOLES = frozenset({"os-getVNCConsole", "os-getSPICEConsole", "os-getSerialConsole", "os-getRDPConsole"})
_NOT_HERE = {
    "injectNetworkInfo": "os-admin-actions:inject_network_info",
    "resize": "servers:resize",
    "createImage": "servers:create_image",
    "createBackup": "os-create-backup",
    "shelve": "os-shelve:shelve",
    "shelveOffload": "os-shelve:shelve_offload",
    "unshelve": "os-shelve:unshelve",
    "restore": "os-deferred-delete:restore",
    "addSecurityGroup": "os-security-groups:add",
    "removeSecurityGroup": "os-security-groups:remove",
}
"""Action -> Nova's policy: nobody may, as where an operator's policy.yaml forbids it."""


def add_actions(app: Flask, cloud: Cloud, rebuild: Callable[[Server, Any], Any]) -> None:
    """Routes below /servers/ID; `rebuild` does that action."""
    add_metadata(app, cloud)
    _add_history(app, cloud)

    @app.get("/v2.1/servers/<server_id>/ips")
    def addresses(server_id: str) -> dict[str, Any]:
        server = find_server(cloud, server_id)
        return {"addresses": server_view.addresses(server, server.status(cloud.clock.now_us()))}

    @app.get("/v2.1/servers/<server_id>/ips/<network>")
    def addresses_in(server_id: str, network: str) -> dict[str, Any]:
        found = addresses(server_id)["addresses"]
        if network not in found:
            raise ApiError(404, "Instance is not a member of specified network")
        return {network: found[network]}

    @app.get("/v2.1/servers/<server_id>/os-security-groups")
    def security_groups(server_id: str) -> dict[str, Any]:
        find_server(cloud, server_id)
        return {"security_groups": []}

    @app.get("/v2.1/servers/<server_id>/os-interface")
    def interfaces(server_id: str) -> dict[str, Any]:
        find_server(cloud, server_id)
        return {"interfaceAttachments": []}

    @app.post("/v2.1/servers/<server_id>/action")
    def act(server_id: str) -> Any:
        server = find_server(cloud, server_id)
        body = request.get_json(silent=True)
        if not isinstance(body, dict) or len(body) != 1:
            raise ApiError(400, "There is no such action. Malformed request body")
        (name, arguments), *_ = body.items()
        if name == "os-getConsoleOutput":
            return {"output": ""}
        if name == "rebuild":
            return rebuild(server, arguments)
        answer = _act(cloud, server, name, arguments)
        return answer or Response(status=202, content_type="application/json")

    @app.post("/v2.1/servers/<server_id>/remote-consoles")
    def console(server_id: str) -> dict[str, Any]:
        find_server(cloud, server_id)
        part = body_part("remote_console")
        if not isinstance(part, dict) or part.keys() != {"protocol", "type"}:
            raise wrong_value("remote_console", part)
        raise ApiError(400, f"Unavailable console type {part['type']}.")


def _add_history(app: Flask, cloud: Cloud) -> None:
    @app.get("/v2.1/servers/<server_id>/os-instance-actions")
    def history(server_id: str) -> dict[str, Any]:
        server = find_server(cloud, server_id)
        found = server.actions[::-1]
        if g.version >= (2, 58):
            found = _page_of(found)
        return {"instanceActions": [server_view.action(server, entry, g.version) for entry in found]}

    @app.get("/v2.1/servers/<server_id>/os-instance-actions/<request_id>")
    def one_action(server_id: str, request_id: str) -> dict[str, Any]:
        server = find_server(cloud, server_id)
        for entry in server.actions:
            if entry.request_id == request_id:
                events = [_event(server, entry)] if g.account.admin or g.version >= (2, 51) else []
                return {"instanceAction": server_view.action(server, entry, g.version) | {"events": events}}
        raise ApiError(404, f"Action for request_id {request_id} on instance {server_id} not found")


def _page_of(found: list[Action]) -> list[Action]:
    """As `limit`, `marker` and the times say, since 2.58."""
    args = request.args
    for name, is_in in (("changes-since", operator.ge), ("changes-before", operator.le)):
        if name in args:
            try:
                limit_us = parse_iso(args[name])
            except ValueError as fault:
                raise wrong_parameter(name, args[name]) from fault
            found = [each for each in found if is_in(each.updated_us, limit_us)]
    found = after_marker(found, lambda each: each.request_id)
    return found[: int(args["limit"])] if args.get("limit", "").isdecimal() else found


def _act(cloud: Cloud, server: Server, name: str, arguments: Any) -> Any:
    """Do it; what the answer says beside its status, mostly nothing."""
    if name in _ONLY_ADMIN:
        only_admin(_ONLY_ADMIN[name])
    if name in _NOT_HERE:
        raise forbidden(f"os_compute_api:{_NOT_HERE[name]}")
    now_us = cloud.clock.now_us()
    if name in {"lock", "unlock"}:
        server.locked = name == "lock"
        reason = arguments.get("locked_reason") if isinstance(arguments, dict) else None
        server.locked_reason = reason if server.locked else None
        server_states.note(server, name, now_us)
    elif name == "os-resetState":
        server_states.reset(server, arguments, now_us)
    elif name == "forceDelete":
        server_states.check_lock(server)
        cloud.delete(server)
    elif name in _MOVES:
        raise ApiError(400, NO_VALID_HOST)
    elif (name in _CONSOLES and g.version >= (2, 6)) or server_states.is_later(name, g.version):
        raise ApiError(404, NOT_FOUND)
    elif name in _CONSOLES:
        raise ApiError(400, f"Unavailable console type {_console_type(arguments)}.")
    elif server_states.is_change(name):
        _check_arguments(name, arguments)
        server_states.change(server, name, arguments, now_us)
    else:
        raise ApiError(400, f"There is no such action: {name}. Malformed request body")
    cloud.changed(server)
    return {"adminPass": server.admin_pass} if name == "rescue" else None


def _check_arguments(name: str, arguments: Any) -> None:
    """As Nova's schemas have them."""
    wrong = False
    if name == "reboot":
        wrong = not isinstance(arguments, dict) or arguments.get("type") not in {"SOFT", "HARD"}
    elif name == "changePassword":
        wrong = not isinstance(arguments, dict) or not isinstance(arguments.get("adminPass"), str)
    elif name == "rescue":
        wrong = arguments is not None and not isinstance(arguments, dict)
    if wrong:
        raise wrong_value(name, arguments)


def _console_type(arguments: Any) -> str:
    return str(arguments.get("type", "")) if isinstance(arguments, dict) else ""


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
