"""Metadata of a server (/servers/ID/metadata): all of it, and each item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, Response, request

from emulator.live.ondemand.compute_checks import find_server, wrong_value
from emulator.live.ondemand.create_request import METADATA_ITEMS
from emulator.live.ondemand.create_rules import wrong_field
from emulator.live.ondemand.http import ApiError
from emulator.live.ondemand.server_states import MAY_CHANGE, check_lock, check_status

if TYPE_CHECKING:
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.servers import Server


def add_metadata(app: Flask, cloud: Cloud) -> None:
    path = "/v2.1/servers/<server_id>/metadata"

    def change(server: Server, metadata: dict[str, str], verb: str) -> None:
        check_lock(server)
        check_status(server, f"{verb} metadata", MAY_CHANGE, cloud.clock.now_us())
        if len(metadata) > METADATA_ITEMS:
            raise ApiError(403, f"Maximum number of metadata items exceeds {METADATA_ITEMS}")
        server.metadata = metadata
        cloud.changed(server)

    @app.get(path)
    def metadata(server_id: str) -> dict[str, Any]:
        return {"metadata": find_server(cloud, server_id).metadata}

    @app.route(path, methods=["POST", "PUT"])
    def set_metadata(server_id: str) -> dict[str, Any]:
        values, server = _values("metadata"), find_server(cloud, server_id)
        change(server, values if request.method == "PUT" else server.metadata | values, "update")
        return {"metadata": server.metadata}

    @app.get(f"{path}/<key>")
    def item(server_id: str, key: str) -> dict[str, Any]:
        return {"meta": {key: _value(find_server(cloud, server_id), key)}}

    @app.put(f"{path}/<key>")
    def set_item(server_id: str, key: str) -> dict[str, Any]:
        values, server = _values("meta"), find_server(cloud, server_id)
        if values.keys() != {key}:
            raise ApiError(400, "Request body and URI mismatch")
        change(server, server.metadata | values, "update")
        return {"meta": values}

    @app.delete(f"{path}/<key>")
    def remove_item(server_id: str, key: str) -> Response:
        server = find_server(cloud, server_id)
        _value(server, key)
        change(server, {name: text for name, text in server.metadata.items() if name != key}, "delete")
        return Response(status=204)


def _values(name: str) -> dict[str, str]:
    """What the body says under this name."""
    body = request.get_json(silent=True)
    values = body.get(name) if isinstance(body, dict) and len(body) == 1 else None
    if not isinstance(values, dict) or wrong_field({"metadata": values}) is not None:
        raise wrong_value(name, values)
    return values


def _value(server: Server, key: str) -> str:
    if key not in server.metadata:
        raise ApiError(404, "Metadata item was not found")
    return server.metadata[key]
