"""The runs of the paper's experiments: which settings, on which workloads, under which label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.experiments.balancer.workloads import (
    BATCH_LOAD,
    FACTORS,
    NODES,
    ONDEMAND_NODES,
    WEEK_S,
    Workloads,
)
from emulator.sweep.grid import LABEL, Sweep, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.experiments.paper import Options

RESERVES, WAITS_MIN = (0, 6, 12), (0, 5, 10)
STATIC_RESERVES = (0, 30, 60, 90, 120, 150)
MAINSTREAM = ("U66-M", "U77-M", "U88-M")
RHO = 10.0
"""Per cent, in Figure 3 and where one load stands for all."""
NO_BACKFILL = "fcfs"
"""Prefix of the labels of runs without backfilling."""
_FIRST_SEED = 1001
"""Seeds of the claims; 1 to 1000 are for trying things out."""


def seeds(options: Options) -> list[int]:
    count = options.seeds or (1 if options.quick else 5)
    return list(range(_FIRST_SEED, _FIRST_SEED + count))


def rhos(options: Options) -> tuple[float, ...]:
    return (RHO,) if options.quick else tuple(FACTORS)


def fits(batch: str, rho: float) -> bool:
    """Combinations that exceed the cluster are skipped, as in the paper."""
    return BATCH_LOAD[batch] + rho / 100 <= 1


def experiments(options: Options) -> Sweep:
    """All runs. Raises ScenarioError."""
    workloads = Workloads(options.traces.absolute() if options.traces else None)
    runs = []
    for seed in seeds(options):
        for label, workload, mechanism, scheduler in _all(workloads, options, seed):
            document = {
                "name": label,
                "seed": seed,
                "nodes": NODES,
                "workload": workload,
                "scheduler": scheduler,
                "mechanism": mechanism,
                "results": {"window_s": [0, WEEK_S]},
            }
            runs.append(make_run(document, {LABEL: label}, where=label))
    return Sweep("balancer", tuple(runs))


_Item = tuple[str, dict[str, Any], dict[str, Any] | None, str]


def _all(workloads: Workloads, options: Options, seed: int) -> Iterator[_Item]:
    yield from _table_1(workloads, options)
    yield from _figure_2_and_3(workloads, options)
    yield from _figure_4_and_5(workloads, options, seed)


def _table_1(workloads: Workloads, options: Options) -> Iterator[_Item]:
    week = workloads.challenging()
    static = {"static_partition": {"ondemand_nodes": ONDEMAND_NODES}}
    for prefix, scheduler in (("t1", "fcfs+easy"), (f"t1-{NO_BACKFILL}", "fcfs+none")):
        yield f"{prefix}/batch", week, None, scheduler
        yield f"{prefix}/static", week, static, scheduler
        for reserve in RESERVES:
            for wait_min in WAITS_MIN:
                ends = {(0, 0), (12, 0), (0, 5), (6, 10)}
                if (prefix == "t1" and not options.quick) or (reserve, wait_min) in ends:
                    policy = {"static_reserve": reserve, "wait_s": 60 * wait_min}
                    yield f"{prefix}/R{reserve}W{wait_min}", week, {"balancer": policy}, scheduler


def _figure_2_and_3(workloads: Workloads, options: Options) -> Iterator[_Item]:
    for batch in BATCH_LOAD:
        for rho in rhos(options):
            if fits(batch, rho):
                yield f"basic/{batch}/{rho:g}", workloads.synthetic(batch, rho), {"balancer": {}}, "fcfs+easy"
    for batch in MAINSTREAM:
        for reserve in STATIC_RESERVES[1:]:
            policy = {"balancer": {"static_reserve": reserve}}
            yield f"R{reserve}/{batch}", workloads.synthetic(batch, RHO), policy, "fcfs+easy"
        for reserve in (0, 120):
            policy = {"balancer": {"static_reserve": reserve}}
            split = workloads.synthetic(batch, RHO, split=True)
            yield f"split-R{reserve}/{batch}", split, policy, "fcfs+easy"


def _figure_4_and_5(workloads: Workloads, options: Options, seed: int) -> Iterator[_Item]:
    for batch in BATCH_LOAD:
        for rho in rhos(options):
            if not fits(batch, rho):
                continue
            workload = workloads.synthetic(batch, rho)
            for name, mechanism in _announced(workloads, seed, rho).items():
                if name in ("H15", "H30", "predictive") or (rho == RHO and batch in MAINSTREAM):
                    yield f"{name}/{batch}/{rho:g}", workload, {"balancer": mechanism}, "fcfs+easy"
    for batch in MAINSTREAM:
        split = workloads.synthetic(batch, RHO, split=True)
        yield f"split-H30/{batch}", split, {"balancer": {"algorithm": "hint", "notice_s": 1800}}, "fcfs+easy"


def _announced(workloads: Workloads, seed: int, rho: float) -> dict[str, dict[str, Any]]:
    """Hint and predictive, the latter under each reading of what the paper leaves open."""
    other = workloads.history(seed, rho, weekly=False)
    alike = workloads.history(seed, rho, weekly=True)
    predictors = {
        "predictive": {"name": "peak", "history": other},
        "predictive-weekly": {"name": "peak", "history": alike},
        "predictive-hold": {"name": "peak", "history": other, "keep": "hold"},
        "predictive-window": {"name": "peak", "history": other, "window": True},
        "seasonal": {"name": "seasonal_quantile", "history": other},
        "recency": {"name": "recency_weighted", "history": other},
    }
    return {
        "H15": {"algorithm": "hint", "notice_s": 900},
        "H30": {"algorithm": "hint", "notice_s": 1800},
        **{name: {"algorithm": "hint", "predictor": predictor} for name, predictor in predictors.items()},
    }
