"""The basic algorithm (balancer-liu-2018, II-C.1, Algorithm 1)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from balancer.algorithms.interface import Candidates, Plan, View
from balancer.policy_settings import ReserveRule

if TYPE_CHECKING:
    from collections.abc import Iterator


class Basic:
    """Reserve, then idle nodes, then nodes as jobs end; R nodes and the hinted ones stay in the reserve."""

    def plan(self, view: View) -> Plan:
        return serve_then_keep(view, view.settings.static_reserve)


def serve_then_keep(view: View, static_reserve: int) -> Plan:
    """Requests first come first served; then the reserve; what is beyond it goes back after I.

    An earlier request takes whatever it is short of, so a later one gets nodes only once no earlier one is
    short: nobody is overtaken and nobody starves. One that is due gets all it is short of or nothing.
    """
    free, coming, idle = piles = _Pile(view.free), _Pile(view.coming), _Pile(view.idle)
    hold, unmet, promised, lent = {}, 0, 0, view.granted
    for request in view.requests:
        found = sum([pile.count(request.among) for pile in piles])
        missing = max(0, request.short - found)
        unmet += missing
        if not missing:
            promised += request.count
        if request.short and found and not (missing and request.due):
            nodes: tuple[str, ...] = ()
            for pile in piles:
                nodes += pile.take(request.short - len(nodes), request.among)
            hold[request.request_id] = nodes
            lent += len(nodes)
        lent += request.count - request.short
    if view.settings.reserve_rule is ReserveRule.FIXED:
        static_reserve = max(0, static_reserve - lent)
    reserve = static_reserve + _hinted(view, promised)
    # A contested node is mostly cleared by the next look: no other is collected in its place.
    lacking = max(0, reserve - free.left - coming.left - view.contested)
    collect = idle.take(lacking) if lacking else ()
    keep = max(0, reserve - coming.left)
    restore, wake_us = _over_time(view, free.rest(keep)) if free.left > keep else ((), None)
    return Plan(hold, collect, restore, wake_us, unmet + lacking - len(collect))


def _hinted(view: View, promised: int) -> int:
    """Nodes the hints want reserved, besides those `promised` to requests that now have all their nodes.

    Before its time a hint is kept full. From then on the announced request may come, so each node granted
    is taken off it and not collected again.
    """
    ahead = arrived = 0
    for hint in view.hints:
        if hint.by_us > view.now_us:
            ahead += hint.count
        else:
            arrived += hint.count - hint.used
    return ahead + max(0, arrived - promised)


def _over_time(view: View, beyond: Iterator[str]) -> tuple[tuple[str, ...], int | None]:
    """Nodes that have been `beyond` the reserve for I, and when the next one will have been.

    The nodes that have been reserved longest are the reserve, so that each node beyond it stays for I.
    """
    over: list[str] = []
    for node in beyond:
        over_us = view.free.since_us(node) + view.settings.idle_reserve_us
        if over_us > view.now_us:
            return tuple(over), over_us
        over.append(node)
    return tuple(over), None


class _Pile:
    """Candidates that are taken from the top; by a request that may not have all, from further down."""

    def __init__(self, nodes: Candidates) -> None:
        self._nodes = nodes
        self._top = 0
        self._picked: set[str] = set()
        """Those taken from below the top."""
        self.left = len(nodes)

    def count(self, among: frozenset[str] | None) -> int:
        """How many a request may have that may have these (None: any)."""
        return self.left if among is None else sum(node in among for node in self.rest())

    def take(self, count: int, among: frozenset[str] | None = None) -> tuple[str, ...]:
        if among is None and not self._picked:
            nodes = self._nodes[self._top : self._top + count]
            self._top += len(nodes)
        else:
            nodes = tuple(islice((n for n in self.rest() if among is None or n in among), max(0, count)))
            self._picked.update(nodes)
        self.left -= len(nodes)
        return nodes

    def rest(self, skip: int = 0) -> Iterator[str]:
        """What is left, without the first `skip`."""
        if not self._picked:
            skip, start = 0, self._top + skip
        else:
            start = self._top
        below = (self._nodes[at] for at in range(start, len(self._nodes)))
        return islice((node for node in below if node not in self._picked), skip, None)
