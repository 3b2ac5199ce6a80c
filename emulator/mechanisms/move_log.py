"""Nodes that change pools in a mechanism's compiled run, noted to be told of afterwards."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from emulator.kernel.columns import copies, longer
from emulator.kernel.compiled import inner
from emulator.kernel.rows import new_rows
from emulator.record.moves import CODE, MoveTable
from emulator.record.run_record import NodePool

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, Ints32


class To(IntEnum):
    """Where nodes go, by its place in `MoveTable`."""

    RESERVE = CODE[NodePool.OD_RESERVE]
    ALLOC = CODE[NodePool.OD_ALLOC]
    BATCH = CODE[NodePool.OA_IDLE]
    DOWN = CODE[NodePool.DOWN]


class Move:
    """Nodes that moved to another pool."""

    at_us: int
    to: int
    """`To`."""
    first: int
    """Where they begin: in the cluster's node log, or ~place in `nodes`."""
    many: int


class MoveCounts:
    """Registers of the log."""

    moves: int
    nodes: int


class MoveLog(NamedTuple):
    """The moves, and nodes of those that are of no run."""

    moves: Rows[Move]
    nodes: Ints
    counts: MoveCounts

    def grown(self, moves: int, nodes: int) -> MoveLog:
        """The same log with room for so many more of each at least."""
        log = self
        if len(log.moves) - log.counts.moves <= moves:
            log = log._replace(moves=longer(log.moves, max(len(log.moves), moves + 1)))
        if len(log.nodes) - log.counts.nodes <= nodes:
            log = log._replace(nodes=longer(log.nodes, max(len(log.nodes), nodes + 1)))
        return log

    def table(self, node_log: Ints32) -> MoveTable:
        """All moves so far; those of runs are in the cluster's node log."""
        at_us, to, first, many = copies(
            self.moves[: self.counts.moves], dict.fromkeys(("at_us", "to", "first", "many"), np.int64)
        )
        nodes = self.nodes[: self.counts.nodes]
        return MoveTable(
            at_us=at_us,
            pool=to,
            first=np.where(first < 0, len(node_log) + ~first, first),
            many=many,
            node=np.concatenate((node_log, nodes.astype(np.int32))) if len(nodes) else node_log,
        )


def new_move_log(moves: int, nodes: int) -> MoveLog:
    """An empty log with room for so many."""
    return MoveLog(new_rows(Move, moves), np.zeros(nodes, np.int64), new_rows(MoveCounts, 1)[0])


@inner
def note_move(log: MoveLog, now: int, to: int, first: int, many: int) -> None:
    """So many nodes of the cluster's node log, from `first` on, change their pool."""
    move = log.moves[log.counts.moves]
    move.at_us = now
    move.to = to
    move.first = first
    move.many = many
    log.counts.moves += 1


@inner
def note_node(log: MoveLog, which: int) -> None:
    """A node that the next noted move is of."""
    log.nodes[log.counts.nodes] = which
    log.counts.nodes += 1


@inner
def note_move_of_noted(log: MoveLog, now: int, to: int, many: int) -> None:
    """The last `many` noted nodes change their pool."""
    note_move(log, now, to, ~(log.counts.nodes - many), many)


@inner
def has_room_for(log: MoveLog, moves: int, nodes: int) -> bool:
    return bool(
        log.moves.shape[0] - log.counts.moves > moves and log.nodes.shape[0] - log.counts.nodes > nodes
    )
