"""Is it well? For load balancers, service managers and Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Response

from balancer.api import status
from balancer.api.context import service
from balancer.api.operations import Operations
from balancer.clock import seconds
from balancer.lifecycle.records import RequestStatus
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from balancer.service.engine import Engine

blueprint = Operations("health", tag="health")


def _reply(problem: str | None, *remarks: str) -> Response:
    if problem is None:
        return Response("".join(f"{line}\n" for line in ("OK", *remarks)), content_type="text/plain")
    return Response(f"{problem}\n", 503, content_type="text/plain")


def _remarks(engine: Engine) -> list[str]:
    """The algorithm's last failure, and a node in doubt."""
    remarks = [engine.failed_plan] if engine.failed_plan is not None else []
    quarantined = engine.quarantined()
    if quarantined:
        node, why = next(iter(quarantined.items()))
        remarks.append(f"{len(quarantined)} nodes are quarantined, {node} because {why}")
    return remarks


@blueprint.call("GET", "/livez", responses={200: "The process answers"})
def livez() -> Any:
    """Alive: asks nothing of anybody."""
    return _reply(None)


@blueprint.call("GET", "/readyz", responses={200: "Ready", 503: "Not ready: the reason"})
def readyz() -> Any:
    """Ready: the ledger works and the batch system has answered lately. More lines: what somebody should look at."""
    engine = service().engine
    return _reply(engine.problem(), *_remarks(engine))


@blueprint.call("GET", "/healthz", responses={200: "Healthy", 503: "Taken out of service: the reason"})
def healthz() -> Any:
    """Healthy: as /readyz, and 503 while the disable file exists, for a planned break."""
    disable_file = service().disable_file
    if disable_file is not None and Path(disable_file).exists():
        return _reply(f"disabled by {disable_file}")
    return _reply(service().engine.problem())


@blueprint.call("GET", "/healthcheck", responses={200: "Healthy", 503: "Taken out of service: the reason"})
def healthcheck() -> Any:
    """The same as /healthz, under the name OpenStack's tools look for."""
    return healthz()


def _open_requests(engine: Engine) -> dict[str, int]:
    """How many wait, have nodes without the word of their owner, have them, and have them beyond their end."""
    counts = dict.fromkeys(("waiting", "provisional", "granted", "overdue"), 0)
    for record in engine.published.open_requests():
        if record.status is RequestStatus.WAITING:
            counts["waiting"] += 1
        elif record.overdue:
            counts["overdue"] += 1
        else:
            counts["granted" if record.confirmed else "provisional"] += 1
    return counts


@blueprint.call("GET", "/metrics", responses={200: "Prometheus text format"})
def metrics() -> Any:
    """Metrics for Prometheus."""
    engine = service().engine
    nodes, now_us = engine.nodes(), engine.clock.now_us()
    engine.metrics.nodes(engine.published.counts())
    engine.metrics.open_requests(_open_requests(engine))
    engine.metrics.stands(status.to_json(engine))
    granted = (node.since_us for node in nodes if node.state is NodeState.OD_ALLOC)
    engine.metrics.set(
        nodes_contested=sum(bool(node.contested) for node in nodes),
        oldest_grant_seconds=seconds(now_us - min(granted, default=now_us)),
    )
    return Response(engine.metrics.text(), content_type="text/plain; version=0.0.4; charset=utf-8")
