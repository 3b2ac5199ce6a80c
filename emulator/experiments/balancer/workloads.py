"""The paper's workloads: its own logs where the user has them, a generated stand-in with its figures where not.

Nothing here is fitted to a claim. Load and number of jobs and leases are the paper's (III-A, Table I); the
stand-in's shapes are Table II's mean and spread of nodes and run times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.predictors.interface import Slots
from emulator.workload.generators import BurstyLeases
from emulator.workload.streams import stream

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.table import JobTable

NODES, ONDEMAND_NODES = 372, 68
"""The combined cluster: 304 batch and 68 on-demand nodes (III-A)."""
WEEK_S = 604_800
LEASES = 141
"""In the challenging week (Table I)."""
FACTORS = {1.25: 1, 2.5: 2, 5.0: 4, 10.0: 8, 20.0: 16, 30.0: 24}
"""On-demand load in per cent of the cluster: factor on the nodes of the leases (III-B.2)."""
BATCH_LOAD = {"U66-N": 0.665, "U66-M": 0.665, "U66-W": 0.665, "U77-M": 0.77, "U88-M": 0.88}
"""The five synthetic batch workloads: narrow, mainstream, wide, and two with jobs injected (III-B.1)."""
CHALLENGING_WEEK, WEEK_BEFORE = "2015-04-05.csv.xz", "2015-03-29.csv.xz"
_SAMPLE = 0.006
_HISTORY_DAYS = 28


@dataclass(frozen=True, slots=True)
class Workloads:
    """Parts of scenarios. `traces`: a folder with `lcrc/`, the paper's batch logs; None: the stand-in."""

    traces: Path | None

    @property
    def begin_s(self) -> int:
        """The measured week begins here; the stand-in has a week before it that fills the cluster."""
        return 0 if self.traces else WEEK_S

    def challenging(self) -> dict[str, Any]:
        """The challenging week's jobs and leases (III-A)."""
        leases = self._leases()
        if self.traces is None:
            return {"generate": [self._batch(0.788, jobs=2 * 24_177), leases]}
        return {
            "trace": str(self.traces / "lcrc" / CHALLENGING_WEEK),
            "origin_s": 0,
            "generate": [leases],
            "transforms": [self._preload()],
        }

    def synthetic(self, batch: str, rho: float, *, split: bool = False) -> dict[str, Any]:
        """One of the five batch workloads with leases of `rho` per cent (III-B).

        Wide and narrow are made of the mainstream workload, which is injected to its load in any case: one
        per cent of the jobs, drawn at random, has a load that differs by a quarter from draw to draw.
        """
        span_s = self.begin_s + WEEK_S
        changes: list[Any] = []
        if self.traces is not None:
            changes.append({"sample": {"share": _SAMPLE}})
        changes.append({"inject": {"load": BATCH_LOAD[batch], "span_s": span_s}})
        changes += [{"W": "widen", "N": "narrow"}[batch[-1]]] if batch[-1] in "WN" else []
        changes.append({"multiply_leases": {"factor": FACTORS[rho]}})
        changes += ["split_leases"] if split else []
        if self.traces is None:
            # The rest, up to the load, is injected: the same jobs at other times, as in the paper.
            return {"generate": [self._batch(0.6), self._leases()], "transforms": changes}
        source = {"trace": str(self.traces / "lcrc"), "origin_s": 0, "generate": [self._leases()]}
        return {**source, "transforms": [*changes, self._preload()]}

    def leases(self, seed: int) -> JobTable:
        """The leases of a run with this seed, before they are multiplied."""
        place = 0 if self.traces else 1
        return _generate(self._leases(), stream(seed, f"workload.generate.{place}"))

    def history(self, seed: int, rho: float, *, weekly: bool) -> list[int]:
        """Nodes requested in the slots of the four weeks before a run, as the service would remember them.

        `weekly`: every one of them was like the week to come. Otherwise they are other weeks of the same
        generator, which share the hours of work with it and nothing else.
        """
        if weekly:
            leases, first_s = self.leases(seed), self.begin_s
            return _requested(leases, first_s, WEEK_S, FACTORS[rho]) * (_HISTORY_DAYS // 7)
        past = _generate(_leases(_HISTORY_DAYS), stream(seed, "experiments.balancer.history"))
        return _requested(past, 0, _HISTORY_DAYS * 86_400, FACTORS[rho])

    def _leases(self) -> dict[str, Any]:
        return _leases((self.begin_s + WEEK_S) // 86_400)

    def _batch(self, load: float, jobs: int | None = None) -> dict[str, Any]:
        shapes = {
            "days": (self.begin_s + WEEK_S) // 86_400,
            "load": load,
            "median_run_s": 800,
            "run_spread": 1.78,
            "max_walltime_s": WEEK_S,
            "serial_share": 0.86,
            "widest_share": 0.172,
        }
        return {"daily_batch": shapes | ({"jobs": jobs} if jobs else {})}

    def _preload(self) -> dict[str, Any]:
        trace = str((self.traces or "") / "lcrc" / WEEK_BEFORE) if self.traces else ""
        return {"preload": {"trace": trace, "at_s": WEEK_S}}


def _leases(days: int) -> dict[str, Any]:
    """Leases with the number, load and burstiness of the challenging week, which are the generator's defaults."""
    return {"bursty_leases": {"days": days, "leases_per_day": LEASES / 7}}


def _generate(item: dict[str, Any], rng: np.random.Generator) -> JobTable:
    return BurstyLeases(**item["bursty_leases"]).generate(rng, nodes=NODES)


def _requested(leases: JobTable, first_s: int, span_s: int, factor: int) -> list[int]:
    slots = Slots()
    slot = (leases.submit_us - first_s * 1_000_000) // slots.length_us
    count = span_s * 1_000_000 // slots.length_us
    inside = (slot >= 0) & (slot < count)
    counts = np.bincount(slot[inside], weights=leases.nodes[inside] * factor, minlength=count)
    return [int(each) for each in counts]
