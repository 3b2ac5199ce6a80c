"""Nodes: their states, giving them back (release_nodes), and what the batch system reports (update_nodes)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from balancer.api.access import caller, owner
from balancer.api.call import current
from balancer.api.context import (
    PRINTABLE,
    Answer,
    Body,
    Generation,
    Limit,
    NodeName,
    Query,
    Seconds,
    engine,
    next_link,
    once,
)
from balancer.api.operations import Operations
from balancer.api.problems import NOT_FOUND, WRONG_NODE, Problem
from balancer.clock import micros_or_none
from balancer.lifecycle.states import POOL, NodeState
from balancer.timestamps import iso, iso_or_none

if TYPE_CHECKING:
    from balancer.drivers.base import NodeStatus
    from balancer.lifecycle.records import NodeRecord

blueprint = Operations("nodes", tag="nodes")

Nodes = Annotated[list[NodeName], Field(min_length=1, max_length=100_000)]

State = Literal[
    "OD_RESERVE", "OD_ALLOC", "OA_IDLE", "OA_BUSY", "DOWN", "RECLAIMING", "RESTORING", "QUARANTINED"
]

Generations = Annotated[
    dict[NodeName, Generation],
    Field(max_length=100_000, description="Refuse unless these nodes still have these generations"),
]


class ReleaseNodes(Body):
    nodes: Nodes
    generations: Generations | None = None


class Released(Answer):
    nodes: list[str]


class UpdateNodes(Body):
    states: Annotated[dict[NodeName, Literal["busy", "idle"]], Field(min_length=1, max_length=100_000)]
    job: Annotated[str | None, Field(min_length=1, max_length=255, pattern=PRINTABLE)] = None
    remaining_s: Annotated[Seconds | None, Field(description="Wall time the job may still run")] = None
    generations: Generations | None = None


class Updated(Answer):
    nodes: list[str]


class Reported(Answer):
    """What the batch system said when it was asked last."""

    state: Literal["idle", "busy", "offline", "down", "unknown"]
    jobs: list[str]
    note: str


class Node(Answer):
    name: str
    state: State
    pool: Literal["on-demand", "batch", "moving", "quarantined"]
    since: str
    generation: int
    request_id: str | None
    jobs: list[str]
    contested: str
    doubt: str | None
    down_since: str | None
    reported: Reported | None


class NodeList(Answer):
    nodes: list[Node]
    links: list[dict[str, str]]


class NodesQuery(Query):
    state: Annotated[State | Literal["HELD"] | None, Field(description="HELD: deprecated, QUARANTINED")] = (
        None
    )
    limit: Limit = 1000
    marker: Annotated[
        str | None, Field(max_length=255, description="Name of the last node of the page before")
    ] = None


@blueprint.call("GET", "/v1/nodes", query=NodesQuery, answer=NodeList)
def list_nodes(query_data: NodesQuery) -> Any:
    """Nodes by name, with the Balancer's state and what the batch system reported."""
    state = NodeState.QUARANTINED if query_data.state == "HELD" else query_data.state
    limit = query_data.limit
    records = [record for record in engine().nodes() if state is None or record.state == state]
    if query_data.marker is not None:
        # A node that is gone meanwhile is as good a marker: what comes after its name comes next.
        records = records[bisect_right(records, query_data.marker, key=lambda record: record.name) :]
    page = records[:limit]
    more = len(records) > limit
    links = next_link("/v1/nodes", marker=page[-1].name, limit=limit, state=state) if more else []
    return {"nodes": [to_json(record, engine().reading(record.name)) for record in page], "links": links}


@blueprint.call("GET", "/v1/nodes/<name>", answer=Node, responses=[404])
def get_node(name: str) -> Any:
    """One node; its generation is also the ETag."""
    record = engine().node(name)
    if record is None:
        raise Problem(404, NOT_FOUND, f"there is no node {name}")
    return to_json(record, engine().reading(name)), 200, {"ETag": f'"{record.generation}"'}


@blueprint.call(
    "POST",
    "/v1/release_nodes",
    body=ReleaseNodes,
    answer=Released,
    responses={409: "A node is not allocated, or has changed; nothing changed"},
)
def release_nodes(json_data: ReleaseNodes) -> Any:
    """Give allocated nodes back. All of them or none."""
    return once(
        json_data,
        {"nodes": json_data.nodes},
        lambda key: engine().release_nodes(
            tuple(json_data.nodes), caller=owner(), generations=json_data.generations, key=key
        ),
    )


@blueprint.call(
    "POST",
    "/v1/update_nodes",
    body=UpdateNodes,
    answer=Updated,
    responses={409: "A node is not in the batch pool: the job must not run there; nothing changed"},
)
def update_nodes(json_data: UpdateNodes) -> Any:
    """A job starts (`busy`) or has ended (`idle`) on these nodes. All of them or none."""
    signer = caller().node
    if signer is not None and signer not in json_data.states:
        raise Problem(403, WRONG_NODE, f"node {signer} may only report jobs that it takes part in")
    return once(
        json_data,
        {"nodes": list(json_data.states)},
        lambda key: engine().update_nodes(
            busy=tuple(node for node, state in json_data.states.items() if state == "busy"),
            idle=tuple(node for node, state in json_data.states.items() if state == "idle"),
            job=json_data.job,
            remaining_us=micros_or_none(json_data.remaining_s),
            generations=json_data.generations,
            key=key,
            event_id=current().request_id,
        ),
    )


def to_json(record: NodeRecord, reading: NodeStatus | None) -> dict[str, Any]:
    reported = None
    if reading is not None:
        reported = {"state": reading.state, "jobs": list(reading.jobs), "note": reading.note}
    return {
        "name": record.name,
        "state": record.state.value,
        "pool": POOL[record.state],
        "since": iso(record.since_us),
        "generation": record.generation,
        "request_id": record.reserved_for,
        "jobs": list(record.jobs),
        "contested": record.contested,
        "doubt": record.doubt if record.state is NodeState.QUARANTINED else None,
        "down_since": iso_or_none(record.down_since_us),
        "reported": reported,
    }
