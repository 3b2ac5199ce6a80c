"""AccaSim's system file: JSON with `groups` (what a node of each has) and `resources` (nodes of each group)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emulator.runs.platforms import Platform, one_kind
from emulator.workload.files import TraceError, open_trace, read_json

if TYPE_CHECKING:
    from pathlib import Path

_BEGINNING = 1 << 16
_KEYS = re.compile(r'"(groups|resources)"\s*:\s*\{')


class AccasimSystem:
    """The platform format `accasim`."""

    name = "accasim"

    def can_read(self, path: Path) -> bool:
        """True if the file is a JSON object whose beginning has one of the two keys."""
        with open_trace(path) as stream:
            begin = stream.read(_BEGINNING).decode("utf-8", "replace")
        return begin.lstrip().startswith("{") and _KEYS.search(begin) is not None

    def read_platform(self, path: Path) -> Platform:
        """Nodes of all groups; a processor of a log is a core, or as many as `equivalence` says. Raises TraceError."""
        document = read_json(path)
        groups, resources = (_object(path, document, key) for key in ("groups", "resources"))
        counts = {
            name: _whole(path, f"resources.{name}", count, least=0) for name, count in resources.items()
        }
        used = [name for name, count in counts.items() if count]
        for name in used:
            if not isinstance(groups.get(name), dict):
                raise TraceError(f"{path}: resources.{name}: `groups` does not say what such a node has")
        kind = one_kind(path, {f"a node of group {name}": groups[name] for name in used})
        cores = _whole(path, f"groups.{used[0]}.core", kind.get("core"), least=1)
        return Platform(sum(counts.values()), cores // _cores_per_processor(path, document, cores))


def _cores_per_processor(path: Path, document: dict[str, Any], cores: int) -> int:
    processor = document.get("equivalence", {})
    processor = processor.get("processor", {}) if isinstance(processor, dict) else {}
    many = processor.get("core", 1) if isinstance(processor, dict) else 1
    many = _whole(path, "equivalence.processor.core", many, least=1)
    if cores % many:
        raise TraceError(f"{path}: equivalence.processor.core: {cores} cores are not processors of {many}")
    return many


def _object(path: Path, document: dict[str, Any], key: str) -> dict[str, Any]:
    found = document.get(key)
    if not isinstance(found, dict):
        raise TraceError(f"{path}: no system of AccaSim: `{key}` must be an object")
    return found


def _whole(path: Path, key: str, value: object, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise TraceError(f"{path}: {key} must be a whole number from {least} on, not {value!r}")
    return value
