"""How far the nodes of jobs lie apart: switches, groups or pieces a job, by the scenario's `placement`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.interconnect import interconnect_in
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord, RunTable

_PART = {"tree": "switches", "dragonfly": "groups", "line": "pieces", "torus": "pieces"}


def spread_of(record: RunRecord) -> dict[str, Any] | None:
    """The figures of `summary.json`, over all runs on two nodes or more; None if the scenario has no `placement`."""
    wires = interconnect_in(record)
    if wires is None:
        return None
    said: Any = record.scenario["placement"]
    part = f"mean_{_PART[said['topology']]}"
    runs = _on_several(record)
    some = len(runs.job) > 0
    parts = wires.parts(runs)
    figures: dict[str, Any] = {
        "runs": len(runs.job),
        part: float(parts.mean()) if some else None,
        "share_fewest": float((parts == wires.fewest(np.diff(runs.first))).mean()) if some else None,
        "share_contiguous": float((wires.pieces(runs) == 1).mean()) if some else None,
    }
    if wires.dimensions:
        cuts = zip(runs.first[:-1].tolist(), runs.first[1:].tolist(), strict=True)
        hops = [wires.mean_hops(runs.node[begin:end]) for begin, end in cuts]
        figures["mean_hops"] = float(np.mean(hops)) if some else None
    return figures


def _on_several(record: RunRecord) -> RunTable:
    """The runs of batch jobs on two nodes or more."""
    runs = record.runs
    width = np.diff(runs.first)
    chosen = (width > 1) & (record.jobs.kind[runs.job] == Kind.BATCH)
    return replace(
        runs,
        job=runs.job[chosen],
        first=np.append(0, np.cumsum(width[chosen])),
        node=runs.node[np.repeat(chosen, width)],
    )
