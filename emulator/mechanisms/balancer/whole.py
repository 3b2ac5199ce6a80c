"""A whole run of the Balancer as one compiled loop: nothing of Python from the first submit to the last end.

It does what `Loop.step`, `mechanism.py` and the life cycle do, on the same tables, for the algorithms and predictors
that come with the Balancer and a cloud that obeys at once. Those are the reference, and what services and live runs go
by: a run here equals theirs to the last node (`tests/emulator/mechanisms/balancer/test_whole.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.algorithms.basic import Basic
from balancer.algorithms.hint import Hint
from balancer.clock import NEVER_US
from balancer.lifecycle.requests import not_at_once, not_in_time
from balancer.lifecycle.states import NodeState
from balancer.policy_settings import PickOrder, ReserveRule
from balancer.predictors.peak import Peak
from balancer.predictors.recency_weighted import RecencyWeighted
from balancer.predictors.seasonal_quantile import SeasonalQuantile
from emulator.cluster.cluster import Cluster, Stop
from emulator.kernel import tables as t
from emulator.kernel.columns import fill, longer
from emulator.kernel.rows import new_rows, rows_of
from emulator.machine.points import ARRIVAL
from emulator.mechanisms.agenda import known_points, new_agenda
from emulator.mechanisms.balancer import tables as b
from emulator.mechanisms.balancer.whole_loop import ORDER_RAISED, run
from emulator.mechanisms.move_log import new_move_log
from emulator.record.moves import MoveTable
from emulator.record.run_record import LeaseOutcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from balancer.lifecycle.lifecycle import Lifecycle
    from balancer.policy_settings import Settings
    from emulator.kernel.rows import Rows
    from emulator.machine.actions import Accounting
    from emulator.mechanisms.balancer.forecast import Forecast
    from emulator.mechanisms.move_log import MoveLog

_SIGNS = {PickOrder.LONGEST_IDLE: 1, PickOrder.SHORTEST_IDLE: -1, PickOrder.NAME: 0}
_FIRST_ROOM = 256
_LATEST_US = 1 << 61
"""Two such times can be added."""


def is_compiled(algorithm: object, forecast: Forecast | None) -> bool:
    """Whether the loop knows how these decide; somebody's own are asked in Python."""
    predictors = (Peak, RecencyWeighted, SeasonalQuantile)
    return type(algorithm) in (Basic, Hint) and (forecast is None or type(forecast.predictor) in predictors)


def can_serve(act: Accounting, points: NDArray[np.int64], settings: Settings) -> bool:
    """Whether the loop can serve these leases on this machine; the others are refused, or served, step by step."""
    if type(act.cluster) is not Cluster or act.has_acted_on_runs or not len(points):
        return False
    jobs = act.cluster.job_table()
    wanted = jobs.nodes[points[:, 2]]
    latest_us = max(
        int(points[:, 0].max()), int(jobs.submit_us.max()), settings.wait_us, settings.idle_hold_us
    )
    return bool(
        points[0, 0] >= 0
        and latest_us < _LATEST_US
        and wanted.min() >= 1
        and wanted.max() <= act.cluster.node_count
    )


