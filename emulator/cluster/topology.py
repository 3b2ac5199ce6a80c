"""Which sets of nodes a job may have: any (`flat`), or partitions with fixed wires (`blue_gene_q`).

A plug-in of the group `emulator.topologies` is a frozen dataclass whose `layout` says what there is on a machine
of so many nodes. A layout is data, so the compiled loops of a mechanism serve every topology alike.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np

from balancer.plugins import IN_USE
from emulator.plugins import check_number, make_plugin
from emulator.workload.plugin_errors import answer_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from balancer.plugins import Plugins

GROUP = "emulator.topologies"
MIDPLANE_NODES = 512
"""Nodes of a midplane, the unit of allocation of a Blue Gene/Q (realtime-wang-2017, section 2.2)."""


@dataclass(frozen=True, eq=False)
class Layout:
    """What there is to give away: `units` blocks of `unit_nodes` nodes each.

    `partitions`: the sets of units (sorted) that a job can have, in order of size; empty: any set of units.
    Unit u is the nodes `u * unit_nodes` to `(u + 1) * unit_nodes - 1`.
    """

    units: int
    unit_nodes: int = 1
    partitions: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] = ()

    @property
    def node_count(self) -> int:
        return self.units * self.unit_nodes

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The sizes of partitions in units, ascending; empty if any set of units will do."""
        return np.unique(np.array([len(each) for each in self.partitions], np.int64))

    @cached_property
    def overlap(self) -> NDArray[np.bool_]:
        """overlap[p, q]: p and q share a unit (q is p, its parent, its child, or in conflict with it)."""
        member = self._member.astype(np.int32)
        return (member @ member.T) > 0

    @cached_property
    def _member(self) -> NDArray[np.bool_]:
        member = np.zeros((len(self.partitions), self.units), np.bool_)
        for place, units in enumerate(self.partitions):
            member[place, list(units)] = True
        return member

    def children(self, place: int) -> list[int]:
        """Partitions that lie inside this one."""
        inside = (self._member & ~self._member[place]).sum(axis=1) == 0
        inside[place] = False
        return [int(each) for each in np.flatnonzero(inside)]

    def parents(self, place: int) -> list[int]:
        """Partitions that this one lies inside of."""
        around = (self._member[place] & ~self._member).sum(axis=1) == 0
        around[place] = False
        return [int(each) for each in np.flatnonzero(around)]

    def conflicting(self, place: int) -> list[int]:
        """Partitions that share some units with this one and not all of either."""
        related = {place, *self.children(place), *self.parents(place)}
        return [int(each) for each in np.flatnonzero(self.overlap[place]) if int(each) not in related]

    def units_for(self, nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Units that jobs of so many nodes are given: the least partition that is large enough.

        Raises ValueError for a job that fits nowhere.
        """
        wanted = -(-nodes.astype(np.int64) // self.unit_nodes)
        most = int(self.sizes[-1]) if self.partitions else self.units
        if len(wanted) and wanted.max() > most:
            raise ValueError(
                f"a job of {nodes.max()} nodes fits nowhere: the largest place has {most * self.unit_nodes}"
            )
        return self.sizes[np.searchsorted(self.sizes, wanted)] if self.partitions else wanted


@runtime_checkable
class Topology(Protocol):
    """A frozen dataclass; its fields are the parameters. Declared in GROUP."""

    def layout(self, node_count: int) -> Layout:
        """What a machine of so many nodes offers. Raises ValueError if there is no such machine."""


def layout_of(item: object, node_count: int) -> Layout:
    """What the topology that a scenario asks for (`flat`, `{flat: {unit_nodes: 16}}`) offers. Raises ValueError."""
    return _layout(json.dumps(item, sort_keys=True), node_count, IN_USE.get())


@lru_cache(maxsize=8)
def _layout(item_json: str, node_count: int, _: Plugins) -> Layout:
    """Made once: the runs of a sweep have the same machine."""
    return answer_of(GROUP, check_topology(json.loads(item_json)), "layout", Layout, node_count)


def check_topology(item: object) -> Topology:
    """The topology's plug-in. Raises ValueError for an unknown name or parameter."""
    return cast("Topology", make_plugin(GROUP, item))


@dataclass(frozen=True, slots=True)
class Flat:
    """Any node is as good as any other. `unit_nodes`: nodes that are given only together."""

    unit_nodes: int = 1

    def __post_init__(self) -> None:
        check_number("flat", "unit_nodes", self.unit_nodes, at_least=1, whole=True)

    def layout(self, node_count: int) -> Layout:
        if node_count % self.unit_nodes:
            raise ValueError(f"flat: {node_count} nodes cannot be cut into units of {self.unit_nodes}")
        return Layout(node_count // self.unit_nodes, self.unit_nodes)


Shape = tuple[int, int, int, int]
_MIRA: Shape = (2, 3, 4, 4)
_MIRA_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 1), (1, 1, 1, 2), (1, 1, 2, 2), (1, 1, 2, 4), (1, 1, 4, 4),
    (1, 3, 2, 4), (2, 1, 4, 4), (1, 3, 4, 4), (2, 2, 4, 4), (2, 3, 4, 4),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BlueGeneQ:
    """Boxes of 512-node midplanes in a torus (realtime-wang-2017, section 2.2; the defaults are Mira's).

    `torus`: midplanes in the dimensions A, B, C, D; Mira's 48 racks are 2 x 3 x 4 x 4, a value of B is a row of
    16 racks. `shapes`: the boxes that the wiring allows. A box starts at a multiple of its extent, and goes
    round the torus where its extent does not divide the dimension (two of three rows). Mira's sizes are
    512, 1024, 2048, 4096, 8192, 12288, 16384, 24576, 32768 and 49152 nodes.
    """

    torus: Shape = _MIRA
    shapes: tuple[Shape, ...] = field(default=_MIRA_SHAPES)

    def __post_init__(self) -> None:
        for name, shapes in (("torus", (self.torus,)), ("shapes", self.shapes)):
            for shape in shapes:
                _check_shape(name, shape)
        if not self.shapes:
            raise ValueError("blue_gene_q: shapes must not be empty")
        for shape in self.shapes:
            if any(extent > whole for extent, whole in zip(shape, self.torus, strict=True)):
                raise ValueError(f"blue_gene_q: shape {list(shape)} exceeds the torus {list(self.torus)}")

    def layout(self, node_count: int) -> Layout:
        units = int(np.prod(self.torus))
        if node_count != units * MIDPLANE_NODES:
            raise ValueError(
                f"blue_gene_q: a torus of {' x '.join(map(str, self.torus))} midplanes has"
                f" {units * MIDPLANE_NODES} nodes, the machine has {node_count}; set nodes or torus"
            )
        boxes = {box for shape in self.shapes for box in self._boxes(shape)}
        ordered = sorted(boxes, key=lambda box: (len(box[0]), box))
        return Layout(units, MIDPLANE_NODES, *zip(*ordered, strict=True))

    def _boxes(self, shape: Shape) -> list[tuple[tuple[int, ...], str]]:
        starts = [
            range(0, whole, extent) if whole % extent == 0 else range(whole)
            for extent, whole in zip(shape, self.torus, strict=True)
        ]
        boxes = []
        for corner in itertools.product(*starts):
            ranges = [
                [(start + step) % whole for step in range(extent)]
                for start, extent, whole in zip(corner, shape, self.torus, strict=True)
            ]
            cells = np.array(list(itertools.product(*ranges))).T
            units = tuple(sorted(int(unit) for unit in np.ravel_multi_index(tuple(cells), self.torus)))
            name = "-".join(
                f"{axis}{at}x{size}" for axis, at, size in zip("ABCD", corner, shape, strict=True)
            )
            boxes.append((units, name))
        return boxes


def _check_shape(name: str, shape: object) -> None:
    if not isinstance(shape, list | tuple) or len(shape) != 4:  # noqa: PLR2004 - A, B, C, D
        raise ValueError(f"blue_gene_q: {name}: four extents in midplanes, not {shape!r}")
    for extent in shape:
        check_number("blue_gene_q", name, extent, at_least=1, whole=True)
