"""An algorithm of the Balancer that fails. It needs nothing that the service's image has not."""

from dataclasses import dataclass

from balancer.algorithms.interface import Plan


@dataclass(slots=True)
class FailingPlan:
    """Makes plans, though empty ones, until somebody waits for nodes."""

    def plan(self, view):
        if view.requests:
            raise ValueError("that was too much")
        return Plan()
