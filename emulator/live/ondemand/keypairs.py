"""Nova's key pairs: kept by user, put into no server, because nobody logs in to one here."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
import struct
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, jsonify, request

from emulator.live.ondemand.compute_checks import after_marker, only_admin, wrong_value
from emulator.live.ondemand.http import ApiError, body_part
from emulator.live.ondemand.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from balancer.clock import Clock
    from emulator.live.ondemand.auth import Account


_NAME = re.compile(r"[a-zA-Z0-9 \-_]{1,255}")
_NAME_SINCE_2_92 = re.compile(r"[a-zA-Z0-9 \-_@.]{1,255}")
_BITS = 2048
_NOBODYS = "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n"


@dataclass(frozen=True, slots=True)
class Keypair:
    number: int
    name: str
    kind: str
    public_key: str
    user_id: str
    created_us: int

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -E md5 -l` has it."""
        digest = hashlib.md5(_blob(self.public_key) or b"", usedforsecurity=False).hexdigest()
        return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


@dataclass(slots=True)
class Keypairs:
    """All of them, the oldest first. Safe to use from many threads. `users`: who may have some, by id."""

    users: Callable[[], Collection[str]]
    _known: dict[tuple[str, str], Keypair] = field(default_factory=dict)
    _made: int = 0
    _lock: Lock = field(default_factory=Lock)

    def of(self, user_id: str) -> list[Keypair]:
        with self._lock:
            return [each for (owner, _), each in self._known.items() if owner == user_id]

    def names(self, user_id: str) -> frozenset[str]:
        return frozenset(each.name for each in self.of(user_id))

    def add(self, name: str, kind: str, public_key: str, user_id: str, now_us: int) -> Keypair | None:
        """None if this user has one of this name."""
        with self._lock:
            if (user_id, name) in self._known:
                return None
            self._made += 1
            made = Keypair(self._made, name, kind, public_key, user_id, now_us)
            self._known[user_id, name] = made
            return made

    def remove(self, user_id: str, name: str) -> bool:
        with self._lock:
            return self._known.pop((user_id, name), None) is not None


def add_keypairs(app: Flask, keypairs: Keypairs, clock: Clock, limit: Callable[[str], int]) -> None:
    """All routes of this module. `limit`: how many a user of this project may have; -1: any number."""

    def owner() -> str:
        """Whose keys are meant: an administrator may name somebody."""
        account: Account = g.account
        user_id = request.args.get("user_id", account.user_id)
        if user_id != account.user_id:
            only_admin("os-keypairs:index")
        return user_id

    def find(name: str) -> Keypair:
        for each in keypairs.of(owner()):
            if each.name == name:
                return each
        raise ApiError(404, f"Keypair {name} not found for user {owner()}")

    @app.get("/v2.1/os-keypairs")
    def list_keypairs() -> dict[str, Any]:
        rows = after_marker(keypairs.of(owner()), lambda each: each.name)
        count = int(request.args.get("limit", 0)) or len(rows)
        return {"keypairs": [{"keypair": _brief(each)} for each in rows[:count]]}

    @app.get("/v2.1/os-keypairs/<name>")
    def show_keypair(name: str) -> dict[str, Any]:
        each = find(name)
        more = {
            "user_id": each.user_id, "id": each.number, "created_at": iso(each.created_us), "deleted": False,
            "deleted_at": None, "updated_at": None,
        }  # fmt: skip
        return {"keypair": _brief(each) | more}

    @app.post("/v2.1/os-keypairs")
    def create_keypair() -> Response:
        made, attributes = _create(keypairs, clock.now_us(), limit(g.account.project_id))
        private = (
            {} if "public_key" in attributes else {"private_key": _NOBODYS.format(secrets.token_urlsafe(48))}
        )
        response = jsonify({"keypair": _brief(made) | {"user_id": made.user_id} | private})
        response.status_code = 201 if g.version >= (2, 2) else 200
        return response

    @app.delete("/v2.1/os-keypairs/<name>")
    def delete_keypair(name: str) -> Response:
        keypairs.remove(find(name).user_id, name)
        return Response(status=204 if g.version >= (2, 2) else 202, content_type="application/json")


def _create(keypairs: Keypairs, now_us: int, most: int) -> tuple[Keypair, dict[str, Any]]:
    """The key pair that POST asks for, and what it asked."""
    attributes = _read()
    user_id = attributes.get("user_id", g.account.user_id)
    if user_id != g.account.user_id:
        only_admin("os-keypairs:create")
    if user_id not in keypairs.users():
        raise ApiError(400, f"User {user_id} could not be found.")
    if 0 <= most <= len(keypairs.of(user_id)):
        raise ApiError(403, "Quota exceeded, too many key pairs.")
    public_key = attributes.get("public_key") or _made_key()
    made = keypairs.add(attributes["name"], attributes.get("type", "ssh"), public_key, user_id, now_us)
    if made is None:
        raise ApiError(409, f"Key pair '{attributes['name']}' already exists.")
    return made, attributes


def _brief(each: Keypair) -> dict[str, Any]:
    shown = {"name": each.name, "public_key": each.public_key, "fingerprint": each.fingerprint}
    return shown | ({"type": each.kind} if g.version >= (2, 2) else {})


def _read() -> dict[str, Any]:
    """What POST asks for, as Nova's schema has it."""
    attributes = body_part("keypair")
    if not isinstance(attributes, dict):
        raise ApiError(400, "Invalid input for field/attribute keypair. 'keypair' is a required property")
    known = {"name", "public_key"}
    known |= {"type"} if g.version >= (2, 2) else set()
    known |= {"user_id"} if g.version >= (2, 10) else set()
    pattern = _NAME_SINCE_2_92 if g.version >= (2, 92) else _NAME
    name = attributes.get("name")
    if not attributes.keys() <= known or not isinstance(name, str) or not pattern.fullmatch(name):
        raise wrong_value("keypair", attributes)
    if attributes.get("type", "ssh") not in {"ssh", "x509"}:
        raise wrong_value("type", attributes["type"])
    if g.version >= (2, 92) and "public_key" not in attributes:
        raise ApiError(400, "Invalid input for field/attribute keypair. 'public_key' is a required property")
    if "public_key" in attributes and _blob(attributes["public_key"]) is None:
        raise ApiError(400, "Keypair data is invalid: failed to generate fingerprint")
    return attributes


def _blob(public_key: object) -> bytes | None:
    """The key itself; None where the text is none."""
    words = public_key.split() if isinstance(public_key, str) else []
    try:
        return base64.b64decode(words[1], validate=True) if len(words) > 1 else None
    except binascii.Error:
        return None


def _made_key() -> str:
    """A public key of the right form; nobody has its other half."""
    modulus = b"\0" + bytes([secrets.randbits(7) | 0x80]) + secrets.token_bytes(_BITS // 8 - 1)
    parts = (b"ssh-rsa", b"\x01\x00\x01", modulus)
    blob = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    return f"ssh-rsa {base64.b64encode(blob).decode()} Generated-by-Nova"
