"""Asks the algorithm for a plan and refuses nonsense: what passes here can be carried out as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from balancer.algorithms.interface import Algorithm, Candidates, Plan, View
from balancer.lifecycle.errors import BadPlan

if TYPE_CHECKING:
    from balancer.lifecycle.nodes import NodeTable


class Referee:
    """Between the life cycle and a plug-in that may be wrong. Raises BadPlan naming it."""

    def __init__(self, algorithm: Algorithm, name: str, nodes: NodeTable) -> None:
        self._algorithm = algorithm
        self._name = name
        self._nodes = nodes

    def plan(self, view: View) -> Plan:
        try:
            plan = self._algorithm.plan(view)
        except (Exception, SystemExit) as error:
            raise BadPlan(self._name, f"raised {type(error).__name__}: {error}") from error
        problem = self._problem(plan, view)
        if problem is not None:
            raise BadPlan(self._name, problem)
        return plan

    def _problem(self, plan: object, view: View) -> str | None:
        """The first thing that is wrong with a plan."""
        if not isinstance(plan, Plan) or not isinstance(plan.hold, Mapping):
            return f"answered {_short(plan)} instead of a Plan"
        if plan.wake_us is not None and (type(plan.wake_us) is not int or plan.wake_us <= view.now_us):
            return f"wants to be woken at {plan.wake_us!r} us, but it is {view.now_us} us already"
        if type(plan.unmet) is not int or plan.unmet < 0:
            return f"would take {plan.unmet!r} more idle nodes"
        seen: set[str] = set()
        waiting = {request.request_id: request for request in view.requests} if plan.hold else {}
        for request_id, nodes in plan.hold.items():
            if request_id not in waiting:
                return f"holds nodes for {request_id!r}, and no such request waits"
            problem = self._bad_nodes(
                nodes,
                f"hold for {request_id}",
                seen,
                (view.free, view.coming, view.idle),
                "free, coming or idle",
            )
            short, among = waiting[request_id].short, waiting[request_id].among
            if problem is None and len(nodes) > short:
                problem = f"holds {len(nodes)} nodes for {request_id}, which is short of {short}"
            if problem is None and among is not None and not among.issuperset(nodes):
                problem = f"holds nodes for {request_id} that are not among its candidates"
            if problem is not None:
                return problem
        return self._bad_nodes(plan.collect, "collect", seen, (view.idle,), "idle") or self._bad_nodes(
            plan.restore, "restore", seen, (view.free,), "free"
        )

    def _bad_nodes(
        self, nodes: object, verb: str, seen: set[str], among: tuple[Candidates, ...], expected: str
    ) -> str | None:
        if not isinstance(nodes, tuple):
            return f"would {verb} {_short(nodes)}, which is not a tuple of nodes"
        for name in nodes:
            if not isinstance(name, str) or (node := self._nodes.get(name)) is None:
                return f"would {verb} {_short(name)}, which is not a node"
            if name in seen:
                return f"names node {name} twice"
            if not any(name in candidates for candidates in among):
                holder = f" for {node.reserved_for}" if node.reserved_for is not None else ""
                return f"would {verb} node {name}, which is {node.state}{holder} and not {expected}"
            seen.add(name)
        return None


def _short(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."
