"""The cluster with claims: what the scheduler and the kernel need to know of nodes held for on-demand jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.cluster import Cluster, Stop
from emulator.cluster.views import read_only
from emulator.kernel import tables as t
from emulator.kernel.columns import fill, longer
from emulator.kernel.entry_points import entry_point
from emulator.kernel.job_states import RunOutcome
from emulator.kernel.rows import new_rows
from emulator.machine.work import JobWork
from emulator.mechanisms.hybrid import backfill_on_held
from emulator.mechanisms.hybrid import claims as c
from emulator.mechanisms.hybrid import holds as r
from emulator.mechanisms.hybrid.deep_queue import LINE_COLUMNS, lines_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike, NDArray

    from emulator.machine.work import Work
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_FIRST_ROOM = 64
LONG_QUEUE = 1024
"""Waiting jobs from which on an index of them pays."""
_RUNS_ROOM, _LOG_ROOM = 2, 8
"""Rows of the run table and of the node log, over those that there are if each job runs once on all its nodes."""

_CLOSE = entry_point(r.close)
_COLLECT = entry_point(r.collect)
_DROP = entry_point(r.drop)
_EXPECT_NOTHING = entry_point(r.expect_nothing)
_GO_ON = entry_point(r.go_on)
_HOLD_GIVEN = entry_point(r.hold_given)
_LEFT = entry_point(r.left)
_ON_DEMAND_WAITS = entry_point(r.on_demand_waits)
_POP_ALL = entry_point(r.pop_all)
_PROMISE = entry_point(r.promise)
_SCHEDULE_PASS = entry_point(r.schedule_pass)
_TAKE_FREE = entry_point(r.take_free)
_UNPROMISE = entry_point(r.unpromise)
_GUESTS_OF = entry_point(backfill_on_held.guests_of)


class HybridCluster(Cluster):
    """Whole nodes, a batch queue, and claims of on-demand jobs on nodes (`claims.py`).

    The kernel collects freed nodes for claims and starts guests on idle held nodes by itself, so that nothing of Python
    runs between the decision points of on-demand jobs. Raises ValueError for a scheduler with a pass after each event.
    """

    def __init__(
        self,
        node_count: int,
        scheduler: SchedulerConfig,
        jobs: JobTable | None = None,
        *,
        simulated: bool = True,
    ) -> None:
        if scheduler.pass_ == "event":  # noqa: S105 - a scheduling pass
            raise ValueError("hybrid: the scheduler must have one pass an instant (`pass: instant`)")
        if scheduler.cycle_s:
            raise ValueError("hybrid: its passes happen when something happens; cycle_s must be 0")
        if scheduler.head_waits:
            raise ValueError("hybrid: heads start as soon as they fit; head_waits can only be false")
        if scheduler.commit:
            raise ValueError(
                "hybrid: guests start ahead of a head that waits; leave the scheduler option commit out"
            )
        if scheduler.is_plain:
            raise ValueError(
                "hybrid: it starts guests itself in queue order; a scheduler of your own cannot decide that"
            )
        super().__init__(node_count, scheduler, jobs, simulated=simulated)
        table = self.job_table()
        self._claim = new_rows(c.Claim, _FIRST_ROOM)
        self._claim_order = np.arange(_FIRST_ROOM)
        self._held = new_rows(c.HeldNode, node_count)
        fill(self._held, {"holder": -1, "behind": -1})
        self._attr = new_rows(c.HybridJob, len(table))
        columns: dict[str, ArrayLike] = dict.fromkeys(("guest", "promised", "leaving", "place"), -1)
        columns["job_class"] = table.column("job_class", 0)
        columns["least"] = table.column("min_nodes", table.nodes)
        fill(self._attr, columns)
        self._chosen = np.zeros(node_count, np.int64)
        self._lenders = c.Lenders(*np.zeros((len(c.Lenders._fields), node_count), np.int64))
        self._count = new_rows(c.ClaimCounters, 1)[0]
        self._count.deep_from = t.NEVER
        self._index = np.zeros((1, LINE_COLUMNS), np.int64)
        self._count.in_order = scheduler.order_name == "fcfs"
        self._count.easy = (
            scheduler.order_name == "fcfs"
            and (scheduler.backfill, scheduler.choice) == ("easy", "first_fit")
            and scheduler.estimates == "user"
            and scheduler.protect_head
            and scheduler.reservation != "kept"
        )
        self._look_at_all()
        self._reg[t.ASK_ALWAYS] = 1  # guests start in queue order where the pool has no idle node
        self._work: Work = new_rows(JobWork, 0)
        self._runs = new_rows(t.Run, _RUNS_ROOM * len(self._runs))
        self._log = np.zeros(_LOG_ROOM * len(self._log), np.int32)
        self._make_state()
        self._make_claims()
        self._keep_nodes()

    def _look_at_all(self) -> None:
        """Whoever waits was perhaps never seen by a pass."""
        self._count.pass_rescan = self._count.guests_rescan = 1

    def use_work(self, work: Work) -> None:
        """The work table of the jobs, which the kernel may change; must be called before the first job is submitted."""
        self._work = work

    def _make_claims(self) -> None:
        self._claims = c.Claims(
            self._claim, self._claim_order, self._held, self._attr, self._chosen, self._count,
            self._index, self._lenders,
        )  # fmt: skip

    # The kernel's loops, with claims.

    def advance(
        self, until_us: int, *, stop_on_end: bool = False, stop_on_pass: bool = False, pause_after: int = -1
    ) -> Stop:
        if stop_on_pass:
            raise ValueError("hybrid: passes are not watched, guests start in the kernel")
        self._reg[t.STOP_ON_END] = stop_on_end
        self._reg[t.INSTANTS_LEFT] = pause_after
        while (code := _GO_ON(self._state, self._work, self._claims, until_us, 0)) == Stop.NEEDS_ROOM:
            self._grow_runs()
        self._check_order()
        return Stop(code)

    def finish_instant(self, now_us: int) -> None:
        self._make_room()
        _GO_ON(self._state, self._work, self._claims, now_us, 1)
        self._check_order()

    def schedule_pass(self, now_us: int) -> NDArray[np.int32]:
        """Started jobs, guests included."""
        self._make_room()
        self._look_at_all()
        self._reg[t.NOW] = now_us
        first = int(self._reg[t.RUNS_N])
        _SCHEDULE_PASS(self._state, self._work, self._claims, now_us)
        self._check_order()
        return self._runs["job"][first : self._reg[t.RUNS_N]].astype(np.int32)

    def end(self, job: int, now_us: int, outcome: RunOutcome = RunOutcome.FINISHED) -> None:
        super().end(job, now_us, outcome)
        _LEFT(self._state, self._claims, job, now_us)
        self._count.changed = 1  # it may wait again, and run as a guest
        self._look_at_all()

    def enqueue(self, job: int, now_us: int, *, front: bool = False) -> None:
        super().enqueue(job, now_us, front=front)
        self._look_at_all()

    # A whole run in the kernel (`whole.py`).

    def index_long_queues(self) -> None:
        """Keep an index of who waits while so many do (`deep_queue.py`). Only the kernel may act on jobs then."""
        keys = self._job["key"][: len(self)]
        if self._count.easy and bool((keys[1:] >= keys[:-1]).all()):
            self._index = np.zeros((lines_for(len(self._job)), LINE_COLUMNS), np.int64)
            self._count.deep_from = LONG_QUEUE
            self._make_claims()

    def run_whole(self, run: Callable[..., int], more: tuple[Any, ...], pause_after: int) -> int:
        self._reg[t.STOP_ON_END] = self._reg[t.STOP_ON_PASS] = 0
        self._reg[t.INSTANTS_LEFT] = pause_after
        return int(run(self._state, self._work, self._claims, more))

    def _grow_runs(self) -> None:
        """Only what lacks room; runs by a quarter: of millions of jobs few run more than once."""
        most = 2 * self.node_count
        if len(self._runs) - self._reg[t.RUNS_N] <= most:
            self._runs = longer(self._runs, len(self._runs) // 4 + most)
        if len(self._log) - self._reg[t.LOG_N] <= most:
            self._log = longer(self._log, len(self._log) + most)
        self._make_state()

    def let_go(self) -> None:
        """The run is over: give back the large tables that only the kernel needs, before figures are made."""
        self._work, self._index = self._work[:0].copy(), self._index[:0].copy()
        self._attr = new_rows(c.HybridJob, 0)
        self._make_claims()

    @property
    def claims_left(self) -> int:
        """Claims that can be opened before their table has to grow."""
        return len(self._claim) - int(self._count.claims_n)

    @property
    def node_log(self) -> NDArray[np.int32]:
        """The nodes of all runs so far, one after the other."""
        return read_only(self._log[: self._reg[t.LOG_N]])

    def jobs_of_nodes_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whose runs have their nodes in the log from these places on; no run of theirs is without nodes."""
        runs = self._runs[: self._reg[t.RUNS_N]]
        rows = np.searchsorted(runs["first"], places, side="right") - 1
        return np.asarray(runs["job"][rows])

    # Claims.

    def open_claim(self, job: int, nodes: int, *, deadline_us: int, collects: bool) -> int:
        """A new claim, behind all others, without nodes. Returns its slot."""
        active = int(self._count.claims_n)
        if active == len(self._claim):
            self.grow_claims()
        slot = int(self._claim_order[active])
        self._count.claims_n += 1
        self._claim[slot] = 0
        for name, value in (
            ("job", job), ("need", nodes), ("head", -1), ("deadline_us", deadline_us), ("collects", collects),
            ("serial", -1),
        ):  # fmt: skip
            self._claim[name][slot] = value
        return slot

    def grow_claims(self) -> None:
        """Room for twice as many claims."""
        many = len(self._claim)
        self._claim = longer(self._claim, many)
        self._claim_order = np.concatenate((self._claim_order, np.arange(many, 2 * many)))
        self._make_claims()

    def close_claim(self, slot: int, now_us: int) -> None:
        """Its nodes go back to the pool, those of guests when the guests end; nothing is promised to it any more."""
        _UNPROMISE(self._state, self._claims, slot)
        _CLOSE(self._state, self._claims, slot, now_us)

    def needed(self, slot: int) -> int:
        """Nodes that the claim still wants."""
        return int(self._claim["need"][slot])

    def idle_held(self, slot: int) -> int:
        """Idle nodes that the claim holds."""
        return int(self._claim["idle"][slot])

    def expect_nothing(self, slot: int) -> None:
        """The on-demand job is there: the claim takes only what it is given, and has no new guests."""
        _EXPECT_NOTHING(self._claims, slot)
        _UNPROMISE(self._state, self._claims, slot)

    def take_free(self, slot: int, now_us: int, *, at_most: int = t.NEVER) -> None:
        """Idle nodes of the pool go to the claim, at most as many as it needs."""
        _TAKE_FREE(self._state, self._claims, slot, at_most, now_us)

    def hold_for(self, slot: int, nodes: Iterable[int], now_us: int) -> None:
        """These nodes, as far as they are idle in the pool, go to the claim, until it needs no more."""
        _HOLD_GIVEN(self._state, self._claims, slot, t.node_array(nodes), now_us)

    def collect(self, now_us: int) -> None:
        """Idle nodes of the pool go to claims that collect."""
        _COLLECT(self._state, self._claims, now_us)

    def take_over(self, slot: int, now_us: int) -> NDArray[np.int64]:
        """The claim's idle nodes, which are nobody's now (and still out of the pool); the claim is closed."""
        nodes = np.empty(self.idle_held(slot), np.int64)
        _POP_ALL(self._claims, slot, nodes, now_us)
        self.close_claim(slot, now_us)
        return nodes

    def drop_idle(self, node: int, now_us: int) -> None:
        """A node breaks. If a claim holds it, the claim needs another one."""
        slot = int(self._held["holder"][node])
        if slot >= 0:
            _DROP(self._claims, slot, node, now_us)

    def guests(self, slot: int) -> list[int]:
        """Jobs that run on the claim's nodes, in order of their rows."""
        if not self._claim["hosts"][slot]:
            return []
        found = np.zeros(self.node_count, np.int64)
        count = _GUESTS_OF(self._state, self._claims, slot, found)
        return sorted(int(job) for job in found[:count])

    def promise(self, job: int, slot: int) -> None:
        """When the running job leaves its nodes, the claim gets them."""
        _PROMISE(self._claims, job, slot)

    def leaves(self, job: int) -> None:
        """The running job is about to go: nobody may choose it any more."""
        self._attr["leaving"][job] = 1

    def is_guest(self, job: int) -> bool:
        return bool(self._attr["guest"][job] >= 0)

    def held_of(self, slot: int, nodes: Iterable[int]) -> int:
        """How many of these nodes the claim holds."""
        return int((self._held["holder"][t.node_array(nodes)] == slot).sum())

    def some_free(self, count: int, *, besides: set[int]) -> list[int]:
        """Idle nodes of the pool, none of `besides`; there must be so many."""
        found: list[int] = []
        place = self.free_count
        while len(found) < count:
            place -= 1
            node = int(self._free[place])
            if node not in besides:
                found.append(node)
        return found

    def on_demand_waits(self) -> bool:
        """An on-demand job stands at the head of the queue."""
        return bool(_ON_DEMAND_WAITS(self._state))

    @property
    def node_table(self) -> t.Nodes:
        """One row a node (`tables.py`). A live view."""
        return self._node

    @property
    def attributes(self) -> c.HybridJobs:
        """One row a job: class, least width, guest of, promised to (`claims.py`). A live view."""
        return self._attr

    def idle_held_node_us(self, now_us: int) -> int:
        """Node-time up to now that nodes were held and idle."""
        count = self._count
        return int(count.idle_node_us + count.idle_n * (now_us - count.idle_at_us))

    @property
    def guest_starts(self) -> int:
        return int(self._count.guests_n)
