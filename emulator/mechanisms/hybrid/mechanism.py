"""The mechanism of hybrid-fan-2021: a notice strategy and an arrival strategy, and what both of them need."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from balancer.clock import NEVER_US, micros, wall_us
from emulator.cluster.cluster import Cluster
from emulator.events.node_failures import Failures
from emulator.kernel.job_states import JobState
from emulator.machine.running import Save
from emulator.mechanisms.hybrid.decisions import Room
from emulator.mechanisms.hybrid.few_jobs import few_jobs
from emulator.mechanisms.hybrid.figures import figures
from emulator.mechanisms.hybrid.loans import Loan, LoanBook, Reason
from emulator.mechanisms.hybrid.machine import HybridCluster
from emulator.mechanisms.hybrid.tally import Tally
from emulator.mechanisms.hybrid.tiles import TILES, picture
from emulator.mechanisms.hybrid.view import NoticeOutlook, View
from emulator.mechanisms.hybrid.whole import WholeRun, compiled_strategies
from emulator.plugins import check_number, make_plugin
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.streams import stream
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.machine.actions import Accounting
    from emulator.machine.machine import Machine
    from emulator.mechanisms.hybrid.decisions import Arrival
    from emulator.mechanisms.hybrid.notice_plan import Notice
    from emulator.record.run_record import RunRecord
    from emulator.simulation.mechanism import Actions
    from emulator.workload.table import JobTable

NOTICES, ARRIVALS = "emulator.hybrid_notices", "emulator.hybrid_arrivals"
BASELINE = "baseline"


@dataclass(slots=True)
class _Claim:
    """An on-demand job that is announced or waits for the last of its nodes."""

    job: int
    slot: int
    arrived: bool = False
    leaving: dict[int, int] = field(default_factory=dict)
    """Jobs that write their last checkpoint for it, and the nodes that it will have of them."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A column of the job table and what stands for it where it is unknown, without a copy: `known[job]`."""

    values: NDArray[np.int64] | None
    instead: NDArray[np.int32] | NDArray[np.int64]

    def __getitem__(self, job: int) -> int:
        known = -1 if self.values is None else int(self.values[job])
        return int(self.instead[job]) if known < 0 else known

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
    loans: LoanBook = field(init=False, repr=False, default_factory=LoanBook)
    failures: Failures | None = field(init=False, repr=False, default=None)
    _notice: Notice | None = field(init=False, repr=False, default=None)
    _arrival: Arrival | None = field(init=False, repr=False, default=None)
    _cluster: HybridCluster = field(init=False, repr=False)
    _view: View | None = field(init=False, repr=False, default=None)
    _claims: dict[int, _Claim] = field(init=False, repr=False, default_factory=dict)
    _leaving: dict[int, _Claim] = field(init=False, repr=False, default_factory=dict)
    _timers: list[tuple[int, int, int]] = field(init=False, repr=False, default_factory=list)
    _seed: int = field(init=False, repr=False, default=0)
    _on_demand: NDArray[np.bool_] = field(init=False, repr=False)
    _malleable: NDArray[np.bool_] = field(init=False, repr=False)
    _least: _Known = field(init=False, repr=False)
    _most: _Known = field(init=False, repr=False)
    _predicted_us: _Known = field(init=False, repr=False)

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
        return 0 if self.is_baseline else self._cluster.guest_starts

    def held_idle_node_us(self, now_us: int) -> int:
        """Node-time that nodes were held and idle."""
        return 0 if self.is_baseline else self._cluster.idle_held_node_us(now_us)

    def make_machine(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, seed: int) -> Cluster:
        self._seed = seed
        if self.is_baseline:
            return Cluster(node_count, scheduler, jobs)
        return HybridCluster(node_count, scheduler, jobs)

    @classmethod
    def warm_up(cls) -> None:
        """Use every compiled function once."""
        for strategy in ("cua+spaa", "cup+paa"):
            for mtbf_s in (0, 1e-5):
                mechanism = cls(strategy, mtbf_s=mtbf_s)
                machine = mechanism.make_machine(5, SchedulerConfig(), few_jobs(), 1)
                loop = Loop(machine, mechanism)
                loop.run(by_steps=mtbf_s > 0)
                loop.record()

    def on_begin(self, act: Actions) -> None:
        table = act.cluster.job_table()
        self._on_demand = table.kind == Kind.ON_DEMAND
        self._malleable = table.column("job_class", 0) == JobClass.MALLEABLE
        self._least = _Known(table.extra.get("min_nodes"), table.nodes)
        self._most = _Known(table.extra.get("max_nodes"), table.nodes)
        self._predicted_us = _Known(table.extra.get("predicted_us"), table.submit_us)
        if self.mtbf_s:
            self.failures = Failures(
                stream(self._seed, "mechanisms.hybrid.failures"),
                act.cluster.node_count,
                self.mtbf_s,
                self.repair_s,
                int(table.submit_us.max(initial=0)),
            )
        if not self.is_baseline:
            self._cluster = cast("HybridCluster", act.cluster)
            self._cluster.use_work(act.running.kernel_work)
        self._wake(act)

    def whole_run(self, act: Accounting, points: NDArray[np.int64]) -> WholeRun | None:
        """The run as one compiled loop, if it has nothing but what comes with the mechanism."""
        warning_us = micros(self.warning_s)
        strategies = compiled_strategies(self._notice, self._arrival)
        is_plain = type(self) is HybridMechanism
        if self.is_baseline or strategies is None or not is_plain or (self.warning_s and not warning_us):
            return None
        return WholeRun(
            self,
            self._cluster,
            act,
            known=self._predicted_us.where(self._on_demand, self._most),
            strategies=strategies,
            times_us=(micros(self.release_after_s), warning_us),
            points=points,
            failures=self.failures,
        )

    def is_on_demand(self, jobs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these jobs are on-demand jobs."""
        return self._on_demand[jobs]

    # The four events of on-demand jobs.

    def on_notice(self, job: int, act: Actions) -> None:
        if self._notice is None or job in self._claims or act.cluster.state[job] != JobState.FUTURE:
            return
        began_us = wall_us()
        self._prepare(job, act, self._notice)
        self.tally.handling_us.append(wall_us() - began_us)

    def on_arrival(self, job: int, act: Actions) -> None:
        if self._arrival is None:
            act.enqueue(job)
            return
        began_us = wall_us()
        if self._arrive(job, act, self._arrival):
            self.tally.instant.add(job)
        self.tally.handling_us.append(wall_us() - began_us)

    def on_timer(self, act: Actions) -> None:
        """Predicted arrivals that were too long ago, planned preemptions, failures and repairs."""
        now_us = act.now_us
        if self.failures is not None:
            act.repair(self.failures.repaired(now_us))
            node = self.failures.failed(now_us)
            if node is not None:
                self._fail(node, act)
        while self._timers and self._timers[0][0] <= now_us:
            _, on_demand, job = heapq.heappop(self._timers)
            claim = self._claims.get(on_demand)
            if claim is None or claim.arrived:
                continue
            if job >= 0:
                self._stop_as_planned(claim, job, act)
            else:
                self._close(claim, act)
                self.tally.lapsed += 1
        self._wake(act)

    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:
        began_us = wall_us()
        self._give_back(job, nodes.tolist(), act)
        self.tally.handling_us.append(wall_us() - began_us)

    def on_preempted(self, job: int, nodes: list[int], act: Actions) -> None:
        """A malleable job has written down where it is and has left its nodes."""
        claim = self._leaving.pop(job, None)
        if claim is None:
            return
        del claim.leaving[job]
        self._receive(claim, job, nodes, act)
        self._start_if_complete(claim, act)

    def _seen(self, act: Actions) -> View:
        """What the strategies see. A compiled run needs no view, and it would keep a large table."""
        if self._view is None:
            self._view = View(self._cluster, act.running.kernel_work, micros(self.warning_s))
        return self._view

    # Notice.

    def _prepare(self, job: int, act: Actions, notice: Notice) -> None:
        cluster, now_us = self._cluster, act.now_us
        cluster.collect(now_us)  # an earlier notice comes first
        wanted = cluster.nodes_wanted(job)
        predicted_us = int(self._predicted_us[job])
        free = 0 if cluster.on_demand_waits() else cluster.free_count
        began_us = wall_us()
        preparation = notice.prepare(NoticeOutlook(self._seen(act), now_us, wanted, free, predicted_us))
        self.tally.decision_us.append(wall_us() - began_us)
        if preparation is None:
            return
        slot = cluster.open_claim(job, wanted, deadline_us=predicted_us, collects=preparation.collects)
        claim = self._claims[job] = _Claim(job, slot)
        cluster.take_free(slot, now_us, at_most=free)
        for one in preparation.promised:
            cluster.promise(one, slot)
        for at_us, one in preparation.stops:
            cluster.promise(one, slot)
            heapq.heappush(self._timers, (max(at_us, now_us), job, one))
        heapq.heappush(self._timers, (predicted_us + micros(self.release_after_s), claim.job, -1))
        self._wake(act)

    def _stop_as_planned(self, claim: _Claim, job: int, act: Actions) -> None:
        """Preempt a job before the predicted arrival, if its nodes are still wanted."""
        cluster = self._cluster
        attr = cluster.attributes[job]
        if attr.promised != claim.slot or attr.leaving >= 0:
            return
        if cluster.needed(claim.slot) <= sum(claim.leaving.values()):
            cluster.promise(job, -1)
            return
        self._preempt(claim, job, act)

    # Arrival.

    def _arrive(self, job: int, act: Actions, arrival: Arrival) -> bool:
        """Start the job, now or when the last of its nodes are free. False: it waits at the head of the queue."""
        cluster, now_us = self._cluster, act.now_us
        claim = self._claims.get(job)
        if claim is None:
            slot = cluster.open_claim(job, cluster.nodes_wanted(job), deadline_us=-1, collects=False)
            claim = self._claims[job] = _Claim(job, slot)
        claim.arrived = True
        cluster.expect_nothing(claim.slot)
        missing = cluster.needed(claim.slot) - sum(claim.leaving.values()) - cluster.free_count
        began_us = wall_us()
        room = arrival.make_room(self._seen(act).running(now_us), missing) if missing > 0 else Room()
        self.tally.decision_us.append(wall_us() - began_us)
        if room is None:
            self._close(claim, act)
            act.enqueue(job, front=True)
            self.tally.queued += 1
            self.tally.instant.discard(job)
            return False
        for guest in cluster.guests(claim.slot):
            if guest not in claim.leaving:
                self._preempt(claim, guest, act)
        cluster.take_free(claim.slot, now_us)
        for lender, fewer in room.shrink:
            self._shrink(claim, lender, fewer, act)
        for lender in room.preempt:
            self._preempt(claim, lender, act)
        self._start_if_complete(claim, act)
        return True

    def _start_if_complete(self, claim: _Claim, act: Actions) -> None:
        if not claim.arrived or claim.leaving:
            return
        if self._cluster.needed(claim.slot) == 0:
            del self._claims[claim.job]
            act.start(claim.job, self._cluster.take_over(claim.slot, act.now_us))
        elif self._arrival is not None:  # a node broke meanwhile
            self._arrive(claim.job, act, self._arrival)

    def _preempt(self, claim: _Claim, job: int, act: Actions) -> None:
        cluster = self._cluster
        cluster.promise(job, -1)
        self.tally.preemptions += 1
        if cluster.is_guest(job):
            self.tally.evictions[job] = self.tally.evictions.get(job, 0) + 1
        malleable = bool(self._malleable[job])
        if malleable and self.warning_s:
            cluster.leaves(job)
            self._leaving[job] = claim
            wanted = cluster.needed(claim.slot) - sum(claim.leaving.values())
            is_guest = cluster.is_guest(job)
            claim.leaving[job] = 0 if is_guest else max(0, min(wanted, cluster.nodes_wanted(job)))
            self.tally.warning_node_us += cluster.nodes_wanted(job) * micros(self.warning_s)
            act.preempt(job, Save.NOW, write_us=micros(self.warning_s))
            return
        nodes = act.preempt(job, Save.NOW if malleable else Save.LATEST_CHECKPOINT)
        self._receive(claim, job, nodes, act)

    def _receive(self, claim: _Claim, job: int, nodes: list[int], act: Actions) -> None:
        """What a preempted job left goes to the claim, as much as it wants."""
        cluster = self._cluster
        if self._claims.get(claim.job) is not claim:
            return
        cluster.hold_for(claim.slot, nodes, act.now_us)
        held = cluster.held_of(claim.slot, nodes)
        self.loans.lend(claim.job, Loan(job, held, len(nodes)))

    def _shrink(self, claim: _Claim, job: int, fewer: int, act: Actions) -> None:
        cluster = self._cluster
        nodes = cluster.nodes_of(job)
        self.tally.shrinks += 1
        act.resize(job, nodes[:-fewer])
        cluster.hold_for(claim.slot, nodes[-fewer:], act.now_us)
        start_us = int(cluster.start_us[job])
        self.loans.lend(claim.job, Loan(job, fewer, len(nodes), shrunk_run_us=start_us))

    def _close(self, claim: _Claim, act: Actions) -> None:
        """Nothing is held for the on-demand job any more."""
        del self._claims[claim.job]
        for job in claim.leaving:
            del self._leaving[job]
        self._cluster.close_claim(claim.slot, act.now_us)
        loans = self.loans.close(claim.job)
        free = self._cluster.some_free(
            min(sum(loan.nodes for loan in loans), self._cluster.free_count), besides=set()
        )
        self._settle(loans, free, act, no_resume=Reason.DID_NOT_START)

    # Completion.

    def _give_back(self, job: int, nodes: list[int], act: Actions) -> None:
        """Preempted lenders that still wait resume, shrunk ones that still run get their nodes; the rest is free.

        A shrunk lender is "guaranteed to expand" (hybrid-fan-2021, observation 6), a preempted one resumes
        "if possible" (section III-B4): not before an on-demand job that waits.
        """
        act.release(nodes)
        waits = Reason.ON_DEMAND_WAITS if self._cluster.on_demand_waits() else None
        self._settle(self.loans.close(job), nodes, act, no_resume=waits)

    def _settle(self, loans: list[Loan], nodes: list[int], act: Actions, *, no_resume: Reason | None) -> None:
        """Lenders get of these idle nodes what they lent. `no_resume`: why preempted ones do not; None: they do."""
        for loan in loans:
            given, nodes = nodes[: loan.nodes], nodes[loan.nodes :]
            if loan.shrunk_run_us >= 0:
                self._expand(loan, given, act)
            elif no_resume is not None:
                self.loans.settle(loan, why=no_resume)
            else:
                self._resume(loan, given, nodes, act)

    def _expand(self, loan: Loan, given: list[int], act: Actions) -> None:
        cluster = self._cluster
        lender = loan.job
        runs_on = (
            cluster.state[lender] == JobState.RUNNING
            and cluster.start_us[lender] == loan.shrunk_run_us
            and cluster.attributes["leaving"][lender] < 0
        )
        if not runs_on:
            self.loans.settle(loan, why=Reason.RUNS_NO_MORE)
            return
        room = int(self._most[lender]) - cluster.nodes_wanted(lender)
        more = max(0, min(len(given), room))
        if more:
            act.resize(lender, [*cluster.nodes_of(lender).tolist(), *given[:more]])
        why = Reason.HAS_ALL if more == room else Reason.NODE_BROKE
        self.loans.settle(loan, back=more, how="expanded", why=why)

    def _resume(self, loan: Loan, given: list[int], others: list[int], act: Actions) -> None:
        """The lender resumes on its nodes and idle ones of the pool but other lenders', if those are enough."""
        cluster = self._cluster
        lender = loan.job
        if cluster.state[lender] != JobState.QUEUED:
            self.loans.settle(loan, why=Reason.WAITS_NO_MORE)
            return
        wanted = cluster.nodes_wanted(lender)
        least = int(self._least[lender]) if self._malleable[lender] else wanted
        width = min(wanted, cluster.free_count - len(others))
        if width < least:
            self.loans.settle(loan, why=Reason.TOO_FEW)
            return
        own = given[:width]
        act.start(lender, [*own, *cluster.some_free(width - len(own), besides={*given, *others})])
        self.loans.settle(loan, back=len(own), how="resumed", why=Reason.HAS_ALL)

    # Failures.

    def _fail(self, node: int, act: Actions) -> None:
        """A node breaks: a malleable job goes on with one node less if it can, others restart."""
        job = int(act.cluster.node_job[node])
        if job >= 0:
            self._take_from(job, node, act)
        if not self.is_baseline:
            self._cluster.drop_idle(node, act.now_us)
        act.take_down([node])
        for claim in list(self._claims.values()):
            self._start_if_complete(claim, act)

    def _take_from(self, job: int, node: int, act: Actions) -> None:
        """The node of a running job breaks: the job does not run on it any more."""
        if self._on_demand[job]:
            self.tally.instant.discard(job)
            nodes = act.preempt(job, Save.NONE, front=not self.is_baseline)
            others = [one for one in nodes if one != node]
            act.release(others)
            self._settle(self.loans.close(job), others, act, no_resume=Reason.LEASE_BROKE)
            return
        if self.is_baseline:
            act.preempt(job, Save.LATEST_CHECKPOINT)
            return
        cluster = self._cluster
        claim = self._leaving.pop(job, None)
        # A job may be leaving for nobody any more: the on-demand job was put back while it wrote its checkpoint.
        if self._malleable[job] and cluster.attributes["leaving"][job] < 0:
            others = [one for one in cluster.nodes_of(job).tolist() if one != node]
            if len(others) >= self._least[job] and not cluster.is_guest(job):
                act.resize(job, others)
            else:
                act.preempt(job, Save.NOW)
            return
        nodes = act.preempt(job, Save.LATEST_CHECKPOINT)
        if claim is not None:
            del claim.leaving[job]
            self._receive(claim, job, nodes, act)

    def _wake(self, act: Actions) -> None:
        times = [self._timers[0][0]] if self._timers else []
        if self.failures is not None:
            times.append(self.failures.next_us)
        at_us = min(times, default=NEVER_US)
        if at_us != NEVER_US:
            act.wake(at_us)

    def figures(self, record: RunRecord, machine: Machine) -> dict[str, Any]:  # noqa: ARG002
        """The paper's metrics of this run (section IV-D), and what the mechanism did."""
        return figures(self, record)
