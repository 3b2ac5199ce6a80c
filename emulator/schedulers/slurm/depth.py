"""How many jobs a pass of the main loop and a backfill cycle look at, of whom, and how many they start; compiled.

The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner

if TYPE_CHECKING:
    from emulator.schedulers.slurm.tables import Twin


@inner
def begin_pass_counts(twin: Twin) -> None:
    """A pass has looked at nobody yet."""
    for which in range(twin.partition_counts.shape[0]):
        twin.partition_counts[which].looked_at = 0


@inner
def is_beyond_depth(twin: Twin, row: int) -> bool:
    """Count a job in a pass. Whether the pass has looked at as many of its partition as it may."""
    partition = twin.job_ext[row].partition
    twin.partition_counts[partition].looked_at += 1
    depth = twin.registers.partition_depth
    return bool(depth and twin.partition_counts[partition].looked_at > depth)


@inner
def begin_cycle_counts(twin: Twin) -> None:
    """A cycle has tried nobody yet."""
    twin_registers, tests, user_tests = twin.registers, twin.tests, twin.user_tests
    for whose in range(tests.shape[0] if twin_registers.max_user else 0):
        tests[whose] = 0
    for whose in range(user_tests.shape[0] if twin_registers.max_user_partition else 0):
        for which in range(user_tests.shape[1]):
            user_tests[whose, which] = 0
    for which in range(twin.partition_counts.shape[0]):
        twin.partition_counts[which].tried = 0
        twin.partition_counts[which].reserved = 0
    for which in range(twin.associations.shape[0]):
        twin.associations[which].tried = 0


@inner
def is_beyond_tries(twin: Twin, row: int) -> bool:
    """Whether a cycle has tried as many as it may of who the job is of and for; else the job is counted."""
    twin_registers, counts = twin.registers, twin.partition_counts
    user, partition = twin.job_ext[row].user, twin.job_ext[row].partition
    most_in_both, most_of_partition = twin_registers.max_user_partition, twin_registers.max_partition
    if most_in_both and twin.user_tests[user, partition] >= most_in_both:
        return True
    if most_of_partition and counts[partition].tried >= most_of_partition:
        return True
    association, most_of_association = twin.job_ext[row].association, twin_registers.max_association
    is_limited = most_of_association and association >= 0
    if is_limited and twin.associations[association].tried >= most_of_association:
        return True
    if twin_registers.max_user and twin.tests[user] >= twin_registers.max_user:
        return True
    if is_limited:
        twin.associations[association].tried += 1
    if most_in_both:
        twin.user_tests[user, partition] += 1
    if twin_registers.max_user:
        twin.tests[user] += 1
    counts[partition].tried += 1
    return False


@inner
def may_reserve(twin: Twin, row: int) -> bool:
    """Count a job for which a cycle is to reserve nodes, and whether it may."""
    counts, most = twin.partition_counts, twin.registers.max_reserved
    partition = twin.job_ext[row].partition
    if most and counts[partition].reserved >= most:
        return False
    counts[partition].reserved += 1
    return True
