"""A server as Nova's JSON, for each microversion and for users and administrators, and which ones a list shows."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from flask import g, request

from balancer.timestamps import parse_iso
from emulator.live.ondemand.cloud import made_password
from emulator.live.ondemand.http import ApiError, absent, iso, iso_z, only_admin, wrong_parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import Flavor
    from emulator.live.ondemand.http import Account
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


Version = tuple[int, int]

VM_STATES = {
    "BUILD": "building", "ACTIVE": "active", "SHUTOFF": "stopped", "ERROR": "error", "PAUSED": "paused",
    "SUSPENDED": "suspended", "RESCUE": "rescued", "DELETED": "deleted",
}  # fmt: skip
"""Status of the API -> Nova's own state."""
_POWER_STATES = {"ACTIVE": 1, "RESCUE": 1, "PAUSED": 3, "SHUTOFF": 4, "SUSPENDED": 7}


def links(site: str, kind: str, identifier: str) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": f"{site}/compute/v2.1/{kind}/{identifier}"},
        {"rel": "bookmark", "href": f"{site}/compute/{kind}/{identifier}"},
    ]


def brief(server: Server, site: str) -> dict[str, Any]:
    return {"id": server.id, "name": server.name, "links": links(site, "servers", server.id)}


def created(server: Server, site: str) -> dict[str, Any]:
    """The answer to POST /servers: everything else is known later."""
    return {
        "id": server.id, "links": links(site, "servers", server.id), "OS-DCF:diskConfig": "MANUAL",
        "security_groups": [{"name": "default"}], "adminPass": made_password(),
    }  # fmt: skip


def detail(
    server: Server,
    flavor: Flavor,
    *,
    site: str,
    version: Version,
    admin: bool,
    now_us: int,
) -> dict[str, Any]:
    """The whole server."""
    status = server.status(now_us)
    body: dict[str, Any] = {
        "accessIPv4": "",
        "accessIPv6": "",
        "addresses": _addresses(server, status),
        "created": iso_z(server.created_us),
        "flavor": _flavor(flavor, site, version),
        "hostId": _host_id(server),
        "id": server.id,
        "image": _image(server, site, version),
        "links": links(site, "servers", server.id),
        "metadata": dict(server.metadata),
        "name": server.name,
        "status": status,
        "tenant_id": server.spec.account.project_id,
        "user_id": server.spec.account.user_id,
        "updated": iso_z(min(server.updated_us, now_us)),
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": "nova" if server.host else "",
        "config_drive": "",
        "key_name": None,
        "OS-SRV-USG:launched_at": None
        if status == "BUILD" or server.launched_us is None
        else iso(server.launched_us),
        "OS-SRV-USG:terminated_at": None if server.deleted_us is None else iso(server.deleted_us),
        "OS-EXT-STS:task_state": _task(server, status),
        "OS-EXT-STS:vm_state": VM_STATES[status],
        "OS-EXT-STS:power_state": _POWER_STATES.get(status, 0),
        "os-extended-volumes:volumes_attached": [],
    }
    if server.fault is not None and status in {"ERROR", "DELETED"}:
        body["fault"] = _fault(server, admin)
    elif status not in {"ERROR", "DELETED"}:
        body["progress"] = 0
    if admin:
        body.update(_admin_part(server, version))
    body.update(_newer_part(server, version))
    return body


def _task(server: Server, status: str) -> str | None:
    if server.deleting_us is not None and server.deleted_us is None:
        return "deleting"
    if status != "BUILD":
        return None
    return "scheduling" if server.host is None else "spawning"


def _flavor(flavor: Flavor, site: str, version: Version) -> dict[str, Any]:
    if version < (2, 47):
        return {"id": flavor.id, "links": links(site, "flavors", flavor.id)[1:]}
    return {
        "vcpus": flavor.vcpus, "ram": flavor.ram_mb, "disk": flavor.disk_gb, "ephemeral": 0, "swap": 0,
        "original_name": flavor.name, "extra_specs": {},
    }  # fmt: skip


def _image(server: Server, site: str, version: Version) -> dict[str, Any]:
    image: dict[str, Any] = {
        "id": server.spec.image_id,
        "links": links(site, "images", server.spec.image_id)[1:],
    }
    image["links"][0]["href"] = f"{site}/compute/images/{server.spec.image_id}"
    if version >= (2, 98):
        image["properties"] = {}
    return image


def _addresses(server: Server, status: str) -> dict[str, Any]:
    """One made-up address, because clients wait for one."""
    if not server.spec.with_address or status in {"BUILD", "ERROR", "DELETED"}:
        return {}
    high, middle, low = server.number.to_bytes(8)[-3:]
    mac = f"fa:16:3e:{high:02x}:{middle:02x}:{low:02x}"
    kind = {"OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": mac}
    return {"private": [{"version": 4, "addr": f"10.{high}.{middle}.{low}"} | kind]}


def _host_id(server: Server) -> str:
    if server.host is None:
        return ""
    return hashlib.sha224((server.spec.account.project_id + server.host).encode()).hexdigest()


def _fault(server: Server, admin: bool) -> dict[str, Any]:
    fault = {"code": 500, "created": iso_z(server.updated_us), "message": server.fault}
    if admin:
        fault["details"] = server.fault
    return fault


def _admin_part(server: Server, version: Version) -> dict[str, Any]:
    part: dict[str, Any] = {
        "OS-EXT-SRV-ATTR:host": server.host,
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{server.number:08x}",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": server.host,
    }
    if version >= (2, 3):
        part |= {
            "OS-EXT-SRV-ATTR:hostname": server.name, "OS-EXT-SRV-ATTR:kernel_id": "",
            "OS-EXT-SRV-ATTR:launch_index": server.launch_index, "OS-EXT-SRV-ATTR:ramdisk_id": "",
            "OS-EXT-SRV-ATTR:reservation_id": server.reservation.id,
            "OS-EXT-SRV-ATTR:root_device_name": None if server.host is None else "/dev/sda",
            "OS-EXT-SRV-ATTR:user_data": None,
        }  # fmt: skip
    if version >= (2, 16):
        part["host_status"] = "" if server.host is None else "UP"
    return part


def _newer_part(server: Server, version: Version) -> dict[str, Any]:
    """What was added to the body since 2.1, with the microversion that added it."""
    added: list[tuple[Version, str, Any]] = [
        ((2, 9), "locked", False),
        ((2, 19), "description", server.description),
        ((2, 26), "tags", []),
        ((2, 63), "trusted_image_certificates", None),
        ((2, 73), "locked_reason", None),
        ((2, 90), "OS-EXT-SRV-ATTR:hostname", server.name),
        ((2, 96), "pinned_availability_zone", server.spec.availability_zone),
        ((2, 100), "scheduler_hints", {}),
    ]
    return {key: value for since, key, value in added if version >= since}
