"""The mechanism of hybrid-fan-2021: its settings, its compiled run (`whole.py`), and the baseline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from balancer.clock import NEVER_US, micros
from emulator.cluster.cluster import Cluster
from emulator.events.node_failures import Failures
from emulator.machine.running import Save
from emulator.mechanisms.hybrid.few_jobs import few_jobs
from emulator.mechanisms.hybrid.figures import figures
from emulator.mechanisms.hybrid.loans import LoanAccount
from emulator.mechanisms.hybrid.machine import HybridRules, hybrid_cluster
from emulator.mechanisms.hybrid.own_strategies import Strategies
from emulator.mechanisms.hybrid.tally import Tally
from emulator.mechanisms.hybrid.tiles import TILES, picture
from emulator.mechanisms.hybrid.whole import WholeRun
from emulator.plugins import check_number, make_plugin
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.workload.streams import stream
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.machine.actions import Accounting
    from emulator.machine.machine import Machine
    from emulator.record.run_record import RunRecord
    from emulator.simulation.mechanism import Actions
    from emulator.workload.table import JobTable

NOTICES, ARRIVALS = "emulator.hybrid_notices", "emulator.hybrid_arrivals"
BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class _Known:
    """A column of the job table and what stands for it where it is unknown, without a copy."""

    values: NDArray[np.int64] | None
    instead: NDArray[np.int32] | NDArray[np.int64]

    def where(self, rows: NDArray[np.bool_], other: _Known) -> NDArray[np.int64]:
        """These of some rows, and the others of the rest."""
        found = np.empty(len(rows), np.int64)
        for one, its in ((self, rows), (other, ~rows)):
            np.copyto(found, one.instead, where=its)
            if one.values is not None:
                np.copyto(found, one.values, where=its & (one.values >= 0))
        return found


@dataclass(slots=True)
class HybridMechanism:
    """Makes room for on-demand jobs by holding nodes, preempting and shrinking (hybrid-fan-2021).

    `strategy`: what is done at the notice and at the arrival, such as `cua+spaa` (n, cua, cup; paa, spaa; or plug-ins
    of one's own), or `baseline`: on-demand jobs wait in the queue like all others. `release_after_s`: held nodes are
    released so long after the predicted arrival. `warning_s`: a malleable job has so long to write down where it is
    before its nodes are taken. `mtbf_s`: mean time between failures in the whole system, 0 for none; `repair_s`: mean
    time until a failed node is back.
    """

    tiles = TILES
    picture = staticmethod(picture)
    strategy: str = "cua+spaa"
    release_after_s: float = 600
    warning_s: float = 120
    mtbf_s: float = 0
    repair_s: float = 21_600
    notice_us: int = field(init=False, default=0)
    tally: Tally = field(init=False, repr=False, default_factory=Tally)
    loans: LoanAccount = field(init=False, repr=False, default_factory=LoanAccount)
    failures: Failures | None = field(init=False, repr=False, default=None)
    _notice: Any = field(init=False, repr=False, default=None)
    _arrival: Any = field(init=False, repr=False, default=None)
    _rules: HybridRules = field(init=False, repr=False)
    _seed: int = field(init=False, repr=False, default=0)
    _on_demand: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("release_after_s", "warning_s", "mtbf_s"):
            check_number("hybrid", name, getattr(self, name), at_least=0)
        check_number("hybrid", "repair_s", self.repair_s, above=0)
        if self.is_baseline:
            return
        notice, plus, arrival = self.strategy.partition("+")
        if not plus:
            raise ValueError(
                f"hybrid: strategy is a notice and an arrival strategy, such as cua+spaa, or {BASELINE}, "
                f"not {self.strategy!r}"
            )
        self._notice = make_plugin(NOTICES, notice)
        self._arrival = make_plugin(ARRIVALS, arrival)

    @property
    def is_baseline(self) -> bool:
        return self.strategy == BASELINE

    @property
    def guest_starts(self) -> int:
        """How often a batch job was started on held nodes."""
        return 0 if self.is_baseline else self._rules.guest_starts

    def held_idle_node_us(self, now_us: int) -> int:
        """Node-time that nodes were held and idle."""
        return 0 if self.is_baseline else self._rules.idle_held_node_us(now_us)

    def make_machine(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, seed: int) -> Cluster:
        self._seed = seed
        if self.is_baseline:
            return Cluster(node_count, scheduler, jobs)
        return hybrid_cluster(node_count, scheduler, jobs)

    @classmethod
    def warm_up(cls) -> None:
        """Use every compiled function once."""
        for strategy, by_steps in (("cua+spaa", False), ("cup+paa", True)):
            mechanism = cls(strategy, mtbf_s=1e-5)
            loop = Loop(mechanism.make_machine(5, SchedulerConfig(), few_jobs(), 1), mechanism)
            loop.run(by_steps=by_steps)
            loop.record()

    def on_begin(self, act: Actions) -> None:
        table = act.cluster.job_table()
        self._on_demand = table.kind == Kind.ON_DEMAND
        if self.mtbf_s:
            self.failures = Failures(
                stream(self._seed, "mechanisms.hybrid.failures"),
                act.cluster.node_count,
                self.mtbf_s,
                self.repair_s,
                int(table.submit_us.max(initial=0)),
            )
        if self.is_baseline:
            self._wake(act)
        else:
            self._rules = cast("HybridRules", act.cluster.rules)
            self._rules.work = act.running.kernel_work

    def whole_run(self, act: Accounting, points: NDArray[np.int64]) -> WholeRun | None:
        """The run, whose handlers are compiled; None: of the baseline."""
        if self.is_baseline:
            return None
        table = act.cluster.job_table()
        predicted_us = _Known(table.extra.get("predicted_us"), table.submit_us)
        most = _Known(table.extra.get("max_nodes"), table.nodes)
        return WholeRun(
            self,
            self._rules,
            act,
            known=predicted_us.where(self._on_demand, most),
            strategies=Strategies(self._notice, self._arrival, self.strategy),
            times_us=(micros(self.release_after_s), micros(self.warning_s)),
            points=points,
            failures=self.failures,
        )

    def is_on_demand(self, jobs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these jobs are on-demand jobs."""
        return self._on_demand[jobs]

    # The baseline: on-demand jobs are batch jobs, and nodes may fail.

    def on_notice(self, job: int, act: Actions) -> None:
        """Nothing is done."""

    def on_arrival(self, job: int, act: Actions) -> None:
        if not self.is_baseline:
            raise RuntimeError(f"the strategy {self.strategy} serves compiled runs alone (`whole_run`)")
        act.enqueue(job)

    def on_timer(self, act: Actions) -> None:
        """A failure, or repairs."""
        if self.failures is None:
            return
        act.repair(self.failures.repaired(act.now_us))
        node = self.failures.failed(act.now_us)
        if node is not None:
            self._fail(node, act)
        self._wake(act)

    def _fail(self, node: int, act: Actions) -> None:
        """A node breaks: a batch job goes back to its latest checkpoint, an on-demand job begins anew."""
        job = int(act.cluster.node_job[node])
        if job >= 0 and self._on_demand[job]:
            nodes = act.preempt(job, Save.NONE)
            act.release(one for one in nodes if one != node)
        act.take_down([node])

    def _wake(self, act: Actions) -> None:
        if self.failures is not None and self.failures.next_us != NEVER_US:
            act.wake(self.failures.next_us)

    def figures(self, record: RunRecord, machine: Machine) -> dict[str, Any]:  # noqa: ARG002
        """The paper's metrics of this run (section IV-D), and what the mechanism did."""
        return figures(self, record)
