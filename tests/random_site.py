"""Made sites drawn at random: batch jobs and on-demand requests of any number of weeks, from one generator a site.

Weeks of a site are alike and independent, so that the mean of many is the truth which few of them can only estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.metrics.window import window_figures
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.mechanism import mechanism_of
from emulator.simulation.run import simulate
from emulator.study.merge import WEEK
from emulator.study.settings import SPLIT, Setting
from emulator.sweeps.grid import LABEL
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

US, HOUR_S, DAY_S = 1_000_000, 3_600, 86_400
DAYS = 7
EASY = SchedulerConfig()


@dataclass(frozen=True, slots=True)
class RandomSite:
    """Sizes of both clusters, and what comes on a day."""

    seed: int
    batch_nodes: int
    ondemand_nodes: int
    load: float
    """Of the batch cluster, by node-time over the day; most of it comes in the morning."""
    widest: int
    requests_a_day: float
    request_h: float
    """Mean length of a request."""
    largest: int
    """Nodes of a request at most."""

    @classmethod
    def drawn(cls, seed: int) -> RandomSite:
        rng = np.random.default_rng([41, seed])
        batch = int(rng.integers(8, 17))
        return cls(
            seed=seed,
            batch_nodes=batch,
            ondemand_nodes=(ondemand := int(rng.integers(2, 9))),
            load=float(rng.uniform(0.5, 1.1)),
            widest=int(rng.integers(1, batch // 2 + 1)),
            requests_a_day=float(np.exp(rng.uniform(np.log(0.5), np.log(15)))),
            request_h=float(np.exp(rng.uniform(np.log(0.2), np.log(8)))),
            largest=int(rng.integers(1, ondemand + 1)),
        )

    @property
    def nodes(self) -> int:
        return self.batch_nodes + self.ondemand_nodes

    def week(self, number: int) -> JobTable:
        """Jobs and requests of one week; the split serves every request, as a site's log would have it."""
        rng = np.random.default_rng([self.seed, number])
        batch = list(self._batch(rng))
        asked = list(self._requests(rng))
        rows = [*((*each, Kind.BATCH) for each in batch), *((*each, Kind.ON_DEMAND) for each in asked)]
        rows.sort(key=lambda row: row[0])
        submit_s, run_s, nodes, kind = zip(*rows, strict=True)
        run_us = np.array(run_s, np.int64) * US
        return JobTable.build(
            submit_us=np.array(submit_s, np.int64) * US,
            run_us=run_us,
            estimate_us=2 * run_us,
            nodes=list(nodes),
            kind=np.array(kind, np.int8),
        )

    def _batch(self, rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
        for day in range(DAYS):
            work_s = self.load * rng.uniform(0.7, 1.3) * self.batch_nodes * DAY_S
            while work_s > 0:
                at_s = day * DAY_S + int(rng.triangular(0, 9, 24) * HOUR_S)
                run_s, nodes = int(rng.lognormal(8.3, 1)) + 60, int(rng.integers(1, self.widest + 1))
                yield at_s, run_s, nodes
                work_s -= run_s * nodes

    def _requests(self, rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
        until_s = np.zeros(self.ondemand_nodes)  # when each of today's on-demand nodes is free
        at_s = np.sort(rng.uniform(0, DAYS * DAY_S, 1 + int(rng.poisson(DAYS * self.requests_a_day))))
        for begin_s in at_s.astype(int).tolist():
            nodes, run_s = (
                int(rng.integers(1, self.largest + 1)),
                60 + int(rng.exponential(self.request_h) * HOUR_S),
            )
            free = np.flatnonzero(until_s <= begin_s)[:nodes]
            if len(free):
                until_s[free] = begin_s + run_s
                yield begin_s, run_s, len(free)


def rows_of(site: RandomSite, settings: Iterable[Setting], weeks: Iterable[int]) -> list[dict[str, Any]]:
    """Figures of each setting in each week, as a study has them."""
    found = []
    for week in weeks:
        jobs = site.week(week)
        for setting in settings:
            record = simulate(
                jobs, site.nodes, EASY, mechanism=mechanism_of(setting.mechanism(site.ondemand_nodes, []))
            )
            window = window_figures(record, 0, DAYS * DAY_S)
            found.append(
                {LABEL: setting.label, WEEK: f"week {week}"}
                | {f"window.{name}": value for name, value in window.items()}
            )
    return found


def settings_of(site: RandomSite, waits_min: Iterable[float] = (0,)) -> list[Setting]:
    """Today, and mergers with every reserve."""
    return [
        Setting(SPLIT),
        *(Setting("basic", reserve, wait) for reserve in range(site.ondemand_nodes) for wait in waits_min),
    ]
