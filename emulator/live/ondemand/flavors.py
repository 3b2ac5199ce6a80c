"""Flavors: the site's own, all of a node, and those that administrators make. Each server has a node to itself."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, g, request

from emulator.live.ondemand import server_view
from emulator.live.ondemand.compute_checks import (
    after_marker,
    mapping_of,
    only_admin,
    wrong_value,
)
from emulator.live.ondemand.config import Flavor
from emulator.live.ondemand.create_rules import is_named
from emulator.live.ondemand.http import ApiError, site_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from emulator.live.ondemand.auth import Account


_NUMBERS = {"ram": 1, "vcpus": 1, "disk": 0, "swap": 0, "OS-FLV-EXT-DATA:ephemeral": 0}
"""Field of a create -> its least value."""
_FIELDS = {*_NUMBERS, "name", "id", "description", "rxtx_factor", "os-flavor-access:is_public"}


@dataclass(frozen=True, slots=True)
class KnownFlavor:
    """A flavor with what only Nova's API needs of it. `projects`: those that may use one that is not public."""

    flavor: Flavor
    swap_mb: int = 0
    ephemeral_gb: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    description: str | None = None
    specs: dict[str, str] = field(default_factory=dict)
    projects: frozenset[str] = frozenset()

    def is_for(self, account: Account) -> bool:
        return self.is_public or account.admin or account.project_id in self.projects


class Flavors:
    """In the order in which they were made. What is deleted is remembered for the servers that have it."""

    def __init__(self, default: Flavor) -> None:
        self._lock = Lock()
        self._known = {default.id: KnownFlavor(default)}
        self._past: dict[str, Flavor] = {}
        self._default = default

    def all(self, account: Account) -> list[KnownFlavor]:
        with self._lock:
            return [each for each in self._known.values() if each.is_for(account)]

    def get(self, flavor_id: str, account: Account) -> KnownFlavor | None:
        found = self._known.get(flavor_id)
        return found if found is not None and found.is_for(account) else None

    def of(self, flavor_id: str) -> Flavor:
        """Of a server; the site's own where nothing else is known."""
        known = self._known.get(flavor_id)
        return known.flavor if known is not None else self._past.get(flavor_id, self._default)

    def add(self, made: KnownFlavor) -> bool:
        """False: there is one of that name or identifier."""
        with self._lock:
            used = {each.flavor.name for each in self._known.values()} | self._known.keys()
            if {made.flavor.name, made.flavor.id} & used:
                return False
            self._known[made.flavor.id] = made
            return True

    def change(self, known: KnownFlavor, **what: Any) -> KnownFlavor:
        with self._lock:
            changed = self._known[known.flavor.id] = replace(known, **what)
        return changed

    def remove(self, flavor_id: str) -> None:
        with self._lock:
            self._past[flavor_id] = self._known.pop(flavor_id).flavor


def add_flavors(app: Flask, flavors: Flavors) -> None:
    """Routes of flavors, their extra specs and who may use them."""
    routes = Blueprint("flavors", __name__)

    def find(flavor_id: str) -> KnownFlavor:
        known = flavors.get(flavor_id, g.account)
        if known is None:
            raise ApiError(404, f"Flavor {flavor_id} could not be found.")
        return known

    @routes.get("/v2.1/flavors")
    def listed() -> dict[str, Any]:
        return {"flavors": [_body(each, whole=False) for each in _page(flavors)]}

    @routes.get("/v2.1/flavors/detail")
    def detailed() -> dict[str, Any]:
        return {"flavors": [_body(each, whole=True) for each in _page(flavors)]}

    @routes.get("/v2.1/flavors/<flavor_id>")
    def show(flavor_id: str) -> dict[str, Any]:
        return {"flavor": _body(find(flavor_id), whole=True)}

    @routes.post("/v2.1/flavors")
    def create() -> dict[str, Any]:
        only_admin("os-flavor-manage:create")
        made = _read()
        if not flavors.add(made):
            raise ApiError(409, f"Flavor with name {made.flavor.name} already exists.")
        return {"flavor": _body(made, whole=True)}

    @routes.put("/v2.1/flavors/<flavor_id>")
    def update(flavor_id: str) -> dict[str, Any]:
        only_admin("os-flavor-manage:update")
        body = mapping_of("flavor")
        if body.keys() != {"description"}:
            raise wrong_value("flavor", body)
        changed = flavors.change(find(flavor_id), description=body["description"])
        return {"flavor": _body(changed, whole=True)}

    @routes.delete("/v2.1/flavors/<flavor_id>")
    def delete(flavor_id: str) -> Response:
        only_admin("os-flavor-manage:delete")
        flavors.remove(find(flavor_id).flavor.id)
        return Response(status=202, content_type="application/json")

    _add_specs(routes, flavors, find)
    _add_access(routes, flavors, find)
    app.register_blueprint(routes)


