"""The runs of the paper's experiments: which settings, on which workloads, under which label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.experiments.atlas.figures import overlap
from emulator.experiments.balancer.read import MAUI, Item, ReadingChoice
from emulator.experiments.balancer.workloads import (
    AT_ONCE,
    BATCH_LOAD,
    FACTORS,
    NODES,
    ONDEMAND_NODES,
    WEEK_S,
    Workloads,
)
from emulator.runs.preparation import prepare
from emulator.sweeps.grid import LABEL, Sweep, make_run
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.experiments.paper import Options
    from emulator.sweeps.grid import Run

RESERVES, WAITS_MIN = (0, 6, 12), (0, 5, 10)
STATIC_RESERVES = (0, 30, 60, 90, 120, 150)
MAINSTREAM = ("U66-M", "U77-M", "U88-M")
RHO = 10.0
"""Per cent, in Figure 3 and where one load stands for all."""
NO_BACKFILL = "fcfs"
"""Prefix of the labels of runs without backfilling."""
AT_ONCE_LOADS = ("U66-N", "U66-M")
"""Batch workloads whose least load with rejections is looked for with fewer leases at once, too."""


def rhos(options: Options) -> tuple[float, ...]:
    return (RHO,) if options.quick else tuple(FACTORS)


def fits(batch: str, rho: float) -> bool:
    """Combinations that exceed the cluster are skipped, as in the paper."""
    return BATCH_LOAD[batch] + rho / 100 <= 1


def experiments(options: Options) -> Sweep:
    """All runs. Raises ScenarioError."""
    workloads = _workloads(options)
    return Sweep(
        "balancer",
        tuple(
            _run(options, seed, item)
            for seed in options.seed_list(5)
            for item in _all(workloads, options, seed)
        ),
    )


def baseline(options: Options) -> Run:
    """The challenging week with all nodes for batch: Table I's first row. Raises ScenarioError."""
    return _run(options, options.first_seed, next(_table_1(_workloads(options), options)))


def inputs(options: Options) -> dict[str, float]:
    """What the paper says of the challenging week's leases, of the generated ones. Raises ScenarioError."""
    jobs = prepare(baseline(options).scenario).jobs
    leases = jobs.kind == Kind.ON_DEMAND
    submit_us, run_us, nodes = jobs.submit_us[leases], jobs.run_us[leases], jobs.nodes[leases]
    in_minute = np.searchsorted(submit_us, submit_us + 60 * US) - np.arange(len(submit_us))
    return {
        "leases": float(len(submit_us)),
        "ondemand_load": float((run_us / US) @ nodes / (NODES * WEEK_S)),
        "busiest_minute": float(in_minute.max()),
        "overlap": overlap(jobs, leases),
    }


def _workloads(options: Options) -> Workloads:
    return Workloads(options.traces.absolute() if options.traces else None, ReadingChoice.of(options).leases)


def _run(options: Options, seed: int, item: Item) -> Run:
    label, workload, mechanism, scheduler = ReadingChoice.of(options).applied(item)
    document = {
        "name": label,
        "seed": seed,
        "nodes": NODES,
        "workload": workload,
        "scheduler": scheduler,
        "mechanism": mechanism,
        "results": {"window_s": [0, WEEK_S]},
    }
    return make_run(document, {LABEL: label}, where=label)


_HINT_30 = {"balancer": {"algorithm": "hint", "notice_s": 1800}}


def _all(workloads: Workloads, options: Options, seed: int) -> Iterator[Item]:
    yield from _table_1(workloads, options)
    if not options.quick:
        yield from _table_1_otherwise(workloads, seed)
        yield from _fewer_at_once(workloads, options, seed)
    yield from _figure_2_and_3(workloads, options)
    yield from _figure_4_and_5(workloads, options, seed)


_REFILLED = ("U66-M", "U88-M")
"""Batch workloads of which a claim looks at a reserve that idle nodes fill again."""
_STATIC = {"static_partition": {"ondemand_nodes": ONDEMAND_NODES}}


