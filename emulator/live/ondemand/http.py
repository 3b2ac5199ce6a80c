"""What the services' HTTP has in common: users and tokens, request ids, addresses, times, and errors."""

from __future__ import annotations

import hmac
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from flask import Flask, g, jsonify, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from balancer.clock import Clock, SystemClock, micros

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Response

    from emulator.live.ondemand.config import OndemandConfig, User

    Row = TypeVar("Row")


# Users and tokens: what Keystone knows, without HTTP.

_SPACE = uuid.UUID("7b1c1f0e-8d0a-4a57-9d4b-0f6c7e2a1d11")
DOMAIN = {"id": "default", "name": "Default"}


def stable_id(kind: str, name: str) -> str:
    """The same name has the same identifier in every run."""
    return uuid.uuid5(_SPACE, f"{kind}/{name}").hex


@dataclass(frozen=True, slots=True)
class Account:
    """A user with its project and its roles."""

    name: str
    password: str
    user_id: str
    project: str
    project_id: str
    admin: bool

    @property
    def roles(self) -> list[dict[str, str]]:
        names = ("member", "reader", "manager", "admin") if self.admin else ("member", "reader")
        return [{"id": stable_id("role", name), "name": name} for name in names]


@dataclass(frozen=True, slots=True)
class Token:
    """Proof that somebody logged in; wall-clock times, because clients compare them with theirs."""

    id: str
    account: Account
    methods: tuple[str, ...]
    audit_ids: tuple[str, ...]
    issued_us: int
    expires_us: int


class LoginError(Exception):
    """Unknown user or project, wrong password, or an expired token."""


@dataclass(slots=True)
class Keyring:
    """Everybody who may come in, and everybody who is in. Safe to use from many threads."""

    accounts: tuple[Account, ...]
    token_lifetime_us: int
    clock: Clock = field(default_factory=SystemClock)
    _tokens: dict[str, Token] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, config: OndemandConfig, clock: Clock | None = None) -> Keyring:
        return cls(
            tuple(_account(user) for user in config.users),
            micros(config.token_lifetime_s),
            clock if clock is not None else SystemClock(),
        )

    def login(self, auth: dict[str, object]) -> Token:
        """A token for the `auth` member of POST /v3/auth/tokens; raises LoginError."""
        identity = _mapping(auth.get("identity"))
        used: tuple[str, ...] = ("password",)
        audit: tuple[str, ...] = ()
        match identity.get("methods"):
            case ["password"]:
                account = self._by_password(_mapping(_mapping(identity.get("password")).get("user")))
            case ["token"]:
                old = self.token(str(_mapping(identity.get("token")).get("id")))
                if old is None:
                    raise LoginError
                account, audit = old.account, old.audit_ids[-1:]
                used = (*(name for name in old.methods if name != "token"), "token")
            case _:
                raise LoginError
        _check_scope(account, auth.get("scope"))
        return self._issue(account, used, audit)

    def _by_password(self, user: dict[str, object]) -> Account:
        for account in self.accounts:
            if user.get("id") == account.user_id or user.get("name") == account.name:
                if not hmac.compare_digest(account.password.encode(), str(user.get("password")).encode()):
                    raise LoginError
                return account
        raise LoginError

    def _issue(self, account: Account, methods: tuple[str, ...], audit: tuple[str, ...]) -> Token:
        now_us = self.clock.now_us()
        token = Token(
            secrets.token_urlsafe(32),
            account,
            methods,
            (secrets.token_urlsafe(16), *audit),
            now_us,
            now_us + self.token_lifetime_us,
        )
        with self._lock:
            self._tokens = {key: old for key, old in self._tokens.items() if old.expires_us > now_us}
            self._tokens[token.id] = token
        return token

    def token(self, token_id: str | None) -> Token | None:
        """The token if it is known and has not expired."""
        with self._lock:
            token = self._tokens.get(token_id or "")
        return token if token is not None and token.expires_us > self.clock.now_us() else None

    def revoke(self, token_id: str) -> None:
        with self._lock:
            self._tokens.pop(token_id, None)


def _account(user: User) -> Account:
    return Account(
        user.name,
        user.password,
        stable_id("user", user.name),
        user.project,
        stable_id("project", user.project),
        user.admin,
    )


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise LoginError
    return value


def _check_scope(account: Account, scope: object) -> None:
    """A user has one project, and what names none means that one."""
    if scope is None:
        return
    project = _mapping(_mapping(scope).get("project"))
    if account.project_id != project.get("id") and account.project != project.get("name"):
        raise LoginError


# Requests and answers.

