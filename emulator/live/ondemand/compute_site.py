"""Nova beside the servers: the flavor, services, hypervisors, zones, quotas and limits."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Literal

from flask import Flask, Response, g, request
from pydantic import Field, ValidationError

from emulator.live.ondemand.config import QUOTAS
from emulator.live.ondemand.http import (
    ApiError,
    absent,
    iso,
    mapping_of,
    only_admin,
    page_of,
    site_url,
    wrong_value,
)
from emulator.live.ondemand.server_view import links
from emulator.live.ondemand.site import CONTROL, Site, provider_id, service_id
from emulator.live.settings import Settings

if TYPE_CHECKING:
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import Flavor, OndemandConfig
    from emulator.live.ondemand.servers import Server


_QUOTA = {
    "cores": -1, "injected_file_content_bytes": 10_240, "injected_file_path_bytes": 255, "injected_files": 5,
    "instances": -1, "key_pairs": 100, "metadata_items": 128, "ram": -1, "server_group_members": 10,
    "server_groups": 10,
}  # fmt: skip
"""By default; clients know all of these names, and cores, instances and ram count."""
_FILES = ("injected_file_content_bytes", "injected_file_path_bytes", "injected_files")


class Quotas:
    """Limits by project, and what counts against them."""

    def __init__(self, config: OndemandConfig) -> None:
        self.default = _QUOTA | config.quota
        self._flavor = config.flavor
        self._changed: dict[str, dict[str, int]] = {}

    def of(self, project_id: str) -> dict[str, int]:
        return self.default | self._changed.get(project_id, {})

    def revert(self, project_id: str) -> None:
        self._changed.pop(project_id, None)

    def change(self, project_id: str, limits: dict[str, int]) -> None:
        self._changed[project_id] = self._changed.get(project_id, {}) | limits

    def used(self, cloud: Cloud, project_id: str, more: int = 0) -> dict[str, int]:
        """With as many servers more."""
        count = more + sum(server.spec.account.project_id == project_id for server in cloud.servers())
        return {"instances": count, "cores": count * self._flavor.vcpus, "ram": count * self._flavor.ram_mb}

    def check(self, cloud: Cloud, project_id: str, more: int) -> None:
        """Before servers are made; raises ApiError."""
        limits = self.of(project_id)
        for name, used in self.used(cloud, project_id, more).items():
            if 0 <= limits[name] < used:
                raise ApiError(403, f"Quota exceeded for {name}: {used} with these, of {limits[name]} {name}")


def add_flavor(app: Flask, flavor: Flavor) -> None:
    """The one there is; who looks for others by what they must have finds it or none."""

    @app.get("/v2.1/flavors", defaults={"whole": False})
    @app.get("/v2.1/flavors/detail", defaults={"whole": True})
    def flavors(*, whole: bool) -> dict[str, Any]:
        known = {"is_public", "limit", "marker", "minRam", "minDisk"}
        if unknown := sorted(request.args.keys() - known):
            raise absent(f"parameter {unknown[0]} of a list of flavors", 400)
        least = {name: request.args.get(name, "0") for name in ("minRam", "minDisk")}
        for name, value in least.items():
            if not value.isdecimal():
                raise ApiError(400, f"Invalid {name} filter [{value}]")
        is_private = request.args.get("is_public", "true").lower() in {"false", "0"}
        fits = int(least["minRam"]) <= flavor.ram_mb and int(least["minDisk"]) <= flavor.disk_gb
        found = [_flavor(flavor, whole=whole)] if fits and not is_private else []
        return page_of(found, lambda row: row["id"], "flavors")

    def check(flavor_id: str) -> None:
        if flavor_id != flavor.id:
            raise ApiError(404, f"Flavor {flavor_id} could not be found.")

    @app.get("/v2.1/flavors/<flavor_id>")
    def one_flavor(flavor_id: str) -> dict[str, Any]:
        check(flavor_id)
        return {"flavor": _flavor(flavor, whole=True)}

    @app.get("/v2.1/flavors/<flavor_id>/os-extra_specs")
    def specs(flavor_id: str) -> dict[str, Any]:
        check(flavor_id)
        return {"extra_specs": {}}


def _flavor(flavor: Flavor, *, whole: bool) -> dict[str, Any]:
    shown = links(site_url(), "flavors", flavor.id)
    part: dict[str, Any] = {"id": flavor.id, "name": flavor.name, "links": shown}
    if g.version >= (2, 55):
        part["description"] = None
    if not whole:
        return part
    part |= {
        "ram": flavor.ram_mb, "disk": flavor.disk_gb, "swap": "" if g.version < (2, 75) else 0,
        "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": False, "vcpus": flavor.vcpus,
        "os-flavor-access:is_public": True, "rxtx_factor": 1.0,
    }  # fmt: skip
    return part | ({"extra_specs": {}} if g.version >= (2, 61) else {})


def add_site(app: Flask, site: Site, config: OndemandConfig, quotas: Quotas) -> None:
    """What there is beside servers and their flavor."""
    _add_services(app, site)
    _add_hypervisors(app, site, config)
    _add_zones(app, site)
    _add_quotas(app, site.cloud, quotas)


class _ServiceChange(Settings):
    """Nova's body for a service since 2.53. None: it is not there."""

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: str | None = Field(None, min_length=1, max_length=255)
    forced_down: bool | None = None


