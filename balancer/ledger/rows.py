"""Records as rows, and the changes of an event as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from balancer.ledger.chain import seal
from balancer.ledger.errors import DamagedError
from balancer.ledger.tables import answers, nodes, requests, reserves
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus, ReserveRecord
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What a call with this key was answered: `status` and `body`, or the state of `request_id`."""

    key: str
    fingerprint: str
    request_id: str | None = None
    status: int | None = None
    body: str | None = None


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

# Written out field by field: `asdict` copies deeply and would be a tenth of a call's time.


def node_row(record: NodeRecord) -> dict[str, Any]:
    return _sealed(
        {
            "name": record.name,
            "state": record.state.value,
            "since_us": record.since_us,
            "held_for": record.held_for,
            "generation": record.generation,
            "jobs": _encode(record.jobs),
            "doubt": record.doubt,
        }
    )


def node_of(row: Any) -> NodeRecord:
    """Raises DamagedError, as the two below do."""
    values = _checked(nodes, row)
    return NodeRecord(
        **values | {"state": NodeState(values["state"]), "jobs": tuple(json.loads(values["jobs"]))}
    )


def request_row(record: RequestRecord) -> dict[str, Any]:
    return _sealed(
        {
            "request_id": record.request_id,
            "count": record.count,
            "arrived_us": record.arrived_us,
            "deadline_us": record.deadline_us,
            "order": record.order,
            "status": record.status.value,
            "nodes": _encode(record.nodes),
            "decided_us": record.decided_us,
            "reason": record.reason,
            "generation": record.generation,
        }
    )


def request_of(row: Any) -> RequestRecord:
    values = _checked(requests, row)
    return RequestRecord(
        **values | {"status": RequestStatus(values["status"]), "nodes": tuple(json.loads(values["nodes"]))}
    )


_RESERVE = tuple(each.name for each in fields(ReserveRecord))


def reserve_row(record: ReserveRecord) -> dict[str, Any]:
    return _sealed({name: getattr(record, name) for name in _RESERVE})


def reserve_of(row: Any) -> ReserveRecord:
    return ReserveRecord(**_checked(reserves, row))


def answer_row(answer: StoredAnswer, at_us: int) -> dict[str, Any]:
    return _sealed(
        {
            "key": answer.key,
            "fingerprint": answer.fingerprint,
            "at_us": at_us,
            "request_id": answer.request_id,
            "status": answer.status,
            "body": answer.body,
        }
    )


def answer_of(row: Any) -> StoredAnswer:
    values = _checked(answers, row)
    del values["at_us"]
    return StoredAnswer(**values)


def _sealed(row: dict[str, Any]) -> dict[str, Any]:
    row["digest"] = seal(map(_plain, row.values()))
    return row


def _checked(table: sa.Table, row: Any) -> dict[str, Any]:
    """The values of a row as it was written, in the order in which it was."""
    # By place: a damaged schema may spell a name otherwise.
    values = dict(zip(table.columns.keys(), row, strict=True))
    digest = values.pop("digest")
    if digest != seal(map(_plain, values.values())):
        what = f"{table.name.removesuffix('s')} {next(iter(values.values()))!r}"
        raise DamagedError(
            f"{what} does not read as it was written: the ledger is damaged (`balancer ledger verify`)"
        )
    return values


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


# The log. Columns in a fixed order, without names: a log of a year has a hundred million of them.


def encode_changes(changes: Changes) -> str:
    """`{"nodes": [[name, state, ...]], "requests": [...], "reserves": [...]}`, without what is empty."""
    found: dict[str, list[list[Any]]] = {}
    if changes.nodes:
        found["nodes"] = [
            [
                r.name,
                r.state.value,
                r.since_us,
                r.held_for,
                r.generation,
                r.jobs,
                *([r.doubt] if r.doubt else ()),
            ]
            for r in changes.nodes
        ]
    if changes.requests:
        found["requests"] = [
            [
                r.request_id,
                r.count,
                r.arrived_us,
                r.deadline_us,
                r.order,
                r.status.value,
                r.nodes,
                r.decided_us,
                r.reason,
                r.generation,
            ]
            for r in changes.requests
        ]
    if changes.reserves:
        found["reserves"] = [[getattr(r, name) for name in _RESERVE] for r in changes.reserves]
    return _encode(found)


_STATES: Mapping[str, NodeState] = {state.value: state for state in NodeState}


def decode_changes(text: str, *, at_us: int, serial: int) -> Changes:
    """What `encode_changes` was given."""
    found = json.loads(text)
    return Changes(
        nodes=tuple(
            NodeRecord(
                name=name,
                state=_STATES[state],
                since_us=since_us,
                held_for=held_for,
                generation=generation,
                jobs=tuple(jobs),
                doubt=doubt[0] if doubt else "",
            )
            for name, state, since_us, held_for, generation, jobs, *doubt in found.get("nodes", ())
        ),
        requests=tuple(_request(values) for values in found.get("requests", ())),
        reserves=tuple(
            ReserveRecord(**dict(zip(_RESERVE, values, strict=True))) for values in found.get("reserves", ())
        ),
        now_us=at_us,
        serial=serial,
    )


def _request(values: Iterable[Any]) -> RequestRecord:
    request_id, count, arrived_us, deadline_us, order, status, nodes, decided_us, reason, generation = values
    return RequestRecord(
        request_id=request_id,
        count=count,
        arrived_us=arrived_us,
        deadline_us=deadline_us,
        order=order,
        status=RequestStatus(status),
        nodes=tuple(nodes),
        decided_us=decided_us,
        reason=reason,
        generation=generation,
    )
