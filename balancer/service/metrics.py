"""Prometheus metrics of the service. Labels are small closed sets: never a node, a job or a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

from balancer.clock import seconds
from balancer.lifecycle.states import POOL, NodeState
from balancer.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from balancer.lifecycle.records import NodeRecord

_FAST_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_SLOW_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 600.0)


_GAUGES = {
    "waiting_requests": "Requests that wait for nodes",
    "waiting_request_nodes": "Nodes that waiting requests ask for",
    "oldest_wait_seconds": "Cluster time the oldest waiting request has waited",
    "oldest_grant_seconds": "Cluster time since the oldest grant that lasts",
    "reserves": "Announced reserves that have not ended",
    "ready": "1 while /readyz says so",
    "read_only": "1 while nothing can be stored",
    "claimed_by_another": "1 while another Balancer has the nodes and none is moved",
    "frozen": "1 while people have ordered that no node moves",
    "nodes_unannounced": "Nodes on which a job began that no hook has told of",
    "hook_age_seconds": "Cluster time since a hook reported a job last; +Inf: none since the start",
    "ledger_newest_event": "Number of the newest event",
    "ledger_size_bytes": "What the ledger's file and its log take on the disk",
    "nodes_contested": "Lent nodes that are not granted because a job or a mark was reported there",
    "nodes_failed": "Granted nodes that are down and were not replaced",
    "nodes_asleep": "Nodes that are DOWN because power saving has switched them off",
    "leader": "1 while this service holds the ledger and may write",
    "reconcile_drift_nodes": "Nodes that read otherwise than the ledger says",
    "reconcile_last_success_timestamp_seconds": "Cluster time of the last reading of all nodes",
}
"""Without labels."""


class Metrics:
    """One set per service (its own registry), so that a process can have many."""

    def __init__(self, driver: str) -> None:
        self.registry = registry = CollectorRegistry()
        self._driver = driver

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"balancer_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"balancer_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
            name = f"balancer_{name}_duration_seconds"
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        Info("balancer_build", "Version of the Balancer", registry=registry).info({"version": VERSION})
        self._gauges = {name: gauge(name, text) for name, text in _GAUGES.items()}
        self._nodes = gauge("nodes", "Nodes by pool and state", "pool", "state")
        self._requests = counter("requests_total", "Answered requests for nodes", "outcome")
        self._moves = counter("moves_total", "Nodes that changed pools", "source", "target", "outcome")
        moved = "Cluster time from the decision to move a node until the batch system shows it done"
        self._move_s = histogram("move", moved, "source", "target", buckets=_SLOW_S)
        help_text = "Commands given to the batch system"
        self._commands = counter("driver_commands_total", help_text, "driver", "command", "outcome")
        took = "Wall time of a batch command"
        self._command_s = histogram("driver_command", took, "driver", "command", buckets=_SLOW_S)
        self._commit_s = histogram("ledger_commit", "Wall time of a durable commit", buckets=_FAST_S)
        self._hooks = counter("hook_events_total", "Reports of job starts and ends", "hook", "outcome")
        http_s = (*_FAST_S, 30.0, 600.0)
        called = "Wall time of an HTTP call"
        self._http_s = histogram("http_request", called, "method", "route", "code", buckets=http_s)
        refused = "Calls refused before they were looked at, by status"
        self._denied = counter("http_denied_total", refused, "code")
        self._open = gauge("requests_open", "Requests that wait or have nodes", "state")
        self._reachable = gauge("reachable", "1 while the last question had an answer", "system")
        self._age = gauge("reading_age_seconds", "Cluster time since the last answer", "system")
        failed = "Plans that the algorithm could not make, or that made no sense"
        self._failed_plans = counter("failed_plans_total", failed)
        self._http_children: dict[tuple[str, str, int], Histogram] = {}

    def nodes(self, counts: Mapping[NodeState, int]) -> None:
        for state, count in counts.items():
            self._nodes.labels(POOL[state].replace("-", "_"), state.value).set(count)

    def open_requests(self, counts: Mapping[str, int]) -> None:
        for state, count in counts.items():
            self._open.labels(state).set(count)

    def set(self, **values: float) -> None:
        """Gauges of `_GAUGES`, by their names."""
        for name, value in values.items():
            self._gauges[name].set(value)

    def stands(self, status: Mapping[str, Any]) -> None:
        """How the service stands (`api/status.py`)."""
        last_hook_s = status["last_hook_s"]
        self.set(
            waiting_requests=status["waiting"]["requests"],
            waiting_request_nodes=status["waiting"]["nodes"],
            oldest_wait_seconds=status["waiting"]["oldest_s"] or 0,
            reserves=status["reserves"],
            ready=status["problem"] is None,
            read_only=status["read_only"],
            claimed_by_another=status["claimed"] is not None,
            frozen=status["frozen"] is not None,
            nodes_unannounced=len(status["unannounced"]),
            hook_age_seconds=float("inf") if last_hook_s is None else last_hook_s,
            ledger_newest_event=status["newest_event"],
            ledger_size_bytes=status["ledger_bytes"] or 0,
            nodes_failed=len(status["failed"]),
            nodes_asleep=status["asleep"],
            leader=status["leader"],
        )
        for system in ("batch", "cloud"):
            if status[system] is not None:
                age_s = status[system]["age_s"]
                self._reachable.labels(system).set(status[system]["reachable"])
                self._age.labels(system).set(float("inf") if age_s is None else age_s)

    def request_answered(self, outcome: str) -> None:
        self._requests.labels(outcome).inc()

    def nodes_moved(self, moves: Iterable[tuple[NodeRecord, NodeRecord]]) -> None:
        """Records before and after; what counts is the end of a move between the pools."""
        for before, after in moves:
            took_s = seconds(after.since_us - before.since_us)
            if before.state is NodeState.RECLAIMING:
                outcome = "done" if after.state is NodeState.OD_RESERVE else "failed"
                self.node_moved("batch", "on_demand", outcome, took_s)
            elif before.state is NodeState.RESTORING:
                outcome = "failed" if after.state in (NodeState.DOWN, NodeState.QUARANTINED) else "done"
                self.node_moved("on_demand", "batch", outcome, took_s)

    def node_moved(self, source: str, target: str, outcome: str, took_s: float) -> None:
        self._moves.labels(source, target, outcome).inc()
        self._move_s.labels(source, target).observe(took_s)

    def command_done(self, command: str, outcome: str, took_s: float) -> None:
        self._commands.labels(self._driver, command, outcome).inc()
        self._command_s.labels(self._driver, command).observe(took_s)

    def committed(self, took_s: float) -> None:
        self._commit_s.observe(took_s)

    def reconciled(self, at_s: float, drift: int) -> None:
        self.set(reconcile_drift_nodes=drift, reconcile_last_success_timestamp_seconds=at_s)

    def plan_failed(self) -> None:
        self._failed_plans.inc()

    def denied(self, code: int) -> None:
        self._denied.labels(str(code)).inc()

    def hook_event(self, hook: str, outcome: str) -> None:
        self._hooks.labels(hook, outcome).inc()

    def http_done(self, method: str, route: str, code: int, took_s: float) -> None:
        # `labels` takes a lock and builds strings: the few that exist are kept.
        key = method, route, code
        child = self._http_children.get(key)
        if child is None:
            child = self._http_children[key] = self._http_s.labels(method, route, str(code))
        child.observe(took_s)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
