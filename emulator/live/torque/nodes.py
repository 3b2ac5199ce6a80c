"""A node as Torque's server knows it, and the state that pbsnodes prints. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


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
    pooled: bool = True
    """What the cluster was last told: the scheduler may use the node."""
    job: int = -1
    """Number of the job that runs on it."""
    slots_used: int = 0
    facts: NodeFacts | None = None

    @property
    def states(self) -> tuple[str, ...]:
        """In Torque's fixed order; empty for a free node (a node with free slots is one, even with a job)."""
        full = self.job >= 0 and self.slots_used >= self.np
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

    def slots(self) -> str:
        """The slots of its job as in exec_host: `0-1`, or `0` for one."""
        return "0" if self.slots_used == 1 else f"0-{self.slots_used - 1}"


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
