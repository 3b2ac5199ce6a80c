"""What nodes that fail do to leases, and what that costs: for mechanisms that grant whole nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from emulator.simulation.tiles import Tile

if TYPE_CHECKING:
    from emulator.simulation.mechanism import Actions

_US_PER_H = 3_600_000_000

TILES = (
    Tile(
        "leases on failed nodes", "mechanism.leases_hit",
        beside=(("cut", "mechanism.leases_cut"), ("nodes replaced", "mechanism.nodes_replaced")),
    ),
    Tile("lost to leases", "mechanism.lost_lease_node_h", "node-h"),
)  # fmt: skip
"""Shown first, in runs with `failures`."""


class OnFailure(StrEnum):
    """What becomes of a lease of which a node has failed."""

    KEEP = "keep"
    """The node stays in the lease, as the service has it unless the request says `replace`."""
    REPLACE = "replace"
    """The node leaves the lease, and a request for another one takes its place."""
    END = "end"
    """The user gives the whole lease up."""

    @classmethod
    def read(cls, mechanism: str, value: object) -> OnFailure:
        """Raises ValueError."""
        if value not in list(cls):
            raise ValueError(f"{mechanism}: on_failure must be one of {', '.join(cls)}, not {value!r}")
        return cls(str(value))


@dataclass(slots=True)
class LeaseAccount:
    """How many granted nodes each lease lacks, and the node-time that it lacked them. Leases are job rows."""

    hit: set[int] = field(default_factory=set)
    cut: int = 0
    replaced: int = 0
    not_replaced: int = 0
    _lacks: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Lease -> nodes that it lacks, and since when."""
    _lost_us: int = 0
    """In node-us, up to the latest change of each lease."""

    def failed(self, job: int, now_us: int) -> None:
        """A node of the lease does not work from now on."""
        self.hit.add(job)
        self._change(job, 1, now_us)

    def works_again(self, job: int, now_us: int) -> None:
        """It does, or another one in its place."""
        self._change(job, -1, now_us)

    def ended(self, job: int, now_us: int) -> None:
        """At its time."""
        if job in self._lacks:
            self._change(job, 0, now_us)
            del self._lacks[job]

    def cut_off(self, job: int, act: Actions) -> None:
        """A lease is about to end before its time: what it lacks until then are all its nodes."""
        self.ended(job, act.now_us)
        self.cut += 1
        jobs, row = act.cluster.job_table(), act.cluster.table[job]
        self._lost_us += int(jobs.nodes[job]) * (int(row.start_us) + int(row.run_us) - act.now_us)

    def figures(self, horizon_us: int) -> dict[str, Any]:
        lost_us = self._lost_us + sum(
            lacking * (horizon_us - since_us) for lacking, since_us in self._lacks.values()
        )
        return {
            "leases_hit": len(self.hit),
            "leases_cut": self.cut,
            "nodes_replaced": self.replaced,
            "nodes_not_replaced": self.not_replaced,
            "lost_lease_node_h": lost_us / _US_PER_H,
        }

    def _change(self, job: int, by: int, now_us: int) -> None:
        lacking, since_us = self._lacks.get(job, (0, now_us))
        self._lost_us += lacking * (now_us - since_us)
        self._lacks[job] = (lacking + by, now_us)
