"""The agent beside Nova: again and again it looks at servers, grants and allocations, and does what `decide` says.

It keeps nothing that a restart could lose: a look is judged by itself, and all it tells the Balancer may be told twice.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from balancer.client import Balancer, BalancerError
from balancer.clock import SystemClock, micros, seconds, wall_us
from balancer.drivers.base import DriverError
from balancer.nova.decide import Failed, Intruder, Leftover, Memory, Plan, Rules, Stuck, granted_to, plan
from balancer.timestamps import iso, parse_iso
from balancer.whole_file import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from balancer.client_records import Node, Request
    from balancer.nova.cloud import NovaCloud
    from balancer.nova.hints import HintReceiver

_log = structlog.get_logger()
_SILENT = "a cell of Nova is silent: until it answers no node goes back"


_WHAT = {
    Leftover: "room is kept for nobody",
    Stuck: "a node is of no use",
    Failed: "a granted node has failed",
}


_TURNS = 60
"""Within so many looks Placement is asked of every node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """`period_s`: how often it looks without a hint. `pause_s`: how soon after a look the next may begin.

    `removes_orphans`: allocations of nobody on its nodes are removed after the grace, not only told.
    """

    rules: Rules
    period_s: float = 5.0
    pause_s: float = 0.5
    removes_orphans: bool = False
    status_file: Path | None = None
    gate_period_s: float = 60.0
    """How often trait and aggregate are looked at, where they are kept."""