UNAUTHORIZED = "The request you have made requires authentication."
_REAL = ("compute", "placement")
"""Services that a live run can also have from a real Nova."""
_PAGE = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ApiError(Exception):
    """An answer that is an error; each service shows it in its own form."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def absent(what: str, code: int = 501) -> ApiError:
    """What the small manager has not, and where it may be."""
    return ApiError(code, f"The small on-demand manager has no {what}; a real Nova may: live.ondemand: nova.")


def service(name: str, show: Callable[[ApiError], Response]) -> Flask:
    """A Flask application whose answers carry a request id; `show` makes an answer of an error.

    A call that it does not have is an error that says so.
    """
    app = Flask(name)
    app.url_map.strict_slashes = False
    app.register_error_handler(ApiError, show)

    @app.before_request
    def name_request() -> None:
        g.request_id = f"req-{uuid.uuid4()}"

    @app.after_request
    def show_request(response: Response) -> Response:
        response.headers["x-openstack-request-id"] = g.request_id
        return response

    @app.errorhandler(NotFound)
    @app.errorhandler(MethodNotAllowed)
    def no_such_call(_: HTTPException) -> Response:
        call = f"call {request.method} {request.script_root}{request.path}"
        return show(absent(call) if name in _REAL else ApiError(501, f"The emulator has no {call}."))

    return app


def json_answer(body: dict[str, Any], status: int) -> Response:
    response = jsonify(body)
    response.status_code = status
    return response


def body_part(name: str) -> Any:
    """What the request's JSON says under this name; None where it is no such mapping."""
    body = request.get_json(silent=True)
    return body.get(name) if isinstance(body, dict) else None


def mapping_of(name: str) -> dict[str, Any]:
    """What the body says under this name, which must be a mapping."""
    part = body_part(name)
    if not isinstance(part, dict):
        raise wrong_value(name, part)
    return part


def caller(keyring: Keyring) -> Token | None:
    """Whoever sends this request."""
    return keyring.token(request.headers.get("X-Auth-Token"))


def unauthorized() -> tuple[dict[str, object], int, dict[str, str]]:
    """The answer of the token check in front of compute and placement."""
    body: dict[str, object] = {"error": {"code": 401, "title": "Unauthorized", "message": UNAUTHORIZED}}
    return body, 401, {"WWW-Authenticate": f'Keystone uri="{site_url()}/identity"'}


def site_url() -> str:
    """Where the services are mounted, as the client sees it: scheme, host and port."""
    return request.host_url.rstrip("/")


def iso(time_us: int | None) -> str | None:
    """`2026-11-21T00:23:15.000000`, the form of launched_at. Cluster time starts at 0, which reads 1970."""
    return None if time_us is None else f"{_moment(time_us):%Y-%m-%dT%H:%M:%S.%f}"


def iso_z(time_us: int) -> str:
    """`2026-11-21T00:23:15Z`, the form of created and updated."""
    return f"{_moment(time_us):%Y-%m-%dT%H:%M:%SZ}"


def _moment(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


# Nova's checks


def wrong_value(name: str, value: object) -> ApiError:
    """As Nova's schemas refuse a field of the body."""
    return ApiError(400, f"Invalid input for field/attribute {name}. Value: {value}.")


def wrong_parameter(name: str, value: object) -> ApiError:
    """As Nova's schemas refuse a value in a query."""
    return ApiError(400, f"Invalid input for query parameters {name}. Value: {value}.")


def only_admin(policy: str) -> None:
    """`policy`: its name without the part before the colon."""
    if not g.account.admin:
        raise ApiError(403, f"Policy doesn't allow os_compute_api:{policy} to be performed.")


def page_of(rows: list[Row], name_of: Callable[[Row], str], what: str) -> dict[str, Any]:
    """`what`: those of the page that the query's `limit` and `marker` mean, and the link to the next one."""
    marker, args = request.args.get("marker"), request.args
    limit = min(int(args.get("limit", _PAGE)), _PAGE)
    if marker is not None:
        names = [name_of(row) for row in rows]
        if marker not in names:
            raise ApiError(400, f"marker [{marker}] not found")
        rows = rows[names.index(marker) + 1 :]
    page = rows[:limit]
    if not page or len(rows) <= limit:
        return {what: page}
    rest = {key: value for key, value in args.items() if key != "marker"} | {"marker": name_of(page[-1])}
    query = "&".join(f"{key}={value}" for key, value in rest.items())
    href = f"{site_url()}/compute{request.path.rstrip('/')}?{query}"
    return {what: page, f"{what}_links": [{"rel": "next", "href": href}]}
