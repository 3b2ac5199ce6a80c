"""Jobs that share nodes in Slurm's twin: what of a node is given out, and what a job wants of each of its nodes.

What the settings mean: https://slurm.schedmd.com/cons_tres.html and slurm.conf's manual page, `SelectTypeParameters`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from emulator.config.node_names import default_node_names, nodes_by_kind
from emulator.plugins import check_number
from emulator.schedulers.slurm.times import MOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

Parameters = Literal["CR_CPU", "CR_Core", "CR_CPU_Memory", "CR_Core_Memory"]
CORES: Parameters = "CR_Core"
MOST_CORES = 65_533
"""The most cores, and GPUs, of a node: Slurm counts them in 16 bits."""
_KIB_PER_MIB = 1024


def has_memory(parameters: Parameters) -> bool:
    """Whether memory counts."""
    return parameters.endswith("_Memory")


@dataclass(frozen=True, slots=True)
class NodeKind:
    """These `nodes` (a list of names, or ALL) have `cores`, `memory_mb` MiB and `gpus` each.

    Jobs get the nodes of the least `weight` (NodeName, `Weight`) that can hold them.
    """

    nodes: str
    cores: int
    memory_mb: int = 0
    gpus: int = 0
    weight: int = 1


class Size(NamedTuple):
    """What a node has: cores, memory in MiB (0 where nobody looks at it) and GPUs."""

    cores: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Select:
    """`SelectType=select/cons_tres` on nodes of `cores` cores, each of one thread, `memory_mb` MiB and `gpus` GPUs.

    Different nodes have `kinds` instead of these; without either they are as NodeName lines of the twin's `conf` say. A
    job wants its extra columns `cores`, `memory_kib` and `gpus` of each of its nodes (`sbatch --nodes
    --ntasks-per-node=1 --cpus-per-task --mem --gres`); one without has all cores and memory, which is a number only
    where all nodes have as many, and no GPU. Memory (RealMemory) counts where `parameters` say so (`CR_Core`, or those
    of a `conf` that says what nodes have), GPUs (Gres) where nodes have some.
    """

    cores: int | None = None
    parameters: Parameters | None = None
    memory_mb: int = 0
    gpus: int = 0
    kinds: dict[str, NodeKind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kinds and self.cores is not None:
            raise ValueError("slurm: select: give `cores`, if all nodes have as many, or `kinds`")
        if self.cores is None and (self.memory_mb or self.gpus):
            raise ValueError("slurm: select: memory_mb and gpus go with `cores`, or with those of each kind")
        if self.cores is not None:
            self._check("", NodeKind("ALL", self.cores, self.memory_mb, self.gpus))
        for name, kind in self.kinds.items():
            self._check(f"kinds.{name} ", kind)

    def _check(self, where: str, kind: NodeKind) -> None:
        check_number("slurm", f"select {where}cores", kind.cores, at_least=1, at_most=MOST_CORES, whole=True)
        check_number(
            "slurm", f"select {where}memory_mb", kind.memory_mb, at_least=0, at_most=MOST, whole=True
        )
        check_number("slurm", f"select {where}gpus", kind.gpus, at_least=0, at_most=MOST_CORES, whole=True)
        check_number("slurm", f"select {where}weight", kind.weight, at_least=0, at_most=MOST, whole=True)
        parameters = self.parameters or CORES
        if has_memory(parameters) != bool(kind.memory_mb):
            does = (
                "needs memory_mb"
                if has_memory(parameters)
                else "does not look at memory: leave memory_mb out"
            )
            raise ValueError(f"slurm: select {where}{parameters} {does}")

    def on(self, node_count: int) -> SharedNodes:
        """The nodes of a machine of so many. Raises ValueError."""
        parameters = self.parameters or CORES
        if self.cores is not None:
            size = Size(self.cores, self.memory_mb, self.gpus)
            return SharedNodes(parameters, (size,) * node_count, (1,) * node_count)
        said = {name: each.nodes for name, each in self.kinds.items()}
        found = nodes_by_kind("slurm: select.kinds", said, default_node_names(node_count))
        kind_of = {node: self.kinds[name] for name, nodes in found.items() for node in nodes}
        kinds = [kind_of[node] for node in range(node_count)]
        sizes = tuple(Size(kind.cores, kind.memory_mb, kind.gpus) for kind in kinds)
        return SharedNodes(parameters, sizes, tuple(kind.weight for kind in kinds))


class Wants(NamedTuple):
    """What each job wants of each of its nodes: cores, memory in MiB (0 where nobody looks at it), GPUs; by job."""

    cores: NDArray[np.int64]
    memory_mib: NDArray[np.int64]
    gpus: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """Nodes that jobs share. `sizes` and `weights`: of each node."""

    parameters: Parameters
    sizes: tuple[Size, ...]
    weights: tuple[int, ...]

    @property
    def has_memory(self) -> bool:
        return has_memory(self.parameters)

    @property
    def has_gpus(self) -> bool:
        return any(size.gpus for size in self.sizes)

    @property
    def alike(self) -> dict[tuple[Size, int], list[int]]:
        """The nodes of each size and weight, in their order."""
        found: dict[tuple[Size, int], list[int]] = {}
        for node, each in enumerate(zip(self.sizes, self.weights, strict=True)):
            found.setdefault(each, []).append(node)
        return found

    @property
    def first_core(self) -> NDArray[np.int64]:
        """Of each node: cores are numbered node by node."""
        cores = np.array([size.cores for size in self.sizes], np.int64)
        return np.cumsum(cores) - cores

    @property
    def node_of_core(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.sizes)), [size.cores for size in self.sizes])

    def wants_of(self, jobs: JobTable) -> Wants:
        """-1: all of a node, where nodes have different ones."""
        memory = jobs.column("memory_kib", self._of_all("memory_mib") * _KIB_PER_MIB)
        return Wants(
            jobs.column("cores", self._of_all("cores")),
            np.where(memory < 0, -1, -(-memory // _KIB_PER_MIB)) * self.has_memory,
            jobs.column("gpus", 0),
        )

    def _of_all(self, name: str) -> int:
        """What each node has, -1 if they are different."""
        found = {getattr(size, name) for size in self.sizes}
        return int(found.pop()) if len(found) == 1 else -1

    def in_cores(self, jobs: JobTable) -> JobTable:
        """The jobs as the machine and records know them."""
        cores = self.wants_of(jobs).cores
        return replace(
            jobs.with_extra(cores=cores, whole_nodes=jobs.nodes), nodes=(jobs.nodes * cores).astype(np.int32)
        )

    def core_names(self, node_names: tuple[str, ...]) -> tuple[str, ...]:
        """Of the cores of these nodes, in their order: `n001/c03` is the fourth of the first."""
        sized = zip(node_names, self.sizes, strict=True)
        return tuple(f"{name}/c{core:02}" for name, size in sized for core in range(size.cores))

    def refusals(self, jobs: JobTable) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """(who takes what, the jobs that ask for something else)."""
        wants = self.wants_of(jobs)
        most = Size(*(max(column) for column in zip(*self.sizes, strict=True)))
        for what, wrong in (
            ("nodes have different numbers of cores: each job needs `cores`", wants.cores < 0),
            ("nodes have different memory: each job needs `memory_kib`", wants.memory_mib < 0),
            (
                f"a node gives between 1 and {most.cores} cores",
                (wants.cores == 0) | (wants.cores > most.cores),
            ),
            (
                f"a node gives no more than {most.memory_mib} MiB of memory",
                wants.memory_mib > most.memory_mib,
            ),
            (f"a node gives no more than {most.gpus} GPUs", wants.gpus > most.gpus),
        ):
            if wrong.any():
                yield what, wrong

    def refusals_in(
        self, jobs: JobTable, mine: NDArray[np.bool_], who: str, nodes: Sequence[int]
    ) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Likewise of those jobs that may have these nodes, of which there are enough, but not of this size."""
        if len(set(self.sizes)) == 1 or not nodes:
            return
        wants = np.stack(self.wants_of(jobs), axis=1)
        sizes, counts = np.unique([self.sizes[node] for node in nodes], axis=0, return_counts=True)
        fits = (wants[:, None, :] <= sizes[None, :, :]).all(axis=2) @ counts
        wrong = mine & (jobs.nodes > fits) & (jobs.nodes <= len(nodes))
        if wrong.any():
            yield f"{who} gives a job nodes that can hold its part", wrong