class Agent:
    """One agent, for one owner's grants. Two of them do no harm: each call names the generation it was decided by."""

    def __init__(
        self,
        cloud: NovaCloud,
        balancer: Balancer,
        settings: AgentSettings,
        keep_gate: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        """`keep_gate`: is told the names of all nodes now and then. Raises DriverError."""
        self._keep_gate = keep_gate
        self._gate_kept_us: int | None = None
        self._cloud, self._balancer, self.settings = cloud, balancer, settings
        self._memory = Memory()
        self._requests: dict[str, Request] = {}
        self._names: frozenset[str] = frozenset()
        self._turn = 0
        self._reported_intruders: frozenset[Intruder] = frozenset()
        self._reported_problems: frozenset[Leftover | Stuck | Failed] = frozenset()
        self._problem = ""
        self._status_problem = ""

    def run(self, is_over: Callable[[], bool], hints: HintReceiver) -> None:
        """Until `is_over`. What cannot be asked is asked again at the next look."""
        while not is_over():
            began_us = wall_us()
            self.look()
            # Notifications come in crowds, and each look costs Nova a list of all servers.
            rest_s = self.settings.pause_s - seconds(wall_us() - began_us)
            while rest_s > 0 and not is_over():
                hints.pause(min(rest_s, 0.5))
                rest_s = self.settings.pause_s - seconds(wall_us() - began_us)
            end_us = began_us + micros(self.settings.period_s)
            while not is_over() and (left_s := seconds(end_us - wall_us())) > 0:
                if hints.wait(min(left_s, 0.5)):
                    break

    def look(self) -> Plan | None:
        """One look, and what follows from it. None: something did not answer, and nothing was done."""
        try:
            decided = self._decide()
            self._memory = decided.memory
            self._do(decided)
            self._look_at_gate()
        except (DriverError, BalancerError) as error:
            if str(error) != self._problem:
                _log.warning("cannot look", error=str(error))
            self._problem = str(error)
            self._write_status(None)
            return None
        problem = "" if decided.is_whole else _SILENT
        if problem != self._problem:
            if problem:
                _log.warning("nothing is returned", why=problem)
            else:
                _log.info("looks again")
        self._problem = problem
        self._tell(decided)
        self._write_status(decided)
        return decided

    def _look_at_gate(self) -> None:
        now_us, kept_us = wall_us(), self._gate_kept_us
        if self._keep_gate is None or (
            kept_us is not None and now_us < kept_us + micros(self.settings.gate_period_s)
        ):
            return
        self._keep_gate(self._names)
        self._gate_kept_us = now_us

    def _decide(self) -> Plan:
        rules = self.settings.rules
        cloud = self._cloud.look()
        now_s = seconds(parse_iso(self._balancer.status()["now"]))
        nodes = self._balancer.nodes()
        self._names = frozenset(node.name for node in nodes)
        self._read_requests(nodes)
        ours = granted_to(rules.owner, nodes, self._requests)
        names = (
            {node.name for node in ours if not cloud.servers.get(node.name)}
            | {node for node, _ in self._memory.orphans_since_s}
            | self._others()
        )
        allocations = self._cloud.allocations(
            {
                name: [server.id for server in cloud.servers[name]]
                for name in sorted(names)
                if name in cloud.servers
            }
        )
        return plan(
            rules,
            cloud=cloud,
            nodes=nodes,
            requests=self._requests,
            allocations=allocations,
            before=self._memory,
            now_s=now_s,
        )

    def _others(self) -> set[str]:
        """Some of all nodes, in turns: an orphan may be beside servers, or come when its node has gone back.

        Nova allocates there when a deletion overtakes a move.
        """
        names = sorted(self._names)
        count = -(-len(names) // _TURNS)
        first, self._turn = self._turn * count, (self._turn + 1) % _TURNS
        return set(names[first : first + count])

    def _read_requests(self, nodes: list[Node]) -> None:
        """Those that have nodes; of one that is confirmed and has no end nothing changes any more."""
        request_ids = {node.request_id for node in nodes if node.state == "OD_ALLOC" and node.request_id}
        known = self._requests
        self._requests = {
            name: known[name]
            if name in known and known[name].confirmed and known[name].lease_ends_s is None
            else self._balancer.request(name)
            for name in sorted(request_ids)
        }

    def _do(self, decided: Plan) -> None:
        for name in decided.confirm:
            if self._tried(partial(self._balancer.confirm_request, name), f"confirm {name}"):
                _log.info("confirmed", request=name)
        for name in decided.renew:
            self._tried(partial(self._balancer.renew_lease, name), f"renew {name}")
        for node, generation in decided.release.items():
            # One by one: a node that has changed meanwhile must not keep the others.
            if self._tried(
                partial(self._balancer.release_nodes, [node], generations={node: generation}),
                f"release {node}",
            ):
                _log.info("returned", node=node)
        if self.settings.removes_orphans:
            for each in decided.leftovers:
                if each.consumer:
                    self._cloud.remove_allocation(each.node, each.consumer)
                    _log.info("removed an allocation", why=each.why, node=each.node, consumer=each.consumer)

    def _tried(self, call: Callable[[], object], what: str) -> bool:
        """Raises BalancerError where there was no answer; a refusal is looked at again the next time."""
        try:
            call()
        except BalancerError as error:
            if not error.status:
                raise
            _log.warning("refused", what=what, error=str(error))
            return False
        return True

    def _tell(self, decided: Plan) -> None:
        """Each intruder once when it comes, and once when it is gone."""
        shown = frozenset(decided.intruders)
        for each in sorted(
            shown - self._reported_intruders, key=lambda intruder: (intruder.node, intruder.server)
        ):
            _log.error(
                "a server where none may be",
                server=each.server,
                node=each.node,
                why=each.why,
                what_to_do=each.what_to_do,
            )
        for server, node in sorted(
            {(intruder.server, intruder.node) for intruder in self._reported_intruders}
            - {(intruder.server, intruder.node) for intruder in shown}
        ):
            _log.info("the server is gone from there", server=server, node=node)
        self._reported_intruders = shown
        problems: frozenset[Leftover | Stuck | Failed] = frozenset(
            (*decided.leftovers, *decided.stuck, *decided.failed)
        )
        for new in sorted(
            problems - self._reported_problems, key=lambda intruder: (intruder.node, intruder.why)
        ):
            _log.error(_WHAT[type(new)], node=new.node, why=new.why, what_to_do=new.what_to_do)
        self._reported_problems = problems

    def _shown(self, kind: type[Leftover | Stuck | Failed]) -> list[dict[str, object]]:
        return [
            asdict(each) | {"why": each.why, "what_to_do": each.what_to_do}
            for each in sorted(self._reported_problems, key=lambda problem: (problem.node, problem.why))
            if isinstance(each, kind)
        ]

    def _write_status(self, decided: Plan | None) -> None:
        """For monitoring; a reader sees the old or the new one."""
        path = self.settings.status_file
        if path is None:
            return
        intruders = self._reported_intruders if decided is None else decided.intruders
        shown = {
            "at": iso(SystemClock().now_us()),
            "problem": self._problem or None,
            "nodes_in_use": None if decided is None else decided.in_use,
            "leftovers": self._shown(Leftover),
            "stuck": self._shown(Stuck),
            "failed": self._shown(Failed),
            "intruders": [asdict(each) | {"what_to_do": each.what_to_do} for each in intruders],
        }
        problem = ""
        try:
            write_text(path, json.dumps(shown, indent=2) + "\n")
        except OSError as error:  # nodes go back all the same
            problem = error.strerror or str(error)
        if problem and problem != self._status_problem:
            _log.warning("the status file cannot be written", file=str(path), error=problem)
        self._status_problem = problem
