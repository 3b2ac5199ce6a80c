"""The tables of a cluster, which its kernel works on: made, filled, grown, and used again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import micros
from emulator.cluster.cluster_views import ClusterViews
from emulator.cluster.order_callback import OrderHook
from emulator.cluster.policy_callback import PolicyHook
from emulator.cluster.prediction_callback import PredictionHook
from emulator.cluster.selection import SelectionHook
from emulator.kernel import tables as t
from emulator.kernel.columns import fill, longer
from emulator.kernel.job_states import JobState
from emulator.kernel.rows import clear, new_record, new_rows, plain
from emulator.schedulers.dynamic import sort_keys
from emulator.schedulers.tiers import with_tiers
from emulator.workload.table import joined

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from emulator.cluster.pass_hook import PassHook
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

BACKFILL_RULES = {each.name.lower(): each for each in t.BackfillRule if each != t.BackfillRule.CHOSEN}
_CHOICES = {each.name.lower(): each for each in t.BackfillChoice}


class ClusterTables(ClusterViews):
    """The part of `Cluster` that holds its tables."""

    def __init__(
        self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, *, simulated: bool
    ) -> None:
        self.scheduler = scheduler
        self.node_count = node_count
        self._known = jobs
        self._order = with_tiers(scheduler.make_order(), self._known, scheduler)
        self._has_fixed_keys = callable(self._order)
        self._hook = self._make_hook()
        self._keys_have_submits = False
        self._submits_changed = False
        self._returns = 0
        """How often nodes were put back into the pool."""
        self._added: list[tuple[int, ...]] = []
        count = len(self._known)
        self._job = new_rows(t.Job, max(count, 64))
        self._fill_rows(self._known, 0)
        self._node = new_rows(t.Node, node_count)
        t.clear_nodes(self._node)
        self._show_nodes()
        self._free = np.arange(node_count, dtype=np.int32)[::-1].copy()
        self._queue = np.zeros(2 * len(self._job) + 8, np.int32)
        # At worst each running job is alone in its block, and one block is being split.
        self._plan = new_rows(t.PlanEntry, node_count + 1, t.BLOCK)
        self._blocks = new_rows(t.PlanBlock, node_count + 1)
        self._blocks["slot"][:] = np.arange(node_count + 1)
        # Jobs that gave their nodes back before their turn stand in it until then, beside those that took their place.
        ends = 2 * node_count if scheduler.exact_ends_first else node_count
        self._heap = new_rows(t.Due, ends + 1)
        of_runs, of_nodes = self.rules.room
        self._runs = new_rows(t.Run, of_runs * self._usual_room(count))
        self._log = np.zeros(of_nodes * self._usual_room(int(jobs.nodes.sum())), np.int32)
        self._started = np.zeros(node_count, np.int32)
        self._scratch = self._new_scratch()
        self._registers = new_record(t.Registers)
        self._set_registers(scheduler, count, simulated=simulated)
        self._make_state()
        if self.selection is not None or self.rules.need_nodes:
            self._keep_nodes()

    def _make_hook(self) -> PassHook | None:
        """What the loop calls at each pass, None where the order of the queue is known and the rule a compiled one."""
        scheduler = self.scheduler
        order = (
            None if self._has_fixed_keys else OrderHook(scheduler.order_name, self._order, self.node_count)
        )
        plain = scheduler.make_plain()
        if plain is not None and scheduler.make_machine() is not None:
            raise ValueError(
                f"{plain[0]} acts at times of its own, on a machine of its own: it goes with no mechanism, `balancer` "
                "or `static_partition`, in virtual time (the real one: live.batch: slurm)"
            )
        hook: PassHook | None = order
        if plain is not None:
            hook = PolicyHook(*plain, self.node_count, order)
        elif self.selection is not None:
            hook = SelectionHook(self.selection, order)
        return hook if scheduler.predict is None else PredictionHook(scheduler, hook)

    def _set_registers(self, scheduler: SchedulerConfig, count: int, *, simulated: bool) -> None:
        registers = self._registers
        registers.idle_nodes = self.node_count
        registers.queue_lo = registers.queue_hi = len(self._queue) // 2
        registers.blocks_n = 1
        registers.cycle = micros(scheduler.cycle_s)
        registers.next_cycle = t.NEVER
        registers.start_delay = micros(scheduler.start_delay_s)
        registers.picked = -1
        registers.jobs_n = count
        rule = scheduler.backfill
        is_chosen = scheduler.is_plain or self.selection is not None
        registers.backfill = t.BackfillRule.CHOSEN if is_chosen else BACKFILL_RULES[rule]
        registers.choice = _CHOICES[scheduler.choice]
        registers.queued_estimates = scheduler.estimates != "user"
        registers.every_event = scheduler.pass_ == "event"  # noqa: S105 - a scheduling pass
        registers.keep_reservation = scheduler.reservation == "kept"
        registers.spare_nodes = scheduler.spare_nodes
        registers.protect_head = scheduler.protect_head
        registers.head_waits = scheduler.head_waits and rule == "easy" and not scheduler.is_plain
        registers.before_shadow = not scheduler.end_at_shadow
        registers.exact_first = scheduler.exact_ends_first
        registers.submits_first = scheduler.submits_first
        registers.fitting_submits = scheduler.submit_pass == "if_it_fits"  # noqa: S105 - a scheduling pass
        registers.ends_by = t.EndOrder[scheduler.ends_in_order_of.upper()]
        registers.kept_head = registers.last_ended = -1
        registers.simulated = simulated
        registers.commit = scheduler.commit
        # Who is head counts even where nobody can start.
        registers.ask_always = scheduler.reservation == "kept" or scheduler.commit
        if self.selection is not None:
            registers.ask_always |= self.selection.is_at_submit

    def _usual_room(self, count: int) -> int:
        """Of a table that has so many rows if each job runs once: one instant may begin a run on each node."""
        return count + 2 * self.node_count + 8

    def _new_scratch(self) -> NDArray[np.int64]:
        """Room for the profile of a conservative plan: two steps a waiting job, one a running job."""
        conservative = self.scheduler.backfill == "conservative"
        return np.zeros((3, 2 * len(self._job) + self.node_count + 8 if conservative else 1), np.int64)

    def _fill_rows(self, jobs: JobTable, first: int) -> None:
        columns: dict[str, ArrayLike] = {
            "submit_us": jobs.submit_us,
            "run_us": jobs.run_us,
            "estimate_us": np.maximum(jobs.estimate_us, 1),
            "nodes": jobs.nodes,
            "kind": jobs.kind,
            "start_us": -1,
            "end_us": -1,
            "run_row": -1,
        }
        if self._has_fixed_keys:
            columns["key"] = sort_keys(self._order(jobs, self.scheduler), len(jobs))
        if self._hook is not None:
            self._hook.learn(jobs, first)
        rows = self._job[first : first + len(jobs)]
        fill(rows, columns)
        self.rules.learn(jobs, rows, first)

    def _make_state(self) -> None:
        self._state = t.State(
            self._job, self._node, self._free, self._queue, self._plan, self._blocks, self._heap,
            self._runs, self._log, self._started, self._scratch, self._registers,
        )  # fmt: skip
        if self._hook is not None:
            self._hook.use(self._state)
        self.rules.use(self._state)

    def check_hook(self) -> None:
        """Raises PluginError if the queue order, or a scheduler in Python, failed in the compiled loop."""
        if self._hook is not None:
            self._hook.check()

    # Room.

    def _make_room(self) -> None:
        while not self.has_room_for(1):
            self.make_more_room()

    def make_more_room(self) -> None:
        """Longer tables of runs and their nodes, where they lack room; runs by a quarter: few jobs run again."""
        most = 2 * self.node_count
        if len(self._runs) - self._registers.runs_n <= most:
            self._runs = longer(self._runs, len(self._runs) // 4 + most)
        if len(self._log) - self._registers.log_n <= most:
            self._log = longer(self._log, len(self._log) + most)
        self._make_state()

    def _grow_jobs(self) -> None:
        self._job = longer(self._job, len(self._job))
        self._queue_anew(self.queue)
        self._scratch = self._new_scratch()
        self._make_state()

    def _queue_anew(self, waiting: NDArray[Any]) -> None:
        """A queue with room for all jobs of the table, in which these wait."""
        queue = np.zeros(2 * len(self._job) + 8, np.int32)
        middle = len(queue) // 2
        queue[middle : middle + len(waiting)] = waiting
        self._registers.queue_lo, self._registers.queue_hi = middle, middle + len(waiting)
        self._queue = queue

    # The same memory for other jobs.

    @property
    def kernel_state(self) -> t.State:
        """The tables, for compiled functions."""
        return self._state

    def use_tables(self, state: t.State) -> None:
        """Use these tables, which hold what its own do, from now on."""
        (
            self._job, self._node, self._free, self._queue, self._plan, self._blocks, self._heap,
            self._runs, self._log, self._started, self._scratch, self._registers,
        ) = state  # fmt: skip
        self._show_nodes()
        self._make_state()

    def make_room_for(self, nodes: int) -> None:
        """So many nodes of all runs will not need longer tables."""
        if len(self._log) < nodes:
            self._log = np.zeros(nodes, np.int32)
            self._make_state()

    def begin_anew(self, jobs: JobTable) -> None:
        """Begin with other jobs in tables that have room for them. What was told of the jobs before is gone."""
        registers = self._registers
        self._known = jobs
        plain(self._job)[:] = 0
        self._fill_rows(jobs, 0)
        if registers.nodes_kept:
            t.clear_nodes(self._node)
        places = np.arange(self.node_count + 1)
        self._free[:] = places[-2::-1]
        plain(self._blocks)[:] = 0
        self._blocks["slot"][:] = places
        self._runs[:] = 0
        clear(registers)
        self._set_registers(self.scheduler, len(jobs), simulated=True)

    def go_on_with(self, jobs: JobTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Forget what is over, and know these jobs too, which are submitted after all that happened so far.

        Returns the rows of the jobs and of the runs that are kept. Nodes of runs must only be counted.
        """
        registers, old = self._registers, self._job[: len(self)]
        kept = np.flatnonzero(old["state"] != JobState.ENDED)
        row_of = np.full(len(old), -1, np.int64)
        row_of[kept] = np.arange(len(kept))
        waiting = row_of[self.queue]
        count = len(kept) + len(jobs)
        self._job = new_rows(t.Job, max(count, 64))
        plain(self._job)[: len(kept)] = plain(old)[kept]
        self._known = joined(self._known.take(kept), jobs)
        self._fill_rows(jobs, len(kept))
        open_ = self._keep_open_runs(row_of, count)
        ending = self._heap["key"][: registers.heap_n]
        ending[:] = row_of[ending]
        self._queue_anew(waiting)
        registers.jobs_n, registers.next_submit = count, len(kept)
        registers.last_ended = -1
        registers.kept_submits = int(np.searchsorted(kept, registers.kept_submits))
        registers.kept_head = row_of[registers.kept_head] if registers.kept_head >= 0 else -1
        self._scratch = self._new_scratch()
        self._make_state()
        return kept, open_

    def _keep_open_runs(self, row_of: NDArray[np.int64], jobs: int) -> NDArray[np.int64]:
        runs = self._runs[: self._registers.runs_n]
        open_ = np.flatnonzero(runs["end_us"] < 0)
        kept = runs[open_]
        kept["job"][:] = row_of[kept["job"]]
        self._job["run_row"][kept["job"]] = np.arange(len(open_))
        self._runs = longer(kept, self._usual_room(jobs))
        self._registers.runs_n = len(open_)
        self._registers.kept_runs = int(np.searchsorted(open_, self._registers.kept_runs))
        self._log = np.zeros(self._usual_room(int(self._known.nodes.sum())), np.int32)  # never touched
        self._registers.log_n = 0
        return open_
