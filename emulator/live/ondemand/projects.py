"""Projects that administrators make: shown, named in quotas and lists, and there to be given roles in."""

from __future__ import annotations

import uuid
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, g, request

from emulator.live.ondemand.auth import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    Forbidden = Callable[[str], Response]
    Fault = Callable[[int, str, str], Response]

_FIELDS = {"name", "description", "enabled", "domain_id", "tags", "options", "is_domain", "parent_id"}


class Projects:
    """Those that were made, by identifier."""

    def __init__(self, made: dict[str, dict[str, Any]]) -> None:
        self.made = made
        self.lock = Lock()


def add_projects(
    app: Flask, projects: Projects, names: set[str], *, forbidden: Forbidden, fault: Fault
) -> None:
    """Routes that change projects and give roles in them. `names`: of those that are there in any case."""
    routes = Blueprint("projects", __name__)

    @routes.post("/v3/projects")
    def create() -> tuple[dict[str, Any], int] | Response:
        if not g.token.account.admin:
            return forbidden("identity:create_project")
        attributes = _attributes()
        if (
            attributes is None
            or not isinstance(attributes.get("name"), str)
            or not attributes["name"].strip()
        ):
            return fault(400, "Bad Request", "Invalid input for field 'name'.")
        with projects.lock:
            if attributes["name"] in names | {each["name"] for each in projects.made.values()}:
                return fault(
                    409, "Conflict", "Conflict occurred attempting to store project - Duplicate entry."
                )
            made = {
                "id": uuid.uuid4().hex, "name": attributes["name"], "domain_id": DOMAIN["id"], "description": "",
                "enabled": True, "parent_id": DOMAIN["id"], "is_domain": False, "tags": [], "options": {}, "links": {},
            } | attributes  # fmt: skip
            projects.made[made["id"]] = made
        return {"project": made}, 201

    _add_changes(routes, projects, forbidden=forbidden, fault=fault)
    app.register_blueprint(routes)


def _add_changes(routes: Blueprint, projects: Projects, *, forbidden: Forbidden, fault: Fault) -> None:
    @routes.patch("/v3/projects/<project_id>")
    def update(project_id: str) -> dict[str, Any] | Response:
        if not g.token.account.admin:
            return forbidden("identity:update_project")
        changes = _attributes()
        if project_id not in projects.made or changes is None:
            return fault(404, "Not Found", f"Could not find project: {project_id}.")
        projects.made[project_id] |= changes
        return {"project": projects.made[project_id]}

    @routes.delete("/v3/projects/<project_id>")
    def delete(project_id: str) -> Response:
        if not g.token.account.admin:
            return forbidden("identity:delete_project")
        if projects.made.pop(project_id, None) is None:
            return fault(404, "Not Found", f"Could not find project: {project_id}.")
        return Response(status=204)


def _attributes() -> dict[str, Any] | None:
    body = request.get_json(silent=True)
    attributes = body.get("project") if isinstance(body, dict) else None
    return attributes if isinstance(attributes, dict) and attributes.keys() <= _FIELDS else None
