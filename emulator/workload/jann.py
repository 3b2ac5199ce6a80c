"""Jobs of the model of Jann et al.: each range of sizes comes and runs by distributions of its own.

J. Jann, P. Pattnaik, H. Franke, F. Wang, J. Skovira, J. Riordan: Modeling of workload in MPPs, JSSPP 1997, LNCS 1291.
Written from the description of the Parallel Workloads Archive. The paper's tables were not at hand; `CTC` is what its
method finds in the log that it was made of, the first 17,440 jobs of the Cornell Theory Center's SP2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.hyper_erlang import HyperErlang
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

DAY_S = 86_400
_MOST_JOBS, _BLOCK = 100_000_000, 10_000


@dataclass(frozen=True, slots=True)
class Range:
    """Jobs on `least` to `most` nodes; a share `most_share` is on exactly `most`, the others on any other size alike.

    Gaps between their submits, and their run times: hyper-Erlang distributions of common order, `first_s` and
    `second_s` being the mean of one stage.
    """

    least: int
    most: int
    most_share: float
    gap_stages: int
    gap_first_s: float
    gap_second_s: float
    gap_first_share: float
    run_stages: int
    run_first_s: float
    run_second_s: float
    run_first_share: float

    def __post_init__(self) -> None:
        owner = "jann: own"
        check_number(owner, "least", self.least, at_least=1)
        check_number(owner, "most", self.most, at_least=self.least)
        for name in ("gap_stages", "run_stages"):
            check_number(owner, name, getattr(self, name), at_least=1, at_most=1_000)
        for name in ("most_share", "gap_first_share", "run_first_share"):
            check_number(owner, name, getattr(self, name), at_least=0, at_most=1)
        for name in ("gap_first_s", "gap_second_s", "run_first_s", "run_second_s"):
            check_number(owner, name, getattr(self, name), above=0, at_most=1e9)

    @property
    def gap(self) -> HyperErlang:
        return HyperErlang(self.gap_stages, self.gap_first_s, self.gap_second_s, self.gap_first_share)

    @property
    def run(self) -> HyperErlang:
        return HyperErlang(self.run_stages, self.run_first_s, self.run_second_s, self.run_first_share)

    def nodes(self, rng: np.random.Generator, count: int, widest: int) -> NDArray[np.int64]:
        """Sizes of that many jobs; who would be wider than the cluster is as wide as it."""
        top = rng.random(count) < self.most_share
        other = rng.integers(self.least, max(self.most, self.least + 1), count)
        return np.minimum(np.where(top, self.most, other), widest)

    def mean_nodes(self, widest: int) -> float:
        sizes = np.minimum(np.arange(self.least, max(self.most, self.least + 1)), widest)
        return self.most_share * min(self.most, widest) + (1 - self.most_share) * float(sizes.mean())


CTC = (
    Range(1, 1, 1.0, 1, 431.63, 6768.73, 0.930604, 4, 147.721, 8416.78, 0.609611),
    Range(2, 2, 1.0, 1, 1114.38, 27715.5, 0.904402, 8, 25.32, 5691.29, 0.689339),
    Range(3, 4, 0.840504, 1, 741.814, 16109.4, 0.869324, 5, 28.5415, 7028.95, 0.791615),
    Range(5, 8, 0.61713, 1, 602.437, 13970.6, 0.778126, 2, 331.638, 10502.1, 0.773936),
    Range(9, 16, 0.633529, 1, 1411.98, 14952.1, 0.892661, 3, 37.6075, 8890.07, 0.680307),
    Range(17, 32, 0.567617, 1, 2615.24, 29707.4, 0.875871, 3, 44.0367, 9532.62, 0.680694),
    Range(33, 64, 0.602108, 1, 594.873, 18072.8, 0.555236, 3, 93.3227, 9917.78, 0.580971),
    Range(65, 128, 0.634518, 2, 1954.15, 30007.5, 0.495939, 5, 7.02075, 8207.78, 0.681053),
    Range(129, 256, 0.204082, 2, 3290.12, 173034.0, 0.829674, 1, 120.516, 3413.85, 0.647078),
    Range(257, 322, 0.0208333, 1, 55065.5, 599508.0, 0.84651, 6, 30.5102, 6949.7, 0.785299),
)
"""From the log, `emulator trace fit --model jann` on its first 17,440 jobs and 322 nodes (a test does it again)."""
_NAMES = tuple(each.name for each in fields(Range))


@dataclass(frozen=True, slots=True)
class Jann:
    """The rigid jobs of Jann's model, for `days`.

    `load`: gaps are multiplied so that the expected node-time is this part of the cluster's; without it they are as the
    model has them. `own`: ranges of sizes with the parameters of `Range`, which `emulator trace fit --model jann` finds
    for a log; by default the SP2 of the Cornell Theory Center in the summer of 1996. Ranges that begin beyond the
    cluster are left out. Walltimes are the run times.
    """

    days: float = 7
    load: float | None = None
    own: Sequence[Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        check_number("jann", "days", self.days, above=0, at_most=36_500)
        if self.load is not None:
            check_number("jann", "load", self.load, above=0, at_most=10)
        if not self.ranges():
            raise ValueError(
                "jann: own: no range of sizes; `emulator trace fit --model jann` prints them for a log"
            )

    def ranges(self) -> tuple[Range, ...]:
        """The model's ranges of sizes. Raises ValueError for one that is not complete or overlaps the one before."""
        if self.own is None:
            return CTC
        if not isinstance(self.own, (list, tuple)) or not all(hasattr(each, "items") for each in self.own):
            raise ValueError(f"jann: own is a list of ranges with {', '.join(_NAMES)}")
        found = []
        for number, each in enumerate(self.own, 1):
            odd = sorted(set(each) ^ set(_NAMES))
            if odd:
                raise ValueError(f"jann: own: range {number}: {', '.join(odd)} missing or unknown")
            found.append(Range(**each))
            if number > 1 and found[-1].least <= found[-2].most:
                raise ValueError(
                    f"jann: own: range {number} begins at {found[-1].least} nodes, in the one before"
                )
        return tuple(found)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        fitting = [each for each in self.ranges() if each.least <= nodes]
        if not fitting:
            raise ValueError(f"jann: no range of sizes has jobs for a cluster of {nodes} nodes")
        stretch = 1.0
        if self.load is not None:
            node_s = (each.mean_nodes(nodes) * each.run.moment(1) / each.gap.moment(1) for each in fitting)
            stretch = sum(node_s) / (nodes * self.load)
        submits, runs, widths = [], [], []
        for each in fitting:
            submit_s = self._submits(each, rng, stretch)
            submits.append(submit_s)
            runs.append(np.maximum(np.rint(each.run.draw(rng, len(submit_s))), 1))
            widths.append(each.nodes(rng, len(submit_s), nodes))
        return JobTable.build(
            submit_us=np.concatenate(submits).astype(np.int64) * US,
            run_us=np.concatenate(runs).astype(np.int64) * US,
            nodes=np.concatenate(widths).astype(np.int32),
        )

    def _submits(self, of: Range, rng: np.random.Generator, stretch: float) -> NDArray[np.float64]:
        """Submit times of a range in whole s, up to the end of the days."""
        end_s, now_s = self.days * DAY_S, 0.0
        found: list[NDArray[np.float64]] = []
        while now_s < end_s:
            if len(found) * _BLOCK >= _MOST_JOBS:
                raise ValueError(f"jann: more than {_MOST_JOBS} jobs; take fewer days or a smaller load")
            found.append(now_s + np.cumsum(of.gap.draw(rng, _BLOCK) * stretch))
            now_s = float(found[-1][-1])
        submit_s = np.concatenate(found)
        return np.floor(submit_s[submit_s < end_s])
