"""How nodes lie to each other, and which of them a job should get together: the scenario's `placement`.

Nodes have positions on a line; a torus is put on a line by a curve through it, so that nodes that are close on the line
are close in the torus (V. Leung et al., Processor allocation on Cplant, CLUSTER 2002). The nodes of a leaf switch of
a tree, or of a group of a dragonfly, are a unit. The policies are those of G. Lucarelli et al., Contiguity and locality
in backfilling scheduling, CCGrid 2015 (`docs/placement.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.switches import leaf_switches
from emulator.config.scenario_parts import PlacementPart
from emulator.kernel.compact import Goal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord, RunTable

_MOST = 5
_GOALS = {
    "basic": (Goal.BASIC, False),
    "best_effort_contiguous": (Goal.CONTIGUOUS, False),
    "contiguous": (Goal.CONTIGUOUS, True),
    "best_effort_local": (Goal.LOCAL, False),
    "local": (Goal.LOCAL, True),
}


@dataclass(frozen=True, eq=False)
class Interconnect:
    """`order[p]`: the node at position p, `rank` the other way round; `unit[p]`: its unit, which are counted up.

    `has_units`: the parts of a job are its units, else its runs of consecutive positions. `required`: a job waits until
    it can have what the policy says. `penalty`: by which share a run takes longer for each part beyond those; `kills`:
    no longer than its estimate. `dimensions`: of a torus.
    """

    order: NDArray[np.int32]
    rank: NDArray[np.int32]
    unit: NDArray[np.int32]
    has_units: bool
    goal: Goal
    required: bool
    penalty: float = 0.0
    kills: bool = False
    dimensions: tuple[int, ...] = ()

    def fewest(self, widths: NDArray[np.int64]) -> NDArray[np.int64]:
        """The fewest parts that jobs of so many nodes can have on an empty machine."""
        return self.fewest_of_width[widths]

    @cached_property
    def unit_begin(self) -> NDArray[np.int32]:
        """The first position of each unit."""
        return np.flatnonzero(np.diff(self.unit, prepend=-1)).astype(np.int32)

    @cached_property
    def fewest_of_width(self) -> NDArray[np.int64]:
        """The same for each width, from 0 on: the largest units come first."""
        widths = np.arange(len(self.order) + 1)
        if not self.has_units:
            return np.ones_like(widths)
        largest = np.sort(np.bincount(self.unit))[::-1]
        return np.searchsorted(np.cumsum(largest), widths) + (widths > 0)

    def parts(self, runs: RunTable) -> NDArray[np.int64]:
        """The parts of each run."""
        return self._breaks(runs, self.has_units)

    def pieces(self, runs: RunTable) -> NDArray[np.int64]:
        """Runs of consecutive positions of each run's nodes."""
        return self._breaks(runs, by_unit=False)

    def _breaks(self, runs: RunTable, by_unit: bool) -> NDArray[np.int64]:
        row = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
        place = self.rank[runs.node].astype(np.int64)
        sorted_ = np.lexsort((place, row))
        row, place = row[sorted_], place[sorted_]
        begins = np.ones(len(row), np.bool_)
        new_row = row[1:] != row[:-1]
        if by_unit:
            unit = self.unit[place]
            begins[1:] = new_row | (unit[1:] != unit[:-1])
        else:
            begins[1:] = new_row | (place[1:] != place[:-1] + 1)
        return np.bincount(row[begins], minlength=len(runs.job)).astype(np.int64)

    def mean_hops(self, nodes: NDArray[np.int32]) -> float:
        """The mean distance of two different nodes of a job in a torus, in hops; 0 for one node."""
        count = len(nodes)
        if count < 2:  # noqa: PLR2004 - a pair
            return 0.0
        total = 0
        for side, where in zip(
            self.dimensions, np.unravel_index(nodes.astype(np.int64), self.dimensions), strict=True
        ):
            there = np.bincount(where, minlength=side)
            for step in range(1, side):
                total += min(step, side - step) * int(there @ np.roll(there, step))
        return total / (count * (count - 1))


