"""The basic algorithm (balancer-liu-2018, II-C.1, Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.algorithms.interface import Plan

if TYPE_CHECKING:
    from balancer.algorithms.interface import Candidates, View


class Basic:
    """Reserve, then idle nodes, then nodes as jobs end; R nodes and the hinted ones stay in the reserve."""

    def plan(self, view: View) -> Plan:
        return serve_then_keep(view, view.settings.static_reserve)


def serve_then_keep(view: View, static_reserve: int) -> Plan:
    """Requests first come first served; then the reserve; what is beyond it goes back after I.

    An earlier request takes whatever it is short of, so a later one gets nodes only once no earlier one is
    short: nobody is overtaken and nobody starves. One that is due gets all it is short of or nothing.
    """
    free, coming, idle = _Pile(view.free), _Pile(view.coming), _Pile(view.idle)
    hold, unmet, promised = {}, 0, 0
    for request in view.requests:
        missing = max(0, request.short - free.left - coming.left - idle.left)
        unmet += missing
        if not missing:
            promised += request.count
        if request.short and not (missing and request.due):
            nodes = free.take(request.short)
            nodes += coming.take(request.short - len(nodes))
            hold[request.request_id] = nodes + idle.take(request.short - len(nodes))
    kept = static_reserve + _hinted(view, promised)
    lacking = max(0, kept - free.left - coming.left)
    collect = idle.take(lacking)
    restore, wake_us = _over_time(view, free.taken + max(0, kept - coming.left))
    return Plan(hold, collect, restore, wake_us, unmet + lacking - len(collect))


def _hinted(view: View, promised: int) -> int:
    """Nodes the hints want reserved, besides those `promised` to requests that now have all their nodes.

    Before its time a hint is kept full. From then on the announced request may come, so each node granted
    is taken off it and not collected again.
    """
    ahead = sum(hint.count for hint in view.hints if hint.by_us > view.now_us)
    arrived = sum(hint.count - hint.used for hint in view.hints if hint.by_us <= view.now_us)
    return ahead + max(0, arrived - promised)


def _over_time(view: View, kept: int) -> tuple[tuple[str, ...], int | None]:
    """Nodes that have been beyond the reserve for I, and when the next one will have been.

    The `kept` nodes that have been reserved longest are the reserve, so that each node beyond it stays for I.
    """
    over = kept
    while over < len(view.free):
        over_us = view.free.since_us(view.free[over]) + view.settings.idle_hold_us
        if over_us > view.now_us:
            return view.free[kept:over], over_us
        over += 1
    return view.free[kept:over], None


class _Pile:
    """Candidates that are taken from the top."""

    def __init__(self, nodes: Candidates) -> None:
        self._nodes = nodes
        self.taken = 0
        self.left = len(nodes)

    def take(self, count: int) -> tuple[str, ...]:
        nodes = self._nodes[self.taken : self.taken + count]
        self.taken += len(nodes)
        self.left -= len(nodes)
        return nodes
