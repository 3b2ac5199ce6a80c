"""Jobs that may have several sizes: a pass chooses one of them as they start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.cluster_tables import BACKFILL_RULES
from emulator.cluster.moldable import ASKED, Sizes
from emulator.cluster.selection import Selection, check_options, waiting_and_running
from emulator.kernel import molding as m
from emulator.kernel.entry_points import entry_point

if TYPE_CHECKING:
    from emulator.kernel import tables as t
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

CHOICES = {each.name.lower(): each for each in m.SizeRule}


class MoldableSelection(Selection):
    """Of `node_count` nodes for these jobs; `choose` is one of CHOICES.

    Raises ValueError for options of the scheduler that are not for such jobs, and for a size that no nodes can hold.
    """

    def __init__(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, choose: str) -> None:
        check_options(scheduler, "jobs have several sizes (moldable)")
        sizes = Sizes.of(jobs)
        width, limit = sizes.size["nodes"], sizes.size["estimate_us"]
        wrong = (width < 1) | (width > node_count) | (sizes.size["run_us"] < 0) | (limit < 1)
        if wrong.any():
            row = int(np.searchsorted(sizes.first, np.flatnonzero(wrong)[0], side="right")) - 1
            raise ValueError(
                f"moldable: job {jobs.number[row]} has a size that {node_count} nodes cannot hold, or without times"
            )
        self._sizes = sizes
        self._rule = int(BACKFILL_RULES[scheduler.backfill])
        self._size_rule = int(CHOICES[choose])
        # A job gets its size even if nobody can start.
        self.is_at_submit = self._size_rule == m.SizeRule.AT_SUBMIT
        self._mold_jobs = entry_point(m.mold_jobs)
        only = np.diff(sizes.first) == 1
        self._fixed = np.where(only, sizes.first[:-1], -1)
        self._make_plan(64)

    def _make_plan(self, steps: int) -> None:
        self._molding = m.Molding(
            first=self._sizes.first,
            size=self._sizes.size,
            fixed=self._fixed,
            at=np.zeros(steps, np.int64),
            level=np.zeros(steps, np.int64),
            narrowest=np.zeros(steps, np.int64),
        )

    def start_jobs(self, state: t.State, now_us: int) -> None:
        waiting, running = waiting_and_running(state)
        most = running + 2 * waiting + 8
        if most > len(self._molding.at):
            self._make_plan(2 * most)
        self._mold_jobs(state, self._molding, now_us, self._size_rule, self._rule)

    def job_table(self, jobs: JobTable, rows: t.Jobs) -> JobTable:
        """All jobs; those that have begun with the nodes and times of the size that they got."""
        table = rows[: len(jobs)]
        begun = table["run_row"] >= 0
        had: dict[str, Any] = {
            name: np.where(begun, table[name], getattr(jobs, name)).astype(getattr(jobs, name).dtype)
            for name in ("nodes", "run_us", "estimate_us")
        }
        return replace(jobs.with_extra(**{ASKED: jobs.nodes}), **had)
