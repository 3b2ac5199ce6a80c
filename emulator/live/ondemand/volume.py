"""An empty Cinder: every list has no element, so that clients that look for volumes find none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, request

from emulator.live.ondemand.http import service_for_callers

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Keyring

_LIMITS = {
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
_QUOTA = {"volumes": 0, "snapshots": 0, "gigabytes": 0, "backups": 0, "backup_gigabytes": 0, "groups": 0}


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
        return {"limits": {"rate": [], "absolute": _LIMITS}}

    _add_quotas(app)

    @app.get("/v3/<collection>")
    @app.get("/v3/<collection>/detail")
    def collection(collection: str) -> dict[str, Any]:
        return {collection.replace("-", "_"): []}

    @app.get("/v3/<collection>/<path:element>")
    def element(collection: str, element: str) -> tuple[dict[str, Any], int]:  # noqa: ARG001
        return {"itemNotFound": {"code": 404, "message": "not found"}}, 404

    return app


def _add_quotas(app: Flask) -> None:
    quotas: dict[str, dict[str, int]] = {}

    @app.get("/v3/os-quota-sets/<project>")
    def quota(project: str) -> dict[str, Any]:
        return {"quota_set": {"id": project, **_QUOTA, **quotas.get(project, {})}}

    @app.put("/v3/os-quota-sets/<project>")
    def change_quota(project: str) -> tuple[dict[str, Any], int]:
        body = request.get_json(silent=True)
        told = body.get("quota_set") if isinstance(body, dict) else None
        if not isinstance(told, dict) or not all(isinstance(limit, int) for limit in told.values()):
            return {"badRequest": {"code": 400, "message": f"Invalid input for quota_set: {told}."}}, 400
        quotas[project] = quotas.get(project, {}) | told
        return {"quota_set": _QUOTA | quotas[project]}, 200

    @app.delete("/v3/os-quota-sets/<project>")
    def revert_quota(project: str) -> tuple[str, int]:
        quotas.pop(project, None)
        return "", 200
