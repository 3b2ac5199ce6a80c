"""What all calls share: each is an event, made durable by the `Writer` before anything is done about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import Event, Instruction, Look, Reclaim, Restore
from balancer.lifecycle.records import ANONYMOUS, Changes
from balancer.service.callers import CallerSettings
from balancer.service.commands import Commander, CommandSettings, Order

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from balancer.clock import Clock
    from balancer.ledger.store import Ledger, StoredAnswer
    from balancer.service.decision import Decision, Key
    from balancer.service.idempotency import Keys
    from balancer.service.metrics import Metrics
    from balancer.service.reader import Reader
    from balancer.service.reconciler import Reconciler
    from balancer.service.waker import Waker
    from balancer.service.writer import Writer

CONCURRENT_UPDATE = "concurrent_update"
"""Code of `Refused`: a node has another generation than the caller believes."""


class TooManyError(Exception):
    """The bound on waiting `requests` or on active `reserves` is reached; nothing changed."""

    def __init__(self, what: str, limit: int) -> None:
        self.what = what
        super().__init__(f"{limit} {what} are pending already, which is the limit; try again later")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Cluster times. `refresh_age_s`: a reading younger than this is not repeated for a request.

    `calendar_origin_us`: Unix time when the clock shows 0, for reserves that come again.
    `quarantine_s`: how long a node in doubt without a server in the cloud stays quarantined.
    `failed_after_s`: how long readings must find a granted node down before it has failed; None: it never has.
    `unreachable_s`: how old the last reading may be, once one fails, before the service is not ready.
    Wall times: `plan_limit_s`, how long the algorithm may take for a plan; `mark_wait_s`, how long an epilogue's call
    waits at most for its nodes to be marked.
    """

    reconcile_period_s: float = 60.0
    refresh_age_s: float = 1.0
    keep_answers_s: float = 7 * 86400.0
    keep_events_s: float = 400 * 86400.0
    plan_limit_s: float = 5.0
    mark_wait_s: float = 0.5
    unreachable_s: float = 90.0
    max_waiting_requests: int = 10_000
    max_reserves: int = 10_000
    quarantine_s: float = 600.0
    calendar_origin_us: int = 0
    failed_after_s: float | None = 60.0
    commands: CommandSettings = field(default_factory=CommandSettings)
    callers: CallerSettings = field(default_factory=CallerSettings)


class _Claim(TypedDict):
    event_id: str
    by: str
    as_operator: bool


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the owner of what it asks for. An operator may end what is others'. `event_id`: of this call."""

    name: str = ANONYMOUS
    is_operator: bool = False
    event_id: str = ""

    @property
    def claim(self) -> _Claim:
        """What an event says of who may end or keep something by it."""
        return {"event_id": self.event_id, "by": self.name, "as_operator": self.is_operator}


NOBODY = Caller()


class Calls:
    """The parts that calls need; whoever inherits makes them."""

    settings: EngineSettings
    clock: Clock
    ledger: Ledger
    metrics: Metrics
    _writer: Writer
    _commander: Commander
    _reader: Reader
    _reconciler: Reconciler
    _keys: Keys
    _waker: Waker

    @property
    def is_stopping(self) -> bool:
        return self._writer.is_stopping

    def idempotent(self, key: Key | None) -> AbstractContextManager[StoredAnswer | None]:
        """The stored answer to a call with this key, if there is one. Raises KeyReusedError and KeyInUseError."""
        return self._keys.used(key)

    def _check_generations(self, generations: Mapping[str, int] | None) -> None:
        """For the function that is given to the writer: nothing is decided in between."""
        for name, believed in (generations or {}).items():
            record = self._writer.decided_node(name)
            if record is None:
                raise Refused(Refused.UNKNOWN_NODE, f"generations: there is no node {name}")
            if record.generation != believed:
                detail = (
                    f"node {name} has generation {record.generation}, not {believed}: it changed meanwhile"
                )
                raise Refused(CONCURRENT_UPDATE, detail)

    def _write(
        self,
        make: Callable[[int, int], Event],
        *,
        key: Key | None = None,
        answer: Callable[[Changes], str] | None = None,
        until_issued: bool = False,
    ) -> Decision:
        with self.clock.paused():
            done = self._writer.apply(make, key=key, answer=answer)
            if done is None:
                raise AssertionError("a call always makes an event")
            issued = self._carry_out(done.instructions)
            if until_issued and issued is not None:
                self._commander.wait_until_issued(issued, self.settings.mark_wait_s)
            return done

    def _carry_out(self, instructions: Sequence[Instruction]) -> threading.Event | None:
        """Hand over the commands; the event is set once they have been issued."""
        commands: list[Order] = []
        for instruction in instructions:
            if isinstance(instruction, (Reclaim, Restore)):
                commands.append(instruction)
            elif isinstance(instruction, Look):
                self._reader.ask(with_cloud=instruction.cloud)
        return self._commander.submit(commands) if commands else None
