"""Nova: microversions, and servers as users create, look at, change and delete them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand import server_view
from emulator.live.ondemand.cloud import made_password
from emulator.live.ondemand.compute_site import Quotas, add_flavor, add_site
from emulator.live.ondemand.fixed_services import image_id
from emulator.live.ondemand.http import (
    ApiError,
    absent,
    body_part,
    caller,
    json_answer,
    page_of,
    service,
    site_url,
    unauthorized,
    wrong_value,
)
from emulator.live.ondemand.server_view import requested_servers
from emulator.live.ondemand.servers import ServerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import OndemandConfig
    from emulator.live.ondemand.http import Account, Keyring
    from emulator.live.ondemand.servers import Server
    from emulator.live.ondemand.site import Site

_ZONE = "nova"
METADATA_ITEMS = 128
_LONGEST = 255
_METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")
_NETWORKS_SINCE = (2, 37)
"""From here on a create has to say something about networks, and may say it in a word."""


def is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def is_name(value: object) -> bool:
    """Whether a server may be called so."""
    return is_text(value) and bool(str(value).strip())


def is_metadata(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and _METADATA_KEY.fullmatch(key) and is_text(text) for key, text in value.items()
    )


def _is_flag(value: object) -> bool:
    return str(value).lower() in {"true", "1", "false", "0", "yes", "no", "on", "off"}


def _is_count(value: object) -> bool:
    return str(value).isdecimal() and int(str(value)) > 0


def _anything(_: object) -> bool:
    return True


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": is_name,
    "imageRef": _anything,
    "flavorRef": _anything,
    "networks": _anything,
    "description": lambda value: value is None or is_text(value),
    "metadata": is_metadata,
    "availability_zone": lambda value: value is None or is_name(value),
    "min_count": _is_count,
    "max_count": _is_count,
    "return_reservation_id": _is_flag,
    "block_device_mapping_v2": _anything,
}
"""Field -> whether its value may be. Others are refused; those of `_anything` are looked at below."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A checked body of POST /servers."""

    body: dict[str, Any]
    count: int

    @property
    def return_reservation(self) -> bool:
        return str(self.body.get("return_reservation_id", "")).lower() in {"1", "true", "yes", "on"}

    def spec(self, account: Account) -> ServerSpec:
        body = self.body
        return ServerSpec(
            account=account,
            name=body["name"],
            count=self.count,
            image_id=body["imageRef"],
            with_address=body.get("networks") not in ("none", []),
            metadata=body.get("metadata") or {},
            description=body.get("description"),
            availability_zone=body.get("availability_zone"),
            flavor_id=_flavor_of(body),
        )


def read_create(document: object, version: tuple[int, int], config: OndemandConfig) -> CreateRequest:
    """Check the whole body before anything is made; raises ApiError."""
    whole = document if isinstance(document, dict) else {}
    body = whole.get("server")
    if not isinstance(body, dict):
        raise ApiError(400, "Invalid input for field/attribute server. 'server' is a required property")
    if len(whole) > 1:
        raise absent(f"{min(whole.keys() - {'server'})} of a create", 400)
    _check_fields(body, version)
    _check_disks(body)
    _check_references(body, config)
    least = int(body.get("min_count", 1))
    count = int(body.get("max_count", least))
    if least > count:
        raise ApiError(400, "min_count must be <= max_count")
    return CreateRequest(body, count)


def _check_fields(body: dict[str, Any], version: tuple[int, int]) -> None:
    for key in ("name", "flavorRef", *(("networks",) if version >= _NETWORKS_SINCE else ())):
        if key not in body:
            raise ApiError(400, f"Invalid input for field/attribute server. '{key}' is a required property")
    for key, value in body.items():
        if key not in _FIELDS:
            raise absent(f"field {key} of a create", 400)
        if not _FIELDS[key](value):
            raise wrong_value(key, value)
    if len(body.get("metadata") or {}) > METADATA_ITEMS:
        raise ApiError(403, f"Maximum number of metadata items exceeds {METADATA_ITEMS}")
    networks = body.get("networks", [])
    if isinstance(networks, str) and (version < _NETWORKS_SINCE or networks not in {"none", "auto"}):
        raise wrong_value("networks", networks)
    if networks not in ("none", "auto", []):
        raise absent(f"network for a server, and the create names {networks}", 400)


