"""What calls of Nova's API check alike, and the error that a failed check raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from flask import g, request

from emulator.live.ondemand.http import ApiError, body_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.auth import Account
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.servers import Server

NOT_FOUND = "The resource could not be found."
Row = TypeVar("Row")


def wrong_value(name: str, value: object) -> ApiError:
    """As Nova's schemas refuse a value in a body."""
    return ApiError(400, f"Invalid input for field/attribute {name}. Value: {value}.")


def wrong_parameter(name: str, value: object) -> ApiError:
    """As Nova's schemas refuse a value in a query."""
    return ApiError(400, f"Invalid input for query parameters {name}. Value: {value}.")


def forbidden(policy: str) -> ApiError:
    return ApiError(403, f"Policy doesn't allow {policy} to be performed.")


def only_admin(policy: str) -> None:
    """`policy`: its name without the part before the colon."""
    if not g.account.admin:
        raise forbidden(f"os_compute_api:{policy}")


def find_server(cloud: Cloud, server_id: str) -> Server:
    """The server, if the caller may see it."""
    server = cloud.server(server_id)
    account: Account = g.account
    if server is None or not (account.admin or server.spec.account.project_id == account.project_id):
        raise ApiError(404, f"Instance {server_id} could not be found.")
    return server


def mapping_of(name: str) -> dict[str, Any]:
    """What the body says under this name, which must be a mapping."""
    part = body_part(name)
    if not isinstance(part, dict):
        raise wrong_value(name, part)
    return part


def after_marker(rows: list[Row], name_of: Callable[[Row], str]) -> list[Row]:
    """Those behind the one that the query's `marker` names; without one, all."""
    marker = request.args.get("marker")
    if marker is None:
        return rows
    names = [name_of(row) for row in rows]
    if marker not in names:
        raise ApiError(400, f"marker [{marker}] not found")
    return rows[names.index(marker) + 1 :]
