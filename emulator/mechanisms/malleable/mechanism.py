"""Moldable and malleable jobs under a planning scheduler, as a mechanism (malleable-hungershoefer-2004)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from balancer.clock import NEVER_US, US, micros
from emulator.mechanisms.malleable.machine import Minimum, PlanningMachine, Rules
from emulator.mechanisms.malleable.tiles import TILES, picture
from emulator.plugins import check_number, make_plugin
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.speedup import GROUP, Speedup
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from emulator.simulation.mechanism import Actions

_PENALTIES = ("run_time", "work")
_PLACEMENTS = ("earliest_completion", "at_minimum")


@dataclass(slots=True)
class Malleable:
    """Plans jobs that choose their width at the start (moldable) or change it while they run (malleable).

    Which job is what is in the workload's column `job_class` (transform `flexible_jobs`). Leases are rejected.

    `minimum`: what a running malleable job keeps, whoever comes: `least`, its `min_nodes`; `placed`, the width it was
    placed with; `shared`, that too, but malleable jobs share what they keep among themselves; `pool`, its `min_nodes`
    and a part of what ended malleable jobs kept, which waiting ones share after the plan; `pool_waiting_first`, before.
    `placement`: a malleable job is placed like a moldable one (`earliest_completion`) or for its minimum
    (`at_minimum`).
    `speedup`: a plug-in of the group `emulator.speedups`. `reconfiguration_s`: run time that each change of width
    costs; with `reconfiguration: work` its new nodes lose together what one node does in it. `tick_s`: lengths are
    whole multiples of it; 0: of a microsecond.
    """

    tiles = TILES
    picture = staticmethod(picture)
    minimum: Minimum = "least"
    placement: str = "earliest_completion"
    speedup: Any = "linear"
    reconfiguration_s: float = 0.0
    reconfiguration: str = "run_time"
    tick_s: float = 0.0
    _rules: Rules = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.minimum not in get_args(Minimum):
            raise ValueError(f"malleable: minimum is {', '.join(get_args(Minimum))}, not {self.minimum!r}")
        if self.placement not in _PLACEMENTS:
            raise ValueError(f"malleable: placement is {' or '.join(_PLACEMENTS)}, not {self.placement!r}")
        if self.reconfiguration not in _PENALTIES:
            raise ValueError(
                f"malleable: reconfiguration is {' or '.join(_PENALTIES)}, not {self.reconfiguration!r}"
            )
        check_number("malleable", "reconfiguration_s", self.reconfiguration_s, at_least=0, at_most=1e6)
        check_number("malleable", "tick_s", self.tick_s, at_least=0, at_most=1e6)
        model = make_plugin(GROUP, self.speedup)
        if not isinstance(model, Speedup):
            raise TypeError(f"malleable: {self.speedup!r} is no speed-up model")
        self._rules = Rules(
            minimum=self.minimum,
            place_at_minimum=self.placement == "at_minimum",
            speedup=model,
            penalty_us=micros(self.reconfiguration_s),
            penalty_is_work=self.reconfiguration == "work",
            tick_us=max(1, micros(self.tick_s)),
        )

    def make_machine(
        self,
        node_count: int,
        scheduler: SchedulerConfig,
        jobs: JobTable,
        seed: int,  # noqa: ARG002
    ) -> PlanningMachine:
        """The machine that plans; the harness runs it in place of the one for rigid jobs."""
        return PlanningMachine(node_count, scheduler, jobs, self._rules)

    @staticmethod
    def warm_up() -> None:
        """Compile the kernels: a job of each class on two nodes."""
        columns = {"job_class": [0, 1, 2], "min_nodes": [1, 1, 1], "max_nodes": [1, 2, 2]}
        jobs = JobTable.build(submit_us=[0, 0, 0], run_us=[US, US, 2 * US], nodes=[1, 1, 1], extra=columns)
        scheduler = SchedulerConfig(backfill="conservative")
        for minimum in get_args(Minimum):
            machine = Malleable(minimum=minimum).make_machine(2, scheduler, jobs, 0)
            machine.advance(US)
            machine.finish_instant(US)
            machine.advance(NEVER_US)

    def on_arrival(self, job: int, act: Actions) -> None:
        act.reject(job, "the planning scheduler serves no on-demand jobs")
