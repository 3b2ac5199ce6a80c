"""An empty Neutron and an empty Cinder: no list has an element, so that clients that look for some find none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, request

from emulator.live.ondemand.http import body_part, service_for_callers

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Keyring

_NETWORK_QUOTA = (
    "network",
    "port",
    "security_group",
    "security_group_rule",
    "floatingip",
    "subnet",
    "router",
    "rbac_policy",
    "subnetpool",
)
_EXTENSIONS = ("binding", "security-group", "quotas")
_VOLUME_LIMITS = {
    "maxTotalVolumes": 0,
    "maxTotalSnapshots": 0,
    "maxTotalVolumeGigabytes": 0,
    "maxTotalBackups": 0,
    "maxTotalBackupGigabytes": 0,
    "totalVolumesUsed": 0,
    "totalSnapshotsUsed": 0,
    "totalGigabytesUsed": 0,
    "totalBackupsUsed": 0,
    "totalBackupGigabytesUsed": 0,
}
_VOLUME_QUOTA = {
    "volumes": 0,
    "snapshots": 0,
    "gigabytes": 0,
    "backups": 0,
    "backup_gigabytes": 0,
    "groups": 0,
}


def network_app(keyring: Keyring) -> Flask:
    app = service_for_callers("network", keyring, free=frozenset({"", "/v2.0"}))

    @app.get("/")
    def versions() -> dict[str, Any]:
        href = f"{request.root_url.rstrip('/')}/v2.0/"
        return {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": href}]}]}

    @app.get("/v2.0")
    def resources() -> dict[str, Any]:
        return {"resources": []}

    @app.get("/v2.0/extensions")
    def extensions() -> dict[str, Any]:
        return {"extensions": [_extension(alias) for alias in _EXTENSIONS]}

    @app.get("/v2.0/extensions/<alias>")
    def extension(alias: str) -> tuple[dict[str, Any], int]:
        if alias not in _EXTENSIONS:
            return _missing(), 404
        return {"extension": _extension(alias)}, 200

    @app.get("/v2.0/quotas/<project_id>")
    def quotas(project_id: str) -> dict[str, Any]:  # noqa: ARG001 - the same for every project
        return {"quota": dict.fromkeys(_NETWORK_QUOTA, -1)}

    @app.delete("/v2.0/quotas/<project_id>")
    def revert_quotas(project_id: str) -> tuple[str, int]:  # noqa: ARG001 - nothing was changed
        return "", 204

    @app.get("/v2.0/<collection>")
    def collection(collection: str) -> dict[str, Any]:
        return {collection.replace("-", "_"): []}

    @app.get("/v2.0/<collection>/<path:element>")
    def element(collection: str, element: str) -> tuple[dict[str, Any], int]:  # noqa: ARG001
        return _missing(), 404

    return app


def _extension(alias: str) -> dict[str, Any]:
    shown = {"alias": alias, "name": alias, "description": "", "links": []}
    return shown | {"updated": "2020-01-01T00:00:00-00:00"}


def _missing() -> dict[str, Any]:
    return {"NeutronError": {"type": "NotFound", "message": "not found", "detail": ""}}


def volume_app(keyring: Keyring) -> Flask:
    app = service_for_callers("volume", keyring, free=frozenset({"", "/v3"}))

    def version() -> dict[str, Any]:
        href = f"{request.root_url.rstrip('/')}/v3/"
        return {
            "id": "v3.0",
            "status": "CURRENT",
            "version": "3.71",
            "min_version": "3.0",
            "updated": "2023-08-31T00:00:00Z",
            "links": [{"rel": "self", "href": href}],
            "media-types": [
                {"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}
            ],
        }

    @app.get("/")
    def versions() -> tuple[dict[str, Any], int]:
        return {"versions": [version()]}, 300

    @app.get("/v3")
    def only_version() -> dict[str, Any]:
        return {"versions": [version()]}

    @app.get("/v3/limits")
    def limits() -> dict[str, Any]:
        return {"limits": {"rate": [], "absolute": _VOLUME_LIMITS}}

    _add_volume_quotas(app)

    @app.get("/v3/<collection>")
    @app.get("/v3/<collection>/detail")
    def collection(collection: str) -> dict[str, Any]:
        return {collection.replace("-", "_"): []}

    @app.get("/v3/<collection>/<path:element>")
    def element(collection: str, element: str) -> tuple[dict[str, Any], int]:  # noqa: ARG001
        return {"itemNotFound": {"code": 404, "message": "not found"}}, 404

    return app


def _add_volume_quotas(app: Flask) -> None:
    quotas: dict[str, dict[str, int]] = {}

    @app.get("/v3/os-quota-sets/<project>")
    def quota(project: str) -> dict[str, Any]:
        return {"quota_set": {"id": project, **_VOLUME_QUOTA, **quotas.get(project, {})}}

    @app.put("/v3/os-quota-sets/<project>")
    def change_quota(project: str) -> tuple[dict[str, Any], int]:
        limits = body_part("quota_set")
        if not isinstance(limits, dict) or not all(isinstance(limit, int) for limit in limits.values()):
            return {"badRequest": {"code": 400, "message": f"Invalid input for quota_set: {limits}."}}, 400
        quotas[project] = quotas.get(project, {}) | limits
        return {"quota_set": _VOLUME_QUOTA | quotas[project]}, 200

    @app.delete("/v3/os-quota-sets/<project>")
    def revert_quota(project: str) -> tuple[str, int]:
        quotas.pop(project, None)
        return "", 200
