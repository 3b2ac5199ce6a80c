"""A run of the mechanism in its compiled loop: to the end in virtual time, from instant to instant live.

Nothing of Python runs from the first submit to the last end, unless a strategy is one's own (`own_strategies.py`).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import steady_clock
from emulator.cluster.cluster import Stop
from emulator.events.node_failures import all_to_come
from emulator.kernel.columns import fill, longer
from emulator.kernel.entry_points import entry_point
from emulator.kernel.rows import new_rows, rows_of
from emulator.kernel.tables import NEVER
from emulator.machine.points import Point
from emulator.machine.running import BrokenOff
from emulator.mechanisms.agenda import job_of, known_points, new_agenda, point_key, point_of, push
from emulator.mechanisms.hybrid import state as d
from emulator.mechanisms.hybrid.loans import Reason
from emulator.mechanisms.hybrid.whole_loop import (
    AT_INSTANT,
    MOVES_AN_EVENT,
    STRATEGY_RAISED,
    TIMES_AN_EVENT,
    next_point,
    run,
)
from emulator.mechanisms.move_log import To, new_move_log
from emulator.record.lease_table import LeaseTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.events.node_failures import Failures
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import State
    from emulator.machine.actions import Accounting
    from emulator.mechanisms.hybrid.machine import HybridRules
    from emulator.mechanisms.hybrid.own_strategies import Strategies
    from emulator.mechanisms.hybrid.tally import Counted

_FIRST_ROOM = 1024
_ROOM_A_POINT = 1
"""So much more for each notice and arrival that is known, enough for most runs. What is not used costs nothing."""

_NEXT_POINT = entry_point(next_point)


class WholeRun:
    """One run on its cluster: `go` on until it says AT_UNTIL, or `go_to` times; `tell` what happened so far."""

    def __init__(
        self,
        mechanism: Counted,
        rules: HybridRules,
        act: Accounting,
        *,
        known: NDArray[np.int64],
        strategies: Strategies,
        times_us: tuple[int, int],
        points: NDArray[np.int64],
        failures: Failures | None,
    ) -> None:
        """`known`: when a job is predicted, or its most nodes; `times_us`: until a release, and of a warning."""
        cluster = act.cluster
        self._mechanism, self._cluster, self._rules, self._act = mechanism, cluster, rules, act
        self._strategies = strategies
        nodes = cluster.node_count
        rules.index_long_queues(len(cluster))
        hybrid_registers = self._registers = new_rows(d.HybridRegisters, 1)[0]
        more, wide = _ROOM_A_POINT * len(points), max(nodes, 2)
        state = self._state = d.HybridState(
            job_ext=new_rows(d.JobExtension, len(known)),
            points=known_points(points),
            agenda=new_agenda(nodes + _FIRST_ROOM),
            timers=new_agenda(nodes + _FIRST_ROOM),
            loans=new_rows(d.Loan, 0),
            moves=new_move_log(2 * more + _FIRST_ROOM, 0),
            rows=new_rows(BrokenOff, more + 2 * nodes + _FIRST_ROOM),
            times=new_rows(d.WallTime, 4 * more + _FIRST_ROOM),
            room=d.Room(*np.zeros((len(d.Room._fields), wide), np.int64)),
            digits=np.zeros(2048, np.int64),
            mark=np.zeros(nodes, np.int64),
            outages=new_rows(d.Outage, 0),
            not_returned=np.zeros(len(Reason), np.int64),
            registers=hybrid_registers,
            query=new_rows(d.StrategyQuery, 1)[0],
        )
        strategies.serve(cluster, rules, times_us[1], state.room, state.query)
        fill(state.job_ext, {"claim": -1, "when_us": -1, "owes": -1, "known": known})
        hybrid_registers.wake_us, hybrid_registers.until_us, hybrid_registers.loan_free = NEVER, NEVER, -1
        hybrid_registers.release_us, hybrid_registers.warning_us = times_us
        hybrid_registers.notice_by, hybrid_registers.arrival_by = strategies.notice_by, strategies.arrival_by
        hybrid_registers.clock_hook, hybrid_registers.clock_context = steady_clock()
        hybrid_registers.clock_address = state.room.clock.ctypes.data
        hybrid_registers.next_claim = hybrid_registers.arriving = -1
        self._told, self._over = 0, False
        self._grow()
        if failures is not None:
            self._expect(failures)

    def _expect(self, failures: Failures) -> None:
        """Nodes will fail and be repaired, whatever the jobs do."""
        at_us, node, fails = np.array(all_to_come(failures), np.int64).reshape(-1, 3).T
        outages = rows_of(d.Outage, at_us=at_us, node=node, fails=fails)
        self._state = self._state._replace(outages=outages)
        if len(outages):
            self._registers.wake_us = outages[0].at_us
            push(self._state.agenda, outages[0].at_us, point_key(Point.TIMER, -1))

    def _grow(self) -> None:
        """Room for one event at least, in whichever table lacks it."""
        state, hybrid_registers, cluster, nodes = (
            self._state,
            self._registers,
            self._cluster,
            self._cluster.node_count,
        )
        while not cluster.has_room_for(2):
            cluster.make_more_room()
        if self._rules.claims_left == 0:
            self._rules.grow_claims()
        state = state._replace(
            agenda=state.agenda.grown(nodes + 2),
            timers=state.timers.grown(nodes + 2),
            moves=state.moves.grown(MOVES_AN_EVENT, nodes),
        )
        if len(state.rows) - hybrid_registers.rows_n <= 2 * nodes:
            state = state._replace(rows=longer(state.rows, len(state.rows)))
        if len(state.times) - hybrid_registers.times_n <= TIMES_AN_EVENT:
            state = state._replace(times=longer(state.times, len(state.times)))
        if hybrid_registers.loans_left <= nodes:
            state = state._replace(loans=self._more_loans(nodes + _FIRST_ROOM))
        self._state = state

    def _more_loans(self, count: int) -> Rows[d.Loan]:
        """So many more loans, all free: each names the next free one."""
        had, hybrid_registers = len(self._state.loans), self._registers
        loans = longer(self._state.loans, count)
        loans["next"][had:] = np.arange(had + 1, had + count + 1)
        loans["next"][-1] = hybrid_registers.loan_free
        hybrid_registers.loan_free = had
        hybrid_registers.loans_left += count
        return loans

    def go(self, pause_after: int) -> Stop:
        """Go on for so many instants. Raises PluginError if the queue order or a strategy fails."""
        cluster = self._cluster
        while (code := cluster.run_whole(self._run, pause_after)) == Stop.NEEDS_ROOM:
            self._grow()
        self._act.now_us = cluster.now_us
        self._act.granted = int(self._registers.granted_n)
        cluster.check_hook()
        if code == STRATEGY_RAISED:
            self._strategies.raise_failure()
        self._over = code == Stop.AT_UNTIL
        return Stop.AT_UNTIL if code == AT_INSTANT else Stop(code)

    def _run(self, tables: State) -> int:
        return int(run(tables, self._rules.work, self._rules.claims, self._state))

    def next_point(self) -> tuple[int, int]:
        """Time in us and kind of the next decision point, NEVER if there is none."""
        at_us, key = _NEXT_POINT(self._state)
        return int(at_us), int(point_of(key))

    def go_to(self, until_us: int, pause_after: int) -> Stop:
        """Go on to this time, its instant included. Raises as `go` does."""
        self._registers.until_us = until_us
        stop = self.go(pause_after)
        self._tell_rows()
        self._act.running.note_saves(self._saves())
        return stop

    def _saves(self) -> dict[int, int]:
        """The jobs that write their last checkpoint, and when it is written."""
        agenda, when_us = self._state.agenda, self._state.job_ext["when_us"]
        due = agenda.heap[: agenda.size.entries]
        points = zip(due["key"].tolist(), due["at_us"].tolist(), strict=True)
        saves = {job_of(key): at_us for key, at_us in points if point_of(key) == Point.CHECKPOINT}
        return {job: at_us for job, at_us in saves.items() if when_us[job] == at_us}

    # What the harness and the mechanism know otherwise.

    def tell(self) -> None:
        """Write down what happened since it was told of last."""
        if self._over:
            self._rules.let_go()
            self._act.running.all_over()
        self._tell_moves()
        self._tell_rows()
        tally = self._mechanism.tally
        times = self._state.times[: self._registers.times_n]
        which, took_us = times["which"], times["took_us"]
        tally.decision_us, tally.handling_us = (
            array("q", took_us[which == each].tobytes()) for each in (d.Timed.CHOICE, d.Timed.HANDLING)
        )
        self._tell_counts()

    def _tell_rows(self) -> None:
        """The work of runs that were broken off since it was told of last."""
        rows = int(self._registers.rows_n)
        self._act.running.note_rows(self._state.rows[self._told : rows])
        self._told = rows

    def _tell_moves(self) -> None:
        act, cluster, log = self._act, self._cluster, self._state.moves
        moves = log.moves[: log.counts.moves]
        granted = moves["to"] == To.ALLOC
        act.leases_told = LeaseTable.of_granted(
            cluster.jobs_of_nodes_at(moves["first"][granted]), moves["at_us"][granted]
        )
        act.moves_told = log.table(cluster.node_log)

    def _tell_counts(self) -> None:
        mechanism, hybrid_registers, job_ext = self._mechanism, self._registers, self._state.job_ext
        tally, loans = mechanism.tally, mechanism.loans
        noted = np.flatnonzero(job_ext["noted"])
        on_demand = mechanism.is_on_demand(noted)
        tally.instant = set(noted[on_demand].tolist())
        guests = noted[~on_demand]
        tally.evictions = dict(zip(guests.tolist(), job_ext["noted"][guests].tolist(), strict=True))
        tally.preemptions, tally.shrinks = (
            int(hybrid_registers.preemptions_n),
            int(hybrid_registers.shrinks_n),
        )
        tally.queued, tally.lapsed = int(hybrid_registers.queued_n), int(hybrid_registers.lapsed_n)
        tally.warning_node_us = int(hybrid_registers.warned_node_us)
        loans.lent, loans.outstanding = int(hybrid_registers.lent_n), int(hybrid_registers.open_n)
        loans.returned = {
            "resumed": int(hybrid_registers.resumed_n),
            "expanded": int(hybrid_registers.expanded_n),
        }
        if mechanism.failures is not None:
            mechanism.failures.count = int(hybrid_registers.failed_n)
        nodes = self._state.not_returned.tolist()
        loans.not_returned = {why.text: many for why, many in zip(Reason, nodes, strict=True) if many}
