"""An empty Neutron: every collection has no element, so that clients that look for networks find none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, request

from emulator.live.ondemand.http import service_for_callers

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Keyring

_QUOTA = (
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
        return {"quota": dict.fromkeys(_QUOTA, -1)}

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
