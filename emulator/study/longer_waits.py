"""Settings that cannot differ: a longer wait W where nobody had to wait.

With the basic algorithm a request gets its nodes at the moment at which it comes or waits for them, at most W; then it
is rejected. Nothing else in a run asks for W. So if a run rejects nothing, every request had its nodes within its W,
and no deadline was ever met: with a longer W all happens at the same times, and the figures are the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from emulator.plugins import named
from emulator.sweeps.chains import Chains

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.sweeps.grid import Run, Sweep

_DECIDES_OTHERWISE = {"algorithm", "predictor", "cloud_faults"}
"""Somebody's own code may look at W when it decides; a server that does not start tries again until W."""


def chains(sweep: Sweep) -> Chains:
    """By growing W, the runs of the basic algorithm that are the same in all else."""
    found: dict[str, list[tuple[float, Run]]] = {}
    for run in sweep.runs:
        balancer = named(run.scenario.mechanism, "balancer")
        if balancer is None or _DECIDES_OTHERWISE & set(balancer):
            continue
        parameters = {name: value for name, value in balancer.items() if name != "wait_s"}
        all_else = run.scenario.as_json() | {"name": "", "mechanism": parameters}
        found.setdefault(json.dumps(all_else, sort_keys=True), []).append((balancer.get("wait_s", 0), run))
    by_wait = (sorted(runs, key=lambda each: each[0]) for runs in found.values())
    return Chains([[run for _, run in runs] for runs in by_wait if len(runs) > 1], _rejects_nothing)


def _rejects_nothing(row: Mapping[str, Any]) -> bool:
    return not row["ondemand_rejected"]
