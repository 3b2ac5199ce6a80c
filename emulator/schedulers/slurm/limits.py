"""Limits of QOS on what runs, compiled. The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.schedulers.slurm.tables import (
    COUNTED,
    FIRST_QOS,
    LIMITS,
    LIMITS_N,
    LOOKS,
    OWN_QOS,
    USER_JOBS,
    WHOSE,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Jobs, State
    from emulator.schedulers.slurm.tables import Twin


@inner
def count_job(job: Jobs, twin: Twin, who: int) -> None:
    """Count a running job in its QOS and its partition's, which may be the same."""
    mine = twin[1]
    limits, used, _, _, _, _, _ = twin[15]
    rows = used.shape[0] // limits.shape[0]
    for column in range(FIRST_QOS, OWN_QOS + 1):
        which = mine[who, column]
        if which < 0 or (column == OWN_QOS and which == mine[who, FIRST_QOS]):
            continue
        for row in (which * rows, which * rows + 1 + mine[who, WHOSE]):
            used[row, 0] += 1
            used[row, 1] += job[who].nodes


@inner
def count_running(state: State, twin: Twin) -> None:
    """Count what runs anew: jobs end in more ways than one. Nothing is done where no QOS has a limit."""
    job, node = state.job, state.node
    own, mine = twin[0], twin[1]
    used = twin[15][1]
    if own[LIMITS_N] == 0:
        return
    own[LOOKS] += 1
    for row in range(used.shape[0]):
        used[row, 0] = 0
        used[row, 1] = 0
    for which in range(node.shape[0]):
        who = node[which].job
        if who >= 0 and mine[who, COUNTED] != own[LOOKS]:
            mine[who, COUNTED] = own[LOOKS]
            count_job(job, twin, who)


@inner
def is_over_limit(job: Jobs, twin: Twin, who: int) -> bool:
    """Whether a limit keeps the job from starting now: of each kind the partition's QOS's, else its own one's."""
    own, mine = twin[0], twin[1]
    limits, used, _, _, _, _, _ = twin[15]
    if own[LIMITS_N] == 0:
        return False
    rows = used.shape[0] // limits.shape[0]
    for kind in range(LIMITS):
        for column in range(FIRST_QOS, OWN_QOS + 1):
            which = mine[who, column]
            if which < 0 or limits[which, kind] < 0:
                continue
            row = which * rows + (1 + mine[who, WHOSE] if kind >= USER_JOBS else 0)
            more = job[who].nodes if kind % 2 else 1
            if used[row, kind % 2] + more > limits[which, kind]:
                return True
            break
    return False
