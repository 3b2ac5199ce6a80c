"""What the runs say: figures a setting, and which one to take, with how much confidence.

The unit of chance is the week: runs of one week are alike, whatever leases it is paired with. Intervals and
confidence come from drawing weeks with replacement (bootstrap); how often a week that was not seen might still
reject something comes from the number of weeks (Clopper and Pearson 1934), since a bootstrap of nothing is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.study.merge import WEEK
from emulator.study.settings import SPLIT
from emulator.sweeps.grid import LABEL
from emulator.workload.streams import stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.study.settings import Setting

    Count = float | NDArray[np.float64]

_DRAWS = 2000
_LEVEL = 0.95
_BISECTIONS = 60
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the operator asks of a setting: at most this share of requests rejected, at most this wait (W)."""

    most_rejected: float = 0.0
    longest_wait_min: float = 0.0

    def accept(self, rejected: Count, requests: Count) -> Any:
        """Whether so few are rejected, of numbers or arrays. The slack: 0.29 * 100 is less than 29."""
        return rejected <= (self.most_rejected + _SLACK) * requests

    @property
    def limits(self) -> str:
        """In words."""
        most = (
            f"at most {100 * self.most_rejected:g} % rejected" if self.most_rejected else "nothing rejected"
        )
        wait = f"{self.longest_wait_min:g} min" if self.longest_wait_min else ""
        return f"{most}, {f'no request waits longer than {wait}' if wait else 'no request waits'}"


@dataclass(frozen=True, slots=True)
class Figures:
    """A setting over all its runs. Means of the runs; `wait_ratio` is its batch wait over the split's, summed."""

    setting: Setting
    runs: int
    requests: int
    rejected: int
    worst_rejected: float
    runs_with_rejections: int
    wait_min: float
    least_wait_min: float
    most_wait_min: float
    wait_ratio: float | None
    idle_node_h: float
    utilisation: float
    shared_wait_min: float | None = None
    """Mean wait for nodes that batch jobs share (or that go down); None where none do."""

    @property
    def reject_rate(self) -> float:
        return self.rejected / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """The setting to take. `meets`: it keeps to the wishes (else it comes nearest).

    `confidence`: share of draws of weeks in which it keeps to the wishes and batch jobs wait less than today;
    `same_choice`: in which it is the one to take again. `wait_ratio`: 95 % of the draws lie between these.
    `unseen_weeks`: of weeks like these, at most this share rejects anything (95 %).
    """

    figures: Figures
    meets: bool
    confidence: float
    same_choice: float
    wait_ratio: tuple[float, float] | None
    unseen_weeks: float
    weeks: int

    @property
    def notice(self) -> str:
        """Among which settings it was chosen."""
        return (
            "with a notice from users"
            if self.figures.setting.algorithm == "hint"
            else "without a notice from users"
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """requests, rejected, wait_s and idle hours by setting and week, summed over the week's pairings."""

    settings: tuple[Setting, ...]
    requests: NDArray[np.float64]
    rejected: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    idle_h: NDArray[np.float64]


def figures(rows: Sequence[Mapping[str, Any]], settings: Iterable[Setting]) -> list[Figures]:
    """Of each setting that has runs."""
    by_label: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_label.setdefault(str(row[LABEL]), []).append(row)
    split = sum(_wait_s(row) for row in by_label.get(SPLIT, ()))
    found = []
    for setting in settings:
        runs = by_label.get(setting.label)
        if not runs:
            continue
        rejected = [int(row["window.ondemand_rejected"]) for row in runs]
        waits = [_wait_s(row) / 60 for row in runs]
        shared = [late for row in runs if (late := row.get("window.mean_wait_of_queue_s")) is not None]
        found.append(
            Figures(
                setting=setting,
                runs=len(runs),
                requests=sum(int(row["window.ondemand_requests"]) for row in runs),
                rejected=sum(rejected),
                worst_rejected=max(float(row["window.ondemand_reject_rate"] or 0) for row in runs),
                runs_with_rejections=sum(each > 0 for each in rejected),
                wait_min=fmean(waits),
                least_wait_min=min(waits),
                most_wait_min=max(waits),
                wait_ratio=60 * sum(waits) / split if split else None,
                idle_node_h=fmean(float(row["window.reserve_idle_node_h"]) for row in runs),
                utilisation=fmean(float(row["window.utilization"]) for row in runs),
                shared_wait_min=fmean(shared) / 60 if shared else None,
            )
        )
    return found


def advise(
    rows: Sequence[Mapping[str, Any]], settings: Sequence[Setting], wishes: Wishes, *, seed: int
) -> Advice | None:
    """Which of these mergers to take: of those that keep to the wishes the one with the least batch wait.

    If none does, the one with the fewest rejections among those whose wait is bearable. None without runs.
    """
    weeks, table = _mergers(rows, settings, wishes)
    if not table.settings or not weeks:
        return None
    split = _table(rows, [each for each in settings if each.algorithm == SPLIT], weeks)
    all_weeks = np.arange(len(weeks))
    best, meets = _choose(table, all_weeks, wishes)
    draws = stream(seed, "study.bootstrap").integers(0, len(weeks), (_DRAWS, len(weeks)))
    good = same = 0
    ratios = []
    for draw in draws:
        wait_s, today_s = table.wait_s[best, draw].sum(), split.wait_s[:, draw].sum()
        keeps = wishes.accept(table.rejected[best, draw].sum(), table.requests[best, draw].sum())
        good += bool(keeps and wait_s <= today_s)
        same += _choose(table, draw, wishes)[0] == best
        if today_s > 0:
            ratios.append(wait_s / today_s)
    bad_weeks = int((table.rejected[best] > 0).sum())
    (chosen,) = figures(rows, [table.settings[best]])
    if split.settings:
        chosen = next(each for each in figures(rows, settings) if each.setting == table.settings[best])
    ends = np.quantile(ratios, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]) if ratios else None
    return Advice(
        figures=chosen,
        meets=meets,
        confidence=good / _DRAWS,
        same_choice=same / _DRAWS,
        wait_ratio=None if ends is None else (float(ends[0]), float(ends[1])),
        unseen_weeks=at_most(bad_weeks, len(weeks)),
        weeks=len(weeks),
    )


