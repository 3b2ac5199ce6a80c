"""Limits of QOS and associations on what runs, compiled.

The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm_site.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.schedulers.slurm.tables import Limit

if TYPE_CHECKING:
    from emulator.kernel.tables import Jobs, State
    from emulator.schedulers.slurm.tables import Twin


@inner
def count_job(job: Jobs, twin: Twin, row: int) -> None:
    """Count a running job in its QOS and its partition's, which may be the same, and in its association and above."""
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
    which = job_ext[row].association
    while which >= 0:
        twin.associations[which].jobs += 1
        twin.associations[which].nodes += job[row].nodes
        which = twin.associations[which].parent


@inner
def count_running(state: State, twin: Twin) -> None:
    """Count what runs anew: jobs end in more ways than one. Nothing is done where nobody has a limit."""
    job, node = state.job, state.node
    twin_registers, job_ext = twin.registers, twin.job_ext
    used = twin.used
    if twin_registers.limits_n == 0:
        return
    twin_registers.looks += 1
    for usage_row in range(used.shape[0]):
        used[usage_row].jobs = 0
        used[usage_row].nodes = 0
    for which in range(twin.associations.shape[0]):
        twin.associations[which].jobs = 0
        twin.associations[which].nodes = 0
    for which in range(node.shape[0]):
        row = node[which].job
        if row >= 0 and job_ext[row].counted != twin_registers.looks:
            job_ext[row].counted = twin_registers.looks
            count_job(job, twin, row)


@inner
def is_over_limit(job: Jobs, twin: Twin, row: int) -> bool:
    """Whether a limit keeps the job from starting now.

    Of each kind that of the partition's QOS counts, else that of its own one, else those of its association.
    """
    return is_over_limit_of_jobs(job, twin, row) or is_over_limit_of_nodes(job, twin, row)


@inner
def is_over_limit_of_jobs(job: Jobs, twin: Twin, row: int) -> bool:
    """Whether a limit on how many jobs run keeps the job from starting now."""
    return is_over(job, twin, row, Limit.GROUP_JOBS) or is_over(job, twin, row, Limit.USER_JOBS)


@inner
def is_over_limit_of_nodes(job: Jobs, twin: Twin, row: int) -> bool:
    """Whether a limit on the nodes of what runs keeps the job from starting now."""
    return is_over(job, twin, row, Limit.GROUP_NODES) or is_over(job, twin, row, Limit.USER_NODES)


@inner
def is_over(job: Jobs, twin: Twin, row: int, kind: int) -> bool:
    """Whether a limit of this kind keeps the job from starting now."""
    job_ext, limits, used = twin.job_ext, twin.limits, twin.used
    if twin.registers.limits_n == 0:
        return False
    rows = used.shape[0] // limits.shape[0]
    for which in (job_ext[row].first_qos, job_ext[row].own_qos):
        if which < 0 or limits[which, kind] < 0:
            continue
        usage_row = which * rows + (1 + job_ext[row].user if kind >= Limit.USER_JOBS else 0)
        if kind == Limit.GROUP_NODES or kind == Limit.USER_NODES:  # noqa: PLR1714 - compiled
            after = used[usage_row].nodes + job[row].nodes
        else:
            after = used[usage_row].jobs + 1
        return bool(after > limits[which, kind])
    return is_over_association(job, twin, row, kind)


@inner
def is_over_association(job: Jobs, twin: Twin, row: int, kind: int) -> bool:
    """Whether a limit of this kind of the job's association, or of an account above it, keeps it from starting."""
    associations = twin.associations
    which = twin.job_ext[row].association
    if which < 0:
        return False
    if kind == Limit.USER_JOBS:
        return 0 <= associations[which].own_jobs <= associations[which].jobs
    while which >= 0:
        if kind == Limit.GROUP_JOBS and 0 <= associations[which].group_jobs <= associations[which].jobs:
            return True
        after = associations[which].nodes + job[row].nodes
        if kind == Limit.GROUP_NODES and 0 <= associations[which].group_nodes < after:
            return True
        which = associations[which].parent
    return False
