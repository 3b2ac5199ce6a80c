"""The Balancer as a mechanism of the harness: it only translates between leases and the policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.algorithms.interface import ChecksSettings
from balancer.clock import US, micros
from balancer.lifecycle.states import NodeState
from balancer.plugins import ALGORITHMS, PluginError, name_of
from balancer.policy_settings import PickOrder, ReserveRule, Settings
from emulator.config.cloud_faults import BOOT_FAILED, CloudFaults, read_faults
from emulator.mechanisms import lease_failures
from emulator.mechanisms.balancer.cloud import LEAST_LOOK_US, LeaseCloud, ServerEvent
from emulator.mechanisms.balancer.failed_leases import FailedLeases
from emulator.mechanisms.balancer.forecast import Forecast, PredictorSettings
from emulator.mechanisms.balancer.node_watch import NodeWatch
from emulator.mechanisms.balancer.policy import BalancerPolicy, Granted, Rejected
from emulator.mechanisms.balancer.windows import check_machine, standing
from emulator.mechanisms.lease_failures import LeaseAccount, OnFailure
from emulator.mechanisms.pool_tiles import TILES, picture
from emulator.plugins import check_number, make_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from balancer.algorithms.interface import Algorithm
    from emulator.machine.machine import Machine
    from emulator.mechanisms.balancer.policy import Outcome
    from emulator.mechanisms.balancer.windows import Standing
    from emulator.record.run_record import RunRecord
    from emulator.simulation.mechanism import Actions


AT_ONCE_US = 3600 * US
"""How long batch may take to obey in a live run, whose clock waits for it (`emulator.live.roles`)."""
_OF_PREDICTOR = ("slots_per_day", "keep", "history")
_BATCHS = (NodeState.OA_IDLE, NodeState.OA_BUSY, NodeState.DOWN, NodeState.RESTORING)


@dataclass(slots=True)
class BalancerMechanism:
    """Moves idle nodes between batch and on-demand (balancer-liu-2018); the same decisions as the service.

    `algorithm`: `basic`, `hint`, or another plug-in, with parameters if it has some (`{NAME: {PARAMETER: VALUE}}`).
    `static_reserve`: R, nodes that stay on-demand; `reserve_rule`: granted ones included (`fixed`), or besides
    them (`refilled`, from idle nodes).
    `wait_s`: W, how long a request may wait for nodes. `idle_reserve_s`: I, how long a node beyond the reserve
    stays on-demand. `pick`: which idle node goes first. `notice_s`: H, how long before its arrival each lease
    is announced to the Balancer (0: not at all). `predictor`: the plug-in that reserves nodes at the beginning of each
    slot, a name or `{NAME: {PARAMETER: VALUE}}`. For it: `slots_per_day`; `keep`: a reserve lasts as long as its
    `slot`, or is on `hold` for I, as in the paper's text; `history`: nodes requested in the slots before time 0, oldest
    first (what a service remembers). `every`: capacity that comes again, a list of `{windows: Mon-Fri
    20:00-06:00, nodes: 8}`, with `zone`, `exceptions` and `notice_s` (1800: collected so long before) if wanted;
    `time_zero`: the date and time at time 0, for it (1970-01-01T00:00:00Z). The cloud: `boot_s`, from grant to the
    lease's beginning; `delete_s`, from its end to its nodes' return; `cloud_faults`, when servers do not start
    (`emulator.config.cloud_faults`).
    For runs with `failures`, `on_failure`: a lease on a node that fails goes on with it (`keep`), gets another one by
    the service's `replace: true` (`replace`), or ends when its user hears of it (`end`). `reconcile_period_s` and
    `failed_after_s` are the service's: how often it reads all nodes, and how long a granted one must read down.
    """

    tiles = lease_failures.TILES + TILES
    picture = staticmethod(picture)
    algorithm: str | dict[str, Any] = "basic"
    static_reserve: int = 0
    reserve_rule: str = "fixed"
    wait_s: float = 0
    idle_reserve_s: float = 600
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
    on_failure: str = "keep"
    reconcile_period_s: float = 60
    failed_after_s: float = 60
    notice_us: int = field(init=False)
    _algorithm: Algorithm = field(init=False, repr=False)
    _policy: BalancerPolicy = field(init=False, repr=False)
    _forecast: Forecast | None = field(init=False, repr=False, default=None)
    _cloud: LeaseCloud = field(init=False, repr=False)
    _failures: FailedLeases | None = field(init=False, repr=False, default=None)
    _watch: NodeWatch | None = field(init=False, repr=False, default=None)
    """Both where nodes may fail."""
    _was_busy: NDArray[np.bool_] = field(init=False, repr=False)
    _since_us: NDArray[np.int64] = field(init=False, repr=False)
    _seen: int = field(init=False, repr=False, default=-1)
    """`Cluster.node_changes` at the latest look, without the leases' own."""
    _own: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        check_number("balancer", "static_reserve", self.static_reserve, at_least=0, whole=True)
        for name in ("wait_s", "idle_reserve_s", "notice_s", "boot_s", "delete_s"):
            check_number("balancer", name, getattr(self, name), at_least=0)
        for name in ("reconcile_period_s", "failed_after_s"):
            check_number("balancer", name, getattr(self, name), above=0)
        OnFailure.read("balancer", self.on_failure)
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
        settings = self.settings()
        if isinstance(self._algorithm, ChecksSettings):
            try:
                self._algorithm.check(settings)
            except ValueError as error:
                raise ValueError(f"balancer: {error}") from error
        self.faults()
        self.standing()
        if self.forecasts is not None:
            self.forecasts.begin()

    only_with_failures = ("on_failure", "reconcile_period_s", "failed_after_s")

    def expect_failures(self) -> None:
        """Raises ValueError for what does not go with nodes that fail."""
        if self.boot_s or self.delete_s or self.cloud_faults:
            raise ValueError("balancer: leave out boot_s, delete_s and cloud_faults, or failures")
        self._failures = FailedLeases(OnFailure(self.on_failure), LeaseAccount())

    def settings(self) -> Settings:
        """The Balancer's own settings. With failures it reads the nodes when the service does."""
        reads = self._failures is not None
        return Settings(
            at_once_us=AT_ONCE_US if reads else 0,
            fresh_us=0 if reads else None,
            static_reserve=self.static_reserve,
            reserve_rule=ReserveRule(self.reserve_rule),
            wait_us=micros(self.wait_s),
            idle_reserve_us=micros(self.idle_reserve_s),
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

    def check_cluster(self, names: Sequence[str]) -> None:
        """Raises ValueError for more nodes than the cluster has, or for one that it has not."""
        if self.static_reserve > len(names):
            raise ValueError(
                f"balancer: static_reserve is {self.static_reserve}, the cluster has {len(names)} nodes"
            )
        check_machine(self.standing(), len(names))
        if strangers := sorted(self.faults().nodes.difference(names)):
            raise ValueError(f"balancer: cloud_faults: there is no node {strangers[0]}")

    @property
    def cloud_settings(self) -> dict[str, Any]:
        """What the manager of a live run must know of it, by the names of its own settings."""
        parameters = {
            "boot_s": self.boot_s,
            "delete_s": self.delete_s,
            "cloud_faults": list(self.cloud_faults),
        }
        return {name: value for name, value in parameters.items() if value}

    @property
    def forecasts(self) -> PredictorSettings | None:
        """What reserves nodes ahead, if something does. Raises ValueError."""
        if self.predictor is None:
            for name in _OF_PREDICTOR:
                if getattr(self, name) not in (self.__dataclass_fields__[name].default, []):
                    raise ValueError(f"balancer: {name}: it is a predictor's; set predictor, or leave it out")
            return None
        return PredictorSettings.checked(self.predictor, self.slots_per_day, self.keep, self.history)

    @classmethod
    def warm_up(cls) -> None:
        """Use every compiled function once: a job and a lease on two nodes."""
        from emulator.cluster.cluster import Cluster  # noqa: PLC0415 - the service's way here goes without
        from emulator.schedulers.config import SchedulerConfig  # noqa: PLC0415
        from emulator.simulation.loop import Loop  # noqa: PLC0415
        from emulator.workload.table import JobTable, Kind  # noqa: PLC0415

        jobs = JobTable.build(
            submit_us=[0, 0], run_us=[US, US], nodes=[1, 1], kind=[Kind.ON_DEMAND, Kind.BATCH]
        )
        loop = Loop(Cluster(2, SchedulerConfig(), jobs), cls(idle_reserve_s=0))
        loop.run()
        loop.record()

    def on_begin(self, act: Actions) -> None:
        nodes = act.cluster.node_count
        self.check_cluster(act.node_names)
        self._was_busy = np.zeros(nodes, np.bool_)
        self._since_us = np.zeros(nodes, np.int64)
        watch = None if self._failures is None else self._make_watch(act)
        self._policy = BalancerPolicy(
            act.node_names,
            self._algorithm,
            self.settings(),
            _BatchPool(act),
            algorithm_name=name_of(ALGORITHMS, self.algorithm),
            watch=watch,
            replace=self.on_failure == OnFailure.REPLACE,
        )
        self._cloud = LeaseCloud(act.node_names, micros(self.boot_s), micros(self.delete_s), self.faults())
        if self.forecasts is not None:
            self._forecast = self.forecasts.begin(
                nodes, int(act.cluster.job_table().submit_us.max(initial=0))
            )
        self._carry_out(self._reserve_ahead(act), act)
        for each in self.standing():
            self._carry_out(self._policy.stand(act.now_us, each.every.text, each.nodes, each.lead_us), act)
        self._carry_out(self._policy.timer(act.now_us), act)

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
        outcomes: list[Outcome] = []
        if self._failures is not None:
            outcomes = self._failures.ended(job, nodes.tolist(), self._policy, act)
        self._carry_out(outcomes, act)

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
        if self._watch is not None and self._watch.period_over(act.now_us):
            self._carry_out(self._policy.read(act.now_us), act)
            self._carry_out(self.failures.give_up(self._policy, act), act)

    def on_job_end(self, act: Actions) -> None:
        self._look(act)

    def on_nodes_down(self, nodes: list[int], act: Actions) -> None:
        failures, watch = self.failures, self.watch
        for node in nodes:
            watch.failed(node)
            failures.failed(node, act)
        # The batch system says nothing of these nodes by itself; of those that their jobs had besides it does.
        self._was_busy[nodes] = False
        self._look(act)
        self._carry_out([], act)

    def on_nodes_up(self, nodes: list[int], act: Actions) -> None:
        """Batch has its own again, and may use them; the Balancer finds out by a reading."""
        failures, watch = self.failures, self.watch
        state = {node: self._state_of(node) for node in nodes}
        for node in nodes:
            watch.works_again(node)
            failures.works_again(node, act)
        idle = [node for node in nodes if act.cluster.node_job[node] < 0]
        back = [node for node in idle if state[node] in _BATCHS and node not in watch.marked]
        act.set_up(node for node in idle if node not in back)  # batch has a mark on them
        act.repair(back)
        restored = [node for node in back if state[node] is NodeState.RESTORING]
        self._carry_out(self._policy.restored(act.now_us, restored) if restored else [], act)

    def figures(self, record: RunRecord, machine: Machine) -> dict[str, Any]:  # noqa: ARG002 - its record has all
        return {} if self._failures is None else self._failures.account.figures(record.horizon_us)

    @property
    def failures(self) -> FailedLeases:
        assert self._failures is not None  # noqa: S101 - `expect_failures` has been called
        return self._failures

    @property
    def watch(self) -> NodeWatch:
        assert self._watch is not None  # noqa: S101 - as above
        return self._watch

    def _make_watch(self, act: Actions) -> NodeWatch:
        def unmark(nodes: list[int]) -> None:
            act.repair(node for node in nodes if node not in self.watch.down)

        self._watch = NodeWatch(
            act.node_names,
            micros(self.failed_after_s),
            micros(self.reconcile_period_s),
            is_busy=lambda node: bool(act.cluster.node_job[node] >= 0),
            unmark=unmark,
        )
        self.failures.watch = self._watch
        return self._watch

    def _state_of(self, node: int) -> NodeState:
        record = self._policy.lifecycle.node(self.watch.names[node])
        assert record is not None  # noqa: S101 - one of its nodes
        return record.state

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
        if changes == self._seen and self._watch is None:
            return
        self._seen = changes
        in_batch = cluster.node_offline == 0
        busy = cluster.node_job >= 0
        changed = in_batch & ((busy != self._was_busy) | (~busy & (cluster.node_since_us != self._since_us)))
        if self._watch is not None and self._watch.suspects:
            # A node that has come back starts jobs, but nobody tells that it is idle: a reading does.
            suspects = list(self._watch.suspects)
            changed[suspects] &= busy[suspects] | self._was_busy[suspects]
        (rows,) = changed.nonzero()
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
        if self._watch is not None:
            self._settle(act)
        while (due := self._cloud.pop(act.now_us)) is not None:
            match due.event:
                case ServerEvent.FREE:
                    self._answer(self._policy.release(act.now_us, due.nodes), act)
                case ServerEvent.GIVE_UP:
                    act.reject(due.job, BOOT_FAILED)
                case ServerEvent.START:
                    act.start(due.job, due.nodes)
                    self._own += 1
        forecast_us = self._forecast.next_us if self._forecast is not None else None
        read_us = None if self._watch is None else self._watch.next_us(act.now_us)
        wakes_us = (self._policy.next_wake_us, forecast_us, self._cloud.next_us, read_us)
        wake_us = min((each for each in wakes_us if each is not None), default=None)
        if wake_us is not None:
            act.wake(wake_us)
        act.watch_ends(self._policy.wants_idle)

    def _settle(self, act: Actions) -> None:
        """Of nodes that are as the ledger says again, what is known now is no news later."""
        known = self.watch.settle(self._policy.lifecycle)
        if known:
            self._was_busy[known] = act.cluster.node_job[known] >= 0
            self._since_us[known] = act.cluster.node_since_us[known]

    def _answer(self, outcomes: list[Outcome], act: Actions) -> None:
        if self._failures is not None:
            outcomes = self._failures.carry_out(outcomes, self._policy, act)
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