def _check_disks(body: dict[str, Any]) -> None:
    """The `openstack` command says here once more from which image the server starts; there are no other disks."""
    disks = body.get("block_device_mapping_v2", [])
    for disk in disks if isinstance(disks, list) else [None]:
        image = disk.get("uuid") if isinstance(disk, dict) and disk.get("source_type") == "image" else None
        if image is None or image != body.get("imageRef"):
            raise absent(f"disk for a server, and the create names {disks}", 400)


def _check_references(body: dict[str, Any], config: OndemandConfig) -> None:
    if not body.get("imageRef"):
        raise ApiError(400, "Missing imageRef attribute")
    if body["imageRef"] != image_id(config.image):
        raise ApiError(400, "Can not find requested image")
    if _flavor_of(body) != config.flavor.id:
        raise ApiError(400, f"Flavor {_flavor_of(body)} could not be found.")
    if body.get("availability_zone") not in {None, _ZONE}:
        raise ApiError(400, "The requested availability zone is not available")


def _flavor_of(body: dict[str, Any]) -> str:
    """Its identifier, which may come as a link."""
    return str(body["flavorRef"]).rstrip("/").rsplit("/", 1)[-1]


_CHANGES = {
    "os-stop": ("ACTIVE ERROR", "SHUTOFF"),
    "os-start": ("SHUTOFF", "ACTIVE"),
    "reboot": ("ACTIVE", "ACTIVE"),
    "pause": ("ACTIVE", "PAUSED"),
    "unpause": ("PAUSED", "ACTIVE"),
    "suspend": ("ACTIVE", "SUSPENDED"),
    "resume": ("SUSPENDED", "ACTIVE"),
    "rescue": ("ACTIVE SHUTOFF ERROR", "RESCUE"),
    "unrescue": ("RESCUE", "ACTIVE"),
}
"""Action -> from which statuses it leads, and to which, as the decorators of nova/compute/api.py have it."""
_HARD = ("ACTIVE SHUTOFF PAUSED SUSPENDED ERROR", "ACTIVE")
_MAY_CHANGE = frozenset({"ACTIVE", "PAUSED", "SUSPENDED", "SHUTOFF"})
"""Statuses in which metadata may change."""


def add_servers(app: Flask, site: Site, config: OndemandConfig, quotas: Quotas) -> None:
    """All routes of this module."""
    cloud = site.cloud

    def show(server: Server) -> dict[str, Any]:
        return server_view.detail(
            server,
            config.flavor,
            site=site_url(),
            version=g.version,
            admin=g.account.admin,
            now_us=cloud.clock.now_us(),
        )

    @app.post("/v2.1/servers")
    def create() -> tuple[dict[str, Any], int, dict[str, str]]:
        account: Account = g.account
        order = read_create(request.get_json(silent=True), g.version, config)
        quotas.check(cloud, account.project_id, order.count)
        reservation = cloud.create(order.spec(account), exclude=site.closed())
        if order.return_reservation:
            return {"reservation_id": reservation.id}, 202, {}
        body = server_view.created(reservation.servers[0], site_url())
        return {"server": body}, 202, {"Location": body["links"][0]["href"]}

    @app.get("/v2.1/servers", defaults={"whole": False})
    @app.get("/v2.1/servers/detail", defaults={"whole": True})
    def servers(*, whole: bool) -> dict[str, Any]:
        page = page_of(requested_servers(cloud), lambda server: server.id, "servers")
        shown = show if whole else lambda server: server_view.brief(server, site_url())
        return page | {"servers": [shown(server) for server in page["servers"]]}

    _add_one(app, cloud, show)
    _add_actions(app, cloud)
    _add_metadata(app, cloud)


