"""The fair share of users: by Fair Tree, or as before it with `PriorityFlags=NO_FAIR_TREE`.

Source: Slurm's documentation, *Fair Tree Fairshare Algorithm* and *Classic Fairshare Algorithm*. What these leave open
(who is tied with whom, when it is worked out) is by the sources of 22.05 to 26.05, which agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from emulator.kernel.compiled import inner
from emulator.kernel.rows import new_rows
from emulator.schedulers.slurm.tables import SECOND, Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, State
    from emulator.schedulers.slurm.associations import Association
    from emulator.schedulers.slurm.tables import Twin


class FairShares(NamedTuple):
    """Who has and has used how much, and in `order` who has a part of whose shares."""

    rows: Rows[Share]
    order: Ints


def of_associations(found: Sequence[Association]) -> FairShares:
    """As they are; the last row is of jobs that have none, whose factor is always 0."""
    rows = new_rows(Share, len(found) + 1)
    rows["above"][:] = [*(each.parent for each in found), -1]
    rows["level"][:] = [*(each.level for each in found), -1]
    rows["share"][:] = [*(each.share or 0.0 for each in found), 0.0]
    rows["is_user"][:] = [*(each.user != "" for each in found), 0]
    rows["has_those_above"][:] = [*(each.share is None for each in found), 0]
    return _with_levels(rows)


def of_users(shares: Sequence[float]) -> FairShares:
    """All right below root; the first has row 1."""
    rows = new_rows(Share, len(shares) + 1)
    rows["above"][0] = rows["level"][0] = -1
    rows["share"][:] = [1.0, *(each / sum(shares) for each in shares)]
    rows["is_user"][1:] = 1
    return _with_levels(rows)


def _with_levels(rows: Rows[Share]) -> FairShares:
    is_passed_over = (rows["has_those_above"] == 1) & (rows["is_user"] == 0)
    level = np.where(is_passed_over | (rows["level"] < 0), len(rows), rows["level"])
    sizes = np.bincount(level, minlength=len(rows))[: len(rows)]
    rows["children"][:] = sizes
    rows["first"][:] = np.cumsum(sizes) - sizes
    return FairShares(rows, np.argsort(level, kind="stable"))


@inner
def bring_fair_shares(state: State, twin: Twin, now: int) -> None:
    """Have the fair shares, if they count, of the last time up to `now` at which Slurm works them out."""
    registers, counted = twin.registers, twin.counted
    if twin.weights.fair == 0.0 or now < registers.next_fair_us:
        return
    every = registers.calc_every_us
    while registers.next_fair_us <= now:
        steps = 1
        if counted.open_n == 0 and counted.runs_seen == state.registers.runs_n:  # nothing but time goes on
            steps = 1 + (now - registers.next_fair_us) // every
        registers.next_fair_us += steps * every
        count_usage(state, twin, registers.next_fair_us - every, steps)
    shares = twin.fair_shares
    for which in range(shares.shape[0]):
        shares[which].usage = shares[which].own_usage
    for which in range(shares.shape[0] - 1, 0, -1):
        if shares[which].above >= 0:
            shares[shares[which].above].usage += shares[which].usage
    if twin.weights.is_fair_tree:
        rank_users(shares, twin.fair_order, twin.fair_stack)
    else:
        weigh_usage(shares)


@inner
def count_usage(state: State, twin: Twin, now: int, periods: int) -> None:
    """Bring all own usage to `now`, so many periods after the last time; what runs have used meanwhile is of one.

    As Slurm does it (by its sources): node-seconds lose a part a second for all that happened since the last time, and
    the last seconds of a run that has ended are not counted at all where limits are not enforced.
    """
    runs, shares, counted, weights = state.runs, twin.fair_shares, twin.counted, twin.weights
    before = now - twin.registers.calc_every_us
    left = weights.left_a_second ** ((now - before) // SECOND * periods)
    for which in range(shares.shape[0]):
        shares[which].own_usage *= left
    still_open = 0
    for k in range(counted.open_n + state.registers.runs_n - counted.runs_seen):
        row = twin.open_runs[k] if k < counted.open_n else counted.runs_seen + k - counted.open_n
        begin, end = max(runs[row].start_us, before), runs[row].end_us
        runs_on = end < 0 or end > now
        if runs_on:
            end = now
            twin.open_runs[still_open] = row
            still_open += 1
        if end > begin and (runs_on or weights.counts_ends):
            behind = runs[row + 1].first if row + 1 < state.registers.runs_n else state.registers.log_n
            seconds = (end - begin) / SECOND
            used = (behind - runs[row].first) * seconds * weights.left_a_second**seconds
            job = runs[row].job
            if twin.job_ext[job].own_qos >= 0:
                used *= twin.usage_factors[twin.job_ext[job].own_qos]
            shares[twin.job_ext[job].account].own_usage += used if runs_on else used * left
    counted.open_n = still_open
    counted.runs_seen = state.registers.runs_n


@inner
def rank_users(shares: Rows[Share], order: Ints, stack: Ints) -> None:
    """Fair Tree: each user's rank / users, by rank of the accounts above first. The last has 1 / users.

    `order`: the rows of each level beside each other. `stack`: to walk by.
    """
    users = 0
    for which in range(shares.shape[0]):
        users += shares[which].is_user
    rank = left = users
    stack[0] = 0
    height = 1
    while height:
        height -= 1
        which = stack[height]
        if shares[which].is_user:
            if not shares[which].is_tied:
                rank = left
            shares[which].factor = rank / users
            left -= 1
            continue
        first = shares[which].first
        behind = first + shares[which].children
        sort_level(shares, order, first, behind, shares[which].usage)
        for k in range(first, behind):
            row = order[k]
            # Where an account is tied with who came before it, so is its best member.
            if k == first:
                shares[row].is_tied = shares[which].is_tied
            else:
                shares[row].is_tied = shares[row].fairness == shares[order[k - 1]].fairness
            stack[height + behind - 1 - k] = row
        height += behind - first


@inner
def sort_level(shares: Rows[Share], order: Ints, first: int, behind: int, usage: float) -> None:
    """Put those of one level, who have used `usage` together, in order: who has most of what is his comes first."""
    for k in range(first, behind):
        row = order[k]
        shares[row].fairness = fairness_of(shares, row, usage)
        place = k
        while place > first and comes_before(shares, row, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = row


_DIGITS = 1 << 24
"""As many as a number of 32 bits has."""


@inner
def fairness_of(shares: Rows[Share], row: int, usage: float) -> float:
    """The part of the shares / the part of the usage: 7 digits, since equal sums may differ in the last."""
    if shares[row].has_those_above:
        return math.inf
    if shares[row].share == 0.0:
        return 0.0
    if shares[row].usage == 0.0:
        return math.inf
    fairness = shares[row].share * usage / shares[row].usage
    if math.isinf(fairness):  # of usage that is as good as forgotten
        return math.inf
    mantissa, exponent = math.frexp(fairness)
    return math.ldexp(math.floor(mantissa * _DIGITS + 0.5) / _DIGITS, exponent)


@inner
def comes_before(shares: Rows[Share], row: int, other: int) -> bool:
    if shares[row].fairness != shares[other].fairness:
        return bool(shares[row].fairness > shares[other].fairness)
    if shares[row].is_user != shares[other].is_user:
        return bool(shares[row].is_user)
    return row < other


@inner
def weigh_usage(shares: Rows[Share]) -> None:
    """Without Fair Tree: 2^(-usage / shares), where an account's usage counts for its users by their shares in it."""
    total = shares[0].usage
    for row in range(shares.shape[0]):
        level = shares[row].level
        used = shares[row].usage / total if total > 0.0 else 0.0
        if shares[row].has_those_above:
            shares[row].counted = shares[level].counted
            shares[row].owned = shares[level].owned
        elif level <= 0:
            shares[row].counted = used
            shares[row].owned = shares[row].share
        else:
            shares[row].counted = used + (shares[level].counted - used) * shares[row].share
            shares[row].owned = shares[row].share * shares[level].owned
        if shares[row].owned > 0.0:
            shares[row].factor = 0.5 ** (shares[row].counted / shares[row].owned)
