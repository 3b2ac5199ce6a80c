"""Reading the body of POST /servers: what Nova refuses of it is refused, and so is what the small manager has not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.live.ondemand.fixed_services import image_id
from emulator.live.ondemand.http import ApiError, absent, wrong_value
from emulator.live.ondemand.servers import ServerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.auth import Account
    from emulator.live.ondemand.config import OndemandConfig

_ZONE = "nova"
METADATA_ITEMS = 128
_LONGEST = 255
_METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")
_NETWORKS_SINCE = (2, 37)
"""From here on a create has to say something about networks, and may say it in a word."""


def is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def is_name(value: object) -> bool:
    """Whether a server may be called so."""
    return is_text(value) and bool(str(value).strip())


def is_metadata(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and _METADATA_KEY.fullmatch(key) and is_text(text) for key, text in value.items()
    )


def _is_flag(value: object) -> bool:
    return str(value).lower() in {"true", "1", "false", "0", "yes", "no", "on", "off"}


def _is_count(value: object) -> bool:
    return str(value).isdecimal() and int(str(value)) > 0


def _anything(_: object) -> bool:
    return True


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": is_name,
    "imageRef": _anything,
    "flavorRef": _anything,
    "networks": _anything,
    "description": lambda value: value is None or is_text(value),
    "metadata": is_metadata,
    "availability_zone": lambda value: value is None or is_name(value),
    "min_count": _is_count,
    "max_count": _is_count,
    "return_reservation_id": _is_flag,
    "block_device_mapping_v2": _anything,
}
"""Field -> whether its value may be. Others are refused; those of `_anything` are looked at below."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A checked body of POST /servers."""

    body: dict[str, Any]
    count: int

    @property
    def return_reservation(self) -> bool:
        return str(self.body.get("return_reservation_id", "")).lower() in {"1", "true", "yes", "on"}

    def spec(self, account: Account) -> ServerSpec:
        body = self.body
        return ServerSpec(
            account=account,
            name=body["name"],
            count=self.count,
            image_id=body["imageRef"],
            with_address=body.get("networks") not in ("none", []),
            metadata=body.get("metadata") or {},
            description=body.get("description"),
            availability_zone=body.get("availability_zone"),
            flavor_id=_flavor_of(body),
        )


def read_create(document: object, version: tuple[int, int], config: OndemandConfig) -> CreateRequest:
    """Check the whole body before anything is made; raises ApiError."""
    whole = document if isinstance(document, dict) else {}
    body = whole.get("server")
    if not isinstance(body, dict):
        raise ApiError(400, "Invalid input for field/attribute server. 'server' is a required property")
    if len(whole) > 1:
        raise absent(f"{min(whole.keys() - {'server'})} of a create", 400)
    _check_fields(body, version)
    _check_disks(body)
    _check_references(body, config)
    least = int(body.get("min_count", 1))
    count = int(body.get("max_count", least))
    if least > count:
        raise ApiError(400, "min_count must be <= max_count")
    return CreateRequest(body, count)


def _check_fields(body: dict[str, Any], version: tuple[int, int]) -> None:
    for key in ("name", "flavorRef", *(("networks",) if version >= _NETWORKS_SINCE else ())):
        if key not in body:
            raise ApiError(400, f"Invalid input for field/attribute server. '{key}' is a required property")
    for key, value in body.items():
        if key not in _FIELDS:
            raise absent(f"field {key} of a create", 400)
        if not _FIELDS[key](value):
            raise wrong_value(key, value)
    if len(body.get("metadata") or {}) > METADATA_ITEMS:
        raise ApiError(403, f"Maximum number of metadata items exceeds {METADATA_ITEMS}")
    networks = body.get("networks", [])
    if isinstance(networks, str) and (version < _NETWORKS_SINCE or networks not in {"none", "auto"}):
        raise wrong_value("networks", networks)
    if networks not in ("none", "auto", []):
        raise absent(f"network for a server, and the create names {networks}", 400)


def _check_disks(body: dict[str, Any]) -> None:
    """The `openstack` command says here once more from which image the server starts; there are no other disks."""
    disks = body.get("block_device_mapping_v2", [])
    for disk in disks if isinstance(disks, list) else [None]:
        image = disk.get("uuid") if isinstance(disk, dict) and disk.get("source_type") == "image" else None
        if image is None or image != body.get("imageRef"):
            raise absent(f"disk for a server, and the create names {disks}", 400)


def _check_references(body: dict[str, Any], config: OndemandConfig) -> None:
    if not body.get("imageRef"):
        raise ApiError(400, "Missing imageRef attribute")
    if body["imageRef"] != image_id(config.image):
        raise ApiError(400, "Can not find requested image")
    if _flavor_of(body) != config.flavor.id:
        raise ApiError(400, f"Flavor {_flavor_of(body)} could not be found.")
    if body.get("availability_zone") not in {None, _ZONE}:
        raise ApiError(400, "The requested availability zone is not available")


def _flavor_of(body: dict[str, Any]) -> str:
    """Its identifier, which may come as a link."""
    return str(body["flavorRef"]).rstrip("/").rsplit("/", 1)[-1]
