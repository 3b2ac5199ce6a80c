"""A generator: makes jobs. All chance comes from the stream that it is given."""

from dataclasses import dataclass

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.table import JobTable, Kind


@dataclass(frozen=True, slots=True)
class Clockwork:
    """A job every `every_s` seconds, `jobs` in all, of 1 to `widest` nodes; `leases` makes them on-demand leases."""

    jobs: int = 10
    every_s: int = 600
    run_s: int = 900
    widest: int = 4
    leases: bool = False

    def __post_init__(self) -> None:
        for name in ("jobs", "every_s", "run_s", "widest"):
            check_number("clockwork", name, getattr(self, name), at_least=1, whole=True)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        return JobTable.build(
            submit_us=np.arange(self.jobs) * self.every_s * US,
            run_us=np.full(self.jobs, self.run_s * US),
            nodes=rng.integers(1, min(self.widest, nodes) + 1, self.jobs).astype(np.int32),
            kind=Kind.ON_DEMAND if self.leases else Kind.BATCH,
        )
