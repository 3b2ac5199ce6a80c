"""The one writer: events go in one at a time, become durable, and only then have effects and answers.

    decide   (lock)  life cycle: event -> changed records, instructions; numbered in this order
    commit   (lock)  whoever comes first stores everything decided so far in one transaction (group commit)
    carry out        commands go to the `Commander`, waiting calls are answered, the alarm is set

A commit that fails undoes what was decided with it: the state is read from the ledger again, and everybody
who waited for it gets the error. Nothing was answered, so nothing is lost.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import structlog

from balancer.clock import NEVER_US, Rank, micros, seconds, wall_us
from balancer.commands import Commander, CommandSettings, Mark
from balancer.drivers.base import DriverError, NodeStatus
from balancer.ledger.errors import LedgerError
from balancer.ledger.store import Entry, StoredAnswer, StoredEvent
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.lifecycle.events import (
    Event,
    NodesObserved,
    NodesReleased,
    NodesRequested,
    NodesUpdated,
    PlanRefused,
    Reclaim,
    RequestWithdrawn,
    ReserveAdded,
    Restore,
    TimerFired,
    WakeAt,
)
from balancer.lifecycle.machine import Lifecycle
from balancer.lifecycle.records import (
    Changes,
    NodeRecord,
    RequestRecord,
    RequestStatus,
    ReserveRecord,
    Snapshot,
)
from balancer.lifecycle.states import NodeState
from balancer.reconcile import compare
from balancer.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from balancer.algorithms.interface import Algorithm
    from balancer.clock import Clock
    from balancer.drivers.base import BatchDriver
    from balancer.ledger.store import Ledger
    from balancer.lifecycle.events import Instruction
    from balancer.lifecycle.settings import Settings
    from balancer.metrics import Metrics

_log = structlog.get_logger()

_AFTER_FAILURE_US = 1_000_000
_IN_CONFIGURATION_ONLY = (NodeState.OA_IDLE, NodeState.OA_BUSY, NodeState.DOWN)


class StoppingError(Exception):
    """The service ends; `request_id` goes on waiting in the ledger and can be asked for after a restart."""

    def __init__(self, request_id: str | None = None) -> None:
        self.request_id = request_id
        super().__init__("the Balancer is stopping")


class KeyReusedError(Exception):
    """The idempotency key belongs to another call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Periods are cluster time; `refresh_age_s`: a reading this young is not repeated for a request."""

    reconcile_period_s: float = 60.0
    refresh_age_s: float = 1.0
    keep_answers_s: float = 7 * 86400.0
    keep_events_s: float = 400 * 86400.0
    commands: CommandSettings = field(default_factory=CommandSettings)


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key and what tells one call from another (a digest of operation and body)."""

    key: str
    fingerprint: str


@dataclass(slots=True)
class Waiter:
    """A call that waits for the end of a request. `hold` keeps a paced clock still until the answer is sent."""

    answered: threading.Event = field(default_factory=threading.Event)
    record: RequestRecord | None = None
    hold: ExitStack = field(default_factory=ExitStack)


@dataclass(slots=True)
class _Decided:
    """An event that was decided and is on its way into the ledger."""

    entry: Entry
    instructions: list[Instruction]
    moves: list[tuple[str, NodeState, NodeState]]
    stored: bool = False
    error: Exception | None = None


