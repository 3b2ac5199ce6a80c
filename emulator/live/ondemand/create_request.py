"""Reading the body of POST /servers as Nova's schema does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.live.ondemand.compute_checks import forbidden, wrong_value
from emulator.live.ondemand.create_rules import is_offered, is_true, is_uuid, wrong_field
from emulator.live.ondemand.http import ApiError
from emulator.live.ondemand.image import image_id
from emulator.live.ondemand.servers import ServerSpec

if TYPE_CHECKING:
    from collections.abc import Collection

    from emulator.live.ondemand.auth import Account
    from emulator.live.ondemand.config import OndemandConfig

_KNOWN = frozenset(
    {
        "name",
        "imageRef",
        "flavorRef",
        "adminPass",
        "metadata",
        "networks",
        "OS-DCF:diskConfig",
        "accessIPv4",
        "accessIPv6",
        "personality",
        "availability_zone",
        "block_device_mapping",
        "block_device_mapping_v2",
        "config_drive",
        "key_name",
        "min_count",
        "max_count",
        "return_reservation_id",
        "security_groups",
        "user_data",
        "description",
        "tags",
        "trusted_image_certificates",
        "host",
        "hypervisor_hostname",
        "hostname",
    }
)
_REQUIRED = ("name", "flavorRef")
_ZONE = "nova"
METADATA_ITEMS = 128


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A checked body of POST /servers."""

    body: dict[str, Any]
    count: int
    group_id: str | None = None

    @property
    def return_reservation(self) -> bool:
        return str(self.body.get("return_reservation_id", "")).lower() in {"1", "true"}

    def spec(self, account: Account, request_id: str, *, impossible: str = "") -> ServerSpec:
        body = self.body
        return ServerSpec(
            account=account,
            name=body["name"],
            count=self.count,
            image_id=body["imageRef"],
            with_address=body.get("networks") not in ("none", []),
            metadata=body.get("metadata") or {},
            tags=tuple(body.get("tags") or ()),
            description=body.get("description"),
            availability_zone=body.get("availability_zone"),
            user_data=body.get("user_data"),
            request_id=request_id,
            key_name=body.get("key_name"),
            group_id=self.group_id,
            flavor_id=flavor_of(body),
            admin_pass=body.get("adminPass") or "",
            config_drive=is_true(body.get("config_drive")),
            impossible=impossible,
        )


def read_create(
    document: object,
    version: tuple[int, int],
    config: OndemandConfig,
    *,
    admin: bool = False,
    hosts: Collection[str] = (),
    keys: Collection[str] = (),
    groups: Collection[str] = (),
    flavors: Collection[str] = (),
) -> CreateRequest:
    """Check the whole body before anything is made; raises ApiError.

    `hosts`, `keys`, `groups` and `flavors`: what there is that it may name.
    """
    whole = document if isinstance(document, dict) else {}
    body = whole.get("server")
    if not isinstance(body, dict):
        raise ApiError(400, "Invalid input for field/attribute server. 'server' is a required property")
    _check_schema(body, version)
    _check_rights(body, admin=admin)
    _check_references(body, config, hosts, keys, flavors)
    hints = whole.get("os:scheduler_hints", whole.get("OS-SCH-HNT:scheduler_hints"))
    group_id = _group_of(hints, groups)
    least = _count(body, "min_count", 1)
    count = _count(body, "max_count", least)
    if least > count:
        raise ApiError(400, "min_count must be <= max_count")
    return CreateRequest(body, count, group_id)


