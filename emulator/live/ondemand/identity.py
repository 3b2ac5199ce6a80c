"""Keystone: version documents, tokens, the catalog and projects. Nobody and nothing is made here."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from emulator.live.ondemand.http import (
    DOMAIN,
    UNAUTHORIZED,
    ApiError,
    Keyring,
    LoginError,
    Token,
    body_part,
    caller,
    iso,
    json_answer,
    service,
    site_url,
    stable_id,
)

if TYPE_CHECKING:
    from emulator.live.ondemand.http import Account

# name, type, path behind the site's URL
_SERVICES = (
    ("glance", "image", "/image"),
    ("placement", "placement", "/placement"),
    ("keystone", "identity", "/identity/v3/"),
    ("neutron", "network", "/network"),
    ("nova", "compute", "/compute/v2.1"),
)
_INTERFACES = ("internal", "public", "admin")


def identity_app(keyring: Keyring, region: str) -> Flask:
    app = service("identity", _shown)
    app.before_request(lambda: _guard(keyring))

    @app.after_request
    def vary(response: Response) -> Response:
        response.headers["Vary"] = "X-Auth-Token"
        return response

    @app.get("/")
    def versions() -> tuple[dict[str, Any], int, dict[str, str]]:
        return {"versions": {"values": [_version()]}}, 300, {"Location": f"{_url()}/"}

    @app.get("/v3")
    def version() -> dict[str, Any]:
        return {"version": _version()}

    _add_tokens(app, keyring, region)
    _add_projects(app, keyring)
    return app


def _url() -> str:
    return f"{request.root_url.rstrip('/')}/v3"


def _version() -> dict[str, Any]:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{_url()}/"}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }


def _guard(keyring: Keyring) -> Response | None:
    """Everything but the version documents and logging in needs a token."""
    if request.path.rstrip("/") in {"", "/v3"}:
        return None
    if request.method == "POST" and request.path == "/v3/auth/tokens":
        return None
    token = caller(keyring)
    if token is None:
        return _login_failed()
    g.token = token
    return None


def _shown(error: ApiError) -> Response:
    title = HTTPStatus(error.code).phrase
    return json_answer({"error": {"code": error.code, "message": error.message, "title": title}}, error.code)


def _forbidden(policy: str) -> ApiError:
    return ApiError(403, f"You are not authorized to perform the requested action: {policy}.")


def _login_failed() -> Response:
    response = _shown(ApiError(401, UNAUTHORIZED))
    response.headers["WWW-Authenticate"] = f'Keystone uri="{_url()}"'
    return response


def _add_tokens(app: Flask, keyring: Keyring, region: str) -> None:
    @app.post("/v3/auth/tokens")
    def login() -> Response:
        auth = body_part("auth")
        if not isinstance(auth, dict):
            raise ApiError(400, "Expecting to find auth in request body.")
        try:
            token = keyring.login(auth)
        except LoginError:
            return _login_failed()
        return _token_answer(token, region, 201)

    def subject_of(rule: str) -> Token:
        """The token that the call is about, where its caller may ask."""
        subject = keyring.token(request.headers.get("X-Subject-Token"))
        if subject is None:
            raise ApiError(404, "Failed to validate token")
        if not g.token.account.admin and subject.account != g.token.account:
            raise _forbidden(rule)
        return subject

    @app.get("/v3/auth/tokens")
    def validate() -> Response:
        return _token_answer(subject_of("identity:validate_token"), region, 200)

    @app.delete("/v3/auth/tokens")
    def revoke() -> Response:
        keyring.revoke(subject_of("identity:revoke_token").id)
        return Response(status=204)

    @app.get("/v3/auth/catalog")
    def catalog() -> dict[str, Any]:
        return {"catalog": _catalog(region), "links": {"self": f"{_url()}/auth/catalog"}}


def _token_answer(token: Token, region: str, status: int) -> Response:
    account = token.account
    user = {"domain": DOMAIN, "id": account.user_id, "name": account.name, "password_expires_at": None}
    shown = {
        "methods": list(token.methods), "user": user, "audit_ids": list(token.audit_ids),
        "expires_at": f"{iso(token.expires_us)}Z", "issued_at": f"{iso(token.issued_us)}Z",
        "project": {"domain": DOMAIN, "id": account.project_id, "name": account.project},
        "is_domain": False, "roles": account.roles, "catalog": _catalog(region),
    }  # fmt: skip
    response = json_answer({"token": shown}, status)
    response.headers["X-Subject-Token"] = token.id
    return response


def _catalog(region: str) -> list[dict[str, Any]]:
    def endpoint(name: str, path: str, interface: str) -> dict[str, str]:
        key = stable_id("endpoint", f"{name}/{interface}")
        url = f"{site_url()}{path}"
        return {"id": key, "interface": interface, "region_id": region, "url": url, "region": region}

    return [
        {
            "endpoints": [endpoint(name, path, interface) for interface in _INTERFACES],
            "id": stable_id("service", name),
            "type": kind,
            "name": name,
        }
        for name, kind, path in _SERVICES
    ]


def _add_projects(app: Flask, keyring: Keyring) -> None:
    def listing(accounts: list[Account]) -> dict[str, Any]:
        links = {"next": None, "self": request.url, "previous": None}
        return {"projects": [_project(account) for account in accounts], "links": links}

    def distinct() -> list[Account]:
        return list({account.project: account for account in keyring.accounts}.values())

    @app.get("/v3/projects")
    def projects() -> dict[str, Any]:
        if not g.token.account.admin:
            raise _forbidden("identity:list_projects")
        name = request.args.get("name")
        return listing([account for account in distinct() if name in {None, account.project}])

    @app.get("/v3/projects/<project_id>")
    def project(project_id: str) -> dict[str, Any]:
        for account in distinct():
            if account.project_id == project_id:
                if not g.token.account.admin and g.token.account.project_id != project_id:
                    raise _forbidden("identity:get_project")
                return {"project": _project(account)}
        raise ApiError(404, f"Could not find project: {project_id}.")

    @app.get("/v3/users/<user_id>/projects")
    def projects_of_user(user_id: str) -> dict[str, Any]:
        if not g.token.account.admin and g.token.account.user_id != user_id:
            raise _forbidden("identity:list_user_projects")
        return listing([account for account in keyring.accounts if account.user_id == user_id])


def _project(account: Account) -> dict[str, Any]:
    return {
        "id": account.project_id, "name": account.project, "domain_id": DOMAIN["id"], "description": "",
        "enabled": True, "parent_id": DOMAIN["id"], "is_domain": False, "tags": [], "options": {},
        "links": {"self": f"{_url()}/projects/{account.project_id}"},
    }  # fmt: skip
