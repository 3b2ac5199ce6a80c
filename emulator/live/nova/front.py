"""`python -m emulator.live.nova.front --config FILE`: Keystone, Glance and an empty Neutron around a real Nova.

Keystone and Neutron are the small manager's; Glance keeps what is uploaded. Nova and Placement are passed through,
under the same port, from where `urls.json` says.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import click
from flask import Flask, Response, request, send_file
from pydantic import Field
from werkzeug.exceptions import BadGateway, NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.http_proxy import ProxyMiddleware
from werkzeug.serving import WSGIRequestHandler, make_server

from balancer.clock import wall_us
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.fixed_services import html_page, image_app, image_id, network_app
from emulator.live.ondemand.http import ApiError, Keyring, caller, iso_z
from emulator.live.ondemand.identity import identity_app
from emulator.live.process import stop_on_signal, write_ready
from emulator.live.settings import NodeNames, Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.live.ondemand.http import Account

_CHUNK = 1 << 20
_KEPT = frozenset(
    {"id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at", "updated_at",
     "self", "file", "schema", "owner", "stores"}
)  # fmt: skip
"""What only Glance itself changes."""


_MEMBER = ("member_id", "image_id", "status", "created_at", "updated_at", "schema")


class _RefusedError(ApiError):
    """Shown as Glance shows it."""


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
            raise _RefusedError(400, "The body must be a JSON object.")
        for key in body.keys() & (_KEPT - {"id"}):
            raise _RefusedError(403, f"Attribute {key!r} is read-only.")
        identifier = str(body.get("id") or uuid.uuid4())
        if not _is_identifier(identifier):
            raise _RefusedError(400, "Invalid image id format")
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
                raise _RefusedError(409, f"Image ID {identifier} already exists!")
            self.images[identifier] = image
        return image

    def update(self, requested_id: str, changes: object) -> dict[str, Any]:
        """`changes`: a JSON patch of single members, as Glance takes it."""
        with self._lock:
            image = self._own(requested_id)
            if not isinstance(changes, list):
                raise _RefusedError(400, "Request body must be a JSON array of operation objects.")
            changed = dict(image)
            for change in changes:
                _apply(changed, change)
            self.images[requested_id] = changed | {"updated_at": iso_z(wall_us())}
            return self.images[requested_id]

    def upload(self, requested_id: str) -> None:
        with self._lock:
            image = self._own(requested_id)
            if image["status"] != "queued":
                raise _RefusedError(
                    409, f"Image status transition from {image['status']} to saving is not allowed"
                )
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
                raise _RefusedError(410, f"Image {requested_id} was deleted during its upload")
            self.images[requested_id] |= {
                "status": "active", "size": size, "virtual_size": size, "checksum": md5.hexdigest(),
                "os_hash_algo": "sha512", "os_hash_value": sha512.hexdigest(), "updated_at": iso_z(wall_us()),
                "stores": "local",
            }  # fmt: skip

    def share(self, requested_id: str, body: object) -> dict[str, Any]:
        """With another project: Nova does so when an administrator shelves a user's server."""
        member = body.get("member") if isinstance(body, dict) else None
        if not isinstance(member, str) or not member:
            raise _RefusedError(400, "The body must name a member.")
        with self._lock:
            self._own(requested_id)
        now = iso_z(wall_us())
        return dict(
            zip(_MEMBER, (member, requested_id, "pending", now, now, "/v2/schemas/member"), strict=True)
        )

    def delete(self, requested_id: str) -> None:
        with self._lock:
            image = self._own(requested_id)
            if image["protected"]:
                raise _RefusedError(403, f"Image {requested_id} is protected and cannot be deleted.")
            del self.images[requested_id]
            if image["status"] != "saving":
                self.path(requested_id).unlink(missing_ok=True)

    def _own(self, requested_id: str) -> dict[str, Any]:
        """The image, if whoever asks may change it."""
        if requested_id not in self.images:
            raise _RefusedError(404, f"Failed to find image {requested_id}")
        image, account = self.images[requested_id], self._account()
        if requested_id == self._fixed or not (account.admin or image["owner"] == account.project_id):
            raise _RefusedError(403, f"You are not permitted to change image {requested_id}.")
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
        raise _RefusedError(400, f"Operation objects like this are not taken: {json.dumps(change)}")
    if key in _KEPT:
        raise _RefusedError(403, f"Attribute {key!r} is read-only.")
    if verb != "add" and key not in image:
        raise _RefusedError(409, f"Property {key} does not exist.")
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
        return html_page(error.code, error.message)

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
            return html_page(404, f"No image found with ID {requested_id}")
        path = store.path(requested_id)
        if image["status"] != "active" or not path.exists():
            return "", 204
        return send_file(path, mimetype="application/octet-stream")

    return app


PASSED = ("compute", "placement")
_TIMEOUT_S = 120


class FrontConfig(Settings):
    """`hosts`: names of the nodes. `urls`: the file in which Nova's process says where it listens.

    What is uploaded of images goes into the folder `images` beside it.
    """

    listen: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65_535)
    ready_file: Path | None = None
    hosts: NodeNames = Field(min_length=1)
    urls: Path
    token_lifetime_s: float = Field(86_400.0, gt=0)


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Nova keeps a log of its own requests."""


class Front:
    """Listens as soon as it is made; answers between `serve` and `stop`."""

    def __init__(self, config: FrontConfig) -> None:
        identity_config = OndemandConfig.model_validate(
            {"pool": config.hosts, "token_lifetime_s": config.token_lifetime_s}
        )
        keyring = Keyring.of(identity_config)
        mounts: dict[str, Any] = {
            "/identity": identity_app(keyring, identity_config.region),
            "/image": image_store(keyring, identity_config.image, config.urls.with_name("images")),
            "/network": network_app(keyring),
        }
        self._urls = config.urls
        self._fixed = DispatcherMiddleware(NotFound(), mounts)
        self._server = make_server(
            config.listen, config.port, self._answer, threaded=True, request_handler=_Quiet
        )
        self.url = f"http://{config.listen}:{self._server.server_port}"

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._server.shutdown()

    def close(self) -> None:
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        service = environ["PATH_INFO"].split("/", 2)[1]
        if service not in PASSED:
            return self._fixed(environ, start_response)
        try:
            target = json.loads(self._urls.read_text(encoding="utf-8"))[service]
        except (OSError, ValueError, KeyError):
            return BadGateway(f"{service} does not listen")(environ, start_response)
        if environ["PATH_INFO"] == f"/{service}":
            environ["PATH_INFO"] += "/"
        options = {"target": target, "remove_prefix": True, "host": None}
        passed = ProxyMiddleware(self._fixed, {f"/{service}": options}, timeout=_TIMEOUT_S)
        return passed(environ, start_response)


@click.command()
@click.option("--config", "config_file", required=True, type=click.Path(path_type=Path), help="YAML or JSON.")
def main(config_file: Path) -> None:
    """Serve what a real Nova needs around it, and Nova itself, until SIGTERM."""
    try:
        config = load_settings(config_file, FrontConfig)
        front = Front(config)
    except (SettingsError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error
    stop_on_signal(front.stop)
    write_ready(config.ready_file, url=front.url)
    front.serve()
    front.close()


if __name__ == "__main__":
    main()
