"""Users that administrators make, passwords that change, and roles in projects."""

from __future__ import annotations

import uuid
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, g, request

if TYPE_CHECKING:
    from collections.abc import Callable

    Forbidden = Callable[[str], Response]
    Fault = Callable[[int, str, str], Response]

_FIELDS = {
    "name",
    "password",
    "email",
    "description",
    "enabled",
    "default_project_id",
    "domain_id",
    "options",
}


class Users:
    """Of this life of the manager. Safe to use from many threads."""

    def __init__(self) -> None:
        self._made: dict[str, dict[str, Any]] = {}
        self._passwords: dict[str, str] = {}
        self._roles: dict[tuple[str, str], set[str]] = {}
        self._projects: dict[str, str] = {}
        self._lock = Lock()

    def made(self) -> list[dict[str, Any]]:
        """As Keystone shows them."""
        with self._lock:
            return [dict(each) for each in self._made.values()]

    def find(self, user: dict[str, Any]) -> dict[str, Any] | None:
        """By `id` or `name`, one that may come in."""
        for each in self.made():
            if each["enabled"] and (user.get("id") == each["id"] or user.get("name") == each["name"]):
                return each
        return None

    def password(self, user_id: str) -> str | None:
        """What it was changed to, or given when the user was made."""
        with self._lock:
            return self._passwords.get(user_id)

    def set_password(self, user_id: str, password: str) -> None:
        with self._lock:
            self._passwords[user_id] = password

    def add(self, body: dict[str, Any], password: str | None) -> None:
        with self._lock:
            self._made[body["id"]] = body
            if password is not None:
                self._passwords[body["id"]] = password

    def change(self, user_id: str, changes: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._made[user_id] |= changes
            return dict(self._made[user_id])

    def remove(self, user_id: str) -> None:
        with self._lock:
            del self._made[user_id]
            self._passwords.pop(user_id, None)
            self._roles = {key: roles for key, roles in self._roles.items() if key[0] != user_id}

    def grant(self, user_id: str, project_id: str, project: str, role: str) -> None:
        with self._lock:
            self._roles.setdefault((user_id, project_id), set()).add(role)
            self._projects[project_id] = project

    def revoke(self, user_id: str, project_id: str, role: str) -> None:
        with self._lock:
            self._roles.get((user_id, project_id), set()).discard(role)

    def granted(self) -> list[tuple[str, str, str, tuple[str, ...]]]:
        """User, project, the project's name, roles."""
        with self._lock:
            return [
                (user, project, self._projects[project], tuple(sorted(roles)))
                for (user, project), roles in self._roles.items()
                if roles
            ]


def add_users(
    app: Flask,
    users: Users,
    configured: dict[str, str],
    domain: str,
    *,
    forbidden: Forbidden,
    fault: Fault,
) -> None:
    """Routes that change users. `configured`: identifier -> name of those that are there in any case."""
    routes = Blueprint("users", __name__)

    @routes.post("/v3/users")
    def create() -> tuple[dict[str, Any], int] | Response:
        if not g.token.account.admin:
            return forbidden("identity:create_user")
        attributes = _attributes()
        if (
            attributes is None
            or not isinstance(attributes.get("name"), str)
            or not attributes["name"].strip()
        ):
            return fault(400, "Bad Request", "Invalid input for field 'name'.")
        if attributes["name"] in {*configured.values(), *(each["name"] for each in users.made())}:
            return fault(409, "Conflict", "Conflict occurred attempting to store user - Duplicate entry.")
        password = attributes.pop("password", None)
        made = {
            "id": uuid.uuid4().hex, "domain_id": domain, "enabled": True, "options": {}, "password_expires_at": None,
            "links": {},
        } | attributes  # fmt: skip
        users.add(made, password)
        return {"user": made}, 201

    _add_changes(routes, users, configured, forbidden=forbidden, fault=fault)
    _add_password(routes, users, forbidden=forbidden, fault=fault)
    app.register_blueprint(routes)


def _add_changes(
    routes: Blueprint, users: Users, configured: dict[str, str], *, forbidden: Forbidden, fault: Fault
) -> None:
    def wrong(user_id: str, verb: str) -> Response | None:
        if not g.token.account.admin or user_id in configured:
            return forbidden(f"identity:{verb}_user")
        if not any(each["id"] == user_id for each in users.made()):
            return fault(404, "Not Found", f"Could not find user: {user_id}.")
        return None

    @routes.patch("/v3/users/<user_id>")
    def update(user_id: str) -> dict[str, Any] | Response:
        if (answer := wrong(user_id, "update")) is not None:
            return answer
        changes = _attributes()
        if changes is None:
            return fault(400, "Bad Request", "Invalid input for field 'user'.")
        if (password := changes.pop("password", None)) is not None:
            users.set_password(user_id, str(password))
        return {"user": users.change(user_id, changes)}

    @routes.delete("/v3/users/<user_id>")
    def delete(user_id: str) -> Response:
        if (answer := wrong(user_id, "delete")) is not None:
            return answer
        users.remove(user_id)
        return Response(status=204)


def _add_password(routes: Blueprint, users: Users, *, forbidden: Forbidden, fault: Fault) -> None:
    @routes.post("/v3/users/<user_id>/password")
    def change_password(user_id: str) -> Response:
        """By the user, who knows the old one."""
        account, passwords = g.token.account, _attributes({"password", "original_password"})
        if account.user_id != user_id:
            return forbidden("identity:change_password")
        if passwords is None or not all(isinstance(word, str) for word in passwords.values()):
            return fault(400, "Bad Request", "Invalid input for field 'user'.")
        if passwords.get("original_password") != (users.password(user_id) or account.password):
            return fault(401, "Unauthorized", "The request you have made requires authentication.")
        users.set_password(user_id, passwords["password"])
        return Response(status=204)


def _attributes(fields: set[str] | None = None) -> dict[str, Any] | None:
    body = request.get_json(silent=True)
    attributes = body.get("user") if isinstance(body, dict) else None
    return (
        dict(attributes)
        if isinstance(attributes, dict) and attributes.keys() <= (fields or _FIELDS)
        else None
    )
