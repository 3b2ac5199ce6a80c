"""The Balancer as a mechanism of the harness: it only translates between leases and the policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US, micros
from balancer.lifecycle.settings import PickOrder, ReserveRule, Settings
from balancer.plugins import ALGORITHMS, PluginError, name_of
from emulator.cloud_faults import BOOT_FAILED, CloudFaults, read_faults
from emulator.mechanisms.balancer.cloud import LEAST_LOOK_US, LeaseCloud, ServerEvent
from emulator.mechanisms.balancer.forecast import Forecast, PredictorSettings
from emulator.mechanisms.balancer.policy import BalancerPolicy, Granted, Rejected
from emulator.mechanisms.balancer.windows import check_machine, standing
from emulator.mechanisms.pools_shown import TILES, picture
from emulator.plugins import check_number, make_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from balancer.algorithms.interface import Algorithm
    from emulator.harness.actions import Accounting
    from emulator.harness.mechanism import Actions, WholeRun
    from emulator.mechanisms.balancer.policy import Outcome
    from emulator.mechanisms.balancer.windows import Standing


@dataclass(slots=True)
class BalancerMechanism:
    """Moves idle nodes between batch and on-demand (balancer-liu-2018); the same decisions as the service.

    `algorithm`: `basic`, `hint`, or another plug-in, with parameters if it has some (`{NAME: {PARAMETER: VALUE}}`).
    `static_reserve`: R, nodes that stay on-demand; `reserve_rule`: granted ones included (`fixed`), or besides
    them (`refilled`, from idle nodes).
    `wait_s`: W, how long a request may wait for nodes. `idle_hold_s`: I, how long a node beyond the reserve
    stays on-demand. `pick`: which idle node goes first. `notice_s`: H, how long before its arrival each lease
    is announced to the Balancer (0: not at all). `predictor`: the plug-in that reserves nodes at the beginning of each
    slot, a name or `{NAME: {PARAMETER: VALUE}}`. For it: `slots_per_day`; `keep`: a reserve lasts as long as its
    `slot`, or is on `hold` for I, as in the paper's text; `history`: nodes requested in the slots before time 0, oldest
    first (what a service remembers). `every`: capacity that comes again, a list of `{windows: Mon-Fri
    20:00-06:00, nodes: 8}`, with `zone`, `exceptions` and `notice_s` (1800: collected so long before) if wanted;
    `time_zero`: the date and time at time 0, for it (1970-01-01T00:00:00Z). The cloud: `boot_s`, from grant to the
    lease's beginning; `delete_s`, from its end to its nodes' return; `cloud_faults`, when servers do not start
    (`emulator.cloud_faults`).
    """

    tiles = TILES
    picture = staticmethod(picture)
    algorithm: str | dict[str, Any] = "basic"
    static_reserve: int = 0
    reserve_rule: str = "fixed"
    wait_s: float = 0
    idle_hold_s: float = 600
    pick: str = "longest_idle"
    notice_s: float = 0
    predictor: str | dict[str, Any] | None = None
    slots_per_day: int = 4
    keep: str = "slot"
    history: Sequence[int] = ()
    every: Sequence[dict[str, Any]] = ()
    time_zero: str | None = None
    boot_s: float = 0
    delete_s: float = 0
    cloud_faults: Sequence[Any] = ()
    notice_us: int = field(init=False)
    _algorithm: Algorithm = field(init=False, repr=False)
    _policy: BalancerPolicy = field(init=False, repr=False)
    _forecast: Forecast | None = field(init=False, repr=False, default=None)
    _cloud: LeaseCloud = field(init=False, repr=False)
    _was_busy: NDArray[np.bool_] = field(init=False, repr=False)
    _since_us: NDArray[np.int64] = field(init=False, repr=False)
    _seen: int = field(init=False, repr=False, default=-1)
    """`Cluster.node_changes` at the latest look, without the leases' own."""
    _own: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        check_number("balancer", "static_reserve", self.static_reserve, at_least=0, whole=True)
        for name in ("wait_s", "idle_hold_s", "notice_s", "boot_s", "delete_s"):
            check_number("balancer", name, getattr(self, name), at_least=0)
        self.notice_us = micros(self.notice_s)
        if self.reserve_rule not in list(ReserveRule):
            raise ValueError(
                f"balancer: reserve_rule must be one of {', '.join(ReserveRule)}, not {self.reserve_rule!r}"
            )
        if self.pick not in list(PickOrder):
            raise ValueError(f"balancer: pick must be one of {', '.join(PickOrder)}, not {self.pick!r}")
        try:
            self._algorithm = make_plugin(ALGORITHMS, self.algorithm)
        except PluginError as error:
            raise ValueError(f"balancer: {error}") from error
        self.settings()
        self.faults()
        self.standing()
        if self.forecasts is not None:
            self.forecasts.begin()

    def settings(self) -> Settings:
        """The Balancer's own settings."""
        return Settings(
            static_reserve=self.static_reserve,
            reserve_rule=ReserveRule(self.reserve_rule),
            wait_us=micros(self.wait_s),
            idle_hold_us=micros(self.idle_hold_s),
            pick=PickOrder(self.pick),
        )

    def faults(self) -> CloudFaults:
        """Raises ValueError."""
        try:
            return CloudFaults.of(read_faults(self.cloud_faults))
        except ValueError as error:
            raise ValueError(f"balancer: {error}") from error

    def standing(self) -> tuple[Standing, ...]:
        """Capacity that comes again. Raises ValueError."""
        if self.time_zero is not None and not self.every:
            raise ValueError("balancer: time_zero: only windows of every go by it, and there are none")
        return standing(self.every, self.time_zero)

    def check_nodes(self, names: Sequence[str]) -> None:
        """Raises ValueError for a step that names a node which the cluster has not."""
        if strangers := sorted(self.faults().nodes.difference(names)):
            raise ValueError(f"balancer: cloud_faults: there is no node {strangers[0]}")

    @property
    def cloud_settings(self) -> dict[str, Any]:
        """What the manager of a live run must know of it, by the names of its own settings."""
        told = {"boot_s": self.boot_s, "delete_s": self.delete_s, "cloud_faults": list(self.cloud_faults)}
        return {name: value for name, value in told.items() if value}

    @property
    def forecasts(self) -> PredictorSettings | None:
        """What reserves nodes ahead, if something does. Raises ValueError."""
        if self.predictor is None:
            return None
        return PredictorSettings.checked(self.predictor, self.slots_per_day, self.keep, self.history)

    @classmethod
    def warm_up(cls) -> None:
        """Use every compiled function once: a job and a lease on two nodes, in both forms of a run."""
        from emulator.harness.cluster import Cluster  # noqa: PLC0415 - the service's way here goes without
        from emulator.harness.loop import Loop  # noqa: PLC0415
        from emulator.schedulers.config import SchedulerConfig  # noqa: PLC0415
        from emulator.workload.table import JobTable, Kind  # noqa: PLC0415

        jobs = JobTable.build(
            submit_us=[0, 0], run_us=[US, US], nodes=[1, 1], kind=[Kind.ON_DEMAND, Kind.BATCH]
        )
        for by_steps in (False, True):
            loop = Loop(Cluster(2, SchedulerConfig(), jobs), cls(idle_hold_s=0))
            loop.run(by_steps=by_steps)
            loop.record()

    def on_begin(self, act: Actions) -> None:
        nodes = act.cluster.node_count
        if self.static_reserve > nodes:
            raise ValueError(
                f"balancer: static_reserve is {self.static_reserve}, the cluster has {nodes} nodes"
            )
        self._policy = BalancerPolicy(
            act.node_names,
            self._algorithm,
            self.settings(),
            _BatchPool(act),
            algorithm_name=name_of(ALGORITHMS, self.algorithm),
        )
        check_machine(self.standing(), nodes)
        self._cloud = LeaseCloud(act.node_names, micros(self.boot_s), micros(self.delete_s), self.faults())
        self.check_nodes(act.node_names)
        self._was_busy = np.zeros(nodes, np.bool_)
        self._since_us = np.zeros(nodes, np.int64)
        if self.forecasts is not None:
            self._forecast = self.forecasts.begin(
                nodes, int(act.cluster.job_table().submit_us.max(initial=0))
            )
        self._carry_out(self._reserve_ahead(act), act)
        for each in self.standing():
            self._carry_out(self._policy.stand(act.now_us, each.every.text, each.nodes, each.lead_us), act)
        self._carry_out(self._policy.timer(act.now_us), act)

    def whole_run(self, act: Accounting, points: NDArray[np.int64]) -> WholeRun | None:
        """The run as one compiled loop, if nobody decides in it but what comes with the Balancer."""
        if type(self) is not BalancerMechanism or not self._cloud.obeys_at_once or self.every:
            return None
        from emulator.mechanisms.balancer import whole  # noqa: PLC0415 - services and live runs go without

        if not (
            whole.is_compiled(self._algorithm, self._forecast)
            and whole.can_serve(act, points, self._policy.lifecycle.settings)
        ):
            return None
        return whole.WholeRun(act, self._policy.lifecycle, self._forecast, points, seen=self._seen)

    def on_arrival(self, job: int, act: Actions) -> None:
        self._look(act)
        count = act.cluster.nodes_wanted(job)
        if self._forecast is not None:
            self._forecast.requested(act.now_us, count)
        down = self._cloud.down(act.now_us)
        self._carry_out(self._policy.request(act.now_us, job, count, exclude=down), act)

    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:
        self._own += 1
        self._look(act)
        self._cloud.ended(act.now_us, job, nodes.tolist())
        self._carry_out([], act)

    def on_notice(self, job: int, act: Actions) -> None:
        self._look(act)
        by_us = act.cluster.submitted_us(job)  # sooner than the notice at the start of a run
        self._carry_out(self._policy.add_reserve(act.now_us, by_us, act.cluster.nodes_wanted(job)), act)

    def on_timer(self, act: Actions) -> None:
        self._look(act)
        self._carry_out([], act)
        # The new slot's reserve first: nodes of the old one then stay where they are.
        self._carry_out(self._reserve_ahead(act), act)
        self._carry_out(self._policy.timer(act.now_us), act)

    def on_job_end(self, act: Actions) -> None:
        self._look(act)

    def _reserve_ahead(self, act: Actions) -> list[Outcome]:
        """What the predictor wants for the slot that begins now, if one does."""
        wish = self._forecast.due(act.now_us) if self._forecast is not None else None
        if wish is None or not wish.nodes:
            return []
        return self._policy.add_reserve(act.now_us, act.now_us, wish.nodes, wish.keep_us)

    def _look(self, act: Actions) -> None:
        """Tell the policy what changed in the batch pool since it last looked (the service has hooks for it)."""
        cluster = act.cluster
        changes = cluster.node_changes - self._own
        if changes == self._seen:
            return
        self._seen = changes
        in_batch = cluster.node_offline == 0
        busy = cluster.node_job >= 0
        changed = in_batch & ((busy != self._was_busy) | (~busy & (cluster.node_since_us != self._since_us)))
        rows = np.flatnonzero(changed)
        if len(rows):
            self._was_busy[rows] = busy[rows]
            self._since_us[rows] = cluster.node_since_us[rows]
            words = np.where(busy[rows], "busy", "idle").tolist()
            since_us = self._since_us[rows].tolist()
            states = dict(zip(rows.tolist(), zip(words, since_us, strict=True), strict=True))
            self._carry_out(self._policy.observe(act.now_us, states), act)

    def _carry_out(self, outcomes: list[Outcome], act: Actions) -> None:
        """Answers to leases, and all that is due in the cloud by now."""
        self._answer(outcomes, act)
        while (due := self._cloud.pop(act.now_us)) is not None:
            match due.deed:
                case ServerEvent.FREE:
                    self._answer(self._policy.release(act.now_us, due.nodes), act)
                case ServerEvent.GIVE_UP:
                    act.reject(due.job, BOOT_FAILED)
                case ServerEvent.START:
                    act.start(due.job, due.nodes)
                    self._own += 1
        forecast_us = self._forecast.next_us if self._forecast is not None else None
        wakes_us = (self._policy.next_wake_us, forecast_us, self._cloud.next_us)
        wake_us = min((each for each in wakes_us if each is not None), default=None)
        if wake_us is not None:
            act.wake(wake_us)
        act.watch_ends(self._policy.wants_idle)

    def _answer(self, outcomes: list[Outcome], act: Actions) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Granted) and self._cloud.is_instant:
                act.start(outcome.lease_id, outcome.nodes)
                self._own += 1
            elif isinstance(outcome, Granted):
                self._cloud.granted(
                    act.now_us, outcome.lease_id, outcome.nodes, self._looks(outcome.lease_id, act)
                )
            elif isinstance(outcome, Rejected):
                act.reject(outcome.lease_id, outcome.reason)

    def _looks(self, job: int, act: Actions) -> tuple[int, int, int]:
        """Of a lease's user: when he asked, how often he looks, and how long he waits for it."""
        asked_us, run_us = act.cluster.submitted_us(job), int(act.cluster.table[job].run_us)
        return asked_us, max(run_us, LEAST_LOOK_US), asked_us + micros(self.wait_s)


@dataclass(frozen=True, slots=True)
class _BatchPool:
    """The batch pool as the policy sees it: it obeys at once."""

    act: Actions

    def take(self, nodes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        return self.act.reserve(nodes)

    def give(self, nodes: Sequence[int]) -> None:
        self.act.release(nodes)
