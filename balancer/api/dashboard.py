"""The page that an operator keeps open, and what it asks for: figures and states, never more than one page needs."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from apiflask import APIBlueprint, APIFlask
from flask import Response, current_app, render_template, request

from balancer.api import api_pages, events, requests, reserves, status
from balancer.api.context import MAX_VERSION, MIN_VERSION, engine, service
from balancer.clock import seconds
from balancer.headroom import job_end_us, reserved_nodes
from balancer.lifecycle.records import NodeRecord, RequestRecord, RequestStatus
from balancer.lifecycle.states import NodeState
from balancer.service.pools import SLOT_US, SLOTS
from balancer.timestamps import iso
from balancer.version import VERSION

if TYPE_CHECKING:
    from balancer.drivers.base import NodeStatus
    from balancer.ledger.reader import StoredEvent
    from balancer.service.engine import Engine

blueprint = APIBlueprint("dashboard", __name__, enable_openapi=False, template_folder="templates")

_EVENTS = 40
_WAITING = 50
_LOOKED_AT = 400
_LONG = 4096
_QUIET_KINDS = ("timer_fired", "nodes_observed")
_NEWS = ("moved", "decided", "contested", "overdue", "ended")


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
    return render_template("dashboard.html", version=VERSION, has_login=service().access.gate is not None)


@blueprint.get("/docs")
def docs() -> Any:
    """The calls of the API for people, from the same document as `/openapi.json`."""
    spec: Any = cast("APIFlask", current_app).spec
    return render_template("docs.html", **api_pages.contents(spec), version=VERSION)


@blueprint.get("/dashboard/now")
def now() -> Any:
    """How the service stands, who waits and why, what is announced, what happened last."""
    source = engine()
    waiting = source.ledger.requests(status=RequestStatus.WAITING, before=None, limit=_WAITING)
    return {
        "status": status.to_json(source),
        "waiting": _waits(source, waiting),
        "reserves": [reserves.to_json(record) for record in source.ledger.reserves()],
        "events": [_event(event) for event in _last_events(source)],
    }


def _last_events(source: Engine) -> list[StoredEvent]:
    """Newest first, without those that changed nothing: the time came, or a reading brought nothing new."""
    newest = source.ledger.newest_events(source.ledger.last_seq(), page=_EVENTS)
    news = (event for event in islice(newest, _LOOKED_AT) if not _is_quiet(event))
    return list(islice(news, _EVENTS))


def _is_quiet(event: StoredEvent) -> bool:
    """As `isQuiet` of the page's script."""
    return event.kind in _QUIET_KINDS and not any(f'"{word}":' in event.body for word in _NEWS)


@blueprint.get("/dashboard/nodes")
def nodes() -> Any:
    """All nodes as rows: name, state, since (seconds since 1970), for whom, jobs, their end at the latest, remark."""
    source = engine()
    by_hand = set(source.taken_offline_by_others)
    rows = [_row(source, node, by_hand=node.name in by_hand) for node in source.nodes()]
    text = json.dumps({"nodes": rows}, separators=(",", ":"))
    return Response(text, content_type="application/json")


@blueprint.get("/dashboard/pools")
def pools() -> Any:
    """Nodes by state over the last day, or since the log began: `at_s` -> counts from then on, at least one."""
    now_us = engine().clock.now_us()
    end_us, found = service().pools.slots(now_us)
    steps: list[tuple[float, list[int]]] = []
    for place, slot in enumerate(found):
        counts = None if slot is None else [slot.get(state.value, 0) for state in NodeState]
        if counts is not None and (not steps or steps[-1][1] != counts):
            # A slot has the counts at its end; the last one is not over.
            steps.append((seconds(end_us - (len(found) - place) * SLOT_US), counts))
    first = engine().ledger.events(0, 1)
    begun_s = seconds(max(first[0].at_us, end_us - SLOTS * SLOT_US)) if first else steps[0][0]
    steps[0] = (begun_s, steps[0][1])
    return {
        "start_s": begun_s,
        "end_s": seconds(now_us),
        "states": [state.value for state in NodeState],
        "steps": steps,
    }


def _event(event: StoredEvent) -> dict[str, Any]:
    """One that names thousands of nodes is not read for a line on a page."""
    if len(event.body) > _LONG:
        event = replace(event, body='{"long":true}')
    return events.to_json(event)


def _row(source: Engine, node: NodeRecord, *, by_hand: bool) -> list[Any]:
    reading = source.reading(node.name)
    jobs = node.jobs or (() if reading is None else reading.jobs)
    end_us = job_end_us(source, node) if jobs else None
    end_s = None if end_us is None else round(seconds(max(end_us, source.clock.now_us())))
    return [
        node.name,
        node.state.value,
        round(seconds(node.since_us)),
        node.reserved_for or "",
        " ".join(jobs),
        end_s,
        _remark(node, reading, by_hand=by_hand),
    ]


def _remark(node: NodeRecord, reading: NodeStatus | None, *, by_hand: bool) -> str:
    """Why an operator should look at the node."""
    if node.state is NodeState.QUARANTINED:
        return node.doubt
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
    reserved = reserved_nodes(source.nodes())
    busy = source.published.counts()[NodeState.OA_BUSY]
    return [
        requests.to_json(record) | _why(record, reserved[record.request_id], place, busy, source)
        for place, record in enumerate(reversed(records))
    ]


def _why(record: RequestRecord, reserved: int, place: int, busy: int, source: Engine) -> dict[str, Any]:
    short = max(0, record.count - reserved)
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
    return {"reserved": reserved, "why": why, "end": end}
