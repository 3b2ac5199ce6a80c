"""Where a ledger is kept in a test, in either database, and the records that go into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from balancer.ledger.connect import create_engine, url_of
from balancer.ledger.replay import replay
from balancer.ledger.store import Entry, Ledger, StoredAnswer, StoredEvent
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus
from balancer.lifecycle.states import NodeState

RELEASE_1 = Path(__file__).with_name("release_1.sql")
"""A ledger as release 1 wrote it: a lent node, a request that waits with two nodes held, a hint, two answers."""

RELEASE_2 = Path(__file__).with_name("release_2.sql")
"""The same, used on by the release with schema 2: events 11 and 12, to be replayed, and another answer."""


RELEASE_4 = Path(__file__).with_name("release_4.sql")
"""The same, used on by the release with schema 4: events 13 and 14, a node in doubt, another reserve."""

RELEASE_5 = Path(__file__).with_name("release_5.sql")
"""The same, used on by 0.3.0, with schema 5: event 15, a lent node that is down."""


class Place:
    """A database. `open` makes a ledger that may write; everything is closed after the test."""

    def __init__(self, target: str | Path) -> None:
        self.target = target
        self.made: list[Ledger] = []

    @property
    def is_sqlite(self) -> bool:
        return isinstance(self.target, Path)

    def open(self, *, writes: bool = True) -> Ledger:
        ledger = Ledger(self.target, lock_wait_s=0)
        self.made.append(ledger)
        if writes:
            ledger.take_epoch()
        return ledger

    def take_over(self) -> Ledger:
        """A second writer, as if the first one's lock or lease were gone while it sleeps."""
        if isinstance(self.target, Path):
            Path(f"{self.target}.lock").unlink()
        ledger = self.open(writes=False)
        ledger.lease.watch.duration_us = 0
        ledger.take_epoch()
        return ledger

    def sql(self, *statements: str) -> list[Any]:
        """Behind the ledger's back; the rows of the last statement."""
        if isinstance(self.target, Path):
            self.target.touch()
        engine = create_engine(url_of(self.target))
        try:
            with engine.execution_options(writes=True).begin() as connection:
                for statement in statements:
                    found = connection.execute(sa.text(statement.replace(":", r"\:")))
                return list(found) if found.returns_rows else []
        finally:
            engine.dispose()

    def build_release_1(self) -> None:
        self.sql(*RELEASE_1.read_text(encoding="utf-8").split(";\n")[:-1])

    def build_release_2(self) -> None:
        self.sql(*RELEASE_2.read_text(encoding="utf-8").split(";\n")[:-1])

    def build_release_4(self) -> None:
        self.sql(*RELEASE_4.read_text(encoding="utf-8").split(";\n")[:-1])

    def build_release_5(self) -> None:
        self.sql(*RELEASE_5.read_text(encoding="utf-8").split(";\n")[:-1])

    def close(self) -> None:
        for ledger in self.made:
            ledger.close()


def replayed(ledger: Ledger) -> Any:
    """The state as the log tells it."""
    base = ledger.base()
    return replay(ledger.log(base.seq), base)


def node(name: str = "n1", state: NodeState = NodeState.OA_BUSY, **more: Any) -> NodeRecord:
    return NodeRecord(**{"name": name, "state": state, "since_us": 5} | more)


def request(
    number: int,
    *,
    count: int = 1,
    at_us: int = 0,
    status: RequestStatus = RequestStatus.WAITING,
    generation: int = 0,
) -> RequestRecord:
    return RequestRecord(
        request_id=f"r{number}",
        count=count,
        arrived_us=at_us,
        deadline_us=at_us,
        order=number,
        status=status,
        generation=generation,
    )


def entry(seq: int, *, answer: StoredAnswer | None = None, at_us: int = 7, **changes: Any) -> Entry:
    event = StoredEvent(seq, at_us, f"e{seq}", "test", "{}")
    return Entry(event, Changes(now_us=at_us, serial=seq, **changes), answer)
