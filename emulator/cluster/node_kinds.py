"""Kinds of nodes whose parts are shared: which nodes are of which, and what each has (`docs/shared-nodes.md`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.config.node_names import nodes_by_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.config.scenario_parts import SharedNodesPart

_KIB_PER_GIB = 1024**2


@dataclass(frozen=True, slots=True)
class NodeKind:
    """These nodes (indices) have so many cores, so much memory and so many GPUs; None: nobody looks at it."""

    name: str
    nodes: frozenset[int]
    cores: int
    memory_kib: int | None = None
    gpus: int | None = None

    @property
    def room(self) -> tuple[int, int, int]:
        """What an empty node has left, 0 of what nobody looks at."""
        return self.cores, self.memory_kib or 0, self.gpus or 0


def kinds_of(part: SharedNodesPart, names: Sequence[str]) -> tuple[NodeKind, ...]:
    """The kinds of nodes with these names, the smallest first: by cores, memory, GPUs, name. Raises ValueError.

    Where memory is said of any kind it must be of all; a kind without GPUs has none where another has some.
    """
    if part.cores is not None:
        whole = frozenset(range(len(names)))
        return (NodeKind("all", whole, part.cores, _kib(part.memory_gib), part.gpus),)
    has_gpus = any(each.gpus for each in part.kinds.values())
    without = [name for name, each in sorted(part.kinds.items()) if each.memory_gib is None]
    if without and len(without) < len(part.kinds):
        raise ValueError(
            f"shared_nodes.kinds: {without[0]} has no memory_gib, and others have: give it to all or to none"
        )
    said = {name: each.nodes for name, each in part.kinds.items()}
    found = []
    for name, nodes in nodes_by_kind("shared_nodes.kinds", said, names).items():
        each = part.kinds[name]
        gpus = (each.gpus or 0) if has_gpus else None
        found.append(NodeKind(name, nodes, each.cores, _kib(each.memory_gib), gpus))
    return tuple(sorted(found, key=lambda kind: (*kind.room, kind.name)))


def _kib(gib: float | None) -> int | None:
    return None if gib is None else int(gib * _KIB_PER_GIB)
