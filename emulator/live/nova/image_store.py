"""Glance as Nova needs it for snapshots: images are made, uploaded, changed and deleted. Shelving makes one, too."""

from __future__ import annotations

import hashlib
import json
import uuid
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, request, send_file

from balancer.clock import wall_us
from emulator.live.ondemand.fixed_services import html_page, image_app, image_id
from emulator.live.ondemand.http import caller, iso_z

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.live.ondemand.auth import Account, Keyring

_CHUNK = 1 << 20
_KEPT = frozenset(
    {"id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at", "updated_at",
     "self", "file", "schema", "owner", "stores"}
)  # fmt: skip
"""What only Glance itself changes."""


_MEMBER = ("member_id", "image_id", "status", "created_at", "updated_at", "schema")


class _RefusedError(Exception):
    """An answer that is an error, as Glance shows it."""

    def __init__(self, code: int, title: str, text: str) -> None:
        super().__init__(text)
        self.code, self.title, self.text = code, title, text


class _Store:
    """Images by id, of which only the one that is there from the beginning cannot be changed. Everybody sees all.

    For many threads.
    """

    def __init__(self, keyring: Keyring, name: str, folder: Path) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self._keyring, self._folder, self._fixed = keyring, folder, image_id(name)
        self._lock = Lock()

    def path(self, requested_id: str) -> Path:
        return self._folder / requested_id

    def create(self, body: object) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise _RefusedError(400, "Bad Request", "The body must be a JSON object.")
        for key in body.keys() & (_KEPT - {"id"}):
            raise _RefusedError(403, "Forbidden", f"Attribute {key!r} is read-only.")
        identifier = str(body.get("id") or uuid.uuid4())
        if not _is_identifier(identifier):
            raise _RefusedError(400, "Bad Request", "Invalid image id format")
        now = iso_z(wall_us())
        image = {
            "name": None, "disk_format": None, "container_format": None, "visibility": "shared", "protected": False,
            "min_ram": 0, "min_disk": 0, "os_hidden": False, "tags": [], **body, "id": identifier, "size": None,
            "virtual_size": None, "status": "queued", "checksum": None, "os_hash_algo": None, "os_hash_value": None,
            "owner": self._account().project_id, "created_at": now, "updated_at": now,
            "self": f"/v2/images/{identifier}", "file": f"/v2/images/{identifier}/file", "schema": "/v2/schemas/image",
        }  # fmt: skip
        with self._lock:
            if identifier in self.images:
                raise _RefusedError(409, "Conflict", f"Image ID {identifier} already exists!")
            self.images[identifier] = image
        return image

    def update(self, requested_id: str, changes: object) -> dict[str, Any]:
        """`changes`: a JSON patch of single members, as Glance takes it."""
        with self._lock:
            image = self._own(requested_id)
            if not isinstance(changes, list):
                raise _RefusedError(
                    400, "Bad Request", "Request body must be a JSON array of operation objects."
                )
            changed = dict(image)
            for change in changes:
                _apply(changed, change)
            self.images[requested_id] = changed | {"updated_at": iso_z(wall_us())}
            return self.images[requested_id]

    def upload(self, requested_id: str) -> None:
        with self._lock:
            image = self._own(requested_id)
            if image["status"] != "queued":
                text = f"Image status transition from {image['status']} to saving is not allowed"
                raise _RefusedError(409, "Conflict", text)
            self.images[requested_id] = image | {"status": "saving"}
        self._folder.mkdir(exist_ok=True)
        size, md5, sha512 = 0, hashlib.md5(usedforsecurity=False), hashlib.sha512()
        with self.path(requested_id).open("wb") as file:
            while chunk := request.stream.read(_CHUNK):
                size += file.write(chunk)
                md5.update(chunk)
                sha512.update(chunk)
        with self._lock:
            if requested_id not in self.images:
                self.path(requested_id).unlink()
                raise _RefusedError(410, "Gone", f"Image {requested_id} was deleted during its upload")
            self.images[requested_id] |= {
                "status": "active", "size": size, "virtual_size": size, "checksum": md5.hexdigest(),
                "os_hash_algo": "sha512", "os_hash_value": sha512.hexdigest(), "updated_at": iso_z(wall_us()),
                "stores": "local",
            }  # fmt: skip

    def share(self, requested_id: str, body: object) -> dict[str, Any]:
        """With another project: Nova does so when an administrator shelves a user's server."""
        member = body.get("member") if isinstance(body, dict) else None
        if not isinstance(member, str) or not member:
            raise _RefusedError(400, "Bad Request", "The body must name a member.")
        with self._lock:
            self._own(requested_id)
        now = iso_z(wall_us())
        return dict(zip(_MEMBER, (member, requested_id, "pending", now, now, "/v2/schemas/member"), strict=True))

    def delete(self, requested_id: str) -> None:
        with self._lock:
            image = self._own(requested_id)
            if image["protected"]:
                text = f"Image {requested_id} is protected and cannot be deleted."
                raise _RefusedError(403, "Forbidden", text)
            del self.images[requested_id]
            if image["status"] != "saving":
                self.path(requested_id).unlink(missing_ok=True)

    def _own(self, requested_id: str) -> dict[str, Any]:
        """The image, if whoever asks may change it."""
        if requested_id not in self.images:
            raise _RefusedError(404, "Not Found", f"Failed to find image {requested_id}")
        image, account = self.images[requested_id], self._account()
        if requested_id == self._fixed or not (account.admin or image["owner"] == account.project_id):
            raise _RefusedError(403, "Forbidden", f"You are not permitted to change image {requested_id}.")
        return image

    def _account(self) -> Account:
        token = caller(self._keyring)
        assert token is not None  # noqa: S101 - the guard of image_app lets nobody else in
        return token.account


