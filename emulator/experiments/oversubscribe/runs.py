"""The runs of the paper's experiments: which settings, on which workloads, under which label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.experiments.logs import find_log
from emulator.sweeps.grid import LABEL, SEED, Run, Sweep, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.experiments.paper import Options

LOG = "UniLu-Gaia-2014-1.swf"
FOLLOWED = (2819, 918, 9087)
"""The jobs of Table 3. What it calls 9121 is the log's 9087, whose wait of 127,072 s it prints as 12,702."""


@dataclass(frozen=True, slots=True)
class Site:
    """One of the paper's two machines: settings of Figures 4 to 13."""

    name: str
    nodes: int
    cores: int
    multiplicities: tuple[int, ...]
    percents: tuple[float, ...]
    quick_multiplicities: tuple[int, ...]
    quick_percents: tuple[float, ...]


UNILU = Site("unilu", 150, 12, (1, 2, 3, 4, 5, 6, 7, 8), (1, 3, 5, 7, 10), (1, 2, 4), (5, 7, 10))
KIT = Site("kit", 1152, 20, (1, 2, 3, 4, 5, 6, 7, 8), (0.5, 1, 3, 5), (1, 8), (3, 5))
_THINKING = [{"interactive_phases": {"active_s": 30, "idle_s": 120}}]
"""Section 5.2, with lengths of our own: users think four fifths of the time."""

_THINKING_RUN = "thinking"
_EACH_EVENT = {"order": "fcfs", "backfill": "easy", "pass": "event"}


def seeds(options: Options) -> list[int]:
    """Those of the claims; the stand-ins were calibrated with seeds 1 to 10."""
    return options.seed_list(5)


def experiments(options: Options) -> Sweep:
    """All runs. Those of the log that chance has no part in are done once, for all seeds. Raises ScenarioError."""
    runs = []
    for seed in seeds(options):
        for label, nodes, workload, mechanism, scheduler in _all(options):
            is_replay = (
                options.traces is not None and label.startswith(UNILU.name) and _THINKING_RUN not in label
            )
            document = {
                "name": label,
                "seed": options.first_seed if is_replay else seed,
                "nodes": nodes,
                "workload": workload,
                "scheduler": scheduler,
                "mechanism": mechanism,
            }
            run = make_run(document, {LABEL: label}, where=label)
            runs.append(Run({**run.varied, SEED: seed}, run.scenario, run.files))
    return Sweep("oversubscribe", tuple(runs))


_Item = tuple[str, int, dict[str, Any], dict[str, Any], "str | dict[str, Any]"]


def _all(options: Options) -> Iterator[_Item]:
    unilu = unilu_workload(options.traces)
    yield from _figures(UNILU, unilu, options)
    share = 0.1 if options.quick else 1.0
    yield from _figures(KIT, {"generate": [{"core_jobs_like": {"site": "kit", "share": share}}]}, options)
    for percent in (5, 7):
        yield f"unilu-text/R{percent}", UNILU.nodes, unilu, conventional(UNILU, percent), "fcfs+easy"
    for prefix, scheduler in (("event", _EACH_EVENT), ("fcfs", "fcfs+none")):
        for percent in (5, 7):
            yield f"unilu-{prefix}/R{percent}", UNILU.nodes, unilu, conventional(UNILU, percent), scheduler
        for multiplicity in (2, 4):
            yield (
                f"unilu-{prefix}/M{multiplicity}",
                UNILU.nodes,
                unilu,
                shared(UNILU, multiplicity),
                scheduler,
            )
    yield from _future_work(unilu)


def _figures(site: Site, workload: dict[str, Any], options: Options) -> Iterator[_Item]:
    for multiplicity in site.quick_multiplicities if options.quick else site.multiplicities:
        yield f"{site.name}/M{multiplicity}", site.nodes, workload, shared(site, multiplicity), "fcfs+easy"
    for percent in site.quick_percents if options.quick else site.percents:
        label = f"{site.name}/R{percent:g}"
        if site is UNILU:
            yield label, site.nodes, workload, conventional(site, percent, rules="program"), _EACH_EVENT
        else:
            yield label, site.nodes, workload, conventional(site, percent), "fcfs+easy"


def _future_work(unilu: dict[str, Any]) -> Iterator[_Item]:
    """Section 5.2 and 7: what the paper wants to look at next."""
    thinking = unilu | {"transforms": _THINKING}
    exclusive_others = unilu | {"transforms": [{"share_limit": {"limit": 1, "queues": [2]}}]}
    for label, workload, more in (
        (f"unilu-{_THINKING_RUN}/M4", thinking, {}),
        ("unilu-low-use/M4", unilu, {"sharing": "responsive"}),
        ("unilu-opt-out/M4", exclusive_others, {}),
        ("unilu-overhead/M4", unilu, {"contention": {"overhead": {"percent": 5}}}),
        ("unilu-half-use/M4", unilu, {"contention": {"partial_use": {"percent": 50}}}),
    ):
        yield label, UNILU.nodes, workload, shared(UNILU, 4, **more), "fcfs+easy"


def shared(site: Site, multiplicity: int, **more: Any) -> dict[str, Any]:
    return {"oversubscribe": _common(site) | {"multiplicity": multiplicity} | more}


def conventional(site: Site, percent: float, **more: Any) -> dict[str, Any]:
    return {"dedicated_nodes": _common(site) | {"percent": percent, "refuse_too_wide": True} | more}


def _common(site: Site) -> dict[str, Any]:
    return {"cores": site.cores, "follow": list(FOLLOWED) if site is UNILU else []}


def unilu_workload(traces: Path | None) -> dict[str, Any]:
    """The log as the paper reads it (Table 1), or its stand-in."""
    if traces is None:
        return {"generate": [{"core_jobs_like": {"site": "unilu"}}]}
    log = str(find_log(traces, LOG))
    jobs = {"trace": log, "cores": UNILU.cores, "widest_responsive": UNILU.cores, "spread": "divisor"}
    return {"generate": [{"core_jobs": jobs}]}
