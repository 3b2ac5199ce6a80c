"""When a look at the batch system is needed before a request can be answered (`Settings.fresh_us`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from balancer.lifecycle.events import NodesObserved
    from balancer.lifecycle.nodes import NodeTable
    from balancer.lifecycle.reports import BatchReports
    from balancer.lifecycle.requests import Request, RequestQueue


class Looks:
    """What waits for a look at all nodes. `fresh_us`: see `Settings`; None: nothing ever does."""

    def __init__(
        self, fresh_us: int | None, nodes: NodeTable, requests: RequestQueue, reports: BatchReports
    ) -> None:
        self._fresh_us = fresh_us
        self._nodes = nodes
        self._requests = requests
        self._reports = reports
        self.is_asked_for = False
        """Somebody waits for one that has been asked for."""

    def ask(self) -> bool:
        """Whether one is to be asked for now: it is wanted, and none is on its way."""
        is_wanted = self._fresh_us is not None and any(
            request.ready == request.record.count or (request.record.at_once and request.short)
            for request in self._requests
        )
        asks = is_wanted and not self.is_asked_for
        self.is_asked_for = self.is_asked_for or asks
        return asks

    def came(self, event: NodesObserved) -> None:
        """What was observed was a look at all nodes, if it says when that began."""
        if event.read_us is None:
            return
        self.is_asked_for = False
        for request in self._requests:
            request.is_looked_for |= event.read_us >= request.record.arrived_us

    def is_fresh(self, request: Request, now_us: int) -> bool:
        """Whether all its nodes have been seen as they should be: lately, or since nothing else is missing."""
        fresh_us = self._fresh_us
        if fresh_us is None:
            return True
        if request.ready_us is None:
            request.ready_us = now_us
        since_us = min(now_us - fresh_us, request.ready_us)
        return all(self._reports.seen_us(self._nodes[name]) >= since_us for name in request.reserved)

    def could_help(self, request: Request, now_us: int) -> bool:
        """Whether one may still show more nodes for a request that is short: it is not rejected before."""
        fresh_us, record = self._fresh_us, request.record
        return (
            fresh_us is not None
            and now_us < record.deadline_us
            and not request.is_looked_for
            and self._reports.read_us <= record.arrived_us - fresh_us
        )

    def ran_out_for(self, request: Request, now_us: int) -> bool:
        """Whether the request may not wait for one any longer."""
        return self._fresh_us is not None and now_us >= request.record.deadline_us
