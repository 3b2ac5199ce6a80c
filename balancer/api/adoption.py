"""adopt_nodes: an operator says whose nodes in doubt are."""

from __future__ import annotations

import json
from typing import Any, Literal

from apiflask import APIBlueprint

from balancer.api.context import Answer, Body, engine, event_id, idempotency_key
from balancer.api.nodes import Nodes  # noqa: TC001 - pydantic reads it

blueprint = APIBlueprint("adoption", __name__, tag="nodes")


class AdoptNodes(Body):
    nodes: Nodes
    pool: Literal["on-demand", "batch"]


class Adopted(Answer):
    nodes: list[str]


@blueprint.post("/v1/adopt_nodes")
@blueprint.input(AdoptNodes)
@blueprint.output(Adopted)
@blueprint.doc(responses={409: "A node is not HELD; nothing changed"})
def adopt_nodes(json_data: AdoptNodes) -> Any:
    """HELD nodes are on-demand's (allocated, as they were) or batch's (given back). All of them or none."""
    answer = {"nodes": json_data.nodes}
    key = idempotency_key(json_data)
    with engine().idempotent(key) as stored:
        if stored is not None:
            return json.loads(stored.body or "{}")
        engine().adopt_nodes(
            tuple(json_data.nodes),
            on_demand=json_data.pool == "on-demand",
            key=key,
            answer=json.dumps(answer) if key else "",
            event_id=event_id(),
        )
    return answer
