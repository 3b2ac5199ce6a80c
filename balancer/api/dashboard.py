"""One page for people: the nodes, the requests, what happened last. No script, nothing from elsewhere."""

from __future__ import annotations

from typing import Any

from apiflask import APIBlueprint
from flask import render_template, request

from balancer.api.context import MAX_VERSION, MIN_VERSION, engine
from balancer.lifecycle.states import NodeState
from balancer.timestamps import iso
from balancer.version import VERSION

blueprint = APIBlueprint("dashboard", __name__, enable_openapi=False, template_folder="templates")

_LAST = 12
_MEANING = {
    NodeState.OA_BUSY: "batch, runs a job",
    NodeState.OA_IDLE: "batch, idle",
    NodeState.RECLAIMING: "on its way to on-demand",
    NodeState.OD_RESERVE: "on-demand, in reserve",
    NodeState.OD_ALLOC: "on-demand, allocated",
    NodeState.RESTORING: "on its way to batch",
    NodeState.DOWN: "not usable",
    NodeState.HELD: "in doubt, nobody's",
}


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
    source = engine()
    nodes = source.nodes()
    counts = source.counts()
    newest = source.ledger.last_seq()
    return render_template(
        "dashboard.html",
        version=VERSION,
        now=iso(source.clock.now_us())[:19] + "Z",
        problem=source.problem(),
        algorithm=source.algorithm_name,
        total=len(nodes),
        states=[(state.value, _MEANING[state], counts[state]) for state in _MEANING],
        nodes=nodes,
        by_hand=set(source.taken_offline_by_others),
        requests=source.ledger.requests(status=None, before=None, limit=_LAST),
        reserves=source.ledger.reserves(),
        events=source.ledger.events(max(0, newest - _LAST), _LAST)[::-1],
        iso=iso,
    )
