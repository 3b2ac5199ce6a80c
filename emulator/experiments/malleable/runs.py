"""The runs of the paper's experiments: which log, how dense, which share of which jobs, under which label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from emulator.experiments.logs import find_log
from emulator.experiments.malleable.read import keeps_zero_runs, mechanism_for
from emulator.runs.preparation import prepare
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.sweeps.grid import LABEL, SEED, Run, Sweep, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.experiments.paper import Options


@dataclass(frozen=True, slots=True)
class Log:
    """A log of the paper. `files`: names it may have, the paper's own version first."""

    name: str
    files: tuple[str, ...]
    nodes: int
    factor: float
    """Shrinking factor of Figure 3, where the utilisation is about 90 %."""


KTH = Log("KTH", ("KTH-SP2-1996-2.swf", "KTH-SP2-1996-2.1-cln.swf"), 100, 0.75)
CTC = Log("CTC", ("CTC-SP2-1996-3.swf", "CTC-SP2-1996-3.1-cln.swf"), 430, 0.7)
SDSC = Log("SDSC", ("SDSC-SP2-1998-4.swf", "SDSC-SP2-1998-4.2-cln.swf"), 128, 0.9)
LOGS = (KTH, CTC, SDSC)

SHARES = {"KTH": (5, 10, 25, 50, 75, 100), "CTC": (10, 25, 50, 75, 100), "SDSC": (10, 25, 50, 75, 100)}
"""Per cent of the jobs that are moldable, or malleable, in Figures 3 to 5."""
MIXED = (10, 25, 33, 40)
"""Per cent that are moldable, and as many malleable (section 6)."""
FACTORS = (1.0, 0.9, 0.8, 0.75, 0.7, 0.6)
"""Shrinking factors of Figures 2, 6 and 7."""
_QUICK = 0.7
"""Denser ones take seconds each: thousands of jobs wait, and hundreds are planned at each event."""
OF_FIGURE_6 = 75
PENALTIES_S = (1, 5, 10, 20)
READINGS: dict[str, dict[str, Any]] = {
    "shared": {"minimum": "shared"},
    "pool": {"minimum": "pool"},
    "pool-first": {"minimum": "pool_waiting_first"},
    "placed": {"minimum": "placed"},
    "requested": {"least": 1.0},
    "at_minimum": {"placement": "at_minimum"},
    "exact": {"tick_s": 0},
}
"""What the paper leaves open, read otherwise (docs/mechanisms/malleable.md)."""
KEPT = "kept"
"""KTH's eight jobs of run time 0 run for a second, and submits are cut to whole seconds after they were brought closer."""
_FIRST_SEED = 1001
"""Of what chance has no part in: it is the same for all seeds and worlds."""
READ_AT = (5, 25, 50, 75, 100)


def seeds(options: Options) -> list[int]:
    return options.seed_list(10)


def logs(options: Options) -> tuple[Log, ...]:
    return (KTH,) if options.quick else LOGS


def factors(options: Options) -> tuple[float, ...]:
    return tuple(factor for factor in FACTORS if factor >= _QUICK or not options.quick)


def experiments(options: Options) -> Sweep:
    """All runs. What chance has no part in is run once and stands in the rows of every seed. Raises ScenarioError."""
    found = {log.name: _file_of(log, options) for log in logs(options)}
    least = {"least": options.world["least"]} if "least" in options.world else {}
    runs = []
    for seed in seeds(options):
        for label, log, factor, jobs, mechanism in _all(options):
            keeps_zero = keeps_zero_runs(options) or label.endswith(f"/{KEPT}")
            by_chance = any(0 < share < 1 for name, share in jobs.items() if name != "least")
            document = {
                "name": label,
                "seed": seed if by_chance else _FIRST_SEED,
                "nodes": log.nodes,
                "workload": _workload(found[log.name], factor, least | jobs if jobs else {}, keeps_zero),
                "scheduler": "fcfs+conservative",
                "mechanism": {"malleable": {"tick_s": 1, **mechanism_for(options, mechanism)}},
            }
            run = make_run(document, {LABEL: label}, where=label)
            runs.append(Run({**run.varied, SEED: seed}, run.scenario, run.files))
    return Sweep("malleable", tuple(runs))


def _workload(log: Path, factor: float, jobs: dict[str, Any], keeps_zero: bool) -> dict[str, Any]:
    return {
        "trace": str(log),
        "overrun": "kill",
        **({"zero_run": "one_second"} if keeps_zero else {}),
        "transforms": [
            {"scale_interarrival": factor},
            *(["whole_seconds"] if keeps_zero else []),
            {"flexible_jobs": jobs},
        ],
    }


def baseline(options: Options) -> Run:
    """KTH's log as it is, all jobs rigid (Table 2). Raises ScenarioError."""
    label = label_of(KTH, 1.0, "rigid")
    document = {
        "name": label, "seed": _FIRST_SEED, "nodes": KTH.nodes,
        "workload": _workload(_file_of(KTH, options), 1.0, {}, keeps_zero_runs(options)), "scheduler": "fcfs+conservative",
        "mechanism": {"malleable": {"tick_s": 1}},
    }  # fmt: skip
    return make_run(document, {LABEL: label}, where=label)


