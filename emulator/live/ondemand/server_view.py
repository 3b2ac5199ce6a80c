"""A server as Nova's JSON, for each microversion and for users and administrators."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from emulator.live.ondemand.cloud import made_password
from emulator.live.ondemand.http import iso, iso_z

if TYPE_CHECKING:
    from emulator.live.ondemand.config import Flavor
    from emulator.live.ondemand.servers import Server

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
