"""What Nova's schema says of each field of POST /servers. A table of rules; nothing here knows the site."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 255
MOST_TAGS, _LONGEST_TAG = 50, 60
_LONGEST_USER_DATA = 65_535
_METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")
_HOST_NAME = re.compile(r"[a-zA-Z0-9\-._]{2,255}")
_NETWORK = frozenset({"uuid", "fixed_ip", "port", "tag"})
_TRUE = frozenset({"true", "1", "on", "yes", "t", "y"})
_FALSE = frozenset({"false", "0", "off", "no", "f", "n"})
"""As oslo's strict parser has them."""

_SINCE = {
    "description": (2, 19),
    "tags": (2, 52),
    "trusted_image_certificates": (2, 63),
    "host": (2, 74),
    "hypervisor_hostname": (2, 74),
    "hostname": (2, 90),
}
_BEFORE = {"personality": (2, 57)}


def is_offered(field: str, version: tuple[int, int]) -> bool:
    """Whether this version of the API has the field."""
    return _SINCE.get(field, version) <= version and not version >= _BEFORE.get(field, (9, 0))


def is_boolean(value: object) -> bool:
    return isinstance(value, bool) or str(value).lower() in _TRUE | _FALSE


def is_true(value: object) -> bool:
    return str(value).lower() in _TRUE


def is_uuid(value: object) -> bool:
    try:
        uuid.UUID(str(value))
    except ValueError:
        return False
    return True


def _is_text(value: object, longest: int = _LONGEST) -> bool:
    return isinstance(value, str) and len(value) <= longest


def is_named(value: object) -> bool:
    """Whether a server may be called so."""
    return _is_text(value) and bool(str(value).strip())


def is_tags(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MOST_TAGS
        and all(_is_text(tag, _LONGEST_TAG) and tag and not set(tag) & set(",/") for tag in value)
    )


def _is_address(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        try:
            kind(str(value))
        except ValueError:
            return value in ("", None)
        return True

    return check


def _is_user_data(value: object) -> bool:
    if value is None:
        return True
    if not _is_text(value, _LONGEST_USER_DATA):
        return False
    try:
        base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_metadata(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and _METADATA_KEY.fullmatch(key) and _is_text(text)
        for key, text in value.items()
    )


def _is_networks(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list)
        and all(
            isinstance(network, dict)
            and network.keys() <= _NETWORK
            and is_uuid(network.get("uuid", uuid.UUID(int=0)))
            for network in value
        )
    )


def _is_groups(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(group, dict) and group.keys() <= {"name"} and _is_text(group.get("name", ""))
        for group in value
    )


_RULES: dict[str, Callable[[Any], bool]] = {
    "name": is_named,
    "description": lambda value: value is None or _is_text(value),
    "key_name": is_named,
    "adminPass": _is_text,
    "tags": is_tags,
    "hostname": lambda value: isinstance(value, str) and _HOST_NAME.fullmatch(value) is not None,
    "config_drive": lambda value: value in ("", None) or is_boolean(value),
    "OS-DCF:diskConfig": lambda value: value in ("AUTO", "MANUAL"),
    "accessIPv4": _is_address(ipaddress.IPv4Address),
    "accessIPv6": _is_address(ipaddress.IPv6Address),
    "user_data": _is_user_data,
    "metadata": _is_metadata,
    "networks": _is_networks,
    "return_reservation_id": is_boolean,
    "security_groups": _is_groups,
    "availability_zone": lambda value: value is None or is_named(value),
    "host": is_named,
    "hypervisor_hostname": is_named,
}
"""Field -> whether its value may be."""


def wrong_field(body: dict[str, Any]) -> str | None:
    """The first field whose value may not be so; None: all may."""
    return next(
        (field for field, value in body.items() if field in _RULES and not _RULES[field](value)), None
    )
