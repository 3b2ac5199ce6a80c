"""Two separate clusters, as centres have them today: the baseline of every mechanism that shares nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.mechanisms.pool_tiles import TILES, picture
from emulator.plugins import check_number
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.harness.mechanism import Actions


@dataclass(slots=True)
class StaticPartition:
    """A fixed number of nodes is on-demand for good, the rest is batch (balancer-liu-2018, Table I, static).

    `ondemand_nodes`: how many. A lease that does not find enough of them free is rejected. A batch job that
    is wider than the rest could never start, so it is an error.
    """

    tiles = TILES
    picture = staticmethod(picture)
    ondemand_nodes: int
    _free: list[int] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        check_number("static_partition", "ondemand_nodes", self.ondemand_nodes, at_least=0, whole=True)

    def on_begin(self, act: Actions) -> None:
        nodes = act.cluster.node_count
        if self.ondemand_nodes > nodes:
            raise ValueError(
                f"static_partition: ondemand_nodes is {self.ondemand_nodes}, the cluster has {nodes} nodes"
            )
        jobs = act.cluster.job_table()
        batch = nodes - self.ondemand_nodes
        too_wide = np.flatnonzero((jobs.kind == Kind.BATCH) & (jobs.nodes > batch))
        if len(too_wide):
            row = int(too_wide[0])
            raise ValueError(
                f"static_partition: job {jobs.number[row]} wants {jobs.nodes[row]} nodes, but only {batch} are"
                f" left for batch; take fewer ondemand_nodes or a workload without such jobs"
            )
        self._free, _ = act.reserve(range(batch, nodes))

    def on_arrival(self, job: int, act: Actions) -> None:
        wanted = act.cluster.nodes_wanted(job)
        if wanted > len(self._free):
            act.reject(job, f"{wanted} nodes are not free in the on-demand partition")
            return
        chosen, self._free = self._free[:wanted], self._free[wanted:]
        act.start(job, chosen)

    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:  # noqa: ARG002
        self._free += nodes.tolist()
