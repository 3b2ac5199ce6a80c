"""Reads batch system and cloud, and sets right what the ledger says otherwise (the table of reconcile_table.py)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from balancer.clock import seconds
from balancer.commands import Mark, Order, Unmark
from balancer.contact import Contact
from balancer.drivers.base import DriverError
from balancer.lifecycle.events import NodesObserved, Reclaim, Restore
from balancer.reconcile import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from balancer.clock import Clock
    from balancer.commands import Commander
    from balancer.drivers.base import NodeStatus
    from balancer.drivers.cloud import CloudDriver, CloudStatus
    from balancer.lifecycle.events import Event, Instruction
    from balancer.metrics import Metrics
    from balancer.reconcile import Difference
    from balancer.writer import Writer

_log = structlog.get_logger()


class Reconciler:
    """`carry_out` takes the instructions of what was observed. Methods may be called from any thread."""

    def __init__(
        self,
        writer: Writer,
        commander: Commander,
        *,
        cloud: CloudDriver | None,
        clock: Clock,
        metrics: Metrics,
        carry_out: Callable[[Sequence[Instruction]], object],
    ) -> None:
        self.readings: Mapping[str, NodeStatus] = {}
        """What the batch system said of each node when it was asked last."""
        self.batch = Contact(commander.driver_name)
        self.cloud = None if cloud is None else Contact(cloud.name)
        self.by_hand: tuple[str, ...] = ()
        """Batch nodes that carry an offline mark which is not ours."""
        self.last_jobs: dict[str, str] = {}
        """Node -> the job whose end was reported there last: it may still be listed for a moment."""
        self._writer = writer
        self._commander = commander
        self._cloud = cloud
        self._clock = clock
        self._metrics = metrics
        self._carry_out = carry_out
        self._reading = threading.Lock()

    def refresh(self, age_us: int) -> None:
        """Read all states, unless a reading is younger than this. A failure is only logged."""
        with self._reading:
            silent_us = self.batch.silent_us(self._clock.now_us())
            if silent_us is None or silent_us >= age_us:
                self._read()

    def reconcile(self) -> None:
        """Compare the ledger with batch system and cloud, and set right what can be set right."""
        with self._reading:
            self._read(self._ask_cloud())

    def _ask_cloud(self) -> Mapping[str, CloudStatus] | None:
        """None: there is no cloud, or it gave no answer. That it has no VM somewhere is then not known."""
        if self._cloud is None or self.cloud is None:
            return None
        begun_us = self._clock.now_us()
        try:
            found = self._cloud.get_status_of_hosts()
        except DriverError as error:
            _log.warning("the cloud cannot be read", cloud=self._cloud.name, error=str(error))
            self.cloud.failed(begun_us, str(error))
        except Exception as error:  # noqa: BLE001 - a plug-in: its bugs must not keep batch from being read
            _log.exception("the cloud driver failed", cloud=self._cloud.name)
            self.cloud.failed(begun_us, f"its driver failed: {error!r}")
        else:
            self.cloud.answered(begun_us)
            return found
        return None

    def _read(self, cloud: Mapping[str, CloudStatus] | None = None) -> None:
        # Not the last decision: what is set right below has to be stored already.
        before = self._writer.committed_seq
        try:
            reading = self._commander.read()
        except DriverError as error:
            _log.warning("the batch system cannot be read", error=str(error))
            self.batch.failed(self._clock.now_us(), str(error))
            return
        self.batch.answered(reading.at_us)
        self.readings = reading.states
        unmarked = 0

        def observed(at_us: int, _: int) -> Event | None:
            nonlocal unmarked
            _, records, changed_at = self._writer.decided_nodes()
            difference = compare(
                records,
                reading.states,
                is_news=lambda node: changed_at.get(node, 0) <= before,
                last_jobs=self.last_jobs,
                in_hand=self._commander.open_nodes(),
                cloud=cloud,
                is_cloud_silent=self._cloud is not None and cloud is None,
            )
            self.by_hand = difference.by_hand
            unmarked = len(difference.unmarked)
            # Handed over here, under the writer's lock: whatever is decided later about a node comes later.
            self._set_right(difference)
            if not difference.observed:
                return None
            states = {node: (state, reading.at_us) for node, state in difference.observed.items()}
            return NodesObserved(at_us=at_us, states=states)

        done = self._writer.apply(observed)
        if done is not None:
            self._carry_out(done.instructions)
        self._metrics.reconciled(seconds(reading.at_us), unmarked)

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
