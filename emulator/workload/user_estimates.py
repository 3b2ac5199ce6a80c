"""Walltimes as users ask for them: twenty round values that nine jobs of ten have, and a tail of many others.

D. Tsafrir, Y. Etsion, D. G. Feitelson: Modeling user runtime estimates, JSSPP 2005, LNCS 3834, with its published
parameters. Which of the twenty values is how popular is drawn from three logs of those it was made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

_TOP = 20
_MIN_S, _HOUR_S = 60, 3600
EVERYWHERE_S = tuple(
    60 * each for each in (5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 720, 1080)
)
"""The values that were among the twenty of all logs of the paper."""
_ROUND_S = tuple(60 * each for each in (12_000, 6_000, 3_000, 600, 300, 120, 60, 20, 10, 5))
"""Their multiples, downwards from the longest, make up the twenty."""
POPULARITY = (
    (3, 1, 4, 16, 13, 7, 8, 18, 2, 6, 17, 10, 5, 15, 14, 19, 11, 12, 9, 20),
    (1, 3, 4, 2, 12, 9, 8, 18, 6, 7, 11, 19, 17, 5, 14, 13, 10, 15, 16, 20),
    (1, 4, 10, 14, 20, 2, 3, 7, 12, 6, 19, 5, 18, 15, 9, 17, 16, 13, 8, 11),
)
"""Rank by popularity of the longest and of the others from the shortest: SDSC and CTC up to 18 h, KTH up to 4 h."""
_HEAD_A, _HEAD_B, _HEAD_C, _HEAD_PERCENT = 14.0491, -0.177531, 0.462513, 89.0
_TAIL_A, _TAIL_B = 795.6, -2.267
_TIME_P, _TIME_Q = 12.1039, -0.6026
_VALUES = ((0, 0), (20, 10), (200, 20), (1_000, 35), (10_000, 90), (70_000, 340), (250_000, 565))
"""How many different values so many jobs have; straight lines between."""
_APART_S = (0, 30, -30, 20, -20, 10, -10)


@dataclass(frozen=True, slots=True)
class UserEstimates:
    """The transform `user_estimates`: batch jobs get walltimes of Tsafrir, Etsion and Feitelson's model.

    `longest_s`: the most that users may ask for; by default the longest walltime of the jobs. `popular`: values in
    seconds with the share of jobs that have them, up to twenty; the better they are those of the site the closer the
    model comes, above all the share of the longest. Each job draws one of the values left that is not shorter than its
    run time, the longest jobs first. A job that runs beyond `longest_s` gets `longest_s`.
    """

    longest_s: float | None = None
    popular: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        owner = "user_estimates"
        if self.longest_s is not None:
            check_number(owner, "longest_s", self.longest_s, at_least=_HOUR_S, at_most=1e9)
        if not hasattr(self.popular, "items"):
            raise ValueError(
                f"{owner}: popular is a table of seconds and shares, like {{64800: 0.25, 900: 0.1}}"
            )
        if len(self.popular) > _TOP:
            raise ValueError(f"{owner}: popular has {len(self.popular)} values; {_TOP} at most")
        for seconds, share in self._shares_by_length().items():
            check_number(owner, "popular (seconds)", seconds, at_least=1, at_most=self.longest_s or 1e9)
            check_number(owner, f"popular ({seconds})", share, above=0, at_most=1)
        if sum(self.popular.values()) > 1:
            raise ValueError(f"{owner}: the shares in popular add up to more than 1")

    def _shares_by_length(self) -> dict[int, float]:
        """A site's own values in s; a scenario's keys may be text."""
        try:
            return {int(seconds): share for seconds, share in self.popular.items()}
        except ValueError as error:
            raise ValueError(f"user_estimates: popular: {error}; the keys are seconds") from None

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:  # noqa: ARG002
        rows = np.flatnonzero(jobs.kind == Kind.BATCH)
        if not len(rows):
            return jobs
        longest_s = self._longest_s(jobs.estimate_us[rows])
        shares = distribution(longest_s, self._shares_by_length(), len(rows), rng)
        drawn_us = _counted(shares, len(rows)) * US
        estimate_us = jobs.estimate_us.copy()
        estimate_us[rows] = _assigned(np.minimum(jobs.run_us[rows], longest_s * US), drawn_us, rng)
        return replace(jobs, estimate_us=estimate_us)

    def _longest_s(self, estimate_us: NDArray[np.int64]) -> int:
        longest_s = int(self.longest_s or int(estimate_us.max()) // US)
        if longest_s < _HOUR_S:
            raise ValueError(
                f"user_estimates: the longest walltime is {longest_s} s; give longest_s, an hour or more"
            )
        beyond = [each for each in self._shares_by_length() if each > longest_s]
        if beyond:
            raise ValueError(
                f"user_estimates: popular has {beyond[0]} s, more than the longest walltime, {longest_s} s"
            )
        return longest_s


def distribution(
    longest_s: int, popular: Mapping[int, float], jobs: int, rng: np.random.Generator
) -> dict[int, float]:
    """Share of the jobs by walltime in s, for so many jobs (section 5); which value is how popular is drawn."""
    popular_percent = {seconds: 100 * share for seconds, share in popular.items()}
    times = _merged(head_times(longest_s), sorted(popular_percent), longest_s)
    percents, place = _head_sizes(len(times), popular_percent, longest_s)
    ranks_at = {times.index(seconds): rank for seconds, rank in place.items()}
    ranks = _ranks(len(times), ranks_at, rng)
    head = {seconds: percents[rank] for seconds, rank in zip(times, ranks, strict=True)}
    points = np.array(_VALUES, float)
    count = int(np.rint(np.interp(jobs, points[:, 0], points[:, 1])))
    tail = _tail_times(longest_s, max(count - len(head), 0), frozenset(head), count)
    sizes = _TAIL_A * (_TOP + 1.0 + np.arange(len(tail))) ** _TAIL_B
    rest = 100 - sum(head.values())
    sizes = rng.permutation(sizes) * (rest / sizes.sum()) if len(tail) else sizes
    found = {**head, **dict(zip(tail, sizes.tolist(), strict=True))}
    total = sum(found.values())
    return {seconds: found[seconds] / total for seconds in sorted(found)}


def head_times(longest_s: int) -> list[int]:
    """The twenty popular values in s: the longest, then from the shortest. Fewer where there is no room for them."""
    times = [longest_s, *(each for each in EVERYWHERE_S if each < longest_s)]
    for step_s in _ROUND_S:
        for at_s in range(longest_s // step_s * step_s, 0, -step_s):
            if len(times) < _TOP and at_s not in times:
                times.append(at_s)
    return [longest_s, *sorted(times[1:])]


def _merged(times: list[int], required: Sequence[int], longest_s: int) -> list[int]:
    """With a site's own values in place of the nearest ones, those that other sites need not have first."""
    new = [each for each in required if each not in times]
    replaced: dict[int, int] = {}
    room = _TOP - len(times)
    for group in (set(times) - set(EVERYWHERE_S), set(times) & set(EVERYWHERE_S)):
        pairs = sorted(
            (abs(exact - old), exact, old) for exact, old in product(new, group - {longest_s, *required})
        )
        for _, exact, old in pairs:
            if len(replaced) < len(new) - room and exact not in replaced.values() and old not in replaced:
                replaced[old] = exact
    added = [each for each in new if each not in replaced.values()]
    return [longest_s, *sorted([replaced.get(each, each) for each in times[1:]] + added)]


