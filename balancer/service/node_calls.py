"""What others say about nodes: hooks that jobs start and end, operators whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import (
    Event,
    NodesAdopted,
    NodesContested,
    NodesDoubted,
    NodesReclaimed,
    NodesUpdated,
)
from balancer.lifecycle.nodes import MAY_BE_CONTESTED
from balancer.service.calls import NOBODY, Caller, Calls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from balancer.job_ends import JobEnds
    from balancer.service.decision import Key
    from balancer.service.timers import Timers


class NodeCalls(Calls):
    _timers: Timers
    hook_us: int | None = None
    """When a hook reported a job last; None: none since the start."""
    job_ends: JobEnds

    def update_nodes(
        self,
        *,
        busy: tuple[str, ...] = (),
        idle: tuple[str, ...] = (),
        job: str | None = None,
        remaining_us: int | None = None,
        generations: Mapping[str, int] | None = None,
        key: Key | None = None,
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

        self._reconciler.unannounced.announced(busy, self.clock.now_us())
        with self.clock.paused():
            self._give_up_late(busy)
            try:
                # The batch system could refill the nodes as soon as its epilogue has our answer.
                self._write(updated, key=key, until_issued=True)
            except Refused as error:
                outcome = "refused" if error.code == Refused.NODE_NOT_IN_BATCH else "invalid"
                self.hook_us = self.clock.now_us()
                self.metrics.hook_event(hook, outcome)
                if error.code == Refused.NODE_NOT_IN_BATCH:
                    self._contest(busy, job, event_id)
                raise
            self.hook_us = self.clock.now_us()
            if job is not None:
                self._reconciler.last_jobs.update(dict.fromkeys(idle, job))
                self.job_ends.ended(idle, job)
                if remaining_us is not None:
                    self.job_ends.started(busy, job, self.hook_us + remaining_us, self.hook_us)
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
    ) -> None:
        """An operator says whose these nodes are: granted as before, or batch's. Durable when this returns."""
        on, back = (nodes, ()) if on_demand else ((), nodes)
        self._write(
            lambda at_us, _: NodesAdopted(
                at_us=at_us, event_id=caller.event_id, on_demand=on, batch=back, by=caller.name, reason=reason
            ),
            key=key,
        )

    def quarantine_nodes(
        self, nodes: tuple[str, ...], reason: str, *, caller: Caller = NOBODY, key: Key | None = None
    ) -> None:
        """An operator says that nobody may have these nodes: QUARANTINED when this returns, until `adopt_nodes`."""

        def doubted(at_us: int, seq: int) -> Event:
            unknown = [node for node in nodes if self._writer.decided_node(node) is None]
            if unknown:
                raise Refused(Refused.UNKNOWN_NODE, f"there is no node {unknown[0]}")
            # With the number: what was settled before is doubted again.
            why = f"quarantined by {caller.name} at event {seq}: {reason}"
            return NodesDoubted(at_us=at_us, event_id=caller.event_id, reasons=dict.fromkeys(nodes, why))

        with self.clock.paused():
            self._write(doubted, key=key)
            self._timers.wake_at(self.clock.now_us())  # requests that waited with one get another
            self._reader.ask(with_cloud=True)  # and one without a mark gets it
