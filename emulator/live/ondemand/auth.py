"""Users, tokens and application credentials: what Keystone knows, without HTTP."""

from __future__ import annotations

import hmac
import secrets
import uuid
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

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
    """A user with the project and the roles it always has."""

    name: str
    password: str
    user_id: str
    project: str
    project_id: str
    admin: bool
    granted: tuple[str, ...] = ()
    """The roles that an administrator gave; none: those that every user of the configuration has."""

    @property
    def roles(self) -> list[dict[str, str]]:
        usual = ("member", "reader", "manager", "admin") if self.admin else ("member", "reader")
        names: tuple[str, ...] = self.granted or usual
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


@dataclass(frozen=True, slots=True)
class ApplicationCredential:
    """A second password of an account, for programs."""

    id: str
    name: str
    description: str | None
    secret: str
    account: Account


class LoginError(Exception):
    """Unknown user or project, wrong password, or an expired token."""


class Users:
    """Users that administrators make, passwords that change, and roles in projects. Safe to use from many threads."""

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


@dataclass(slots=True)
class Keyring:
    """Everybody who may come in, and everybody who is in. Safe to use from many threads."""

    accounts: tuple[Account, ...]
    token_lifetime_us: int
    clock: Clock = field(default_factory=SystemClock)
    users: Users = field(default_factory=Users)
    projects: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Those that administrators made, by identifier, as Keystone shows them."""
    _tokens: dict[str, Token] = field(default_factory=dict)
    _credentials: dict[str, ApplicationCredential] = field(default_factory=dict)
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
        elif method == "application_credential":
            account = self._by_credential(_mapping(identity.get("application_credential")))
            used, audit = ("application_credential",), ()
        elif method == "token":
            old = self.token(str(_mapping(identity.get("token")).get("id")))
            if old is None:
                raise LoginError
            account, audit = old.account, old.audit_ids[-1:]
            used = (*(name for name in old.methods if name != "token"), "token")
        else:
            raise LoginError
        return self._issue(self._scoped(account, auth.get("scope")), used, audit)

    def _by_password(self, part: dict[str, object]) -> Account:
        user = _mapping(part.get("user"))
        account = self._find(user)
        password = self.users.password(account.user_id) or account.password
        if not password or not hmac.compare_digest(password.encode(), str(user.get("password")).encode()):
            raise LoginError
        return account

    def _by_credential(self, part: dict[str, object]) -> Account:
        with self._lock:
            known = list(self._credentials.values())
        for credential in known:
            if part.get("id", credential.id) != credential.id or not ("id" in part or "name" in part):
                continue
            if "id" not in part and (
                part["name"] != credential.name
                or self._find(_mapping(part.get("user"))) != credential.account
            ):
                continue
            if hmac.compare_digest(credential.secret, str(part.get("secret"))):
                return credential.account
        raise LoginError

    def _find(self, user: dict[str, object]) -> Account:
        for account in self.accounts:
            if user.get("id") == account.user_id or user.get("name") == account.name:
                return account
        made = self.users.find(user)
        if made is None:
            raise LoginError
        return Account(made["name"], "", made["id"], "", "", admin=False)

    def _scoped(self, account: Account, scope: object) -> Account:
        """In the project that is asked for: the account's own, or one in which it was given a role."""
        if scope is None and account.project_id:
            return account
        project = _mapping(_mapping(scope).get("project"))
        project_key = (project.get("id"), project.get("name"))
        if account.project_id and (account.project_id == project_key[0] or account.project == project_key[1]):
            return account
        there = {each.project_id for each in self.accounts} | self.projects.keys()
        for user_id, project_id, name, roles in self.users.granted():
            if (
                project_id in there
                and user_id == account.user_id
                and (project_id == project_key[0] or name == project_key[1])
            ):
                admin = "admin" in roles
                return replace(account, project=name, project_id=project_id, admin=admin, granted=roles)
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

    def user_ids(self) -> set[str]:
        """Of all users."""
        return {each.user_id for each in self.accounts} | {each["id"] for each in self.users.made()}

    def token(self, token_id: str | None) -> Token | None:
        """The token if it is known and has not expired."""
        with self._lock:
            token = self._tokens.get(token_id or "")
        return token if token is not None and token.expires_us > self.clock.now_us() else None

    def revoke(self, token_id: str) -> None:
        with self._lock:
            self._tokens.pop(token_id, None)

    def credentials_of(self, account: Account) -> list[ApplicationCredential]:
        with self._lock:
            return [credential for credential in self._credentials.values() if credential.account == account]

    def add_credential(
        self, account: Account, name: str, description: str | None, secret: str | None
    ) -> ApplicationCredential | None:
        """None if the account has one of this name."""
        with self._lock:
            if any(old.account == account and old.name == name for old in self._credentials.values()):
                return None
            credential = ApplicationCredential(
                uuid.uuid4().hex, name, description, secret or secrets.token_urlsafe(64), account
            )
            self._credentials[credential.id] = credential
            return credential

    def remove_credential(self, account: Account, credential_id: str) -> bool:
        with self._lock:
            credential = self._credentials.get(credential_id)
            if credential is None or credential.account != account:
                return False
            del self._credentials[credential_id]
            return True


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
