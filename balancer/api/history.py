"""What was asked of the Balancer in the past, in slots of time: what a predictor needs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from balancer.api.context import Answer, Query, engine
from balancer.api.operations import Operations
from balancer.api.problems import INVALID, Problem
from balancer.clock import micros
from balancer.timestamps import iso, parse_iso

blueprint = Operations("history", tag="history")

_MOST_SLOTS = 10_000


class HistoryQuery(Query):
    slot_s: Annotated[float, Field(gt=0, le=3.2e9, description="Length of a slot")] = 21_600.0
    start: Annotated[str | None, Field(description="ISO 8601; missing: 31 days before the end")] = None
    end: Annotated[str | None, Field(description="ISO 8601; missing: now")] = None


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


def _time(name: str, text: str) -> int:
    try:
        return parse_iso(text)
    except (ValueError, OverflowError) as error:
        raise Problem(400, INVALID, f"{name}: {text!r} is not an ISO 8601 time") from error