def _check_schema(body: dict[str, Any], version: tuple[int, int]) -> None:
    def fail(rule: str) -> None:
        raise ApiError(400, f"Invalid input for field/attribute server. Value: {body}. {rule}")

    required = (*_REQUIRED, "networks") if version >= (2, 37) else _REQUIRED
    for key in required:
        if key not in body:
            fail(f"'{key}' is a required property")
    for key in body:
        if key not in _KNOWN or not is_offered(key, version):
            fail(f"Additional properties are not allowed ('{key}' was unexpected)")
    wrong = wrong_field(body)
    if wrong is not None:
        raise wrong_value(wrong, body[wrong])
    networks = body.get("networks", [])
    allowed = isinstance(networks, list) or (version >= (2, 37) and networks in {"auto", "none"})
    if not allowed:
        text = f"'{networks}' is not of type 'array'"
        raise ApiError(400, f"Invalid input for field/attribute networks. Value: {networks}. {text}")


def _check_rights(body: dict[str, Any], *, admin: bool) -> None:
    for field in ("host", "hypervisor_hostname"):
        if field in body and not admin:
            raise forbidden("compute:servers:create:requested_destination")
    if ":" in (body.get("availability_zone") or "") and not admin:
        raise forbidden("os_compute_api:servers:create:forced_host")
    if len(body.get("metadata") or {}) > METADATA_ITEMS:
        raise ApiError(403, f"Maximum number of metadata items exceeds {METADATA_ITEMS}")


def _group_of(hints: object, groups: Collection[str]) -> str | None:
    """The server group that a create names."""
    if hints is None:
        return None
    if not isinstance(hints, dict):
        raise wrong_value("os:scheduler_hints", hints)
    if "group" not in hints:
        return None
    group = hints["group"]
    if not is_uuid(group):
        raise wrong_value("group", group)
    if group not in groups:
        raise ApiError(400, f"Instance group {group} could not be found.")
    return str(group)


def _check_references(
    body: dict[str, Any],
    config: OndemandConfig,
    hosts: Collection[str],
    keys: Collection[str],
    flavors: Collection[str],
) -> None:
    for field in ("host", "hypervisor_hostname"):
        if field in body and body[field] not in hosts:
            raise ApiError(400, f"Compute host {body[field]} could not be found.")
    if "key_name" in body and body["key_name"] not in keys:
        raise ApiError(400, "Invalid key_name provided.")
    if not body.get("imageRef"):
        raise ApiError(400, "Missing imageRef attribute")
    if body["imageRef"] != image_id(config.image):
        raise ApiError(400, "Can not find requested image")
    if flavor_of(body) not in flavors:
        raise ApiError(400, f"Flavor {flavor_of(body)} could not be found.")
    if body.get("availability_zone") not in {None, _ZONE}:
        raise ApiError(400, "The requested availability zone is not available")


def flavor_of(body: dict[str, Any]) -> str:
    """Its identifier, which may come as a link."""
    return str(body["flavorRef"]).rstrip("/").rsplit("/", 1)[-1]


def _count(body: dict[str, Any], key: str, default: int) -> int:
    value = body.get(key, default)
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise wrong_value(key, value)
    return count


_REBUILD = frozenset(
    {
        "name", "imageRef", "adminPass", "metadata", "preserve_ephemeral", "OS-DCF:diskConfig", "accessIPv4",
        "accessIPv6", "personality", "description", "key_name", "user_data", "trusted_image_certificates", "hostname",
    }
)  # fmt: skip


def read_rebuild(body: object, version: tuple[int, int], config: OndemandConfig) -> dict[str, Any]:
    """What the action `rebuild` is told; raises ApiError."""
    if not isinstance(body, dict) or "imageRef" not in body:
        raise ApiError(400, "Invalid input for field/attribute rebuild. 'imageRef' is a required property")
    unknown = [name for name in body if name not in _REBUILD or not is_offered(name, version)]
    if unknown:
        raise ApiError(400, f"Additional properties are not allowed ('{unknown[0]}' was unexpected)")
    if (wrong := wrong_field(body)) is not None:
        raise wrong_value(wrong, body[wrong])
    if body["imageRef"] != image_id(config.image):
        raise ApiError(400, "Cannot find image for rebuild")
    return body
