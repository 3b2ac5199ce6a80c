"""A cluster's side of a scheduler in plain Python: what it sees, the hook that asks it, and the check of its answer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.seen_jobs import HOOK, SeenJobs, failure_of_pass
from emulator.plugin_failure import plugin_error
from emulator.schedulers.plain import Job, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.cluster.order_callback import OrderHook
    from emulator.kernel import tables as t
    from emulator.schedulers.plain import Decides
    from emulator.workload.table import JobTable


class PolicyHook:
    """The scheduler `policy`, called `kind name`, of one cluster; `order` puts its queue in order before, if asked.

    `use` must follow whenever the cluster's tables moved.
    """

    def __init__(self, name: str, policy: Decides, node_count: int, order: OrderHook | None) -> None:
        self._name = name
        self._policy = policy
        self._node_count = node_count
        self._order = order
        self._seen = SeenJobs()
        self._open: NDArray[np.int64] = np.zeros(0, np.int64)
        self._runs_seen = 0
        self._failure: Exception | None = None
        self._hook = HOOK(self._ask)
        self._address = ctypes.cast(self._hook, ctypes.c_void_p).value or 0

    def learn(self, jobs: JobTable, first: int) -> None:
        self._seen.learn(jobs, first)
        if self._order is not None:
            self._order.learn(jobs, first)

    def use(
        self, job: t.Jobs, queue: t.Ints32, runs: t.Runs, registers: t.Registers, started: t.Ints32
    ) -> None:
        """Work on these tables of the cluster from now on."""
        self._job, self._queue, self._runs, self._registers, self._started = (
            job,
            queue,
            runs,
            registers,
            started,
        )
        if self._order is not None:
            self._order.use(job, queue, runs, registers)
        registers.ask = self._address

    def check(self) -> None:
        """Raises PluginError if the scheduler, or its order, has failed since the last look."""
        if self._failure is not None:
            error = self._failure
            event = getattr(self._policy, "event", "decide")
            raise plugin_error(self._name, event, int(self._registers.now), error) from error
        if self._order is not None:
            self._order.check()

    def ask(self, now_us: int) -> None:
        """What the hook does, for a cluster with a hook of its own."""
        self._ask(0, now_us)

    def _ask(self, _context: int, now_us: int) -> None:
        """The hook; `check` raises what failed in it."""
        self._failure = failure_of_pass(self._order, self._choose, self._registers, now_us) or self._failure

    def _choose(self, now_us: int) -> None:
        queue, registers = self._queue, self._registers
        low, high, free = int(registers.queue_lo), int(registers.queue_hi), int(registers.idle_nodes)
        rows = queue[low:high].tolist()
        waiting = self._seen.waiting(self._job, rows, now_us)
        view = View(now_us, waiting, free, self._node_count, self._running)
        starts = self._policy.decide(now_us, view)
        if starts is None:
            raise ValueError("it returned None; return the jobs that start now, [] for none")
        if not isinstance(starts, Iterable) or isinstance(starts, str | bytes):
            raise TypeError(f"it returned {starts!r}; return the jobs that start now, [] for none")
        chosen = _rows_of(starts, waiting, rows, free)
        if not chosen:
            return
        self._started[: len(chosen)] = chosen
        registers.started_n = len(chosen)
        taken = set(chosen)
        queue[low + len(chosen) : high] = [row for row in rows if row not in taken]
        registers.queue_lo = low + len(chosen)

    def _running(self, now_us: int) -> tuple[Job, ...]:
        """The batch jobs that run, in order of start."""
        count = int(self._registers.runs_n)
        rows = np.concatenate((self._open, np.arange(self._runs_seen, count)))
        self._open, self._runs_seen = rows[self._runs["end_us"][rows] < 0], count
        return self._seen.running(self._job, self._runs["job"][self._open], now_us)


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
