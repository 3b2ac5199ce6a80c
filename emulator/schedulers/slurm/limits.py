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
    mine = twin.mine
    limits, used = twin.limits, twin.used
    rows = used.shape[0] // limits.shape[0]
    first, own = mine[who].first_qos, mine[who].own_qos
    for which in (first, own if own != first else -1):
        if which < 0:
            continue
        for row in (which * rows, which * rows + 1 + mine[who].user):
            used[row].jobs += 1
            used[row].nodes += job[who].nodes


@inner
def count_running(state: State, twin: Twin) -> None:
    """Count what runs anew: jobs end in more ways than one. Nothing is done where no QOS has a limit."""
    job, node = state.job, state.node
    own, mine = twin.own, twin.mine
    used = twin.used
    if own.limits_n == 0:
        return
    own.looks += 1
    for row in range(used.shape[0]):
        used[row].jobs = 0
        used[row].nodes = 0
    for which in range(node.shape[0]):
        who = node[which].job
        if who >= 0 and mine[who].counted != own.looks:
            mine[who].counted = own.looks
            count_job(job, twin, who)


@inner
def is_over_limit(job: Jobs, twin: Twin, who: int) -> bool:
    """Whether a limit keeps the job from starting now: of each kind the partition's QOS's, else its own one's."""
    own, mine = twin.own, twin.mine
    limits, used = twin.limits, twin.used
    if own.limits_n == 0:
        return False
    rows = used.shape[0] // limits.shape[0]
    for kind in range(limits.shape[1]):
        for which in (mine[who].first_qos, mine[who].own_qos):
            if which < 0 or limits[which, kind] < 0:
                continue
            row = which * rows + (1 + mine[who].user if kind >= Limit.USER_JOBS else 0)
            if kind == Limit.GROUP_NODES or kind == Limit.USER_NODES:  # noqa: PLR1714 - compiled
                after = used[row].nodes + job[who].nodes
            else:
                after = used[row].jobs + 1
            if after > limits[which, kind]:
                return True
            break
    return False
