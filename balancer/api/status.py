"""How the service stands, in one answer: for `balancer status`, the dashboard and whoever watches it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from balancer.api.context import Answer, Held, engine
from balancer.api.operations import Operations
from balancer.clock import seconds
from balancer.headroom import SOON_US, headroom
from balancer.timestamps import iso
from balancer.version import VERSION

if TYPE_CHECKING:
    from balancer.service.engine import Engine
    from balancer.service.reader import Contact

blueprint = Operations("status", tag="health")


class System(Answer):
    """Another system: `age_s` since it answered last (null: never); `error` why it did not answer now."""

    name: str
    reachable: bool
    age_s: float | None
    error: str | None


class Waits(Answer):
    requests: int
    nodes: int
    oldest_s: float | None


class Frozen(Answer):
    by: str
    reason: str
    at: str


class Headroom(Answer):
    """`nodes`: how many more could be granted to a request that waits `within_s`.

    They are in the reserve, idle, or busy with jobs that must end by then, without what waiting requests still want.
    All are 0 while no node may move.
    """

    nodes: int
    within_s: float
    reserve: int
    idle: int
    ending: int
    wanted: int


class Status(Answer):
    """`asleep`: nodes that are DOWN because power saving has switched them off.

    `claimed`: why no node is moved, where another Balancer has them.

    `failed`: granted nodes that are down -> since when.
    `last_hook_s`: since a hook reported a job last (null: none since the start).

    `unannounced`: nodes on which a job began that no hook has told of.
    """

    version: str
    now: str
    algorithm: str
    problem: str | None
    leader: bool
    read_only: bool
    claimed: str | None
    frozen: Frozen | None
    nodes: dict[str, int]
    headroom: Headroom
    asleep: int
    quarantined: dict[str, str]
    held: Held
    failed: dict[str, str]
    waiting: Waits
    reserves: int
    batch: System
    cloud: System | None
    last_hook_s: float | None
    unannounced: list[str]
    newest_event: int
    ledger_bytes: int | None


@blueprint.call("GET", "/v1/status", answer=Status)
def get_status() -> Any:
    """Counts, who waits, whether batch system and cloud answer, and what is wrong if anything is."""
    return to_json(engine())


def to_json(source: Engine) -> dict[str, Any]:
    now_us = source.clock.now_us()
    waiting, quarantined = source.ledger.waiting(), source.quarantined()
    order = source.frozen
    return {
        "version": VERSION,
        "now": iso(now_us),
        "algorithm": source.algorithm_name,
        "problem": source.problem(),
        "leader": source.is_leader,
        "read_only": source.is_read_only,
        "claimed": source.claimed or None,
        "frozen": None if order is None else asdict(order),
        "nodes": {state.value: count for state, count in source.published.counts().items()},
        "headroom": _headroom(source, now_us),
        "asleep": source.asleep(),
        "quarantined": quarantined,
        "held": quarantined,
        "failed": {name: iso(record.down_since_us or 0) for name, record in source.failed().items()},
        "waiting": {
            "requests": waiting.requests,
            "nodes": waiting.nodes,
            "oldest_s": None if waiting.oldest_us is None else seconds(max(0, now_us - waiting.oldest_us)),
        },
        "reserves": len(source.ledger.reserves()),
        "batch": system(source.batch, now_us),
        "cloud": None if source.cloud is None else system(source.cloud, now_us),
        "last_hook_s": None if source.hook_us is None else seconds(max(0, now_us - source.hook_us)),
        "unannounced": list(source.unannounced()),
        "newest_event": source.ledger.last_seq(),
        "ledger_bytes": source.ledger.size_bytes(),
    }


def _headroom(source: Engine, now_us: int) -> dict[str, Any]:
    found = headroom(source, now_us)
    return {"nodes": found.nodes, "within_s": seconds(SOON_US)} | asdict(found)


def system(contact: Contact, now_us: int) -> dict[str, Any]:
    age_us = contact.age_us(now_us)
    return {
        "name": contact.name,
        "reachable": contact.error is None and age_us is not None,
        "age_s": None if age_us is None else seconds(age_us),
        "error": contact.error,
    }
