"""Services in which nothing changes: Glance with its one image, and a Neutron without networks."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, request

from emulator.live.ondemand.http import (
    ApiError,
    Keyring,
    caller,
    json_answer,
    service,
    site_url,
    stable_id,
    unauthorized,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_VERSIONS = (15, 13, 12, 11, 10, 9, 8, 17, 7, 6, 5, 4, 3, 2, 1, 0)
_CURRENT = 17
_TYPES: dict[type, str | list[str]] = {
    str: ["null", "string"], bool: "boolean", int: ["null", "integer"], list: "array",
}  # fmt: skip
"""Of an image's properties in its schema; those of one without data are null."""
_FIXED_DATE = "2026-01-01T00:00:00Z"


def image_id(name: str) -> str:
    """The identifier of the image called `name`."""
    return str(uuid.UUID(stable_id("image", name)))


def image_app(keyring: Keyring, name: str, images: dict[str, dict[str, Any]] | None = None) -> Flask:
    """`images`: where those are, by id, that are shown; the one called `name` is put there."""
    app = service("image", _shown)
    image = _image(name)
    known = {} if images is None else images
    known[image["id"]] = image

    @app.before_request
    def guard() -> Response | None:
        if request.path in {"/", "/versions"} or caller(keyring) is not None:
            return None
        page = html_page(401, "This server could not verify that you are authorized.")
        page.headers["WWW-Authenticate"] = f'Keystone uri="{site_url()}/identity"'
        return page

    @app.get("/")
    def root() -> tuple[dict[str, Any], int]:
        return _versions(), 300

    @app.get("/versions")
    def versions() -> dict[str, Any]:
        return _versions()

    @app.get("/v2/images")
    def listed() -> dict[str, Any]:
        query = request.query_string.decode()
        return {
            "images": [each for each in list(known.values()) if _matches(each, request.args.items())],
            "first": f"/v2/images?{query}" if query else "/v2/images",
            "schema": "/v2/schemas/images",
        }

    @app.get("/v2/images/<requested_id>")
    def show(requested_id: str) -> dict[str, Any] | Response:
        if requested_id in known:
            return known[requested_id]
        return html_page(404, f"No image found with ID {requested_id}")

    @app.get("/v2/schemas/image")
    def schema() -> dict[str, Any]:
        """What Nova's own client of Glance reads before anything else."""
        return {
            "name": "image",
            "properties": {key: {"type": _TYPES[type(value)]} for key, value in image.items()},
            "additionalProperties": {"type": "string"},
        }

    return app


def _matches(image: dict[str, Any], filters: Iterable[tuple[str, str]]) -> bool:
    """Filters of the list: equal, or one of `in:a,b`; what the image does not have is no filter."""
    for key, value in filters:
        choices = value.removeprefix("in:").split(",") if value.startswith("in:") else [value]
        if key in image and str(image[key]) not in choices:
            return False
    return True


def _versions() -> dict[str, Any]:
    href = f"{request.root_url.rstrip('/')}/v2/"
    return {
        "versions": [
            {
                "id": f"v2.{minor}",
                "status": "CURRENT" if minor == _CURRENT else "SUPPORTED",
                "links": [{"rel": "self", "href": href}],
            }
            for minor in _VERSIONS
        ]
    }


def html_page(code: int, text: str) -> Response:
    title = f"{code} {HTTPStatus(code).phrase}"
    html = f"<html>\n <head>\n  <title>{title}</title>\n </head>\n <body>\n  {text}\n </body>\n</html>"
    return Response(html, status=code, content_type="text/html; charset=UTF-8")


def _image(name: str) -> dict[str, Any]:
    identifier = image_id(name)
    return {
        "owner_specified.openstack.md5": "", "owner_specified.openstack.sha256": "",
        "owner_specified.openstack.object": f"images/{name}", "name": name, "disk_format": "raw",
        "container_format": "bare", "visibility": "public", "size": 1024, "virtual_size": 1024,
        "status": "active", "checksum": stable_id("checksum", name), "protected": False, "min_ram": 0,
        "min_disk": 0, "owner": stable_id("project", "admin"), "os_hidden": False, "os_hash_algo": "sha512",
        "os_hash_value": stable_id("hash", name) * 4, "id": identifier, "created_at": _FIXED_DATE,
        "updated_at": _FIXED_DATE, "tags": [], "self": f"/v2/images/{identifier}",
        "file": f"/v2/images/{identifier}/file", "schema": "/v2/schemas/image", "stores": "local",
    }  # fmt: skip


def _shown(error: ApiError) -> Response:
    return json_answer({"error": {"code": error.code, "message": error.message}}, error.code)


_NETWORK_QUOTA = (
    "network", "port", "security_group", "security_group_rule", "floatingip", "subnet", "router", "rbac_policy",
    "subnetpool",
)  # fmt: skip


_EXTENSIONS = ("binding", "security-group", "quotas")
"""What Nova looks for."""


def network_app(keyring: Keyring) -> Flask:
    """No list has an element, so that clients that look for some find none."""
    app = service("network", _shown)

    @app.before_request
    def guard() -> tuple[dict[str, object], int, dict[str, str]] | None:
        is_free = request.path.rstrip("/") in {"", "/v2.0"}
        return None if is_free or caller(keyring) is not None else unauthorized()

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
        return ({"extension": _extension(alias)}, 200) if alias in _EXTENSIONS else (_missing(), 404)

    @app.get("/v2.0/quotas/<project_id>")
    def quotas(project_id: str) -> dict[str, Any]:  # noqa: ARG001 - the same for every project
        return {"quota": dict.fromkeys(_NETWORK_QUOTA, -1)}

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
