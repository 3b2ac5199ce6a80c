"""Hyper-Erlang distributions of common order: a coin says which of two Erlang distributions with as many stages it is.

They meet any first three moments that can be met (J. Jann et al.: Modeling of workload in MPPs, JSSPP 1997, section 3,
after M. A. Johnson, M. R. Taaffe: Matching moments to phase distributions, Stochastic Models 5(4), 1989).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_STAGES = 1_000


@dataclass(frozen=True, slots=True)
class HyperErlang:
    """`stages` exponential stages of `first_s` each with probability `first_share`, else as many of `second_s`."""

    stages: int
    first_s: float
    second_s: float
    first_share: float

    def moment(self, power: int) -> float:
        """The mean of the values to this power."""
        rising = float(np.prod([self.stages + k for k in range(power)]))
        return rising * (
            self.first_share * self.first_s**power + (1 - self.first_share) * self.second_s**power
        )

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """That many values in s."""
        stage_s = np.where(rng.random(count) < self.first_share, self.first_s, self.second_s)
        return np.asarray(rng.gamma(self.stages, 1.0, count) * stage_s)


def match(values: NDArray[np.float64]) -> HyperErlang:
    """The one with the fewest stages that has the first three moments of these values, all above 0.

    Values that are all alike have no spread to match: they get the most stages that are tried, 1,000.
    """
    scale = float(values.mean())
    first_moment, second_moment, third_moment = (
        float(((values / scale) ** power).mean()) for power in (1, 2, 3)
    )
    for stages in range(1, _MOST_STAGES):
        first, second = first_moment / stages, second_moment / (stages * (stages + 1))
        third = third_moment / (stages * (stages + 1) * (stages + 2))
        spread, skew = second - first * first, first * third - second * second
        if spread <= 0 or skew <= 0:
            continue  # fewer stages vary more than these values do
        # The two stage times are the roots of the polynomial that is orthogonal to the reduced moments.
        total, product = (third - first * second) / spread, skew / spread
        apart = sqrt(max(total * total - 4 * product, 0.0))
        low, high = (total - apart) / 2, (total + apart) / 2
        if low <= 0 or high <= low:
            continue
        return HyperErlang(stages, low * scale, high * scale, (high - first) / (high - low))
    return HyperErlang(_MOST_STAGES, scale / _MOST_STAGES, scale / _MOST_STAGES, 1.0)
