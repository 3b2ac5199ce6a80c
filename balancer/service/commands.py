"""Carries out what the life cycle asks of the batch system, one command at a time, and reports the outcome.

One thread does all the talking, so that commands keep their order and a reading of the states never mixes
with a command that changes them. An exit status is a hint; the state that is read back is the outcome:

    reclaim   done when two looks, at least a poll apart and both begun after the command, find the node offline
              *without* jobs (an epilogue's job is gone a moment later; an answer may be late or wrong once);
              a node that keeps its job is put back first and then reported busy
    restore   done when the node reads idle or busy; looked at before the command, too: a node that somebody
              else holds offline gets none and is reported down
    neither within the limit: reported unclear, and tried again every poll from then on; a node that is down
              instead of offline is reported down

What each look means is a table of its own (`confirmation.py`); here are the thread, the driver and the reports.

With `threaded=False` nothing runs by itself: whoever drives it (the simulation) calls `step` when it is due.

A paced clock stands still while there is anything to do here. Limits and polls are in wall time therefore.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US, Clock, micros, seconds, wall_us
from balancer.drivers.base import UNKNOWN, DriverError, NodeStatus, UnclearError
from balancer.ledger.log import log_failure
from balancer.lifecycle.events import (
    Event,
    Instruction,
    NodesObserved,
    NodesReclaimed,
    NodesRestored,
    Reclaim,
    Restore,
)
from balancer.service.confirmation import Aim, NodeCommand, Outcome, is_to_be_repeated
from balancer.service.driver_calls import DriverCalls
from balancer.service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from balancer.drivers.base import BatchDriver
    from balancer.service.claims import Claims
    from balancer.service.metrics import Metrics

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """Wall times. `confirm_limit_s`: how long a node may take to read as it should.

    `confirm_poll_s`: between looks; a node is handed over only after two that agree, this far apart.
    """

    confirm_poll_s: float = 1.0
    confirm_limit_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Instruction):
    """Set the offline mark of lent nodes again; nothing else is meant by it."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmark(Instruction):
    """Take a mark of ours off nodes that are the batch system's; nothing else is meant by it."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake(Instruction):
    """Have nodes switched on that power saving has switched off; nothing else is meant by it."""

    nodes: tuple[str, ...]


Order = Reclaim | Restore | Mark | Unmark | Wake


@dataclass(frozen=True, slots=True)
class Reading:
    """What the batch system reported of all nodes at `at_us` (when it was asked)."""

    at_us: int
    states: Mapping[str, NodeStatus]


@dataclass(slots=True)
class _Ticket:
    """A batch of instructions on its way; `issued` is set once their commands have run."""

    instructions: Sequence[Order]
    issued: threading.Event = field(default_factory=threading.Event)


class Commander(Worker):
    """Owns the driver. `report` takes the outcomes; when it raises, the outcome is told again.

    `check_writer` raises LedgerError when this process may not command (any more): a reading is all it does then.
    `is_batchs` says whether a mark of ours may come off a node now, `is_kept_off` whether one may be set there that was
    only renewed or found missing: an order may be overtaken by a later decision.
    `signature` goes into the note of every mark. `claims`: looked after by this thread before each round.
    """

    def __init__(
        self,
        driver: BatchDriver,
        clock: Clock,
        settings: CommandSettings,
        *,
        report: Callable[[Event], None],
        observer: Metrics,
        check_writer: Callable[[], None] = lambda: None,
        is_batchs: Callable[[str], bool] = lambda _: True,
        is_kept_off: Callable[[str], bool] = lambda _: True,
        signature: Callable[[], str] = lambda: "",
        claims: Claims | None = None,
        threaded: bool = True,
    ) -> None:
        super().__init__("commands", threaded=threaded)
        self._claims = claims
        self.calls = DriverCalls(driver, observer=observer, check_writer=check_writer, signature=signature)
        self._clock = clock
        self._settings = settings
        self._report = report
        self._is_batchs, self._is_kept_off = is_batchs, is_kept_off
        self._tickets: list[_Ticket] = []
        self._issuing: list[Order] = []
        self._readers: list[Future[Reading]] = []
        self._open: dict[str, NodeCommand] = {}
        self._telling = 0
        self._hold: ExitStack | None = None
        self._looked_us = 0

    def submit(self, instructions: Sequence[Order]) -> threading.Event:
        """Have these carried out; the event is set when their commands have been issued."""
        ticket = _Ticket(instructions)
        with self._changed:
            if self._stopped:
                ticket.issued.set()
            else:
                self._tickets.append(ticket)
                self._wake()
        return ticket.issued

    def wait_until_issued(self, issued: threading.Event, limit_s: float) -> None:
        """At most so long; not at all while the batch system gives trouble."""
        if not self._threaded:
            self.step()
        issued.wait(0 if self.calls.last_read_error else limit_s)

    @property
    def last_error(self) -> str:
        """What the latest command, or the latest look, failed with; "": they did not."""
        return self.calls.last_command_error or self.calls.last_read_error

    @property
    def _poll_us(self) -> int:
        return micros(self.calls.poll_s(self._settings.confirm_poll_s))

    def read(self) -> Reading:
        """All states, read after this call began. Raises DriverError."""
        reader: Future[Reading] = Future()
        with self._changed:
            if self._stopped:
                raise UnclearError("the Balancer is stopping")
            self._readers.append(reader)
            self._wake()
        if not self._threaded:
            self.step()
        return reader.result()

    def give_up_late(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Of these, the nodes whose reclaim has had no outcome within the limit: it is not tried any longer."""
        with self._changed:
            late = tuple(
                node
                for node in nodes
                if (work := self._open.get(node)) is not None and work.is_late and work.aim is Aim.RECLAIM
            )
            for node in late:
                del self._open[node]
        return late

    def open_nodes(self) -> set[str]:
        """Nodes with a command that waits or has no outcome yet."""
        with self._changed:
            return {*self._open, *self._ordered()}

    @property
    def due_us(self) -> int:
        with self._changed:
            if self._tickets or self._readers:
                return 0
            claim_us = NEVER_US if self._claims is None else self._claims.due_us
            return min(claim_us, self._looked_us + self._poll_us if self._open else NEVER_US)

    @property
    def pending(self) -> int:
        """How many nodes wait for an outcome or a command."""
        with self._changed:
            return len(self._open) + self._telling + len(self._ordered())

    def _ordered(self) -> list[str]:
        """Nodes of orders that wait, and of marks that are being set: those are not open."""
        marks = (each for each in self._issuing if isinstance(each, (Mark, Unmark)))
        waiting = (each for ticket in self._tickets for each in ticket.instructions)
        moves = (each for each in (*waiting, *marks) if not isinstance(each, Wake))
        return [node for order in moves for node in order.nodes]

    def _has_fresh(self) -> bool:
        return any(not work.is_late for work in self._open.values())

    def _wake(self) -> None:
        if self._hold is None:
            self._hold = ExitStack()
            self._hold.enter_context(self._clock.paused())
        self._changed.notify_all()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            # However this thread ends: nobody waits for it any longer.
            with self._changed:
                self._stopped = True
                tickets, self._tickets = self._tickets, []
                readers, self._readers = self._readers, []
            for ticket in tickets:
                ticket.issued.set()
            for reader in readers:
                reader.set_exception(UnclearError("the Balancer is stopping"))
            if self._hold is not None:
                self._hold.close()

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._hold is not None and not (self._tickets or self._readers or self._has_fresh()):
                    self._hold.close()
                    self._hold = None
                self._changed.wait_for(
                    lambda: self._stopped or self._tickets or self._readers, self._pause_s()
                )
                if self._stopped:
                    break
            self.step()

    def _pause_s(self) -> float | None:
        """How long there is nothing to do, if nobody calls meanwhile."""
        claim_s = None
        if self._claims is not None and self._claims.due_us < NEVER_US:
            claim_s = max(0.0, seconds(self._claims.due_us - wall_us()))
        poll_s = seconds(self._poll_us) if self._open else None
        return min((each for each in (claim_s, poll_s) if each is not None), default=None)

    def step(self) -> None:
        """One round: the claim, the commands that wait, a look at the nodes that are open, the readings asked for."""
        if self._claims is not None and wall_us() >= self._claims.due_us:
            self._claims.look()
        with self._changed:
            tickets, self._tickets = self._tickets, []
            orders = self._issuing = [each for ticket in tickets for each in ticket.instructions]
            self._open_all(orders)
        try:
            self._issue(orders)
        finally:
            for ticket in tickets:
                ticket.issued.set()
            with self._changed:
                self._issuing = []
        if self._open:
            self._looked_us = wall_us()
            self._confirm()
        with self._changed:
            readers, self._readers = self._readers, []
        if readers:
            self._read_all(readers)
            self.calls.tidy()

    def _open_all(self, orders: Iterable[Order]) -> None:
        limit_us = wall_us() + micros(self._settings.confirm_limit_s)
        for order in orders:
            if isinstance(order, (Reclaim, Restore)):
                aim = Aim.RECLAIM if isinstance(order, Reclaim) else Aim.RESTORE
                work = NodeCommand(aim=aim, limit_us=limit_us, event_id=order.event_id)
                self._open |= dict.fromkeys(order.nodes, work)

    def _issue(self, orders: Sequence[Order]) -> None:
        """All restores in one command, all reclaims in another; of two orders for a node the later counts."""
        last = {node: each for each in orders if not isinstance(each, Wake) for node in each.nodes}
        restores = [node for node, each in last.items() if isinstance(each, (Restore, Unmark))]
        marks = {node for node, each in last.items() if isinstance(each, Mark) and self._is_kept_off(node)}
        reclaims = [node for node, each in last.items() if isinstance(each, Reclaim) or node in marks]
        if restores:
            self._restore(self._not_held_by_others(restores))
        self.calls.reclaim(reclaims)
        for each in orders:
            if isinstance(each, Wake):
                self.calls.wake(each.nodes)

    def _restore(self, nodes: Sequence[str]) -> None:
        batch_nodes = [node for node in nodes if self._is_batchs(node)]
        with self._changed:
            for node in {*nodes} - {*batch_nodes}:
                self._open.pop(node, None)
        self.calls.restore(batch_nodes)

    def _not_held_by_others(self, nodes: Sequence[str]) -> list[str]:
        """Without the nodes on which a person has put a mark of their own meanwhile.

        One that cannot be read may be such a node: its mark is taken off when it has been read (`_confirm`).
        """
        states = self.calls.look(nodes)
        read = {node: states.get(node, UNKNOWN) for node in nodes}
        return [node for node, status in read.items() if status.state != "unknown" and not status.is_foreign]

    def _confirm(self) -> None:
        """Read the nodes that are open; report those whose outcome is clear, repeat what had no effect."""
        nodes = list(self._open)
        at_us = self._clock.now_us()
        states = self.calls.look(nodes)
        now_us = wall_us()
        outcomes: dict[Outcome, dict[str, NodeCommand]] = {}
        again: dict[bool, list[str]] = {True: [], False: []}
        with self._changed:
            for node in nodes:
                work, status = self._open.get(node), states.get(node, UNKNOWN)
                if work is None:
                    continue  # it was given up while we looked
                after, outcome = work.after(
                    status,
                    looked_us=self._looked_us,
                    now_us=now_us,
                    poll_us=micros(self._settings.confirm_poll_s),
                    limit_us=micros(self._settings.confirm_limit_s),
                )
                self._open[node] = after
                if outcome is not None:
                    outcomes.setdefault(outcome, {})[node] = work
                if (outcome is None or outcome.is_unclear) and is_to_be_repeated(after.aim, status):
                    again[after.aim.wants_mark].append(node)
        for outcome, works in outcomes.items():
            self._tell(outcome, works, at_us)
        self.calls.reclaim(again[True])
        self._restore(again[False])

    def _tell(self, outcome: Outcome, works: Mapping[str, NodeCommand], at_us: int) -> None:
        # Off the list first: the answer to the outcome may be a new command for the same node.
        with self._changed:
            # Without what was given up since the look.
            open_works = {node: work for node, work in works.items() if node in self._open}
            self._telling = len(open_works)
            if not outcome.is_unclear:
                for node in open_works:
                    del self._open[node]
        if not open_works:
            return
        try:
            self._report(_event(outcome, open_works, at_us))
        except Exception as error:  # noqa: BLE001 - whatever it was, the node is still ours to look after
            what = "an outcome could not be recorded; it will be read and told again"
            log_failure(_log, what, error, nodes=list(open_works))
            with self._changed:
                # As before the look, that it was unclear untold; what was given up meanwhile stays so.
                self._open |= {
                    node: work
                    for node, work in open_works.items()
                    if not outcome.is_unclear or node in self._open
                }
        finally:
            self._telling = 0

    def _read_all(self, readers: Sequence[Future[Reading]]) -> None:
        at_us = self._clock.now_us()
        states: dict[str, NodeStatus] = {}
        error: DriverError | None = UnclearError("the thread that gives commands has ended")
        try:
            states, error = self.calls.look_at_all()
        finally:
            for reader in readers:
                if error is None:
                    reader.set_result(Reading(at_us, states))
                else:
                    reader.set_exception(error)
        with self._changed:
            for node, work in self._open.items():
                # Any look counts against a hand-over, whoever asked for it.
                if not states.get(node, UNKNOWN).is_handed_over:
                    self._open[node] = work.contradicted()


def _event(outcome: Outcome, works: Mapping[str, NodeCommand], at_us: int) -> Event:
    nodes, cause = tuple(works), next(iter(works.values())).event_id
    match outcome:
        case Outcome.RECLAIMED:
            return NodesReclaimed(at_us=at_us, event_id=cause, done=nodes)
        case Outcome.KEPT_JOB:
            return NodesReclaimed(at_us=at_us, event_id=cause, busy=nodes)
        case Outcome.RECLAIM_UNCLEAR:
            return NodesReclaimed(at_us=at_us, event_id=cause, unclear=nodes)
        case Outcome.RESTORED:
            return NodesRestored(at_us=at_us, event_id=cause, done=nodes)
        case Outcome.RESTORE_UNCLEAR:
            return NodesRestored(at_us=at_us, event_id=cause, unclear=nodes)
        case Outcome.RESTORED_BUSY | Outcome.DOWN:
            state = "busy" if outcome is Outcome.RESTORED_BUSY else "down"
            return NodesObserved(at_us=at_us, event_id=cause, states=dict.fromkeys(nodes, (state, at_us)))