def _change_in(body: object) -> _ServiceChange:
    """Raises ApiError, as Nova's schema refuses it."""
    try:
        change = _ServiceChange.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        raise wrong_value(".".join(map(str, first["loc"])) or "body", first["input"]) from error
    if not change.model_fields_set:
        raise wrong_value("body", body)
    for name in change.model_fields_set:
        if getattr(change, name) is None:
            raise wrong_value(name, None)
    if change.disabled_reason is not None and change.status != "disabled":
        raise ApiError(400, "Specifying 'disabled_reason' without status 'disabled' is invalid.")
    return change


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
        found = [row for row in rows() if binary in {None, row["binary"]} and host in {None, row["host"]}]
        return {"services": found}

    @app.put("/v2.1/os-services/<row_id>")
    def update_service(row_id: str) -> dict[str, Any]:
        only_admin("os-services:update")
        body = request.get_json(silent=True)
        for service in rows():
            if service["id"] != row_id:
                continue
            change = _change_in(body)
            state = site.state(service["host"])
            if change.status is not None:
                state.disabled = change.status == "disabled"
                state.disabled_reason = change.disabled_reason
            if change.forced_down is not None:
                state.forced_down = change.forced_down
            return {"service": row(service["binary"], service["host"])}
        raise ApiError(404, f"Service {row_id} could not be found.")


def _add_hypervisors(app: Flask, site: Site, config: OndemandConfig) -> None:
    @app.get("/v2.1/os-hypervisors", defaults={"whole": False})
    @app.get("/v2.1/os-hypervisors/detail", defaults={"whole": True})
    def hypervisors(*, whole: bool) -> dict[str, Any]:
        only_admin(f"os-hypervisors:{'list-detail' if whole else 'list'}")
        pattern = request.args.get("hypervisor_hostname_pattern", "")
        found = [
            _hypervisor(site, config, host, server, whole=whole)
            for host, server in site.hosts().items()
            if pattern in host
        ]
        return page_of(found, lambda row: str(row["id"]), "hypervisors")

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
            body |= _numbers(server, config) | {"cpu_info": {}}
    if server is not None and request.args.get("with_servers", "").lower() in {"1", "true"}:
        body["servers"] = [{"name": f"instance-{server.number:08x}", "uuid": server.id}]
    return body


def _numbers(server: Server | None, config: OndemandConfig) -> dict[str, Any]:
    """Capacity and use of a host with this server on it."""
    used, flavor = int(server is not None), config.flavor
    return {
        "vcpus": flavor.vcpus, "memory_mb": flavor.ram_mb, "local_gb": flavor.disk_gb,
        "vcpus_used": used * flavor.vcpus, "memory_mb_used": used * flavor.ram_mb,
        "local_gb_used": used * flavor.disk_gb, "free_ram_mb": (1 - used) * flavor.ram_mb,
        "free_disk_gb": (1 - used) * flavor.disk_gb, "current_workload": 0, "running_vms": used,
        "disk_available_least": 0,
    }  # fmt: skip


def _add_zones(app: Flask, site: Site) -> None:
    @app.get("/v2.1/os-availability-zone")
    def zones() -> dict[str, Any]:
        return {
            "availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}, "hosts": None}]
        }

    @app.get("/v2.1/os-aggregates")
    def aggregates() -> dict[str, Any]:
        """There are none; `openstack hypervisor show` looks for those of its host."""
        only_admin("os-aggregates:index")
        return {"aggregates": []}

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


def _add_quotas(app: Flask, cloud: Cloud, quotas: Quotas) -> None:
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

    @app.put("/v2.1/os-quota-sets/<project_id>")
    def change_quota(project_id: str) -> dict[str, Any]:
        only_admin("os-quota-sets:update")
        limits = dict(mapping_of("quota_set"))
        limits.pop("force", None)
        if not limits or not all(isinstance(n, int) for n in limits.values()):
            raise wrong_value("quota_set", limits)
        if unknown := sorted(limits.keys() - QUOTAS):
            raise absent(f"quota of {unknown[0]}", 400)
        quotas.change(project_id, limits)
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
        absolute = _limits(quotas.of(project_id), quotas.used(cloud, project_id))
        return {"limits": {"rate": [], "absolute": absolute}}


def _limits(quota: dict[str, int], used: dict[str, int]) -> dict[str, int]:
    limits = {
        "maxTotalCores": quota["cores"], "maxTotalInstances": quota["instances"],
        "maxTotalKeypairs": quota["key_pairs"], "maxServerMeta": quota["metadata_items"],
        "maxTotalRAMSize": quota["ram"], "maxServerGroups": quota["server_groups"],
        "maxServerGroupMembers": quota["server_group_members"], "totalRAMUsed": used["ram"],
        "totalCoresUsed": used["cores"], "totalInstancesUsed": used["instances"], "totalServerGroupsUsed": 0,
    }  # fmt: skip
    if g.version < (2, 57):
        limits |= {"maxPersonality": 5, "maxPersonalitySize": 10_240}
    if g.version < (2, 39):
        limits["maxImageMeta"] = quota["metadata_items"]
    if g.version < (2, 36):
        limits |= {
            "maxTotalFloatingIps": -1, "maxSecurityGroups": -1, "maxSecurityGroupRules": -1,
            "totalFloatingIpsUsed": 0, "totalSecurityGroupsUsed": 0,
        }  # fmt: skip
    return limits
