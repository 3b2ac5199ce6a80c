"""Wakes nodes that power saving has switched off, when on-demand wants more than is awake.

A node that sleeps is DOWN: no algorithm sees it. Once it is up it reads idle and is taken like any other that becomes
idle. The time that takes is part of what a request waits: it gets the node if that comes within W.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from balancer.clock import micros, wall_us
from balancer.lifecycle.states import NodeState
from balancer.service.commands import Commander, Wake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from balancer.drivers.base import NodeStatus
    from balancer.lifecycle.requests import Wish
    from balancer.service.writer import Writer

_log = structlog.get_logger()

_COMING_US = micros(900)
"""Wall time within which a node that was woken counts as on its way; then it is asked again, or another one."""


@dataclass(slots=True)
class Waker:
    """`readings`: what the batch system said last. `may_move`: whether nodes may change their pool now."""

    writer: Writer
    commander: Commander
    readings: Callable[[], Mapping[str, NodeStatus]]
    may_move: Callable[[], bool]
    _asked_us: dict[str, int] = field(default_factory=dict)
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> None:
        """Have as many woken as are wanted beyond those on their way, if the driver can. Does not wait for it.

        For any thread. One looks at a time: two that looked at once would wake the same nodes, or too many.
        """
        if not self.commander.calls.can_wake:
            return
        with self._looking:
            nodes = self._nodes_to_wake()
            if nodes:
                _log.info("waking nodes", nodes=nodes)
                self._asked_us |= dict.fromkeys(nodes, wall_us())
                self.commander.submit([Wake(nodes=nodes)])

    def _nodes_to_wake(self) -> tuple[str, ...]:
        wishes = self.writer.wishes() if self.may_move() else ()
        readings = self.readings()
        asleep = [
            record.name
            for record in self.writer.published.nodes()
            if record.state is NodeState.DOWN and record.name in readings and readings[record.name].is_asleep
        ]
        since_us = wall_us() - _COMING_US
        self._asked_us = {n: us for n in asleep if (us := self._asked_us.get(n, since_us)) > since_us}
        return _chosen(wishes, self._asked_us, [node for node in asleep if readings[node].is_off])


def _chosen(wishes: Sequence[Wish], on_their_way: Iterable[str], off: Sequence[str]) -> tuple[str, ...]:
    """Of those that are `off`. `wishes`: how many more are wanted, of which (None: any)."""
    coming = dict.fromkeys(on_their_way)
    rest = dict.fromkeys(node for node in off if node not in coming)
    chosen: list[str] = []
    for count, among in wishes:
        for pile, is_new in ((coming, False), (rest, True)):
            picked = [node for node in pile if among is None or node in among][:count]
            count -= len(picked)  # noqa: PLW2901 - what is left of it
            chosen += picked if is_new else ()
            for node in picked:
                del pile[node]
    return tuple(chosen)