def _add_specs(routes: Blueprint, flavors: Flavors, find: Callable[[str], KnownFlavor]) -> None:
    path = "/v2.1/flavors/<flavor_id>/os-extra_specs"

    @routes.get(path)
    def specs(flavor_id: str) -> dict[str, Any]:
        return {"extra_specs": find(flavor_id).specs}

    @routes.get(f"{path}/<key>")
    def spec(flavor_id: str, key: str) -> dict[str, Any]:
        known = find(flavor_id).specs
        if key not in known:
            raise ApiError(404, f"Flavor {flavor_id} has no extra specs with key {key}.")
        return {key: known[key]}

    @routes.post(path)
    def add_specs(flavor_id: str) -> dict[str, Any]:
        only_admin("os-flavor-extra-specs:create")
        known = find(flavor_id)
        added = _texts(mapping_of("extra_specs"))
        flavors.change(known, specs=known.specs | added)
        return {"extra_specs": added}

    @routes.put(f"{path}/<key>")
    def set_spec(flavor_id: str, key: str) -> dict[str, Any]:
        only_admin("os-flavor-extra-specs:update")
        known, body = find(flavor_id), request.get_json(silent=True)
        if not isinstance(body, dict) or body.keys() != {key}:
            raise ApiError(400, "Request body contains too many items")
        flavors.change(known, specs=known.specs | _texts(body))
        return body

    @routes.delete(f"{path}/<key>")
    def remove_spec(flavor_id: str, key: str) -> Response:
        only_admin("os-flavor-extra-specs:delete")
        known = find(flavor_id)
        if key not in known.specs:
            raise ApiError(404, f"Flavor {flavor_id} has no extra specs with key {key}.")
        flavors.change(known, specs={name: text for name, text in known.specs.items() if name != key})
        return Response(status=200, content_type="application/json")


def _add_access(routes: Blueprint, flavors: Flavors, find: Callable[[str], KnownFlavor]) -> None:
    def shown(known: KnownFlavor) -> dict[str, Any]:
        rows = [{"flavor_id": known.flavor.id, "tenant_id": each} for each in sorted(known.projects)]
        return {"flavor_access": rows}

    @routes.get("/v2.1/flavors/<flavor_id>/os-flavor-access")
    def access(flavor_id: str) -> dict[str, Any]:
        only_admin("os-flavor-access")
        known = find(flavor_id)
        if known.is_public:
            raise ApiError(404, "Access list not available for public flavors.")
        return shown(known)

    @routes.post("/v2.1/flavors/<flavor_id>/action")
    def change_access(flavor_id: str) -> dict[str, Any]:
        only_admin("os-flavor-access:add_tenant_access")
        known, body = find(flavor_id), request.get_json(silent=True)
        match body:
            case {"addTenantAccess": {"tenant": str(project)}}:
                if known.is_public:
                    raise ApiError(409, "Can not add access to a public flavor.")
                return shown(flavors.change(known, projects=known.projects | {project}))
            case {"removeTenantAccess": {"tenant": str(project)}}:
                if project not in known.projects:
                    text = f"Flavor access not found for {flavor_id} / {project} combination."
                    raise ApiError(404, text)
                return shown(flavors.change(known, projects=known.projects - {project}))
            case _:
                raise ApiError(400, f"There is no such action: {body}.")


