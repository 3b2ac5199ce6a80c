"""Which nodes a job gets of those that it may have, compiled. The rules: `docs/slurm-twin.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.tables import NEVER

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.schedulers.slurm.tables import Bytes, SeenNode, Twin


@inner
def pick(allowed: Bytes, nodes: Rows[SeenNode], chosen: int, needed: int) -> None:
    """Choose among `allowed`, which are enough: the smallest set of neighbours that holds the job, at its begin.

    If none does, all of the largest, and again for the rest (slurm.conf, `TopologyPlugin=topology/none`:
    "best-fit logic over one-dimensional topology"). `allowed` is used up. `chosen`: so many of the `needed` nodes are.
    """
    last = allowed.shape[0]
    while chosen < needed:
        rest = needed - chosen
        best_at = 0
        best = 0
        at = 0
        while at < last:
            if not allowed[at]:
                at += 1
                continue
            begin = at
            while at < last and allowed[at]:
                at += 1
            length = at - begin
            is_better = length > best if best < rest else rest <= length < best
            if is_better:
                best = length
                best_at = begin
        for which in range(best_at, best_at + min(best, rest)):
            allowed[which] = 0
            nodes[chosen].chosen = which
            chosen += 1


@inner
def keep_first_sets(twin: Twin, needed: int) -> None:
    """Of the second mask's nodes, which are enough, only those of the first sets that have enough of them."""
    if not twin.registers.has_sets:
        return
    room, allowed = twin.room, twin.second_mask
    last, count = -1, 0
    while count < needed:
        following = NEVER
        for which in range(allowed.shape[0]):
            if allowed[which] and last < room[which].weight < following:
                following = room[which].weight
        last = following
        for which in range(allowed.shape[0]):
            count += allowed[which] and room[which].weight == last
    for which in range(allowed.shape[0]):
        allowed[which] = allowed[which] and room[which].weight <= last


@inner
def pick_shared(twin: Twin, row: int) -> None:
    """Choose a job's nodes among the second mask's, which are enough and which jobs share, and use it up.

    First those of the least weight. To a job that wants GPUs, and since 24.11 to all, nodes of one weight are alike
    however much is free on them; since 26.05 a job of one node has the first.
    """
    twin_registers, needed = twin.registers, twin.job_ext[row].nodes
    chosen = 0
    while chosen < needed:
        until = min(chosen + take_lightest(twin), needed)
        if needed == 1 and twin_registers.since_26_05:
            pick_first(twin.light_mask, twin.nodes)
        elif twin.job_ext[row].gpus > 0 or twin_registers.since_24_11:
            pick(twin.light_mask, twin.nodes, chosen, until)
        else:
            pick_fullest(twin, chosen, until)
        chosen = until


@inner
def take_lightest(twin: Twin) -> int:
    """Move the nodes of the least weight from the second mask to the light one. Returns how many."""
    room, allowed, light = twin.room, twin.second_mask, twin.light_mask
    least = -1
    for which in range(allowed.shape[0]):
        if allowed[which] and (least < 0 or room[which].weight < least):
            least = room[which].weight
    count = 0
    for which in range(allowed.shape[0]):
        light[which] = allowed[which] and room[which].weight == least
        allowed[which] -= light[which]
        count += light[which]
    return count


@inner
def pick_first(allowed: Bytes, nodes: Rows[SeenNode]) -> None:
    """Choose the first node of `allowed`, which has one."""
    which = 0
    while not allowed[which]:
        which += 1
    allowed[which] = 0
    nodes[0].chosen = which


@inner
def pick_fullest(twin: Twin, chosen: int, needed: int) -> None:
    """Choose among the light mask's nodes, which are enough, by their free cores, and use it up.

    Of the sets of neighbours that hold the job the one with the fewest free cores, its first nodes. One that does not
    takes the place of such a one before it if it has more free cores, until the next that holds the job. If none does,
    all of the one with the most, and again for the rest. The one node that is left has the fewest free cores.
    """
    nodes, allowed = twin.nodes, twin.light_mask
    room = twin.room
    last = allowed.shape[0]
    while chosen < needed:
        rest = needed - chosen
        best_at, best, best_cores = 0, 0, 0
        at = 0
        while at < last:
            if not allowed[at]:
                at += 1
                continue
            begin, cores = at, 0
            while at < last and allowed[at]:
                cores += room[at].cores_then
                at += 1
            length = at - begin
            is_tighter = best < rest or cores < best_cores
            if (length >= rest and is_tighter) or (length < rest and cores > best_cores):
                best_at, best, best_cores = begin, length, cores
        if rest == 1:
            for which in range(best_at + 1, best_at + best):
                if room[which].cores_then < room[best_at].cores_then:
                    best_at = which
        for which in range(best_at, best_at + min(best, rest)):
            allowed[which] = 0
            nodes[chosen].chosen = which
            chosen += 1
