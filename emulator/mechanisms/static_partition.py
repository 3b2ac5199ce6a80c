"""Two separate clusters, as centres have them today: the baseline of every mechanism that shares nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.mechanisms import lease_failures
from emulator.mechanisms.lease_failures import LeaseAccount, OnFailure
from emulator.mechanisms.pool_tiles import TILES, picture
from emulator.plugins import check_number
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.machine.machine import Machine
    from emulator.record.run_record import RunRecord
    from emulator.simulation.mechanism import Actions


@dataclass(slots=True)
class StaticPartition:
    """A fixed number of nodes is on-demand for good, the rest is batch (balancer-liu-2018, Table I, static).

    `ondemand_nodes`: how many. A lease that does not find enough of them free is rejected. A batch job that
    is wider than the rest could never start, so it is an error. `on_failure`, for runs with `failures`: a lease on a
    node that fails goes on (`keep`), gets another node if one is free at once (`replace`), or ends (`end`).
    """

    tiles = lease_failures.TILES + TILES
    picture = staticmethod(picture)
    ondemand_nodes: int
    on_failure: str = "keep"
    _free: list[int] = field(init=False, repr=False, default_factory=list)
    _account: LeaseAccount | None = field(init=False, repr=False, default=None)
    """Where nodes may fail."""
    _down: set[int] = field(init=False, repr=False, default_factory=set)
    """On-demand nodes that do not work."""

    def __post_init__(self) -> None:
        check_number("static_partition", "ondemand_nodes", self.ondemand_nodes, at_least=0, whole=True)
        OnFailure.read("static_partition", self.on_failure)

    only_with_failures = ("on_failure",)

    def expect_failures(self) -> None:
        self._account = LeaseAccount()

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

    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:
        if self._account is not None:
            self._account.ended(job, act.now_us)
        self._take_back(nodes.tolist(), act)

    def on_nodes_down(self, nodes: list[int], act: Actions) -> None:
        account, node_job = self.account, act.cluster.node_job
        own = [node for node in nodes if self._is_own(node, act)]
        self._down.update(own)
        self._free = [node for node in self._free if node not in self._down]
        hit: dict[int, list[int]] = {}
        for node in own:
            if (job := int(node_job[node])) >= 0:
                hit.setdefault(job, []).append(node)
                account.failed(job, act.now_us)
        for job, failed in hit.items():
            if self.on_failure == OnFailure.END:
                self._cut(job, act)
            elif self.on_failure == OnFailure.REPLACE:
                self._replace(job, failed, act)

    def on_nodes_up(self, nodes: list[int], act: Actions) -> None:
        node_job, idle = act.cluster.node_job, []
        for node in nodes:
            self._down.discard(node)
            if (job := int(node_job[node])) >= 0:
                self.account.works_again(job, act.now_us)  # it was kept
            else:
                idle.append(node)
        own = [node for node in idle if self._is_own(node, act)]
        act.set_up(own)
        act.repair(node for node in idle if not self._is_own(node, act))
        self._free += own

    def figures(self, record: RunRecord, machine: Machine) -> dict[str, Any]:  # noqa: ARG002 - its record has all
        return {} if self._account is None else self._account.figures(record.horizon_us)

    @property
    def account(self) -> LeaseAccount:
        assert self._account is not None  # noqa: S101 - `expect_failures` has been called
        return self._account

    def _is_own(self, node: int, act: Actions) -> bool:
        return node >= act.cluster.node_count - self.ondemand_nodes

    def _take_back(self, nodes: list[int], act: Actions) -> None:
        """Nodes that a lease has left."""
        act.set_down([node for node in nodes if node in self._down])
        self._free += [node for node in nodes if node not in self._down]

    def _cut(self, job: int, act: Actions) -> None:
        nodes = act.cluster.nodes_of(job).tolist()
        self.account.cut_off(job, act)
        act.end_lease(job)
        self._take_back(nodes, act)

    def _replace(self, job: int, failed: list[int], act: Actions) -> None:
        """By the rule of requests: as many others at once, or none. A lease without any node is over."""
        held = act.cluster.nodes_of(job).tolist()
        left = [node for node in held if node not in failed]
        found, self._free = self._free[: len(failed)], self._free[len(failed) :]
        if len(found) < len(failed):
            self._free, found = found + self._free, []
            self.account.not_replaced += len(failed)
        if not left and not found:
            self._cut(job, act)
            return
        act.reassign(job, left + found)
        act.set_down(failed)
        self.account.replaced += len(found)
        for _ in found:
            self.account.works_again(job, act.now_us)
