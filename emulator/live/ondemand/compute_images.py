"""Nova's own view of Glance's image, which old clients use, and its list of extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, g

from emulator.live.ondemand import server_view
from emulator.live.ondemand.compute_checks import NOT_FOUND, mapping_of, wrong_value
from emulator.live.ondemand.http import ApiError, site_url
from emulator.live.ondemand.image import image_id

if TYPE_CHECKING:
    from collections.abc import Callable


_DATE = "2026-01-01T00:00:00Z"
_EXTENSION: dict[str, Any] = {
    "name": "Servers", "alias": "servers", "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
    "updated": "2014-12-03T00:00:00Z", "description": "", "links": [],
}  # fmt: skip
_LAST_PROXY = (2, 35)
"""From 2.36 on Nova passes nothing through to other services."""


def add_images(app: Flask, name: str) -> None:
    """`name`: of the one image."""
    routes = Blueprint("images", __name__)
    metadata: dict[str, str] = {}

    def check(requested_id: str | None = None) -> None:
        if g.version > _LAST_PROXY:
            raise ApiError(404, NOT_FOUND)
        if requested_id not in {None, image_id(name)}:
            raise ApiError(404, f"Image {requested_id} could not be found.")

    @routes.get("/v2.1/extensions")
    def extensions() -> dict[str, Any]:
        return {"extensions": [_EXTENSION]}

    @routes.get("/v2.1/extensions/<alias>")
    def extension(alias: str) -> dict[str, Any]:
        if alias != _EXTENSION["alias"]:
            raise ApiError(404, NOT_FOUND)
        return {"extension": _EXTENSION}

    @routes.get("/v2.1/images")
    def listed() -> dict[str, Any]:
        check()
        return {"images": [_brief(name)]}

    @routes.get("/v2.1/images/detail")
    def detailed() -> dict[str, Any]:
        check()
        return {"images": [_whole(name, metadata)]}

    @routes.get("/v2.1/images/<requested_id>")
    def show(requested_id: str) -> dict[str, Any]:
        check(requested_id)
        return {"image": _whole(name, metadata)}

    _add_metadata(routes, metadata, check)
    app.register_blueprint(routes)


def _add_metadata(routes: Blueprint, metadata: dict[str, str], check: Callable[[str | None], None]) -> None:
    @routes.get("/v2.1/images/<requested_id>/metadata")
    def shown(requested_id: str) -> dict[str, Any]:
        check(requested_id)
        return {"metadata": metadata}

    @routes.post("/v2.1/images/<requested_id>/metadata")
    def add(requested_id: str) -> dict[str, Any]:
        check(requested_id)
        metadata.update(_metadata_of())
        return {"metadata": metadata}

    @routes.delete("/v2.1/images/<requested_id>/metadata/<key>")
    def remove(requested_id: str, key: str) -> Response:
        check(requested_id)
        if metadata.pop(key, None) is None:
            raise ApiError(404, "Metadata item was not found")
        return Response(status=204)


def _metadata_of() -> dict[str, str]:
    metadata = mapping_of("metadata")
    if not all(isinstance(text, str) for text in metadata.values()):
        raise wrong_value("metadata", metadata)
    return metadata


def _brief(name: str) -> dict[str, Any]:
    return {
        "id": image_id(name),
        "name": name,
        "links": server_view.links(site_url(), "images", image_id(name)),
    }


def _whole(name: str, metadata: dict[str, str]) -> dict[str, Any]:
    return _brief(name) | {
        "status": "ACTIVE", "progress": 100, "minDisk": 0, "minRam": 0, "created": _DATE, "updated": _DATE,
        "OS-EXT-IMG-SIZE:size": 1024, "metadata": metadata,
    }  # fmt: skip
