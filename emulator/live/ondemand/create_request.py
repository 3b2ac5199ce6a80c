"""Reading the body of POST /servers as Nova's schema does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.live.ondemand.image import image_id
from emulator.live.ondemand.servers import ServerSpec

if TYPE_CHECKING:
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


class BadRequestError(Exception):
    """400; the text is the answer's message."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A checked body of POST /servers."""

    body: dict[str, Any]
    count: int

    @property
    def return_reservation(self) -> bool:
        return str(self.body.get("return_reservation_id", "")).lower() in {"1", "true"}

    def spec(self, account: Account, request_id: str) -> ServerSpec:
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
        )


def read_create(document: object, version: tuple[int, int], config: OndemandConfig) -> CreateRequest:
    """Check the whole body before anything is made; raises BadRequestError."""
    body = document.get("server") if isinstance(document, dict) else None
    if not isinstance(body, dict):
        raise BadRequestError("Invalid input for field/attribute server. 'server' is a required property")
    _check_schema(body, version)
    _check_references(body, config)
    least = _count(body, "min_count", 1)
    count = _count(body, "max_count", least)
    if least > count:
        raise BadRequestError("min_count must be <= max_count")
    return CreateRequest(body, count)


def _check_schema(body: dict[str, Any], version: tuple[int, int]) -> None:
    def fail(rule: str) -> None:
        raise BadRequestError(f"Invalid input for field/attribute server. Value: {body}. {rule}")

    required = (*_REQUIRED, "networks") if version >= (2, 37) else _REQUIRED
    for key in required:
        if key not in body:
            fail(f"'{key}' is a required property")
    for key in body:
        if key not in _KNOWN:
            fail(f"Additional properties are not allowed ('{key}' was unexpected)")
    if not isinstance(body["name"], str) or not body["name"].strip():
        raise BadRequestError(f"Invalid input for field/attribute name. Value: {body['name']}.")
    networks = body.get("networks", [])
    allowed = isinstance(networks, list) or (version >= (2, 37) and networks in {"auto", "none"})
    if not allowed:
        text = f"'{networks}' is not of type 'array'"
        raise BadRequestError(f"Invalid input for field/attribute networks. Value: {networks}. {text}")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadRequestError(f"Invalid input for field/attribute metadata. Value: {metadata}.")


def _check_references(body: dict[str, Any], config: OndemandConfig) -> None:
    if not body.get("imageRef"):
        raise BadRequestError("Missing imageRef attribute")
    if body["imageRef"] != image_id(config.image):
        raise BadRequestError("Can not find requested image")
    flavor = str(body["flavorRef"]).rstrip("/").rsplit("/", 1)[-1]
    if flavor != config.flavor.id:
        raise BadRequestError(f"Flavor {flavor} could not be found.")
    if body.get("availability_zone") not in {None, _ZONE}:
        raise BadRequestError("The requested availability zone is not available")


def _count(body: dict[str, Any], key: str, default: int) -> int:
    value = body.get(key, default)
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise BadRequestError(f"Invalid input for field/attribute {key}. Value: {value}.")
    return count
