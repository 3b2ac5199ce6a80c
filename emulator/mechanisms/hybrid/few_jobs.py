"""A few jobs that make the mechanism do each of its actions once, so that all is compiled."""

from __future__ import annotations

from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.table import JobTable, Kind


def few_jobs() -> JobTable:
    """Five jobs for five nodes: rigid, malleable, and on demand with and without a notice."""
    return JobTable.build(
        submit_us=[0, 0, 0, 1, 9],
        run_us=[20, 20, 20, 3, 3],
        nodes=[2, 1, 2, 2, 1],
        kind=[Kind.BATCH, Kind.BATCH, Kind.BATCH, Kind.ON_DEMAND, Kind.ON_DEMAND],
        extra={
            "job_class": [
                JobClass.RIGID,
                JobClass.RIGID,
                JobClass.MALLEABLE,
                JobClass.RIGID,
                JobClass.RIGID,
            ],
            "min_nodes": [2, 1, 1, 2, 1],
            "setup_us": 1,
            "checkpoint_interval_us": [4, 0, 0, 0, 0],
            "checkpoint_us": [1, 0, 0, 0, 0],
            "notice_us": [-1, -1, -1, -1, 2],
            "predicted_us": [-1, -1, -1, -1, 12],
        },
    )
