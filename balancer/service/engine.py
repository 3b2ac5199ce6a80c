"""The Balancer behind its API: its parts, how it starts and ends, whether it is ready, and how things stand.

Calls are events (`calls.py`, `on_demand_calls.py`, `node_calls.py`), made durable by the `Writer` before anything is
done about them. Commands for the batch system go to the `Commander`, whose outcomes come back as events, and so on
until nothing is left to do. Work is done while a paced clock stands still; waiting for a request is not work.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from balancer.algorithms.time_limit import Bounded
from balancer.clock import Clock, micros, micros_or_none, seconds, wall_us
from balancer.job_ends import JobEnds
from balancer.lifecycle.events import Event, Instruction, TimerFired, WakeAt
from balancer.lifecycle.records import NodeRecord, RequestRecord, RequestStatus
from balancer.lifecycle.states import NodeState
from balancer.service.callers import Callers
from balancer.service.calls import EngineSettings
from balancer.service.claims import Claims
from balancer.service.commands import Commander
from balancer.service.freeze import Freeze, Unmoving
from balancer.service.idempotency import Keys
from balancer.service.node_calls import NodeCalls
from balancer.service.on_demand_calls import OnDemandCalls
from balancer.service.reconciler import Reconciler
from balancer.service.reconfigure import Configured
from balancer.service.timers import Timers
from balancer.service.waker import Waker
from balancer.service.writer import StoppingError, Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from balancer.algorithms.interface import Algorithm
    from balancer.drivers.base import BatchDriver, NodeStatus
    from balancer.drivers.cloud import CloudDriver
    from balancer.ledger.store import Ledger
    from balancer.policy_settings import Settings
    from balancer.service.freeze import Order as FreezeOrder
    from balancer.service.metrics import Metrics

_log = structlog.get_logger()

_MARKED = (NodeState.OD_RESERVE, NodeState.OD_ALLOC, NodeState.QUARANTINED)
"""States in which a node's offline mark stays."""

_FORGET_EVERY_US = micros(3600)

_FIRST_READING_S = 5.0
"""How long a start waits for the batch system; without an answer the service starts, and is not ready."""


