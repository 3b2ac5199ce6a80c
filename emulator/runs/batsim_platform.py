"""Batsim's platform: SimGrid's XML with hosts and clusters (SimGrid's documentation, "Platform description").

Each host is a resource, so a node, whatever its cores are. Batsim does not compute on the host `master_host` nor on
hosts with a `role` of `master` or `storage`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from emulator.runs.platforms import Platform, one_kind
from emulator.workload.files import TraceError, open_trace

if TYPE_CHECKING:
    from pathlib import Path

_BEGINNING = 1 << 12
_PLATFORM = re.compile(r"<platform[\s>]")
_RADICAL = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_SPEED = re.compile(r"([0-9.]+(?:[eE][+-]?\d+)?)\s*(|[kKMGTPEZY]i?)f?")
_PREFIXES = "kMGTPEZY"
_MASTER = "master_host"
_NOT_COMPUTING = {"master", "storage"}


class BatsimPlatform:
    """The platform format `batsim`."""

    name = "batsim"

    def can_read(self, path: Path) -> bool:
        """True if the element `platform` begins soon."""
        with open_trace(path) as stream:
            begin = stream.read(_BEGINNING).decode("utf-8", "replace")
        return begin.lstrip("\ufeff \t\r\n").startswith("<") and _PLATFORM.search(begin) is not None

    def read_platform(self, path: Path) -> Platform:
        """All hosts that compute. Raises TraceError naming the host, or line and column of bad XML."""
        with open_trace(path) as stream:
            content = stream.read()
        try:
            root = ET.fromstring(content)  # noqa: S314 - expat bounds what entities grow to, and fetches nothing
        except ET.ParseError as error:
            raise TraceError(f"{path}: not valid XML: {error}") from error
        count = 0
        kinds: dict[str, str] = {}
        for each in root.iter():
            if each.tag == "include":
                raise TraceError(f"{path}: include {each.get('file')!r}: files that it includes are not read")
            if each.tag not in {"host", "cluster", "cabinet"} or not _computes(each):
                continue
            name = f"{each.tag} {each.get('id')!r}"
            kinds[name] = f"speed {_speed(path, name, each.get('speed') or each.get('power'))}"
            count += 1 if each.tag == "host" else _how_many(path, name, each)
        one_kind(path, kinds)
        return Platform(count)


def _computes(each: ET.Element) -> bool:
    if each.tag == "host" and each.get("id") == _MASTER:
        return False
    if f"{each.get('prefix')}{each.get('radical')}{each.get('suffix', '')}" == _MASTER:
        return False
    roles = [prop.get("value", "") for prop in each.findall("prop") if prop.get("id") == "role"]
    return not any(role.strip() in _NOT_COMPUTING for value in roles for role in value.split(","))


def _speed(path: Path, name: str, given: str | None) -> str:
    """In flop/s, of each power state."""
    states = []
    for text in (given or "").split(","):
        found = _SPEED.fullmatch(text.strip())
        if found is None:
            raise TraceError(f"{path}: {name}: speed must be as in 1Gf or 100Mf,50Mf, not {given!r}")
        base = 1024 if found[2].endswith("i") else 1000
        power = (" " + _PREFIXES).index(found[2][0].replace("K", "k")) if found[2] else 0
        states.append(f"{float(found[1]) * base**power:g}")
    return ", ".join(states)


def _how_many(path: Path, name: str, each: ET.Element) -> int:
    """The hosts of a cluster: its `radical`, as in 0-511 or 0-3,8."""
    count = 0
    for text in (each.get("radical") or "").split(","):
        found = _RADICAL.fullmatch(text.strip())
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise TraceError(
                f"{path}: {name}: radical must be as in 0-511 or 0-3,8, not {each.get('radical')!r}"
            )
        count += int(found[2] or found[1]) - int(found[1]) + 1
    return count
