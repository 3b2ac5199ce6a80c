"""Records as rows, and the changes of an event as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from balancer.ledger.chain import seal
from balancer.ledger.errors import DamagedError
from balancer.ledger.tables import answers, nodes, requests, reserves
from balancer.lifecycle.records import (
    Changes,
    Lost,
    NodeRecord,
    RequestRecord,
    RequestStatus,
    ReserveRecord,
)
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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

# Not `asdict`: it copies deeply and would be a tenth of a call's time.

_NODE = tuple(each.name for each in fields(NodeRecord))
_STATE = _NODE.index("state")
_REQUEST = tuple(each.name for each in fields(RequestRecord))
_RESERVE = tuple(each.name for each in fields(ReserveRecord))
_LISTS = ("nodes", "candidates", "exclude", "lost")
"""The lists in a request."""

_FLAGS = ("at_once", "confirmed", "overdue", "replace")
"""What is true or false in a request; SQLite's own driver says 1 or 0."""


_OLD_WORDS = {NodeState.QUARANTINED: "HELD"}
"""States that releases up to 0.3 store by another word.

This release reads both words and stores the old one, so that a service of 0.3 beside it, on one PostgreSQL ledger, can
take over. The next release may store the new word and drop this.
"""

_STORED: Mapping[NodeState, str] = {state: _OLD_WORDS.get(state, state.value) for state in NodeState}
_STATES: Mapping[str, NodeState] = {state.value: state for state in NodeState} | {
    word: state for state, word in _OLD_WORDS.items()
}


def in_new_words(body: str) -> str:
    """The JSON text of an event with the nodes that it moved in the words of this release."""
    if not any(f'"{word}"' in body for word in _OLD_WORDS.values()):
        return body
    document = json.loads(body)
    if "moved" in document:
        document["moved"] = [
            [name, _STATES[before], _STATES[after]] for name, before, after in document["moved"]
        ]
    return _encode(document)


def node_row(record: NodeRecord) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(record, name) for name in _NODE}
    row["state"] = _STORED[record.state]
    row["jobs"] = _encode(record.jobs) if record.jobs else "[]"
    return _sealed(row)


def node_of(row: Any) -> NodeRecord:
    """Raises DamagedError, as the two below do."""
    values = _checked(nodes, row)
    return NodeRecord(
        **values | {"state": _STATES[values["state"]], "jobs": tuple(json.loads(values["jobs"]))}
    )


def request_row(record: RequestRecord) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(record, name) for name in _REQUEST}
    for name in _LISTS:
        row[name] = _encode(row[name]) if row[name] else "[]"
    row["status"] = record.status.value
    row["open"] = record.is_open
    return _sealed(row)


def request_of(row: Any) -> RequestRecord:
    values = _checked(requests, row)
    del values["open"]
    values |= {name: json.loads(values[name]) for name in _LISTS}
    values |= {name: bool(values[name]) for name in _FLAGS}
    return _request_of(values)


def reserve_row(record: ReserveRecord) -> dict[str, Any]:
    return _sealed({name: getattr(record, name) for name in _RESERVE})


def reserve_of(row: Any) -> ReserveRecord:
    values = _checked(reserves, row)
    return ReserveRecord(**values | {"ended": bool(values["ended"])})


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
    row["digest"] = seal(_plain(row.values()))
    return row


def _checked(table: sa.Table, row: Any) -> dict[str, Any]:
    """The values of a row as it was written, in the order in which it was."""
    # By place: a damaged schema may spell a name otherwise.
    values = dict(zip(table.columns.keys(), row, strict=True))
    digest = values.pop("digest")
    if digest != seal(_plain(values.values())):
        what = f"{table.name.removesuffix('s')} {next(iter(values.values()))!r}"
        raise DamagedError(
            f"{what} does not read as it was written: the ledger is damaged (`balancer ledger verify`)"
        )
    return values


def _plain(values: Iterable[object]) -> list[object]:
    """What is true or false as SQLite keeps it."""
    return [1 if value is True else 0 if value is False else value for value in values]


# The log. Fields in the order of the records, without names: a log of a year has a hundred million of them. A release
# that has more fields adds them at the end; what an older one wrote has their defaults.


def encode_changes(changes: Changes) -> str:
    """`{"nodes": [[name, state, ...]], "requests": [...], "reserves": [...]}`, without what is empty."""
    found: dict[str, list[list[Any]]] = {}
    if changes.nodes:
        found["nodes"] = [_node_values(record) for record in changes.nodes]
    if changes.requests:
        found["requests"] = [[getattr(r, name) for name in _REQUEST] for r in changes.requests]
    if changes.reserves:
        found["reserves"] = [[getattr(r, name) for name in _RESERVE] for r in changes.reserves]
    return _encode(found)


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


def _node_values(record: NodeRecord) -> list[Any]:
    values = [getattr(record, name) for name in _NODE]
    values[_STATE] = _STORED[record.state]
    return values


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, values, strict=False))


def _node(values: Sequence[Any]) -> NodeRecord:
    named = _named(_NODE, values)
    return NodeRecord(**named | {"state": _STATES[named["state"]], "jobs": tuple(named["jobs"])})


def _request(values: Sequence[Any]) -> RequestRecord:
    return _request_of(_named(_REQUEST, values))


def _request_of(named: dict[str, Any]) -> RequestRecord:
    """Lists as JSON has them. What an older release wrote lacks the newest fields."""
    named |= {name: tuple(named[name]) for name in _LISTS if name in named}
    named["lost"] = tuple(Lost(*each) for each in named.get("lost", ()))
    return RequestRecord(**named | {"status": RequestStatus(named["status"])})
