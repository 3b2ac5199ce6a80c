"""Requests for on-demand nodes: request_nodes, and how each request stands."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import Field

from balancer.api.access import owner
from balancer.api.call import current
from balancer.api.context import (
    Answer,
    Body,
    Limit,
    Query,
    Seconds,
    engine,
    idempotency_key,
    next_link,
    service,
)
from balancer.api.operations import Operations
from balancer.api.problems import INVALID, LEASE_ENDED, NOT_FOUND, NOT_OBTAINABLE, WITHDRAWN, Problem
from balancer.clock import micros_or_none
from balancer.lifecycle.records import RequestRecord, RequestStatus
from balancer.timestamps import iso, iso_or_none

blueprint = Operations("requests", tag="requests")

State = Literal["waiting", "granted", "rejected", "withdrawn"]


Patterns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9\[][A-Za-z0-9._,\[\]-]*$")]],
    Field(max_length=10_000),
]


class RequestNodes(Body):
    nodes: Annotated[int, Field(ge=1, le=1_000_000, description="How many nodes")]
    wait_s: Annotated[
        Seconds | None, Field(description="How long to wait for jobs to end; missing: the configured W")
    ] = None
    lease_s: Annotated[
        Seconds | None,
        Field(
            description="How long the nodes are wanted from the confirmation on; missing: the configured lease"
        ),
    ] = None
    candidates: Annotated[
        Annotated[Patterns, Field(min_length=1)] | None,
        Field(
            description="Only these nodes: names or patterns like n[01-16]; names of no node here are ignored; "
            "missing: any node"
        ),
    ] = None
    exclude: Annotated[Patterns | None, Field(description="None of these nodes")] = None
    replace: Annotated[
        bool,
        Field(
            description="A granted node that fails leaves the grant, and another request, by the same rules, "
            "is made in its place"
        ),
    ] = False


class ConfirmRequest(Body):
    pass


class RenewLease(Body):
    lease_s: Annotated[
        Seconds | None, Field(description="From now on; missing: as long as was asked for")
    ] = None


class DownNode(Answer):
    """A node of the grant that has failed and stays with it."""

    node: str
    since: str


class LostNode(Answer):
    """A node that failed and left the grant; `replaced_by`: the request that was made for another one."""

    node: str
    since: str
    replaced_by: str


class Request(Answer):
    id: str
    state: State
    count: int
    nodes: list[str]
    submitted_at: str
    deadline_at: str
    decided_at: str | None
    reason: str
    owner: str
    confirmed: bool
    confirm_by: str | None
    lease_ends_at: str | None
    overdue: bool
    ended_at: str | None
    replace: bool
    replaces: str | None
    down: list[DownNode]
    lost: list[LostNode]


class Requests(Answer):
    requests: list[Request]
    links: list[dict[str, str]]


class RequestsQuery(Query):
    state: State | None = None
    owner: Annotated[
        str | None, Field(max_length=255, description="Only those of this owner; `me`: of the caller")
    ] = None
    overdue: Annotated[
        bool, Field(description="Only grants that are past their end and still have nodes")
    ] = False
    limit: Limit = 100
    marker: Annotated[
        str | None, Field(max_length=64, description="Id of the last request of the page before")
    ] = None


class RequestQuery(Query):
    wait_s: Annotated[float, Field(ge=0, le=600, description="Wall time to wait for a decision")] = 0.0


@blueprint.call(
    "POST",
    "/v1/request_nodes",
    body=RequestNodes,
    answer=Request,
    says="Granted: the nodes are yours",
    responses={202: "Waiting: ask at Location", 409: "Not obtainable, nothing changed"},
)
def request_nodes(json_data: RequestNodes) -> Any:
    """Get nodes: from the reserve, then idle ones, then (with a wait) nodes as jobs end.

    Blocks until granted or rejected; with `Prefer: respond-async` answers 202 at once if it has to wait.
    """
    key = idempotency_key(json_data)
    with engine().idempotent(key) as stored:
        if stored is not None and stored.request_id is not None:
            record = _known(stored.request_id)
        else:
            record = engine().submit_request(
                json_data.nodes,
                micros_or_none(json_data.wait_s),
                caller=owner(),
                candidates=tuple(json_data.candidates or ()),
                exclude=tuple(json_data.exclude or ()),
                lease_us=micros_or_none(json_data.lease_s),
                replace=json_data.replace,
                key=key,
            )
    engine().calls(record.request_id)
    if record.status is RequestStatus.WAITING and not _wants_async():
        record = _wait(record, None)
    return _answer(record)


@blueprint.call("GET", "/v1/requests", query=RequestsQuery, answer=Requests)
def list_requests(query_data: RequestsQuery) -> Any:
    """Requests, newest first."""
    marker = query_data.marker
    before = _known(marker, status=400).order if marker is not None else None
    whose = owner().name if query_data.owner == "me" else query_data.owner
    records = engine().ledger.requests(
        status=query_data.state,
        before=before,
        limit=query_data.limit,
        owner=whose,
        overdue=query_data.overdue,
    )
    links: list[dict[str, str]] = []
    if len(records) == query_data.limit:
        links = next_link(
            "/v1/requests",
            marker=records[-1].request_id,
            limit=query_data.limit,
            state=query_data.state,
            owner=query_data.owner,
            overdue=query_data.overdue or None,
        )
    return {"requests": [to_json(record) for record in records], "links": links}


@blueprint.call("GET", "/v1/requests/<request_id>", query=RequestQuery, answer=Request, responses=[404])
def get_request(request_id: str, query_data: RequestQuery) -> Any:
    """One request; with `wait_s` the answer comes when it is decided, or after that time."""
    record = _known(request_id)
    if record.owner in ("", owner().name):
        engine().calls(request_id)
    if query_data.wait_s and record.status is RequestStatus.WAITING:
        record = _wait(record, query_data.wait_s)
    return to_json(record)


@blueprint.call("DELETE", "/v1/requests/<request_id>", answer=Request, responses=[404])
def withdraw_request(request_id: str) -> Any:
    """Wait no longer. A request that was granted meanwhile stays granted: release its nodes."""
    return _found(request_id, engine().withdraw_request(request_id, caller=owner()))


@blueprint.call(
    "POST",
    "/v1/requests/<request_id>/confirm",
    body=ConfirmRequest,
    answer=Request,
    responses={404: "No such request", 409: "It has no nodes (any more)"},
)
def confirm_request(request_id: str, json_data: ConfirmRequest) -> Any:  # noqa: ARG001 - no fields
    """The answer has arrived: the nodes stay. A grant that nobody confirms in time goes back by itself."""
    return _found(request_id, engine().confirm_request(request_id, caller=owner()))


@blueprint.call(
    "POST",
    "/v1/requests/<request_id>/renew",
    body=RenewLease,
    answer=Request,
    responses={404: "No such request", 409: "It has no nodes (any more)"},
)
def renew_lease(request_id: str, json_data: RenewLease) -> Any:
    """Keep the nodes for `lease_s` from now on. May be repeated; confirms the grant as well."""
    lease_us = micros_or_none(json_data.lease_s)
    return _found(request_id, engine().renew_lease(request_id, lease_us, caller=owner()))


def _found(request_id: str, record: RequestRecord | None) -> dict[str, Any]:
    if record is None:
        raise Problem(404, NOT_FOUND, f"there is no request {request_id}")
    return to_json(record)


def to_json(record: RequestRecord) -> dict[str, Any]:
    return {
        "id": record.request_id,
        "state": record.status.value,
        "count": record.count,
        "nodes": list(record.nodes),
        "submitted_at": iso(record.arrived_us),
        "deadline_at": iso(record.deadline_us),
        "decided_at": iso_or_none(record.decided_us),
        "reason": record.reason,
        "owner": record.owner,
        "confirmed": record.confirmed,
        "confirm_by": None if record.confirmed else iso_or_none(record.due_us),
        "lease_ends_at": iso_or_none(record.due_us) if record.confirmed else None,
        "overdue": record.overdue,
        "ended_at": iso_or_none(record.ended_us),
        "replace": record.replace,
        "replaces": record.replaces or None,
        "down": [
            {"node": node, "since": iso(since_us)} for node, since_us in engine().down_of(record).items()
        ],
        "lost": [
            {"node": each.node, "since": iso(each.since_us), "replaced_by": each.replaced_by}
            for each in record.lost
        ],
    }


def _wants_async() -> bool:
    """RFC 7240: `Prefer: respond-async`, perhaps among other preferences."""
    wishes = (current().header("Prefer") or "").lower().replace(";", ",").split(",")
    return "respond-async" in [wish.strip() for wish in wishes]


def _known(request_id: str, *, status: int = 404) -> RequestRecord:
    record = engine().ledger.request(request_id)
    if record is None:
        code = NOT_FOUND if status == HTTPStatus.NOT_FOUND else INVALID
        raise Problem(status, code, f"there is no request {request_id}")
    return record


def _wait(record: RequestRecord, timeout_s: float | None) -> RequestRecord:
    """The record once it is decided; as it is when too many calls wait already (the caller polls then)."""
    slots = service().waiting
    if not slots.acquire(blocking=False):
        return record
    # Only its owner is missed: others may look at a request and go.
    is_gone = current().is_client_gone if record.owner in ("", owner().name) else None
    try:
        waiter = engine().wait_for_request(record.request_id, timeout_s, is_gone=is_gone)
    finally:
        slots.release()
    if waiter is None or waiter.record is None:
        return record
    current().on_close.append(waiter.hold.close)  # the clock goes on when the answer has been sent
    return waiter.record


def _answer(record: RequestRecord) -> Any:
    if record.status is RequestStatus.GRANTED:
        if record.ended_us is not None and record.reason:
            raise Problem(409, LEASE_ENDED, record.reason, id=record.request_id)
        return to_json(record)
    if record.status is RequestStatus.WAITING:
        headers = {"Location": f"/v1/requests/{record.request_id}", "Retry-After": "1"}
        if _wants_async():
            headers["Preference-Applied"] = "respond-async"
        return to_json(record), 202, headers
    code = NOT_OBTAINABLE if record.status is RequestStatus.REJECTED else WITHDRAWN
    detail = record.reason or f"request {record.request_id} was withdrawn"
    raise Problem(409, code, detail, id=record.request_id)
