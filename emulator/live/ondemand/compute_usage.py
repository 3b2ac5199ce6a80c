"""How long servers have run, by project (os-simple-tenant-usage)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, g, request

from balancer.clock import US
from emulator.live.ondemand.compute_checks import only_admin, wrong_parameter
from emulator.live.ondemand.times import from_iso, iso

if TYPE_CHECKING:
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import OndemandConfig
    from emulator.live.ondemand.servers import Server


_HOUR_US = 3600 * US


def add_usage(app: Flask, cloud: Cloud, config: OndemandConfig) -> None:
    def found() -> tuple[dict[str, list[dict[str, Any]]], int, int]:
        now_us = cloud.clock.now_us()
        start_us, stop_us = _moment("start", now_us), _moment("end", now_us)
        return _found(cloud, config, now_us, start_us, stop_us), start_us, stop_us

    @app.get("/v2.1/os-simple-tenant-usage")
    def usages() -> dict[str, Any]:
        only_admin("os-simple-tenant-usage:list")
        rows, start_us, stop_us = found()
        bodies = [_body(project, rows[project], config, start_us, stop_us) for project in sorted(rows)]
        if request.args.get("detailed", "").lower() not in {"1", "true"}:
            for body in bodies:
                del body["server_usages"]
        return {"tenant_usages": bodies}

    @app.get("/v2.1/os-simple-tenant-usage/<project_id>")
    def usage(project_id: str) -> dict[str, Any]:
        if project_id != g.account.project_id:
            only_admin("os-simple-tenant-usage:show")
        rows, start_us, stop_us = found()
        if project_id not in rows:
            return {"tenant_usage": {}}
        return {"tenant_usage": _body(project_id, rows[project_id], config, start_us, stop_us)}


def _moment(key: str, default_us: int) -> int:
    text = request.args.get(key)
    try:
        return default_us if text is None else from_iso(text)
    except ValueError as fault:
        raise wrong_parameter(key, text) from fault


def _found(
    cloud: Cloud, config: OndemandConfig, now_us: int, start_us: int, stop_us: int
) -> dict[str, list[dict[str, Any]]]:
    """Rows by project, of servers that ran in this span."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for server in (*cloud.past(), *cloud.servers()):
        if server.launched_us is None:
            continue
        end_us = now_us if server.deleted_us is None else server.deleted_us
        inside_us = min(end_us, stop_us) - max(server.launched_us, start_us)
        if inside_us >= 0:
            row = _row(server, config, inside_us, end_us)
            rows.setdefault(server.spec.account.project_id, []).append(row)
    return rows


def _body(
    project_id: str, rows: list[dict[str, Any]], config: OndemandConfig, start_us: int, stop_us: int
) -> dict[str, Any]:
    hours, flavor = sum(row["hours"] for row in rows), config.flavor
    return {
        "tenant_id": project_id,
        "server_usages": rows,
        "total_hours": hours,
        "total_memory_mb_usage": hours * flavor.ram_mb,
        "total_vcpus_usage": hours * flavor.vcpus,
        "total_local_gb_usage": hours * flavor.disk_gb,
        "start": iso(start_us),
        "stop": iso(stop_us),
    }


def _row(server: Server, config: OndemandConfig, inside_us: int, end_us: int) -> dict[str, Any]:
    flavor, launched_us = config.flavor, server.launched_us or 0
    return {
        "hours": inside_us / _HOUR_US,
        "flavor": flavor.name,
        "instance_id": server.id,
        "name": server.name,
        "tenant_id": server.spec.account.project_id,
        "memory_mb": flavor.ram_mb,
        "local_gb": flavor.disk_gb,
        "vcpus": flavor.vcpus,
        "started_at": iso(launched_us),
        "ended_at": None if server.deleted_us is None else iso(end_us),
        "state": "active" if server.deleted_us is None else "terminated",
        "uptime": (end_us - launched_us) // US,
    }