def _table_1(workloads: Workloads, options: Options) -> Iterator[Item]:
    week = workloads.challenging()
    for prefix, scheduler in (("t1", "fcfs+easy"), (f"t1-{NO_BACKFILL}", "fcfs+none")):
        yield f"{prefix}/batch", week, None, scheduler
        yield f"{prefix}/static", week, _STATIC, scheduler
        for reserve in RESERVES:
            for wait_min in WAITS_MIN:
                ends = {(0, 0), (12, 0), (0, 5), (6, 10)}
                if (prefix == "t1" and not options.quick) or (reserve, wait_min) in ends:
                    policy = {"static_reserve": reserve, "wait_s": 60 * wait_min}
                    yield f"{prefix}/R{reserve}W{wait_min}", week, {"balancer": policy}, scheduler


def readings(options: Options) -> dict[str, str]:
    """Other readings of Table I that are run: what they are, by the prefix of their labels."""
    if options.quick:
        return {}
    found = {
        "t1-depth-all": "every waiting job has a reservation (conservative)",
        "t1-depth-0": "backfilling without reservations (depth 0)",
        "t1-refilled": "idle nodes fill the reserve again",
        "t1-maui": "wide jobs first, a scheduling cycle of 120 s, 60 s for each job's start and end",
        "t1-empty": "the cluster is empty at the begin",
        "t1-walltime": "jobs sleep for their walltime",
    }
    if options.traces is not None:
        found["t1-fewer"] = "24 177 jobs: without 373 that ran past their walltime and 11 twins"
        if (options.traces / "aps").is_dir():
            found["t1-aps"] = "leases of real weeks with experiments"
    else:
        found["t1-at-once"] = "never more than 11 leases at once"
    return found


def _table_1_otherwise(workloads: Workloads, seed: int) -> Iterator[Item]:
    """Table I's corners under each reading of what the paper leaves open."""
    easy, week = "fcfs+easy", workloads.challenging()
    depth_0 = {"order": "fcfs", "backfill": "easy", "protect_head": False}
    variants: dict[str, tuple[dict[str, Any], str | dict[str, Any]]] = {
        "t1-depth-all": (week, "fcfs+conservative"),
        "t1-depth-0": (week, depth_0),
        "t1-empty": (workloads.challenging(busy=False), easy),
        "t1-walltime": (workloads.challenging(run_to_walltime={}), easy),
    }
    if workloads.traces is not None:
        fewer = workloads.challenging(leave_out={"overrun": True, "twins": True})
        variants["t1-fewer"] = (fewer, easy)
        real = workloads.real_leases(seed)
        if real is not None:
            # What of a lease's week lies behind the end of the batch week is left out.
            variants["t1-aps"] = (workloads.challenging(real, window={"begin_s": 0, "end_s": WEEK_S}), easy)
    else:
        variants["t1-at-once"] = (workloads.challenging(AT_ONCE), easy)
    slow = workloads.challenging(job_overhead={"overhead_s": 60})
    variants |= {"t1-refilled": (week, easy), "t1-maui": (slow, MAUI)}
    for prefix, (workload, scheduler) in variants.items():
        rule = {"reserve_rule": "refilled"} if prefix == "t1-refilled" else {}
        yield f"{prefix}/batch", workload, None, scheduler
        yield f"{prefix}/static", workload, _STATIC, scheduler
        for reserve in (0, 12):
            policy = {"static_reserve": reserve, **rule}
            yield f"{prefix}/R{reserve}W0", workload, {"balancer": policy}, scheduler


def _fewer_at_once(workloads: Workloads, options: Options, seed: int) -> Iterator[Item]:
    """Figures 2 to 5 with leases that are never more at once than in the weeks their shapes come from."""

    def workload(batch: str, rho: float) -> dict[str, Any]:
        return workloads.synthetic(batch, rho, leases=AT_ONCE)

    for batch in BATCH_LOAD:
        for rho in rhos(options):
            if fits(batch, rho) and (rho == RHO or batch in AT_ONCE_LOADS):
                yield f"at-once-basic/{batch}/{rho:g}", workload(batch, rho), {"balancer": {}}, "fcfs+easy"
        yield f"at-once-H30/{batch}/{RHO:g}", workload(batch, RHO), _HINT_30, "fcfs+easy"
    for batch in MAINSTREAM:
        announced = _announced(workloads, seed, RHO, AT_ONCE)
        for name in ("H15", "predictive"):
            yield (
                f"at-once-{name}/{batch}/{RHO:g}",
                workload(batch, RHO),
                {"balancer": announced[name]},
                "fcfs+easy",
            )
        for reserve in STATIC_RESERVES[1:]:
            policy = {"balancer": {"static_reserve": reserve}}
            yield f"at-once-R{reserve}/{batch}", workload(batch, RHO), policy, "fcfs+easy"


