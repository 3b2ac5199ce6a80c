"""Who writes: the one row of `writer`, and a lease on it where several services share a database.

Each writer has an epoch, and every write is done on the condition that it is still the epoch in the row: what a
paused service does after another one took over changes nothing. The lease says when taking over is right. As in
Kubernetes' leader election, nobody compares clocks: a service that waits takes over when the row has not
changed for `DURATION_S` by its own steady clock, and the holder stops commanding earlier than that.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from balancer.clock import NEVER_US, micros, wall_us
from balancer.ledger.connect import cause
from balancer.ledger.errors import FencedError, LeaseHeldError, LedgerError
from balancer.ledger.statements import Statement
from balancer.ledger.tables import writer

if TYPE_CHECKING:
    from collections.abc import Callable

_log = structlog.get_logger()

DURATION_S, RENEW_DEADLINE_S, RETRY_S = 15.0, 10.0, 2.0
"""A successor waits so long; the holder commands so long after its last renewal; it renews so often."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The row as it was read. A write of the holder changes it, too."""

    epoch: int
    holder: str
    renewals: int
    seq: int
    ledger_id: str = ""
    head: str = ""
    """The digest of event `seq`."""
    doubt: str = ""
    """Why this ledger may not know the newest state; "": nothing says so."""


@dataclass(slots=True)
class Watch:
    """When a row that was looked at again and again counts as abandoned. Times of a steady clock."""

    duration_us: int = micros(DURATION_S)
    _seen: Seen | None = None
    _since_us: int = 0

    def forget(self) -> None:
        """Begin anew: nobody could have changed the row."""
        self._seen = None

    def may_take(self, seen: Seen, now_us: int) -> bool:
        """Whether nobody holds the row, or its holder has been silent for the whole duration."""
        if seen != self._seen:
            self._seen, self._since_us = seen, now_us
        return not seen.holder or now_us - self._since_us >= self.duration_us


_READ = Statement(sa.select(*(writer.c[each.name] for each in fields(Seen))))
_RENEW = Statement(
    sa.update(writer)
    .values(renewals=writer.c.renewals + sa.literal_column("1"))
    .where(writer.c.epoch == sa.bindparam("mine"))
)


def read(connection: sa.Connection) -> Seen:
    (row,) = _READ.rows(connection, {})
    return Seen(*row)


def me() -> str:
    """Name of this process, for people."""
    return f"{socket.gethostname()} pid {os.getpid()}"[:255]


