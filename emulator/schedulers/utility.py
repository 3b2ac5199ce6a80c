"""WFP3 and UNICEF: priorities that grow with the wait, in proportion to what was asked for.

Tang, Lan, Desai and Buettner: *Fault-aware, utility-based job scheduling on Blue Gene/P systems*, Cluster 2009, section
III-C. As in Carastan-Santos and de Camargo (SC'17, Table 3), `r` is the estimate, `n` the size and `w` the wait so far.
`negative_wait`: as RLScheduler (SC'20) does it, whose jobs that wait started at -1 s: `w` is -1 s - submit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from balancer.clock import US
from emulator.plugins import check_number


@dataclass(frozen=True, slots=True)
class Wfp3:
    """Largest (w / r)^exponent x n: favours long waits, wide jobs and short estimates; large jobs do not starve."""

    exponent: float = 3.0
    negative_wait: bool = False

    def __post_init__(self) -> None:
        check_number("wfp3", "exponent", self.exponent, above=0)

    def score(self, job: Any) -> float:
        wait_us = -US - job.submit_us if self.negative_wait else job.wait_us
        return float((wait_us / job.estimate_us) ** self.exponent * job.nodes)


@dataclass(frozen=True, slots=True)
class Unicef:
    """Largest w / (log2(n) x r): quick turnaround for small jobs; jobs of one node come first, by w / r."""

    negative_wait: bool = False

    def score(self, job: Any) -> float:
        # log2(1) is 0. With this instead, one node comes before all others and is ordered as the formula would.
        width = math.log2(job.nodes) if job.nodes > 1 else 1e-15
        wait_us = -US - job.submit_us if self.negative_wait else job.wait_us
        return float(wait_us / (width * job.estimate_us))
