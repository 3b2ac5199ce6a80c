"""The runs of the paper's experiments (section 7): which scheme, how many real-time jobs, which sample of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US, US
from emulator.experiments.realtime.read import ReadingChoice
from emulator.mechanisms.realtime import Realtime
from emulator.runs.preparation import prepare
from emulator.runs.scenario import from_mapping
from emulator.sweeps.grid import LABEL, Sweep, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.experiments.paper import Options
    from emulator.sweeps.grid import Run

NODES = 49_152
PERCENTS = (5, 10, 20, 30, 40, 50)
FEW = (5, 10, 20, 30)
"""Up to 30 %, where the paper says that all is well."""
SAMPLES = 20
SCHEMES = ("baseline", "hpq", "pre_rest", "pre_ckpt_sys", "pre_ckpt_app", "pre_ckpt")
PREEMPTIVE = SCHEMES[2:]
WITH_CHECKPOINTS = SCHEMES[3:]
DATA_GB = (1, 4, 16)
SHARES = (15, 30, 50)
ONE = 20
"""Per cent of real-time jobs where one value stands for all: other readings, other weeks."""
OTHER_WEEKS = ("b", "c", "d")

ALIKE = (6.0, 10.0)
"""A week counts as one like the paper's if its baseline slowdown lies here (Fig. 2: "around 8.0")."""
_MOST_TRIED = 1000
_NARROW_NODES, _SHORT_MIN = 4096, 120
"""Section 7.4."""


def percents(options: Options) -> tuple[int, ...]:
    return (10, 20, 30, 50) if options.quick else PERCENTS


def samples(options: Options) -> int:
    return 4 if options.quick else SAMPLES


def seeds(options: Options) -> list[int]:
    """The first weeks like the paper's: chosen by their baseline alone, before any scheme is run."""
    count, read = options.seed_count(8), ReadingChoice.of(options)
    if not read.alike_only:
        return options.seed_list(count)
    found: list[int] = []
    for seed in range(options.first_seed, options.first_seed + _MOST_TRIED):
        if len(found) == count:
            break
        if ALIKE[0] <= _baseline_slowdown(seed, read) <= ALIKE[1]:
            found.append(seed)
    return found


@cache
def _baseline_slowdown(seed: int, read: ReadingChoice) -> float:
    scenario = from_mapping({"nodes": NODES, "seed": seed, "workload": read.week("a")})
    mechanism = Realtime(scheme="baseline", topology="blue_gene_q")
    machine = mechanism.make_machine(NODES, scenario.scheduler_config, prepare(scenario).jobs, seed)
    machine.advance(NEVER_US)
    return float(mechanism.figures_of(machine)["batch_slowdown"])


def baseline(options: Options) -> Run:
    """The first week without real-time jobs."""
    mechanism = {"realtime": {"scheme": "baseline", "topology": "blue_gene_q"}}
    document = {
        "name": "baseline", "seed": options.first_seed, "nodes": NODES, "workload": ReadingChoice.of(options).week("a"),
        "scheduler": "fcfs+easy", "mechanism": mechanism,
    }  # fmt: skip
    return make_run(document, {LABEL: "baseline"}, where="baseline")


def inputs(options: Options) -> dict[str, float]:
    """What Table 1 and section 7.4 say of week a, of the generated one. Raises ScenarioError."""
    jobs = prepare(baseline(options).scenario).jobs
    run_min, walltime_min = jobs.run_us / (60 * US), jobs.estimate_us / (60 * US)
    narrow, short = jobs.nodes <= _NARROW_NODES, run_min <= _SHORT_MIN
    node_min = jobs.nodes * run_min
    return {
        "jobs": float(len(jobs)),
        "mean_nodes": float(jobs.nodes.mean()),
        "mean_walltime_min": float(walltime_min.mean()),
        "walltime_accuracy": float(run_min.mean() / walltime_min.mean()),
        "narrow_short_share": float((narrow & short).mean()),
        "wide_short_share": float((~narrow & short).mean()),
        "narrow_long_share": float((narrow & ~short).mean()),
        "wide_load": float(node_min[~narrow].sum() / node_min.sum()),
    }


