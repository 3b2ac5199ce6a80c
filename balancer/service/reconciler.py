"""Reads batch system and cloud, and sets right what the ledger says otherwise (the table of reconcile_table.py)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from balancer.clock import Clock, micros, seconds
from balancer.drivers.base import DriverError, NodeStatus, RefusedError
from balancer.lifecycle.events import (
    NodesAdopted,
    NodesDoubted,
    NodesFailed,
    NodesObserved,
    NodesRecovered,
    Reclaim,
    Restore,
    ServersObserved,
)
from balancer.lifecycle.states import NodeState
from balancer.service.commands import Commander, Mark, Order, Reading, Unmark
from balancer.service.failure_detector import Failing
from balancer.service.ledger_conflict import another_claims, doubts, has_lent
from balancer.service.reader import Contact, Reader
from balancer.service.reconcile import Agreed, Difference, compare
from balancer.service.unannounced_jobs import UnannouncedJobs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from balancer.drivers.cloud import CloudDriver, CloudStatus
    from balancer.drivers.marks import Stamp
    from balancer.lifecycle.events import Event, Instruction
    from balancer.lifecycle.records import NodeRecord
    from balancer.service.claims import Claims
    from balancer.service.decision import Decision
    from balancer.service.metrics import Metrics
    from balancer.service.writer import Writer

_log = structlog.get_logger()

_LEAD = 3
"""So many times as long as the last one took a reading begins before it is needed; within limits."""


class Reconciler:
    """`carry_out` takes the instructions of what was observed. Methods may be called from any thread."""

    def __init__(
        self,
        writer: Writer,
        commander: Commander,
        *,
        claims: Claims,
        cloud: CloudDriver | None,
        clock: Clock,
        metrics: Metrics,
        carry_out: Callable[[Sequence[Instruction]], object],
        on_read: Callable[[], None],
        refresh_age_s: float,
        quarantine_us: int,
        failed_after_us: int | None,
        threaded: bool = True,
    ) -> None:
        self.readings: Mapping[str, NodeStatus] = {}
        """What the batch system said of each node when it was asked last."""
        self.batch = Contact(commander.calls.name)
        self.cloud = None if cloud is None else Contact(cloud.name)
        self.by_hand: tuple[str, ...] = ()
        """Batch nodes that carry an offline mark which is not ours."""
        self.marked = ""
        """Why no node is moved: marks of another ledger are there, and ours has lent nothing since the start."""
        self._claims = claims
        self._was_claimed = False
        self.last_jobs: dict[str, str] = {}
        """Node -> the job whose end was reported there last: it may still be listed for a moment."""
        self.unannounced = UnannouncedJobs()
        self._writer = writer
        self._commander = commander
        self._cloud = cloud
        self._clock = clock
        self._metrics = metrics
        self._carry_out = carry_out
        self._on_read = on_read
        self._quarantine_us = quarantine_us
        self._known_stamps: set[Stamp] = set()
        self._agreed: Agreed = {}
        self._failing = Failing(failed_after_us)
        self._is_compared = self._is_site_checked = self._has_lent = False
        self._reading = threading.Lock()
        self._refresh_age_us = micros(refresh_age_s)
        self._latest: tuple[Reading, int] | None = None
        """The latest reading that no event has told of yet, and the last event stored before it began."""
        self._took_us = 0
        """How long the last reading took."""
        self._is_ahead = False
        """Requests come in: the next reading is a new one and told, though nobody waits for it yet."""
        self.is_refused = False
        """The batch system said no to it: asking again will not help."""
        self.reader = Reader(self._attempt, clock, refresh_age_s, threaded=threaded)

    def reconcile(self) -> bool:
        """Compare the ledger with batch system and cloud, and set right what can be set right; False: no answer."""
        return self._attempt(with_cloud=True)

    def adopted(self) -> None:
        """An operator says that no other Balancer runs: marks of another ledger keep no other nodes from moving."""
        self._has_lent = True

    def look_ahead(self) -> None:
        """A request came: have a reading for the next ones before the last reading is too old for them.

        Otherwise all of them would wait for the batch system whenever one has become too old.
        """
        age_us, limit_us = self.batch.age_us(self._clock.now_us()), self._refresh_age_us
        lead_us = min(max(_LEAD * self._took_us, limit_us // 4), limit_us // 2)
        if age_us is not None and age_us > limit_us - lead_us and limit_us and self.reader.is_idle:
            self._is_ahead = True
            self.reader.ask()

    def _attempt(self, with_cloud: bool) -> bool:
        with self._reading:
            latest = self._latest
            is_young = latest is not None and self._clock.now_us() - latest[0].at_us < self._refresh_age_us
            if latest is not None and is_young and not (with_cloud or self._is_ahead):
                # For whoever asks the age of a reading counts, not who it was made for.
                self._use(*latest, cloud=None)
                return True
            return self._read(with_cloud=with_cloud)

    def _ask_cloud(self) -> Mapping[str, CloudStatus] | None:
        """None: there is no cloud, or it gave no answer. That it has no VM somewhere is then not known."""
        if self._cloud is None or self.cloud is None:
            return None
        begun_us = self._clock.now_us()
        try:
            found = self._cloud.get_status_of_hosts()
        except DriverError as error:
            _log.warning("the cloud cannot be read", cloud=self._cloud.name, error=str(error))
            self.cloud.error = str(error)
        except Exception as error:  # noqa: BLE001 - a plug-in: its bugs must not keep batch from being read
            _log.exception("the cloud driver failed", cloud=self._cloud.name)
            self.cloud.error = f"its driver failed: {error!r}"
        else:
            self.cloud.answered(begun_us)
            return found
        return None

    def _read(self, *, with_cloud: bool) -> bool:
        # Not the last decision: what is set right below has to be stored already.
        before = self._writer.published.seq
        asked_us = self._clock.now_us()
        cloud = self._ask_cloud() if with_cloud else None
        try:
            reading = self._commander.read()
        except DriverError as error:
            is_refused = isinstance(error, RefusedError)
            say = _log.error if is_refused else _log.warning
            say("the batch system cannot be read", error=str(error))
            self.batch.error = str(error)
            self.is_refused = is_refused
        else:
            self.batch.answered(reading.at_us)
            self._took_us = self._clock.now_us() - asked_us
            self.is_refused, self.readings = False, reading.states
            self.unannounced.seen(reading.states, reading.at_us)
            self._check_site()
            unknown = self._doubt(reading.states)
            self._use(reading, before, cloud=cloud, unknown=unknown if with_cloud else None)
            self._on_read()
            if cloud is not None or self._cloud is None:
                self._tell_failures(reading, cloud, before)
        if cloud is not None:
            self._tell_servers(cloud, asked_us, before)
        return self.batch.error is None

    def _check_site(self) -> None:
        """Once, when the batch system answers for the first time: one line for each thing that is not as it must be."""
        if self._is_site_checked:
            return
        self._is_site_checked = True
        try:
            checks = self._commander.calls.site_checks(
                [record.name for record in self._writer.published.nodes()]
            )
        except Exception as error:  # noqa: BLE001 - a plug-in: what it cannot tell does not keep us from reading
            _log.warning("it could not be checked how the batch system is set up", error=str(error))
            return
        for check in checks:
            if check.problem:
                _log.warning(f"{self._commander.calls.name}: not so: {check.what}", problem=check.problem)
            else:
                _log.info(f"{self._commander.calls.name}: {check.what}")

    def _use(
        self,
        reading: Reading,
        before: int,
        *,
        cloud: Mapping[str, CloudStatus] | None,
        unknown: Collection[Stamp] | None = None,
    ) -> None:
        """Have the ledger know what was read, and set right what can be.

        `unknown`: the marks that the ledger did not give; marks that are outdated are set again then.
        """
        unmarked = 0
        self._latest = None
        settled = Difference()

        def observed(at_us: int, _: int) -> Event | None:
            nonlocal unmarked, settled
            _, records, changed_at = self._writer.decided_nodes()
            difference = compare(
                records,
                reading.states,
                is_news=lambda node: changed_at.get(node, 0) <= before,
                last_jobs=self.last_jobs,
                in_hand=self._commander.open_nodes(),
                cloud=cloud,
                is_cloud_silent=self._cloud is not None and cloud is None,
                now_us=at_us,
                quarantine_us=self._quarantine_us,
                agreed=self._agreed,
            )
            settled = difference
            self.by_hand = difference.by_hand
            unmarked = len(difference.unmarked)
            # Handed over here, under the writer's lock: whatever is decided later about a node comes later.
            self._set_right(difference)
            if unknown is not None:
                outdated = _outdated(records, reading.states, changed_at, unknown)
                # A node that this look takes out of the reserve is to be without a mark.
                self._renew_marks(tuple(node for node in outdated if node not in difference.observed))
            is_news = bool(
                difference.observed or difference.jobs or difference.contested or difference.cleared
            )
            if not (is_news or self._is_ahead or self._writer.wants_look()):
                self._latest = reading, before
                return None
            self._is_ahead = False
            return NodesObserved(
                at_us=at_us,
                states={node: (state, reading.at_us) for node, state in difference.observed.items()},
                read_us=reading.at_us,
                jobs=difference.jobs,
                contested=difference.contested,
                cleared=difference.cleared,
                unread=difference.unread,
            )

        self._apply(observed)
        if settled.in_cloud or settled.not_in_cloud:
            self._settle(settled)
        self._metrics.reconciled(seconds(reading.at_us), unmarked)

    def _tell_servers(self, cloud: Mapping[str, CloudStatus], asked_us: int, before: int) -> None:
        """A server confirms a grant; that there is none ends one that is past its end."""

        def observed(at_us: int, _: int) -> Event | None:
            _, records, changed_at = self._writer.decided_nodes()
            granted = [
                record.name
                for record in records
                if record.state is NodeState.OD_ALLOC
                and record.name in cloud
                and changed_at.get(record.name, 0) <= before
            ]
            servers = tuple(name for name in granted if cloud[name].vms)
            empty = tuple(name for name in granted if not cloud[name].vms)
            if not self._writer.cares_for(servers, empty):
                return None
            return ServersObserved(at_us=at_us, asked_us=asked_us, servers=servers, empty=empty)

        self._apply(observed)

    def _apply(self, make: Callable[[int, int], Event | None]) -> Decision | None:
        """As `Writer.apply`, and what it asks for is carried out."""
        done = self._writer.apply(make)
        if done is not None:
            self._carry_out(done.instructions)
        return done

    def _tell_failures(self, reading: Reading, cloud: Mapping[str, CloudStatus] | None, before: int) -> None:
        """Granted nodes that have failed, or are well again. What changed meanwhile is left to the next reading."""
        recovered: tuple[str, ...] = ()

        def seen(at_us: int, _: int) -> Event | None:
            nonlocal recovered
            _, records, changed_at = self._writer.decided_nodes()
            unchanged = [record for record in records if changed_at.get(record.name, 0) <= before]
            failed, recovered = self._failing.look(unchanged, reading.states, cloud, reading.at_us)
            return NodesFailed(at_us=at_us, nodes=failed) if failed else None

        done = self._apply(seen)
        if done is not None:
            _log.error("granted nodes have failed", why=done.entry.event.body)
        if recovered:
            _log.info("granted nodes are well again", nodes=recovered)
            self._apply(lambda at_us, _: NodesRecovered(at_us=at_us, nodes=recovered))

    def _doubt(self, states: Mapping[str, NodeStatus]) -> Collection[Stamp]:
        """Quarantine the nodes whose marks the ledger cannot have given, before anything is made of the reading."""
        stamps = {status.stamp for status in states.values() if status.stamp is not None}
        unknown = self._writer.unknown_stamps(stamps - self._known_stamps)
        self._known_stamps = stamps - unknown.keys()
        found: dict[str, str] = {}

        def doubted(at_us: int, _: int) -> Event | None:
            records = self._writer.decided_nodes()[1]
            found.update(
                doubts(
                    records,
                    states,
                    unknown,
                    ledger_id=self._writer.ledger_id,
                    is_first=not self._is_compared,
                )
            )
            # Before the nodes are quarantined: what is planned then is planned without a node.
            self._yield_or_go_on(records, found)
            return NodesDoubted(at_us=at_us, reasons=dict(found)) if found else None

        done = self._writer.apply(doubted, is_proof=True)
        self._is_compared = True
        self._writer.proven()
        if done is not None:
            self._carry_out(done.instructions)
        if found:
            _log.error(
                "nodes are quarantined: the ledger may be wrong about them; see `balancer ledger adopt`",
                nodes=found,
            )
        return unknown.keys()

    def _yield_or_go_on(self, records: Collection[NodeRecord], found: Mapping[str, str]) -> None:
        """Whether this service, which may have been started by mistake, moves nodes. Logs a change."""
        ledger_id = self._writer.ledger_id
        self._has_lent = self._has_lent or has_lent(records)
        self.marked = "" if self._has_lent else another_claims(records, found, ledger_id)
        was_claimed, self._was_claimed = self._was_claimed, bool(self._claims.why or self.marked)
        if self._was_claimed and not was_claimed:
            _log.error("no node is moved", why=self._claims.why or self.marked)
        if was_claimed and not self._was_claimed:
            _log.warning("nodes are moved again: neither claim nor mark of another ledger is in the way")
            self._is_ahead = True  # what the reading says is told, so that it is planned with

    def _renew_marks(self, nodes: tuple[str, ...]) -> None:
        """So that they name an event after which the node was last given to somebody."""
        open_nodes = self._commander.open_nodes()
        nodes = tuple(node for node in nodes if node not in open_nodes)
        if nodes:
            self._commander.submit([Mark(nodes=nodes)])

    def _settle(self, difference: Difference) -> None:
        """The cloud says whose quarantined nodes are."""
        self._apply(
            lambda at_us, _: NodesAdopted(
                at_us=at_us, on_demand=difference.in_cloud, batch=difference.not_in_cloud, by_cloud=True
            )
        )

    def _set_right(self, difference: Difference) -> None:
        """Commands that what the ledger says already asks for: no event, no new intent."""
        orders: list[Order] = []
        if difference.unmarked:
            _log.error("lent nodes without an offline mark: marking them again", nodes=difference.unmarked)
            orders.append(Mark(nodes=difference.unmarked))
        if difference.left_marked:
            _log.warning(
                "batch nodes with an offline mark of ours: taking it off", nodes=difference.left_marked
            )
            orders.append(Unmark(nodes=difference.left_marked))
        if difference.reclaim:
            orders.append(Reclaim(event_id="reconcile", nodes=difference.reclaim))
        if difference.restore:
            orders.append(Restore(event_id="reconcile", nodes=difference.restore))
        if orders:
            self._commander.submit(orders)


def _outdated(
    records: Iterable[NodeRecord],
    states: Mapping[str, NodeStatus],
    changed_at: Mapping[str, int],
    unknown: Collection[Stamp],
) -> tuple[str, ...]:
    """Lent nodes whose mark is older than their last change, or of a ledger that was settled not to matter."""

    def is_outdated(record: NodeRecord) -> bool:
        stamp = states[record.name].stamp if record.name in states else None
        is_lent = record.state in (NodeState.OD_RESERVE, NodeState.OD_ALLOC)
        return (
            is_lent and stamp is not None and (stamp in unknown or changed_at.get(record.name, 0) > stamp.seq)
        )

    return tuple(record.name for record in records if is_outdated(record))