def _is_identifier(text: str) -> bool:
    """It names a file, too."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _apply(image: dict[str, Any], change: object) -> None:
    change = change if isinstance(change, dict) else {}
    verb, key = change.get("op"), str(change.get("path", "")).removeprefix("/")
    if verb not in {"add", "replace", "remove"} or not key or "/" in key:
        raise _RefusedError(
            400, "Bad Request", f"Operation objects like this are not taken: {json.dumps(change)}"
        )
    if key in _KEPT:
        raise _RefusedError(403, "Forbidden", f"Attribute {key!r} is read-only.")
    if verb != "add" and key not in image:
        raise _RefusedError(409, "Conflict", f"Property {key} does not exist.")
    if verb == "remove":
        del image[key]
    else:
        image[key] = change.get("value")


def image_store(keyring: Keyring, name: str, folder: Path) -> Flask:
    """The image called `name` and all that are made; `folder` is for what is uploaded."""
    store = _Store(keyring, name, folder)
    app = image_app(keyring, name, store.images)

    @app.errorhandler(_RefusedError)
    def refused(error: _RefusedError) -> Response:
        return html_page(error.code, error.title, error.text)

    @app.post("/v2/images")
    def create() -> tuple[dict[str, Any], int]:
        return store.create(request.get_json(silent=True)), 201

    @app.patch("/v2/images/<requested_id>")
    def update(requested_id: str) -> dict[str, Any]:
        return store.update(requested_id, request.get_json(force=True, silent=True))

    @app.delete("/v2/images/<requested_id>")
    def delete(requested_id: str) -> tuple[str, int]:
        store.delete(requested_id)
        return "", 204

    @app.post("/v2/images/<requested_id>/members")
    def share(requested_id: str) -> dict[str, Any]:
        return store.share(requested_id, request.get_json(silent=True))

    @app.get("/v2/schemas/member")
    def member_schema() -> dict[str, Any]:
        return {"name": "member", "properties": {name: {"type": "string"} for name in _MEMBER}}

    @app.put("/v2/images/<requested_id>/file")
    def upload(requested_id: str) -> tuple[str, int]:
        store.upload(requested_id)
        return "", 204

    @app.get("/v2/images/<requested_id>/file")
    def download(requested_id: str) -> Any:
        image = store.images.get(requested_id)
        if image is None:
            return html_page(404, "Not Found", f"No image found with ID {requested_id}")
        path = store.path(requested_id)
        if image["status"] != "active" or not path.exists():
            return "", 204
        return send_file(path, mimetype="application/octet-stream")

    return app
