"""The runs of the paper's experiments: which settings, on which workloads, under which label."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.experiments.atlas.figures import mean_node_s, overlap
from emulator.experiments.hybrid.read import TRACE, kinds_for
from emulator.experiments.readings import value_of
from emulator.runs.preparation import prepare
from emulator.sweeps.grid import LABEL, Sweep, make_run
from emulator.workload.hybrid_kinds import MIXES, JobClass
from emulator.workload.hybrid_machines import CoriMonths, Machine, ThetaYear
from emulator.workload.table import Kind
from emulator.workload.theta_logs import ThetaLogs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from emulator.experiments.paper import Options
    from emulator.sweeps.grid import Run

STRATEGIES = ("n+paa", "n+spaa", "cua+paa", "cua+spaa", "cup+paa", "cup+spaa")
BASELINE = "baseline"
MIX = "W5"
"""The mix where one stands for all (section V-C to V-E do not say which; W5 has equal shares)."""
MTBFS_H = (5, 50)
SCALES = (0.25, 0.5, 1.0, 2.0)
"""Checkpoint intervals over the optimum (Figure 8)."""
SHARES = (0.2, 0.4, 0.6, 0.8)
"""Least over most nodes of malleable jobs (Figure 9)."""
SETUPS = ((0, 5), (5, 10), (10, 15), (15, 20))
"""Setup of rigid jobs in per cent of the run time (Figure 10)."""
CORI_SEEDS = 5
"""Traces of Cori's months: as many as a claim needs at least (`criteria.LEVEL`)."""
_CORI_COST = 30
_THETAS: dict[str, Machine] = {each.NAME: each for each in (ThetaYear(), ThetaLogs())}


@dataclass(frozen=True, slots=True)
class Trace:
    """A made trace of one machine, whole or (`--quick`) a part of it with as many jobs a day."""

    name: str
    nodes: int
    generator: str
    days: int
    jobs: int
    cost: float
    """Processor time of a run over that of one of Theta's year, as measured."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the generator that only a world of the atlas has."""


def traces(options: Options) -> tuple[Trace, Trace]:
    """Theta's and Cori's."""
    theta, cori = machine_of(options), CoriMonths()
    known = {each.name for each in fields(theta)}
    more = {name: value for name, value in options.world.items() if name in known}
    days = (30, 2) if options.quick else (int(theta.days), int(cori.days))

    def trace(name: str, machine: Machine, days: int, whole_cost: float) -> Trace:
        share = days / machine.days
        return Trace(
            name, machine.NODES, machine.NAME, days, round(machine.jobs * share), 1 + whole_cost * share
        )

    return replace(trace("theta", theta, days[0], 0), more=more), trace("cori", cori, days[1], _CORI_COST)


def machine_of(options: Options) -> Machine:
    """Which Theta: in a world of the atlas the one with more parameters, if the user does not say."""
    if options.world and TRACE.name not in options.readings:
        return _THETAS[ThetaLogs.NAME]
    return _THETAS[value_of(options, TRACE)]


def seeds(options: Options) -> list[int]:
    return options.seed_list(10)


def mixes(options: Options) -> tuple[str, ...]:
    return ("W1", "W2", "W4", "W5") if options.quick else tuple(MIXES)


def scales(options: Options) -> tuple[float, ...]:
    return (0.5, 1.0) if options.quick else SCALES


def baseline(options: Options) -> Run:
    """Theta's trace without a mechanism."""
    run: Run = _run(options, options.first_seed, *next(_overall(traces(options)[0], options)))
    return run