def _head_sizes(
    count: int, percents: Mapping[int, float], longest_s: int
) -> tuple[list[float], dict[int, int]]:
    """Percent of the jobs by popularity, and where in it a site's own values are (the longest always first)."""
    rank = np.arange(2, count + 1)
    sizes = (_HEAD_A * np.exp(_HEAD_B * rank) + _HEAD_C).tolist()
    first = percents.get(longest_s, _HEAD_PERCENT - sum(sizes))
    sizes = [first, *sizes]
    place: dict[int, int] = {}
    for seconds in sorted(percents, key=lambda each: (-percents[each], each)):
        free = [at for at in range(count) if at not in place.values() and (at > 0) == (seconds != longest_s)]
        place[seconds] = min(free, key=lambda at: (abs(sizes[at] - percents[seconds]), at))
    fixed = set(place.values())
    rest = sum(size for at, size in enumerate(sizes) if at not in fixed)
    scale = max(_HEAD_PERCENT - sum(percents.values()), 0.0) / rest if rest else 0.0
    at_place = {at: seconds for seconds, at in place.items()}
    sized = [
        (percents[at_place[at]] if at in at_place else size * scale, at_place.get(at))
        for at, size in enumerate(sizes)
    ]
    ordered = [sized[0], *sorted(sized[1:], key=lambda each: -each[0])]
    return [size for size, _ in ordered], {
        length_s: at for at, (_, length_s) in enumerate(ordered) if length_s is not None
    }


