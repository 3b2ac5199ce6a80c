"""The Balancer's calls: each is an event, made durable by the `Writer` before anything is done about it.

Commands for the batch system go to the `Commander`, whose outcomes come back as events, and so on until
nothing is left to do. Work is done while a paced clock stands still; waiting for a request is not work.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from balancer.algorithms.bounded import Bounded
from balancer.callers import CallerGoneError, Callers, CallerSettings
from balancer.clock import NEVER_US, micros, seconds, wall_us
from balancer.commands import Commander, CommandSettings, Order
from balancer.freeze import Freezable
from balancer.idempotency import Keys
from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import (
    Event,
    GrantConfirmed,
    LeaseRenewed,
    Look,
    NodesAdopted,
    NodesContested,
    NodesDoubted,
    NodesReclaimed,
    NodesReleased,
    NodesRequested,
    NodesUpdated,
    Reclaim,
    RequestWithdrawn,
    ReserveAdded,
    Restore,
    TimerFired,
    WakeAt,
)
from balancer.lifecycle.nodes import MAY_BE_CONTESTED
from balancer.lifecycle.records import ANONYMOUS, RequestRecord, RequestStatus, ReserveRecord
from balancer.lifecycle.states import NodeState
from balancer.reconciler import Reconciler
from balancer.timers import Timers
from balancer.writer import Configured, Key, StoppingError, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from balancer.algorithms.interface import Algorithm
    from balancer.clock import Clock
    from balancer.contact import Contact
    from balancer.drivers.base import BatchDriver, NodeStatus
    from balancer.drivers.cloud import CloudDriver
    from balancer.freeze import Freeze
    from balancer.freeze import Order as FreezeOrder
    from balancer.ledger.store import Ledger, StoredAnswer
    from balancer.lifecycle.events import Instruction
    from balancer.lifecycle.records import Changes, NodeRecord
    from balancer.lifecycle.settings import Settings
    from balancer.metrics import Metrics
    from balancer.waiting import Waiter
    from balancer.writer import Decided

_log = structlog.get_logger()

_MARKED = (NodeState.OD_RESERVE, NodeState.OD_ALLOC, NodeState.HELD)
"""States in which a node's offline mark stays."""

_FORGET_EVERY_US = micros(3600)

_FIRST_READING_S = 5.0
"""How long a start waits for the batch system; without an answer the service starts, and is not ready."""

_LOOKS_S = 0.5
"""How often a call that waits looks whether its caller is still there; wall time."""


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

    `hold_s`: how long a node in doubt without a server in the cloud is held.
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
    hold_s: float = 600.0
    commands: CommandSettings = field(default_factory=CommandSettings)
    callers: CallerSettings = field(default_factory=CallerSettings)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the owner of what it asks for. An operator may end what is others'."""

    name: str = ANONYMOUS
    is_operator: bool = False


NOBODY = Caller()