def _add_one(app: Flask, cloud: Cloud, show: Callable[[Server], dict[str, Any]]) -> None:
    def one(server: Server) -> dict[str, Any]:
        """What a list leaves out, too."""
        return {"server": show(server) | ({"server_groups": []} if g.version >= (2, 71) else {})}

    @app.get("/v2.1/servers/<server_id>")
    def one_server(server_id: str) -> dict[str, Any]:
        return one(find_server(cloud, server_id))

    @app.put("/v2.1/servers/<server_id>")
    def update(server_id: str) -> dict[str, Any]:
        server = find_server(cloud, server_id)
        changes = body_part("server")
        if not isinstance(changes, dict) or not changes.keys() <= {"name", "description"}:
            raise absent(f"change {changes} of a server", 400)
        name, description = changes.get("name", server.name), changes.get("description", server.description)
        if not is_name(name):
            raise wrong_value("name", name)
        if description is not None and not is_text(description):
            raise wrong_value("description", description)
        server.name, server.description = name, description
        cloud.changed(server)
        return one(server)

    @app.delete("/v2.1/servers/<server_id>")
    def delete(server_id: str) -> Response:
        cloud.delete(find_server(cloud, server_id))
        return Response(status=204, content_type="application/json")


def find_server(cloud: Cloud, server_id: str) -> Server:
    """The server, if the caller may see it."""
    server = cloud.server(server_id)
    account: Account = g.account
    if server is None or not (account.admin or server.spec.account.project_id == account.project_id):
        raise ApiError(404, f"Instance {server_id} could not be found.")
    return server


def _check_status(server: Server, verb: str, allowed: Collection[str], now_us: int) -> None:
    status = server.status(now_us)
    if status not in allowed:
        state = server_view.VM_STATES[status]
        raise ApiError(409, f"Cannot '{verb}' instance {server.id} while it is in vm_state {state}")


def _add_actions(app: Flask, cloud: Cloud) -> None:
    """Its node stays a server's own whatever is made of it."""

    @app.post("/v2.1/servers/<server_id>/action")
    def act(server_id: str) -> Any:
        server = find_server(cloud, server_id)
        body = request.get_json(silent=True)
        if not isinstance(body, dict) or len(body) != 1:
            raise ApiError(400, "There is no such action. Malformed request body")
        (name, arguments), *_ = body.items()
        if name not in _CHANGES:
            raise absent(f"action {name} of a server")
        allowed, to = _CHANGES[name]
        if name == "reboot":
            kind = arguments.get("type") if isinstance(arguments, dict) else None
            if kind not in {"SOFT", "HARD"}:
                raise wrong_value(name, arguments)
            allowed, to = _HARD if kind == "HARD" else (allowed, to)
        elif arguments:
            raise absent(f"argument {arguments} of the action {name}", 400)
        has_run = server.launched_us is not None
        _check_status(
            server, name.removeprefix("os-"), allowed.split() if has_run else (), cloud.clock.now_us()
        )
        server.condition = "" if to == "ACTIVE" else to
        cloud.changed(server)
        if name == "rescue":
            return {"adminPass": made_password()}
        return Response(status=202, content_type="application/json")


def _add_metadata(app: Flask, cloud: Cloud) -> None:
    path = "/v2.1/servers/<server_id>/metadata"

    def change(server: Server, metadata: dict[str, str], verb: str) -> None:
        _check_status(server, f"{verb} metadata", _MAY_CHANGE, cloud.clock.now_us())
        if len(metadata) > METADATA_ITEMS:
            raise ApiError(403, f"Maximum number of metadata items exceeds {METADATA_ITEMS}")
        server.metadata = metadata
        cloud.changed(server)

    @app.get(path)
    def metadata(server_id: str) -> dict[str, Any]:
        return {"metadata": find_server(cloud, server_id).metadata}

    @app.post(path)
    def add(server_id: str) -> dict[str, Any]:
        values, server = body_part("metadata"), find_server(cloud, server_id)
        if not is_metadata(values):
            raise wrong_value("metadata", values)
        change(server, server.metadata | values, "update")
        return {"metadata": server.metadata}

    @app.delete(f"{path}/<key>")
    def remove(server_id: str, key: str) -> Response:
        server = find_server(cloud, server_id)
        if key not in server.metadata:
            raise ApiError(404, "Metadata item was not found")
        change(server, {name: text for name, text in server.metadata.items() if name != key}, "delete")
        return Response(status=204)