def _ranks(count: int, ranks_at: Mapping[int, int], rng: np.random.Generator) -> list[int]:
    """Which place in popularity, from 0, each of the values by time has.

    A place is drawn from those that some log has at this time or before it, the better of two draws; one that no log
    has any later goes now. The longest is the first.
    """
    free = set(range(count)) - set(ranks_at.values())
    latest = {rank: max(log.index(rank + 1) for log in POPULARITY) for rank in range(_TOP)}
    pool: list[int] = []
    found = []
    for at in range(count):
        pool = [rank for rank in (*pool, *(log[at] - 1 for log in POPULARITY)) if rank in free]
        due = sorted(rank for rank in free if latest[rank] <= at)
        if at in ranks_at:
            rank = ranks_at[at]
        elif at == 0:
            rank = 0
        elif due:
            rank = due[0]
        else:
            rank = min(pool[int(each)] for each in rng.integers(len(pool), size=2)) if pool else min(free)
        free.discard(rank)
        found.append(rank)
    return found


def _tail_times(longest_s: int, count: int, head: frozenset[int], values: int) -> list[int]:
    """The other values: by time they lie on a hyperbola, in whole minutes or, where one is taken, seconds beside it."""
    found: list[int] = []
    used = set(head)
    a = 1 + _TIME_P * max(values, 1) ** _TIME_Q
    for number in range(1, count + 1):
        x = number / count
        at_s = round((a - 1) * x / (a - x) * longest_s / _MIN_S) * _MIN_S
        seconds = next(
            (at_s + off for off in _APART_S if 0 < at_s + off < longest_s and at_s + off not in used), 0
        )
        if seconds:
            found.append(seconds)
            used.add(seconds)
    return sorted(found)


def _counted(shares: Mapping[int, float], jobs: int) -> NDArray[np.int64]:
    """As many values as there are jobs, the longest first: whole numbers of each, the largest remainders rounded up."""
    seconds = np.array(list(shares), np.int64)
    exact = np.array(list(shares.values())) * jobs
    count = np.floor(exact).astype(np.int64)
    short = jobs - int(count.sum())
    count[np.argsort(-(exact - count), kind="stable")[:short]] += 1
    return np.repeat(seconds[::-1], count[::-1])


def _assigned(
    run_us: NDArray[np.int64], drawn_us: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Each job's value: from the longest job on, one of those left that are not shorter than its run time."""
    order = np.argsort(-run_us, kind="stable")
    longest_first = run_us[order]
    if (longest_first > drawn_us).any():
        at = int(np.flatnonzero(longest_first > drawn_us)[0])
        raise ValueError(
            f"user_estimates: {at + 1} jobs run for {longest_first[at] / US:g} s or longer, and the model has only {at}"
            " walltimes as long: give the share of the longest in popular, or a greater longest_s"
        )
    enough = np.searchsorted(-drawn_us, -longest_first, side="right")
    chosen = (np.arange(len(order)) + rng.random(len(order)) * (enough - np.arange(len(order)))).astype(
        np.int64
    )
    left = drawn_us.copy()
    found = np.empty(len(order), np.int64)
    for at, pick in enumerate(chosen.tolist()):
        found[at] = left[pick]
        left[pick] = left[at]
    estimate_us = np.empty(len(order), np.int64)
    estimate_us[order] = found
    return estimate_us
