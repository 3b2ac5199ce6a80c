"""Operators only: quarantine_nodes takes nodes out of everything, adopt_nodes says whose they are, adopt whose all."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import structlog
from pydantic import Field

from balancer.api.access import owner
from balancer.api.context import PRINTABLE, Answer, Body, Held, engine, idempotency_key, once
from balancer.api.nodes import Nodes  # noqa: TC001 - pydantic reads it
from balancer.api.operations import Operations

_log = structlog.get_logger()

blueprint = Operations("adoption", tag="nodes")


Reason = Annotated[
    str,
    Field(min_length=1, max_length=500, pattern=PRINTABLE, description="Stands in the log"),
]


class AdoptNodes(Body):
    nodes: Nodes
    pool: Literal["on-demand", "batch"]
    reason: Reason | None = None


class QuarantineNodes(Body):
    nodes: Nodes
    reason: Reason


class Adopt(Body):
    reason: Reason


class Quarantined(Answer):
    nodes: list[str]


class Adopted(Answer):
    nodes: list[str]


class Claimed(Answer):
    """`claimed`: why it still moves no node (null: it does). `quarantined`: nodes whose owner somebody must name."""

    claimed: str | None
    quarantined: dict[str, str]
    held: Held


@blueprint.call(
    "POST",
    "/v1/adopt_nodes",
    body=AdoptNodes,
    answer=Adopted,
    responses={409: "A node is not QUARANTINED; nothing changed"},
)
def adopt_nodes(json_data: AdoptNodes) -> Any:
    """QUARANTINED nodes are on-demand's (allocated, as they were) or batch's (given back). All of them or none."""
    return once(
        json_data,
        {"nodes": json_data.nodes},
        lambda key: engine().adopt_nodes(
            tuple(json_data.nodes),
            on_demand=json_data.pool == "on-demand",
            caller=owner(),
            reason=json_data.reason or "",
            key=key,
        ),
    )


@blueprint.call("POST", "/v1/quarantine_nodes", body=QuarantineNodes, answer=Quarantined)
def quarantine_nodes(json_data: QuarantineNodes) -> Any:
    """QUARANTINED, whatever state they are in: nobody may have them, until `adopt_nodes` or the cloud says whose."""
    return once(
        json_data,
        {"nodes": json_data.nodes},
        lambda key: engine().quarantine_nodes(
            tuple(json_data.nodes), json_data.reason, caller=owner(), key=key
        ),
    )


@blueprint.call("POST", "/v1/hold_nodes", body=QuarantineNodes, answer=Quarantined, deprecated=True)
def hold_nodes(json_data: QuarantineNodes) -> Any:
    """The old name of `quarantine_nodes`; the next version does not serve it."""
    return quarantine_nodes(json_data)


@blueprint.call("POST", "/v1/adopt", body=Adopt, answer=Claimed)
def adopt(json_data: Adopt) -> Any:
    """No other Balancer runs on the nodes: this one takes over and moves them. Waits for the batch system."""
    idempotency_key(json_data)  # a wrong one is told; said twice it is the same
    _log.warning(
        "an operator says that no other Balancer runs on the nodes", by=owner().name, reason=json_data.reason
    )
    claimed, quarantined = engine().adopt() or None, engine().quarantined()
    return {"claimed": claimed, "quarantined": quarantined, "held": quarantined}
