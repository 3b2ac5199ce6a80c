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
from balancer.lifecycle.settings import PickOrder, ReserveRule
from balancer.lifecycle.states import NodeState
from balancer.predictors.peak import Peak
from balancer.predictors.recency_weighted import RecencyWeighted
from balancer.predictors.seasonal_quantile import SeasonalQuantile
from emulator.harness import tables as t
from emulator.harness.cluster import Cluster, Stop
from emulator.harness.moves import CODE, MoveTable
from emulator.harness.points import ARRIVAL
from emulator.harness.record import LeaseOutcome, NodePool
from emulator.harness.rows import new_rows, rows_of
from emulator.harness.tables import Due
from emulator.mechanisms.balancer import tables as b
from emulator.mechanisms.balancer.whole_loop import ORDER_RAISED, POINT_SHIFT, run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from balancer.lifecycle.lifecycle import Lifecycle
    from balancer.lifecycle.settings import Settings
    from emulator.harness.actions import Accounting
    from emulator.mechanisms.balancer.forecast import Forecast

_POOLS = np.array([CODE[pool] for pool in (NodePool.OD_RESERVE, NodePool.OD_ALLOC, NodePool.OA_IDLE)])
"""By `tables.TO_RESERVE` and so on."""
_ORDER = np.argsort(_POOLS)
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
        self._points = rows_of(Due, at_us=points[:, 0], key=(points[:, 1] << POINT_SHIFT) + points[:, 2] + 1)
        self._slots = _slots(forecast, points, act.cluster.job_table().nodes, lifecycle.settings)
        self._leases = np.zeros((many, b.LEASE_COLUMNS), np.int64)
        self._answers = np.zeros((many, 4), np.int64)
        self._own = np.zeros((nodes, b.OWN_COLUMNS), np.int64)
        self._lists = np.zeros((b.LIST_ROWS, nodes), np.int64)
        self._agenda = new_rows(Due, nodes + 1)
        self._hints = np.zeros((_FIRST_ROOM, 4), np.int64)
        self._reg = np.zeros(b.MORE_REGISTERS, np.int64)
        self._told = 0
        self._set_registers(lifecycle, seen)
        self._know_nodes(lifecycle)
        self._know_moves()

    def _set_registers(self, lifecycle: Lifecycle, seen: int) -> None:
        reg, settings = self._reg, lifecycle.settings
        reg[b.RESERVE] = settings.static_reserve
        reg[b.REFILLED] = settings.reserve_rule is ReserveRule.REFILLED
        reg[b.WAIT_US], reg[b.HOLD_US] = settings.wait_us, settings.idle_hold_us
        reg[b.SIGN] = _SIGNS[settings.pick]
        reg[b.WAKE] = self._act.wake_us
        # What it waits for is the same until the next event, whatever of it that is.
        reg[b.PLAN_WAKE] = NEVER_US if lifecycle.next_wake_us is None else lifecycle.next_wake_us
        reg[b.UNMET] = lifecycle.wants_idle
        reg[b.FIRST_WAITING] = reg[b.LAST_WAITING] = -1
        reg[b.RETURNS_N] = self._cluster.node_changes  # nothing has run yet
        reg[b.SEEN_N] = seen
        wishes = [(each.by_us, each.ends_us, each.count, each.used) for each in lifecycle.snapshot().reserves]
        self._hints[: len(wishes)] = np.array(wishes, np.int64).reshape(-1, 4)
        reg[b.HINTS_N] = len(wishes)
        reg[b.HINTS_END] = min([ends_us for _, ends_us, _, _ in wishes], default=t.NEVER)

    def _know_nodes(self, lifecycle: Lifecycle) -> None:
        """Since when each node is where it is, and in which order nodes are taken."""
        own, nodes = self._own, lifecycle.snapshot().nodes
        own[:, [b.HOLDER, b.LINK]] = -1
        names = [node.name for node in nodes]
        own[sorted(range(len(names)), key=names.__getitem__), b.RANK] = np.arange(len(names))
        own[:, b.SINCE_US] = [node.since_us for node in nodes]
        is_free = np.array([node.state is NodeState.OD_RESERVE for node in nodes])
        signs = (int(self._reg[b.SIGN]), 1)
        for row, inside in ((b.IDLE, np.flatnonzero(~is_free)), (b.FREE, np.flatnonzero(is_free))):
            order = np.lexsort((own[inside, b.RANK], signs[row] * own[inside, b.SINCE_US]))
            self._lists[row, : len(inside)] = inside[order]
            self._reg[b.IDLE_N + row] = len(inside)

    def _know_moves(self) -> None:
        """The moves of the begin."""
        found = MoveTable.of(self._act.moves)
        to = np.searchsorted(_POOLS, found.pool, sorter=_ORDER)
        self._moves = np.stack((found.at_us, _ORDER[to], found.first, found.many), axis=1)
        self._moved = found.node.astype(np.int64)
        self._reg[b.MOVES_N], self._reg[b.MOVED_N] = len(found), len(found.node)

    def _grow(self) -> None:
        """Room for one event at least, in whichever table lacks it."""
        reg, nodes = self._reg, self._cluster.node_count
        while not self._cluster.has_room_for(1):
            self._cluster.make_more_room()
        if len(self._hints) <= reg[b.HINTS_N]:
            self._hints = _longer(self._hints, 1)
        if len(self._moves) - reg[b.MOVES_N] <= nodes + 2:
            self._moves = _longer(self._moves, nodes + 3)
        if len(self._moved) - reg[b.MOVED_N] <= 2 * nodes:
            self._moved = _longer(self._moved, 2 * nodes + 1)

    def go(self, pause_after: int) -> Stop:
        """Go on for so many instants. Raises PluginError if the queue order fails."""
        cluster, act, reg = self._cluster, self._act, self._reg
        while (code := cluster.run_whole(run, self._more(), pause_after)) == t.NEEDS_ROOM:
            self._grow()
        act.now_us = cluster.now_us
        act.granted, act.rejected = int(reg[b.GRANTED_N]), int(reg[b.REJECTED_N])
        if code == ORDER_RAISED:
            cluster.raise_order()
        return Stop(code)

    def _more(self) -> b.More:
        return (
            self._own, self._lists, self._leases, self._hints, self._slots, self._points, self._agenda, self._moves,
            self._moved, self._answers, self._reg,
        )  # fmt: skip

    def tell(self) -> None:
        """Write down what happened since it was told of last."""
        act, reg = self._act, self._reg
        moves = self._moves[: reg[b.MOVES_N]]
        act.moves_told = MoveTable(
            at_us=moves[:, b.MOVED_US].copy(),
            pool=_POOLS[moves[:, b.TO]],
            first=moves[:, b.FIRST].copy(),
            many=moves[:, b.MANY].copy(),
            node=self._moved[: reg[b.MOVED_N]].astype(np.int32),
        )
        answers = self._answers[self._told : reg[b.ANSWERED_N]]
        leases = self._leases[answers[:, b.LEASE]]
        act.leases += [
            _outcome(*each)
            for each in zip(
                leases[:, b.JOB_ROW].tolist(),
                leases[:, b.COUNT].tolist(),
                *answers[:, b.ANSWERED_US :].T.tolist(),
                strict=True,
            )
        ]
        self._told = int(reg[b.ANSWERED_N])
        if act.granted:
            _ = act.running  # once a lease has begun, runs have accounts


def _outcome(job: int, count: int, at_us: int, answer: int, found: int) -> LeaseOutcome:
    if answer == b.GRANTED:
        return LeaseOutcome(job, granted=True, decided_us=at_us)
    reason = not_at_once(count) if answer == b.NOT_AT_ONCE else not_in_time(found, count)
    return LeaseOutcome(job, granted=False, decided_us=at_us, reason=reason)


def _slots(
    forecast: Forecast | None, points: NDArray[np.int64], nodes: NDArray[Any], settings: Settings
) -> NDArray[np.int64]:
    """What the predictor reserves at the begin of each slot to come: it hangs on nothing but what is requested when."""
    if forecast is None:
        return np.zeros((0, 3), np.int64)
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
    return np.array(rows, np.int64).reshape(-1, 3)


def _longer(table: NDArray[Any], at_least: int) -> NDArray[Any]:
    more = np.zeros((max(len(table), at_least), *table.shape[1:]), np.int64)
    return np.concatenate((table, more))
