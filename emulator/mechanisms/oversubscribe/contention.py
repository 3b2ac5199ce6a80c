"""How fast a job is on a core that others use as well: plug-ins of the group `emulator.contention`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from balancer.plugins import whose
from emulator.plugins import check_number, make_plugin
from emulator.workload.plugin_errors import answer_of, is_own

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUP = "emulator.contention"


class Contention(Protocol):
    """A frozen dataclass whose fields are its parameters."""

    def speed(self, jobs: int) -> Fraction:
        """Speed of each of `jobs` jobs on one core, where 1 is that of a job alone; `jobs` is at least 1."""


@dataclass(frozen=True, slots=True)
class EqualShares:
    """1/m, as in Minami et al. 2023, section 2."""

    def speed(self, jobs: int) -> Fraction:
        return Fraction(1, jobs)


@dataclass(frozen=True, slots=True)
class Overhead:
    """Equal shares, each `percent` slower per other job: caches are shared and switching costs time.

    The speed among m jobs is 1 / (m (1 + (m - 1) percent / 100)).
    """

    percent: float = 5.0

    def __post_init__(self) -> None:
        check_number("overhead", "percent", self.percent, at_least=0, at_most=1000)

    def speed(self, jobs: int) -> Fraction:
        share = Fraction(str(self.percent)) / 100
        return 1 / (jobs * (1 + (jobs - 1) * share))


@dataclass(frozen=True, slots=True)
class PartialUse:
    """Jobs use `percent` of a core's time when alone, so that few of them hardly disturb each other.

    The speed among m jobs is min(1, 100 / (m percent)).
    """

    percent: float = 50.0

    def __post_init__(self) -> None:
        check_number("partial_use", "percent", self.percent, above=0, at_most=100)

    def speed(self, jobs: int) -> Fraction:
        return min(Fraction(1), 100 / (jobs * Fraction(str(self.percent))))


def make_contention(item: object) -> Contention:
    """The model that a parameter names. Raises ValueError."""
    return cast("Contention", make_plugin(GROUP, item))


def speed_table(model: Contention, most: int) -> tuple[int, NDArray[np.int64]]:
    """The speeds for 0 to `most` jobs in whole parts of that of a job alone, and how many parts that is.

    Raises ValueError for a model whose speeds rise with the jobs, are not positive, or need too fine parts.
    """
    speeds = [Fraction(1), *(answer_of(GROUP, model, "speed", Fraction, jobs) for jobs in range(1, most + 1))]
    full = lcm(*(speed.denominator for speed in speeds))
    if speeds[1] != 1 or any(one < other for one, other in pairwise(speeds)) or speeds[-1] <= 0:
        raise ValueError(
            f"{_named(model)}: a job alone must have speed 1, more jobs must not be faster, none may stand still"
        )
    if full > _FINEST:
        raise ValueError(f"{_named(model)}: its speeds need parts of 1/{full}; round its parameters")
    return full, np.array([int(speed * full) for speed in speeds], np.int64)


def _named(model: Contention) -> str:
    return whose(GROUP, model) if is_own(model) else f"contention {model}"


_FINEST = 1_000_000
"""So that the work of 100 days, in parts of a microsecond, fits into 64 bits."""