class Engine:
    """Nodes, requests and reserves of one Balancer, durable. Methods may be called from any thread.

    Calls that write raise `Refused` (nothing changed; see its codes), `BadPlan` (the algorithm failed),
    `LedgerError` (nothing is stored) and `StoppingError`. `event_id` names the cause in the log.
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
        cloud: CloudDriver | None = None,
        freeze: Freeze | None = None,
        threaded: bool = True,
    ) -> None:
        """`cloud`: what reconcile asks for the VMs on the nodes.

        `threaded=False`: no thread is started; whoever drives the clock calls `step` (the simulation).
        """
        self.settings = settings or EngineSettings()
        self.clock = clock
        self.ledger = ledger
        self.metrics = metrics
        self.algorithm_name = algorithm_name or type(algorithm).__name__
        self._has_cloud = cloud is not None
        self._timers = Timers(
            clock,
            self.settings.reconcile_period_s,
            on_wake=self._on_wake,
            on_period=self._on_period,
            threaded=threaded,
        )
        self._freeze = freeze
        if freeze is not None:
            algorithm = Freezable(algorithm, freeze)
        self._bounded = (
            Bounded(algorithm, self.algorithm_name, self.settings.plan_limit_s) if threaded else None
        )
        configured = Configured(
            nodes=tuple(nodes),
            algorithm=self._bounded or algorithm,
            algorithm_name=self.algorithm_name,
            settings=self._complete(lifecycle_settings),
        )
        self._writer = Writer(
            configured,
            ledger=ledger,
            clock=clock,
            metrics=metrics,
            on_decided=self._set_wake,
            threaded=threaded,
        )
        self._commander = Commander(
            driver,
            clock,
            self.settings.commands,
            report=self._on_outcome,
            observer=metrics,
            check_writer=self._check_writer,
            is_batchs=self._is_batchs,
            signature=lambda: str(ledger.stamp()),
            threaded=threaded,
        )
        self._reconciler = Reconciler(
            self._writer,
            self._commander,
            cloud=cloud,
            clock=clock,
            metrics=metrics,
            carry_out=self._carry_out,
            refresh_age_s=self.settings.refresh_age_s,
            threaded=threaded,
            hold_us=micros(self.settings.hold_s),
        )
        self._reader = self._reconciler.reader
        self._callers = Callers(self._withdraw_for, self.settings.callers, threaded=threaded)
        self._threaded = threaded
        self._keys = Keys(ledger)
        self._forget_us = 0
        self._failures_seen = 0

    # Life

    def start(self) -> None:
        """Take up what a former process left open, compare with the batch system, start the timers."""
        if self._bounded is not None:
            self._bounded.start()
        with self.clock.held():
            instructions = self._writer.start()
            self._commander.start()
            # First: what a former process left under way is not to be done for nodes that are in doubt.
            if self._threaded:
                self._reader.ask(with_cloud=True)
                self._reader.start(_FIRST_READING_S)
            elif not self.reconcile():
                self._reader.ask(with_cloud=True)
            if self.batch.answered_us is None and not self._writer.unproven:
                self._carry_out(instructions)  # else the reading has seen to them, or will
            self._callers.start(
                record.request_id
                for record in self._writer.open_requests()
                if record.status is RequestStatus.WAITING
            )
            self._timers.start()

    def stop(self) -> None:
        """Refuse new calls, end the waiting ones with StoppingError, finish the running command."""
        self._writer.stop()
        self._timers.stop()
        self._commander.stop()
        self._reader.stop()
        self._callers.stop()
        if self._bounded is not None:
            self._bounded.stop()
        self.ledger.close()

    def reconfigure(
        self, nodes: Sequence[str], lifecycle_settings: Settings, settings: EngineSettings
    ) -> None:
        """Go on with these nodes, R, W, I, waiting times and limits on what waits; the other settings stay as they are.

        A node can leave while batch has it. Raises LedgerError or ValueError: all is as it was then.
        """
        busy = sorted({node.name for node in self.nodes()}.difference(nodes) & self._commander.open_nodes())
        if busy:
            raise ValueError(f"nodes: a command for {busy[0]} is under way; try again when it has ended")
        with self.clock.held():
            self._writer.reconfigure(tuple(nodes), self._complete(lifecycle_settings))
            self.settings = replace(
                self.settings,
                max_waiting_requests=settings.max_waiting_requests,
                max_reserves=settings.max_reserves,
                unreachable_s=settings.unreachable_s,
                mark_wait_s=settings.mark_wait_s,
            )
            self._reader.ask(with_cloud=True)  # the state of what is new

    def _complete(self, settings: Settings) -> Settings:
        """With what the life cycle must know of the parts around it."""
        return replace(settings, fresh_us=micros(self.settings.refresh_age_s), has_cloud=self._has_cloud)

    def interrupt(self) -> None:
        """The first part of `stop`: no further writes, and nobody waits. For signal handlers."""
        threading.Thread(target=self._writer.stop, daemon=True).start()

    def step(self) -> None:
        """Do what is due: the lease, timers, then commands. Only where no threads do it."""
        if wall_us() >= self.ledger.lease_due_us:
            self.ledger.keep_lease()
        if self.clock.now_us() >= self._timers.due_us:
            self._timers.fire()
        if wall_us() >= self._writer.due_us:
            self._writer.probe()
        if wall_us() >= self._commander.due_us:
            self._commander.step()
        if wall_us() >= self._reader.due_us:
            self._reader.step()
        if wall_us() >= self._callers.due_us:
            self._callers.step()

    def due_in_us(self) -> int:
        """How long there is nothing to do for `step`, if nobody calls meanwhile."""
        to_timer_us = self._timers.due_us - self.clock.now_us()
        parts = self._commander, self._writer, self._reader, self._callers
        due_us = min(self.ledger.lease_due_us, *(part.due_us for part in parts))
        return max(0, min(to_timer_us, due_us - wall_us()))

    @property
    def is_stopping(self) -> bool:
        return self._writer.is_stopping

    @property
    def is_leader(self) -> bool:
        """Whether this service holds the ledger: its epoch is the newest, as far as it knows."""
        return self.ledger.epoch is not None and not self.ledger.is_lost

    @property
    def failed_plan(self) -> str | None:
        """The algorithm's last failure, with event and time; None when it never failed."""
        return self._writer.failed_plan

    def problem(self) -> str | None:
        """Why the service is not ready; None when it is."""
        problem = self._writer.problem()
        if problem is not None:
            return problem
        if self._bounded is not None and self._bounded.is_late:
            return f"the algorithm {self.algorithm_name} does not come back with a plan"
        return self._batch_problem()

    def _batch_problem(self) -> str | None:
        if self._reconciler.is_refused:
            return f"the batch system refuses to be read: {self.batch.error}"
        if self._commander.refused is not None:
            return f"the batch system refuses commands: {self._commander.refused}"
        return self._silence()

    def _silence(self) -> str | None:
        """The batch system has not answered for too long."""
        contact, period_us = self.batch, micros(self.settings.reconcile_period_s)
        why = "" if contact.error is None else f": {contact.error}"
        age_us = contact.silent_us(self.clock.now_us())
        if age_us is None:
            return f"the batch system has not answered yet{why}"
        is_unreachable = contact.error is not None and age_us > micros(self.settings.unreachable_s)
        if is_unreachable or (period_us and age_us > 3 * period_us):
            return f"the batch system has not answered for {seconds(age_us):.0f} s{why}"
        return None

    @property
    def batch(self) -> Contact:
        """When the batch system answered last."""
        return self._reconciler.batch

    @property
    def cloud(self) -> Contact | None:
        """When the cloud answered last; None: there is none."""
        return self._reconciler.cloud

    @property
    def is_read_only(self) -> bool:
        return self._writer.read_only is not None

    @property
    def frozen(self) -> FreezeOrder | None:
        """Who ordered that no node moves; None: nodes may move."""
        return None if self._freeze is None else self._freeze.order()

    # Calls

    def submit_request(
        self,
        count: int,
        wait_us: int | None = None,
        *,
        caller: Caller = NOBODY,
        candidates: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        lease_us: int | None = None,
        key: Key | None = None,
        event_id: str = "",
    ) -> RequestRecord:
        """request_nodes: durable when this returns, and granted, rejected or waiting. Asks the batch system nothing."""

        def requested(at_us: int, seq: int) -> NodesRequested:
            if self._writer.pending()[0] >= self.settings.max_waiting_requests:
                raise TooManyError("requests", self.settings.max_waiting_requests)
            return NodesRequested(
                at_us=at_us,
                event_id=event_id,
                request_id=f"r{seq}",
                count=count,
                wait_us=wait_us,
                owner=caller.name,
                candidates=candidates,
                exclude=exclude,
                lease_us=lease_us,
            )

        with self.clock.held():
            done = self._write(requested, key=key)
        return next(each for each in done.changes.requests if each.request_id == f"r{done.seq}")

    def wait_for_request(
        self,
        request_id: str,
        timeout_s: float | None = None,
        *,
        is_gone: Callable[[], bool] | None = None,
    ) -> Waiter | None:
        """Block until the request is decided, or for `timeout_s` of wall time. None: no such request.

        The answer's `hold` must be closed once it has been sent. Its `record` still waits after the time-out.
        Raises CallerGoneError when `is_gone` says that the owner has hung up: without another call the request is
        withdrawn.
        """
        with self._writer.waiters.waiting(request_id) as waiter:
            record = self.ledger.request(request_id)
            if record is None:
                return None
            if record.status is RequestStatus.WAITING and not self.is_stopping:
                if is_gone is None:
                    waiter.answered.wait(timeout_s)
                else:
                    with self._callers.waiting(request_id):
                        _wait_with(waiter, timeout_s, is_gone)
            decided = waiter.record
        if decided is None and record.status is RequestStatus.WAITING and self.is_stopping:
            raise StoppingError(request_id)
        waiter.record = decided or record
        return waiter

    def calls(self, request_id: str) -> None:
        """The owner of a request has asked for it: after a restart, that keeps it waiting."""
        self._callers.calls(request_id)

    def hung_up(self, request_id: str) -> None:
        """The owner's connection ended while it waited: without another call the request is withdrawn."""
        self._callers.hung_up(request_id)

    def withdraw_request(
        self, request_id: str, *, caller: Caller = NOBODY, event_id: str = "", reason: str = ""
    ) -> RequestRecord | None:
        """Nobody waits for it any more. None: no such request; one that has been decided stays as it is."""
        record = self.ledger.request(request_id)
        if record is None or record.status is not RequestStatus.WAITING:
            return record
        self._write_held(
            lambda at_us, _: RequestWithdrawn(
                at_us=at_us,
                event_id=event_id,
                request_id=request_id,
                by=caller.name,
                as_operator=caller.is_operator,
                reason=reason,
            )
        )
        return self.ledger.request(request_id)

    def _withdraw_for(self, request_id: str, reason: str) -> None:
        self.withdraw_request(request_id, caller=_SERVICE, reason=reason)

    def confirm_request(
        self, request_id: str, *, caller: Caller = NOBODY, event_id: str = ""
    ) -> RequestRecord | None:
        """The owner has its nodes: durable when this returns. None: no such request."""
        return self._keep(
            request_id,
            lambda at_us: GrantConfirmed(
                at_us=at_us,
                event_id=event_id,
                request_id=request_id,
                by=caller.name,
                as_operator=caller.is_operator,
            ),
        )

    def renew_lease(
        self,
        request_id: str,
        lease_us: int | None = None,
        *,
        caller: Caller = NOBODY,
        event_id: str = "",
    ) -> RequestRecord | None:
        """The grant is kept for `lease_us` from now on; None: for what was asked. None: no such request."""
        return self._keep(
            request_id,
            lambda at_us: LeaseRenewed(
                at_us=at_us,
                event_id=event_id,
                request_id=request_id,
                lease_us=lease_us,
                by=caller.name,
                as_operator=caller.is_operator,
            ),
        )

    def _keep(self, request_id: str, make: Callable[[int], Event]) -> RequestRecord | None:
        if self.ledger.request(request_id) is None:
            return None
        self._write_held(lambda at_us, _: make(at_us))
        return self.ledger.request(request_id)

    def release_nodes(
        self,
        nodes: tuple[str, ...],
        *,
        caller: Caller = NOBODY,
        generations: Mapping[str, int] | None = None,
        key: Key | None = None,
        answer: str = "",
        event_id: str = "",
    ) -> None:
        """release_nodes: durable when this returns. `answer` is stored with the key.

        `generations`: Refused (concurrent_update) unless these nodes still have them.
        """

        def released(at_us: int, _: int) -> NodesReleased:
            self._check_generations(generations)
            return NodesReleased(
                at_us=at_us,
                event_id=event_id,
                nodes=nodes,
                by=caller.name,
                as_operator=caller.is_operator,
            )

        with self.clock.held():
            self._write(released, key=key, answer=lambda _: answer)

    def update_nodes(
        self,
        *,
        busy: tuple[str, ...] = (),
        idle: tuple[str, ...] = (),
        job: str | None = None,
        remaining_us: int | None = None,
        generations: Mapping[str, int] | None = None,
        key: Key | None = None,
        answer: str = "",
        event_id: str = "",
    ) -> None:
        """update_nodes: durable when this returns.

        The offline marks that it leads to are set as well, unless that takes longer than `mark_wait_s`. Raises Refused
        for a job on a node that batch may not use; that is durable too, and nobody is given such a node.
        """
        hook = "prologue" if busy else "epilogue"

        def updated(at_us: int, _: int) -> NodesUpdated:
            self._check_generations(generations)
            return NodesUpdated(
                at_us=at_us, event_id=event_id, busy=busy, idle=idle, job=job, remaining_us=remaining_us
            )

        with self.clock.held():
            self._give_up_late(busy)
            try:
                self._write(
                    updated,
                    key=key,
                    answer=lambda _: answer,
                    # The batch system could refill the nodes as soon as its epilogue has our answer.
                    until_issued=True,
                )
            except Refused as error:
                outcome = "refused" if error.code == Refused.NODE_NOT_IN_BATCH else "invalid"
                self.metrics.hook_event(hook, outcome)
                if error.code == Refused.NODE_NOT_IN_BATCH:
                    self._contest(busy, job, event_id)
                raise
            if job is not None:
                self._reconciler.last_jobs.update(dict.fromkeys(idle, job))
        self.metrics.hook_event(hook, "accepted")

    def _contest(self, nodes: tuple[str, ...], job: str | None, event_id: str) -> None:
        """A job was reported where none may run: until a look has shown that there is none, nobody gets the node."""
        why = f"job {job or '(unnamed)'} was reported to start"

        def contested(at_us: int, _: int) -> Event | None:
            records = [self._writer.decided_node(node) for node in nodes]
            named = {
                record.name: why
                for record in records
                if record is not None and record.state in MAY_BE_CONTESTED and not record.contested
            }
            return NodesContested(at_us=at_us, event_id=event_id, nodes=named) if named else None

        done = self._writer.apply(contested)
        if done is not None:
            self._carry_out(done.instructions)
        self._reader.ask()

    def _give_up_late(self, busy: tuple[str, ...]) -> None:
        """A job starts on nodes that were to be reclaimed long ago, so nobody could tell batch: it keeps them.

        Refused, it would come back at once, again and again, for as long as the batch system does not listen to us.
        """
        late = self._commander.give_up_late(busy)
        if late:
            self._write(lambda at_us, _: NodesReclaimed(at_us=at_us, busy=late))

    def adopt_nodes(
        self,
        nodes: tuple[str, ...],
        *,
        on_demand: bool,
        caller: Caller = NOBODY,
        reason: str = "",
        key: Key | None = None,
        answer: str = "",
        event_id: str = "",
    ) -> None:
        """An operator says whose these held nodes are: granted as before, or batch's. Durable when this returns."""
        on, back = (nodes, ()) if on_demand else ((), nodes)
        with self.clock.held():
            self._write(
                lambda at_us, _: NodesAdopted(
                    at_us=at_us,
                    event_id=event_id,
                    on_demand=on,
                    batch=back,
                    by=caller.name,
                    reason=reason,
                ),
                key=key,
                answer=lambda _: answer,
            )

    def hold_nodes(
        self,
        nodes: tuple[str, ...],
        reason: str,
        *,
        caller: Caller = NOBODY,
        key: Key | None = None,
        answer: str = "",
        event_id: str = "",
    ) -> None:
        """An operator says that nobody may have these nodes, whatever the ledger says of them: HELD when this returns.

        `adopt_nodes` ends it.
        """

        def doubted(at_us: int, seq: int) -> Event:
            unknown = [node for node in nodes if self._writer.decided_node(node) is None]
            if unknown:
                raise Refused(Refused.UNKNOWN_NODE, f"there is no node {unknown[0]}")
            # With the number: what was settled before is doubted again.
            why = f"held by {caller.name} at event {seq}: {reason}"
            return NodesDoubted(at_us=at_us, event_id=event_id, reasons=dict.fromkeys(nodes, why))

        with self.clock.held():
            self._write(doubted, key=key, answer=lambda _: answer)
            self._timers.wake_at(self.clock.now_us())  # requests that waited with one get another
            self._reader.ask(with_cloud=True)  # and one without a mark gets it

    def add_reserve(
        self,
        count: int,
        notice_us: int,
        *,
        caller: Caller = NOBODY,
        keep_us: int | None = None,
        key: Key | None = None,
        answer: Callable[[ReserveRecord], str] | None = None,
        event_id: str = "",
    ) -> ReserveRecord:
        """More nodes in reserve by a time: the paper's H is `notice_us` from now, its N is `count`.

        They are kept for `keep_us` after H; None: for I.
        """

        def added(changes: Changes) -> ReserveRecord:
            return max(changes.reserves, key=lambda record: record.order)

        def add(at_us: int, seq: int) -> ReserveAdded:
            if self._writer.pending()[1] >= self.settings.max_reserves:
                raise TooManyError("reserves", self.settings.max_reserves)
            return ReserveAdded(
                at_us=at_us,
                event_id=event_id,
                reserve_id=f"h{seq}",
                count=count,
                by_us=at_us + notice_us,
                keep_us=keep_us,
                owner=caller.name,
            )

        with self.clock.held():
            done = self._write(
                add,
                key=key,
                answer=lambda changes: answer(added(changes)) if answer is not None else "",
            )
        return added(done.changes)

    def idempotent(self, key: Key | None) -> AbstractContextManager[StoredAnswer | None]:
        """The stored answer to a call with this key, if there is one. Raises KeyReusedError and KeyInUseError."""
        return self._keys.used(key)

    def _check_generations(self, generations: Mapping[str, int] | None) -> None:
        """For the function that is given to the writer: nothing is decided in between."""
        for name, believed in (generations or {}).items():
            record = self._writer.decided_node(name)
            if record is not None and record.generation != believed:
                detail = (
                    f"node {name} has generation {record.generation}, not {believed}: it changed meanwhile"
                )
                raise Refused(CONCURRENT_UPDATE, detail)

    # Reading

    def nodes(self) -> list[NodeRecord]:
        """All nodes as committed, by name."""
        return self._writer.nodes()

    def node(self, name: str) -> NodeRecord | None:
        """One node as committed."""
        return self._writer.node(name)

    def counts(self) -> dict[NodeState, int]:
        return self._writer.counts()

    def counted(self) -> tuple[int, dict[NodeState, int]]:
        """Number of the last committed event, and the nodes by state after it."""
        return self._writer.counted()

    def reading(self, node: str) -> NodeStatus | None:
        """What the batch system said of the node when it was asked last."""
        return self._reconciler.readings.get(node)

    def held(self) -> dict[str, str]:
        """Nodes that are nobody's because the ledger may be wrong about them -> why."""
        return {record.name: record.doubt for record in self.nodes() if record.state is NodeState.HELD}

    @property
    def taken_offline_by_others(self) -> tuple[str, ...]:
        """Batch nodes that carry an offline mark which is not ours."""
        return self._reconciler.by_hand

    @property
    def pending_commands(self) -> int:
        """Nodes for which a command waits or has no outcome yet."""
        return self._commander.pending

    def wait_for_events(self, after: int, timeout_s: float) -> bool:
        """Block until there is an event after number `after`; False after `timeout_s` or when stopping."""
        return self._writer.wait_for_events(after, timeout_s)

    # What comes from the batch system

    def reconcile(self) -> bool:
        """Compare the ledger with batch system and cloud, and set right what can be; False: no answer.

        Waits for both; a call that answers somebody must not.
        """
        with self.clock.held():
            return self._reconciler.reconcile()

    @property
    def is_reading(self) -> bool:
        """Somebody waits for a reading."""
        return not self._reader.is_idle

    def open_requests(self) -> list[RequestRecord]:
        """The requests that wait or have nodes, as committed."""
        return self._writer.open_requests()

    def _on_outcome(self, event: Event) -> None:
        with self.clock.held():
            try:
                self._write(lambda at_us, _: replace(event, at_us=at_us))
            except StoppingError:
                _log.info("an outcome came too late to be recorded; the next start reads it again")

    # Effects

    def _check_writer(self) -> None:
        """Before a command. Raises LedgerError."""
        self._writer.refuse_if_unproven()
        self.ledger.check_writer()

    def _is_batchs(self, node: str) -> bool:
        """Whether its mark may come off: not while it is lent, or held because of a doubt."""
        record = self._writer.node(node)
        return record is None or record.state not in _MARKED

    def _write(
        self,
        make: Callable[[int, int], Event],
        *,
        key: Key | None = None,
        answer: Callable[[Changes], str] | None = None,
        until_issued: bool = False,
    ) -> Decided:
        done = self._writer.apply(make, key=key, answer=answer)
        if done is None:
            raise AssertionError("a call always makes an event")
        issued = self._carry_out(done.instructions)
        if until_issued and issued is not None:
            self._commander.wait_until_issued(issued, self.settings.mark_wait_s)
        return done

    def _write_held(self, make: Callable[[int, int], Event]) -> None:
        with self.clock.held():
            self._write(make)

    def _carry_out(self, instructions: Sequence[Instruction]) -> threading.Event | None:
        """Hand over the commands; the event is set once they have been issued."""
        commands: list[Order] = []
        for instruction in instructions:
            if isinstance(instruction, (Reclaim, Restore)):
                commands.append(instruction)
            elif isinstance(instruction, Look):
                self._reader.ask(with_cloud=instruction.cloud)
        return self._commander.submit(commands) if commands else None

    def _set_wake(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, WakeAt):
                self._timers.wake_at(instruction.at_us)

    def _on_wake(self, now_us: int) -> None:  # noqa: ARG002 - the writer stamps its events
        trouble = self._commander.trouble or self.batch.error or ""
        self._write(lambda at_us, _: TimerFired(at_us=at_us, trouble=trouble))
        if self._writer.failures != self._failures_seen:
            # A commit that failed may have been stored: then its commands have not been given to anybody.
            self._failures_seen = self._writer.failures
            self._reader.ask(with_cloud=True)

    def _on_period(self, now_us: int) -> None:
        self._reader.ask(with_cloud=True)
        if now_us >= self._forget_us:
            self._forget_us = now_us + _FORGET_EVERY_US
            self._writer.forget(
                answers_before_us=now_us - micros(self.settings.keep_answers_s),
                events_before_us=now_us - micros(self.settings.keep_events_s),
            )


_SERVICE = Caller("", is_operator=True)
"""What the service ends by itself."""


def _wait_with(waiter: Waiter, timeout_s: float | None, is_gone: Callable[[], bool]) -> None:
    """Until there is an answer, or for `timeout_s`. Raises CallerGoneError."""
    end_us = NEVER_US if timeout_s is None else wall_us() + micros(timeout_s)
    while (left_us := end_us - wall_us()) > 0:
        if waiter.answered.wait(min(_LOOKS_S, seconds(left_us))):
            return
        if is_gone():
            raise CallerGoneError
