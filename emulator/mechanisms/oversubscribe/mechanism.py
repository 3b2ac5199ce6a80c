"""The plug-ins `oversubscribe` and `dedicated_nodes`: jobs that share cores, and the system it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.mechanisms.oversubscribe.contention import make_contention, speed_table
from emulator.mechanisms.oversubscribe.figures import Outcomes, figures
from emulator.mechanisms.oversubscribe.machine import Demands, NodeShape, OversubscribedMachine
from emulator.mechanisms.oversubscribe.parts import Part, PartedCluster
from emulator.mechanisms.oversubscribe.phases import draw_phases
from emulator.mechanisms.oversubscribe.tiles import TILES, picture
from emulator.plugins import check_number
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.machine.machine import Machine
    from emulator.record.run_record import RunRecord

_KIB_PER_GIB = 1 << 20
_MOST_CORES = 4096
_MOST_SLOTS = 64


@dataclass(slots=True)
class _SharedNodes:
    """What both have: nodes of cores, and a class of jobs that wants quick answers."""

    tiles = TILES
    picture = staticmethod(picture)
    cores: int
    """Of a node."""
    memory_gib: float = 0
    """Of a node; 0: memory is not looked at."""
    responsive_queues: list[int] = field(default_factory=lambda: [0])
    """Queues of the jobs that want a quick answer (high-responsiveness-requesting, HRR, in the paper)."""
    follow: list[int] = field(default_factory=list)
    """Numbers of jobs whose wait, run time and slowdown are told one by one."""

    def _check(self, name: str) -> None:
        check_number(name, "cores", self.cores, at_least=1, at_most=_MOST_CORES, whole=True)
        check_number(name, "memory_gib", self.memory_gib, at_least=0, at_most=1e6)
        for key, numbers in (("responsive_queues", self.responsive_queues), ("follow", self.follow)):
            if not isinstance(numbers, list):
                raise ValueError(f"{name}: {key} is a list of numbers, not {numbers!r}")  # noqa: TRY004
            for number in numbers:
                check_number(name, key, number, whole=True)

    @property
    def memory_kib(self) -> int:
        return round(self.memory_gib * _KIB_PER_GIB)

    def is_responsive(self, jobs: JobTable) -> NDArray[np.bool_]:
        return np.isin(jobs.queue, self.responsive_queues)

    def figures(self, record: RunRecord, machine: Machine) -> dict[str, Any]:  # noqa: ARG002
        """The paper's figures of a run so far, over the jobs that have ended."""
        over = np.flatnonzero((record.start_us >= 0) & (record.end_us >= 0))
        jobs = record.jobs.take(over)
        return figures(
            Outcomes(
                jobs=jobs,
                cores=jobs.column("cores") * jobs.column("whole_nodes"),
                start_us=record.start_us[over],
                end_us=record.end_us[over],
                is_responsive=self.is_responsive(jobs),
            ),
            self.follow,
        )


def _only_batch(name: str, jobs: JobTable) -> None:
    leases = np.flatnonzero(jobs.kind == Kind.ON_DEMAND)
    if len(leases):
        raise ValueError(
            f"{name}: job {jobs.number[leases[0]]} is an on-demand lease; jobs that share cores wait in the queue, so"
            " give them as batch jobs of a queue in responsive_queues"
        )


