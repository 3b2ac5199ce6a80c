"""The one writer: events go in one at a time, become durable, and only then have effects and answers.

    decide   (lock)  life cycle: event -> changed records, instructions; numbered in this order
    commit   (lock)  whoever comes first stores everything decided so far in one transaction (group commit)
    publish          readers see it, waiting calls are answered

A commit that fails undoes what was decided with it: the state is read from the ledger again, and everybody
who waited for it gets the error. Nothing was answered, so nothing is lost. The writer is read-only from then on
and tries by itself whether writing works again (a full disk has room again, a database server is back).
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US, Clock, micros, seconds, wall_us
from balancer.ledger.errors import (
    EndingError,
    FencedError,
    LedgerError,
    ReadOnlyError,
    ReplacedError,
    StaleError,
    UnprovenError,
)
from balancer.ledger.log import Outage, log_failure
from balancer.ledger.store import Entry, Ledger, StoredEvent
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.lifecycle.events import Event, Instruction, NodesDoubted, PlanRefused, WakeAt
from balancer.lifecycle.records import Changes, NodeRecord
from balancer.service.decision import KIND, Decision, Key, Moves, answered_of, encode, event_body, kept_answer
from balancer.service.ledger_conflict import LENT, unknown_stamps
from balancer.service.read_model import ReadModel
from balancer.service.waiters import Waiters
from balancer.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from balancer.drivers.marks import Stamp
    from balancer.lifecycle.requests import Wish
    from balancer.policy_settings import Settings
    from balancer.service.metrics import Metrics
    from balancer.service.reconfigure import Configured

_log = structlog.get_logger()

_PREDECESSOR_S = 20.0
"""How long a start waits for another one's lease to run out: longer than a lease."""

_FINAL = (FencedError, ReplacedError)
"""After these nothing is written before a restart."""

_FIRST_PROBE_S, _PROBE_S = 0.05, 2.0
"""Read-only: the pauses before the first try to write and, doubled each time, at most."""


class StoppingError(EndingError):
    """The service ends; `request_id` goes on waiting in the ledger and can be asked for after a restart."""

    def __init__(self, request_id: str | None = None) -> None:
        self.request_id = request_id
        super().__init__("the Balancer is stopping")