def _figure_2_and_3(workloads: Workloads, options: Options) -> Iterator[Item]:
    for batch in BATCH_LOAD:
        for rho in rhos(options):
            if fits(batch, rho):
                yield f"basic/{batch}/{rho:g}", workloads.synthetic(batch, rho), {"balancer": {}}, "fcfs+easy"
    for batch in MAINSTREAM:
        for reserve in STATIC_RESERVES[1:]:
            policy = {"balancer": {"static_reserve": reserve}}
            yield f"R{reserve}/{batch}", workloads.synthetic(batch, RHO), policy, "fcfs+easy"
        if not options.quick or batch in _REFILLED:
            again = {"balancer": {"static_reserve": 120, "reserve_rule": "refilled"}}
            yield f"refilled-R120/{batch}", workloads.synthetic(batch, RHO), again, "fcfs+easy"
        for reserve in () if options.quick else (0, 120):
            policy = {"balancer": {"static_reserve": reserve}}
            split = workloads.synthetic(batch, RHO, split=True)
            yield f"split-R{reserve}/{batch}", split, policy, "fcfs+easy"


def _figure_4_and_5(workloads: Workloads, options: Options, seed: int) -> Iterator[Item]:
    for batch in BATCH_LOAD:
        for rho in rhos(options):
            if not fits(batch, rho):
                continue
            workload = workloads.synthetic(batch, rho)
            announced = _announced(workloads, seed, rho)
            if not options.quick:
                announced |= _predicted_otherwise(workloads, seed, rho)
            everywhere = ("H30",) if options.quick else ("H15", "H30", "predictive")
            for name, mechanism in announced.items():
                if name in everywhere or (rho == RHO and batch in MAINSTREAM):
                    yield f"{name}/{batch}/{rho:g}", workload, {"balancer": mechanism}, "fcfs+easy"
    for batch in () if options.quick else MAINSTREAM:
        split = workloads.synthetic(batch, RHO, split=True)
        yield f"split-H30/{batch}", split, _HINT_30, "fcfs+easy"


def _announced(workloads: Workloads, seed: int, rho: float, leases: Any = None) -> dict[str, dict[str, Any]]:
    """Hint and predictive."""
    other = workloads.history(seed, rho, weekly=False, leases=leases)
    return {
        "H15": {"algorithm": "hint", "notice_s": 900},
        "H30": {"algorithm": "hint", "notice_s": 1800},
        "predictive": {"algorithm": "hint", "predictor": "peak", "history": other},
    }


def _predicted_otherwise(workloads: Workloads, seed: int, rho: float) -> dict[str, dict[str, Any]]:
    """Predictive under each other reading of what the paper leaves open."""
    other = workloads.history(seed, rho, weekly=False)
    alike = workloads.history(seed, rho, weekly=True)
    held = workloads.history(seed, rho, weekly=False, at_once=True)
    predictors: dict[str, dict[str, Any]] = {
        "predictive-weekly": {"predictor": "peak", "history": alike},
        "predictive-hold": {"predictor": "peak", "history": other, "keep": "hold"},
        "predictive-window": {"predictor": {"peak": {"window": True}}, "history": other},
        "predictive-held": {"predictor": {"peak": {"window": True}}, "history": held},
        "seasonal": {"predictor": "seasonal_quantile", "history": other},
        "recency": {"predictor": "recency_weighted", "history": other},
    }
    return {name: {"algorithm": "hint", **predictor} for name, predictor in predictors.items()}
