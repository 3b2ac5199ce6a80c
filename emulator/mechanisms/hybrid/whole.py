"""A whole run of the mechanism as one compiled loop: nothing of Python from the first submit to the last end.

It does what `Loop.step` and `mechanism.py` do, on the same tables, for the strategies that come with the mechanism.
Those are the reference, and what a live run steps: a run here equals theirs to the last node and count
(`tests/emulator/mechanisms/hybrid/test_whole.py`).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import steady_clock
from emulator.harness import tables as t
from emulator.harness.cluster import Stop
from emulator.harness.columns import copies, fill, longer
from emulator.harness.lease_table import LeaseTable
from emulator.harness.moves import CODE, MoveTable
from emulator.harness.node_failures import all_to_come
from emulator.harness.record import NodePool
from emulator.harness.rows import new_rows, rows_of
from emulator.harness.running import BrokenOff
from emulator.harness.tables import HEAP_N, NEEDS_ROOM, NEVER, Due
from emulator.mechanisms.hybrid import compiled_actions as d
from emulator.mechanisms.hybrid.arrival_paa import PreemptAtArrival
from emulator.mechanisms.hybrid.arrival_spaa import ShrinkPreemptAtArrival
from emulator.mechanisms.hybrid.compiled_strategies import BY_CUA, BY_CUP, BY_N, BY_PAA, BY_SPAA
from emulator.mechanisms.hybrid.notice_cua import CollectUntilActualArrival
from emulator.mechanisms.hybrid.notice_cup import CollectUntilPredictedArrival
from emulator.mechanisms.hybrid.notice_none import DoNothing
from emulator.mechanisms.hybrid.whole_loop import MOVES_AN_EVENT, ORDER_RAISED, TIMES_AN_EVENT, run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.harness.actions import Accounting
    from emulator.harness.node_failures import Failures
    from emulator.mechanisms.hybrid.machine import HybridCluster
    from emulator.mechanisms.hybrid.mechanism import HybridMechanism

_POOLS = np.array(
    [CODE[pool] for pool in (NodePool.OD_ALLOC, NodePool.OD_RESERVE, NodePool.OA_IDLE, NodePool.DOWN)]
)
"""By `deeds.ALLOC` and so on."""
_FIRST_ROOM = 1024
_ROOM_A_POINT = 1
"""So much more for each notice and arrival that is known, enough for most runs. What is not used costs nothing."""


_NOTICES = {DoNothing: BY_N, CollectUntilActualArrival: BY_CUA, CollectUntilPredictedArrival: BY_CUP}
_ARRIVALS = {PreemptAtArrival: BY_PAA, ShrinkPreemptAtArrival: BY_SPAA}


def compiled_strategies(notice: object, arrival: object) -> tuple[int, int] | None:
    """What the compiled run calls these two strategies; None, if one of them is somebody's own."""
    how = _NOTICES.get(type(notice)), _ARRIVALS.get(type(arrival))
    return None if how[0] is None or how[1] is None else (how[0], how[1])


