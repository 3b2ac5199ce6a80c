"""A cluster's side of a scheduler in plain Python: what it sees, the hook that asks it, and the check of its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.pass_hook import ChoiceHook
from emulator.cluster.seen_jobs import SeenJobs
from emulator.plugins.failure import plugin_error
from emulator.schedulers.plain import Job, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.cluster.order_callback import OrderHook
    from emulator.schedulers.plain import Decides
    from emulator.workload.table import JobTable


class PolicyHook(ChoiceHook):
    """The scheduler `policy`, called `kind name`, of one cluster; `order` puts its queue in order before, if asked."""

    def __init__(self, name: str, policy: Decides, node_count: int, order: OrderHook | None) -> None:
        super().__init__(order)
        self._name = name
        self._policy = policy
        self._node_count = node_count
        self._seen = SeenJobs()
        self._open: NDArray[np.int64] = np.zeros(0, np.int64)
        self._runs_seen = 0

    def learn(self, jobs: JobTable, first: int) -> None:
        super().learn(jobs, first)
        self._seen.learn(jobs, first)

    def _raise(self, failure: BaseException) -> None:
        event = getattr(self._policy, "event", "decide")
        raise plugin_error(self._name, event, int(self._state.registers.now), failure) from failure

    def _choose(self, now_us: int) -> None:
        queue, registers = self._state.queue, self._state.registers
        low, high, free = int(registers.queue_lo), int(registers.queue_hi), int(registers.idle_nodes)
        rows = queue[low:high].tolist()
        waiting = self._seen.waiting(self._state.job, rows, now_us)
        view = View(now_us, waiting, free, self._node_count, self._running)
        starts = self._policy.decide(now_us, view)
        if starts is None:
            raise ValueError("it returned None; return the jobs that start now, [] for none")
        if not isinstance(starts, Iterable) or isinstance(starts, str | bytes):
            raise TypeError(f"it returned {starts!r}; return the jobs that start now, [] for none")
        chosen = _rows_of(starts, waiting, rows, free)
        if not chosen:
            return
        self._state.started[: len(chosen)] = chosen
        registers.started_n = len(chosen)
        taken = set(chosen)
        queue[low + len(chosen) : high] = [row for row in rows if row not in taken]
        registers.queue_lo = low + len(chosen)

    def _running(self, now_us: int) -> tuple[Job, ...]:
        """The batch jobs that run, in order of start."""
        runs, count = self._state.runs, int(self._state.registers.runs_n)
        rows = np.concatenate((self._open, np.arange(self._runs_seen, count)))
        self._open, self._runs_seen = rows[runs["end_us"][rows] < 0], count
        return self._seen.running(self._state.job, runs["job"][self._open], now_us)


def _rows_of(starts: Iterable[Any], waiting: tuple[Job, ...], rows: list[int], free: int) -> list[int]:
    """The rows of the jobs that start. Raises ValueError that names the job that cannot."""
    row_of: dict[Any, int] | None = None
    chosen: list[int] = []
    for start in starts:
        if row_of is None:
            row_of = {job.number: row for job, row in zip(waiting, rows, strict=True)}
            nodes_of = {job.number: job.nodes for job in waiting}
            left = free
        given = start.number if isinstance(start, Job) else start
        if isinstance(given, bool) or not isinstance(given, int | np.integer):
            said = f"{start!r} is among the jobs to start, which is neither a job nor a number"
            raise ValueError(said)  # noqa: TRY004 - one kind of error
        number = int(given)
        row = row_of.get(number)
        if row is None:
            raise ValueError(f"it starts job {number}, which does not wait")
        if row in chosen:
            raise ValueError(f"it starts job {number} twice")
        if nodes_of[number] > left:
            besides = f" beside the {len(chosen)} it starts before" if chosen else ""
            raise ValueError(
                f"it starts job {number}, which wants {nodes_of[number]} nodes; {left} are idle{besides}"
            )
        left -= nodes_of[number]
        chosen.append(row)
    return chosen
