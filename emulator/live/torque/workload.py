"""Which submission to the batch server is which job of the workload that its mechanism has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.live.torque import errors
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.live.torque.jobs import JobRequest
    from emulator.live.workload import Workload

ON_DEMAND_QUEUE = "ondemand"
ROW_VARIABLE = "WORKLOAD_JOB"
"""`qsub -v WORKLOAD_JOB=17`: the job of the workload with this number."""


def row_of(workload: Workload, request: JobRequest) -> int:
    """The row of a submission. Raises PbsError."""
    text = dict(request.variables).get(ROW_VARIABLE, "")
    row = workload.row_of(int(text)) if text.isdecimal() else None
    if row is None or row not in workload.missing:
        problem = f"this server replays a workload: {ROW_VARIABLE} must be a job of it that was not submitted"
        raise errors.not_in_workload(problem)
    queue_is_right = (request.queue == ON_DEMAND_QUEUE) == (workload.kind[row] == Kind.ON_DEMAND)
    if not queue_is_right or request.nodes != workload.nodes[row]:
        raise errors.not_in_workload(f"job {text} of the workload has another queue or number of nodes")
    return workload.submitted(int(text))


def announced(workload: Workload, number: int) -> int:
    """The row of an on-demand job. Raises PbsError."""
    row = workload.row_of(number)
    if row is None or workload.kind[row] == Kind.BATCH:
        raise errors.unknown_job(str(number))
    return row
