"""How sure a difference is: means of pairs, drawn again in blocks (bootstrap).

Jobs of one day are not independent: a queue hits all of them. So it is weeks that are drawn, or days where a log has
few weeks, and the two figures of a pair stay together. Waits of one log near saturation still hang on a few long
queues: what of them is chance is told by runs of the log shaken (transform `shake`), over whose seeds
`emulator sweep --rank` draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.workload.streams import stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVEL = 0.95
FEWEST_BLOCKS = 4
"""With fewer weeks it is days that are drawn; with fewer blocks there is no interval."""
_BLOCK_US = {"weeks": 604_800 * US, "days": 86_400 * US}
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class MeanChange:
    """A mean of differences, between what 95 % of the draws have it, and of what the draws are.

    `low` and `high` are None where there are too few blocks to say.
    """

    mean: float
    low: float | None
    high: float | None
    blocks: int
    unit: str

    @property
    def is_sure(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def blocks(submit_us: NDArray[np.int64]) -> tuple[str, NDArray[np.int64]]:
    """The week, or with few weeks the day, of each job."""
    since_us = submit_us - submit_us.min()
    for unit, length_us in _BLOCK_US.items():
        block = since_us // length_us
        if len(np.unique(block)) >= FEWEST_BLOCKS:
            return unit, block
    return "days", since_us // _BLOCK_US["days"]


def mean_change(change: NDArray[np.float64], submit_us: NDArray[np.int64], name: str) -> MeanChange | None:
    """The mean difference over jobs, drawn by the weeks or days of their submits; None without jobs."""
    if not len(change):
        return None
    unit, block = blocks(submit_us)
    return mean_in_blocks(change, block, unit, 0, name)


def mean_over_seeds(change: NDArray[np.float64], name: str) -> MeanChange:
    """The mean of one difference a seed."""
    return mean_in_blocks(change, np.arange(len(change)), "seeds", 0, name)


def mean_in_blocks(
    change: NDArray[np.float64], block: NDArray[np.int64], unit: str, seed: int, name: str
) -> MeanChange:
    """The mean difference, its blocks (`unit`) drawn again. `name`: the random stream's."""
    _, place = np.unique(block, return_inverse=True)
    total, count = np.bincount(place, change), np.bincount(place)
    low = high = None
    if len(total) >= FEWEST_BLOCKS:
        draws = stream(seed, name).integers(0, len(total), (_DRAWS, len(total)))
        means = total[draws].sum(axis=1) / count[draws].sum(axis=1)
        low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return MeanChange(float(change.mean()), low, high, len(total), unit)
