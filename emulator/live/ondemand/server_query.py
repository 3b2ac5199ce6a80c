"""The query of a list of servers: a filter is applied, or refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flask import g, request

from balancer.timestamps import parse_iso
from emulator.live.ondemand.http import ApiError, absent, only_admin, wrong_parameter
from emulator.live.ondemand.server_view import VM_STATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.auth import Account
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.servers import Server

    Filter = Callable[[Server, str, int], bool]

_FILTERS: dict[str, Filter] = {
    "name": lambda server, value, _: re.search(value, server.name, re.IGNORECASE) is not None,
    "status": lambda server, value, now_us: value.upper() == server.status(now_us),
    "reservation_id": lambda server, value, _: value == server.reservation.id,
    "uuid": lambda server, value, _: value == server.id,
    "image": lambda server, value, _: value == server.spec.image_id,
    "flavor": lambda server, value, _: value == server.spec.flavor_id,
    "changes-since": lambda server, value, _: server.updated_us >= parse_iso(value),
}
_OF_ADMINS: dict[str, Filter] = {
    "host": lambda server, value, _: value == server.host,
    "project_id": lambda server, value, _: value == server.spec.account.project_id,
    "tenant_id": lambda server, value, _: value == server.spec.account.project_id,
    "user_id": lambda server, value, _: value == server.spec.account.user_id,
}
"""Ignored for others, as Nova ignores them."""
_OTHERS = ("all_tenants", "deleted", "limit", "marker")
_TRUE = frozenset({"true", "1", "on", "yes", "t", "y"})
_FALSE = frozenset({"", "false", "0", "off", "no", "f", "n"})
"""As oslo's strict parser has them."""


def requested_servers(cloud: Cloud) -> list[Server]:
    """The servers of the project (of all, for an administrator who asks) that pass the query's filters."""
    args, account = request.args, g.account
    _check()
    everybody = _is_true("all_tenants")
    if everybody:
        only_admin("servers:detail:get_all_tenants")
    now_us = cloud.clock.now_us()
    filters = _FILTERS | (_OF_ADMINS if account.admin else {})
    return [
        server
        for server in _alive_or_not(cloud, account)
        if (everybody or server.spec.account.project_id == account.project_id)
        and all(filters[name](server, value, now_us) for name, value in args.items() if name in filters)
    ]


def _is_true(name: str) -> bool:
    return request.args.get(name, "").lower() in _TRUE


def _check() -> None:
    """Raises ApiError."""
    args = request.args
    if unknown := sorted(args.keys() - {*_FILTERS, *_OF_ADMINS, *_OTHERS}):
        raise absent(f"parameter {unknown[0]} of a list of servers", 400)
    for name in ("all_tenants", "deleted"):
        if args.get(name, "").lower() not in _TRUE | _FALSE:
            raise wrong_parameter(name, args[name])
    if "changes-since" in args:
        try:
            parse_iso(args["changes-since"])
        except ValueError as error:
            raise wrong_parameter("changes-since", args["changes-since"]) from error
    if args.get("status", "ACTIVE").upper() not in VM_STATES:
        raise absent(f"status {args['status']} of a server", 400)
    try:
        re.compile(args.get("name", ""))
    except re.error as error:
        raise ApiError(400, f"Invalid filter name: {error}") from error


def _alive_or_not(cloud: Cloud, account: Account) -> list[Server]:
    """Deleted ones for an administrator who asks; those beside the others in a list of what has changed."""
    args = request.args
    if args.get("status", "").upper() == "DELETED" and not account.admin:
        raise ApiError(403, "Only administrators may list deleted instances")
    if account.admin and (args.get("status", "").upper() == "DELETED" or _is_true("deleted")):
        return cloud.past()[::-1]
    if "changes-since" not in args:
        return cloud.servers()
    return sorted(cloud.servers() + cloud.past(), key=lambda server: server.number, reverse=True)