class Engine(OnDemandCalls, NodeCalls):
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
        self._bounded = (
            Bounded(algorithm, self.algorithm_name, self.settings.plan_limit_s) if threaded else None
        )
        # Inside of all else: what is ours must not be interrupted while it holds a lock.
        algorithm = Unmoving(self._bounded or algorithm, self._may_nodes_move)
        configured = Configured(
            nodes=tuple(nodes),
            algorithm=algorithm,
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
        self.published = self._writer.published
        self._connect(driver, cloud, threaded=threaded)
        self._callers = Callers(self._withdraw_for, self.settings.callers, threaded=threaded)
        self._threaded = threaded
        self._keys = Keys(ledger)
        self.job_ends = JobEnds()
        self._forget_us = 0
        self._failures_seen = 0

    def _connect(self, driver: BatchDriver, cloud: CloudDriver | None, *, threaded: bool) -> None:
        """The parts that give the batch system commands and read what it and the cloud have."""
        ledger, settings = self.ledger, self.settings
        self._claims = Claims(
            driver, ledger_id=lambda: ledger.ledger_id, check_writer=ledger.check_writer, home=ledger.home
        )
        self._commander = Commander(
            driver,
            self.clock,
            settings.commands,
            report=self._on_outcome,
            observer=self.metrics,
            check_writer=self._check_writer,
            is_batchs=self._is_batchs,
            is_kept_off=self._is_kept_off,
            signature=lambda: str(ledger.stamp()),
            claims=self._claims,
            threaded=threaded,
        )
        self._waker = Waker(
            self._writer,
            self._commander,
            readings=lambda: self._reconciler.readings,
            may_move=self._may_nodes_move,
        )
        self._reconciler = Reconciler(
            self._writer,
            self._commander,
            claims=self._claims,
            cloud=cloud,
            clock=self.clock,
            metrics=self.metrics,
            carry_out=self._carry_out,
            on_read=self._waker.look,
            refresh_age_s=settings.refresh_age_s,
            threaded=threaded,
            quarantine_us=micros(settings.quarantine_s),
            failed_after_us=micros_or_none(settings.failed_after_s),
        )
        self._reader = self._reconciler.reader
        self.batch, self.cloud = self._reconciler.batch, self._reconciler.cloud
        """When they answered last; `cloud` None: there is none."""

    # Life

    def start(self) -> None:
        """Take up what a former process left open, compare with the batch system, start the timers."""
        if self._bounded is not None:
            self._bounded.start()
        with self.clock.paused():
            instructions = self._writer.start()
            self._commander.begin()
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
                for record in self.published.open_requests()
                # Nobody has called for a replacement: its owner finds it when the request or the log is read.
                if record.status is RequestStatus.WAITING and not record.replaces
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
        with self.clock.paused():
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
        if wall_us() >= self.ledger.lease.due_us:
            self.ledger.lease.keep()
        if self.clock.now_us() >= self._timers.due_us:
            self._timers.fire()
        if wall_us() >= self._writer.due_us:
            self._writer.probe()
        for worker in (self._commander, self._reader, self._callers):
            if wall_us() >= worker.due_us:
                worker.step()

    def due_in_us(self) -> int:
        """How long there is nothing to do for `step`, if nobody calls meanwhile."""
        to_timer_us = self._timers.due_us - self.clock.now_us()
        parts = self._commander, self._writer, self._reader, self._callers
        due_us = min(self.ledger.lease.due_us, *(part.due_us for part in parts))
        return max(0, min(to_timer_us, due_us - wall_us()))

    @property
    def is_leader(self) -> bool:
        """Whether this service holds the ledger: its epoch is the newest, as far as it knows."""
        return self.ledger.lease.epoch is not None and not self.ledger.lease.is_lost

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
        if self._commander.calls.refused is not None:
            return f"the batch system refuses commands: {self._commander.calls.refused}"
        return self._silence() or self.claimed or None

    def _silence(self) -> str | None:
        """The batch system has not answered for too long."""
        contact, period_us = self.batch, micros(self.settings.reconcile_period_s)
        why = "" if contact.error is None else f": {contact.error}"
        age_us = contact.age_us(self.clock.now_us())
        if age_us is None:
            return f"the batch system has not answered yet{why}"
        is_unreachable = contact.error is not None and age_us > micros(self.settings.unreachable_s)
        if is_unreachable or (period_us and age_us > 3 * period_us):
            return f"the batch system has not answered for {seconds(age_us):.0f} s{why}"
        return None

    def unannounced(self) -> tuple[str, ...]:
        """Nodes on which a job began that no hook has told of."""
        return self._reconciler.unannounced.nodes(self.clock.now_us())

    @property
    def claimed(self) -> str:
        """Why this service moves no node: another Balancer has them; "": none that we know of."""
        return self._claims.why or self._reconciler.marked

    def adopt(self) -> str:
        """An operator says that no other Balancer runs on these nodes. Returns why it still moves none; "": it does.

        Waits for the batch system. Nodes quarantined for another's marks stay so until somebody says whose they are.
        """
        self._claims.adopt()
        self._reconciler.adopted()
        self.reconcile()
        return self.claimed

    @property
    def is_read_only(self) -> bool:
        return self._writer.read_only is not None

    @property
    def frozen(self) -> FreezeOrder | None:
        """Who ordered that no node moves; None: nodes may move."""
        return None if self._freeze is None else self._freeze.order()

    def _may_nodes_move(self) -> bool:
        """Nobody ordered a pause, and no other Balancer has them."""
        return not self.claimed and self.frozen is None

    # Reading

    def nodes(self) -> list[NodeRecord]:
        """All nodes as committed, by name."""
        return self.published.nodes()

    def node(self, name: str) -> NodeRecord | None:
        """One node as committed."""
        return self.published.node(name)

    def reading(self, node: str) -> NodeStatus | None:
        """What the batch system said of the node when it was asked last."""
        return self._reconciler.readings.get(node)

    def quarantined(self) -> dict[str, str]:
        """Nodes that are nobody's because the ledger may be wrong about them -> why."""
        return {record.name: record.doubt for record in self.nodes() if record.state is NodeState.QUARANTINED}

    def failed(self) -> dict[str, NodeRecord]:
        """Granted nodes that have failed and were not replaced."""
        return {record.name: record for record in self.nodes() if record.down_since_us is not None}

    def down_of(self, record: RequestRecord) -> dict[str, int]:
        """Which of the nodes that a grant still has are down -> since when."""
        found = (self.node(name) for name in record.nodes)
        return {
            node.name: node.down_since_us
            for node in found
            if node is not None and node.reserved_for == record.request_id and node.down_since_us is not None
        }

    def asleep(self) -> int:
        """How many nodes are DOWN because power saving has switched them off."""
        readings = self._reconciler.readings
        down = (record.name for record in self.nodes() if record.state is NodeState.DOWN)
        return sum(readings[name].is_asleep for name in down if name in readings)

    @property
    def taken_offline_by_others(self) -> tuple[str, ...]:
        """Batch nodes that carry an offline mark which is not ours."""
        return self._reconciler.by_hand

    # What comes from the batch system

    def reconcile(self) -> bool:
        """Compare the ledger with batch system and cloud, and set right what can be; False: no answer.

        Waits for both; a call that answers somebody must not.
        """
        with self.clock.paused():
            return self._reconciler.reconcile()

    def _on_outcome(self, event: Event) -> None:
        try:
            self._write(lambda at_us, _: replace(event, at_us=at_us))
        except StoppingError:
            _log.info("an outcome came too late to be recorded; the next start reads it again")

    # Effects

    def _check_writer(self) -> None:
        """Before a command. Raises LedgerError."""
        self._writer.refuse_if_unproven()
        self._claims.refuse_if_anothers()
        self.ledger.check_writer()

    def _is_batchs(self, node: str) -> bool:
        """Whether its mark may come off: not while it is lent, or quarantined."""
        record = self.published.node(node)
        return record is None or record.state not in _MARKED

    def _is_kept_off(self, node: str) -> bool:
        """Whether batch may not use it, or is about to be told so: a mark that was ordered for it may be set."""
        record = self.published.node(node)
        return record is not None and (record.state in _MARKED or record.state is NodeState.RECLAIMING)

    def _set_wake(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, WakeAt):
                self._timers.wake_at(instruction.at_us)

    def _on_wake(self, now_us: int) -> None:  # noqa: ARG002 - the writer stamps its events
        trouble = self._commander.last_error or self.batch.error or ""
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
