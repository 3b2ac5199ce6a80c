"""Figures over the samples of one week: the mean over samples, as the paper's figures are."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from emulator.experiments.claims import MissingRunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.experiments.claims import World

RT_SLOWDOWN, BJ_SLOWDOWN = "realtime_slowdown", "batch_slowdown"
RT_TURNAROUND, BJ_TURNAROUND = "realtime_turnaround_s", "batch_turnaround_s"
PRODUCTIVE, OVERALL = "productive_utilization", "system_utilization"
CLASSES = ("_narrow_short", "_narrow_long", "_wide_short", "_wide_long")
_MOST_SAMPLES = 1000
CLEARLY = 0.99
"""One mean is below another if it is so by a hundredth."""


def mean(world: World, variant: str, percent: int, figure: str) -> float:
    """Mean over the samples; one without such jobs has no say. Raises MissingRunError if none has any."""
    values = []
    for sample in range(_MOST_SAMPLES):
        row = world.rows.get(f"{variant}/{percent}/{sample}")
        if row is None:
            break
        value = row.get(f"mechanism.{figure}")
        if value is not None:
            values.append(float(value))
    if not values:
        raise MissingRunError(f"run {variant!r} at {percent} % has no {figure}")
    return fmean(values)


def ratio(world: World, variant: str, other: str, percent: int, figure: str) -> float:
    """A variant's mean to another's."""
    return mean(world, variant, percent, figure) / mean(world, other, percent, figure)


def worst(world: World, variants: Iterable[str], percents: Sequence[int], figure: str) -> float:
    """The largest mean."""
    return max(mean(world, variant, percent, figure) for variant in variants for percent in percents)


def best(world: World, variants: Iterable[str], percents: Sequence[int], figure: str) -> float:
    """The smallest mean."""
    return min(mean(world, variant, percent, figure) for variant in variants for percent in percents)


def share_lower(
    world: World, variants: Sequence[str], other: str, percents: Sequence[int], figure: str
) -> float:
    """In how many of the cases (variant x per cent) the mean is clearly below the other's, from 0 to 1."""
    cases = [
        mean(world, variant, percent, figure) <= CLEARLY * mean(world, other, percent, figure)
        for variant in variants
        for percent in percents
    ]
    return sum(cases) / len(cases)


def fall(world: World, variant: str, percent: int, figure: str) -> float:
    """How much lower than the baseline's, as a share of it."""
    return 1 - ratio(world, variant, "baseline", percent, figure)