class WholeRun:
    """One run of the Balancer on its cluster: `go` on until it says AT_UNTIL; `tell` what happened so far."""

    def __init__(
        self,
        act: Accounting,
        lifecycle: Lifecycle,
        forecast: Forecast | None,
        points: NDArray[np.int64],
        *,
        seen: int,
    ) -> None:
        """`lifecycle`: as it is after the begin; `seen`: changes of the batch pool that it has been told of."""
        self._act, self._cluster, self._settings = act, act.cluster, lifecycle.settings
        nodes = act.cluster.node_count
        many = int((points[:, 1] == ARRIVAL).sum())
        self._registers = new_rows(b.Registers, 1)[0]
        self._state = b.BalancerState(
            nodes=new_rows(b.BalancerNode, nodes),
            listed=np.zeros((len(b.Listed), nodes), np.int64),
            lists=new_rows(b.ListRegisters, len(b.Listed)),
            chosen=np.zeros(nodes, np.int64),
            leases=new_rows(b.Lease, many),
            hints=new_rows(b.HintRow, _FIRST_ROOM),
            slots=_slots(forecast, points, act.cluster.job_table().nodes, lifecycle.settings),
            points=known_points(points),
            agenda=new_agenda(nodes + 1),
            moves=_moves_so_far(act),
            answers=new_rows(b.AnswerRow, many),
            registers=self._registers,
        )
        self._told = 0
        self._set_registers(lifecycle, seen)
        self._know_nodes(lifecycle)

    def _set_registers(self, lifecycle: Lifecycle, seen: int) -> None:
        registers, settings = self._registers, lifecycle.settings
        registers.reserve = settings.static_reserve
        registers.refilled = settings.reserve_rule is ReserveRule.REFILLED
        registers.wait_us, registers.hold_us = settings.wait_us, settings.idle_hold_us
        registers.wake_us = self._act.wake_us
        # What it waits for is the same until the next event, whatever of it that is.
        registers.plan_wake_us = NEVER_US if lifecycle.next_wake_us is None else lifecycle.next_wake_us
        registers.unmet = lifecycle.wants_idle
        registers.first_waiting = registers.last_waiting = -1
        registers.returns_n = self._cluster.node_changes  # nothing has run yet
        registers.seen_n = seen
        reserves = lifecycle.snapshot().reserves
        for row, each in enumerate(reserves):
            self._state.hints[row] = each.by_us, each.ends_us, each.count, each.used
        registers.hints_n = len(reserves)
        registers.hints_end_us = min((each.ends_us for each in reserves), default=t.NEVER)

    def _know_nodes(self, lifecycle: Lifecycle) -> None:
        """Since when each node is where it is, and in which order nodes are taken."""
        state, nodes = self._state, lifecycle.snapshot().nodes
        own, since_us = state.nodes, np.array([node.since_us for node in nodes], np.int64)
        names = [node.name for node in nodes]
        rank = np.argsort(sorted(range(len(names)), key=names.__getitem__))
        fill(own, {"holder": -1, "link": -1, "rank": rank, "since_us": since_us})
        is_free = np.array([node.state is NodeState.OD_RESERVE for node in nodes])
        for which, inside, sign in (
            (b.Listed.IDLE, np.flatnonzero(~is_free), _SIGNS[lifecycle.settings.pick]),
            (b.Listed.RESERVED, np.flatnonzero(is_free), 1),
        ):
            order = np.lexsort((rank[inside], sign * since_us[inside]))
            state.listed[which, : len(inside)] = inside[order]
            state.lists[which].nodes = len(inside)
            state.lists[which].sign = sign

    def _grow(self) -> None:
        """Room for one event at least, in whichever table lacks it."""
        state, nodes = self._state, self._cluster.node_count
        while not self._cluster.has_room_for(1):
            self._cluster.make_more_room()
        if len(state.hints) <= self._registers.hints_n:
            state = state._replace(hints=longer(state.hints, len(state.hints)))
        self._state = state._replace(moves=state.moves.grown(nodes + 2, 2 * nodes))

    def go(self, pause_after: int) -> Stop:
        """Go on for so many instants. Raises PluginError if the queue order fails."""
        cluster, act, registers = self._cluster, self._act, self._registers
        while (code := cluster.run_whole(run, self._state, pause_after)) == Stop.NEEDS_ROOM:
            self._grow()
        act.now_us = cluster.now_us
        act.granted, act.rejected = int(registers.granted_n), int(registers.rejected_n)
        if code == ORDER_RAISED:
            cluster.raise_order()
        return Stop(code)

    def tell(self) -> None:
        """Write down what happened since it was told of last."""
        act, state = self._act, self._state
        act.moves_told = state.moves.table(np.zeros(0, np.int32))
        answered = int(self._registers.answered_n)
        answers = state.answers[self._told : answered]
        leases = state.leases[answers["lease"]]
        columns = (leases["job"], leases["nodes"], answers["at_us"], answers["answer"], answers["found"])
        act.leases += [_outcome(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]
        self._told = answered
        if act.granted:
            _ = act.running  # once a lease has begun, runs have accounts


def _outcome(job: int, count: int, at_us: int, answer: int, found: int) -> LeaseOutcome:
    if answer == b.Answer.GRANTED:
        return LeaseOutcome(job, granted=True, decided_us=at_us)
    reason = not_at_once(count) if answer == b.Answer.NOT_AT_ONCE else not_in_time(found, count)
    return LeaseOutcome(job, granted=False, decided_us=at_us, reason=reason)


def _slots(
    forecast: Forecast | None, points: NDArray[np.int64], nodes: NDArray[Any], settings: Settings
) -> Rows[b.Slot]:
    """What the predictor reserves at the begin of each slot to come: it hangs on nothing but what is requested when."""
    if forecast is None:
        return new_rows(b.Slot, 0)
    rows = []
    arrivals = iter([(int(at), int(nodes[job])) for at, point, job in points.tolist() if point == ARRIVAL])
    following = next(arrivals, None)
    while (at_us := forecast.next_us) is not None:
        while following is not None and following[0] < at_us:
            forecast.requested(*following)
            following = next(arrivals, None)
        wish = forecast.due(at_us)
        assert wish is not None  # noqa: S101 - a slot begins
        rows.append((at_us, wish.nodes, settings.idle_hold_us if wish.keep_us is None else wish.keep_us))
    begins_us, reserved, keep_us = np.array(rows, np.int64).reshape(-1, 3).T
    return rows_of(b.Slot, begins_us=begins_us, nodes=reserved, keep_us=keep_us)


def _moves_so_far(act: Accounting) -> MoveLog:
    """The moves of the begin."""
    found = MoveTable.of(act.moves)
    log = new_move_log(len(found), len(found.node))
    fill(log.moves, {"at_us": found.at_us, "to": found.pool, "first": ~found.first, "many": found.many})
    log.nodes[:] = found.node
    log.counts.moves, log.counts.nodes = len(found), len(found.node)
    return log
