"""Moves of nodes between pools as arrays: what compiled runs leave behind, and what figures are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, overload

import numpy as np

from emulator.kernel.compiled import compiled
from emulator.record.run_record import NodePool, PoolMove

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from emulator.kernel.tables import Ints, Ints32

POOLS = tuple(NodePool)
CODE = {pool: code for code, pool in enumerate(POOLS)}
"""The pools' places in arrays."""


@compiled
def pool_changes(  # noqa: PLR0917 - compiled code has no keywords
    pool: Ints, first: Ints, many: Ints, node: Ints32, place: Ints, was: Ints, change: Ints
) -> None:
    """How many nodes more each pool has after each of the moves `place`, which are in order of time.

    `was`: the pool of each node before, then after all moves. `change`: zeros, one row a move, one column a pool.
    """
    for k in range(place.shape[0]):
        one = place[k]
        to = pool[one]
        for at in range(first[one], first[one] + many[one]):
            change[k, was[node[at]]] -= 1
            change[k, to] += 1
            was[node[at]] = to


@compiled
def come_back(
    fails: NDArray[np.bool_], first: Ints, many: Ints, node: Ints32, is_down: NDArray[np.bool_]
) -> None:
    """Mark in `fails`, where moves are that nodes fail with, also those that have one of these nodes next.

    `is_down`: no node, before.
    """
    for k in range(first.shape[0]):
        goes_down = fails[k]
        for at in range(first[k], first[k] + many[k]):
            if is_down[node[at]]:
                fails[k] = True
            is_down[node[at]] = goes_down


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MoveTable(Sequence[PoolMove]):
    """Moves as columns. Move k: the nodes `node[first[k]:first[k] + many[k]]` go to `POOLS[pool[k]]` at `at_us[k]`.

    Several moves may have their nodes in one place. It equals any sequence of the same moves.
    """

    at_us: NDArray[np.int64]
    pool: NDArray[np.int64]
    first: NDArray[np.int64]
    many: NDArray[np.int64]
    node: NDArray[np.int32]

    @classmethod
    def of(cls, moves: Iterable[PoolMove]) -> MoveTable:
        """The same moves as columns."""
        if isinstance(moves, MoveTable):
            return moves
        listed = list(moves)
        count = np.array([len(move.nodes) for move in listed], np.int64)
        return cls(
            at_us=np.array([move.at_us for move in listed], np.int64),
            pool=np.array([CODE[move.pool] for move in listed], np.int64),
            first=np.cumsum(count) - count,
            many=count,
            node=np.fromiter(chain.from_iterable(move.nodes for move in listed), np.int32, count.sum()),
        )

    def __len__(self) -> int:
        return len(self.at_us)

    @overload
    def __getitem__(self, place: int) -> PoolMove: ...
    @overload
    def __getitem__(self, place: slice) -> MoveTable: ...
    def __getitem__(self, place: int | slice) -> PoolMove | MoveTable:
        if isinstance(place, slice):
            return MoveTable(
                self.at_us[place], self.pool[place], self.first[place], self.many[place], self.node
            )
        first, count = int(self.first[place]), int(self.many[place])
        nodes = tuple(self.node[first : first + count].tolist())
        return PoolMove(int(self.at_us[place]), nodes, POOLS[self.pool[place]])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == its for one, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def has(self, *pools: NodePool) -> bool:
        """Whether any node goes to one of these pools."""
        return bool(np.isin(self.pool, [CODE[pool] for pool in pools]).any())

    def are_failures(self) -> NDArray[np.bool_]:
        """Of each move whether nodes fail with it, or one of its nodes had failed."""
        fails: NDArray[np.bool_] = self.pool == CODE[NodePool.DOWN]
        if fails.any():
            is_down = np.zeros(int(self.node.max(initial=0)) + 1, np.bool_)
            come_back(fails, self.first, self.many, self.node, is_down)
        return fails

    def changes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(time of each move in order of time, change of each pool's nodes by it: one column a pool).

        A node that moves leaves one pool and enters another; before its first move it is in the batch pool.
        """
        place = np.argsort(self.at_us, kind="stable")
        was = np.full(int(self.node.max(initial=0)) + 1, CODE[NodePool.OA_IDLE], np.int64)
        change = np.zeros((len(self), len(POOLS)), np.int64)
        if len(self):
            pool_changes(self.pool, self.first, self.many, self.node, place, was, change)
        return self.at_us[place], change