def _mergers(
    rows: Sequence[Mapping[str, Any]], settings: Sequence[Setting], wishes: Wishes
) -> tuple[list[str], _Table]:
    """The weeks, and what the mergers do in them whose requests wait no longer than the wishes allow."""
    candidates = [each for each in settings if each.is_merger and each.wait_min <= wishes.longest_wait_min]
    weeks = sorted({str(row[WEEK]) for row in rows})
    return weeks, _table(rows, candidates, weeks)


def choice(rows: Sequence[Mapping[str, Any]], settings: Sequence[Setting], wishes: Wishes) -> Setting | None:
    """The setting that `advise` takes on these rows."""
    weeks, table = _mergers(rows, settings, wishes)
    if not table.settings or not weeks:
        return None
    return table.settings[_choose(table, np.arange(len(weeks)), wishes)[0]]


def sums(rows: Sequence[Mapping[str, Any]], setting: Setting) -> tuple[int, int, float]:
    """Of a setting's runs: requests, rejected ones, and mean batch waits (s) added up."""
    setting_rows = [row for row in rows if row[LABEL] == setting.label]
    return (
        sum(int(row["window.ondemand_requests"]) for row in setting_rows),
        sum(int(row["window.ondemand_rejected"]) for row in setting_rows),
        sum(_wait_s(row) for row in setting_rows),
    )


def ratios(
    rows: Sequence[Mapping[str, Any]], settings: Sequence[Setting], *, seed: int
) -> dict[str, tuple[float, float]]:
    """By label, between what 95 % of the draws of weeks have a setting's batch wait over today's, paired by week."""
    weeks = sorted({str(row[WEEK]) for row in rows})
    table = _table(rows, settings, weeks)
    split = next((at for at, each in enumerate(table.settings) if each.algorithm == SPLIT), None)
    if split is None or not weeks:
        return {}
    draws = stream(seed, "study.intervals").integers(0, len(weeks), (_DRAWS, len(weeks)))
    waits = table.wait_s[:, draws].sum(axis=2)
    known = waits[split] > 0
    if not known.any():
        return {}
    ends = np.quantile(waits[:, known] / waits[split, known], [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=1)
    return {
        each.label: (float(low), float(high)) for each, low, high in zip(table.settings, *ends, strict=True)
    }


def at_most(hits: int, trials: int, level: float = _LEVEL) -> float:
    """The largest probability that still gives as few hits with a chance of 1 - level (Clopper-Pearson)."""
    if hits >= trials:
        return 1.0
    low, high = hits / trials, 1.0
    ways = [lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) for k in range(hits + 1)]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        chance = sum(
            exp(many + k * log(middle) + (trials - k) * log1p(-middle)) for k, many in enumerate(ways)
        )
        low, high = (middle, high) if chance > 1 - level else (low, middle)
    return high


def _choose(table: _Table, weeks: NDArray[np.intp], wishes: Wishes) -> tuple[int, bool]:
    """Number of the setting to take on these weeks, and whether it keeps to the wishes."""
    rejected, requests = table.rejected[:, weeks].sum(axis=1), table.requests[:, weeks].sum(axis=1)
    wait_s, idle_h = table.wait_s[:, weeks].sum(axis=1), table.idle_h[:, weeks].sum(axis=1)
    keeps = wishes.accept(rejected, requests)
    # Least wait; of equal ones the least reserve. If none keeps to the wishes, fewest rejections first.
    keys = (idle_h, wait_s, np.zeros_like(wait_s) if keeps.any() else rejected, ~keeps)
    return int(np.lexsort(keys)[0]), bool(keeps.any())


def _table(rows: Sequence[Mapping[str, Any]], settings: Sequence[Setting], weeks: Sequence[str]) -> _Table:
    labels = {str(row[LABEL]) for row in rows}
    columns = tuple(setting for setting in settings if setting.label in labels)
    place = {setting.label: number for number, setting in enumerate(columns)}
    sums = np.zeros((4, len(columns), len(weeks)))
    for row in rows:
        if row[LABEL] in place:
            at = (slice(None), place[str(row[LABEL])], weeks.index(str(row[WEEK])))
            sums[at] += (
                float(row["window.ondemand_requests"]),
                float(row["window.ondemand_rejected"]),
                _wait_s(row),
                float(row["window.reserve_idle_node_h"]),
            )
    return _Table(columns, *sums)


def _wait_s(row: Mapping[str, Any]) -> float:
    return float(row["window.mean_wait_s"] or 0.0)
