"""The weighted sum of factors that many sites order their queues by, as Slurm's documentation defines them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.schedulers.dynamic import FairShare, numbered
from emulator.workload.job_columns import FACTOR_PPB, PPB

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

_WEEK_S = 604_800.0
_SPLIT = 2.0**20 + 1.0
"""`x * _SPLIT - (x * _SPLIT - x)` is x rounded to 33 of its 53 binary digits (Veltkamp's splitting)."""


@dataclass(frozen=True, slots=True)
class Multifactor:
    """Largest weighted sum of age, size, fair share, queue and QOS, each a factor from 0 to 1.

    Source: Slurm's documentation, *Multifactor Priority Plugin* and *Classic Fairshare Algorithm* (one level of
    accounts). age: wait / `max_age_s`, at most 1. size: nodes / nodes of the machine, or with `favor_small` 1 for one
    node, falling to 1 / nodes for the whole machine. fair share: 2^(-(usage / share) / `damping`); usage and share
    are an account's parts of all usage (decayed with `half_life_s`) and of all `shares` (account number: shares, 1
    for others). queue: `queues` of its number / the largest of them, 0 for others. QOS: its priority / the highest.
    The weights are 0 in Slurm unless a site sets them; here all count alike. The sum is rounded to 33 binary digits:
    usage is added up over the run, so that the last digits of accounts with equal usage may differ.
    """

    age_weight: float = 1000.0
    size_weight: float = 1000.0
    fair_share_weight: float = 1000.0
    queue_weight: float = 1000.0
    qos_weight: float = 1000.0
    max_age_s: float = _WEEK_S
    favor_small: bool = False
    half_life_s: float = _WEEK_S
    damping: float = 1.0
    account: Literal["user", "group"] = "user"
    shares: dict[int, float] = field(default_factory=dict)
    queues: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("age_weight", "size_weight", "fair_share_weight", "queue_weight", "qos_weight"):
            check_number("multifactor", name, getattr(self, name), at_least=0)
        for name in ("max_age_s", "half_life_s", "damping"):
            check_number("multifactor", name, getattr(self, name), above=0)
        if self.account not in ("user", "group"):
            raise ValueError(f"multifactor: account must be user or group, not {self.account!r}")
        if not isinstance(self.favor_small, bool):
            raise ValueError(f"multifactor: favor_small must be true or false, not {self.favor_small!r}")  # noqa: TRY004
        for name in ("shares", "queues"):
            values = numbered("multifactor", name, getattr(self, name))
            for number, value in values.items():
                what = f"{name} of {number}"
                check_number("multifactor", what, value, at_least=0, above=0 if name == "shares" else None)
            object.__setattr__(self, name, values)

    def fair_share(self) -> FairShare:
        return FairShare(self.half_life_s * US, self.account, self.shares)

    def fixed(self, jobs: JobTable, node_count: int) -> NDArray[np.float64]:
        """The size, queue and QOS factors, weighted."""
        size = (node_count - jobs.nodes + 1 if self.favor_small else jobs.nodes) / node_count
        queue = np.zeros(len(jobs))
        largest = max(self.queues.values(), default=0.0) or 1.0
        for number, value in self.queues.items():
            queue[jobs.queue == number] = value / largest
        fixed = self.size_weight * size + self.queue_weight * queue
        if FACTOR_PPB in jobs.extra:
            fixed = fixed + self.qos_weight * (jobs.column(FACTOR_PPB, 0) / PPB)
        return np.asarray(fixed)

    def score(self, job: Any) -> float:
        age = min(job.wait_us / 1e6 / self.max_age_s, 1.0)
        fair_share = 0.5 ** (job.usage / job.share / self.damping)
        priority = self.age_weight * age + self.fair_share_weight * fair_share + job.fixed
        scaled = priority * _SPLIT
        return float(scaled - (scaled - priority))
