"""An algorithm of the Balancer: which nodes change pools. It has `plan`, which sees a view and answers with a plan."""

from dataclasses import dataclass

from balancer.algorithms.interface import Plan, View


@dataclass(frozen=True, slots=True)
class KeepSome:
    """Grants from idle nodes while `keep` of them are left for batch; all else is refused at once."""

    keep: int = 2

    def plan(self, view: View) -> Plan:
        hold = {}
        free, idle = list(view.free), list(view.idle)
        for request in view.requests:
            have = free + idle[: max(0, len(idle) - self.keep)]
            if request.short and request.short <= len(have):
                taken = have[: request.short]
                hold[request.request_id] = tuple(taken)
                free = [node for node in free if node not in taken]
                idle = [node for node in idle if node not in taken]
        return Plan(hold, restore=tuple(free))
