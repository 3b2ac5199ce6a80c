"""`scheduler: slurm`: the twin of Slurm in virtual time. The docs: `docs/slurm-twin.md`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path  # noqa: TC003 - plug-ins are made by the types of their fields
from typing import TYPE_CHECKING, Any

from emulator.plugins import check_number
from emulator.schedulers.slurm.conf import read_conf
from emulator.schedulers.slurm.rules import PriorityType, Rules

if TYPE_CHECKING:
    from emulator.harness.cluster import Cluster
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class Slurm:
    """What Slurm would do: a pass on each event, backfill every `bf_interval`, priorities and partitions.

    `conf`: a slurm.conf. What is set beside it stands above it; what nobody sets is Slurm's default. `queues`:
    partition of a queue of the trace, by number. `shares`: of a user, by number; 1 for others. `ignores_term`: jobs do
    not end at the signal that tells them of their limit, only `kill_wait` later. `nodes_lent`: so many nodes, the last
    ones, are lent for the whole run. The rest: `rules.py`.
    """

    conf: Path | None = None
    queues: dict[int, str] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    ignores_term: bool = False
    nodes_lent: int = 0
    backfill: bool | None = None
    default_queue_depth: int | None = None
    sched_interval: int | None = None
    sched_min_interval: int | None = None
    defer: bool | None = None
    bf_interval: int | None = None
    bf_window: int | None = None
    bf_resolution: int | None = None
    bf_max_job_test: int | None = None
    bf_max_job_user: int | None = None
    bf_continue: bool | None = None
    bf_min_age_reserve: int | None = None
    over_time_limit: int | None = None
    kill_wait: int | None = None
    priority_type: PriorityType | None = None
    priority_weight_age: int | None = None
    priority_weight_fairshare: int | None = None
    priority_weight_job_size: int | None = None
    priority_weight_partition: int | None = None
    priority_max_age: int | None = None
    priority_favor_small: bool | None = None
    priority_decay_half_life: int | None = None
    priority_calc_period: int | None = None

    def __post_init__(self) -> None:
        Rules(**self._said())
        check_number("slurm", "nodes_lent", self.nodes_lent, at_least=0, whole=True)
        for number, share in self.shares.items():
            check_number("slurm", f"shares of {number}", share, above=0)
        object.__setattr__(self, "shares", {int(number): float(each) for number, each in self.shares.items()})
        object.__setattr__(self, "queues", {int(number): str(each) for number, each in self.queues.items()})

    def _said(self) -> dict[str, Any]:
        known = {each.name for each in fields(Rules)}
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name in known}
        return {name: value for name, value in values.items() if value is not None}

    def rules(self, node_count: int) -> Rules:
        """All settings for a machine of so many nodes. Raises ValueError."""
        read = {} if self.conf is None else read_conf(self.conf, node_count)
        rules = Rules(**read | self._said())
        known = {each.name for each in rules.partitions}
        for number, name in self.queues.items():
            if name not in known:
                there = ", ".join(sorted(known))
                raise ValueError(f"slurm: queue {number} goes to partition {name!r}; there are: {there}")
        return self._without_lent(rules, node_count) if self.nodes_lent else rules

    def _without_lent(self, rules: Rules, node_count: int) -> Rules:
        left = range(node_count - self.nodes_lent)
        partitions = tuple(
            replace(
                each,
                nodes=tuple(left if each.nodes is None else (node for node in each.nodes if node in left)),
            )
            for each in rules.partitions
        )
        empty = [each.name for each in partitions if not each.nodes]
        if empty:
            raise ValueError(f"slurm: with {self.nodes_lent} nodes lent partition {empty[0]} has none left")
        return replace(rules, partitions=partitions)

    def make_cluster(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable) -> Cluster:
        """The machine that this scheduler needs, because it acts at times of its own. Raises ValueError."""
        from emulator.schedulers.slurm.cluster import SlurmCluster  # noqa: PLC0415 - listings do not need it

        return SlurmCluster(node_count, scheduler, jobs, self)
