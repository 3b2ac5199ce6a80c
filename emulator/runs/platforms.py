"""Descriptions of machines by other programs, where a scenario says `nodes: FILE`.

A format is a plug-in of the group `emulator.platforms`. The plain schedulers have nodes of one kind, so a description
of several kinds is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from emulator.plugins import PluginError, make_plugin, plugin_names
from emulator.workload.files import TraceError
from emulator.workload.plugin_errors import answer_of, errors_named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from emulator.config.run_parts import WorkloadPart

GROUP = "emulator.platforms"
_MOST_NODES = 10_000_000


@dataclass(frozen=True, slots=True)
class Platform:
    """So many nodes of one kind; in a job log each counts as `procs_per_node` processors."""

    nodes: int
    procs_per_node: int = 1


class PlatformFormat(Protocol):
    """Reads one kind of description. A class with no constructor arguments, declared in the group above."""

    def can_read(self, path: Path) -> bool:
        """Whether the file's beginning looks like this format. TraceError if it cannot be opened."""

    def read_platform(self, path: Path) -> Platform:
        """The machine. TraceError naming file and place for what is wrong, and for nodes of several kinds."""


def load_platform(path: Path) -> Platform:
    """Read a description in the first format (by name) that says it can read the file. Raises TraceError."""
    names = plugin_names(GROUP)
    for name in names:
        reader: PlatformFormat = make_plugin(GROUP, name)
        found = _read(reader, path)
        if found is not None:
            if not 1 <= found.nodes <= _MOST_NODES:
                raise TraceError(f"{path}: {found.nodes} nodes; there must be 1 to {_MOST_NODES}")
            return found
    raise TraceError(f"{path}: not a machine in a known format (known: {', '.join(names)})")


def _read(reader: PlatformFormat, path: Path) -> Platform | None:
    """None if the file is of another format. Raises TraceError."""
    try:
        with errors_named(GROUP, reader, "can_read"):
            is_its = reader.can_read(path)
        return answer_of(GROUP, reader, "read_platform", Platform, path) if is_its else None
    except PluginError as error:
        raise TraceError(f"{path}: {error}") from error


def taken_from(document: dict[str, Any]) -> str | None:
    """The file that `nodes` of a scenario names, which is taken out; None if it is no file."""
    nodes = document.get("nodes")
    return document.pop("nodes") if isinstance(nodes, str) and not nodes.strip().isdecimal() else None


def with_platform(path: Path, document: Mapping[str, Any], workload: WorkloadPart) -> dict[str, Any]:
    """What the file changes of a scenario: `nodes`, and `workload.procs_per_node` unless that is said."""
    if not path.exists():
        raise ValueError(f"{str(path)!r} is neither a number nor a file that describes a machine")
    platform = load_platform(path)
    says = "procs_per_node" in document["workload"] or "shared_nodes" in document
    procs = workload.procs_per_node if says else platform.procs_per_node
    return {"nodes": platform.nodes, "workload": workload.model_copy(update={"procs_per_node": procs})}


def one_kind(path: Path, kinds: Mapping[str, Any]) -> Any:
    """What all nodes are, by name of some of them. Raises TraceError if they differ, or if there is none."""
    if not kinds:
        raise TraceError(f"{path}: there is no node to compute on")
    (first, kind), *others = kinds.items()
    for name, other in others:
        if other != kind:
            raise TraceError(
                f"{path}: {first} is {kind}, {name} is {other}: schedulers of whole nodes have nodes of one kind; "
                "say how many with `nodes: NUMBER`, and which have what with `features`"
            )
    return kind
