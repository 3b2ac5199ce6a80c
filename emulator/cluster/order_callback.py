"""A cluster's side of a queue order that is asked at each pass: what the order sees, and the hook that asks it."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.pass_hook import PassHook
from emulator.cluster.seen_jobs import SeenJobs
from emulator.kernel import reorder as r
from emulator.kernel import tables as t
from emulator.kernel.columns import longer
from emulator.kernel.entry_points import entry_points
from emulator.kernel.rows import address_of, new_rows
from emulator.plugins.failure import plugin_error
from emulator.schedulers.dynamic import (
    VIEW,
    AskedInLoop,
    FairShare,
    HasFairShare,
    HasFixed,
    one_a_job,
    order_keys,
)
from emulator.schedulers.plain import Compiled, Ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.schedulers.dynamic import AskedInPython, QueueView
    from emulator.workload.table import JobTable


_COUNT_USAGE, _LOOK_AT_USAGE = entry_points(r.count_usage, r.look_at_usage)
_NO_PARAMETERS = np.dtype([("none", "f8")])
_NO_PLACE = "the priority NaN, which has no place in an order"


class OrderHook(PassHook):
    """The order `order`, called `name`, of one cluster: it puts the queue in order."""

    def __init__(self, name: str, order: AskedInPython | AskedInLoop | Ranks, node_count: int) -> None:
        super().__init__()
        self.name = name
        self._order = order
        self._node_count = node_count
        self._fair = _fair_share(order) if isinstance(order, HasFairShare) else None
        self._indices: dict[int, int] = {}
        self._accounts = new_rows(r.Account, 64)
        self._open = np.zeros(node_count + 8, np.int64)
        self._counted = new_rows(r.Counted, 1)
        self._view = np.zeros(0, VIEW)
        self._event = _only_method(order)
        self._ranks = order if isinstance(order, Ranks) else None
        self._seen = SeenJobs()
        self._given = new_rows(r.Given, 1)
        self._given[0].half_life_us = self._fair.half_life_us if self._fair else 1.0
        if isinstance(order, AskedInLoop):
            self._parameters: NDArray[Any] = _record_of(order)
            from emulator.cluster import compiled_hook  # noqa: PLC0415 - it loads Numba

            self._score: Any = compiled_hook.compiled_score(order, self._parameters.dtype)
            self._compiled: Any = compiled_hook.hook()
        else:
            self._parameters, self._score = np.zeros(1), None

    def learn(self, jobs: JobTable, first: int) -> None:
        """Jobs that are the rows from `first` on."""
        last = first + len(jobs)
        if last > len(self._view):
            more = np.zeros(max(last, 2 * len(self._view), 64) - len(self._view), VIEW)
            self._view = np.concatenate((self._view, more))
        if self._ranks is not None:
            self._seen.learn(jobs, first)
        rows = self._view[first:last]
        rows["row"] = np.arange(first, last)
        rows["queue"], rows["user"], rows["group"] = jobs.queue, jobs.user, jobs.group
        if self._fair is not None:
            numbers = jobs.user if self._fair.account == "user" else jobs.group
            rows["account"] = [self._index(int(number)) for number in numbers]
            self._give_accounts()
        if isinstance(self._order, HasFixed):
            rows["fixed"] = one_a_job(self._order.fixed(jobs, self._node_count), len(jobs), "fixed")

    def _index(self, number: int) -> int:
        """The place of an account, which is new perhaps."""
        found = self._indices.setdefault(number, len(self._indices))
        if found == self._counted[0].accounts_n:
            if found == len(self._accounts):
                self._accounts = longer(self._accounts, found)
            self._accounts[found].shares = self._fair.shares.get(number, 1.0) if self._fair else 1.0
            self._counted[0].accounts_n += 1
        return found

    def _give_accounts(self) -> None:
        given = self._given[0]
        given.accounts, given.accounts_room = self._accounts.ctypes.data, len(self._accounts)

    def use(self, state: t.State) -> None:
        super().use(state)
        job, queue, runs, registers = state.job, state.queue, state.runs, state.registers
        self._job, self._queue, self._runs, self._registers = job, queue, runs, registers
        if len(self._view) != len(job):
            view = np.zeros(len(job), VIEW)
            view[: min(len(job), len(self._view))] = self._view[: len(job)]
            self._view = view
        self._scores, self._spare = np.zeros(len(job)), np.zeros(len(job), np.int32)
        self._give_accounts()
        given = self._given[0]
        given.job, given.jobs_room = job.ctypes.data, len(job)
        given.runs, given.runs_room = runs.ctypes.data, len(runs)
        given.open_runs, given.open_room = self._open.ctypes.data, len(self._open)
        given.queue, given.registers, given.counted = (
            queue.ctypes.data,
            address_of(registers),
            self._counted.ctypes.data,
        )
        given.waiting, given.parameters = self._view.ctypes.data, self._parameters.ctypes.data
        given.scores, given.spare = self._scores.ctypes.data, self._spare.ctypes.data
        given.score = self._score.address if self._score is not None else 0
        registers.ask_context = self._given.ctypes.data

    def check(self) -> None:
        """Raises PluginError if the order has failed since the last look."""
        if isinstance(self._failure, KeyboardInterrupt):
            raise self._failure
        code = int(self._registers.order_failed)
        if not code:
            return
        error = self._failure
        if code == t.OrderFailure.NOT_A_NUMBER or error is None:
            error = self._of_compiled()
        raise plugin_error(
            f"queue order {self.name}", self._event, int(self._registers.now), error
        ) from error

    def _of_compiled(self) -> Exception:
        """What a compiled order, which gave NaN or raised, says in Python."""
        order: Any = self._order
        registers = self._registers
        for row in np.sort(self._queue[registers.queue_lo : registers.queue_hi]).tolist():
            job = SimpleNamespace(**dict(zip(VIEW.names or (), self._view[row].item(), strict=True)))
            try:
                if math.isnan(_number(order.score(job))):
                    return ValueError(f"it gave the job in row {row} {_NO_PLACE}")
            except Exception as error:  # noqa: BLE001 - it goes into the error that the caller raises
                self._event = f"score of the job in row {row}"
                return error
        return ValueError(f"it gave a job {_NO_PLACE}")

    def _address(self) -> int:
        return super()._address() if self._score is None else int(self._compiled.address)

    def ask(self, now_us: int) -> None:
        if self._score is not None:
            self._compiled.ctypes(int(self._given.ctypes.data), now_us)
        else:
            self._safely(self._reorder, now_us)

    def _reorder(self, now_us: int) -> None:
        job, queue, registers = self._job, self._queue, self._registers
        rows = np.sort(queue[registers.queue_lo : registers.queue_hi])
        if self._ranks is not None:
            self._sort_by(rows, np.array(self._ranked(self._ranks, rows.tolist(), now_us), np.float64))
            return
        r.look(job, queue, registers, self._view, now_us)
        if self._fair is not None:
            counted, half_life_us = self._counted[0], self._fair.half_life_us
            _COUNT_USAGE(
                self._runs,
                self._view,
                self._accounts,
                self._open,
                counted,
                registers,
                now_us,
                float(half_life_us),
            )
            _LOOK_AT_USAGE(queue, registers, self._view, self._accounts, counted)
        given = np.asarray(self._order.priority(now_us, self._shown(rows)), np.float64)  # type: ignore[union-attr]
        if given.shape != rows.shape:
            raise ValueError(f"it gave priorities of shape {given.shape} to {len(rows)} waiting jobs")
        self._sort_by(rows, given)

    def _ranked(self, order: Ranks, rows: list[int], now_us: int) -> list[float]:
        """The rank of each of these waiting jobs."""
        found = []
        for job in self._seen.waiting(self._job, rows, now_us):
            try:
                found.append(_number(order.rank(job)))
            except Exception:
                self._event = f"rank of job {job.number}"
                raise
        return found

    def _sort_by(self, rows: NDArray[np.int32], given: NDArray[np.float64]) -> None:
        """Sort the queue by the priorities of its jobs."""
        job = self._job
        if np.isnan(given).any():
            row = int(rows[np.isnan(given).argmax()])
            which = f"the job in row {row}" if self._ranks is None else f"job {self._seen[row].number}"
            raise ValueError(f"it gave {which} {_NO_PLACE}")
        keys = -order_keys(given)
        job["key"][rows] = np.where(job["key"][rows] == t.FRONT, t.FRONT, keys)
        r.sort_queue(job, self._queue, self._registers, self._spare)

    def _shown(self, rows: NDArray[np.int32]) -> QueueView:
        view = self._view[rows].view(np.recarray)
        view.flags.writeable = False
        return view


def _record_of(order: Any) -> NDArray[np.void]:
    """The numbers among an order's parameters, as the compiled function sees them: one record of floats."""
    if not is_dataclass(order) and not isinstance(order, Compiled):
        raise ValueError(
            f"{type(order).__name__} has `score`, which is compiled with the fields of a dataclass as its parameters: "
            "make it a dataclass; a method called `rank` in its place runs in Python"
        )
    numbers = {
        field.name: float(value)
        for field in (() if isinstance(order, Compiled) else fields(order))
        if isinstance(value := getattr(order, field.name), int | float) and math.isfinite(value)
    }
    dtype = np.dtype([(name, "f8") for name in numbers]) if numbers else _NO_PARAMETERS
    return np.array([tuple(numbers.values()) or (0.0,)], dtype)


def _only_method(order: object) -> str:
    """The method that is asked for priorities. Raises ValueError for an order with several."""
    first, *others = (name for name in ("score", "rank", "priority") if hasattr(order, name))
    if others:
        raise ValueError(f"{type(order).__name__} has {first} and {others[0]}; an order has one of them")
    return first


def _fair_share(order: HasFairShare) -> FairShare:
    """Raises TypeError for what is none."""
    found: object = order.fair_share()
    if not isinstance(found, FairShare):
        raise TypeError(f"fair_share returned {found!r}; return a FairShare (emulator.schedulers.dynamic)")
    return found


def _number(said: Any) -> float:
    """Raises TypeError for what is none, such as a text of digits."""
    if not hasattr(said, "__float__"):
        raise TypeError(f"it returned {said!r}; return a number")
    return float(said)
