"""The settings of a sweep in order of a figure, each with its distance from the best one and how sure that is.

Settings are compared seed by seed, so that what a seed does to all of them is no difference.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from emulator.metrics.intervals import MeanChange, mean_over_seeds
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.grid import LABEL, REPEAT, SEED
from emulator.text.number_text import decimals_of, grouped, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Ranked:
    """A setting: its mean over the seeds, and what it has more than the best one in the same seeds."""

    setting: Mapping[str, Any]
    mean: float
    seeds: int
    beyond_best: MeanChange | None
    """None: it is the best one."""
    interval: MeanChange
    """The mean, and between what 95 % of the draws of seeds have it."""

    def as_row(self) -> dict[str, Any]:
        """As a row of a table (`SweepResult.rank`)."""
        change = self.beyond_best
        return {
            **self.setting,
            "mean": self.mean,
            "low": self.interval.low,
            "high": self.interval.high,
            "seeds": self.seeds,
            "from_best": 0.0 if change is None else change.mean,
            "from_best_low": None if change is None else change.low,
            "from_best_high": None if change is None else change.high,
            "differs": None if change is None or change.low is None else change.is_sure,
        }

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def rank(
    rows: Sequence[Mapping[str, Any]], varied: Sequence[str], figure: str, *, highest: bool = False
) -> list[Ranked]:
    """The settings, the lowest (or `highest`) mean first. Seeds that some setting lacks do not count.

    Raises ScenarioError for a figure that the rows do not have, and where no seed is common to all settings.
    """
    names = [name for name in varied if name not in (SEED, REPEAT)]
    found: dict[tuple[str, ...], dict[int, float]] = {}
    settings: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        value = row.get(figure)
        if value is None:
            continue
        if isinstance(value, str | bool):
            raise ScenarioError(f"rank {figure}: {value!r} is no number")
        key = tuple(str(row[name]) for name in names)
        settings.setdefault(key, {name: row[name] for name in names})
        found.setdefault(key, {}).setdefault(int(row[SEED]), float(value))
    if not found:
        close = get_close_matches(figure, sorted({name for row in rows for name in row}), n=1)
        meant = f"did you mean {close[0]!r}?" if close else "results.csv has those that there are"
        raise ScenarioError(f"rank {figure}: no run has such a figure; {meant}")
    seeds = sorted(set.intersection(*(set(values) for values in found.values())))
    if not seeds:
        raise ScenarioError(f"rank {figure}: the settings have no seed in common")
    figures = {key: np.array([values[seed] for seed in seeds]) for key, values in found.items()}
    order = sorted(figures, key=lambda key: figures[key].mean(), reverse=highest)
    best = figures[order[0]]
    return [
        Ranked(
            settings[key],
            float(figures[key].mean()),
            len(seeds),
            mean_over_seeds(figures[key] - best, "sweep.ranking") if key != order[0] else None,
            mean_over_seeds(figures[key], "sweep.ranking.mean"),
        )
        for key in order
    ]


@dataclass(frozen=True, slots=True)
class RankTexts:
    """A setting's row of the table, for people: within a column all numbers have the same decimals."""

    setting: list[str]
    mean: str
    interval: str
    """Of the mean."""
    beyond_best: str
    beyond_interval: str
    differs: str


def shown_names(ranked: Sequence[Ranked]) -> list[str]:
    """What tells the settings apart: the label alone if each has its own, otherwise all that varies."""
    if len({each.setting.get(LABEL) for each in ranked} - {None}) == len(ranked):
        return [LABEL]
    return list(ranked[0].setting)


def texts(ranked: Sequence[Ranked]) -> list[RankTexts]:
    """The rows of the table."""
    names = shown_names(ranked)
    decimals = decimals_of(
        value for each in ranked for value in (each.mean, each.interval.low, each.interval.high)
    )
    changes = [each.beyond_best for each in ranked if each.beyond_best is not None]
    finer = decimals_of(value for each in changes for value in (each.mean, each.low, each.high))
    return [
        RankTexts(
            [str(each.setting[name]) for name in names],
            grouped(each.mean, decimals),
            _between(each.interval, decimals),
            "" if change is None else grouped(change.mean, finer, signed=True),
            "" if change is None else _between(change, finer, signed=True),
            _differs(change),
        )
        for each in ranked
        for change in [each.beyond_best]
    ]


def _between(change: MeanChange, decimals: int, *, signed: bool = False) -> str:
    if change.low is None or change.high is None:
        return ""
    return (
        f"{grouped(change.low, decimals, signed=signed)} to {grouped(change.high, decimals, signed=signed)}"
    )


def _differs(change: MeanChange | None) -> str:
    if change is None:
        return "best"
    if change.low is None:
        return f"{number_of(change.blocks, 'seed')} cannot tell"
    return "yes" if change.is_sure else "cannot be told"


def table(ranked: Sequence[Ranked], figure: str) -> Table:
    """For the console."""
    shown = Table(title=f"{figure}: mean of {ranked[0].seeds} seeds", title_justify="left")
    for name in shown_names(ranked):
        shown.add_column(name.rpartition(".")[2])
    for name in ("mean", "from the best", "95 % interval"):
        shown.add_column(name, justify="right")
    shown.add_column("differs")
    for row in texts(ranked):
        shown.add_row(*row.setting, row.mean, row.beyond_best, row.beyond_interval, row.differs)
    return shown
