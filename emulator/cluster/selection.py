"""Which nodes a job may have, and gets, where it matters which: a cluster's passes ask its selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING

from emulator.cluster.pass_hook import ChoiceHook

if TYPE_CHECKING:
    from emulator.cluster.order_callback import OrderHook
    from emulator.kernel import tables as t
    from emulator.record.run_record import RunTable
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_FREE = ("order", "backfill", "priorities", "cycle_s")
"""Options of the scheduler that may be any; the others are those of passes that count all nodes as one."""


def check_options(scheduler: SchedulerConfig, where: str) -> None:
    """Raise ValueError for options of the scheduler that are not for such nodes; `where` says which these are."""
    plain = type(scheduler)()
    for name in (each.name for each in fields(scheduler)):
        if name not in _FREE and getattr(scheduler, name) != getattr(plain, name):
            raise ValueError(
                f"scheduler {name.rstrip('_')}: where {where} there is {getattr(plain, name)!r} only"
            )


class Selection(ABC):
    """Of the jobs and nodes of one cluster in virtual time."""

    takes_events = True
    """Whether nodes may fail, be maintained or sleep, and jobs have rules (`ExternalEvents`)."""
    is_at_submit = False
    """Whether a pass is needed at each submit, even if nobody can start."""
    node_names: tuple[str, ...] | None = None
    """Where they are not those of whole nodes."""
    events_us: tuple[int, ...] = ()
    """When a pass is needed though no job is submitted or ends."""

    @abstractmethod
    def start_jobs(self, state: t.State, now_us: int) -> None:
        """A pass: start whoever may start now, on nodes of this choice."""

    def job_table(self, jobs: JobTable, rows: t.Jobs) -> JobTable:  # noqa: ARG002 - a selection may change them
        """All jobs as they became on the nodes they got; `rows`: of the kernel's job table."""
        return jobs

    def run_table(self, runs: RunTable, rows: t.Jobs) -> RunTable:  # noqa: ARG002 - a selection may change them
        """The runs likewise."""
        return runs


def waiting_and_running(state: t.State) -> tuple[int, int]:
    """How many jobs, at most, wait and run."""
    registers = state.registers
    return int(registers.queue_hi - registers.queue_lo), int(registers.runs_n - registers.ended_n)


class SelectionHook(ChoiceHook):
    """The selection of one cluster starts its jobs."""

    def __init__(self, selection: Selection, order: OrderHook | None) -> None:
        super().__init__(order)
        self._selection = selection

    def _choose(self, now_us: int) -> None:
        self._selection.start_jobs(self._state, now_us)
