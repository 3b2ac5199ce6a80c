"""The paper's workloads: its own logs, or a generated stand-in with its figures.

Nothing here is fitted to a claim. Numbers and loads are the paper's (III-A, Tables I and II); the shapes of the
stand-in and of the leases come from other weeks of the same machines (`emulator/workload/paper_workloads.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.predictors.interface import Slots
from emulator.experiments.logs import find_log
from emulator.workload.generators import parse_generators
from emulator.workload.streams import stream

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.table import JobTable

NODES, ONDEMAND_NODES = 372, 68
"""The combined cluster: 304 batch and 68 on-demand nodes (III-A)."""
WEEK_S = 604_800
FACTORS = {1.25: 1, 2.5: 2, 5.0: 4, 10.0: 8, 20.0: 16, 30.0: 24}
"""On-demand load in per cent of the cluster: factor on the nodes of the leases (III-B.2)."""
BATCH_LOAD = {"U66-N": 0.665, "U66-M": 0.665, "U66-W": 0.665, "U77-M": 0.77, "U88-M": 0.88}
"""The five synthetic batch workloads: narrow, mainstream, wide, and two with jobs injected (III-B.1)."""
CHALLENGING_WEEK, WEEK_BEFORE = "2015-04-05.csv", "2015-03-29.csv"
EXPERIMENT_WEEKS = (
    "2014-01-19", "2014-04-27", "2014-05-04", "2014-05-11", "2014-05-18", "2014-05-25", "2014-07-20", "2014-09-21",
)  # fmt: skip
"""APS weeks with experiments: the shapes of the stand-in's leases are theirs."""
AT_ONCE = {"aps_leases": {"most_at_once": 11}}
"""Leases as by default, but never more at a time than in those weeks."""
_SAMPLE = 0.006
_HISTORY_WEEKS = 4


@dataclass(frozen=True, slots=True)
class Workloads:
    """Parts of scenarios. `traces`: a folder with `lcrc/`, the paper's batch logs; None: the stand-in."""

    traces: Path | None
    leases: Any = "aps_leases"
    """The leases where nothing else is asked for."""

    def challenging(self, leases: Any = None, *, busy: bool = True, **first: Any) -> dict[str, Any]:
        """The challenging week's jobs and leases, behind what ran before (III-A).

        `busy` false: without that. `first`: transforms that come before it.
        """
        changes: list[Any] = [{name: parameters} for name, parameters in first.items()]
        leases = leases or self.leases
        if self.traces is None:
            batch = {"lcrc_batch": {"load": 0.844, "jobs": 24_177}}
            changes += ["wrap_around"] if busy else []
            return {"generate": [batch, leases], "transforms": changes}
        before = {"trace": str(find_log(self.traces / "lcrc", WEEK_BEFORE)), "at_s": WEEK_S}
        changes += [{"preload": before}] if busy else []
        return {
            "trace": str(find_log(self.traces / "lcrc", CHALLENGING_WEEK)),
            "origin_s": 0,
            "generate": [leases],
            "transforms": changes,
        }

    def real_leases(self, seed: int) -> dict[str, Any] | None:
        """The leases of a real week with experiments, another one for each of eight seeds; None without logs."""
        if self.traces is None or not (self.traces / "aps").is_dir():
            return None
        week = EXPERIMENT_WEEKS[seed % len(EXPERIMENT_WEEKS)]
        return {"packed_jobs": {"trace": str(find_log(self.traces / "aps", f"{week}.csv"))}}

    def synthetic(self, batch: str, rho: float, *, split: bool = False, leases: Any = None) -> dict[str, Any]:
        """One of the five batch workloads with leases of `rho` per cent (III-B).

        Wide and narrow are made of the mainstream workload. One per cent of the jobs, drawn at random, has a
        load that differs by a quarter from draw to draw, so fewer are drawn and the rest is injected.
        """
        changes: list[Any] = []
        leases = leases or self.leases
        if self.traces is not None:
            changes.append({"sample": {"share": _SAMPLE}})
        if self.traces is not None or BATCH_LOAD[batch] > BATCH_LOAD["U66-M"]:
            changes.append({"inject": {"load": BATCH_LOAD[batch]}})
        changes += [{"W": "widen", "N": "narrow"}[batch[-1]]] if batch[-1] in "WN" else []
        changes.append({"multiply_leases": {"factor": FACTORS[rho]}})
        changes += ["split_leases"] if split else []
        changes.append("wrap_around")
        if self.traces is None:
            return {"generate": ["lcrc_batch", leases], "transforms": changes}
        trace = str(self.traces / "lcrc")
        return {"trace": trace, "origin_s": 0, "generate": [leases], "transforms": changes}

    def history(
        self, seed: int, rho: float, *, weekly: bool, leases: Any = None, at_once: bool = False
    ) -> list[int]:
        """Nodes requested in the slots of the four weeks before a run, as the service would remember them.

        `at_once`: the most nodes that leases had at once in each slot, in place of their sum.

        `weekly`: every one of them was like the week to come. Otherwise they are other weeks of the same
        generator, which share the hours of work with it and nothing else.
        """
        place = 0 if self.traces else 1
        names = [f"experiments.balancer.history.{week}" for week in range(_HISTORY_WEEKS)]
        if weekly:
            names = [f"workload.generate.{place}"] * _HISTORY_WEEKS
        generator = json.dumps(leases or self.leases)
        weeks = [_week_of_leases(generator, seed, name) for name in names]
        count = _held_at_once if at_once else _requested
        return [nodes for week in weeks for nodes in count(week, FACTORS[rho])]


@lru_cache(maxsize=64)
def _week_of_leases(generator: str, seed: int, name: str) -> JobTable:
    """A week by this generator (as JSON); kept, because the runs of a seed have the same few weeks behind them."""
    (made,) = parse_generators([json.loads(generator)])
    return made.generate(stream(seed, name), nodes=NODES)


def _requested(leases: JobTable, factor: int) -> list[int]:
    """Nodes requested in each slot of a week."""
    slots = Slots()
    counts = np.bincount(
        leases.submit_us // slots.length_us, weights=leases.nodes * factor, minlength=7 * slots.a_day
    )
    return [int(each) for each in counts]


def _held_at_once(leases: JobTable, factor: int) -> list[int]:
    """The most nodes that leases have at once in each slot of a week."""
    length_us, count = Slots().length_us, 7 * Slots().a_day
    begin_us, end_us = leases.submit_us, leases.submit_us + leases.run_us
    edges_us = np.concatenate((begin_us, end_us, np.arange(count) * length_us))
    change = np.concatenate((leases.nodes, -leases.nodes, np.zeros(count, np.int64)))
    order = np.lexsort((change, edges_us))  # ends first
    slot, held = edges_us[order] // length_us, np.cumsum(change[order])
    return [int(held[slot == each].max(initial=0)) * factor for each in range(count)]
