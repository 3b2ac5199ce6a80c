"""Limits of QOS on what runs, compiled. The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.schedulers.slurm.tables import Limit

if TYPE_CHECKING:
    from emulator.kernel.tables import Jobs, State
    from emulator.schedulers.slurm.tables import Twin


@inner
def count_job(job: Jobs, twin: Twin, who: int) -> None:
    """Count a running job in its QOS and its partition's, which may be the same."""
    job_ext = twin.job_ext
    limits, used = twin.limits, twin.used
    rows = used.shape[0] // limits.shape[0]
    first, twin_registers = job_ext[who].first_qos, job_ext[who].own_qos
    for which in (first, twin_registers if twin_registers != first else -1):
        if which < 0:
            continue
        for row in (which * rows, which * rows + 1 + job_ext[who].user):
            used[row].jobs += 1
            used[row].nodes += job[who].nodes


@inner
def count_running(state: State, twin: Twin) -> None:
    """Count what runs anew: jobs end in more ways than one. Nothing is done where no QOS has a limit."""
    job, node = state.job, state.node
    twin_registers, job_ext = twin.registers, twin.job_ext
    used = twin.used
    if twin_registers.limits_n == 0:
        return
    twin_registers.looks += 1
    for row in range(used.shape[0]):
        used[row].jobs = 0
        used[row].nodes = 0
    for which in range(node.shape[0]):
        who = node[which].job
        if who >= 0 and job_ext[who].counted != twin_registers.looks:
            job_ext[who].counted = twin_registers.looks
            count_job(job, twin, who)


@inner
def is_over_limit(job: Jobs, twin: Twin, who: int) -> bool:
    """Whether a limit keeps the job from starting now: of each kind the partition's QOS's, else its own one's."""
    twin_registers, job_ext = twin.registers, twin.job_ext
    limits, used = twin.limits, twin.used
    if twin_registers.limits_n == 0:
        return False
    rows = used.shape[0] // limits.shape[0]
    for kind in range(limits.shape[1]):
        for which in (job_ext[who].first_qos, job_ext[who].own_qos):
            if which < 0 or limits[which, kind] < 0:
                continue
            row = which * rows + (1 + job_ext[who].user if kind >= Limit.USER_JOBS else 0)
            if kind == Limit.GROUP_NODES or kind == Limit.USER_NODES:  # noqa: PLR1714 - compiled
                after = used[row].nodes + job[who].nodes
            else:
                after = used[row].jobs + 1
            if after > limits[which, kind]:
                return True
            break
    return False
