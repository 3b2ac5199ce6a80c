"""Host aggregates: kept and shown. Which node a server gets the source decides."""

from __future__ import annotations

import uuid
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, g, request

from emulator.live.ondemand.create_rules import is_named, is_uuid
from emulator.live.ondemand.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.site import Site

    Error = Callable[[int, str], Exception]


def add_aggregates(app: Flask, site: Site, error: Error) -> None:
    """Routes of /os-aggregates, for administrators only."""
    routes, known = Blueprint("aggregates", __name__), dict[int, dict[str, Any]]()
    _add_creation(routes, known, site, error)
    _add_changes(routes, known, site, error)
    _add_images(routes, known, error)
    app.register_blueprint(routes)


def _add_changes(routes: Blueprint, known: dict[int, dict[str, Any]], site: Site, error: Error) -> None:
    def find(aggregate_id: int, policy: str) -> dict[str, Any]:
        _only_admin(policy, error)
        if aggregate_id not in known:
            raise error(404, f"Aggregate {aggregate_id} could not be found.")
        return known[aggregate_id]

    @routes.get("/v2.1/os-aggregates/<int:aggregate_id>")
    def show(aggregate_id: int) -> dict[str, Any]:
        return {"aggregate": _body(find(aggregate_id, "show"))}

    @routes.put("/v2.1/os-aggregates/<int:aggregate_id>")
    def update(aggregate_id: int) -> dict[str, Any]:
        found, changes = find(aggregate_id, "update"), _part("aggregate", error)
        found["name"] = changes.get("name", found["name"])
        _set_zone(found, changes)
        return {"aggregate": _body(found)}

    @routes.delete("/v2.1/os-aggregates/<int:aggregate_id>")
    def delete(aggregate_id: int) -> Response:
        if find(aggregate_id, "delete")["hosts"]:
            raise error(409, f"Cannot remove aggregate {aggregate_id}: it has hosts.")
        del known[aggregate_id]
        return Response(status=200, content_type="application/json")

    @routes.post("/v2.1/os-aggregates/<int:aggregate_id>/action")
    def act(aggregate_id: int) -> dict[str, Any]:
        found, body = find(aggregate_id, "action"), request.get_json(silent=True)
        _act(found, body, site, error)
        return {"aggregate": _body(found)}


def _add_images(routes: Blueprint, known: dict[int, dict[str, Any]], error: Error) -> None:
    @routes.post("/v2.1/os-aggregates/<int:aggregate_id>/images")
    def cache(aggregate_id: int) -> Response:
        """Hosts fetch images beforehand: nothing takes time here, so there is nothing to fetch."""
        if g.version < (2, 81):
            raise error(404, "The resource could not be found.")
        if not g.account.admin:
            raise error(403, "Policy doesn't allow compute:aggregates:images to be performed.")
        body = request.get_json(silent=True)
        images = body.get("cache") if isinstance(body, dict) else None
        if not isinstance(images, list) or not images or not all(isinstance(each, dict) for each in images):
            raise error(400, f"Invalid input for field/attribute cache. Value: {images}.")
        names = [each.get("id") for each in images]
        if not all(is_uuid(name) for name in names):
            raise error(400, f"Invalid input for field/attribute id. Value: {names}.")
        if len(set(names)) < len(names):
            raise error(400, "Duplicate images in request")
        if aggregate_id not in known:
            raise error(404, f"Aggregate {aggregate_id} could not be found.")
        return Response(status=202, content_type="application/json")


def _add_creation(routes: Blueprint, known: dict[int, dict[str, Any]], site: Site, error: Error) -> None:
    numbers, lock = count(1), Lock()

    @routes.get("/v2.1/os-aggregates")
    def listed() -> dict[str, Any]:
        _only_admin("index", error)
        return {"aggregates": [_body(each) for each in known.values()]}

    @routes.post("/v2.1/os-aggregates")
    def create() -> dict[str, Any]:
        _only_admin("create", error)
        attributes = _part("aggregate", error)
        if not is_named(attributes.get("name")):
            raise error(400, f"Invalid input for field/attribute name. Value: {attributes.get('name')}.")
        with lock:
            if any(each["name"] == attributes["name"] for each in known.values()):
                raise error(409, f"Aggregate {attributes['name']} already exists.")
            number = next(numbers)
            made = known[number] = {
                "id": number, "uuid": str(uuid.uuid4()), "name": attributes["name"], "hosts": [], "metadata": {},
                "created_at": iso(site.cloud.clock.now_us()), "updated_at": None, "deleted": False, "deleted_at": None,
            }  # fmt: skip
        _set_zone(made, attributes)
        return {"aggregate": _body(made)}


def _part(name: str, error: Error) -> dict[str, Any]:
    body = request.get_json(silent=True)
    part = body.get(name) if isinstance(body, dict) else None
    if not isinstance(part, dict):
        raise error(400, f"Invalid input for field/attribute {name}. Value: {part}.")
    return part


def _act(aggregate: dict[str, Any], body: object, site: Site, error: Error) -> None:
    match body:
        case {"set_metadata": {"metadata": dict(changes)}}:
            merged = aggregate["metadata"] | changes
            aggregate["metadata"] = {key: text for key, text in merged.items() if text is not None}
        case {"add_host": {"host": str(host)}} if host in site.hosts():
            if host in aggregate["hosts"]:
                raise error(409, f"Aggregate {aggregate['id']} already has host {host}.")
            aggregate["hosts"].append(host)
        case {"remove_host": {"host": str(host)}} if host in aggregate["hosts"]:
            aggregate["hosts"].remove(host)
        case {"add_host": {"host": str(host)}} | {"remove_host": {"host": str(host)}}:
            raise error(404, f"Compute host {host} could not be found.")
        case _:
            raise error(400, f"There is no such action: {body}.")


def _only_admin(policy: str, error: Error) -> None:
    if not g.account.admin:
        raise error(403, f"Policy doesn't allow os_compute_api:os-aggregates:{policy} to be performed.")


def _set_zone(aggregate: dict[str, Any], attributes: dict[str, Any]) -> None:
    if "availability_zone" in attributes:
        aggregate["metadata"] = aggregate["metadata"] | {"availability_zone": attributes["availability_zone"]}


def _body(aggregate: dict[str, Any]) -> dict[str, Any]:
    body = {**aggregate, "availability_zone": aggregate["metadata"].get("availability_zone")}
    return body if g.version >= (2, 41) else {key: value for key, value in body.items() if key != "uuid"}
