"""Leases of a static partition on nodes that fail, second by second: from `docs/failures.md`, slow and obvious."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Lease(NamedTuple):
    """Wants so many nodes at a second, for so many seconds."""

    at: int
    lasts: int
    nodes: int


class Outage(NamedTuple):
    """A node is down from one second to another."""

    begin: int
    end: int
    node: int


@dataclass
class Told:
    """What became of a lease: rows of (from, to, its nodes), and whether it was cut."""

    granted: bool = False
    rows: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    cut: bool = False


@dataclass
class Partition:
    """`own`: the on-demand nodes. `how`: keep, replace or end."""

    own: Sequence[int]
    how: str
    leases: Sequence[Lease]
    outages: Sequence[Outage]

    def run(self) -> list[Told]:
        self.free = list(self.own)
        self.down: set[int] = set()
        self.held: dict[int, list[int]] = {}
        self.since: dict[int, int] = {}
        self.told = [Told() for _ in self.leases]
        last = max([lease.at + lease.lasts for lease in self.leases], default=0)
        for second in range(last + 1):
            self._second(second)
        return self.told

    def _second(self, now: int) -> None:
        """Nodes come back, then others fail, then leases end, then others ask."""
        for outage in self.outages:
            if outage.end == now:
                self.down.discard(outage.node)
                if outage.node in self.own and not any(outage.node in nodes for nodes in self.held.values()):
                    self.free.append(outage.node)
        for outage in self.outages:
            if outage.begin == now and outage.node in self.own:
                self._fail(outage.node, now)
        for who, lease in enumerate(self.leases):
            if who in self.held and self.told[who].granted and self._start_of(who) + lease.lasts == now:
                self._leave(who, now)
        for who, lease in enumerate(self.leases):
            if lease.at == now and len(self.free) >= lease.nodes:
                self.told[who].granted = True
                self.held[who], self.free = self.free[: lease.nodes], self.free[lease.nodes :]
                self.since[who] = now

    def _start_of(self, who: int) -> int:
        return self.leases[who].at

    def _fail(self, node: int, now: int) -> None:
        self.down.add(node)
        if node in self.free:
            self.free.remove(node)
        for who, nodes in list(self.held.items()):
            if node not in nodes or self.how == "keep":
                continue
            if self.how == "end":
                self.told[who].cut = True
                self._leave(who, now)
                continue
            others = [each for each in nodes if each != node] + self.free[:1]
            if not others:
                self.told[who].cut = True
                self._leave(who, now)
                continue
            self.free = self.free[1:]
            self._row(who, now)
            self.held[who] = others

    def _leave(self, who: int, now: int) -> None:
        self._row(who, now)
        self.free += [node for node in self.held.pop(who) if node not in self.down]

    def _row(self, who: int, now: int) -> None:
        self.told[who].rows.append((self.since[who], now, tuple(sorted(self.held[who]))))
        self.since[who] = now


def lost_s(lease: Lease, told: Told, outages: Sequence[Outage]) -> int:
    """Node-seconds that a granted lease asked for and did not have."""
    had = 0
    for begin, end, nodes in told.rows:
        for second in range(begin, end):
            had += sum(not is_down(node, second, outages) for node in nodes)
    return lease.nodes * lease.lasts - had


def is_down(node: int, second: int, outages: Sequence[Outage]) -> bool:
    return any(each.node == node and each.begin <= second < each.end for each in outages)
