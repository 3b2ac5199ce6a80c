"""The page that an operator keeps open, and what it asks for: figures and states, never more than one page needs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apiflask import APIBlueprint
from flask import Response, render_template, request

from balancer.api import events, requests, reserves, status
from balancer.api.context import MAX_VERSION, MIN_VERSION, engine, service
from balancer.clock import seconds
from balancer.lifecycle.records import RequestStatus
from balancer.lifecycle.states import NodeState
from balancer.pools import SLOT_US
from balancer.timestamps import iso
from balancer.version import VERSION

if TYPE_CHECKING:
    from balancer.drivers.base import NodeStatus
    from balancer.engine import Engine
    from balancer.ledger.reader import StoredEvent
    from balancer.lifecycle.records import NodeRecord, RequestRecord

blueprint = APIBlueprint("dashboard", __name__, enable_openapi=False, template_folder="templates")

_EVENTS = 40
_WAITING = 50
_LONG = 4096


@blueprint.get("/v1/")
def versions() -> Any:
    """Which versions of the API are served; asked without a token."""
    return {"version": _version()}


def _version() -> dict[str, Any]:
    return {
        "id": "v1",
        "status": "CURRENT",
        "min_version": f"{MIN_VERSION[0]}.{MIN_VERSION[1]}",
        "max_version": f"{MAX_VERSION[0]}.{MAX_VERSION[1]}",
        "links": [{"rel": "self", "href": "/v1/"}],
    }


@blueprint.get("/")
def show() -> Any:
    """The dashboard, or the versions of the API for programs."""
    if request.accept_mimetypes.best_match(["text/html", "application/json"]) == "application/json":
        return {"versions": [_version()]}
    return render_template("dashboard.html", version=VERSION)


@blueprint.get("/dashboard/now")
def now() -> Any:
    """How the service stands, who waits and why, what is announced, what happened last."""
    source = engine()
    newest = source.ledger.last_seq()
    waiting = source.ledger.requests(status=RequestStatus.WAITING, before=None, limit=_WAITING)
    last = source.ledger.events(max(0, newest - _EVENTS), _EVENTS)
    return {
        "status": status.to_json(source),
        "waiting": _waits(source, waiting),
        "reserves": [reserves.to_json(record) for record in source.ledger.reserves()],
        "events": [_event(event) for event in reversed(last)],
    }


@blueprint.get("/dashboard/nodes")
def nodes() -> Any:
    """All nodes as rows: name, state, since (seconds since 1970), for whom, jobs, seconds left, remark."""
    source = engine()
    by_hand = set(source.taken_offline_by_others)
    rows = [_row(node, source.reading(node.name), by_hand=node.name in by_hand) for node in source.nodes()]
    text = json.dumps({"nodes": rows}, separators=(",", ":"))
    return Response(text, content_type="application/json")


@blueprint.get("/dashboard/pools")
def pools() -> Any:
    """Nodes by state at the ends of the last 288 slots of 5 minutes, oldest first."""
    end_us, found = service().pools.slots(engine().clock.now_us())
    known = [slot for slot in found if slot is not None]
    missing = len(found) - len(known)
    return {
        "end_s": seconds(end_us),
        "slot_s": seconds(SLOT_US),
        "missing": missing,
        "states": {state.value: [slot.get(state.value, 0) for slot in known] for state in NodeState},
    }


def _event(event: StoredEvent) -> dict[str, Any]:
    """One that names thousands of nodes is not read for a line on a page."""
    if len(event.body) > _LONG:
        event = replace(event, body='{"long":true}')
    return events.to_json(event)


def _row(node: NodeRecord, reading: NodeStatus | None, *, by_hand: bool) -> list[Any]:
    jobs, left_s = node.jobs, None
    if reading is not None:
        jobs = jobs or reading.jobs
        if reading.remaining_us is not None:
            left_s = round(seconds(reading.remaining_us))
    return [
        node.name,
        node.state.value,
        round(seconds(node.since_us)),
        node.held_for or "",
        " ".join(jobs),
        left_s,
        _remark(node, reading, by_hand=by_hand),
    ]


def _remark(node: NodeRecord, reading: NodeStatus | None, *, by_hand: bool) -> str:
    """Why an operator should look at the node."""
    if node.state is NodeState.HELD:
        return f"in doubt: {node.doubt}"
    if node.down_since_us is not None:
        return f"down since {iso(node.down_since_us)}"
    if node.contested:
        return f"not granted: {node.contested}"
    if reading is None:
        return ""
    if by_hand:
        return f"offline by somebody else: {reading.note}" if reading.note else "offline by somebody else"
    return f"reads {reading.state}" if reading.state in ("down", "unknown") else ""


def _waits(source: Engine, records: list[RequestRecord]) -> list[dict[str, Any]]:
    """Oldest first: that is the order in which they are served."""
    if not records:
        return []
    held: dict[str, int] = {}
    for node in source.nodes():
        if node.held_for is not None and node.state is not NodeState.OD_ALLOC:
            held[node.held_for] = held.get(node.held_for, 0) + 1
    busy = source.counts()[NodeState.OA_BUSY]
    return [
        requests.to_json(record) | _why(record, held.get(record.request_id, 0), place, busy, source)
        for place, record in enumerate(reversed(records))
    ]


def _why(record: RequestRecord, held: int, place: int, busy: int, source: Engine) -> dict[str, Any]:
    short = max(0, record.count - held)
    if source.frozen is not None:
        why, end = "the service is frozen", "a thaw, or its deadline"
    elif short == 0:
        why, end = f"its {record.count} nodes are on their way", "the batch system shows them handed over"
    else:
        behind = f", behind {place} earlier" if place else ""
        why = f"{short} of {record.count} nodes are missing{behind}"
        end = f"jobs end on {short} of the {busy} busy nodes" if busy else "nodes come back from on-demand"
        if source.batch.error is not None:
            why += "; the batch system does not answer"
    return {"held": held, "why": why, "end": end}