@dataclass(slots=True)
class Lease:
    """The right to write. `exclusive`: a lock outside the database keeps others away already.

    Not `threaded`: whoever drives the clock calls `keep` when it is due (the simulation).
    """

    engine: sa.Engine
    exclusive: bool
    watch: Watch = field(default_factory=Watch)
    retry_s: float = RETRY_S
    deadline_us: int = micros(RENEW_DEADLINE_S)
    epoch: int | None = None
    """The number of this writer; None before `take`."""
    is_lost: bool = False
    """Another writer has taken over; this one will never write again."""
    threaded: bool = True
    on_lost: Callable[[], None] | None = None
    """Called once when another one has taken over, by whichever thread notices."""
    _renewed_us: int = 0
    _tried_us: int = 0
    _writes: sa.Engine = field(init=False)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._writes = self.engine.execution_options(writes=True)

    def take(self, wait_s: float | None) -> int:
        """The next epoch is ours when this returns. Raises LeaseHeldError after `wait_s` (None: never)."""
        limit_us = NEVER_US if wait_s is None else wall_us() + micros(wait_s)
        while True:
            start_us = wall_us()
            try:
                seen = self._try(start_us)
            except SQLAlchemyError as error:
                if wait_s is not None:
                    raise
                # Who stands by outlives the database; and its holder could not renew meanwhile either.
                _log.warning(
                    "the database does not answer; standing by", error=cause(error, self._writes.engine.url)
                )
                self.watch.forget()
                seen = Seen(0, "", 0, 0)
            if self.epoch is not None:
                self._renewed_us = self._tried_us = start_us
                if not self.exclusive and self.threaded:
                    self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
                    self._thread.start()
                return self.epoch
            if wall_us() >= limit_us or self._ended.wait(self.retry_s):
                raise LeaseHeldError(
                    f"another Balancer uses the ledger ({seen.holder}, epoch {seen.epoch}): "
                    "stop it, or wait until it ends"
                )

    def _try(self, now_us: int) -> Seen:
        """Take it if it is free. Raises SQLAlchemyError."""
        with self.engine.connect() as connection:
            seen = read(connection)
        # Only who may take it keeps the holder from writing for a moment.
        if self.exclusive or self.watch.may_take(seen, now_us):
            with self._writes.begin() as connection:
                is_ours = self._swap(connection, seen)
            if is_ours:
                self.epoch = seen.epoch + 1
        return seen

    def _swap(self, connection: sa.Connection, seen: Seen) -> bool:
        update = sa.update(writer).values(epoch=seen.epoch + 1, holder=me(), renewals=0)
        same = (writer.c.epoch == seen.epoch, writer.c.renewals == seen.renewals, writer.c.seq == seen.seq)
        return bool(connection.execute(update.where(*same)).rowcount)

    def _keep(self) -> None:
        while not self._ended.wait(self.retry_s) and not self.is_lost:
            self.keep()

    @property
    def due_us(self) -> int:
        """When `keep` has something to do, by `wall_us`, for whoever drives it."""
        if self.threaded or self.exclusive or self.epoch is None or self.is_lost:
            return NEVER_US
        return self._tried_us + micros(self.retry_s)

    def keep(self) -> None:
        """Renew it; what goes wrong is logged, and found by whoever writes or commands next."""
        self._tried_us = wall_us()
        try:
            self.renew()
        except FencedError:
            return
        except LedgerError as error:
            _log.warning("the lease could not be renewed", error=str(error))

    def renew(self) -> None:
        """Raises FencedError, or LedgerError where the database does not answer."""
        start_us = wall_us()
        try:
            with self._writes.begin() as connection:
                renewed = _RENEW.run(connection, {"mine": self.epoch}).rowcount == 1
                seen = None if renewed else read(connection)
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger cannot be written: {cause(error, self._writes.engine.url)}"
            ) from error
        if seen is not None:
            raise self.lose(seen)
        self._renewed_us = start_us

    def check(self) -> None:
        """Before anything outside the ledger is changed. Raises FencedError or LedgerError."""
        if self.is_lost or self.epoch is None:
            raise FencedError("this Balancer does not hold the ledger")
        if not self.exclusive and wall_us() - self._renewed_us > self.deadline_us:
            raise LedgerError("the lease on the ledger could not be renewed in time: no commands until it is")
        try:
            with self.engine.connect() as connection:
                seen = read(connection)
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger cannot be read: {cause(error, self._writes.engine.url)}"
            ) from error
        if seen.epoch != self.epoch:
            raise self.lose(seen)

    def lose(self, seen: Seen) -> FencedError:
        """Another one has the ledger: the error to raise, now and from now on."""
        is_first, self.is_lost = not self.is_lost, True
        if is_first:
            _log.error("another Balancer has taken over the ledger", epoch=seen.epoch, holder=seen.holder)
            if self.on_lost is not None:
                self.on_lost()
        return FencedError(
            f"another Balancer has taken over the ledger ({seen.holder}, epoch {seen.epoch}; ours is {self.epoch})"
        )

    def end(self) -> None:
        """Give it back, so that a successor need not wait. It waits by itself where this fails."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self.epoch is None or self.is_lost:
            return
        try:
            with self._writes.begin() as connection:
                connection.execute(sa.update(writer).values(holder="").where(writer.c.epoch == self.epoch))
        except SQLAlchemyError as error:
            _log.warning(
                "the lease could not be given back; it runs out by itself",
                error=cause(error, self._writes.engine.url),
            )
