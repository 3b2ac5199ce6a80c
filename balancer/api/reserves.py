"""Hints: more reserve nodes before an announced time (add_reserve)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from balancer.api.access import owner
from balancer.api.context import (
    Answer,
    Body,
    Limit,
    Query,
    Seconds,
    engine,
    idempotency_key,
    next_link,
)
from balancer.api.operations import Operations
from balancer.api.problems import INVALID, NOT_FOUND, Problem
from balancer.clock import micros, micros_or_none
from balancer.lifecycle.recurrence import Recurrence
from balancer.timestamps import iso

if TYPE_CHECKING:
    from balancer.lifecycle.records import ReserveRecord

_LEAD_S = 1800.0
"""How long before a window its nodes are collected: most of batch's jobs are short."""

blueprint = Operations("reserves", tag="reserves")


class AddReserve(Body):
    nodes: Annotated[int, Field(ge=1, le=1_000_000, description="How many nodes more (the paper's N)")]
    notice_s: Annotated[
        Seconds | None,
        Field(
            description="How far ahead the nodes are wanted (the paper's H); with `every`: 1800 where missing"
        ),
    ] = None
    keep_s: Annotated[
        Seconds | None, Field(description="How long they are kept after that; missing: the service's I")
    ] = None
    every: Annotated[
        str | None,
        Field(
            max_length=200,
            description="In each of these windows: `Mon-Fri 20:00-06:00`, or an RFC 5545 rule and times",
        ),
    ] = None
    zone: Annotated[
        str | None, Field(max_length=64, description="Whose clocks `every` goes by; missing: UTC")
    ] = None
    exceptions: Annotated[
        list[str],
        Field(
            default_factory=list, max_length=400, description="Days on which no window begins: `2026-12-24`"
        ),
    ]

    def recurrence(self) -> Recurrence | None:
        """Raises Problem."""
        if self.every is None:
            if self.notice_s is None:
                raise Problem(400, INVALID, "notice_s: it is missing; a reserve has notice_s, or every")
            if self.zone is not None or self.exceptions:
                raise Problem(400, INVALID, "every: it is missing; zone and exceptions go with it alone")
            return None
        if self.keep_s is not None:
            raise Problem(400, INVALID, "keep_s: a reserve that comes again is kept until its window ends")
        try:
            return Recurrence(self.every, self.zone or "UTC", tuple(sorted({*self.exceptions})))
        except ValueError as error:
            raise Problem(400, INVALID, str(error)) from error


class Reserve(Answer):
    id: str
    count: int
    used: int
    added_at: str
    by: str
    kept_until: str
    owner: str
    every: str | None
    zone: str | None
    exceptions: list[str]


class Reserves(Answer):
    reserves: list[Reserve]
    links: list[dict[str, str]]


class ReservesQuery(Query):
    limit: Limit = 1000
    marker: Annotated[
        str | None, Field(max_length=64, description="Id of the last reserve of the page before")
    ] = None


@blueprint.call("POST", "/v1/add_reserve", body=AddReserve, answer=Reserve)
def add_reserve(json_data: AddReserve) -> Any:
    """Collect more reserve nodes before a time; they are kept until then and for `keep_s` (or I) after it.

    With `every` in each of its windows, until the reserve is withdrawn.
    """
    every = json_data.recurrence()
    notice_s = _LEAD_S if json_data.notice_s is None else json_data.notice_s
    key = idempotency_key(json_data)
    with engine().idempotent(key) as stored:
        if stored is not None:
            return json.loads(stored.body or "{}")
        record = engine().add_reserve(
            json_data.nodes,
            micros(notice_s),
            caller=owner(),
            every=every,
            keep_us=micros_or_none(json_data.keep_s),
            key=key,
            answer=lambda record: json.dumps(to_json(record)),
        )
    return to_json(record)


@blueprint.call(
    "DELETE",
    "/v1/reserves/<reserve_id>",
    answer=Reserve,
    responses={403: "It is somebody else's", 404: "There is no such reserve (any more)"},
)
def withdraw_reserve(reserve_id: str) -> Any:
    """Nobody wants this reserve any more, in no window. What was granted stays granted."""
    record = engine().withdraw_reserve(reserve_id, caller=owner())
    if record is None:
        raise Problem(404, NOT_FOUND, f"there is no reserve {reserve_id} (any more)")
    return to_json(record)


@blueprint.call("GET", "/v1/reserves", query=ReservesQuery, answer=Reserves)
def list_reserves(query_data: ReservesQuery) -> Any:
    """The hints that have not ended, oldest first."""
    records, limit = engine().ledger.reserves(), query_data.limit
    if query_data.marker is not None:
        places = {record.reserve_id: place for place, record in enumerate(records)}
        if query_data.marker not in places:
            raise Problem(400, INVALID, f"marker: there is no reserve {query_data.marker} (any more)")
        records = records[places[query_data.marker] + 1 :]
    page = records[:limit]
    more = len(records) > limit
    links = next_link("/v1/reserves", marker=page[-1].reserve_id, limit=limit) if more else []
    return {"reserves": [to_json(record) for record in page], "links": links}


def to_json(record: ReserveRecord) -> dict[str, Any]:
    every = Recurrence.of(record.every) if record.every else None
    return {
        "id": record.reserve_id,
        "count": record.count,
        "used": record.used,
        "added_at": iso(record.added_us),
        "by": iso(record.by_us),
        "kept_until": iso(record.ends_us),
        "owner": record.owner,
        "every": None if every is None else every.rule,
        "zone": None if every is None else every.zone,
        "exceptions": [] if every is None else list(every.exceptions),
    }
