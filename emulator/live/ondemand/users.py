"""Routes of Keystone that make and change users, and their passwords."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, g

from emulator.live.ondemand.http import ApiError, body_part
from emulator.live.ondemand.identity_checks import forbidden, only_admin

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Users

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


def add_users(app: Flask, users: Users, configured: dict[str, str], domain: str) -> None:
    """Routes that change users. `configured`: identifier -> name of those that are there in any case."""
    routes = Blueprint("users", __name__)

    @routes.post("/v3/users")
    def create() -> tuple[dict[str, Any], int]:
        only_admin("identity:create_user")
        attributes = _attributes()
        if (
            attributes is None
            or not isinstance(attributes.get("name"), str)
            or not attributes["name"].strip()
        ):
            raise ApiError(400, "Invalid input for field 'name'.")
        if attributes["name"] in {*configured.values(), *(each["name"] for each in users.made())}:
            raise ApiError(409, "Conflict occurred attempting to store user - Duplicate entry.")
        password = attributes.pop("password", None)
        made = {
            "id": uuid.uuid4().hex, "domain_id": domain, "enabled": True, "options": {}, "password_expires_at": None,
            "links": {},
        } | attributes  # fmt: skip
        users.add(made, password)
        return {"user": made}, 201

    _add_changes(routes, users, configured)
    _add_password(routes, users)
    app.register_blueprint(routes)


def _add_changes(routes: Blueprint, users: Users, configured: dict[str, str]) -> None:
    def check(user_id: str, verb: str) -> None:
        if not g.token.account.admin or user_id in configured:
            raise forbidden(f"identity:{verb}_user")
        if not any(each["id"] == user_id for each in users.made()):
            raise ApiError(404, f"Could not find user: {user_id}.")

    @routes.patch("/v3/users/<user_id>")
    def update(user_id: str) -> dict[str, Any]:
        check(user_id, "update")
        changes = _attributes()
        if changes is None:
            raise ApiError(400, "Invalid input for field 'user'.")
        if (password := changes.pop("password", None)) is not None:
            users.set_password(user_id, str(password))
        return {"user": users.change(user_id, changes)}

    @routes.delete("/v3/users/<user_id>")
    def delete(user_id: str) -> Response:
        check(user_id, "delete")
        users.remove(user_id)
        return Response(status=204)


def _add_password(routes: Blueprint, users: Users) -> None:
    @routes.post("/v3/users/<user_id>/password")
    def change_password(user_id: str) -> Response:
        """By the user, who knows the old one."""
        account, passwords = g.token.account, _attributes({"password", "original_password"})
        if account.user_id != user_id:
            raise forbidden("identity:change_password")
        if passwords is None or not all(isinstance(word, str) for word in passwords.values()):
            raise ApiError(400, "Invalid input for field 'user'.")
        if passwords.get("original_password") != (users.password(user_id) or account.password):
            raise ApiError(401, "The request you have made requires authentication.")
        users.set_password(user_id, passwords["password"])
        return Response(status=204)


def _attributes(fields: set[str] | None = None) -> dict[str, Any] | None:
    attributes = body_part("user")
    return (
        dict(attributes)
        if isinstance(attributes, dict) and attributes.keys() <= (fields or _FIELDS)
        else None
    )
