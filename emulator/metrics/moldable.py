"""Figures of jobs that could run at several sizes: how many got more or fewer nodes than they asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.moldable import ASKED, is_moldable

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord


def moldable_figures(record: RunRecord) -> dict[str, Any] | None:
    """Of the jobs with sizes that have begun; None where jobs have none. `docs/moldable.md`."""
    jobs = record.jobs
    if ASKED not in jobs.extra:
        return None
    begun = np.zeros(len(jobs), np.bool_)
    begun[record.runs.job] = True
    rows = np.flatnonzero(begun & is_moldable(jobs))
    had, asked = jobs.nodes[rows], jobs.column(ASKED)[rows]
    return {
        "jobs": len(rows),
        "narrower": int((had < asked).sum()),
        "as_asked": int((had == asked).sum()),
        "wider": int((had > asked).sum()),
        "mean_nodes": float(had.mean()) if len(rows) else None,
        "mean_asked_nodes": float(asked.mean()) if len(rows) else None,
    }
