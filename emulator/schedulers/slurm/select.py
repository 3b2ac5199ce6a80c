"""Jobs that share nodes in Slurm's twin: what of a node is given out, and what a job wants of each of its nodes.

What the settings mean: https://slurm.schedmd.com/cons_tres.html and slurm.conf's manual page, `SelectTypeParameters`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from emulator.plugins import check_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

Parameters = Literal["CR_CPU", "CR_Core", "CR_CPU_Memory", "CR_Core_Memory"]
_KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Select:
    """`SelectType=select/cons_tres` on nodes of `cores` cores, each of one thread, `memory_mb` MiB and `gpus` GPUs.

    A job wants its extra columns `cores`, `memory_kib` and `gpus` of each of its nodes (`sbatch --nodes
    --ntasks-per-node=1 --cpus-per-task --mem --gres`); one without has all cores and memory, and no GPU. Memory
    (RealMemory) counts where `parameters` say so, GPUs (Gres) where nodes have some.
    """

    cores: int
    parameters: Parameters = "CR_Core"
    memory_mb: int = 0
    gpus: int = 0

    def __post_init__(self) -> None:
        check_number("slurm", "select cores", self.cores, at_least=2, whole=True)
        check_number("slurm", "select memory_mb", self.memory_mb, at_least=0, whole=True)
        check_number("slurm", "select gpus", self.gpus, at_least=0, whole=True)
        if self.has_memory != bool(self.memory_mb):
            does = "needs memory_mb" if self.has_memory else "does not look at memory: leave memory_mb out"
            raise ValueError(f"slurm: select {self.parameters} {does}")

    @property
    def has_memory(self) -> bool:
        return self.parameters.endswith("_Memory")

    def cores_of(self, jobs: JobTable) -> NDArray[np.int64]:
        """Of each node of a job."""
        return jobs.column("cores", self.cores)

    def memory_of(self, jobs: JobTable) -> NDArray[np.int64]:
        """Of each node of a job, in MiB, rounded up; 0 where nobody looks at it."""
        if not self.has_memory:
            return np.zeros(len(jobs), np.int64)
        return -(-jobs.column("memory_kib", self.memory_mb * _KIB_PER_MIB) // _KIB_PER_MIB)

    def gpus_of(self, jobs: JobTable) -> NDArray[np.int64]:
        """Of each node of a job."""
        return jobs.column("gpus", 0)

    def in_cores(self, jobs: JobTable) -> JobTable:
        """The jobs as the machine and records know them."""
        cores = self.cores_of(jobs)
        return replace(
            jobs.with_extra(cores=cores, whole_nodes=jobs.nodes), nodes=(jobs.nodes * cores).astype(np.int32)
        )

    def core_names(self, node_names: Iterable[str]) -> tuple[str, ...]:
        """Of the cores of these nodes, in their order: `n001/c03` is the fourth of the first."""
        return tuple(f"{name}/c{core:02}" for name in node_names for core in range(self.cores))

    def refusals(self, jobs: JobTable) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """(who takes what, the jobs that ask for something else)."""
        cores = self.cores_of(jobs)
        for what, wrong in (
            (f"between 1 and {self.cores} cores", (cores < 1) | (cores > self.cores)),
            (f"no more than {self.memory_mb} MiB of memory", self.memory_of(jobs) > self.memory_mb),
            (f"no more than {self.gpus} GPUs", self.gpus_of(jobs) > self.gpus),
        ):
            if wrong.any():
                yield f"a node gives {what}", wrong
