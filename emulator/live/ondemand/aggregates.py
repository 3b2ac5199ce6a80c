"""Host aggregates: kept and shown. Which node a server gets the source decides."""

from __future__ import annotations

import uuid
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, g, request

from emulator.live.ondemand.compute_checks import (
    NOT_FOUND,
    forbidden,
    mapping_of,
    only_admin,
    wrong_value,
)
from emulator.live.ondemand.create_rules import is_named, is_uuid
from emulator.live.ondemand.http import ApiError, body_part
from emulator.live.ondemand.times import iso

if TYPE_CHECKING:
    from emulator.live.ondemand.site import Site


def add_aggregates(app: Flask, site: Site) -> None:
    """Routes of /os-aggregates, for administrators only."""
    routes, known = Blueprint("aggregates", __name__), dict[int, dict[str, Any]]()
    _add_creation(routes, known, site)
    _add_changes(routes, known, site)
    _add_images(routes, known)
    app.register_blueprint(routes)


def _add_changes(routes: Blueprint, known: dict[int, dict[str, Any]], site: Site) -> None:
    def find(aggregate_id: int, policy: str) -> dict[str, Any]:
        only_admin(f"os-aggregates:{policy}")
        if aggregate_id not in known:
            raise ApiError(404, f"Aggregate {aggregate_id} could not be found.")
        return known[aggregate_id]

    @routes.get("/v2.1/os-aggregates/<int:aggregate_id>")
    def show(aggregate_id: int) -> dict[str, Any]:
        return {"aggregate": _body(find(aggregate_id, "show"))}

    @routes.put("/v2.1/os-aggregates/<int:aggregate_id>")
    def update(aggregate_id: int) -> dict[str, Any]:
        found, changes = find(aggregate_id, "update"), mapping_of("aggregate")
        found["name"] = changes.get("name", found["name"])
        _set_zone(found, changes)
        return {"aggregate": _body(found)}

    @routes.delete("/v2.1/os-aggregates/<int:aggregate_id>")
    def delete(aggregate_id: int) -> Response:
        if find(aggregate_id, "delete")["hosts"]:
            raise ApiError(409, f"Cannot remove aggregate {aggregate_id}: it has hosts.")
        del known[aggregate_id]
        return Response(status=200, content_type="application/json")

    @routes.post("/v2.1/os-aggregates/<int:aggregate_id>/action")
    def act(aggregate_id: int) -> dict[str, Any]:
        found, body = find(aggregate_id, "action"), request.get_json(silent=True)
        _act(found, body, site)
        return {"aggregate": _body(found)}


def _add_images(routes: Blueprint, known: dict[int, dict[str, Any]]) -> None:
    @routes.post("/v2.1/os-aggregates/<int:aggregate_id>/images")
    def cache(aggregate_id: int) -> Response:
        """Hosts fetch images beforehand: nothing takes time here, so there is nothing to fetch."""
        if g.version < (2, 81):
            raise ApiError(404, NOT_FOUND)
        if not g.account.admin:
            raise forbidden("compute:aggregates:images")
        images = body_part("cache")
        if not isinstance(images, list) or not images or not all(isinstance(each, dict) for each in images):
            raise wrong_value("cache", images)
        names = [each.get("id") for each in images]
        if not all(is_uuid(name) for name in names):
            raise wrong_value("id", names)
        if len(set(names)) < len(names):
            raise ApiError(400, "Duplicate images in request")
        if aggregate_id not in known:
            raise ApiError(404, f"Aggregate {aggregate_id} could not be found.")
        return Response(status=202, content_type="application/json")


def _add_creation(routes: Blueprint, known: dict[int, dict[str, Any]], site: Site) -> None:
    numbers, lock = count(1), Lock()

    @routes.get("/v2.1/os-aggregates")
    def listed() -> dict[str, Any]:
        only_admin("os-aggregates:index")
        return {"aggregates": [_body(each) for each in known.values()]}

    @routes.post("/v2.1/os-aggregates")
    def create() -> dict[str, Any]:
        only_admin("os-aggregates:create")
        attributes = mapping_of("aggregate")
        if not is_named(attributes.get("name")):
            raise wrong_value("name", attributes.get("name"))
        with lock:
            if any(each["name"] == attributes["name"] for each in known.values()):
                raise ApiError(409, f"Aggregate {attributes['name']} already exists.")
            number = next(numbers)
            made = known[number] = {
                "id": number, "uuid": str(uuid.uuid4()), "name": attributes["name"], "hosts": [], "metadata": {},
                "created_at": iso(site.cloud.clock.now_us()), "updated_at": None, "deleted": False, "deleted_at": None,
            }  # fmt: skip
        _set_zone(made, attributes)
        return {"aggregate": _body(made)}


def _act(aggregate: dict[str, Any], body: object, site: Site) -> None:
    match body:
        case {"set_metadata": {"metadata": dict(changes)}}:
            merged = aggregate["metadata"] | changes
            aggregate["metadata"] = {key: text for key, text in merged.items() if text is not None}
        case {"add_host": {"host": str(host)}} if host in site.hosts():
            if host in aggregate["hosts"]:
                raise ApiError(409, f"Aggregate {aggregate['id']} already has host {host}.")
            aggregate["hosts"].append(host)
        case {"remove_host": {"host": str(host)}} if host in aggregate["hosts"]:
            aggregate["hosts"].remove(host)
        case {"add_host": {"host": str(host)}} | {"remove_host": {"host": str(host)}}:
            raise ApiError(404, f"Compute host {host} could not be found.")
        case _:
            raise ApiError(400, f"There is no such action: {body}.")


def _set_zone(aggregate: dict[str, Any], attributes: dict[str, Any]) -> None:
    if "availability_zone" in attributes:
        aggregate["metadata"] = aggregate["metadata"] | {"availability_zone": attributes["availability_zone"]}


def _body(aggregate: dict[str, Any]) -> dict[str, Any]:
    body = {**aggregate, "availability_zone": aggregate["metadata"].get("availability_zone")}
    return body if g.version >= (2, 41) else {key: value for key, value in body.items() if key != "uuid"}
