"""Users and tokens: what Keystone knows, without HTTP."""

from __future__ import annotations

import hmac
import secrets
import uuid
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from balancer.clock import Clock, SystemClock, micros

if TYPE_CHECKING:
    from emulator.live.ondemand.config import OndemandConfig, User

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
        methods = identity.get("methods")
        method = methods[0] if isinstance(methods, list) and len(methods) == 1 else None
        used: tuple[str, ...]
        audit: tuple[str, ...]
        if method == "password":
            account = self._by_password(_mapping(identity.get("password")))
            used, audit = ("password",), ()
        elif method == "token":
            old = self.token(str(_mapping(identity.get("token")).get("id")))
            if old is None:
                raise LoginError
            account, audit = old.account, old.audit_ids[-1:]
            used = (*(name for name in old.methods if name != "token"), "token")
        else:
            raise LoginError
        _check_scope(account, auth.get("scope"))
        return self._issue(account, used, audit)

    def _by_password(self, part: dict[str, object]) -> Account:
        user = _mapping(part.get("user"))
        account = self._find(user)
        if not hmac.compare_digest(account.password.encode(), str(user.get("password")).encode()):
            raise LoginError
        return account

    def _find(self, user: dict[str, object]) -> Account:
        for account in self.accounts:
            if user.get("id") == account.user_id or user.get("name") == account.name:
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
