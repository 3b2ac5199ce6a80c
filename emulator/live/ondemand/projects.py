"""Projects that administrators make: shown, named in quotas and lists, and there to be given roles in."""

from __future__ import annotations

import uuid
from threading import Lock
from typing import Any

from flask import Blueprint, Flask, Response

from emulator.live.ondemand.auth import DOMAIN
from emulator.live.ondemand.http import ApiError, body_part
from emulator.live.ondemand.identity_checks import only_admin

_FIELDS = {"name", "description", "enabled", "domain_id", "tags", "options", "is_domain", "parent_id"}


def add_projects(app: Flask, projects: dict[str, dict[str, Any]], names: set[str]) -> None:
    """Routes that change projects.

    `projects`: those that were made, by identifier; `names`: of those that are there in any case.
    """
    routes, lock = Blueprint("projects", __name__), Lock()

    @routes.post("/v3/projects")
    def create() -> tuple[dict[str, Any], int]:
        only_admin("identity:create_project")
        attributes = _attributes()
        if (
            attributes is None
            or not isinstance(attributes.get("name"), str)
            or not attributes["name"].strip()
        ):
            raise ApiError(400, "Invalid input for field 'name'.")
        with lock:
            if attributes["name"] in names | {each["name"] for each in projects.values()}:
                raise ApiError(409, "Conflict occurred attempting to store project - Duplicate entry.")
            made = {
                "id": uuid.uuid4().hex, "name": attributes["name"], "domain_id": DOMAIN["id"], "description": "",
                "enabled": True, "parent_id": DOMAIN["id"], "is_domain": False, "tags": [], "options": {}, "links": {},
            } | attributes  # fmt: skip
            projects[made["id"]] = made
        return {"project": made}, 201

    _add_changes(routes, projects)
    app.register_blueprint(routes)


def _add_changes(routes: Blueprint, projects: dict[str, dict[str, Any]]) -> None:
    @routes.patch("/v3/projects/<project_id>")
    def update(project_id: str) -> dict[str, Any]:
        only_admin("identity:update_project")
        changes = _attributes()
        if project_id not in projects or changes is None:
            raise ApiError(404, f"Could not find project: {project_id}.")
        projects[project_id] |= changes
        return {"project": projects[project_id]}

    @routes.delete("/v3/projects/<project_id>")
    def delete(project_id: str) -> Response:
        only_admin("identity:delete_project")
        if projects.pop(project_id, None) is None:
            raise ApiError(404, f"Could not find project: {project_id}.")
        return Response(status=204)


def _attributes() -> dict[str, Any] | None:
    attributes = body_part("project")
    return attributes if isinstance(attributes, dict) and attributes.keys() <= _FIELDS else None
