"""The query of a list of servers: refused where Nova refuses it, and every filter that Nova applies is applied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.timestamps import parse_iso
from emulator.live.ondemand.compute_checks import wrong_parameter
from emulator.live.ondemand.create_rules import is_boolean, is_true
from emulator.live.ondemand.http import ApiError
from emulator.live.ondemand.server_states import VM_STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from emulator.live.ondemand.auth import Account
    from emulator.live.ondemand.servers import Server


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STRICT = (2, 75)
"""From here on a parameter that Nova does not know is refused; before, it is ignored."""
_STATUSES = _words(
    "ACTIVE BUILD DELETED ERROR HARD_REBOOT MIGRATING PASSWORD PAUSED REBOOT REBUILD RESCUE RESIZE REVERT_RESIZE"
    " SHELVED SHELVED_OFFLOADED SHUTOFF SOFT_DELETED SUSPENDED UNKNOWN VERIFY_RESIZE"
)
_SORT_KEYS: dict[str, Callable[[Server], object]] = {
    "created_at": lambda server: server.created_us,
    "updated_at": lambda server: server.updated_us,
    "display_name": lambda server: server.name,
    "uuid": lambda server: server.id,
    "host": lambda server: server.host or "",
    "project_id": lambda server: server.spec.account.project_id,
    "user_id": lambda server: server.spec.account.user_id,
    "launched_at": lambda server: server.launched_us or 0,
}
_OTHER_SORT_KEYS = _words(
    "access_ip_v4 access_ip_v6 auto_disk_config availability_zone config_drive display_description hostname image_ref"
    " instance_type_id kernel_id key_name launch_index locked node power_state progress ramdisk_id root_device_name"
    " task_state vm_state"
)
_KNOWN = _words(
    "access_ip_v4 access_ip_v6 all_tenants auto_disk_config availability_zone block_device_mapping changes-before"
    " changes-since config_drive created_at deleted description display_description display_name flavor host hostname"
    " image image_ref info_cache ip ip6 kernel_id key_name launch_index launched_at limit locked marker metadata name"
    " node not-tags not-tags-any pci_devices power_state progress project_id ramdisk_id reservation_id root_device_name"
    " security_groups services soft_deleted sort_dir sort_key status system_metadata tags tags-any task_state tenant_id"
    " terminated_at user_id uuid vm_state"
)
_BOOLEANS = ("all_tenants", "deleted", "soft_deleted")


@dataclass(frozen=True, slots=True)
class ServerQuery:
    """A checked query. Filters that only administrators have are ignored for others, as Nova ignores them."""

    args: Mapping[str, str]
    account: Account

    def passes(self, server: Server, now_us: int) -> bool:
        return all(
            check(server, value)
            for name, value in self.args.items()
            if (check := self._checks(now_us).get(name)) is not None
        )

    def _checks(self, now_us: int) -> dict[str, Callable[[Server, str], bool]]:
        def tags(server: Server) -> set[str]:
            return {*server.tags}

        checks: dict[str, Callable[[Server, str], bool]] = {
            "name": lambda server, value: re.search(value, server.name, re.IGNORECASE) is not None,
            "status": lambda server, value: value.upper() == server.status(now_us),
            "reservation_id": lambda server, value: value == server.reservation.id,
            "uuid": lambda server, value: value == server.id,
            "image": lambda server, value: value == server.spec.image_id,
            "flavor": lambda server, value: value == server.spec.flavor_id,
            "availability_zone": lambda server, value: value == "nova" and server.host is not None,
            "locked": lambda server, value: is_true(value) == server.locked,
            "vm_state": lambda server, value: value.lower() == _vm_state(server, now_us),
            "tags": lambda server, value: {*value.split(",")} <= tags(server),
            "tags-any": lambda server, value: not tags(server).isdisjoint(value.split(",")),
            "not-tags": lambda server, value: not {*value.split(",")} <= tags(server),
            "not-tags-any": lambda server, value: tags(server).isdisjoint(value.split(",")),
            "changes-since": lambda server, value: server.updated_us >= parse_iso(value),
            "changes-before": lambda server, value: server.updated_us <= parse_iso(value),
        }
        if self.account.admin:
            checks |= {
                "host": lambda server, value: value == server.host,
                "project_id": lambda server, value: value == server.spec.account.project_id,
                "tenant_id": lambda server, value: value == server.spec.account.project_id,
                "user_id": lambda server, value: value == server.spec.account.user_id,
            }
        return checks

    def sorted(self, servers: list[Server]) -> list[Server]:
        """As they are (newest first) where nothing is said."""
        key = _SORT_KEYS.get(self.args.get("sort_key", ""))
        if key is None:
            return servers
        return sorted(servers, key=key, reverse=self.args.get("sort_dir", "desc") == "desc")  # type: ignore[arg-type]


def read_query(args: Mapping[str, str], version: tuple[int, int], account: Account) -> ServerQuery:
    """Raises ApiError."""
    if version >= _STRICT and (unknown := sorted(args.keys() - _KNOWN)):
        raise ApiError(400, f"Additional properties are not allowed ('{unknown[0]}' was unexpected)")
    for name in _BOOLEANS:
        if name in args and args[name] and not is_boolean(args[name]):
            raise wrong_parameter(name, args[name])
    if version >= (2, 73) and "locked" in args and not is_boolean(args["locked"]):
        raise wrong_parameter("locked", args["locked"])
    for name in ("changes-since", "changes-before"):
        if name in args:
            _check_time(name, args[name])
    status = args.get("status", "").upper()
    if version >= (2, 38) and status and status not in _STATUSES:
        raise ApiError(400, "Invalid status value")
    if args.get("sort_key", "uuid") not in _SORT_KEYS.keys() | _OTHER_SORT_KEYS:
        raise wrong_parameter("sort_key", args["sort_key"])
    if args.get("sort_dir", "asc") not in {"asc", "desc"}:
        raise wrong_parameter("sort_dir", args["sort_dir"])
    try:
        re.compile(args.get("name", ""))
    except re.error as error:
        raise ApiError(400, f"Invalid filter name: {error}") from error
    return ServerQuery(args, account)


def _check_time(name: str, value: str) -> None:
    try:
        parse_iso(value)
    except ValueError as error:
        raise wrong_parameter(name, value) from error


def _vm_state(server: Server, now_us: int) -> str:
    return VM_STATES[server.status(now_us)]