@dataclass(slots=True)
class Oversubscribe(_SharedNodes):
    """Several jobs on the same cores, at most `multiplicity` on each (Minami et al. 2023).

    `contention`: the speed of jobs that share a core (equal_shares: 1/m). `sharing`: `all` jobs share, or only
    those of the `responsive` class among themselves. `gpus`, `gpu_multiplicity`: GPUs of a node and jobs on each. By
    job, extra columns: `cores`, `memory_kib` and `gpus` of each of its nodes, `share_limit` (how many jobs it bears on
    its cores, itself included; 1: it opts out), `active_us` and `idle_us` (means of its phases).
    """

    multiplicity: int = 2
    contention: Any = "equal_shares"
    sharing: str = "all"
    gpus: int = 0
    gpu_multiplicity: int = 1

    def __post_init__(self) -> None:
        self._check("oversubscribe")
        check_number(
            "oversubscribe", "multiplicity", self.multiplicity, at_least=1, at_most=_MOST_SLOTS, whole=True
        )
        check_number("oversubscribe", "gpus", self.gpus, at_least=0, at_most=_MOST_CORES, whole=True)
        check_number(
            "oversubscribe",
            "gpu_multiplicity",
            self.gpu_multiplicity,
            at_least=1,
            at_most=_MOST_SLOTS,
            whole=True,
        )
        if self.sharing not in ("all", "responsive"):
            raise ValueError(f"oversubscribe: sharing is all or responsive, not {self.sharing!r}")
        speed_table(make_contention(self.contention), max(self.multiplicity, self.gpu_multiplicity))

    def make_machine(
        self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, seed: int
    ) -> OversubscribedMachine:
        """Raises ValueError for leases and for jobs that no empty machine could run."""
        _only_batch("oversubscribe", jobs)
        shape = NodeShape(self.cores, self.multiplicity, self.memory_kib, self.gpus, self.gpu_multiplicity)
        phases = draw_phases(jobs, stream(seed, "mechanism.oversubscribe.phases"))
        demands = Demands.of(jobs, shape, phases)
        if self.sharing == "responsive":
            demands = replace(demands, limit=np.where(self.is_responsive(jobs), demands.limit, 1))
        return OversubscribedMachine(
            node_count, shape, scheduler, jobs, demands, contention=make_contention(self.contention)
        )

    @classmethod
    def warm_up(cls) -> None:
        """Use every compiled function once: sharing, memory, GPUs, limits, phases, a victim and a refused candidate."""
        jobs = JobTable.build(
            submit_us=[0, 0, 0, 1, 2, 3, 4],
            run_us=[40_000, 20_000, 200_000, 10_000, 5_000, 5_000, 90_000],
            nodes=[1, 1, 1, 2, 1, 1, 2],
            extra={
                "cores": [1, 3, 2, 1, 1, 1, 1],
                "memory_kib": [6, 6, 0, 6, 0, 1, 0],
                "gpus": [1, 0, 0, 1, 0, 0, 0],
                "share_limit": [1, -1, -1, -1, -1, 2, -1],
                "active_us": [-1, 2_000, -1, -1, -1, -1, -1],
                "idle_us": [-1, 2_000, -1, -1, -1, -1, -1],
            },
        )
        for passes in ("instant", "event"):
            scheduler = SchedulerConfig.from_mapping({"order": "fcfs", "backfill": "easy", "pass": passes})
            for memory_gib in (0.0, 10 / _KIB_PER_GIB):
                full = cls(cores=3, multiplicity=2, memory_gib=memory_gib, gpus=1, gpu_multiplicity=2)
                machine = full.make_machine(2, scheduler, jobs, 1)
                machine.advance(50_000)
                machine.finish_instant(50_000)
                machine.catch_up(10_000_000)


@dataclass(slots=True)
class DedicatedNodes(_SharedNodes):
    """The conventional system: `percent` of the nodes, rounded down, only for the responsive class, one job a core.

    Each part has its own queue and scheduler (Minami et al. 2023, section 4.1.1). `refuse_too_wide`: a job that wants
    more nodes than its part has is rejected when it is submitted; otherwise it is an error. `rules`: of the `paper`, or
    of the authors' `program`, which pins the head to named nodes and makes a pass after each event.
    """

    percent: float = 5.0
    refuse_too_wide: bool = False
    rules: str = "paper"

    def __post_init__(self) -> None:
        self._check("dedicated_nodes")
        check_number("dedicated_nodes", "percent", self.percent, above=0, at_most=99)
        if self.rules not in ("paper", "program"):
            raise ValueError(f"dedicated_nodes: rules is paper or program, not {self.rules!r}")
        if self.rules == "program" and self.memory_gib:
            raise ValueError(
                "dedicated_nodes: the authors' program does not look at memory; leave memory_gib out"
            )

    def make_machine(
        self,
        node_count: int,
        scheduler: SchedulerConfig,
        jobs: JobTable,
        seed: int,  # noqa: ARG002 - nothing is drawn
    ) -> PartedCluster:
        """Raises ValueError for leases and for jobs that are wider than their part, unless they are refused."""
        _only_batch("dedicated_nodes", jobs)
        dedicated = int(node_count * self.percent / 100)
        if not 1 <= dedicated < node_count:
            raise ValueError(
                f"dedicated_nodes: {self.percent:g} % of {node_count} nodes are {dedicated}; each part needs a node"
            )
        if self.rules == "program" and (scheduler.pass_ != "event" or scheduler.backfill != "easy"):  # noqa: S105
            raise ValueError(
                "dedicated_nodes: rules program want a scheduler with backfill easy and pass event"
            )
        shape = NodeShape(self.cores, 1, self.memory_kib, rules=self.rules)
        responsive = self.is_responsive(jobs)
        parts = []
        for count, rows in (
            (node_count - dedicated, np.flatnonzero(~responsive)),
            (dedicated, np.flatnonzero(responsive)),
        ):
            fitting = rows[jobs.nodes[rows] <= count] if self.refuse_too_wide else rows
            part_jobs = jobs.take(fitting)
            parts.append(
                Part(
                    OversubscribedMachine(count, shape, scheduler, part_jobs, Demands.of(part_jobs, shape)),
                    fitting,
                )
            )
        return PartedCluster(jobs, Demands.of(jobs, shape), parts)
