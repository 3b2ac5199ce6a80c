"""What was asked of the Balancer in the past: in slots of time, as a predictor needs it, and in sum."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from balancer.api.context import Answer, Query, engine, service
from balancer.api.operations import Operations
from balancer.api.problems import INVALID, Problem
from balancer.clock import micros, seconds
from balancer.lifecycle.records import RequestStatus
from balancer.timestamps import iso, parse_iso

blueprint = Operations("history", tag="history")

_MOST_SLOTS = 10_000
_WEEK_US = micros(7 * 86_400)
_LONGEST_US = micros(35 * 86_400)


class HistoryQuery(Query):
    slot_s: Annotated[float, Field(gt=0, le=3.2e9, description="Length of a slot")] = 21_600.0
    start: Annotated[str | None, Field(description="ISO 8601; missing: 31 days before the end")] = None
    end: Annotated[str | None, Field(description="ISO 8601; missing: now")] = None


class UsageQuery(Query):
    start: Annotated[str | None, Field(description="ISO 8601; missing: 7 days before the end")] = None
    end: Annotated[str | None, Field(description="ISO 8601; missing: now")] = None


class Usage(Answer):
    """Requests that arrived from `start` to `end`, and what became of them so far; nodes lent in that time.

    `lent_since`: from when on the log tells `lent_node_h`; later than `start` where it is not as old.
    """

    start: str
    end: str
    requests: int
    granted: int
    rejected: int
    nodes_granted: int
    nodes_rejected: int
    lent_node_h: float
    lent_since: str


class Slot(Answer):
    start: str
    end: str
    requests: int
    nodes_requested: int
    nodes_granted: int
    nodes_rejected: int
    largest_request: int


class History(Answer):
    slots: list[Slot]


@blueprint.call("GET", "/v1/history", query=HistoryQuery, answer=History)
def get_history(query_data: HistoryQuery) -> Any:
    """Requests by the slot in which they arrived. Slots begin at whole multiples of `slot_s`."""
    slot_us = micros(query_data.slot_s)
    end_us = _time("end", query_data.end) if query_data.end else engine().clock.now_us() + 1
    start_us = _time("start", query_data.start) if query_data.start else max(0, end_us - micros(31 * 86_400))
    if slot_us < 1 or start_us >= end_us:
        raise Problem(400, INVALID, "start must lie before end, and a slot be at least a microsecond long")
    first_us = start_us - start_us % slot_us
    if (end_us - first_us) // slot_us >= _MOST_SLOTS:
        raise Problem(400, INVALID, f"more than {_MOST_SLOTS} slots: choose a longer slot_s or a later start")
    slots = engine().ledger.history(first_us, end_us, slot_us)
    return {
        "slots": [
            {
                "start": iso(slot.start_us),
                "end": iso(slot.end_us),
                "requests": slot.requests,
                "nodes_requested": slot.nodes_requested,
                "nodes_granted": slot.nodes_granted,
                "nodes_rejected": slot.nodes_rejected,
                "largest_request": slot.largest_request,
            }
            for slot in slots
        ]
    }


@blueprint.call("GET", "/v1/usage", query=UsageQuery, answer=Usage)
def get_usage(query_data: UsageQuery) -> Any:
    """Requests granted and rejected, and node-hours lent, within the last 35 days."""
    now_us = engine().clock.now_us()
    end_us = min(now_us, _time("end", query_data.end)) if query_data.end else now_us
    start_us = _time("start", query_data.start) if query_data.start else max(0, end_us - _WEEK_US)
    if start_us > end_us or start_us < now_us - _LONGEST_US:
        raise Problem(400, INVALID, "start must lie before end, and at most 35 days back")
    by_status = engine().ledger.request_counts(start_us, end_us)
    granted, rejected = by_status[RequestStatus.GRANTED], by_status[RequestStatus.REJECTED]
    lent = service().lending.between(start_us, end_us)
    return {
        "start": iso(start_us),
        "end": iso(end_us),
        "requests": sum(each.requests for each in by_status.values()),
        "granted": granted.requests,
        "rejected": rejected.requests,
        "nodes_granted": granted.nodes,
        "nodes_rejected": rejected.nodes,
        "lent_node_h": seconds(lent.node_us) / 3600,
        "lent_since": iso(lent.since_us),
    }


def _time(name: str, text: str) -> int:
    try:
        return parse_iso(text)
    except (ValueError, OverflowError) as error:
        raise Problem(400, INVALID, f"{name}: {text!r} is not an ISO 8601 time") from error