def inputs(options: Options) -> dict[str, float]:
    """What Table I says of Theta, of a made trace of it, and how much of it each kind has. Raises ScenarioError."""
    jobs = prepare(baseline(options).scenario).jobs
    node_us = jobs.nodes * jobs.run_us.astype(np.float64)
    on_demand = jobs.kind == Kind.ON_DEMAND
    malleable = jobs.extra["job_class"] == JobClass.MALLEABLE
    rigid_node_s = mean_node_s(jobs, ~on_demand & ~malleable)
    return {
        "min_nodes": float(jobs.nodes.min()),
        "max_run_h": float(jobs.run_us.max()) / (3600 * US),
        "on_demand_load": float(node_us[on_demand].sum() / node_us.sum()),
        "malleable_load": float(node_us[malleable].sum() / node_us.sum()),
        "overlap": overlap(jobs, on_demand),
        "malleable_over_rigid": mean_node_s(jobs, malleable) / rigid_node_s if rigid_node_s else 0.0,
    }


def experiments(options: Options) -> Sweep:
    """All runs, those of a trace one after the other: the shorter ones of all seeds, then Cori's of the first few."""
    theta, cori = traces(options)
    items = [(seed, item) for seed in seeds(options) for item in _theta(theta, options)]
    # The atlas draws worlds of Theta's alone.
    cori_seeds = [] if options.world else seeds(options)[:CORI_SEEDS]
    items += [(seed, item) for seed in cori_seeds for item in _overall(cori, options)]
    return Sweep("hybrid", tuple(_run(options, seed, *item) for seed, item in items))


_Item = tuple[str, Trace, dict[str, Any], dict[str, Any]]


def _run(  # noqa: PLR0917
    options: Options, seed: int, label: str, trace: Trace, kinds: dict[str, Any], mechanism: dict[str, Any]
) -> Any:
    kinds = kinds_for(options, kinds, is_baseline=mechanism["strategy"] == BASELINE)
    document = {
        "name": label,
        "seed": seed,
        "nodes": trace.nodes,
        "workload": {
            "generate": [{trace.generator: {"days": trace.days, "jobs": trace.jobs, **trace.more}}],
            "transforms": [{"hybrid_kinds": kinds}],
        },
        "scheduler": "fcfs+easy",
        "mechanism": {"hybrid": mechanism},
    }
    return make_run(document, {LABEL: label}, where=label, cost=trace.cost)


def _theta(trace: Trace, options: Options) -> Iterator[_Item]:
    """Runs on the same jobs come one after the other: a process makes jobs once for them."""
    yield from _overall(trace, options)
    yield from _failures(trace, options)
    quick = options.quick
    for share in (SHARES[-1],) if quick else SHARES[1:]:
        kinds = {"notices": MIX, "min_share": share}
        for strategy in STRATEGIES:
            yield f"min{share}/{strategy}", trace, kinds, {"strategy": strategy}
    for low, high in (SETUPS[0], SETUPS[-1]) if quick else (SETUPS[0], *SETUPS[2:]):
        kinds = {"notices": MIX, "rigid_setup": [low / 100, high / 100]}
        for strategy in STRATEGIES:
            yield f"setup{low}-{high}/{strategy}", trace, kinds, {"strategy": strategy}


def _overall(trace: Trace, options: Options) -> Iterator[_Item]:
    """Table III, Figures 6 and 7."""
    yield f"{trace.name}/{BASELINE}", trace, {"notices": MIX}, {"strategy": BASELINE}
    every = mixes(options)
    for mix in every:
        for strategy in STRATEGIES:
            # N looks at no notice (section III-B.1): one run stands under the labels of all mixes.
            notices = every[0] if strategy.startswith("n+") else mix
            yield f"{trace.name}/{mix}/{strategy}", trace, {"notices": notices}, {"strategy": strategy}


def _failures(trace: Trace, options: Options) -> Iterator[_Item]:
    """Figure 8: the optimum interval is that for the failures that happen."""
    for hours in MTBFS_H:
        for scale in scales(options):
            for strategy in STRATEGIES:
                kinds = {"notices": MIX, "mtbf_s": hours * 3600, "checkpoint_scale": scale}
                mechanism = {"strategy": strategy, "mtbf_s": hours * 3600}
                yield f"mtbf{hours}/ck{scale:g}/{strategy}", trace, kinds, mechanism
