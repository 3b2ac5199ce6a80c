"""Tags of a server, one by one and all at once (/servers/ID/tags, since 2.26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand.compute_checks import NOT_FOUND, find_server, wrong_value
from emulator.live.ondemand.create_rules import MOST_TAGS, is_tags
from emulator.live.ondemand.http import ApiError, site_url
from emulator.live.ondemand.server_states import MAY_CHANGE, check_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.servers import Server


def add_tags(app: Flask, cloud: Cloud) -> None:
    path = "/v2.1/servers/<server_id>/tags"

    def known(server_id: str, verb: str = "") -> Server:
        """The server, if its tags may be changed so (`verb`), or only be read."""
        server = find_server(cloud, server_id)
        if g.version < (2, 26):
            raise ApiError(404, NOT_FOUND)
        if verb:
            check_status(server, verb, MAY_CHANGE, cloud.clock.now_us())
        return server

    def put(server: Server, tags: Iterable[str]) -> None:
        server.tags = sorted(set(tags))
        cloud.changed(server)

    @app.get(path)
    def tags(server_id: str) -> dict[str, Any]:
        return {"tags": list(known(server_id).tags)}

    @app.put(path)
    def replace_tags(server_id: str) -> dict[str, Any]:
        body = request.get_json(silent=True)
        if not isinstance(body, dict) or body.keys() != {"tags"} or not is_tags(body["tags"]):
            raise wrong_value("tags", body)
        server = known(server_id, "update tags")
        put(server, body["tags"])
        return {"tags": list(server.tags)}

    @app.delete(path)
    def remove_tags(server_id: str) -> Response:
        put(known(server_id, "delete tags"), ())
        return Response(status=204)

    _add_one(app, path, known, put)


def _add_one(
    app: Flask,
    path: str,
    known: Callable[..., Server],
    put: Callable[[Server, Iterable[str]], None],
) -> None:
    @app.get(f"{path}/<tag>")
    def has_tag(server_id: str, tag: str) -> Response:
        _check_has(known(server_id), tag)
        return Response(status=204)

    @app.put(f"{path}/<tag>")
    def add_tag(server_id: str, tag: str) -> Response:
        server = known(server_id, "update tag")
        if not is_tags([tag]):
            raise ApiError(400, f"Tag '{tag}' is invalid. It must be a non empty string without '/' and ','.")
        if len(server.tags) >= MOST_TAGS:
            raise ApiError(400, f"The number of tags exceeded the per-server limit {MOST_TAGS}")
        if tag in server.tags:
            return Response(status=204)
        put(server, (*server.tags, tag))
        where = f"{site_url()}/compute/v2.1/servers/{server_id}/tags/{tag}"
        return Response(status=201, headers={"Location": where})

    @app.delete(f"{path}/<tag>")
    def remove_tag(server_id: str, tag: str) -> Response:
        server = known(server_id, "delete tag")
        _check_has(server, tag)
        put(server, (each for each in server.tags if each != tag))
        return Response(status=204)


def _check_has(server: Server, tag: str) -> None:
    if tag not in server.tags:
        raise ApiError(404, f"Server {server.id} has no tag '{tag}'")
