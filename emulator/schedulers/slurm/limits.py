"""Limits of QOS on what runs, compiled. The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.schedulers.slurm.tables import Limit

if TYPE_CHECKING:
    from emulator.kernel.tables import Jobs, State
    from emulator.schedulers.slurm.tables import Twin


@inner
def count_job(job: Jobs, twin: Twin, row: int) -> None:
    """Count a running job in its QOS and its partition's, which may be the same."""
    job_ext = twin.job_ext
    limits, used = twin.limits, twin.used
    rows = used.shape[0] // limits.shape[0]
    first, own_qos = job_ext[row].first_qos, job_ext[row].own_qos
    for which in (first, own_qos if own_qos != first else -1):
        if which < 0:
            continue
        for usage_row in (which * rows, which * rows + 1 + job_ext[row].user):
            used[usage_row].jobs += 1
            used[usage_row].nodes += job[row].nodes


@inner
def count_running(state: State, twin: Twin) -> None:
    """Count what runs anew: jobs end in more ways than one. Nothing is done where no QOS has a limit."""
    job, node = state.job, state.node
    twin_registers, job_ext = twin.registers, twin.job_ext
    used = twin.used
    if twin_registers.limits_n == 0:
        return
    twin_registers.looks += 1
    for usage_row in range(used.shape[0]):
        used[usage_row].jobs = 0
        used[usage_row].nodes = 0
    for which in range(node.shape[0]):
        row = node[which].job
        if row >= 0 and job_ext[row].counted != twin_registers.looks:
            job_ext[row].counted = twin_registers.looks
            count_job(job, twin, row)


@inner
def is_over_limit(job: Jobs, twin: Twin, row: int) -> bool:
    """Whether a limit keeps the job from starting now: of each kind the partition's QOS's, else its own one's."""
    twin_registers, job_ext = twin.registers, twin.job_ext
    limits, used = twin.limits, twin.used
    if twin_registers.limits_n == 0:
        return False
    rows = used.shape[0] // limits.shape[0]
    for kind in range(limits.shape[1]):
        for which in (job_ext[row].first_qos, job_ext[row].own_qos):
            if which < 0 or limits[which, kind] < 0:
                continue
            usage_row = which * rows + (1 + job_ext[row].user if kind >= Limit.USER_JOBS else 0)
            if kind == Limit.GROUP_NODES or kind == Limit.USER_NODES:  # noqa: PLR1714 - compiled
                after = used[usage_row].nodes + job[row].nodes
            else:
                after = used[usage_row].jobs + 1
            if after > limits[which, kind]:
                return True
            break
    return False
