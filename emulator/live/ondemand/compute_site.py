"""Nova beside the servers: services, hypervisors, zones, aggregates, quotas, limits, usage."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand.compute_checks import (
    NOT_FOUND,
    only_admin,
    wrong_value,
)
from emulator.live.ondemand.compute_usage import add_usage
from emulator.live.ondemand.http import ApiError, body_part
from emulator.live.ondemand.site import CONTROL, Site, provider_id, service_id
from emulator.live.ondemand.times import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import OndemandConfig
    from emulator.live.ondemand.servers import Server


_QUOTA = {
    "cores": -1,
    "injected_file_content_bytes": 10_240,
    "injected_file_path_bytes": 255,
    "injected_files": 5,
    "instances": -1,
    "key_pairs": 100,
    "metadata_items": 128,
    "ram": -1,
    "server_group_members": 10,
    "server_groups": 10,
}
_FILES = ("injected_file_content_bytes", "injected_file_path_bytes", "injected_files")


class Quotas:
    """Limits by project. `limits`: instead of the default ones."""

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self.default = _QUOTA | dict(limits or {})
        self._changed: dict[str, dict[str, int]] = {}

    def of(self, project_id: str) -> dict[str, int]:
        return self.default | self._changed.get(project_id, {})

    def revert(self, project_id: str) -> None:
        self._changed.pop(project_id, None)

    def change(self, project_id: str, limits: dict[str, int]) -> None:
        self._changed[project_id] = self._changed.get(project_id, {}) | limits


def add_site(app: Flask, site: Site, config: OndemandConfig, quotas: Quotas) -> None:
    """All routes of this module."""
    cloud = site.cloud
    _add_services(app, site)
    _add_hypervisors(app, site, config)
    _add_zones(app, site)
    _add_quotas(app, cloud, config, quotas)
    add_usage(app, cloud, config)


def _add_services(app: Flask, site: Site) -> None:
    def row(binary: str, host: str) -> dict[str, Any]:
        state = site.state(host)
        return {
            "binary": binary,
            "host": host,
            "id": service_id(binary, host),
            "zone": "internal" if binary in CONTROL else "nova",
            "status": "disabled" if state.disabled else "enabled",
            "state": "down" if site.is_down(host) else "up",
            "updated_at": iso(site.cloud.clock.now_us()),
            "disabled_reason": state.disabled_reason,
            "forced_down": state.forced_down,
        }

    def rows() -> list[dict[str, Any]]:
        control = [row(binary, "controller") for binary in CONTROL]
        return control + [row("nova-compute", host) for host in site.hosts()]

    @app.get("/v2.1/os-services")
    def services() -> dict[str, Any]:
        only_admin("os-services:list")
        binary, host = request.args.get("binary"), request.args.get("host")
        return {
            "services": [
                service
                for service in rows()
                if binary in {None, service["binary"]} and host in {None, service["host"]}
            ]
        }

    @app.put("/v2.1/os-services/<row_id>")
    def update_service(row_id: str) -> dict[str, Any]:
        only_admin("os-services:update")
        body = request.get_json(silent=True)
        for service in rows():
            if service["id"] != row_id:
                continue
            if (
                not isinstance(body, dict)
                or not body
                or not body.keys() <= {"status", "disabled_reason", "forced_down"}
            ):
                raise wrong_value("body", body)
            state = site.state(service["host"])
            if "status" in body:
                state.disabled = body["status"] == "disabled"
                state.disabled_reason = body.get("disabled_reason") if state.disabled else None
            state.forced_down = bool(body.get("forced_down", state.forced_down))
            return {"service": row(service["binary"], service["host"])}
        raise ApiError(404, f"Service {row_id} could not be found.")


def _add_hypervisors(app: Flask, site: Site, config: OndemandConfig) -> None:
    def rows(*, whole: bool) -> dict[str, Any]:
        only_admin(f"os-hypervisors:{'list-detail' if whole else 'list'}")
        pattern = request.args.get("hypervisor_hostname_pattern", "")
        found = [
            _hypervisor(site, config, host, server, whole=whole)
            for host, server in site.hosts().items()
            if pattern in host
        ]
        return _pages(found, "os-hypervisors/detail" if whole else "os-hypervisors")

    @app.get("/v2.1/os-hypervisors")
    def hypervisors() -> dict[str, Any]:
        return rows(whole=False)

    @app.get("/v2.1/os-hypervisors/detail")
    def hypervisors_detail() -> dict[str, Any]:
        return rows(whole=True)

    @app.get("/v2.1/os-hypervisors/statistics")
    def statistics() -> dict[str, Any]:
        only_admin("os-hypervisors:statistics")
        if g.version >= (2, 88):
            raise ApiError(404, NOT_FOUND)
        hosts = site.hosts()
        return {"hypervisor_statistics": {"count": len(hosts)} | _numbers(list(hosts.values()), config)}

    @app.get("/v2.1/os-hypervisors/<hypervisor_id>")
    def hypervisor(hypervisor_id: str) -> dict[str, Any]:
        only_admin("os-hypervisors:show")
        try:
            hypervisor_id = str(uuid.UUID(hypervisor_id))
        except ValueError as fault:
            raise ApiError(400, f"Invalid uuid {hypervisor_id}") from fault
        for host, server in site.hosts().items():
            if provider_id(host) == hypervisor_id:
                return {"hypervisor": _hypervisor(site, config, host, server, whole=True)}
        raise ApiError(404, f"Hypervisor with ID '{hypervisor_id}' could not be found.")


def _pages(rows: list[dict[str, Any]], path: str) -> dict[str, Any]:
    """One page of hypervisors, and the link to the next one."""
    limit, marker = int(request.args.get("limit", "1000")), request.args.get("marker")
    if marker is not None:
        places = [place for place, row in enumerate(rows) if row["id"] == marker]
        if not places:
            raise ApiError(400, f"Marker {marker} not found")
        rows = rows[places[0] + 1 :]
    page, rest = rows[:limit], rows[limit:]
    if not page or not rest:
        return {"hypervisors": page}
    query = f"limit={limit}&marker={page[-1]['id']}"
    href = f"{request.host_url.rstrip('/')}/compute/v2.1/{path}?{query}"
    return {"hypervisors": page, "hypervisors_links": [{"rel": "next", "href": href}]}


def _hypervisor(
    site: Site, config: OndemandConfig, host: str, server: Server | None, *, whole: bool
) -> dict[str, Any]:
    state = site.state(host)
    body: dict[str, Any] = {
        "id": provider_id(host),
        "hypervisor_hostname": host,
        "state": "down" if site.is_down(host) else "up",
        "status": "disabled" if state.disabled else "enabled",
    }
    if whole:
        body |= {
            "hypervisor_type": "fake",
            "hypervisor_version": 1000,
            "host_ip": "127.0.0.1",
            "service": {
                "id": service_id("nova-compute", host),
                "host": host,
                "disabled_reason": state.disabled_reason,
            },
        }
        if g.version >= (2, 88):
            body["uptime"] = "00:00:00 up 1 day, 0 users, load average: 0.00, 0.00, 0.00"
        else:
            body |= _numbers([server], config) | {"cpu_info": {}}
    if server is not None and request.args.get("with_servers", "").lower() in {"1", "true"}:
        body["servers"] = [{"name": f"instance-{server.number:08x}", "uuid": server.id}]
    return body


def _numbers(servers: list[Server | None], config: OndemandConfig) -> dict[str, Any]:
    """Capacity and use of hosts with these servers on them."""
    count, used, flavor = len(servers), sum(server is not None for server in servers), config.flavor
    return {
        "vcpus": count * flavor.vcpus,
        "memory_mb": count * flavor.ram_mb,
        "local_gb": count * flavor.disk_gb,
        "vcpus_used": used * flavor.vcpus,
        "memory_mb_used": used * flavor.ram_mb,
        "local_gb_used": used * flavor.disk_gb,
        "free_ram_mb": (count - used) * flavor.ram_mb,
        "free_disk_gb": (count - used) * flavor.disk_gb,
        "current_workload": 0,
        "running_vms": used,
        "disk_available_least": 0,
    }


def _add_zones(app: Flask, site: Site) -> None:
    @app.get("/v2.1/os-availability-zone")
    def zones() -> dict[str, Any]:
        return {
            "availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}, "hosts": None}]
        }

    @app.get("/v2.1/os-availability-zone/detail")
    def zones_detail() -> dict[str, Any]:
        only_admin("os-availability-zone:detail")
        seen = {"available": True, "active": True, "updated_at": iso(site.cloud.clock.now_us())}
        internal = {"controller": dict.fromkeys(CONTROL, seen)}
        hosts = {host: {"nova-compute": seen} for host in site.hosts()}
        return {
            "availabilityZoneInfo": [
                {"zoneName": "internal", "zoneState": {"available": True}, "hosts": internal},
                {"zoneName": "nova", "zoneState": {"available": True}, "hosts": hosts},
            ]
        }


def _in_use(cloud: Cloud, project_id: str, config: OndemandConfig) -> dict[str, int]:
    count = sum(server.spec.account.project_id == project_id for server in cloud.servers())
    return {"instances": count, "cores": count * config.flavor.vcpus, "ram": count * config.flavor.ram_mb}


def _add_quotas(app: Flask, cloud: Cloud, config: OndemandConfig, quotas: Quotas) -> None:
    def shown(limits: dict[str, int]) -> dict[str, int]:
        return {key: limit for key, limit in limits.items() if g.version < (2, 57) or key not in _FILES}

    def check(project_id: str) -> None:
        if g.account.project_id != project_id:
            only_admin("os-quota-sets:show")

    @app.get("/v2.1/os-quota-sets/<project_id>")
    def quota(project_id: str) -> dict[str, Any]:
        check(project_id)
        return {"quota_set": {"id": project_id, **shown(quotas.of(project_id))}}

    @app.get("/v2.1/os-quota-sets/<project_id>/defaults")
    def quota_defaults(project_id: str) -> dict[str, Any]:
        return {"quota_set": {"id": project_id, **shown(quotas.default)}}

    @app.get("/v2.1/os-quota-sets/<project_id>/detail")
    def quota_detail(project_id: str) -> dict[str, Any]:
        check(project_id)
        used = _in_use(cloud, project_id, config)
        parts = {
            key: {"limit": limit, "in_use": used.get(key, 0), "reserved": 0}
            for key, limit in shown(quotas.of(project_id)).items()
        }
        return {"quota_set": {"id": project_id, **parts}}

    @app.put("/v2.1/os-quota-sets/<project_id>")
    def change_quota(project_id: str) -> dict[str, Any]:
        only_admin("os-quota-sets:update")
        quota_set = dict(body_part("quota_set") or {})
        quota_set.pop("force", None)
        if (
            not quota_set
            or not quota_set.keys() <= _QUOTA.keys()
            or not all(isinstance(n, int) for n in quota_set.values())
        ):
            raise wrong_value("quota_set", quota_set)
        quotas.change(project_id, quota_set)
        return {"quota_set": shown(quotas.of(project_id))}

    @app.delete("/v2.1/os-quota-sets/<project_id>")
    def revert_quota(project_id: str) -> Response:
        only_admin("os-quota-sets:delete")
        quotas.revert(project_id)
        return Response(status=202, content_type="application/json")

    @app.get("/v2.1/limits")
    def limits() -> dict[str, Any]:
        project_id = request.args.get("tenant_id", g.account.project_id)
        if project_id != g.account.project_id:
            only_admin("limits:other_project")
        return {
            "limits": {
                "rate": [],
                "absolute": _limits(quotas.of(project_id), _in_use(cloud, project_id, config)),
            }
        }


def _limits(quota: dict[str, int], used: dict[str, int]) -> dict[str, int]:
    limits = {
        "maxTotalCores": quota["cores"],
        "maxTotalInstances": quota["instances"],
        "maxTotalKeypairs": quota["key_pairs"],
        "maxServerMeta": quota["metadata_items"],
        "maxTotalRAMSize": quota["ram"],
        "maxServerGroups": quota["server_groups"],
        "maxServerGroupMembers": quota["server_group_members"],
        "totalRAMUsed": used["ram"],
        "totalCoresUsed": used["cores"],
        "totalInstancesUsed": used["instances"],
        "totalServerGroupsUsed": 0,
    }
    if g.version < (2, 57):
        limits |= {"maxPersonality": 5, "maxPersonalitySize": 10_240}
    if g.version < (2, 39):
        limits["maxImageMeta"] = quota["metadata_items"]
    if g.version < (2, 36):
        limits |= {
            "maxTotalFloatingIps": -1,
            "maxSecurityGroups": -1,
            "maxSecurityGroupRules": -1,
            "totalFloatingIpsUsed": 0,
            "totalSecurityGroupsUsed": 0,
        }
    return limits
