"""What a user makes of a server that runs: stopped, paused, suspended, rescued, built anew. Its node stays its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flask import g

from emulator.live.ondemand.compute_checks import wrong_value
from emulator.live.ondemand.http import ApiError
from emulator.live.ondemand.servers import Action

if TYPE_CHECKING:
    from collections.abc import Collection

    from emulator.live.ondemand.servers import Server


VM_STATES = {
    "BUILD": "building", "ACTIVE": "active", "SHUTOFF": "stopped", "ERROR": "error", "PAUSED": "paused",
    "SUSPENDED": "suspended", "RESCUE": "rescued", "DELETED": "deleted",
}  # fmt: skip
"""Status of the API -> Nova's own state."""
_NEW = {"ACTIVE", "SHUTOFF", "ERROR"}


@dataclass(frozen=True, slots=True)
class Change:
    """An action: what Nova calls it, from which statuses it leads, and to which (None: it stays as it is)."""

    name: str
    allowed: frozenset[str]
    to: str | None = None
    since: tuple[int, int] = (2, 1)


def _change(name: str, allowed: set[str], to: str | None = None, since: tuple[int, int] = (2, 1)) -> Change:
    return Change(name, frozenset(allowed), to, since)


_CHANGES = {
    "os-stop": _change("stop", {"ACTIVE", "ERROR"}, "SHUTOFF"),
    "os-start": _change("start", {"SHUTOFF"}, "ACTIVE"),
    "reboot": _change("reboot", {"ACTIVE"}, "ACTIVE"),
    "pause": _change("pause", {"ACTIVE"}, "PAUSED"),
    "unpause": _change("unpause", {"PAUSED"}, "ACTIVE"),
    "suspend": _change("suspend", {"ACTIVE"}, "SUSPENDED"),
    "resume": _change("resume", {"SUSPENDED"}, "ACTIVE"),
    "rescue": _change("rescue", _NEW, "RESCUE"),
    "unrescue": _change("unrescue", {"RESCUE"}, "ACTIVE"),
    "rebuild": _change("rebuild", _NEW, "ACTIVE"),
    "changePassword": _change("changePassword", {"ACTIVE"}),
    "trigger_crash_dump": _change("trigger_crash_dump", {"ACTIVE", "PAUSED", "RESCUE", "ERROR"}, since=(2, 17)),
    "confirmResize": _change("confirmResize", set()),
    "revertResize": _change("revertResize", set()),
}  # fmt: skip
"""As the decorators of nova/compute/api.py have it. No server is ever resized, so there is nothing to confirm."""
_HARD = _change("reboot", {"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "ERROR"}, "ACTIVE")


def is_change(name: str) -> bool:
    return name in _CHANGES


def is_later(name: str, version: tuple[int, int]) -> bool:
    """Whether it came with a later version of the API."""
    return name in _CHANGES and version < _CHANGES[name].since


def change(server: Server, name: str, arguments: Any, now_us: int) -> None:
    """Do it, or raise what Nova answers. The arguments have been looked at."""
    check_lock(server)
    transition = _HARD if name == "reboot" and arguments["type"] == "HARD" else _CHANGES[name]
    allowed = transition.allowed if server.launched_us is not None else frozenset()
    check_status(server, transition.name, allowed, now_us)
    if transition.to is not None:
        server.condition = "" if transition.to == "ACTIVE" else transition.to
    note(server, transition.name, now_us)


def reset(server: Server, arguments: Any, now_us: int) -> None:
    """An administrator says what state it is in. One that never started stays in ERROR: there is nothing to reset."""
    state = arguments.get("state") if isinstance(arguments, dict) else None
    if state not in {"active", "error"}:
        raise wrong_value("state", state)
    server.condition = "ERROR" if state == "error" else ""
    server.updated_us = now_us


MAY_CHANGE = frozenset({"ACTIVE", "PAUSED", "SUSPENDED", "SHUTOFF"})
"""Statuses in which tags and metadata may change."""


def check_status(server: Server, verb: str, allowed: Collection[str], now_us: int) -> None:
    status = server.status(now_us)
    if status not in allowed:
        text = f"Cannot '{verb}' instance {server.id} while it is in vm_state {VM_STATES[status]}"
        raise ApiError(409, text)


def check_lock(server: Server) -> None:
    if server.locked and not g.account.admin:
        raise ApiError(409, f"Instance {server.id} is locked")


def note(server: Server, name: str, now_us: int) -> None:
    """In the server's history."""
    server.updated_us = now_us
    server.actions.append(Action(name, g.request_id, now_us, now_us))