def inputs(options: Options) -> dict[str, float]:
    """What Table 1 and section 6 print of KTH's log. Raises ScenarioError."""
    return _figures_of(_file_of(KTH, options), keeps_zero_runs(options))


@lru_cache(maxsize=2)
def _figures_of(log: Path, keeps_zero: bool) -> dict[str, float]:
    scenario = from_mapping({"nodes": KTH.nodes, "workload": _workload(log, 1.0, {}, keeps_zero)})
    jobs = prepare(scenario).jobs
    return {"kth_jobs": float(len(jobs)), "kth_mean_width": float(jobs.nodes.mean())}


def _file_of(log: Log, options: Options) -> Path:
    if options.traces is None:
        raise ScenarioError("reproduce malleable: there is no stand-in for its logs; leave --stand-in out")
    return find_log(options.traces, *log.files)


_Item = tuple[str, Log, float, dict[str, float], dict[str, Any]]


def label_of(log: Log, factor: float, jobs: str, reading: str = "") -> str:
    """Say `KTH/0.75/malleable-50/shared`."""
    return f"{log.name}/{factor:g}/{jobs}" + (f"/{reading}" if reading else "")


def _all(options: Options) -> Iterator[_Item]:
    done = set()
    for item in (
        *_rigid(options),
        *_figures_3_to_5(options),
        *_figures_6_and_7(options),
        *(() if options.world else (*_read_otherwise(), *_kept_zero_runs())),  # it says how they are read
        *_penalties(),
    ):
        if item[0] not in done:
            done.add(item[0])
            yield item


def _rigid(options: Options) -> Iterator[_Item]:
    for log in logs(options):
        for factor in {*factors(options), log.factor}:
            yield label_of(log, factor, "rigid"), log, factor, {}, {}


def _figures_3_to_5(options: Options) -> Iterator[_Item]:
    for log in logs(options):
        for kind in ("moldable", "malleable"):
            for share in SHARES[log.name]:
                yield label_of(log, log.factor, f"{kind}-{share}"), log, log.factor, {kind: share / 100}, {}
        for share in MIXED:
            jobs = {"moldable": share / 100, "malleable": share / 100}
            yield label_of(log, log.factor, f"mixed-{share}"), log, log.factor, jobs, {}


def _figures_6_and_7(options: Options) -> Iterator[_Item]:
    for factor in factors(options):
        for kind in ("moldable", "malleable"):
            jobs = {kind: OF_FIGURE_6 / 100}
            yield label_of(KTH, factor, f"{kind}-{OF_FIGURE_6}"), KTH, factor, jobs, {}
    if not options.quick:
        jobs = {"malleable": OF_FIGURE_6 / 100}
        yield label_of(KTH, 0.6, f"malleable-{OF_FIGURE_6}", "shared"), KTH, 0.6, jobs, READINGS["shared"]


def _read_otherwise() -> Iterator[_Item]:
    for name, reading in READINGS.items():
        least = {"least": reading["least"]} if "least" in reading else {}
        mechanism = {key: value for key, value in reading.items() if key != "least"}
        for share in READ_AT:
            jobs = {"malleable": share / 100, **least}
            yield label_of(KTH, KTH.factor, f"malleable-{share}", name), KTH, KTH.factor, jobs, mechanism
        both = {"moldable": 0.4, "malleable": 0.4, **least}
        yield label_of(KTH, KTH.factor, "mixed-40", name), KTH, KTH.factor, both, mechanism
    for share in (5, 50, 75, 100):
        jobs = {"moldable": share / 100}
        yield label_of(KTH, KTH.factor, f"moldable-{share}", "exact"), KTH, KTH.factor, jobs, {"tick_s": 0}


def _kept_zero_runs() -> Iterator[_Item]:
    yield label_of(KTH, KTH.factor, "rigid", KEPT), KTH, KTH.factor, {}, {}
    for kind, share in (("malleable", 100), ("moldable", 50)):
        jobs = {kind: share / 100}
        yield label_of(KTH, KTH.factor, f"{kind}-{share}", KEPT), KTH, KTH.factor, jobs, {}


def _penalties() -> Iterator[_Item]:
    for penalty_s in PENALTIES_S:
        for share in (50, 75, 100) if penalty_s == PENALTIES_S[-1] else (100,):
            label = label_of(KTH, KTH.factor, f"malleable-{share}", f"penalty-{penalty_s}")
            yield label, KTH, KTH.factor, {"malleable": share / 100}, {"reconfiguration_s": penalty_s}
    as_work = {"reconfiguration_s": PENALTIES_S[-1], "reconfiguration": "work"}
    label = label_of(KTH, KTH.factor, "malleable-100", f"penalty-{PENALTIES_S[-1]}-work")
    yield label, KTH, KTH.factor, {"malleable": 1.0}, as_work
    jobs, dear = {"malleable": 1.0}, {"reconfiguration_s": PENALTIES_S[-1]}
    yield label_of(KTH, 1.0, "malleable-100"), KTH, 1.0, jobs, {}
    yield label_of(KTH, 1.0, "malleable-100", f"penalty-{PENALTIES_S[-1]}"), KTH, 1.0, jobs, dear
