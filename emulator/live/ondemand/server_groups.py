"""Nova's server groups. A server has a node to itself: anti-affinity always holds, affinity never with two."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, jsonify, request

from emulator.live.ondemand.compute_checks import wrong_value
from emulator.live.ondemand.http import ApiError, body_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.auth import Account
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.servers import Server


_POLICIES = ("affinity", "anti-affinity")
_SOFT = ("soft-affinity", "soft-anti-affinity")
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class ServerGroup:
    id: str
    name: str
    policy: str
    rules: dict[str, int]
    project_id: str
    user_id: str


@dataclass(slots=True)
class ServerGroups:
    """All of them, the oldest first. Safe to use from many threads."""

    _known: dict[str, ServerGroup] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, project_id: str | None) -> list[ServerGroup]:
        """Those of a project; None: of all."""
        with self._lock:
            return [each for each in self._known.values() if project_id in {None, each.project_id}]

    def get(self, group_id: str) -> ServerGroup | None:
        with self._lock:
            return self._known.get(group_id)

    def add(self, group: ServerGroup) -> None:
        with self._lock:
            self._known[group.id] = group

    def remove(self, group_id: str) -> None:
        with self._lock:
            self._known.pop(group_id, None)


def members(cloud: Cloud, group_id: str) -> list[Server]:
    """Its servers that live."""
    return [server for server in cloud.servers() if server.spec.group_id == group_id]


def add_server_groups(app: Flask, groups: ServerGroups, cloud: Cloud, limit: Callable[[str], int]) -> None:
    """All routes of this module. `limit`: how many a project may have; -1: any number."""

    def find(group_id: str) -> ServerGroup:
        account: Account = g.account
        group = groups.get(group_id)
        if group is None or not (account.admin or group.project_id == account.project_id):
            raise ApiError(404, f"Instance group {group_id} could not be found.")
        return group

    def show(group: ServerGroup) -> dict[str, Any]:
        body: dict[str, Any] = {"id": group.id, "name": group.name}
        if g.version >= (2, 64):
            body |= {"policy": group.policy, "rules": group.rules}
        else:
            body |= {"policies": [group.policy], "metadata": {}}
        if g.version >= (2, 13):
            body |= {"project_id": group.project_id, "user_id": group.user_id}
        return body | {"members": [server.id for server in members(cloud, group.id)]}

    @app.get("/v2.1/os-server-groups")
    def list_groups() -> dict[str, Any]:
        account: Account = g.account
        everybody = account.admin and "all_projects" in request.args
        rows = groups.of(None if everybody else account.project_id)
        first = int(request.args.get("offset", 0)) if request.args.get("offset", "0").isdecimal() else 0
        count = int(request.args.get("limit", 0)) or len(rows)
        return {"server_groups": [show(each) for each in rows[first : first + count]]}

    @app.get("/v2.1/os-server-groups/<group_id>")
    def show_group(group_id: str) -> dict[str, Any]:
        return {"server_group": show(find(group_id))}

    @app.post("/v2.1/os-server-groups")
    def create_group() -> Response:
        account: Account = g.account
        name, policy, rules = _read()
        most = limit(account.project_id)
        if 0 <= most <= len(groups.of(account.project_id)):
            raise ApiError(403, "Quota exceeded, too many server groups.")
        made = ServerGroup(str(uuid.uuid4()), name, policy, rules, account.project_id, account.user_id)
        groups.add(made)
        return jsonify({"server_group": show(made)})

    @app.delete("/v2.1/os-server-groups/<group_id>")
    def delete_group(group_id: str) -> Response:
        groups.remove(find(group_id).id)
        return Response(status=204, content_type="application/json")


def _read() -> tuple[str, str, dict[str, int]]:
    """Name, policy and rules of POST, as Nova's schema has them."""
    attributes = body_part("server_group")

    def refuse() -> ApiError:
        return wrong_value("server_group", attributes)

    if not isinstance(attributes, dict) or not isinstance(attributes.get("name"), str):
        raise refuse()
    if g.version >= (2, 64):
        keys, policy = {"name", "policy", "rules"}, attributes.get("policy")
    else:
        policies = attributes.get("policies")
        is_single = isinstance(policies, list) and len(policies) == 1
        keys, policy = {"name", "policies"}, policies[0] if isinstance(policies, list) and is_single else None
    known = (*_POLICIES, *_SOFT) if g.version >= (2, 15) else _POLICIES
    rules = attributes.get("rules") or {}
    if not attributes.keys() <= keys or not attributes["name"].strip() or len(attributes["name"]) > _LONGEST:
        raise refuse()
    if policy not in known or not _are_rules(rules, str(policy)):
        raise refuse()
    return attributes["name"], str(policy), {key: int(value) for key, value in rules.items()}


def _are_rules(rules: object, policy: str) -> bool:
    if not isinstance(rules, dict) or not rules.keys() <= {"max_server_per_host"}:
        return False
    if rules and policy != "anti-affinity":
        return False
    return all(str(value).isdecimal() and int(value) > 0 for value in rules.values())
