"""Records as rows, and the changes of an event as JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus, ReserveRecord
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

# Not `asdict`: it copies deeply and would be a tenth of a call's time.

_NODE = tuple(each.name for each in fields(NodeRecord))
_REQUEST = tuple(each.name for each in fields(RequestRecord))
_RESERVE = tuple(each.name for each in fields(ReserveRecord))
_LISTS = ("nodes", "candidates", "exclude")
"""The lists in a request."""


def node_row(record: NodeRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "state": record.state.value,
        "since_us": record.since_us,
        "held_for": record.held_for,
        "generation": record.generation,
        "jobs": _encode(record.jobs),
        "contested": record.contested,
    }


def node_of(row: Any) -> NodeRecord:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    return NodeRecord(**values | {"state": NodeState(row.state), "jobs": tuple(json.loads(row.jobs))})


def request_row(record: RequestRecord) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(record, name) for name in _REQUEST}
    for name in _LISTS:
        row[name] = _encode(row[name])
    row["status"] = record.status.value
    row["open"] = record.is_open
    return row


def request_of(row: Any) -> RequestRecord:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    del values["open"]
    values |= {name: tuple(json.loads(values[name])) for name in _LISTS}
    return RequestRecord(**values | {"status": RequestStatus(row.status)})


def reserve_row(record: ReserveRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _RESERVE}


def reserve_of(row: Any) -> ReserveRecord:
    return ReserveRecord(**row._mapping)  # noqa: SLF001 - SQLAlchemy's public name


# The log. Fields in the order of the records, without names: a log of a year has a hundred million of them. A release
# that has more fields adds them at the end; what an older one wrote has their defaults.


def encode_changes(changes: Changes) -> str:
    """`{"nodes": [[name, state, ...]], "requests": [...], "reserves": [...]}`, without what is empty."""
    found: dict[str, list[list[Any]]] = {}
    if changes.nodes:
        found["nodes"] = [[getattr(r, name) for name in _NODE] for r in changes.nodes]
    if changes.requests:
        found["requests"] = [[getattr(r, name) for name in _REQUEST] for r in changes.requests]
    if changes.reserves:
        found["reserves"] = [[getattr(r, name) for name in _RESERVE] for r in changes.reserves]
    return _encode(found)


_STATES: Mapping[str, NodeState] = {state.value: state for state in NodeState}


def decode_changes(text: str, *, at_us: int, serial: int) -> Changes:
    """What `encode_changes` was given."""
    found = json.loads(text)
    return Changes(
        nodes=tuple(_node(values) for values in found.get("nodes", ())),
        requests=tuple(_request(values) for values in found.get("requests", ())),
        reserves=tuple(ReserveRecord(**_named(_RESERVE, values)) for values in found.get("reserves", ())),
        now_us=at_us,
        serial=serial,
    )


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, values, strict=False))


def _node(values: Sequence[Any]) -> NodeRecord:
    named = _named(_NODE, values)
    return NodeRecord(**named | {"state": _STATES[named["state"]], "jobs": tuple(named["jobs"])})


def _request(values: Sequence[Any]) -> RequestRecord:
    named = _named(_REQUEST, values)
    named |= {name: tuple(named[name]) for name in _LISTS if name in named}
    return RequestRecord(**named | {"status": RequestStatus(named["status"])})
