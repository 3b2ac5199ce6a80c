"""A transform: jobs in, jobs out."""

from dataclasses import dataclass, replace

import numpy as np

from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class PowerOfTwo:
    """Widths rounded up to the next power of two, as far as the cluster reaches."""

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:
        rounded = 2 ** np.ceil(np.log2(jobs.nodes)).astype(np.int32)
        return replace(jobs, nodes=np.minimum(rounded, nodes).astype(np.int32))