_MINIMUM, _MAXIMUM = (2, 1), (2, 104)
_VERSION = re.compile(r"(\d+)\.(\d+)")

_FAULTS = {
    400: "badRequest",
    403: "forbidden",
    404: "itemNotFound",
    406: "computeFault",
    409: "conflictingRequest",
    501: "notImplemented",
}


def compute_app(keyring: Keyring, site: Site, config: OndemandConfig) -> Flask:
    app = service("compute", _shown)

    @app.before_request
    def guard() -> tuple[dict[str, object], int, dict[str, str]] | None:
        g.version = _MINIMUM
        if request.path == "/":
            return None
        g.version = _requested_version()
        if request.path.rstrip("/") == "/v2.1":
            return None
        token = caller(keyring)
        if token is None:
            return unauthorized()
        g.account = token.account
        if not _MINIMUM <= g.version <= _MAXIMUM:
            raise ApiError(
                406,
                f"Version {_text(g.version)} is not supported by the API. "
                f"Minimum is {_text(_MINIMUM)} and maximum is {_text(_MAXIMUM)}.",
            )
        if not request.args.get("limit", "0").isdecimal():
            raise ApiError(400, "Invalid input for query parameters limit.")
        return None

    @app.after_request
    def show_version(response: Response) -> Response:
        response.headers["x-compute-request-id"] = g.request_id
        if request.path != "/" and response.status_code != 401:  # noqa: PLR2004
            response.headers["OpenStack-API-Version"] = f"compute {_text(g.version)}"
            response.headers["X-OpenStack-Nova-API-Version"] = _text(g.version)
            response.headers["Vary"] = "OpenStack-API-Version, X-OpenStack-Nova-API-Version"
        return response

    _add_versions(app)
    quotas = Quotas(config)
    add_servers(app, site, config, quotas)
    add_flavor(app, config.flavor)
    add_site(app, site, config, quotas)
    return app


def _shown(error: ApiError) -> Response:
    response = json_answer({_FAULTS[error.code]: {"code": error.code, "message": error.message}}, error.code)
    response.content_type = "application/json; charset=UTF-8"
    return response


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _requested_version() -> tuple[int, int]:
    text = request.headers.get("OpenStack-API-Version", "").removeprefix("compute ").strip()
    text = text or request.headers.get("X-OpenStack-Nova-API-Version", "").strip()
    if not text:
        return _MINIMUM
    if text == "latest":
        return _MAXIMUM
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ApiError(
            400, f"API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    return int(match[1]), int(match[2])


def _add_versions(app: Flask) -> None:
    def about(link: str) -> dict[str, Any]:
        return {
            "id": "v2.1", "status": "CURRENT", "version": _text(_MAXIMUM), "min_version": _text(_MINIMUM),
            "updated": "2013-07-23T11:33:21Z", "links": [{"rel": "self", "href": link}],
        }  # fmt: skip

    @app.get("/")
    def versions() -> dict[str, Any]:
        return {"versions": [about(f"{request.root_url.rstrip('/')}/v2.1/")]}

    @app.get("/v2.1")
    def version() -> dict[str, Any]:
        found = about(f"{request.root_url.rstrip('/')}/v2.1/")
        found["links"].append(
            {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"}
        )
        kind = "application/vnd.openstack.compute+json;version=2.1"
        return {"version": found | {"media-types": [{"base": "application/json", "type": kind}]}}
