"""Keystone's lists for administrators: users, roles and their assignments, domains, regions, services, endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand.auth import DOMAIN, stable_id
from emulator.live.ondemand.http import ApiError
from emulator.live.ondemand.identity_checks import forbidden, listed, only_admin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.live.ondemand.auth import Account, Keyring

    Rows = Callable[[], list[dict[str, Any]]]

_ROLES = ("member", "reader", "manager", "admin")


def add_people(
    app: Flask, keyring: Keyring, region: str, *, catalog: Callable[[], list[dict[str, Any]]]
) -> None:
    """All routes of this module."""

    def add(what: str, rows: Rows, filters: Iterable[str]) -> None:
        """The list of these, and each by its id."""
        known = tuple(filters)
        noun = what.removesuffix("s")

        def listing() -> dict[str, Any]:
            only_admin(f"identity:list_{what}")
            found = [
                row
                for row in rows()
                if all(str(row.get(name)) == request.args[name] for name in known if name in request.args)
            ]
            return listed(what, found)

        def show(row_id: str) -> dict[str, Any]:
            if not g.token.account.admin and row_id != g.token.account.user_id:
                raise forbidden(f"identity:get_{noun}")
            for row in rows():
                if row["id"] == row_id:
                    return {noun: row}
            raise ApiError(404, f"Could not find {noun}: {row_id}.")

        app.add_url_rule(f"/v3/{what}", f"list_{what}", listing)
        app.add_url_rule(f"/v3/{what}/<row_id>", f"get_{what}", show)

    def users() -> list[dict[str, Any]]:
        return [*map(_user, keyring.accounts), *keyring.users.made()]

    add("users", users, ("name", "domain_id"))
    add("roles", lambda: [_role(name) for name in _ROLES], ("name", "domain_id"))
    add("domains", lambda: [_domain()], ("name",))
    add("regions", lambda: [{"id": region, "description": "", "parent_region_id": None, "links": {}}], ())
    add("services", lambda: _services(catalog()), ("name", "type"))
    add("endpoints", lambda: _endpoints(catalog()), ("interface", "service_id", "region_id"))

    _add_roles(app, keyring)


def _add_roles(app: Flask, keyring: Keyring) -> None:
    def assigned() -> list[tuple[str, str, str]]:
        """User, project, role, by identifier."""
        explicit = [
            (user, project, stable_id("role", name))
            for user, project, _, names in keyring.users.granted()
            for name in names
        ]
        defaults = [
            (each.user_id, each.project_id, role["id"]) for each in keyring.accounts for role in each.roles
        ]
        return defaults + explicit

    @app.get("/v3/role_assignments")
    def assignments() -> dict[str, Any]:
        only_admin("identity:list_role_assignments")
        args = request.args
        names = _names(keyring) if args.get("include_names", "false").lower() in {"", "1", "true"} else None
        found = [
            {
                "scope": {"project": _known(project, names)},
                "role": _known(role, names),
                "user": _known(user, names),
                "links": {},
            }
            for user, project, role in assigned()
            if args.get("user.id", user) == user
            and args.get("scope.project.id", project) == project
            and args.get("role.id", role) == role
        ]
        return listed("role_assignments", found)

    @app.route("/v3/projects/<project>/users/<user>/roles/<role>", methods=["PUT", "DELETE", "HEAD"])
    def role_of(project: str, user: str, role: str) -> Response:
        verbs = {"PUT": "create", "DELETE": "revoke"}
        only_admin(f"identity:{verbs.get(request.method, 'check')}_grant")
        names, roles = _names(keyring), {stable_id("role", name): name for name in _ROLES}
        for key, what in ((project, "project"), (user, "user"), (role, "role")):
            if key not in names:
                raise ApiError(404, f"Could not find {what}: {key}.")
        if request.method == "PUT":
            keyring.users.grant(user, project, names[project], roles[role])
        elif (user, project, role) not in assigned():
            raise ApiError(404, f"Could not find role assignment with role: {role}.")
        elif request.method == "DELETE":
            keyring.users.revoke(user, project, roles[role])
        return Response(status=204)


def _names(keyring: Keyring) -> dict[str, str]:
    """Of users, projects and roles."""
    users = {each.user_id: each.name for each in keyring.accounts}
    projects = {each.project_id: each.project for each in keyring.accounts}
    made = {each["id"]: each["name"] for each in (*keyring.users.made(), *keyring.projects.values())}
    return users | projects | made | {stable_id("role", name): name for name in _ROLES}


def _known(key: str, names: dict[str, str] | None) -> dict[str, Any]:
    if names is None:
        return {"id": key}
    return {"id": key, "name": names.get(key, ""), "domain": DOMAIN}


def _user(account: Account) -> dict[str, Any]:
    return {
        "id": account.user_id,
        "name": account.name,
        "domain_id": DOMAIN["id"],
        "default_project_id": account.project_id,
        "enabled": True,
        "options": {},
        "password_expires_at": None,
        "links": {},
    }


def _role(name: str) -> dict[str, Any]:
    return {
        "id": stable_id("role", name),
        "name": name,
        "domain_id": None,
        "description": None,
        "options": {"immutable": True},
        "links": {},
    }


def _domain() -> dict[str, Any]:
    return {
        **DOMAIN,
        "description": "The default domain",
        "enabled": True,
        "tags": [],
        "options": {},
        "links": {},
    }


def _services(catalog: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": each["id"], "name": each["name"], "type": each["type"], "enabled": True, "links": {}}
        for each in catalog
    ]


def _endpoints(catalog: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**endpoint, "service_id": each["id"], "enabled": True, "links": {}}
        for each in catalog
        for endpoint in each["endpoints"]
    ]