def interconnect_of(part: PlacementPart, nodes: int, *, kills: bool = False) -> Interconnect:
    """The `placement` of a scenario on so many nodes. Raises ValueError naming the key."""
    goal, required = _GOALS[part.policy]
    order = np.arange(nodes, dtype=np.int32)
    unit = np.zeros(nodes, np.int32)
    if part.topology == "torus":
        if prod(part.dimensions) != nodes:
            sides = " x ".join(map(str, part.dimensions))
            raise ValueError(
                f"placement.dimensions: {sides} are {prod(part.dimensions)} nodes; there are {nodes}"
            )
        order = (hilbert if part.curve == "hilbert" else snake)(part.dimensions)
    elif part.switches is not None:
        leaves = leaf_switches(part.switches, nodes)
        order = np.concatenate(leaves).astype(np.int32)
        unit = np.repeat(np.arange(len(leaves), dtype=np.int32), [len(leaf) for leaf in leaves])
    elif part.topology != "line":
        unit = order // np.int32(part.switch_nodes or part.group_nodes or nodes)
    rank = np.empty_like(order)
    rank[order] = np.arange(nodes, dtype=np.int32)
    return Interconnect(
        order=order,
        rank=rank,
        unit=unit,
        has_units=part.topology in {"tree", "dragonfly"},
        goal=goal,
        required=required,
        penalty=part.spread_penalty,
        kills=kills,
        dimensions=tuple(part.dimensions),
    )


def interconnect_in(record: RunRecord) -> Interconnect | None:
    """That of a run; None if it had none, or its nodes were not recorded."""
    said = record.scenario.get("placement")
    if not said or not len(record.runs.node):
        return None
    return interconnect_of(PlacementPart.model_validate(said), len(record.node_names))


def scattered(record: RunRecord) -> Iterator[str]:
    """A sentence for each of the first runs that have more parts than their policy lets them have."""
    wires = interconnect_in(record)
    if wires is None or not wires.required:
        return
    runs = record.runs
    widths = np.diff(runs.first)
    if wires.goal == Goal.LOCAL:
        parts, fewest, what = wires.parts(runs), wires.fewest(widths), "switches or groups"
    else:
        parts, fewest, what = wires.pieces(runs), np.ones_like(widths), "runs of consecutive nodes"
    for row in np.flatnonzero(parts > fewest)[:_MOST]:
        number = record.jobs.number[runs.job[row]]
        yield f"job {number} is on {parts[row]} {what}; {fewest[row]} are required"


def snake(dimensions: tuple[int, ...]) -> NDArray[np.int32]:
    """Nodes along the S-curve: there and back in the last dimension, row by row. Neighbours on it are neighbours."""
    rows = np.zeros((1, 0), np.int64)
    for side in dimensions:
        turned = [np.arange(side)[:: -1 if which % 2 else 1] for which in range(len(rows))]
        rows = np.hstack((np.repeat(rows, side, axis=0), np.concatenate(turned)[:, None]))
    return np.asarray(np.ravel_multi_index(tuple(rows.T), dimensions), np.int32)


def hilbert(dimensions: tuple[int, ...]) -> NDArray[np.int32]:
    """Nodes along Hilbert's curve; all sides must be one power of two. Raises ValueError.

    (J. Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707, 2004: from a place on the curve to coordinates.)
    """
    side = dimensions[0]
    bits = side.bit_length() - 1
    if set(dimensions) != {side} or side != 1 << bits:
        raise ValueError(
            "placement.curve: hilbert needs dimensions that are all the same power of two; take snake for others"
        )
    count = len(dimensions)
    return np.array(
        [np.ravel_multi_index(tuple(_coordinates(at, count, bits)), dimensions) for at in range(side**count)],
        np.int32,
    )


def _coordinates(at: int, count: int, bits: int) -> list[int]:
    """Where a place on Hilbert's curve is."""
    x = [0] * count
    for bit in range(bits * count):  # the bits of the place, dealt out from the highest
        which = bits * count - 1 - bit
        x[bit % count] = x[bit % count] << 1 | (at >> which & 1)
    turn = x[-1] >> 1
    for i in range(count - 1, 0, -1):
        x[i] ^= x[i - 1]
    x[0] ^= turn
    level = 2
    while level != 1 << bits and bits:
        lower = level - 1
        for i in range(count - 1, -1, -1):
            if x[i] & level:
                x[0] ^= lower
            else:
                turn = (x[0] ^ x[i]) & lower
                x[0] ^= turn
                x[i] ^= turn
        level <<= 1
    return x
