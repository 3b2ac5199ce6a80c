"""A run's side of strategies of one's own, in Python: the hooks that ask them, and the check of what they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.cluster.pass_hook import HOOK, address_of_hook
from emulator.mechanisms.hybrid.strategies import ArrivalBy, NoticeBy
from emulator.mechanisms.hybrid.view import NoticeOutlook, View
from emulator.plugins.failure import plugin_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.cluster.cluster import Cluster
    from emulator.mechanisms.hybrid.decisions import Arrival
    from emulator.mechanisms.hybrid.machine import HybridRules
    from emulator.mechanisms.hybrid.notice_plan import Notice
    from emulator.mechanisms.hybrid.state import Room, StrategyQuery


class Strategies:
    """A notice and an arrival strategy, together called `name`; whichever comes with the mechanism is compiled.

    `serve` must come before the first event.
    """

    def __init__(self, notice: Any, arrival: Any, name: str) -> None:
        self.notice_by = NoticeBy.OWN if hasattr(notice, "prepare") else NoticeBy(notice.compiled)
        self.arrival_by = ArrivalBy.OWN if hasattr(arrival, "make_room") else ArrivalBy(arrival.compiled)
        self._notice: Notice = notice
        self._arrival: Arrival = arrival
        self._names = name.split("+")
        self._hooks: list[Any] = []
        self._failure: tuple[str, str, Exception] | None = None

    def serve(
        self, cluster: Cluster, rules: HybridRules, warning_us: int, room: Room, query: StrategyQuery
    ) -> None:
        """Choose among the jobs of this cluster from now on."""
        self._cluster, self._rules, self._warning_us = cluster, rules, warning_us
        self._room, self._query = room, query
        # A hook makes a circle, which would keep the tables of a run until the next collection: none without need.
        if self.notice_by == NoticeBy.OWN:
            query.notice_hook = self._address(HOOK(self._at_notice))
        if self.arrival_by == ArrivalBy.OWN:
            query.arrival_hook = self._address(HOOK(self._at_arrival))

    def _address(self, hook: Any) -> int:
        self._hooks.append(hook)
        return address_of_hook(hook)

    def raise_failure(self) -> None:
        """Raises PluginError for what a strategy raised, if one did."""
        if self._failure is not None:
            plugin, event, error = self._failure
            raise plugin_error(plugin, event, self._cluster.now_us, error) from error

    # The hooks. Nothing can be raised through compiled code: `raise_failure` does that.

    def _at_notice(self, _context: int, now_us: int) -> None:
        number = self._cluster.number(self._query.job)
        self._try("notice", f"prepare for job {number}", self._prepare, now_us)

    def _at_arrival(self, _context: int, now_us: int) -> None:
        number = self._cluster.number(self._query.job)
        self._try("arrival", f"make_room for job {number}", self._make_room, now_us)

    def _try(self, kind: str, event: str, choose: Callable[[int], None], now_us: int) -> None:
        try:
            choose(now_us)
        except Exception as error:  # noqa: BLE001 - raised by `raise_failure`, when the compiled loop is over
            name = self._names[kind == "arrival"]
            self._failure = (f"hybrid {kind} {name}", event, error)
            self._query.is_none = self._query.failed = 1

    def _prepare(self, now_us: int) -> None:
        query = self._query
        view = View(self._rules, self._warning_us, int(query.lenders_n))
        predicted_us = int(query.predicted_us)
        outlook = NoticeOutlook(view, now_us, int(query.needed), int(query.idle_nodes), predicted_us)
        plan = self._notice.prepare(outlook)
        if plan is None:
            query.is_none = 1
            return
        promised = [int(job) for job in plan.promised]
        stops = [(int(at_us), int(job)) for at_us, job in plan.stops]
        chosen = promised + [job for _, job in stops]
        if chosen:  # figures of candidates are computed when asked for
            self._must_be_of(chosen, outlook.candidates.job.tolist(), "whose nodes nobody else waits for")
        query.collects = bool(plan.collects)
        self._answer(chosen, [0] * len(promised) + [at_us for at_us, _ in stops], len(promised))

    def _make_room(self, now_us: int) -> None:
        query, needed = self._query, int(self._query.needed)
        running = View(self._rules, self._warning_us, int(query.lenders_n)).running(now_us)
        room = self._arrival.make_room(running, needed)
        if room is None:
            query.is_none = 1
            return
        shrink = [(int(job), int(fewer)) for job, fewer in room.shrink]
        preempt = [int(job) for job in room.preempt]
        jobs = running.job.tolist()
        self._must_be_of([job for job, _ in shrink] + preempt, jobs, "that may give nodes")
        spare, nodes = (
            dict(zip(jobs, each.tolist(), strict=True)) for each in (running.spare, running.nodes)
        )
        for job, fewer in shrink:
            if not 0 < fewer <= spare[job]:
                raise ValueError(
                    f"it takes {fewer} nodes from {self._named(job)}, which can give {spare[job]}"
                )
        given = sum(fewer for _, fewer in shrink) + sum(nodes[job] for job in preempt)
        if given < needed:
            raise ValueError(
                f"it makes room of {given} nodes where {needed} are needed; return None if it cannot"
            )
        self._answer([job for job, _ in shrink] + preempt, [fewer for _, fewer in shrink], len(shrink))

    def _must_be_of(self, chosen: Iterable[int], known: Iterable[int], what: str) -> None:
        left = set(known)
        for job in chosen:
            if job not in left:
                raise ValueError(
                    f"it names {self._named(job)}, which is no running job {what}, or names it twice"
                )
            left.discard(job)

    def _named(self, job: int) -> str:
        is_row = 0 <= job < len(self._cluster.kernel_table)
        return f"job {self._cluster.number(job)}" if is_row else f"row {job}"

    def _answer(self, chosen: list[int], fewer: list[int], first: int) -> None:
        """`fewer` nodes, or times, of the first of those chosen at least."""
        self._room.picked[: len(chosen)] = chosen
        self._room.fewer[: len(fewer)] = fewer
        self._query.first_n, self._query.then_n = first, len(chosen) - first
