"""Nodes that fail, come back and are maintained, under any plain scheduler.

A node is out as long as anything keeps it out. What happens at one time comes after the job ends of that time: nodes
come back, then others are drained, then others go down.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from balancer.clock import NEVER_US, micros
from emulator.plugins.failure import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from emulator.config.run_parts import MaintenancePart
    from emulator.events.node_failures import Outage


class _Node(IntEnum):
    """What nodes become; at one time in this order."""

    UP = 0
    DRAIN = 1
    DOWN = 2


"""What is due at one time, in this order."""


class _Busy(Protocol):
    @property
    def node_job(self) -> NDArray[np.int64]:
        """Below 0 for an idle node."""


class Nodes(Protocol):
    """Nodes that can fail. `take_down_for_good` returns the jobs that are lost."""

    @property
    def now_us(self) -> int: ...
    def take_down(self, nodes: Iterable[int]) -> list[int]: ...
    def take_down_for_good(self, nodes: Iterable[int]) -> list[int]: ...
    def repair(self, nodes: Iterable[int]) -> None: ...


@runtime_checkable
class MaintainedNodes(Nodes, Protocol):
    """Nodes that can be maintained, too: they are drained before. `machine.actions.Accounting` is one."""

    @property
    def cluster(self) -> _Busy: ...
    def drain(self, nodes: Iterable[int]) -> list[int]: ...
    def drained(self, nodes: Iterable[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Window:
    """Maintenance of these nodes: no new jobs from `drain_us` on, down from `begin_us` to `end_us`.

    `lost`: jobs that still run at the begin are lost; else they wait again. `every_us`: when the same comes again, 0:
    never.
    """

    drain_us: int
    begin_us: int
    end_us: int
    nodes: tuple[int, ...]
    lost: bool = False
    every_us: int = 0


_MAINTENANCE = Cause(
    "maintenance",
    "its windows",
    "No job ends between two of them: make every_s longer, the jobs shorter, or set jobs: lost",
)


class NodeOutages:
    """`failures` in order of their begins; `lost`: jobs on a node that fails are lost, else they wait again.

    `model`: the name of who says when, for errors.
    """

    def __init__(
        self,
        node_count: int,
        failures: Iterator[Outage],
        *,
        lost: bool = False,
        windows: Iterable[Window] = (),
        model: str = "",
    ) -> None:
        self._failing = Cause(
            f"failure model {model}",
            "outages",
            "Nodes fail before jobs end: let them fail less often or come back sooner, let jobs write checkpoints, or "
            "set jobs: lost in failures",
        )
        self.cause = self._failing
        """Of the latest outage."""
        self._reasons = [0] * node_count
        """How many outages and drains keep each node out."""
        self._draining: set[int] = set()
        """Nodes that are out of the pool and on which a job still runs."""
        self._failures = failures
        self._lost = lost
        self._agenda: list[tuple[int, int, int, tuple[int, ...], Window | None]] = []
        self._serial = 0
        self._ups = 0
        """Outages and drains that keep nodes out now and will be over."""
        for window in windows:
            self._plan(window)
        self._next_failure()

    @property
    def watches_ends(self) -> bool:
        return bool(self._draining)

    def next_us(self, *, goes_on: bool, waiting: int) -> int:
        """When something is due, NEVER_US if nothing is that matters.

        `goes_on`: something else is still to happen; `waiting`: so many jobs are queued, who may wait for nodes.
        """
        if not self._agenda or not (goes_on or (waiting and self._ups)):
            return NEVER_US
        return self._agenda[0][0]

    def at(self, act: Nodes) -> list[int]:
        """What is due now; jobs may just have left their nodes. Returns the jobs that are lost."""
        self._see_drained(act)
        lost: list[int] = []
        while self._agenda and self._agenda[0][0] <= act.now_us:
            _, what, _, nodes, window = heapq.heappop(self._agenda)
            if what == _Node.DRAIN:
                self._drain(nodes, act)
            elif what == _Node.DOWN:
                lost += self._go_down(nodes, window, act)
            else:
                self._come_back(nodes, act)
        return lost

    # What is to come.

    def _add(self, at_us: int, what: int, nodes: tuple[int, ...], window: Window | None = None) -> None:
        if at_us == NEVER_US:
            return
        self._serial += 1
        heapq.heappush(self._agenda, (at_us, what, self._serial, nodes, window))

    def _plan(self, window: Window) -> None:
        self._add(window.drain_us, _Node.DRAIN, window.nodes)
        self._add(window.begin_us, _Node.DOWN, window.nodes, window)

    def _next_failure(self) -> None:
        outage = next(self._failures, None)
        if outage is not None:
            self._add(outage.begin_us, _Node.DOWN, (outage.node,))
            self._coming = outage

    # What happens.

    def _drain(self, nodes: tuple[int, ...], act: Nodes) -> None:
        busy = _maintained(act).drain([node for node in nodes if not self._reasons[node]])
        self._draining.update(busy)
        self._keep_out(nodes)
        self._ups += 1

    def _keep_out(self, nodes: tuple[int, ...]) -> None:
        for node in nodes:
            self._reasons[node] += 1

    def _see_drained(self, act: Nodes) -> None:
        if not self._draining:
            return
        nodes = np.sort(np.fromiter(self._draining, np.int64))
        maintained = _maintained(act)
        empty = nodes[maintained.cluster.node_job[nodes] < 0].tolist()
        self._draining.difference_update(empty)
        maintained.drained(empty)

    def _go_down(self, nodes: tuple[int, ...], window: Window | None, act: Nodes) -> list[int]:
        """Also plans when they come back, and what comes next of the same kind."""
        self.cause = self._failing if window is None else _MAINTENANCE
        is_lost = self._lost if window is None else window.lost
        down = [node for node in nodes if not self._reasons[node] or node in self._draining]
        lost = act.take_down_for_good(down) if is_lost else []
        if not is_lost:
            act.take_down(down)
        self._draining.difference_update(down)
        self._see_drained(act)  # jobs that were stopped may have had such nodes, too
        if window is None:
            self._keep_out(nodes)
            self._ups += self._coming.end_us != NEVER_US
            self._add(self._coming.end_us, _Node.UP, nodes)
            self._next_failure()
            return lost
        self._add(window.end_us, _Node.UP, nodes)
        if window.every_us:
            step = window.every_us
            self._plan(
                Window(
                    window.drain_us + step,
                    window.begin_us + step,
                    window.end_us + step,
                    nodes,
                    window.lost,
                    step,
                )
            )
        return lost

    def _come_back(self, nodes: tuple[int, ...], act: Nodes) -> None:
        for node in nodes:
            self._reasons[node] -= 1
        self._ups -= 1
        act.repair([node for node in nodes if not self._reasons[node]])


def window_of(part: MaintenancePart, node_names: Sequence[str]) -> Window:
    """The window that a scenario's maintenance begins with. Raises ValueError for a node that is not there."""
    place = {name: node for node, name in enumerate(node_names)}
    names = node_names if part.nodes == "all" else part.nodes
    for name in names:
        if name not in place:
            raise ValueError(
                f"maintenance: there is no node {name!r}; nodes are {node_names[0]} to {node_names[-1]}"
            )
    begin_us = micros(part.begin_s)
    return Window(
        drain_us=max(begin_us - micros(part.drain_s), 0),
        begin_us=begin_us,
        end_us=micros(part.end_s),
        nodes=tuple(sorted({place[name] for name in names})),
        lost=part.jobs == "lost",
        every_us=micros(part.every_s or 0),
    )


def _maintained(act: Nodes) -> MaintainedNodes:
    if not isinstance(act, MaintainedNodes):
        raise TypeError(f"{type(act).__name__}: maintenance was planned for nodes that cannot be drained")
    return act
