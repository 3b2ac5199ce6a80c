"""Jobs that readings show and no hook has announced: the hooks are not set up, or their calls do not come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from balancer.clock import micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from balancer.drivers.base import NodeStatus

_log = structlog.get_logger()

_GRACE_US = micros(10)
"""Cluster time: a reading may show a job a moment before its hook comes, and after its end was reported."""


class UnannouncedJobs:
    """`seen` is for one thread, the other methods for any."""

    def __init__(self) -> None:
        self._announced_us: dict[str, int] = {}
        """Node -> when a hook announced a job there, with no reading since."""
        self._known: dict[str, frozenset[str]] = {}
        """Node -> its jobs that a hook announced, or that ran before the start."""
        self._since_us: dict[str, int] = {}
        """Node -> when a job was seen there that no hook announced."""
        self._is_first = True
        self._have_hooks_come = self._is_logged = False

    def announced(self, nodes: Iterable[str], now_us: int) -> None:
        """A hook announces a job that begins there."""
        for node in nodes:
            self._have_hooks_come = True
            self._announced_us[node] = now_us
            self._since_us.pop(node, None)

    def seen(self, states: Mapping[str, NodeStatus], at_us: int) -> None:
        """What a reading shows that was asked for at that time. The first one shows jobs from before the start."""
        jobs_at = {name: frozenset(status.jobs) for name, status in states.items() if status.state == "busy"}
        known = {}
        for node, jobs in jobs_at.items():
            announced_us = self._announced_us.get(node)
            if announced_us is not None and announced_us <= at_us:
                del self._announced_us[node]
            if self._is_first or announced_us is not None or jobs & self._known.get(node, frozenset()):
                known[node] = jobs
            else:
                self._since_us.setdefault(node, at_us)
        for node in self._since_us.keys() - (jobs_at.keys() - known.keys()):
            self._since_us.pop(node, None)
        self._known, self._is_first = known, False
        found = self.nodes(at_us)
        if found and self._have_hooks_come and not self._is_logged:
            _log.warning("hooks came, but none told of the jobs on these nodes", nodes=found)
        self._is_logged = bool(found)

    def nodes(self, now_us: int) -> tuple[str, ...]:
        """Where such jobs run."""
        return tuple(
            sorted(node for node, at_us in dict(self._since_us).items() if now_us - at_us >= _GRACE_US)
        )
