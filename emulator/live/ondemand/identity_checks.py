"""How Keystone refuses a call, and how it shows a list."""

from __future__ import annotations

from typing import Any

from flask import g, request

from emulator.live.ondemand.http import ApiError


def forbidden(policy: str) -> ApiError:
    return ApiError(403, f"You are not authorized to perform the requested action: {policy}.")


def only_admin(policy: str) -> None:
    if not g.token.account.admin:
        raise forbidden(policy)


def listed(what: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {what: rows, "links": {"next": None, "self": request.url, "previous": None}}
