"""The numbered log: a page of it as JSON, or a stream of server-sent events that goes on."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

from flask import Response
from pydantic import Field

from balancer.api.call import current
from balancer.api.context import Answer, Limit, Query, engine, next_link, service
from balancer.api.operations import Operations
from balancer.api.problems import EVENTS_FORGOTTEN, INVALID, TOO_MANY_STREAMS, Problem
from balancer.timestamps import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from balancer.ledger.store import StoredEvent
    from balancer.service.engine import Engine

blueprint = Operations("events", tag="events")

_STREAM = "text/event-stream"
_KEEP_ALIVE_S = 15.0
_PAGE = 500
_MOST = 2**63 - 1
_DIGITS = re.compile(r"[0-9]{1,18}")


class EventsQuery(Query):
    after: Annotated[
        int, Field(ge=0, le=_MOST, description="Number of the last event that is known already")
    ] = 0
    limit: Limit = 100


class Event(Answer):
    seq: int
    at: str
    id: str
    kind: str
    body: dict[str, Any]


class Events(Answer):
    events: list[Event]
    links: list[dict[str, str]]


@blueprint.call(
    "GET",
    "/v1/events",
    query=EventsQuery,
    answer=Events,
    says="Also as text/event-stream when that is what Accept names",
    responses={410: "The events after that number were forgotten, or the ledger is not so far"},
)
def list_events(query_data: EventsQuery) -> Any:
    """What happened, oldest first, numbered without a gap."""
    after = query_data.after
    if current().prefers(_STREAM):
        last = current().header("Last-Event-ID")
        if last is not None and not _DIGITS.fullmatch(last):
            raise Problem(400, INVALID, f"Last-Event-ID: {last!r} is not the number of an event")
        return _stream(after if last is None else int(last))
    found = _after(after, query_data.limit)
    links: list[dict[str, str]] = []
    if len(found) == query_data.limit:
        links = next_link("/v1/events", after=found[-1].seq, limit=query_data.limit)
    return {"events": [to_json(event) for event in found], "links": links}


def _after(after: int, limit: int) -> list[StoredEvent]:
    """Whoever goes on from a number must get the next one: a hole is an error, not something to find out."""
    found = engine().ledger.events(after, limit)
    if after and found and found[0].seq != after + 1:
        detail = (
            f"events {after + 1} to {found[0].seq - 1} were kept long enough and are gone; begin with after=0"
        )
        raise Problem(410, EVENTS_FORGOTTEN, detail, oldest=found[0].seq)
    # Asked for later than the events: it is no number that came meanwhile.
    if not found and after > (newest := engine().ledger.last_seq()):
        detail = f"the newest event is {newest}: the ledger was put back, or is another; begin with after=0"
        raise Problem(410, EVENTS_FORGOTTEN, detail)
    return found


def to_json(event: StoredEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": iso(event.at_us),
        "id": event.event_id,
        "kind": event.kind,
        "body": json.loads(event.body),
    }


def _stream(after: int) -> Response:
    _after(after, 1)
    slots = service().streams
    if not slots.acquire(blocking=False):
        raise Problem(
            503,
            TOO_MANY_STREAMS,
            "too many streams are open already; read pages instead",
            headers={"Retry-After": "5"},
        )
    current().on_close.append(slots.release)
    return Response(_follow(engine(), after), content_type=_STREAM)


def _follow(source: Engine, after: int) -> Iterator[bytes]:
    """Events as they are committed. Writing to a caller that has gone ends this."""
    yield b": events of the Balancer\n\n"
    while not source.is_stopping:
        found = source.ledger.events(after, _PAGE)
        for event in found:
            text = f"id: {event.seq}\nevent: {event.kind}\ndata: {json.dumps(to_json(event))}\n\n"
            yield text.encode()
            after = event.seq
        if not found and not source.published.wait_for_events(after, _KEEP_ALIVE_S):
            yield b": still here\n\n"
