"""What happens to jobs and nodes whoever schedules, in virtual time: the loop asks this between its decision points.

A run without any has none of this: the compiled loop is stopped for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.clock import NEVER_US
from emulator.plugins.failure import Cause

if TYPE_CHECKING:
    from emulator.cluster.placement import Boundaries
    from emulator.events.job_rules import JobRules
    from emulator.events.node_outages import NodeOutages, Nodes
    from emulator.events.power import SleepingNodes
    from emulator.machine.actions import Accounting


_BOUNDARIES = Cause(
    "reservations",
    "their begins and ends",
    "A job fits between no two of them: make them rarer, or the job shorter",
)


class ExternalEvents:
    """The rules of jobs, the outages of nodes, nodes that sleep, and begins and ends of reservations.

    `begin` once, then `at` at each time at which something is due, and `after_pass` after each pass.
    """

    def __init__(
        self,
        rules: JobRules | None = None,
        outages: NodeOutages | None = None,
        sleeping: SleepingNodes | None = None,
        boundaries: Boundaries | None = None,
    ) -> None:
        self._boundaries = boundaries
        self._sleeping = sleeping
        self._rules = rules
        self._outages = outages
        self._nodes: Nodes | None = None

    def act_by(self, nodes: Nodes) -> None:
        """Outages go through `nodes`, whose mechanism knows what failures mean."""
        self._nodes = nodes

    @property
    def cause(self) -> Cause:
        """Of what happened last."""
        return _BOUNDARIES if self._outages is None else self._outages.cause

    @property
    def watches_ends(self) -> bool:
        """Whether it must be told of every end of a batch job."""
        rules, outages = self._rules, self._outages
        return (rules is not None and rules.watches_ends) or (outages is not None and outages.watches_ends)

    @property
    def watches_passes(self) -> bool:
        """Whether it must be told of every pass."""
        return self._sleeping is not None or (self._rules is not None and self._rules.watches_passes)

    def next_us(self, act: Accounting, *, more_to_come: bool = False) -> int:
        """When something is due, NEVER_US if nothing is.

        `more_to_come`: leases that are not decided yet, or a time that a mechanism waits for while jobs wait for it.
        """
        next_us = NEVER_US if self._rules is None else self._rules.next_us(act)
        if self._boundaries is not None:
            next_us = min(next_us, self._next_boundary_us(next_us, act))
        if self._outages is None:
            return next_us
        goes_on = next_us != NEVER_US or act.cluster.next_event_us != NEVER_US
        goes_on = goes_on or more_to_come or act.has_leases
        return min(next_us, self._outages.next_us(goes_on=goes_on, waiting=len(act.cluster.queue)))

    def _next_boundary_us(self, next_us: int, act: Accounting) -> int:
        """When a reservation begins or ends that somebody may wait for."""
        goes_on = next_us != NEVER_US or act.cluster.next_event_us != NEVER_US
        return (
            self._boundaries.next_us if self._boundaries and (goes_on or len(act.cluster.queue)) else NEVER_US
        )

    def begin(self, act: Accounting) -> None:
        """The run begins; nothing is submitted yet. Raises ValueError for what cannot be done."""
        if self._rules is not None:
            self._rules.begin(act)

    def at(self, ended: list[int], act: Accounting) -> None:
        """These jobs have ended now, and whatever is due happens; submits and a pass follow."""
        if self._boundaries is not None:
            self._boundaries.at(act.now_us)
        if self._rules is not None:
            self._rules.at(ended, (), act)
        if self._outages is None:
            return
        nodes = act if self._nodes is None else self._nodes
        lost = self._outages.at(nodes)
        if lost and self._rules is not None:
            self._rules.at((), lost, act)
            self._outages.at(nodes)

    def after_pass(self, act: Accounting) -> bool:
        """The scheduler has started what it could. Returns whether another pass must follow at the same time."""
        if self._sleeping is not None:
            self._sleeping.after_pass(act)
        return self._rules is not None and self._rules.watches_passes and self._rules.after_pass(act)