class WholeRun:
    """One run of a mechanism on its cluster: `go` on until it says AT_UNTIL; `tell` what happened so far."""

    def __init__(
        self,
        mechanism: HybridMechanism,
        cluster: HybridCluster,
        act: Accounting,
        *,
        known: NDArray[np.int64],
        strategies: tuple[int, int],
        times_us: tuple[int, int],
        points: NDArray[np.int64],
        failures: Failures | None,
    ) -> None:
        """`known`: when a job is predicted, or its most nodes; `times_us`: until a release, and of a warning."""
        self._mechanism, self._cluster, self._act = mechanism, cluster, act
        nodes = cluster.node_count
        cluster.index_long_queues()
        self._own = new_rows(d.OwnJob, len(known))
        fill(self._own, {"claim": -1, "when_us": -1, "owes": -1, "known": known})
        self._points = rows_of(
            Due, at_us=points[:, 0], key=(points[:, 1] << d.POINT_SHIFT) + points[:, 2] + 1
        )
        self._agenda, self._timers = (new_rows(Due, nodes + _FIRST_ROOM) for _ in range(2))
        self._counts = np.zeros(t.REGISTERS, np.int64)
        self._loans = new_rows(d.Loan, 0)
        more = _ROOM_A_POINT * len(points)
        self._moves = new_rows(d.Move, 2 * more + _FIRST_ROOM)
        self._times = new_rows(d.WallTime, 4 * more + _FIRST_ROOM)
        self._outages, self._apart = new_rows(d.Outage, 0), np.zeros(0, np.int64)
        self._rows = new_rows(BrokenOff, more + 2 * nodes + _FIRST_ROOM)
        self._room = np.zeros((d.ROOM_ROWS, max(nodes, 2)), np.int64)
        self._mark, self._digits = np.zeros(nodes, np.int64), np.zeros(2048, np.int64)
        reg = self._reg = np.zeros(d.MORE_REGISTERS, np.int64)
        reg[d.WAKE], reg[d.LOAN_FREE] = NEVER, -1
        reg[d.RELEASE_US], reg[d.WARNING_US] = times_us
        reg[d.NOTICE_BY], reg[d.ARRIVAL_BY] = strategies
        reg[d.CLOCK], reg[d.CLOCK_ID] = steady_clock()
        reg[d.CLOCK_ADDRESS] = self._room[-1].ctypes.data
        reg[d.NEXT_CLAIM] = reg[d.ARRIVING] = -1
        self._told, self._over = 0, False
        self._grow()
        if failures is not None:
            self._expect(failures)

    def _expect(self, failures: Failures) -> None:
        """Nodes will fail and be repaired, whatever the jobs do."""
        at_us, node, fails = np.array(all_to_come(failures), np.int64).reshape(-1, 3).T
        self._outages = rows_of(d.Outage, at_us=at_us, node=node, fails=fails)
        if len(self._outages):
            first_us = self._reg[d.WAKE] = self._outages["at_us"][0]
            self._agenda[0] = first_us, d.BY_TIMER << d.POINT_SHIFT
            self._reg[HEAP_N] = 1

    def _grow(self) -> None:
        """Room for one event at least, in whichever table lacks it."""
        reg, cluster, nodes = self._reg, self._cluster, self._cluster.node_count
        while not cluster.has_room_for(2):
            cluster.make_more_room()
        if cluster.claims_left == 0:
            cluster.grow_claims()
        if len(self._agenda) - reg[HEAP_N] <= nodes + 2:
            self._agenda = longer(self._agenda, len(self._agenda))
        if len(self._timers) - self._counts[HEAP_N] <= nodes + 2:
            self._timers = longer(self._timers, len(self._timers))
        if len(self._moves) - reg[d.MOVES_N] <= MOVES_AN_EVENT:
            self._moves = longer(self._moves, len(self._moves))
        if len(self._rows) - reg[d.ROWS_N] <= 2 * nodes:
            self._rows = longer(self._rows, len(self._rows))
        if len(self._times) - reg[d.TIMES_N] <= TIMES_AN_EVENT:
            self._times = longer(self._times, len(self._times))
        if len(self._apart) - reg[d.APART_N] <= nodes:
            self._apart = longer(self._apart, len(self._apart) + nodes + 1)
        if reg[d.LOANS_LEFT] <= nodes:
            self._grow_loans(nodes + _FIRST_ROOM)

    def _grow_loans(self, count: int) -> None:
        """So many more loans, all free: each names the next free one."""
        had = len(self._loans)
        self._loans = longer(self._loans, count)
        self._loans["next"][had:] = np.arange(had + 1, had + count + 1)
        self._loans["next"][-1] = self._reg[d.LOAN_FREE]
        self._reg[d.LOAN_FREE] = had
        self._reg[d.LOANS_LEFT] += count

    def go(self, pause_after: int) -> Stop:
        """Go on for so many instants. Raises PluginError if the queue order fails."""
        cluster = self._cluster
        while (code := cluster.run_whole(run, self._more(), pause_after)) == NEEDS_ROOM:
            self._grow()
        self._act.now_us = cluster.now_us
        self._act.granted = int(self._reg[d.GRANTED_N])
        if code == ORDER_RAISED:
            cluster.raise_order()
        self._over = code == Stop.AT_UNTIL
        return Stop(code)

    def _more(self) -> d.More:
        return (
            self._own, self._points, self._agenda, self._timers, self._counts, self._loans, self._moves, self._rows,
            self._times, self._room, self._mark, self._reg, self._digits, self._outages, self._apart,
        )  # fmt: skip

    # What the harness and the mechanism know otherwise.

    def tell(self) -> None:
        """Write down what happened since it was told of last."""
        if self._over:
            self._cluster.let_go()
            self._act.running.all_over()
        self._tell_moves()
        rows = int(self._reg[d.ROWS_N])
        self._act.running.note_rows(self._rows[self._told : rows])
        tally = self._mechanism.tally
        times = self._times[: self._reg[d.TIMES_N]]
        which, took_us = times["which"], times["took_us"]
        tally.decision_us, tally.handling_us = (
            array("q", took_us[which == each].tobytes()) for each in (d.CHOICE, d.HANDLING)
        )
        self._told = rows
        self._tell_counts()

    def _tell_moves(self) -> None:
        act, cluster = self._act, self._cluster
        apart, log = self._apart[: self._reg[d.APART_N]], cluster.node_log
        at_us, to, first, many = copies(
            self._moves[: self._reg[d.MOVES_N]],
            dict.fromkeys(("at_us", "to", "first", "many"), np.int64),
        )
        granted = to == d.ALLOC
        act.leases_told = LeaseTable.of_granted(cluster.jobs_of_nodes_at(first[granted]), at_us[granted])
        act.moves_told = MoveTable(
            at_us=at_us,
            pool=_POOLS[to],
            first=np.where(first < 0, len(log) + ~first, first),
            many=many,
            node=np.concatenate((log, apart.astype(np.int32))) if len(apart) else log,
        )

    def _tell_counts(self) -> None:
        mechanism, reg, own = self._mechanism, self._reg, self._own
        tally, loans = mechanism.tally, mechanism.loans
        noted = np.flatnonzero(own["noted"])
        on_demand = mechanism.is_on_demand(noted)
        tally.instant = set(noted[on_demand].tolist())
        guests = noted[~on_demand]
        tally.evictions = dict(zip(guests.tolist(), own["noted"][guests].tolist(), strict=True))
        tally.preemptions, tally.shrinks = int(reg[d.PREEMPTIONS_N]), int(reg[d.SHRINKS_N])
        tally.queued, tally.lapsed = int(reg[d.QUEUED_N]), int(reg[d.LAPSED_N])
        tally.warning_node_us = int(reg[d.WARNED_NODE_US])
        loans.lent, loans.outstanding = int(reg[d.LENT_N]), int(reg[d.OPEN_N])
        loans.returned = {"resumed": int(reg[d.RESUMED_N]), "expanded": int(reg[d.EXPANDED_N])}
        nodes = reg[d.NOT_RETURNED :].tolist()
        if mechanism.failures is not None:
            mechanism.failures.count = int(reg[d.FAILED_N])
        loans.not_returned = {why: many for why, many in zip(d.REASONS, nodes, strict=True) if many}
