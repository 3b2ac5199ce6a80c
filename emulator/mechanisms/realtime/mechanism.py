"""The plug-in `realtime`: which jobs are real-time, under which scheme, on which topology."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.cluster.topology import layout_of
from emulator.machine.checkpoint_io import CheckpointIO
from emulator.mechanisms.realtime.figures import figures
from emulator.mechanisms.realtime.machine import SCHEMES, RealtimeMachine
from emulator.mechanisms.realtime.tiles import TILES, picture
from emulator.plugins import check_number
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

_MOST_S = 365 * 86_400


@dataclass(slots=True)
class Realtime:
    """Some jobs must start at once, and batch jobs give way (realtime-wang-2017).

    `scheme`: baseline, hpq, pre_rest, pre_ckpt_sys, pre_ckpt_app or pre_ckpt. Real-time are the leases of the
    workload, the jobs whose numbers are in `jobs`, and `percent` % of the others, drawn at random (`sample` tells one
    draw from another). `topology`: flat or blue_gene_q, with parameters. `data_gb`: a checkpoint's data a node;
    `node_gb_s`: a node's bandwidth; `write_cap_gb_s`, `read_cap_gb_s`: the file system's; `shared_cap`: for all who
    transfer at once, or for each job. `interval_s`: work between two checkpoints of pre_ckpt_sys; `interval_share`:
    the same of pre_ckpt_app, as a share of the job's walltime. `resubmit`: a preempted job goes to the `back` of the
    queue or to its old `place`. `hpq_blocks`: under hpq batch jobs wait for all waiting real-time jobs; false: they are
    backfilled behind the first. `narrow_nodes`: the widest that counts as narrow in the figures.
    """

    tiles = TILES
    picture = staticmethod(picture)
    scheme: str = "pre_ckpt"
    percent: float = 0
    jobs: list[int] = field(default_factory=list)
    sample: int = 0
    topology: Any = "flat"
    data_gb: float = 4.0
    node_gb_s: float = 2.0
    write_cap_gb_s: float = 216.0
    read_cap_gb_s: float = 216.0
    shared_cap: bool = True
    interval_s: float = 1800
    interval_share: float = 0.3
    resubmit: str = "back"
    hpq_blocks: bool = True
    narrow_nodes: int = 4096

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ValueError(f"realtime: scheme is one of {', '.join(SCHEMES)}, not {self.scheme!r}")
        if self.resubmit not in ("back", "place"):
            raise ValueError(f"realtime: resubmit is back or place, not {self.resubmit!r}")
        check_number("realtime", "percent", self.percent, at_least=0, at_most=100)
        check_number("realtime", "sample", self.sample, at_least=0, at_most=1_000_000, whole=True)
        check_number("realtime", "interval_s", self.interval_s, at_least=1, at_most=_MOST_S)
        check_number("realtime", "interval_share", self.interval_share, above=0, at_most=1)
        check_number("realtime", "narrow_nodes", self.narrow_nodes, at_least=1, whole=True)
        for number in self.jobs:
            check_number("realtime", "jobs", number, whole=True)
        self.io()

    def io(self) -> CheckpointIO:
        """The checkpoint model. Raises ValueError."""
        return CheckpointIO(
            self.data_gb, self.node_gb_s, self.write_cap_gb_s, self.read_cap_gb_s, shared=self.shared_cap
        )

    def make_machine(
        self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, seed: int
    ) -> RealtimeMachine:
        """The machine that holds jobs and nodes. Raises ValueError for what cannot be run."""
        return RealtimeMachine(
            layout_of(self.topology, node_count),
            scheduler,
            jobs,
            scheme=self.scheme,
            realtime=self.chosen(jobs, seed),
            interval_us=self.intervals_us(jobs),
            io=self.io(),
            to_the_back=self.resubmit == "back",
            hpq_blocks=self.hpq_blocks,
        )

    def chosen(self, jobs: JobTable, seed: int) -> NDArray[np.bool_]:
        """Which jobs are real-time. Raises ValueError for a number in `jobs` that no job has."""
        unknown = set(self.jobs) - set(jobs.number.tolist())
        if unknown:
            raise ValueError(f"realtime: jobs: there is no job {min(unknown)} in the workload")
        realtime: NDArray[np.bool_] = (jobs.kind == Kind.ON_DEMAND) | np.isin(jobs.number, self.jobs)
        others = np.flatnonzero(~realtime)
        draw = stream(seed, f"mechanism.realtime.{self.sample}")
        count = round(len(others) * self.percent / 100)
        realtime[draw.choice(others, count, replace=False)] = True
        return realtime

    def intervals_us(self, jobs: JobTable) -> NDArray[np.int64]:
        """Work between two checkpoints of each job; 0: none."""
        if self.scheme == "pre_ckpt_sys":
            return np.full(len(jobs), round(self.interval_s * US), np.int64)
        if self.scheme == "pre_ckpt_app":
            shares: NDArray[np.float64] = np.rint(jobs.estimate_us * self.interval_share)
            return np.maximum(1, shares.astype(np.int64))
        return np.zeros(len(jobs), np.int64)

    @staticmethod
    def warm_up() -> None:
        """Compile the kernels: a real-time job that preempts another one on two nodes."""
        jobs = JobTable.build(submit_us=[0, US], run_us=[2 * US, US], nodes=[2, 1])
        machine = Realtime(jobs=[2]).make_machine(2, SchedulerConfig(), jobs, 0)
        machine.advance(US)
        machine.finish_instant(US)

    def figures(self, record: RunRecord, machine: RealtimeMachine) -> dict[str, Any]:  # noqa: ARG002
        """The paper's figures of the run."""
        return self.figures_of(machine)

    def figures_of(self, machine: RealtimeMachine) -> dict[str, Any]:
        """As `figures`, of a machine without a record."""
        return figures(machine, narrow_nodes=self.narrow_nodes)
