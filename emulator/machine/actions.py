"""What a mechanism may do (`Actions`): the accounting of each action on a machine, then its effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US
from emulator.cluster.cluster import Cluster
from emulator.cluster.cluster_views import IllegalJobTransition
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.tables import node_array
from emulator.machine.account import Account
from emulator.machine.machine import HasRejects
from emulator.machine.points import CHECKPOINT, COMPLETION, TIMER
from emulator.machine.running import RunningJobs, Save
from emulator.record.run_record import LeaseOutcome, NodePool, PoolMove

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from emulator.machine.effects import Agenda, Effects
    from emulator.machine.machine import Machine
    from emulator.record.lease_table import LeaseTable
    from emulator.record.moves import MoveTable


class Accounting:
    """`Actions` on a machine. `agenda` keeps the decision points that actions lead to; `now_us` is set by the loop."""

    def __init__(
        self, machine: Machine, node_names: tuple[str, ...], agenda: Agenda, effects: Effects
    ) -> None:
        self.now_us = 0
        self.node_names = node_names
        self.ended_jobs: list[int] = []
        self.watches_ends = False
        self.watches_passes = False
        self.moves: list[PoolMove] = []
        self.moves_told: MoveTable | None = None
        """All moves of a compiled run, which keeps them itself."""
        self.leases_told: LeaseTable | None = None
        """All outcomes of a compiled run, likewise."""
        self.leases: list[LeaseOutcome] = []
        self.granted = 0
        self.rejected = 0
        self._machine = machine
        self._cluster = machine if isinstance(machine, Cluster) else None
        self._refusing = machine if isinstance(machine, HasRejects) else None
        self._agenda = agenda
        self._effects = effects
        self._wake_us = NEVER_US
        self._held: set[int] = set()
        """Reserved nodes on which a batch job runs: they were lent to it, or wait for it to leave."""
        self._lease_ends: dict[int, int] = {}
        self._save_ends: dict[int, tuple[int, bool]] = {}
        self._running: RunningJobs | None = None
        if self._cluster is not None and self._cluster.extra_columns & {"setup_us", "checkpoint_interval_us"}:
            # What runs cost beyond their work must be known before the first.
            self._running = RunningJobs(self._cluster)

    # What it acts on.

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            raise TypeError(
                f"{type(self._machine).__name__} is no Cluster: there are no single nodes to act on"
            )
        return self._cluster

    @property
    def running(self) -> RunningJobs:
        if self._running is None:
            self._running = RunningJobs(self.cluster)
        return self._running

    @property
    def has_acted_on_runs(self) -> bool:
        """Whether somebody acted on a running job, or runs cost more than their work: then each has an account."""
        return self._running is not None

    def moves_until(self, at_us: int) -> Sequence[PoolMove]:
        """The moves up to a time."""
        if self.moves_told is not None:
            return self.moves_told[: int(np.searchsorted(self.moves_told.at_us, at_us, side="right"))]
        return tuple(move for move in self.moves if move.at_us <= at_us)

    # Nodes.

    def reserve(self, nodes: Iterable[int], *, when_free: bool = False) -> tuple[list[int], list[int]]:
        taken: list[int] = []
        busy: list[int] = []
        node_job = self.cluster.node_job
        for node in self.cluster.known_nodes(nodes).tolist():
            (busy if node_job[node] >= 0 else taken).append(int(node))
        self.cluster.take_offline(taken, self.now_us)
        self._moved(taken, NodePool.OD_RESERVE)
        if when_free:
            self.cluster.take_offline(busy, self.now_us)
            self._held.update(busy)
        return taken, busy

    def release(self, nodes: Iterable[int]) -> None:
        given = _listed(nodes)
        self.cluster.bring_online(given, self.now_us)
        idle = [node for node in given if node not in self._held] if self._held else given
        self._moved(idle, NodePool.OA_IDLE)
        self._held.difference_update(given)

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        failed = self.cluster.known_nodes(nodes).tolist()
        stopped = sorted({int(job) for job in self.cluster.node_job[failed] if job >= 0})
        stopped += self._with_memory_on(failed)
        for job in stopped:
            self.preempt(job, Save.LATEST_CHECKPOINT)
        self.cluster.take_offline(failed, self.now_us)
        self._moved(failed, NodePool.DOWN)
        return stopped

    def repair(self, nodes: Iterable[int]) -> None:
        self.release(nodes)

    def fail(self, nodes: Iterable[int], *, lost: bool) -> list[int]:
        """Nodes of a mechanism fail: batch jobs leave them as by `take_down`, or for good; leases keep them.

        Returns the jobs that are lost.
        """
        node_job = self.cluster.node_job
        failed = [int(node) for node in nodes if int(node_job[node]) not in self._lease_ends]
        if lost:
            return self.take_down_for_good(failed)
        self.take_down(failed)
        return []

    def set_down(self, nodes: Iterable[int]) -> None:
        self._moved(_listed(nodes), NodePool.DOWN)

    def set_up(self, nodes: Iterable[int]) -> None:
        self._moved(_listed(nodes), NodePool.OD_RESERVE)

    def take_down_for_good(self, nodes: Iterable[int]) -> list[int]:
        """As `take_down`, and the jobs on these nodes are lost for good. Returns them."""
        failed = [int(node) for node in nodes]
        lost = sorted({int(job) for job in self.cluster.node_job[failed] if job >= 0})
        for job in lost:
            self.cancel(job, lost=True)
        self.take_down(failed)
        return lost

    def drain(self, nodes: Iterable[int]) -> list[int]:
        """Nodes get no new jobs: idle ones are down at once. Returns the others, to be told of by `drained`."""
        chosen = [int(node) for node in nodes]
        busy = [node for node in chosen if self.cluster.node_job[node] >= 0]
        self.cluster.take_offline(chosen, self.now_us)
        self._moved([node for node in chosen if node not in set(busy)], NodePool.DOWN)
        return busy

    def drained(self, nodes: Iterable[int]) -> None:
        """The last jobs have left these nodes, which were drained."""
        self._moved(_listed(nodes), NodePool.DOWN)

    def _lend(self, nodes: Iterable[int]) -> None:
        """A batch job has begun on these nodes: those that are reserved are in the batch pool until it leaves."""
        is_offline = self.cluster.node_offline
        chosen = node_array(nodes)
        lent = chosen[is_offline[chosen] != 0].tolist()
        self._held.update(lent)
        self._moved(lent, NodePool.OA_BUSY)

    def _left(self, nodes: Iterable[int]) -> None:
        """A job has left these nodes: those that are held are reserved from now on."""
        if not self._held:
            return
        back = [int(node) for node in nodes if node in self._held]
        self._held.difference_update(back)
        self._moved(back, NodePool.OD_RESERVE)

    def _moved(self, nodes: list[int], pool: NodePool) -> None:
        if nodes:
            self.moves.append(PoolMove(self.now_us, tuple(nodes), pool))

    # Jobs that wait.

    def start(self, job: int, nodes: Iterable[int]) -> None:
        chosen = self.cluster.known_nodes(nodes).tolist()
        if len({*chosen}) < len(chosen):
            raise ValueError(f"job {self.cluster.number(job)} cannot start on a node twice: {chosen}")
        if int(self.cluster.state[job]) == JobState.QUEUED:
            self.running.start(job, chosen, self.now_us)
            self._lend(chosen)
        else:
            wanted = self.cluster.nodes_wanted(job)
            if len(chosen) != wanted:
                raise ValueError(
                    f"job {self.cluster.number(job)} wants {wanted} nodes and would start on {chosen}"
                )
            length_us = self.running.length_us(job, len(chosen))
            self.cluster.start_on(job, chosen, self.now_us)
            self._moved(chosen, NodePool.OD_ALLOC)
            self.leases.append(LeaseOutcome(job, granted=True, decided_us=self.now_us))
            self.granted += 1
            self._lease_ends[job] = self.now_us + length_us
            self._agenda.add(self._lease_ends[job], COMPLETION, job)
        self._effects.run_begins(job)

    def enqueue(self, job: int, *, front: bool = False) -> None:
        self.cluster.enqueue(job, self.now_us, front=front)

    def reject(self, job: int, reason: str) -> None:
        refusing = self.cluster if self._refusing is None else self._refusing
        refusing.reject(job, self.now_us)
        self.leases.append(LeaseOutcome(job, granted=False, decided_us=self.now_us, reason=reason))
        self.rejected += 1
        self._effects.job_rejected(job, reason)

    def cancel(self, job: int, *, lost: bool = False) -> None:
        """A batch job goes for good, whether it waits or runs; `lost`: with all that it has done."""
        cluster = self.cluster
        if cluster.state[job] != JobState.RUNNING:
            cluster.cancel(job, self.now_us)
            return
        nodes = cluster.nodes_of(job)
        if lost or self._running is not None:
            self.running.cancel(job, self.now_us, lost=lost)
        else:
            cluster.end(job, self.now_us, RunOutcome.CANCELLED)
        self._stopped(job, nodes)

    def end_lease(self, job: int) -> None:
        self._lease_must_run(job, "end")
        self.cancel(job)

    def reassign(self, job: int, nodes: Iterable[int]) -> None:
        self._lease_must_run(job, "get other nodes")
        added, freed = self.running.reassign(job, nodes, self._lease_ends[job], self.now_us)
        self._moved(_listed(freed), NodePool.OD_RESERVE)
        self._moved(_listed(added), NodePool.OD_ALLOC)
        self._effects.run_changes(job)

    def _lease_must_run(self, job: int, action: str) -> None:
        if job not in self._lease_ends:
            raise IllegalJobTransition(
                f"job {self.cluster.number(job)} cannot {action} as a lease: it is none that runs"
            )

    # Jobs that run.

    def requeue(self, job: int, *, front: bool = False) -> None:
        self._left(self.running.requeue(job, self.now_us, front=front))
        self._effects.run_leaves(job, save=False)

    def preempt(
        self, job: int, save: Save = Save.NONE, *, write_us: int = 0, front: bool = False
    ) -> list[int]:
        save, write_us = Save(save), whole_of("write_us", write_us)
        if save is Save.NOW and write_us:
            written_us = self.running.begin_save(job, write_us, self.now_us)
            self._lease_ends.pop(job, None)
            self._save_ends[job] = (written_us, front)
            self._agenda.add(written_us, CHECKPOINT, job)
            self._effects.run_changes(job)
            return []
        kept = save
        if save is Save.NOW:
            self.running.checkpoint(job, 0, self.now_us)
            kept = Save.LATEST_CHECKPOINT
        nodes = self._stopped(job, self.running.preempt(job, kept, self.now_us, front=front))
        self._effects.run_leaves(job, save=save is Save.NOW)
        return nodes

    def checkpoint(self, job: int, *, write_us: int = 0) -> None:
        self.running.checkpoint(job, whole_of("write_us", write_us), self.now_us)
        self._effects.run_changes(job)

    def resize(self, job: int, nodes: Iterable[int], *, pause_us: int = 0) -> None:
        pause_us = whole_of("pause_us", pause_us)
        chosen = self.cluster.known_nodes(nodes)
        added, freed = self.running.resize(job, chosen, self.now_us, pause_us=pause_us)
        self._left(freed)
        self._lend(added)
        self._effects.run_changes(job)

    def suspend(self, job: int, *, free_nodes: bool = False) -> list[int]:
        if not free_nodes:
            self.running.suspend(job, self.now_us)
            self._effects.run_changes(job)
            return []
        if self.cluster.rules.name:
            raise TypeError(
                f"jobs under {self.cluster.rules.name} cannot leave their nodes and keep their memory: "
                "it has an account of its nodes of its own"
            )
        if self.is_lease(job):
            raise IllegalJobTransition(
                f"job {self.cluster.number(job)} cannot leave its nodes and keep its memory: it is an on-demand job"
            )
        nodes = _listed(self.running.suspend_off_nodes(job, self.now_us))
        self._left(nodes)
        self._effects.run_suspends(job)
        return nodes

    def resume(self, job: int) -> None:
        had_left = self.cluster.state[job] == JobState.SUSPENDED
        self.running.resume(job, self.now_us)
        if had_left:
            self._lend(self.cluster.nodes_of(job))
            self._effects.run_resumes(job)
        else:
            self._effects.run_changes(job)

    def set_rate(self, job: int, numerator: int, denominator: int) -> None:
        rate = whole_of("numerator", numerator), whole_of("denominator", denominator)
        self.running.set_rate(job, *rate, self.now_us)
        self._effects.run_changes(job)

    def _stopped(self, job: int, nodes: NDArray[Any]) -> list[int]:
        """A run was broken off on these nodes."""
        left = _listed(nodes)
        self._save_ends.pop(job, None)
        if self._lease_ends.pop(job, None) is not None:
            self._moved(left, NodePool.OD_RESERVE)
        else:
            self._left(left)
        return left

    # What it wants to be told.

    def wake(self, at_us: int) -> None:
        at_us = whole_of("at_us", at_us)
        wake_us = max(at_us, self.now_us)
        if wake_us == self._wake_us:  # that point is on the agenda already
            return
        self._wake_us = wake_us
        if at_us != NEVER_US:
            self._agenda.add(wake_us, TIMER, -1)

    def watch_ends(self, watching: bool) -> None:
        self.watches_ends = watching

    def watch_passes(self, watching: bool) -> None:
        self.watches_passes = watching

    # What the loop tells of: it happened to jobs, and the mechanism decided nothing.

    @property
    def needs_ends(self) -> bool:
        """Whether it must be told when jobs end."""
        return self.watches_ends or bool(self._held)

    def is_stale(self, at_us: int, point: int, job: int) -> bool:
        """Whether a decision point was put off or called off."""
        if point == TIMER:
            return at_us != self._wake_us
        if point == COMPLETION:
            return self._lease_ends.get(job) != at_us
        return point == CHECKPOINT and self._save_ends.get(job, (-1, False))[0] != at_us

    @property
    def has_leases(self) -> bool:
        """Whether a lease runs."""
        return bool(self._lease_ends)

    def is_lease(self, job: int) -> bool:
        """Whether the job runs on reserved nodes that were granted to it."""
        return job in self._lease_ends

    def woken(self) -> None:
        """The time of the last `wake` has come."""
        self._wake_us = NEVER_US

    def jobs_ended(self, jobs: list[int]) -> None:
        """These jobs have come to their ends, all at this time."""
        self.ended_jobs = jobs
        for job in jobs if self._held else ():
            self._left(self.cluster.nodes_of(job))

    def lease_ended(self, job: int) -> NDArray[Any]:
        """An on-demand job is over; its nodes, which are reserved again."""
        del self._lease_ends[job]
        nodes = self.cluster.nodes_of(job)
        self.cluster.end(job, self.now_us, RunOutcome.FINISHED)
        self._moved(_listed(nodes), NodePool.OD_RESERVE)
        return nodes

    def checkpoint_written(self, job: int) -> list[int]:
        """What `preempt` with `Save.NOW` began is over: the nodes that the job has left."""
        _, front = self._save_ends[job]
        nodes = self._stopped(job, self.running.end_save(job, self.now_us, front=front))
        self._effects.run_leaves(job, save=False)
        return nodes

    def memory_lost(self, nodes: Iterable[int]) -> None:
        """What suspended jobs had on these nodes is gone: they wait again with what they had saved."""
        for job in self._with_memory_on(nodes):
            self.preempt(job, Save.LATEST_CHECKPOINT)

    def _with_memory_on(self, nodes: Iterable[int]) -> list[int]:
        return [] if self._running is None else self._running.with_memory_on(nodes)

    def run_lost(self, job: int) -> None:
        """A run broke off without anybody's wish: the job waits again with what it had saved."""
        self._stopped(job, self.running.preempt(job, Save.LATEST_CHECKPOINT, self.now_us))

    # What jobs have done (`HasAccounts`).

    def account(self, job: int) -> Account:
        if self._running is not None:
            return self._running.account(job)
        row = self.cluster.table[job]  # nothing was ever done to a running job
        start_us, run_us = int(row.start_us), int(row.run_us)
        return Account(total=run_us * int(row.nodes), done=0, since_us=start_us, end_us=start_us + run_us)

    def left(self, job: int, row: int) -> tuple[int, int]:
        return self.running.left(job, row)


def whole_of(name: str, value: Any) -> int:
    """A whole number that is at least 0, as an integer, also 3.6e9. Raises ValueError."""
    if isinstance(value, int | float | np.number) and 0 <= value <= NEVER_US and value == int(value):
        return int(value)
    raise ValueError(f"{name} is a whole number (times: of microseconds), at least 0, not {value!r}")


def _listed(nodes: Iterable[int]) -> list[int]:
    """As plain integers, however they come."""
    listed: list[int] = node_array(nodes).tolist()
    return listed
