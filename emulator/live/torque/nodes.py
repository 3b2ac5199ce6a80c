"""A node as Torque's server knows it, and the state that pbsnodes prints. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node said of itself when it registered."""

    address: str
    cores: int
    memory_kib: int


@dataclass(slots=True)
class Node:
    """`seen_us`: when an agent last reported for it (-1: never). `down_until_us`: set by `pbsnodes -r`."""

    name: str
    index: int
    np: int
    offline: bool = False
    note: str = ""
    down: bool = True
    seen_us: int = -1
    pooled: bool = False
    """What the cluster was last told: the scheduler may use the node."""
    jobs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Numbers of the jobs that run on it, and the slots that each has."""
    facts: NodeFacts | None = None

    @property
    def states(self) -> tuple[str, ...]:
        """In Torque's fixed order; empty for a free node (a node with free slots is one, even with a job)."""
        full = bool(self.jobs) and sum(map(len, self.jobs.values())) >= self.np
        return (
            *(["down"] if self.down else []),
            *(["offline"] if self.offline else []),
            *(["job-exclusive"] if full else []),
        )

    @property
    def state(self) -> str:
        return ",".join(self.states) or "free"

    @property
    def usable(self) -> bool:
        return not (self.down or self.offline)


def slots_text(slots: Sequence[int]) -> str:
    """Slots in ascending order as in exec_host: `0`, `0-1`, `0-1,3`."""
    begins = [0, *(place for place, (slot, next_) in enumerate(pairwise(slots), 1) if next_ != slot + 1)]
    parts = [slots[begin:end] for begin, end in pairwise([*begins, len(slots)])]
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


LISTS = ("all", "active", "busy", "down", "free", "job-exclusive", "offline", "up")


def is_listed(node: Node, which: str | None) -> bool:
    """Whether `pbsnodes -l [which]` lists the node; None: only what is wrong."""
    states = node.states
    match which:
        case None:
            return "down" in states or "offline" in states
        case "all":
            return True
        case "free":
            return not states
        case "active":
            return "job-exclusive" in states
        case "up":
            return node.usable
        case _:
            return which in states
