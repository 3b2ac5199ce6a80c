"""Prometheus metrics of the service. Labels are small closed sets: never a node, a job or a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

from balancer.clock import seconds
from balancer.lifecycle.states import NodeState
from balancer.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from balancer.lifecycle.records import NodeRecord

_FAST_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_SLOW_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 600.0)

_POOL = {
    NodeState.OD_RESERVE: "on_demand",
    NodeState.OD_ALLOC: "on_demand",
    NodeState.OA_IDLE: "batch",
    NodeState.OA_BUSY: "batch",
    NodeState.DOWN: "batch",
    NodeState.RECLAIMING: "moving",
    NodeState.RESTORING: "moving",
    NodeState.QUARANTINED: "quarantined",
}


class _StateOfTheService:
    """What is asked for when the metrics are: it is not counted as it happens."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"balancer_{name}", text, labels, registry=registry)

        self._waiting = gauge("waiting_requests", "Requests that wait for nodes")
        self._waiting_nodes = gauge("waiting_request_nodes", "Nodes that waiting requests ask for")
        self._oldest_wait = gauge("oldest_wait_seconds", "Cluster time the oldest waiting request has waited")
        self._oldest_grant = gauge("oldest_grant_seconds", "Cluster time since the oldest grant that lasts")
        self._reserves = gauge("reserves", "Announced reserves that have not ended")
        self._ready = gauge("ready", "1 while /readyz says so")
        self._read_only = gauge("read_only", "1 while nothing can be stored")
        self._claimed = gauge(
            "claimed_by_another", "1 while another Balancer has the nodes and none is moved"
        )
        self._frozen = gauge("frozen", "1 while people have ordered that no node moves")
        self._reachable = gauge("reachable", "1 while the last question had an answer", ("system",))
        self._age = gauge("reading_age_seconds", "Cluster time since the last answer", ("system",))
        self._hook_age = gauge(
            "hook_age_seconds", "Cluster time since a hook reported a job last; +Inf: none since the start"
        )
        self._events = gauge("ledger_newest_event", "Number of the newest event")
        self._bytes = gauge("ledger_size_bytes", "What the ledger's file and its log take on the disk")

    def set(self, status: Mapping[str, Any], oldest_grant_s: float) -> None:
        self._waiting.set(status["waiting"]["requests"])
        self._waiting_nodes.set(status["waiting"]["nodes"])
        self._oldest_wait.set(status["waiting"]["oldest_s"] or 0)
        self._oldest_grant.set(oldest_grant_s)
        self._reserves.set(status["reserves"])
        self._ready.set(status["problem"] is None)
        self._read_only.set(status["read_only"])
        self._claimed.set(status["claimed"] is not None)
        self._frozen.set(status["frozen"] is not None)
        for system in ("batch", "cloud"):
            if status[system] is not None:
                self._reachable.labels(system).set(status[system]["reachable"])
                age_s = status[system]["age_s"]
                self._age.labels(system).set(float("inf") if age_s is None else age_s)
        last_hook_s = status["last_hook_s"]
        self._hook_age.set(float("inf") if last_hook_s is None else last_hook_s)
        self._events.set(status["newest_event"])
        self._bytes.set(status["ledger_bytes"] or 0)


class Metrics:
    """One set per service (its own registry), so that a process can have many."""

    def __init__(self, driver: str) -> None:
        self.registry = registry = CollectorRegistry()
        self._driver = driver
        Info("balancer_build", "Version of the Balancer", registry=registry).info({"version": VERSION})
        self._nodes = Gauge("balancer_nodes", "Nodes by pool and state", ("pool", "state"), registry=registry)
        self._requests = Counter(
            "balancer_requests_total", "Answered requests for nodes", ("outcome",), registry=registry
        )
        self._moves = Counter(
            "balancer_moves_total",
            "Nodes that changed pools",
            ("source", "target", "outcome"),
            registry=registry,
        )
        self._move_s = Histogram(
            "balancer_move_duration_seconds",
            "Cluster time from the decision to move a node until the batch system shows it done",
            ("source", "target"),
            buckets=_SLOW_S,
            registry=registry,
        )
        self._commands = Counter(
            "balancer_driver_commands_total",
            "Commands given to the batch system",
            ("driver", "command", "outcome"),
            registry=registry,
        )
        self._command_s = Histogram(
            "balancer_driver_command_duration_seconds",
            "Wall time of a batch command",
            ("driver", "command"),
            buckets=_SLOW_S,
            registry=registry,
        )
        self._commit_s = Histogram(
            "balancer_ledger_commit_duration_seconds",
            "Wall time of a durable commit",
            buckets=_FAST_S,
            registry=registry,
        )
        self._drift = Gauge(
            "balancer_reconcile_drift_nodes",
            "Nodes that read otherwise than the ledger says",
            registry=registry,
        )
        self._reconciled = Gauge(
            "balancer_reconcile_last_success_timestamp_seconds",
            "Cluster time of the last reading of all nodes",
            registry=registry,
        )
        self._hooks = Counter(
            "balancer_hook_events_total",
            "Reports of job starts and ends",
            ("hook", "outcome"),
            registry=registry,
        )
        self._http_s = Histogram(
            "balancer_http_request_duration_seconds",
            "Wall time of an HTTP call",
            ("method", "route", "code"),
            buckets=(*_FAST_S, 30.0, 600.0),
            registry=registry,
        )
        self._denied = Counter(
            "balancer_http_denied_total",
            "Calls refused before they were looked at, by status",
            ("code",),
            registry=registry,
        )
        self._open = Gauge(
            "balancer_requests_open", "Requests that wait or have nodes", ("state",), registry=registry
        )
        self._contested = Gauge(
            "balancer_nodes_contested",
            "Lent nodes that are not granted because a job or a mark was reported there",
            registry=registry,
        )
        self._failed = Gauge(
            "balancer_nodes_failed", "Granted nodes that are down and were not replaced", registry=registry
        )
        self._asleep = Gauge(
            "balancer_nodes_asleep",
            "Nodes that are DOWN because power saving has switched them off",
            registry=registry,
        )
        self._leader = Gauge(
            "balancer_leader", "1 while this service holds the ledger and may write", registry=registry
        )
        self._state = _StateOfTheService(registry)
        self._failed_plans = Counter(
            "balancer_failed_plans_total",
            "Plans that the algorithm could not make, or that made no sense",
            registry=registry,
        )
        self._http_children: dict[tuple[str, str, int], Histogram] = {}

    def nodes(self, counts: Mapping[NodeState, int]) -> None:
        for state, count in counts.items():
            self._nodes.labels(_POOL[state], state.value).set(count)

    def open_requests(self, counts: Mapping[str, int]) -> None:
        for state, count in counts.items():
            self._open.labels(state).set(count)

    def contested(self, count: int) -> None:
        self._contested.set(count)

    def failed(self, count: int) -> None:
        self._failed.set(count)

    def asleep(self, count: int) -> None:
        self._asleep.set(count)

    def leads(self, is_leader: bool) -> None:
        self._leader.set(is_leader)

    def stands(self, status: Mapping[str, Any], oldest_grant_s: float) -> None:
        """How the service stands (`api/status.py`)."""
        self._state.set(status, oldest_grant_s)

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
        self._drift.set(drift)
        self._reconciled.set(at_s)

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