class Writer:
    """The life cycle and its ledger. `on_decided` is called under the lock, in the order of the decisions."""

    def __init__(
        self,
        configured: Configured,
        *,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        on_decided: Callable[[Sequence[Instruction]], None],
        threaded: bool = True,
    ) -> None:
        self.published = ReadModel()
        self.waiters = Waiters(clock)
        self.is_broken = False
        self.failures = 0
        """How often decisions were undone. Only the ledger knows whether they were stored after all."""
        self.is_stopping = False
        self.failed_plan: str | None = None
        """The last plan that the algorithm could not make, or that made no sense."""
        self.read_only: LedgerError | None = None
        """Why nothing can be written at the moment."""
        self.unproven = ""
        """Why nothing may be decided before marks and ledger have been compared; "": they have, or need not be."""
        self._configured = configured
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._on_decided = on_decided
        self._deciding = threading.RLock()
        self._committing = threading.Lock()  # taken before `_deciding`, never after
        self._queue: list[Decision] = []
        self._ended = threading.Event()
        self._threaded = threaded
        self.due_us = NEVER_US
        """When `probe` has something to do, by `wall_us`. For who drives it without threads."""
        self._pause_s = _FIRST_PROBE_S
        self._outage = Outage(_log)
        # By which decision each node was changed last; never forgotten, so that no older reading counts after `_load`.
        self._changed_at: dict[str, int] = {}
        self._load()
        clock.not_before(self._lifecycle.now_us)
        self._publish_all()

    # Writing

    def start(self) -> list[Instruction]:
        """Log the start (which stores the nodes of a new ledger); what a former process left under way."""
        epoch = self._ledger.take_epoch(_PREDECESSOR_S)
        known = self._load()  # again: until now another one may have written
        name = self._configured.algorithm_name
        body = json.dumps({"version": VERSION, "epoch": epoch, "algorithm": name})
        entries = [self._own_entry("started", body, known)]
        doubt = self._ledger.doubt()
        if doubt:
            _log.error("the ledger may not know the newest state: lent nodes are quarantined", why=doubt)
            entries += self._quarantine_lent(f"the ledger may be old: {doubt}")
        if doubt or (known and not self._ledger.has_head_file):
            self.unproven = doubt or "nothing beside it says how far it went"
        self._ledger.commit(entries)
        self._publish_all()
        instructions = self._lifecycle.resume()
        self._on_decided(instructions)
        return instructions

    def _quarantine_lent(self, reason: str) -> list[Entry]:
        """For the first commit: whoever starts after a crash could not know the reason any more."""
        lent = [record.name for record in self._decided_nodes.values() if record.state in LENT]
        if not lent:
            return []
        event = NodesDoubted(
            at_us=self._clock.now_us(), event_id=f"e{self._seq + 1}", reasons=dict.fromkeys(lent, reason)
        )
        self._lifecycle.handle(event)
        return [self._entry(event, ())[0]]

    def _own_entry(self, kind: str, body: str, known: Collection[str]) -> Entry:
        """Something that happened to the service itself; with the nodes that the ledger does not know."""
        self._seq += 1
        snapshot = self._lifecycle.snapshot()
        event = StoredEvent(self._seq, self._clock.now_us(), f"e{self._seq}", kind, body)
        new = tuple(record for record in snapshot.nodes if record.name not in known)
        return Entry(event, Changes(nodes=new, now_us=snapshot.now_us, serial=snapshot.serial))

    def apply(
        self,
        make: Callable[[int, int], Event | None],
        *,
        key: Key | None = None,
        answer: Callable[[Changes], str] | None = None,
        is_proof: bool = False,
    ) -> Decision | None:
        """`make(now_us, number)` gives the event (None: nothing to do); it is durable when this returns.

        `is_proof`: it quarantines nodes: before all else. With a key `answer`, else the request made, is stored too.
        """
        self._refuse_if_read_only()
        if self.is_broken:
            with self._committing, self._deciding:
                # Unless somebody has read it meanwhile: what was decided since would be lost.
                if self.is_broken:
                    self._load()
        with self._deciding:
            if self.is_stopping:
                raise StoppingError
            self._refuse_if_read_only()
            if not is_proof:
                self.refuse_if_unproven()
            if self.is_broken:
                raise LedgerError("the state is being read from the ledger again")
            event = make(self._clock.now_us(), self._seq + 1)
            if event is None:
                return None
            decided = self._decide(event, key, answer)
        self._commit(decided)
        return decided

    def stop(self) -> None:
        """No further decisions; whoever waits is told."""
        with self._deciding:
            self.is_stopping = True
        self._ended.set()
        self.waiters.wake_all()
        self.published.end()
        with self._committing:
            pass  # the last commit has ended

    def forget(self, *, answers_before_us: int, events_before_us: int) -> None:
        """Drop what is old, a piece at a time, so that nobody waits long."""
        more = self.read_only is None
        while more and not self.is_stopping:
            with self._committing:
                more = self._ledger.forget(
                    answers_before_us=answers_before_us, events_before_us=events_before_us
                )

    def _decide(self, event: Event, key: Key | None, answer: Callable[[Changes], str] | None) -> Decision:
        if not event.event_id:
            event = replace(event, event_id=f"e{self._seq + 1}")
        try:
            instructions = self._lifecycle.handle(event)
        except Refused:
            raise
        except BadPlan as error:
            self._plan_failed(event, error.algorithm, error.detail)
            raise
        except Exception as error:
            # A bug of ours: the state may be half changed, the ledger's is whole.
            _log.exception("the life cycle failed; the state is read from the ledger again")
            self._fail(error)
            raise
        for instruction in instructions:
            if isinstance(instruction, PlanRefused):
                self._plan_failed(event, instruction.algorithm, instruction.detail)
        entry, moves = self._entry(event, instructions)
        if key is not None:
            entry = replace(entry, answer=kept_answer(key, entry.changes, answer))
        decided = Decision(entry, instructions, moves)
        self._queue.append(decided)
        self._on_decided(instructions)
        return decided

    def _entry(self, event: Event, instructions: Sequence[Instruction]) -> tuple[Entry, Moves]:
        """What the life cycle has made of the event, under the next number."""
        changes = self._lifecycle.drain_changes()
        self._seq += 1
        moves = self._note(changes)
        body = event_body(event, moves, changes, answered_of(changes, instructions))
        stored = StoredEvent(self._seq, event.at_us, event.event_id, KIND[type(event)], body)
        return Entry(stored, changes), moves

    def _plan_failed(self, event: Event, algorithm: str, detail: str) -> None:
        """The algorithm is a plug-in: it may fail at one event and be well at the next."""
        kind = KIND[type(event)]
        self.failed_plan = f"algorithm {algorithm} failed in {kind} at {seconds(event.at_us):.6f} s: {detail}"
        self._metrics.plan_failed()
        _log.error("plan refused", algorithm=algorithm, event_kind=kind, detail=detail)

    def _note(self, changes: Changes) -> Moves:
        moves = []
        for record in changes.nodes:
            before = self._decided_nodes[record.name]
            self._decided_nodes[record.name] = record
            self._changed_at[record.name] = self._seq
            if record.state is not before.state:
                moves.append((before, record))
        return moves

    def _commit(self, decided: Decision) -> None:
        with self._committing:
            if not decided.stored and decided.error is None:
                self._store()
        if decided.error is not None:
            kind = type(decided.error) if isinstance(decided.error, LedgerError) else LedgerError
            if type(decided.error) is LedgerError:
                kind = ReadOnlyError  # as every call from now on gets it
            raise kind(f"nothing is stored: {decided.error}") from decided.error

    def _store(self) -> None:
        """Everything that was decided so far, in one transaction."""
        with self._deciding:
            batch, self._queue = self._queue, []
        start_us = wall_us()
        try:
            self._ledger.commit([each.entry for each in batch])
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing is stored
            with self._deciding:
                self._queue = batch + self._queue
                self._fail(error)
                self._load_if_possible()
                self._turn_read_only(error)
        else:
            self._metrics.committed(seconds(wall_us() - start_us))
            self._publish(batch)

    # While it runs

    def reconfigure(self, nodes: tuple[str, ...], settings: Settings) -> None:
        """Go on with these nodes and settings. Raises LedgerError or ValueError: all is as it was."""
        before = self._configured
        with self._committing, self._deciding:
            if self.is_stopping:
                raise StoppingError
            if self._queue:
                self._store()
            self._refuse_if_read_only()
            self._configured = replace(before, nodes=nodes, settings=settings)
            try:
                known = self._load()
                self._commit_configured(known, set(before.nodes))
            except Exception:
                self._configured, self.is_broken = before, True
                self._load_if_possible()
                raise
            self._publish_all()
            # What is under way is in the hands of the commander; the wake time was the old life cycle's.
            self._on_decided(self._lifecycle.resume()[-1:])

    def _commit_configured(self, known: Collection[str], before: set[str]) -> None:
        now = set(self._configured.nodes)
        body = encode({"added": sorted(now - before), "removed": sorted(before - now)})
        self._ledger.commit([self._own_entry("configured", body, known)])

    # Read-only

    def problem(self) -> str | None:
        """Why nothing is written; None when all is well."""
        if self.is_stopping:
            return "it is stopping"
        if self._ledger.lease.is_lost:
            return "another Balancer has taken over the ledger: restart this one to make it stand by"
        if self.read_only is not None:
            return f"read-only: {self.read_only}"
        if self.is_broken:
            return "the ledger cannot be read or written"
        if self.unproven:
            return f"the ledger has not been compared with the marks on the nodes yet: {self.unproven}"
        return self._replaced()

    def _replaced(self) -> str | None:
        """Whether the file was taken away since the last commit: from then on nothing is written."""
        try:
            self._ledger.check_file()
        except ReplacedError as error:
            with self._deciding:
                self._turn_read_only(error)
            return f"read-only: {error}"
        return None

    def refuse_if_unproven(self) -> None:
        """Also for commands. Raises UnprovenError."""
        if self.unproven:
            raise UnprovenError(
                f"the ledger has not been compared with the marks on the nodes yet: {self.unproven}"
            )

    def proven(self) -> None:
        """Marks and ledger have been compared, and nodes in doubt are quarantined."""
        self.unproven = ""

    @property
    def ledger_id(self) -> str:
        return self._ledger.ledger_id

    def unknown_stamps(self, stamps: Collection[Stamp]) -> dict[Stamp, str]:
        """Of these, the ones that this ledger did not give -> why. Raises LedgerError."""
        if not stamps:
            return {}
        digests = self._ledger.digests(stamp.seq for stamp in stamps)
        newest = self._ledger.writer()
        return unknown_stamps(stamps, newest.ledger_id, newest.seq, digests)

    def _refuse_if_read_only(self) -> None:
        if isinstance(self.read_only, _FINAL):
            raise self.read_only
        if self.read_only is not None:
            raise ReadOnlyError(f"nothing can be stored at the moment: {self.read_only}")

    def _turn_read_only(self, error: Exception) -> None:
        """Until writing works again. What is only stale has been read again; a bug of ours is no full disk."""
        if isinstance(error, StaleError) or not isinstance(error, LedgerError):
            log_failure(_log, "the ledger could not be written; the state is read from it again", error)
            return
        if self.read_only is not None:
            return
        self.read_only = error
        if isinstance(error, _FINAL):
            _log.error("nothing is written any more: restart this service", error=str(error))
        else:
            self._outage.lasts("nothing can be stored until the ledger can be written again", error)
            self._pause_s = _FIRST_PROBE_S
            self.due_us = wall_us() + micros(self._pause_s)
            if self._threaded:
                threading.Thread(target=self._recover, name="recovery", daemon=True).start()

    def _recover(self) -> None:
        while not self._ended.wait(self._pause_s) and not self.probe():
            pass

    def probe(self) -> bool:
        """Try whether writing works again; False: try again later."""
        try:
            with self._committing:
                self._ledger.probe()
                with self._clock.paused(), self._deciding:
                    if self.is_broken:
                        self._load()
                    self.read_only = None
        except _FINAL as error:
            self.read_only = error
        except LedgerError as error:
            self._outage.lasts("the ledger can still not be written; it is tried again and again", error)
            self._pause_s = min(2 * self._pause_s, _PROBE_S)
            self.due_us = wall_us() + micros(self._pause_s)
            return False
        else:
            self._outage.over("the ledger can be written again")
            # Decisions that failed may be stored after all; whoever wakes looks after their commands.
            self._on_decided((WakeAt(at_us=self._clock.now_us()),))
        self.due_us = NEVER_US
        return True

    def _fail(self, error: Exception) -> None:
        """What was decided and not stored has not happened; no decision until the state is whole."""
        for each in self._queue:
            each.error = error
        self._queue = []
        self.failures += 1
        self.is_broken = True

    def _load_if_possible(self) -> None:
        try:
            self._load()
        except LedgerError as error:
            log_failure(_log, "the ledger cannot be read either; the next call tries again", error)

    # State from the ledger

    def _load(self) -> Collection[str]:
        """The state as the ledger has it; nodes that are new in the configuration are DOWN until seen.

        Returns the names of the nodes that the ledger knows.
        """
        stored = self._ledger.load()
        snapshot, self._lifecycle = self._configured.restored(stored)
        self._seq = self._ledger.last_seq()
        self._decided_nodes = {record.name: record for record in snapshot.nodes}
        self._open_requests = {record.request_id: record for record in snapshot.requests}
        if self.is_broken:
            # A commit that failed may have been stored after all: what is shown is what was read.
            self._publish_all()
            # What is under way is still in the hands of the commander: only the wake time is lost.
            self._on_decided(self._lifecycle.resume()[-1:])
        self.is_broken = False
        return {record.name for record in stored.nodes} if stored is not None else ()

    # What is shown, and what `make` may ask

    def _publish_all(self) -> None:
        self.published.replace(self._decided_nodes.values(), self._open_requests.values(), self._seq)

    def _publish(self, batch: Sequence[Decision]) -> None:
        self.published.add([each.changes for each in batch], batch[-1].seq)
        for each in batch:
            each.stored = True
            for request in each.answered:
                self._metrics.request_answered(request.status.value)
                self.waiters.decided(request)
            self._metrics.nodes_moved(each.moves)

    def wants_look(self) -> bool:
        """Whether somebody waits for a look at all nodes. For the function that is given to `apply`."""
        return self._lifecycle.wants_look

    def wishes(self) -> tuple[Wish, ...]:
        with self._deciding:
            return self._lifecycle.wishes()

    def cares_for(self, servers: Iterable[str], empty: Iterable[str]) -> bool:
        """As `Lifecycle.cares_for`. For the function that is given to `apply`."""
        return self._lifecycle.cares_for(servers, empty)

    def decided_nodes(self) -> tuple[int, Collection[NodeRecord], dict[str, int]]:
        """Number of the last decision, all records after it, and by which decision each was changed last.

        For the function that is given to `apply`: valid while that runs.
        """
        with self._deciding:
            return self._seq, self._decided_nodes.values(), self._changed_at

    def decided_node(self, name: str) -> NodeRecord | None:
        """One node after the last decision. For the function that is given to `apply`."""
        return self._decided_nodes.get(name)

    def pending(self) -> tuple[int, int]:
        """Waiting requests and active reserves, after the last decision."""
        return self._lifecycle.pending
