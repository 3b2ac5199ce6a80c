"""Keystone: version documents, tokens, the catalog, projects and application credentials."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, jsonify, request

from emulator.live.ondemand.auth import DOMAIN, ApplicationCredential, Keyring, LoginError, Token, stable_id
from emulator.live.ondemand.fake_identity_data import add_people
from emulator.live.ondemand.http import UNAUTHORIZED, ApiError, body_part, caller, service, site_url
from emulator.live.ondemand.identity_checks import forbidden, listed, only_admin
from emulator.live.ondemand.projects import add_projects
from emulator.live.ondemand.times import iso
from emulator.live.ondemand.users import add_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.live.ondemand.auth import Account

# name, type, path behind the site's URL
_SERVICES = (
    ("glance", "image", "/image"),
    ("placement", "placement", "/placement"),
    ("keystone", "identity", "/identity/v3/"),
    ("neutron", "network", "/network"),
    ("nova", "compute", "/compute/v2.1"),
    ("cinder", "block-storage", "/volume/v3"),
)
_INTERFACES = ("internal", "public", "admin")

Answer = tuple[dict[str, Any], int]


def identity_app(keyring: Keyring, region: str) -> Flask:
    app = service("identity")
    app.before_request(lambda: _guard(keyring))
    app.register_error_handler(ApiError, _shown)

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
    add_people(app, keyring, region, catalog=lambda: _catalog(region))
    _add_credentials(app, keyring)
    add_users(app, keyring.users, {each.user_id: each.name for each in keyring.accounts}, str(DOMAIN["id"]))
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
    response = jsonify({"error": {"code": error.code, "message": error.message, "title": title}})
    response.status_code = error.code
    return response


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

    def of_subject(rule: str, answer: Callable[[Token], Response]) -> Response:
        subject = keyring.token(request.headers.get("X-Subject-Token"))
        if subject is None:
            raise ApiError(404, "Failed to validate token")
        if not g.token.account.admin and subject.account != g.token.account:
            raise forbidden(rule)
        return answer(subject)

    @app.get("/v3/auth/tokens")
    def validate() -> Response:
        return of_subject("identity:validate_token", lambda token: _token_answer(token, region, 200))

    @app.delete("/v3/auth/tokens")
    def revoke() -> Response:
        def revoked(token: Token) -> Response:
            keyring.revoke(token.id)
            return Response(status=204)

        return of_subject("identity:revoke_token", revoked)

    @app.get("/v3/auth/catalog")
    def catalog() -> dict[str, Any]:
        return {"catalog": _catalog(region), "links": {"self": f"{_url()}/auth/catalog"}}


def _token_answer(token: Token, region: str, status: int) -> Response:
    account = token.account
    response = jsonify(
        {
            "token": {
                "methods": list(token.methods),
                "user": {
                    "domain": DOMAIN,
                    "id": account.user_id,
                    "name": account.name,
                    "password_expires_at": None,
                },
                "audit_ids": list(token.audit_ids),
                "expires_at": f"{iso(token.expires_us)}Z",
                "issued_at": f"{iso(token.issued_us)}Z",
                "project": {"domain": DOMAIN, "id": account.project_id, "name": account.project},
                "is_domain": False,
                "roles": account.roles,
                "catalog": _catalog(region),
            }
        }
    )
    response.status_code = status
    response.headers["X-Subject-Token"] = token.id
    return response


def _catalog(region: str) -> list[dict[str, Any]]:
    return [
        {
            "endpoints": [
                {
                    "id": stable_id("endpoint", f"{name}/{interface}"),
                    "interface": interface,
                    "region_id": region,
                    "url": f"{site_url()}{path}",
                    "region": region,
                }
                for interface in _INTERFACES
            ],
            "id": stable_id("service", name),
            "type": kind,
            "name": name,
        }
        for name, kind, path in _SERVICES
    ]


def _add_projects(app: Flask, keyring: Keyring) -> None:
    add_projects(app, keyring.projects, {account.project for account in keyring.accounts})

    def listing(accounts: list[Account], more: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
        return listed("projects", [*(_project(account) for account in accounts), *more])

    def distinct() -> list[Account]:
        return list({account.project: account for account in keyring.accounts}.values())

    @app.get("/v3/projects")
    def projects() -> dict[str, Any]:
        only_admin("identity:list_projects")
        name = request.args.get("name")
        more = [each for each in keyring.projects.values() if name in {None, each["name"]}]
        return listing([account for account in distinct() if name in {None, account.project}], more)

    @app.get("/v3/projects/<project_id>")
    def project(project_id: str) -> dict[str, Any]:
        for account in distinct():
            if account.project_id == project_id:
                if not g.token.account.admin and g.token.account.project_id != project_id:
                    raise forbidden("identity:get_project")
                return {"project": _project(account)}
        if g.token.account.admin and project_id in keyring.projects:
            return {"project": keyring.projects[project_id]}
        raise ApiError(404, f"Could not find project: {project_id}.")

    @app.get("/v3/users/<user_id>/projects")
    def projects_of_user(user_id: str) -> dict[str, Any]:
        if not _is_own(user_id):
            raise forbidden("identity:list_user_projects")
        return listing([account for account in keyring.accounts if account.user_id == user_id])


def _account(keyring: Keyring, user_id: str) -> Account | None:
    """The account, if the caller may see it."""
    for account in keyring.accounts:
        if account.user_id == user_id and _is_own(user_id):
            return account
    return None


def _is_own(user_id: str) -> bool:
    return bool(g.token.account.admin or g.token.account.user_id == user_id)


def _project(account: Account) -> dict[str, Any]:
    return {
        "id": account.project_id,
        "name": account.project,
        "domain_id": DOMAIN["id"],
        "description": "",
        "enabled": True,
        "parent_id": DOMAIN["id"],
        "is_domain": False,
        "tags": [],
        "options": {},
        "links": {"self": f"{_url()}/projects/{account.project_id}"},
    }


def _add_credentials(app: Flask, keyring: Keyring) -> None:
    path = "/v3/users/<user_id>/application_credentials"

    @app.get(path)
    def credentials(user_id: str) -> dict[str, Any]:
        account = _account(keyring, user_id)
        if account is None:
            raise forbidden("identity:list_application_credentials")
        name = request.args.get("name")
        found = [
            _credential(credential)
            for credential in keyring.credentials_of(account)
            if name in {None, credential.name}
        ]
        return listed("application_credentials", found)

    @app.get(f"{path}/<credential_id>")
    def credential(user_id: str, credential_id: str) -> dict[str, Any]:
        account = _account(keyring, user_id)
        for known in keyring.credentials_of(account) if account is not None else []:
            if known.id == credential_id:
                return {"application_credential": _credential(known)}
        raise _no_credential(credential_id)

    @app.get("/v3/users/<user_id>/access_rules")
    def access_rules(user_id: str) -> dict[str, Any]:
        """Credentials have none here: each may do what its user may."""
        if not _is_own(user_id):
            raise forbidden("identity:list_access_rules")
        return listed("access_rules", [])

    _add_credential_changes(app, keyring, path)


def _add_credential_changes(app: Flask, keyring: Keyring, path: str) -> None:
    @app.post(path)
    def create(user_id: str) -> Answer:
        if g.token.account.user_id != user_id:
            raise forbidden("identity:create_application_credential")
        attributes = body_part("application_credential")
        if not isinstance(attributes, dict) or not isinstance(attributes.get("name"), str):
            raise ApiError(400, "'name' is a required property")
        made = keyring.add_credential(
            g.token.account, attributes["name"], attributes.get("description"), attributes.get("secret")
        )
        if made is None:
            text = "Conflict occurred attempting to store application_credential - Duplicate entry."
            raise ApiError(409, text)
        body = _credential(made)
        links = body.pop("links")
        return {"application_credential": {**body, "secret": made.secret, "links": links}}, 201

    @app.delete(f"{path}/<credential_id>")
    def delete(user_id: str, credential_id: str) -> Response:
        account = _account(keyring, user_id)
        if account is None or not keyring.remove_credential(account, credential_id):
            raise _no_credential(credential_id)
        return Response(status=204)


def _no_credential(credential_id: str) -> ApiError:
    return ApiError(404, f"Could not find Application Credential: {credential_id}.")


def _credential(credential: ApplicationCredential) -> dict[str, Any]:
    account = credential.account
    return {
        "id": credential.id,
        "name": credential.name,
        "description": credential.description,
        "user_id": account.user_id,
        "project_id": account.project_id,
        "system": None,
        "expires_at": None,
        "unrestricted": None,
        "roles": [
            {**role, "domain_id": None, "description": None, "options": {"immutable": True}}
            for role in account.roles
        ],
        "links": {"self": f"{_url()}/application_credentials/{credential.id}"},
    }