def _texts(specs: Mapping[str, Any]) -> dict[str, str]:
    if not specs or not all(isinstance(value, str | int | float) for value in specs.values()):
        raise wrong_value("extra_specs", dict(specs))
    return {key: str(value) for key, value in specs.items()}


def _page(flavors: Flavors) -> list[KnownFlavor]:
    """What the query asks for. Administrators see private ones if they say so (`is_public=None`), as in Nova."""
    found, args = flavors.all(g.account), request.args
    is_public = args.get("is_public", "true").lower()
    if not g.account.admin or is_public in {"true", "1"}:
        found = [each for each in found if each.is_public or g.account.project_id in each.projects]
    elif is_public in {"false", "0"}:
        found = [each for each in found if not each.is_public]
    for name, value in (("minRam", "ram_mb"), ("minDisk", "disk_gb")):
        if not args.get(name, "0").isdecimal():
            raise ApiError(400, f"Invalid {name} filter [{args[name]}]")
        found = [each for each in found if getattr(each.flavor, value) >= int(args.get(name, "0"))]
    return after_marker(found, lambda each: each.flavor.id)[: int(args.get("limit", "1000"))]


def _read() -> KnownFlavor:
    body = mapping_of("flavor")
    if not body:
        raise wrong_value("flavor", body)

    def wrong(name: str) -> ApiError:
        return wrong_value(name, body.get(name))

    for name in (*body, "name", "ram", "vcpus", "disk"):
        if name not in _FIELDS or name not in body:
            raise wrong(name)
    if not is_named(body["name"]):
        raise wrong("name")
    numbers = {}
    for name, least in _NUMBERS.items():
        try:
            numbers[name] = int(body.get(name) or 0)
        except (TypeError, ValueError) as fault:
            raise wrong(name) from fault
        if numbers[name] < least:
            raise wrong(name)
    key = body.get("id")
    flavor_id = str(uuid.uuid4()) if key in {None, "auto"} else str(key)
    flavor = Flavor(
        id=flavor_id,
        name=body["name"],
        vcpus=numbers["vcpus"],
        ram_mb=numbers["ram"],
        disk_gb=numbers["disk"],
    )
    return KnownFlavor(
        flavor,
        swap_mb=numbers["swap"],
        ephemeral_gb=numbers["OS-FLV-EXT-DATA:ephemeral"],
        rxtx_factor=float(body.get("rxtx_factor") or 1.0),
        is_public=str(body.get("os-flavor-access:is_public", True)).lower() in {"true", "1"},
        description=body.get("description"),
    )


def _body(known: KnownFlavor, *, whole: bool) -> dict[str, Any]:
    flavor = known.flavor
    part: dict[str, Any] = {
        "id": flavor.id,
        "name": flavor.name,
        "links": server_view.links(site_url(), "flavors", flavor.id),
    }
    if g.version >= (2, 55):
        part["description"] = known.description
    if not whole:
        return part
    part |= {
        "ram": flavor.ram_mb,
        "disk": flavor.disk_gb,
        "swap": known.swap_mb or ("" if g.version < (2, 75) else 0),
        "OS-FLV-EXT-DATA:ephemeral": known.ephemeral_gb,
        "OS-FLV-DISABLED:disabled": False,
        "vcpus": flavor.vcpus,
        "os-flavor-access:is_public": known.is_public,
        "rxtx_factor": known.rxtx_factor,
    }
    if g.version >= (2, 61):
        part["extra_specs"] = known.specs
    return part