def experiments(options: Options) -> Sweep:
    """All runs, labelled VARIANT/PERCENT/SAMPLE. Raises ScenarioError."""
    runs = []
    for seed in seeds(options):
        for variant, workload, mechanism, scheduler, shares in _variants(options):
            for percent in shares:
                for sample in range(samples(options)):
                    label = f"{variant}/{percent}/{sample}"
                    document = {
                        "name": label,
                        "seed": seed,
                        "nodes": NODES,
                        "workload": workload,
                        "scheduler": scheduler,
                        "mechanism": {"realtime": mechanism | {"percent": percent, "sample": sample}},
                    }
                    runs.append(make_run(document, {LABEL: label}, where=label))
    return Sweep("realtime", tuple(runs))


def _cap(read: ReadingChoice) -> dict[str, Any]:
    return {} if read.shared_cap else {"shared_cap": False}


def _resubmit(scheme: str, read: ReadingChoice) -> dict[str, Any]:
    return {"resubmit": read.resubmit} if scheme in PREEMPTIVE and read.resubmit != "back" else {}


_Variant = tuple[str, dict[str, Any], dict[str, Any], str, tuple[int, ...]]


def _variants(options: Options) -> Iterator[_Variant]:
    """Name, workload, mechanism, scheduler, per cents."""
    easy, all_percents, read = "fcfs+easy", percents(options), ReadingChoice.of(options)
    ours, cap = read.week("a"), _cap(read)

    def mechanism(scheme: str, **changes: Any) -> dict[str, Any]:
        return {"scheme": scheme, "topology": "blue_gene_q", **cap, **_resubmit(scheme, read), **changes}

    for scheme in SCHEMES:
        yield scheme, ours, mechanism(scheme), easy, all_percents
    yield "hpq-backfilled", ours, mechanism("hpq", hpq_blocks=False), easy, all_percents
    for data_gb in (1, 16):
        for scheme in ("pre_ckpt_sys", "pre_ckpt"):
            yield f"{scheme}-{data_gb}GB", ours, mechanism(scheme, data_gb=data_gb), easy, all_percents
    for minutes in (15, 60):
        changed = mechanism("pre_ckpt_sys", interval_s=60 * minutes)
        yield f"pre_ckpt_sys-{minutes}min", ours, changed, easy, all_percents
    for share in (15, 50):
        changed = mechanism("pre_ckpt_app", interval_share=share / 100)
        yield f"pre_ckpt_app-{share}%", ours, changed, easy, all_percents
    for data_gb in DATA_GB:
        changed = mechanism("pre_ckpt_sys", shared_cap=False, data_gb=data_gb)
        yield f"pre_ckpt_sys-own-cap-{data_gb}GB", ours, changed, easy, (10,)
    yield from _other_readings(options)


def _other_readings(options: Options) -> Iterator[_Variant]:
    """What the paper leaves open, and weeks b to d, at one share of real-time jobs."""
    read, single = ReadingChoice.of(options), (ONE,)
    ours, cap = read.week("a"), _cap(read)
    for scheme in SCHEMES:
        on_mira = {"scheme": scheme, "topology": "blue_gene_q", **cap, **_resubmit(scheme, read)}
        flat = {**on_mira, "topology": {"flat": {"unit_nodes": 512}}}
        yield f"flat:{scheme}", ours, flat, "fcfs+easy", single
        if scheme in PREEMPTIVE:
            yield f"place:{scheme}", ours, on_mira | {"resubmit": "place"}, "fcfs+easy", single
        if options.quick:
            continue
        for choice in ("best_fit", "shortest_first"):
            yield f"{choice}:{scheme}", ours, on_mira, f"fcfs+easy+{choice}", single
        for name in OTHER_WEEKS:
            yield f"week-{name}:{scheme}", read.week(name), on_mira, "fcfs+easy", single