class Engine:
    """Nodes, requests and reserves of one Balancer, durable. Methods may be called from any thread.

    They raise `Refused` (nothing changed; see its codes), `LedgerError` (nothing is stored) and `StoppingError`.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        algorithm: Algorithm,
        lifecycle_settings: Settings,
        *,
        ledger: Ledger,
        driver: BatchDriver,
        clock: Clock,
        metrics: Metrics,
        settings: EngineSettings | None = None,
        algorithm_name: str | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        self.clock = clock
        self.ledger = ledger
        self.metrics = metrics
        self.algorithm_name = algorithm_name or type(algorithm).__name__
        self._names = tuple(nodes)
        self._algorithm = algorithm
        self._lifecycle_settings = lifecycle_settings
        self._deciding = threading.RLock()
        self._committing = threading.Lock()
        self._queue: list[_Decided] = []
        self._seq = ledger.last_seq()
        self._decided_nodes: dict[str, NodeRecord] = {}
        self._changed_at: dict[str, int] = {}
        self._free = 0
        self._last_jobs: dict[str, str] = {}
        self._broken = False
        self._lifecycle = self._restored()
        # What has been committed; readers see this.
        self._published = threading.Condition()
        self._nodes = {record.name: record for record in self._lifecycle.snapshot().nodes}
        self._published_seq = self._seq
        self._readings: Mapping[str, NodeStatus] = {}
        self._by_hand: tuple[str, ...] = ()
        self._read_at_us: int | None = None
        self._waiters: dict[str, list[Waiter]] = {}
        self._keys = threading.Condition()
        self._keys_in_use: set[str] = set()
        self._refreshing = threading.Lock()
        self._timing = threading.Lock()
        self._alarm = clock.alarm(Rank.TIMER)
        self._due_us = NEVER_US
        self._wake_us = NEVER_US
        self._reconcile_us = NEVER_US
        self._forget_us = 0
        self._stopping = False
        self._timer = threading.Thread(target=self._run_timer, name="timer", daemon=True)
        self._commander = Commander(
            driver, clock, self.settings.commands, report=self._on_outcome, observer=metrics
        )

    # Life

    def start(self) -> None:
        """Take up what a former process left open, compare the ledger with the batch system, start the timers."""
        with self.clock.held():
            self._note_start()
            self._commander.start()
            with self._deciding:
                instructions = self._lifecycle.resume()
                self._arm(instructions)
            self._carry_out(instructions)
            self.reconcile()
            self._timer.start()

    def stop(self) -> None:
        """Refuse new calls, end the waiting ones with StoppingError, finish the running command."""
        with self._deciding:
            self._stopping = True
        with self._published:
            waiters = [waiter for some in self._waiters.values() for waiter in some]
            self._published.notify_all()
        for waiter in waiters:
            waiter.answered.set()
        self._alarm.wake()
        if self._timer.is_alive():
            self._timer.join()
        self._commander.stop()
        self._alarm.close()
        self.ledger.close()

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def problem(self) -> str | None:
        """Why the service is not ready; None when it is."""
        if self._stopping:
            return "it is stopping"
        if self._broken:
            return "the ledger cannot be read or written"
        if self._read_at_us is None:
            return "the batch system has not answered yet"
        age_us = self.clock.now_us() - self._read_at_us
        if self.settings.reconcile_period_s and age_us > 3 * micros(self.settings.reconcile_period_s):
            return f"the batch system has not answered for {seconds(age_us):.0f} s"
        return None

    # Calls

    def submit_request(
        self, count: int, wait_us: int | None = None, *, key: Key | None = None, event_id: str = ""
    ) -> RequestRecord:
        """request_nodes: durable when this returns, and granted, rejected or waiting."""
        with self.clock.held():
            with self._deciding:
                is_short = count > self._free + self._lifecycle.counts[NodeState.OA_IDLE]
            if is_short and count <= len(self._names):
                # Hooks are advisory: perhaps there are idle nodes that nobody told us about.
                self.refresh()
            done = self._apply(
                lambda at_us, seq: NodesRequested(
                    at_us=at_us, event_id=event_id, request_id=f"r{seq}", count=count, wait_us=wait_us
                ),
                key=key,
            )
        return done.entry.changes.requests[-1] if done is not None else _never()

    def wait_for_request(self, request_id: str, timeout_s: float | None = None) -> Waiter | None:
        """Block until the request is decided, or for `timeout_s` of wall time. The answer's `hold` must be
        closed once it has been sent; its `record` is still waiting after the time-out. None: no such request."""
        waiter = Waiter()
        with self._published:
            self._waiters.setdefault(request_id, []).append(waiter)
        try:
            record = self.ledger.request(request_id)
            if record is None:
                return None
            if record.status is RequestStatus.WAITING and not self._stopping and timeout_s != 0:
                waiter.answered.wait(timeout_s)
                if self._stopping and waiter.record is None:
                    raise StoppingError(request_id)
        finally:
            with self._published:
                self._waiters[request_id].remove(waiter)
                if not self._waiters[request_id]:
                    del self._waiters[request_id]
        waiter.record = waiter.record or record
        return waiter

    def withdraw_request(self, request_id: str, *, event_id: str = "") -> RequestRecord | None:
        """Nobody waits for it any more. None: no such request; one that has been decided stays as it is."""
        with self.clock.held():
            record = self.ledger.request(request_id)
            if record is not None and record.status is RequestStatus.WAITING:
                self._apply(
                    lambda at_us, _: RequestWithdrawn(at_us=at_us, event_id=event_id, request_id=request_id)
                )
                record = self.ledger.request(request_id)
        return record

    def release_nodes(
        self, nodes: tuple[str, ...], *, key: Key | None = None, answer: str = "", event_id: str = ""
    ) -> None:
        """release_nodes: durable when this returns. `answer` is stored with the key."""
        with self.clock.held():
            self._apply(
                lambda at_us, _: NodesReleased(at_us=at_us, event_id=event_id, nodes=nodes),
                key=key,
                answer=lambda _: answer,
            )

    def update_nodes(
        self,
        *,
        busy: tuple[str, ...] = (),
        idle: tuple[str, ...] = (),
        job: str | None = None,
        remaining_us: int | None = None,
        key: Key | None = None,
        answer: str = "",
        event_id: str = "",
    ) -> None:
        """update_nodes: durable, and the offline marks it leads to are set, when this returns."""
        hook = "prologue" if busy else "epilogue"
        with self.clock.held():
            try:
                done = self._apply(
                    lambda at_us, _: NodesUpdated(
                        at_us=at_us,
                        event_id=event_id,
                        busy=busy,
                        idle=idle,
                        job=job,
                        remaining_us=remaining_us,
                    ),
                    key=key,
                    answer=lambda _: answer,
                    # The batch system could refill the nodes as soon as its epilogue has our answer.
                    until_issued=True,
                )
            except Refused as error:
                self.metrics.hook_event(
                    hook, "refused" if error.code == Refused.NODE_NOT_IN_BATCH else "invalid"
                )
                raise
            if done is not None and job is not None:
                self._last_jobs.update(dict.fromkeys(idle, job))
        self.metrics.hook_event(hook, "accepted")

    def add_reserve(
        self,
        count: int,
        notice_us: int,
        *,
        key: Key | None = None,
        answer: Callable[[ReserveRecord], str] | None = None,
        event_id: str = "",
    ) -> ReserveRecord:
        """add_reserve(H, N) with H = now + `notice_us`."""
        with self.clock.held():
            done = self._apply(
                lambda at_us, seq: ReserveAdded(
                    at_us=at_us, event_id=event_id, reserve_id=f"h{seq}", count=count, by_us=at_us + notice_us
                ),
                key=key,
                answer=lambda changes: answer(changes.reserves[-1]) if answer is not None else "",
            )
        return done.entry.changes.reserves[-1] if done is not None else _never()

    @contextmanager
    def idempotent(self, key: Key | None) -> Iterator[StoredAnswer | None]:
        """The stored answer to a call with this key, if there is one; a second such call waits for the first.

        Raises KeyReusedError when the key was used for another call.
        """
        if key is None:
            yield None
            return
        with self._keys:
            self._keys.wait_for(lambda: key.key not in self._keys_in_use)
            self._keys_in_use.add(key.key)
        try:
            stored = self.ledger.answer(key.key)
            if stored is not None and stored.fingerprint != key.fingerprint:
                raise KeyReusedError(f"the key {key.key} was used for a call with another body")
            yield stored
        finally:
            with self._keys:
                self._keys_in_use.discard(key.key)
                self._keys.notify_all()

    # Reading

    def nodes(self) -> list[NodeRecord]:
        """All nodes as committed, by name."""
        with self._published:
            return sorted(self._nodes.values(), key=lambda record: record.name)

    def counts(self) -> dict[NodeState, int]:
        counts = dict.fromkeys(NodeState, 0)
        with self._published:
            for record in self._nodes.values():
                counts[record.state] += 1
        return counts

    def reading(self, node: str) -> NodeStatus | None:
        """What the batch system said of the node when it was asked last."""
        return self._readings.get(node)

    @property
    def taken_offline_by_others(self) -> tuple[str, ...]:
        """Batch nodes that carry an offline mark which is not ours."""
        return self._by_hand

    @property
    def pending_commands(self) -> int:
        return self._commander.pending

    def wait_for_events(self, after: int, timeout_s: float) -> bool:
        """Block until there is an event with a number above `after`; False after `timeout_s` or when stopping."""
        with self._published:
            self._published.wait_for(lambda: self._published_seq > after or self._stopping, timeout_s)
            return self._published_seq > after and not self._stopping

    # What comes from the batch system

    def refresh(self) -> None:
        """Read all states once, unless a reading is younger than `refresh_age_s`. A failure is only logged."""
        age_us = micros(self.settings.refresh_age_s)
        with self._refreshing:
            if self._read_at_us is not None and self.clock.now_us() - self._read_at_us < age_us:
                return
            self._read()

    def reconcile(self) -> None:
        """Compare the ledger with the batch system and set right what can be set right."""
        with self._refreshing:
            self._read()

    def _read(self) -> None:
        with self._deciding:
            seq = self._seq
        try:
            reading = self._commander.read()
        except DriverError as error:
            _log.warning("the batch system cannot be read", error=str(error))
            return
        self._read_at_us, self._readings = reading.at_us, reading.states
        drift: list[str] = []

        def observed(at_us: int, _: int) -> Event | None:
            difference = compare(
                self._decided_nodes.values(),
                reading.states,
                is_news=lambda node: self._changed_at.get(node, 0) <= seq,
                last_jobs=self._last_jobs,
            )
            drift[:] = difference.unmarked
            self._by_hand = difference.by_hand
            if not difference.observed:
                return None
            states = {node: (state, reading.at_us) for node, state in difference.observed.items()}
            return NodesObserved(at_us=at_us, states=states)

        self._apply(observed)
        self.metrics.reconciled(seconds(reading.at_us), len(drift))
        if drift:
            _log.error("lent nodes without an offline mark: marking them again", nodes=drift)
            self._commander.submit([Mark(nodes=tuple(drift))])

    def _on_outcome(self, event: Event) -> None:
        with self.clock.held():
            self._apply(lambda at_us, _: replace(event, at_us=at_us))

    # Decide, commit, carry out

    def _apply(
        self,
        make: Callable[[int, int], Event | None],
        *,
        key: Key | None = None,
        answer: Callable[[Changes], str] | None = None,
        until_issued: bool = False,
    ) -> _Decided | None:
        """`make(at_us, number)` gives the event (None: nothing to do); it is durable when this returns."""
        with self._deciding:
            if self._stopping:
                raise StoppingError
            if self._broken:
                self._reload()
            event = make(self.clock.now_us(), self._seq + 1)
            if event is None:
                return None
            decided = self._decide(event, key, answer)
        self._commit(decided)
        issued = self._carry_out(decided.instructions)
        if until_issued and issued is not None:
            issued.wait()
        return decided

    def _decide(self, event: Event, key: Key | None, answer: Callable[[Changes], str] | None) -> _Decided:
        if not event.event_id:
            event = replace(event, event_id=f"e{self._seq + 1}")
        try:
            instructions = self._lifecycle.handle(event)
        except (Refused, BadPlan):
            raise
        except Exception:
            # A bug of ours: the state may be half changed, the ledger's is whole.
            _log.exception("the life cycle failed; the state is read from the ledger again", event=event)
            self._undo(LedgerError("an internal error undid what was being decided"))
            raise
        changes = self._lifecycle.drain_changes()
        self._seq += 1
        moves = []
        for record in changes.nodes:
            before = self._decided_nodes[record.name]
            self._free += _is_free(record) - _is_free(before)
            self._decided_nodes[record.name] = record
            self._changed_at[record.name] = self._seq
            if record.state is not before.state:
                moves.append((record.name, before.state, record.state))
        stored = StoredEvent(
            self._seq, event.at_us, event.event_id, _KIND[type(event)], _body(event, moves, changes)
        )
        kept = _kept(key, changes, answer) if key is not None else None
        decided = _Decided(Entry(stored, changes, kept), instructions, moves)
        self._queue.append(decided)
        if isinstance(event, TimerFired):
            self._wake_us = NEVER_US
        self._arm(instructions)
        return decided

    def _commit(self, decided: _Decided) -> None:
        with self._committing:
            if not decided.stored and decided.error is None:
                with self._deciding:
                    batch, self._queue = self._queue, []
                start_us = wall_us()
                try:
                    self.ledger.commit([each.entry for each in batch])
                except Exception as error:  # noqa: BLE001 - whatever it was, nothing is stored
                    _log.exception("the ledger could not be written")
                    with self._deciding:
                        self._queue = batch + self._queue
                        self._undo(error)
                else:
                    self.metrics.committed(seconds(wall_us() - start_us))
                    self._publish(batch)
        if decided.error is not None:
            raise LedgerError(f"nothing is stored: {decided.error}") from decided.error

    def _undo(self, error: Exception) -> None:
        """Everything that was decided and not stored has not happened."""
        for each in self._queue:
            each.error = error
        self._queue = []
        self._broken = True
        try:
            self._reload()
        except LedgerError:
            _log.exception("the ledger cannot be read either; every call will try again")

    def _reload(self) -> None:
        self._seq = self.ledger.last_seq()
        self._lifecycle = self._restored()
        self._wake_us = min(self._wake_us, self.clock.now_us() + _AFTER_FAILURE_US)
        self._set_alarm()
        self._broken = False

    def _publish(self, batch: Sequence[_Decided]) -> None:
        answered: list[tuple[Waiter, RequestRecord]] = []
        with self._published:
            for each in batch:
                each.stored = True
                for record in each.entry.changes.nodes:
                    self._nodes[record.name] = record
                for request in each.entry.changes.requests:
                    if request.status is not RequestStatus.WAITING:
                        self.metrics.request_answered(request.status.value)
                        answered += [
                            (waiter, request) for waiter in self._waiters.get(request.request_id, ())
                        ]
                self._count_moves(each.moves)
            self._published_seq = batch[-1].entry.event.seq
            self._published.notify_all()
        for waiter, request in answered:
            waiter.record = request
            waiter.hold.enter_context(self.clock.held())
            waiter.answered.set()

    def _count_moves(self, moves: Sequence[tuple[str, NodeState, NodeState]]) -> None:
        for _, before, after in moves:
            if before is NodeState.RECLAIMING:
                outcome = "done" if after is NodeState.OD_RESERVE else "failed"
                self.metrics.nodes_moved("batch", "on_demand", outcome, 1)
            elif before is NodeState.RESTORING:
                self.metrics.nodes_moved("on_demand", "batch", "done", 1)

    def _carry_out(self, instructions: Sequence[Instruction]) -> threading.Event | None:
        commands: list[Reclaim | Restore | Mark] = []
        for instruction in instructions:
            if isinstance(instruction, (Reclaim, Restore)):
                commands.append(instruction)
            elif isinstance(instruction, PlanRefused):
                _log.error("plan refused", algorithm=instruction.algorithm, detail=instruction.detail)
        return self._commander.submit(commands) if commands else None

    # State from the ledger

    def _restored(self) -> Lifecycle:
        """The life cycle as the ledger has it; nodes that are new in the configuration are DOWN until seen."""
        snapshot = self.ledger.load() or Snapshot(now_us=0, serial=0, nodes=(), requests=(), reserves=())
        stored = {record.name: record for record in snapshot.nodes}
        gone = [record for name, record in stored.items() if name not in set(self._names)]
        for record in gone:
            if record.state not in _IN_CONFIGURATION_ONLY:
                raise LedgerError(
                    f"node {record.name} is {record.state} in the ledger and is missing from the configured nodes: "
                    "list it until it has been given back"
                )
        new = NodeState.DOWN
        snapshot = replace(
            snapshot,
            nodes=tuple(
                stored.get(name) or NodeRecord(name=name, state=new, since_us=snapshot.now_us)
                for name in self._names
            ),
        )
        lifecycle = Lifecycle.restore(
            snapshot, self._algorithm, self._lifecycle_settings, algorithm_name=self.algorithm_name
        )
        self._decided_nodes = {record.name: record for record in snapshot.nodes}
        self._changed_at = {}
        self._free = sum(map(_is_free, snapshot.nodes))
        return lifecycle

    def _note_start(self) -> None:
        """The log tells of each start; in a new ledger this stores the nodes."""
        self._seq += 1
        snapshot = self._lifecycle.snapshot()
        body = json.dumps({"version": VERSION, "epoch": self.ledger.epoch, "algorithm": self.algorithm_name})
        event = StoredEvent(self._seq, self.clock.now_us(), f"e{self._seq}", "started", body)
        changes = Changes(nodes=snapshot.nodes, now_us=snapshot.now_us, serial=snapshot.serial)
        self.ledger.commit([Entry(event, changes)])
        self._published_seq = self._seq

    # Time

    def _arm(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, WakeAt):
                self._wake_us = instruction.at_us
        self._set_alarm()

    def _set_alarm(self) -> None:
        with self._timing:
            due_us = min(self._wake_us, self._reconcile_us)
            if due_us == self._due_us:
                return
            is_earlier = due_us < self._due_us
            self._due_us = due_us
            self._alarm.set(due_us)
        if is_earlier:
            self._alarm.wake()

    def _run_timer(self) -> None:
        self._plan_reconcile()
        while not self._stopping:
            if not self._alarm.wait() or self._stopping:
                continue
            with self.clock.held() as now_us:
                try:
                    if now_us >= self._wake_us:
                        self._apply(lambda at_us, _: TimerFired(at_us=at_us))
                    if now_us >= self._reconcile_us:
                        self.reconcile()
                        self._forget(now_us)
                except StoppingError:
                    return
                except Exception:
                    _log.exception("a timer failed; it is tried again")
                    with self._deciding:
                        self._wake_us = now_us + _AFTER_FAILURE_US
                if now_us >= self._reconcile_us:
                    self._plan_reconcile()
                self._set_alarm()

    def _plan_reconcile(self) -> None:
        period_us = micros(self.settings.reconcile_period_s)
        self._reconcile_us = self.clock.now_us() + period_us if period_us else NEVER_US
        self._set_alarm()

    def _forget(self, now_us: int) -> None:
        if now_us < self._forget_us:
            return
        self._forget_us = now_us + micros(3600)
        with self._committing:
            self.ledger.forget(
                answers_before_us=now_us - micros(self.settings.keep_answers_s),
                events_before_us=now_us - micros(self.settings.keep_events_s),
            )


def _is_free(record: NodeRecord) -> bool:
    return record.state is NodeState.OD_RESERVE and record.held_for is None


def _kept(key: Key, changes: Changes, answer: Callable[[Changes], str] | None) -> StoredAnswer:
    if answer is None:
        return StoredAnswer(key.key, key.fingerprint, request_id=changes.requests[-1].request_id)
    return StoredAnswer(key.key, key.fingerprint, status=200, body=answer(changes))


def _body(event: Event, moves: Sequence[tuple[str, NodeState, NodeState]], changes: Changes) -> str:
    """The event's own fields, the nodes it moved and the requests it decided, as JSON."""
    body: dict[str, Any] = {name: getattr(event, name) for name in _FIELDS[type(event)]}
    if moves:
        body["moved"] = moves
    decided = {r.request_id: r.status for r in changes.requests if r.status is not RequestStatus.WAITING}
    if decided:
        body["decided"] = decided
    return json.dumps(body, separators=(",", ":"))


def _never() -> Any:
    raise AssertionError("a call always makes an event")


_KIND: dict[type[Event], str] = {
    kind: re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in Event.__subclasses__()
}
_FIELDS: dict[type[Event], tuple[str, ...]] = {
    kind: tuple(each.name for each in fields(kind) if each.name not in ("at_us", "event_id"))
    for kind in _KIND
}
