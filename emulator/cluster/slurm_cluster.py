"""Slurm's twin: rules of a cluster, whose loop also does what Slurm does at times of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.cluster.cluster import Cluster
from emulator.cluster.rules import ClusterRules
from emulator.config.node_names import default_node_names
from emulator.kernel import reorder
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_points
from emulator.kernel.rows import new_record, new_rows, rows_of
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm import fair_share, kernel
from emulator.schedulers.slurm import tables as s
from emulator.schedulers.slurm.preemption import hold_back
from emulator.schedulers.slurm.qos import UNDEFINED, Qos, levels
from emulator.schedulers.slurm.refusals import refusals
from emulator.schedulers.slurm.reservations import which_of
from emulator.schedulers.slurm.rules import Partition
from emulator.schedulers.slurm.select import Size
from emulator.text.number_text import grouped, number_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows
    from emulator.schedulers.slurm.rules import Rules
    from emulator.schedulers.slurm.select import SharedNodes
    from emulator.schedulers.slurm.settings import SlurmSettings
    from emulator.workload.table import JobTable

_LN2 = 0.693
"""As Slurm has it."""
_ASSOCIATION_LIMITS = {"group_jobs": "grp_jobs", "group_nodes": "grp_nodes", "own_jobs": "max_jobs"}
_LONG_AGO_US = -(1 << 50)
_TIERS = 1 << 16
"""There are no more of them."""
_MOST_PRIORITY = _TIERS - 1
"""Of a QOS, as preemption sees it."""
_ADVANCE, _FINISH, _NEXT_EVENT, _HOLD_BACK = entry_points(
    kernel.advance, kernel.finish, kernel.next_event, hold_back
)


def slurm_cluster(node_count: int, jobs: JobTable, slurm: SlurmSettings) -> Cluster:
    """`node_count` nodes under Slurm's rules; jobs are known in advance. Raises ValueError.

    Where jobs share nodes, to the harness and in records a core is what a node is elsewhere, as with `oversubscribe`:
    a job has as many nodes as it has cores, and its nodes are in the extra column `whole_nodes`. Nodes that are out of
    the batch pool (lent) are not available to it, as drained ones are not to Slurm.
    """
    twin = SlurmTwin(node_count, jobs, slurm)
    in_cores = jobs if twin.shared is None else twin.shared.in_cores(jobs)
    return Cluster(twin.core_count, SchedulerConfig(backfill="none"), in_cores, rules=twin)


class SlurmTwin(ClusterRules):
    """Slurm's rules for these jobs on `node_count` nodes."""

    need_nodes = True

    def __init__(self, node_count: int, jobs: JobTable, slurm: SlurmSettings) -> None:
        super().__init__("slurm")
        self._slurm = slurm
        self.shared = slurm.shared_nodes(node_count)
        names = default_node_names(node_count)
        self.node_names = names if self.shared is None else self.shared.core_names(names)
        self.core_count = len(self.node_names)
        self._asked_jobs = jobs
        self._rules = slurm.rules(node_count)
        self._place = {each.name: place for place, each in enumerate(self._rules.partitions)}
        self._twin_registers = _registers(self._rules, slurm)
        self._parts = np.ones((len(self._rules.partitions), node_count), np.int8)
        for place, each in enumerate(self._rules.partitions):
            if each.nodes is not None:
                self._parts[place] = 0
                self._parts[place, list(each.nodes)] = 1
        self._users: dict[int, int] = {}
        room = max(len(jobs), 64)
        self._job_ext = new_rows(s.JobExtension, room)
        self._fixed = np.zeros(room)
        self._nodes_seen = new_rows(s.SeenNode, node_count)
        self._nodes_seen["order"][:] = np.arange(node_count)
        reserved = self._rules.reservations
        self._times = rows_of(
            s.ReservedTime,
            begin_us=np.array([each.start_s for each in reserved], np.int64) * US,
            end_us=np.array([each.end_s for each in reserved], np.int64) * US,
        )
        self._held = np.zeros((len(reserved), node_count), np.int8)
        for place, reservation in enumerate(reserved):
            self._held[place, list(reservation.nodes)] = 1
        slots = 2 * min(self._rules.bf_max_job_test, room) + 2
        self._slots = new_rows(s.Slot, slots)
        self._kept = np.zeros((slots, node_count), np.int8)
        self._masks = [np.zeros(node_count, np.int8) for _ in range(5)]
        self._candidates = new_rows(s.Candidate, self.core_count)
        self._weights = _weights(self._rules)
        self._open_runs = np.zeros(self.core_count + 8, np.int64)
        self._count = new_record(reorder.Counted)
        table = self._rules.qos or (Qos(""),)
        self._limits = np.array([each.limits for each in table], np.int64)
        if not self._rules.enforce_limits:
            self._limits[:] = -1
        self._associations = _associations(self._rules)
        limits_n = sum(int(np.count_nonzero(self._associations[name] >= 0)) for name in _ASSOCIATION_LIMITS)
        self._twin_registers.limits_n = limits_n + int(np.count_nonzero(self._limits >= 0))
        self._room, self._node_of_core = _rooms(node_count, self.shared)
        if self.shared is None:
            self._room["weight"][:] = slurm.node_sets(node_count)
            self._twin_registers.has_sets = int(np.ptp(self._room["weight"])) > 0
        self._running = np.zeros(self.core_count, np.int64)
        self._cores = np.zeros(self.core_count, np.int64)
        self._has_outages = False
        self._left_us = -1

    def learn(self, jobs: JobTable, rows: t.Jobs, first: int) -> None:
        if first:
            raise ValueError("scheduler slurm: jobs must be known in advance")
        jobs = self._asked_jobs  # in nodes
        self._fill_wants(jobs)
        for column in ("eligible_us", "submitted_us"):
            self._job_ext[column][: len(jobs)] = jobs.submit_us
        known, rules = slice(len(jobs)), self._rules
        rows["estimate_us"][:] = -(-rows["estimate_us"] // s.MINUTE) * s.MINUTE
        default = self._place[rules.default_partition]
        named = {number: self._place[name] for number, name in self._slurm.queues.items()}
        places = np.array([named.get(number, default) for number in jobs.queue.tolist()], np.int64)
        self._check(jobs, rows)
        self._job_ext["partition"][known] = places
        self._fill_parts(jobs, places)
        self._job_ext["user"][known] = [
            self._users.setdefault(user, len(self._users)) for user in jobs.user.tolist()
        ]
        self._fill_associations(jobs)
        self._fill_qos(jobs, places)
        self._fill_preemption(jobs, places)
        marks = len(rules.partitions) + len(rules.reservations)
        self._tests = np.zeros(len(self._users) + marks, np.int64)
        partitions = len(rules.partitions)
        self._partition_counts = new_rows(s.PartitionCount, partitions)
        self._user_tests = np.zeros(
            (len(self._users) if rules.bf_max_job_user_part else 0, partitions), np.int64
        )
        if rules.priority_type == "multifactor":
            self._fixed[known] = self._unchanging(jobs, places)
        keys = -self._job_ext["rank"][known] * s.TIER_STEP - (self._fixed[known] + 1e-6).astype(np.int64)
        rows["key"][:] = keys

    def _fill_parts(self, jobs: JobTable, places: NDArray[np.int64]) -> None:
        """Which nodes each job may have: its partition's, those of them that meet its constraint if it has one."""
        of_job, constraints = self._slurm.constraints_of(jobs, len(self._nodes_seen))
        parts, rows = [*self._parts], places.copy()
        for place, which in sorted(
            {*zip(places[of_job >= 0].tolist(), of_job[of_job >= 0].tolist(), strict=True)}
        ):
            rows[(places == place) & (of_job == which)] = len(parts)
            meets = np.zeros_like(self._parts[place])
            meets[list(constraints[which].nodes)] = 1
            parts.append(self._parts[place] & meets)
        self._parts = np.array(parts)
        self._job_ext["parts_row"][: len(jobs)] = rows

    def _fill_associations(self, jobs: JobTable) -> None:
        """Whose association each job has, and whose share: the association's, else the user's."""
        rows, found = slice(len(jobs)), self._rules.associations
        if found:
            row = self._slurm.associations_of(jobs, self._rules).row
            shares = fair_share.of_associations(found)
            account = np.where(row < 0, len(found), row)  # the last row: of who has none
        else:
            row, account = np.full(len(jobs), -1), 1 + self._job_ext["user"][rows]
            shares = fair_share.of_users([self._slurm.shares.get(user, 1.0) for user in self._users])
        self._job_ext["association"][rows] = row
        self._job_ext["account"][rows] = account
        self._fair_shares, self._fair_order = shares

    def _fill_wants(self, jobs: JobTable) -> None:
        """Nodes of each job, and what it wants of each."""
        rows = slice(len(jobs))
        self._job_ext["nodes"][rows] = jobs.nodes
        self._job_ext["cores"][rows] = 1
        if self.shared is not None:
            for name, values in self.shared.wants_of(jobs)._asdict().items():
                self._job_ext[name][rows] = values

    def _fill_qos(self, jobs: JobTable, places: NDArray[np.int64]) -> None:
        """Each job's QOS, its partition's, and the reservation that it asks for."""
        rows, rules = slice(len(jobs)), self._rules
        index = {each.name: place for place, each in enumerate(rules.qos)}
        self._job_ext["first_qos"][rows] = np.array([index.get(each.qos, -1) for each in rules.partitions])[
            places
        ]
        own = self._slurm.qos_of_jobs(jobs, rules, self._job_ext["association"][rows])
        self._job_ext["own_qos"][rows] = [index.get(name, -1) for name in own]
        self._job_ext["reservation"][rows] = [
            which_of(rules.reservations, number, user)
            for number, user in zip(jobs.number.tolist(), jobs.user.tolist(), strict=True)
        ]
        self._used = new_rows(s.QosUse, len(self._limits) * (1 + max(len(self._users), 1)))

    def _fill_preemption(self, jobs: JobTable, places: NDArray[np.int64]) -> None:
        """Which jobs may take the nodes of which, what becomes of these, and who stands before whom for that reason."""
        rows, rules = slice(len(jobs)), self._rules
        its: list[Partition | Qos | None] = [*rules.partitions]
        tiers = np.array([each.priority_tier for each in rules.partitions])
        rank, classes, order = tiers[places], places, tiers
        if rules.preempts and rules.preempt_type == "qos":
            its = [*rules.qos, None]
            own = self._job_ext["own_qos"][rows]
            classes = np.where(own < 0, len(rules.qos), own)
            order = np.array([*(min(each.priority, _MOST_PRIORITY) for each in rules.qos), 0])
            rank = rank + _TIERS * np.array([*levels(rules.qos), 0])[classes]
        modes = np.array([s.PreemptMode[rules.mode_of(each).upper()] for each in its])
        self._may_preempt = np.zeros((len(its), len(its)), np.int8)
        if rules.preempts:
            self._may_preempt[:] = _may_preempt(its) & (modes != s.PreemptMode.OFF)
        self._job_ext["rank"][rows] = rank
        self._job_ext["preempt_class"][rows] = classes
        self._job_ext["preempt_place"][rows] = order[classes]
        self._job_ext["preempt_mode"][rows] = modes[classes]
        graces = np.array([0 if each is None else each.grace_time for each in its], np.int64)
        self._job_ext["grace_us"][rows] = graces[classes] * US
        exempt = np.array([*(each.preempt_exempt_time for each in rules.qos), UNDEFINED], np.int64)
        found = np.full(len(jobs), rules.preempt_exempt_time)
        for whose in ("own_qos", "first_qos"):  # the latter comes first
            said = exempt[self._job_ext[whose][rows]]
            found = np.where(said == UNDEFINED, found, said)
        self._job_ext["exempt_us"][rows] = found * US
        self._job_ext["preempted_us"][:] = _LONG_AGO_US

    def _unchanging(self, jobs: JobTable, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """The size, partition and QOS factors, weighted."""
        rules = self._rules
        size = jobs.nodes / len(self._nodes_seen)
        if self.shared is not None:  # half by nodes, half by cores
            size = (size + self.shared.in_cores(jobs).nodes / self.core_count) / 2
        size = 1 - size if rules.priority_favor_small else size
        factors = np.array([each.priority_job_factor for each in rules.partitions], np.float64)
        factors /= factors.max() or 1.0
        value = rules.priority_weight_job_size * size + rules.priority_weight_partition * factors[places]
        if rules.qos:
            best = max(each.priority for each in rules.qos) or 1
            parts = np.array([each.priority / best for each in rules.qos])
            value = value + rules.priority_weight_qos * parts[self._job_ext["own_qos"][: len(jobs)]]
        return np.asarray(value)

    def _check(self, jobs: JobTable, rows: t.Jobs) -> None:
        """Slurm would let such a job wait for ever."""
        for what, wrong in refusals(jobs, self._slurm, self._rules, len(self._nodes_seen)):
            ran_over = "minutes" in what and bool((jobs.run_us >= jobs.estimate_us)[wrong].any())
            by_rule = "; limits that `overrun: extend` raised are the log's with `overrun: kill`"
            first = self._asked_by(jobs, rows, int(np.flatnonzero(wrong)[0]))
            raise ValueError(
                f"scheduler slurm: {what}, and {grouped(int(wrong.sum()))} of its jobs ask for something else, the"
                f" first is {first}: change that, or take them out of the log{by_rule if ran_over else ''}"
            )

    def _asked_by(self, jobs: JobTable, rows: t.Jobs, row: int) -> str:
        """A job with what it asks for."""
        limit = int(rows["estimate_us"][row]) // s.MINUTE
        asks = [number_of(int(jobs.nodes[row]), "node"), number_of(limit, "minute")]
        if self.shared is not None:
            each = zip(self.shared.wants_of(jobs), ("cores", "MiB", "GPUs"), strict=True)
            wants = [f"{grouped(int(count[row]))} {unit}" for count, unit in each if count[row] > 0]
            asks += [f"of each {', '.join(wants)}"] if wants else []
        return f"job {jobs.number[row]} ({', '.join(asks)})"

    def use(self, state: t.State) -> None:
        self._state = state
        room = len(state.job) + 1
        first_mask, second_mask, light_mask, open_mask, planned = self._masks
        self._twin = s.Twin(
            registers=self._twin_registers,
            job_ext=self._job_ext,
            fixed=self._fixed,
            parts=self._parts,
            nodes=self._nodes_seen,
            slots=self._slots,
            kept=self._kept,
            first_mask=first_mask,
            second_mask=second_mask,
            light_mask=light_mask,
            open_mask=open_mask,
            planned=planned,
            candidates=self._candidates,
            may_preempt=self._may_preempt,
            tests=self._tests,
            partition_counts=self._partition_counts,
            user_tests=self._user_tests,
            weights=self._weights,
            open_runs=self._open_runs,
            counted=self._count,
            usage_factors=np.array([each.usage_factor for each in self._rules.qos]),
            fair_shares=self._fair_shares,
            fair_order=self._fair_order,
            fair_stack=np.zeros(len(self._fair_shares), np.int64),
            spare=np.zeros(room, np.int32),
            limits=self._limits,
            used=self._used,
            associations=self._associations,
            times=self._times,
            held=self._held,
            room=self._room,
            node_of_core=self._node_of_core,
            running=self._running,
            cores=self._cores,
        )

    def advance(self, state: t.State, until_us: int) -> int:
        return int(_ADVANCE(state, self._twin, until_us))

    def finish_instant(self, state: t.State, now_us: int) -> None:
        _FINISH(state, self._twin, now_us, not self._has_outages or self._left_at(now_us))

    def start_jobs(self, state: t.State, now_us: int) -> None:
        self.finish_instant(state, now_us)

    def next_event_us(self, state: t.State) -> int:
        return int(_NEXT_EVENT(state, self._twin))

    # Nodes that go and come back by themselves.

    def expect_outages(self) -> bool:
        """Nodes will fail and be maintained. Returns whether jobs that lose one wait again. Raises ValueError."""
        if self._slurm.select is not None:
            raise ValueError("scheduler slurm: select: nodes that jobs share do not fail in the twin")
        if len(self._parts) > len(self._rules.partitions):
            raise ValueError("scheduler slurm: nodes do not fail in the twin where jobs have constraints")
        if self._rules.preempts:
            raise ValueError(
                "scheduler slurm: nodes do not fail in the twin where jobs preempt others; say preempt_type: none"
            )
        self._has_outages = True
        return self._rules.job_requeue

    def _left_at(self, now_us: int) -> bool:
        """Whether a job left its nodes then, which runs the main loop; nodes that come back do not."""
        last = self._state.registers.last_ended
        return bool(self._left_us == now_us or (last >= 0 and self._state.job["end_us"][last] == now_us))

    def has_left(self, job: int, now_us: int) -> None:  # noqa: ARG002 - whoever it was
        self._left_us = now_us

    def holds_back(self, job: int, now_us: int) -> bool:
        """For two minutes."""
        _HOLD_BACK(self._twin, job, now_us)
        return True

    def limit_us(self, jobs: NDArray[np.intp], asked_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """A job's time limit stays what it was, however much of its work it has done."""
        rows = self._state.job
        return np.where(rows["run_row"][jobs] >= 0, rows["estimate_us"][jobs], asked_us)

    def nodes_have_moved(self) -> None:
        self._twin_registers.nodes_moved = self._has_outages


def _may_preempt(its: Sequence[Partition | Qos | None]) -> NDArray[np.bool_]:
    """Whether jobs of a partition or QOS may take the nodes of those of another, by place."""

    def may(one: Partition | Qos | None, other: Partition | Qos | None) -> bool:
        if isinstance(one, Partition) and isinstance(other, Partition):
            return one.priority_tier > other.priority_tier
        return isinstance(one, Qos) and isinstance(other, Qos) and other.name in one.preempt

    return np.array([[may(one, other) for other in its] for one in its], bool)


def _rooms(node_count: int, shared: SharedNodes | None) -> tuple[Rows[s.Room], NDArray[np.int64]]:
    """What each node has, and the node of each core."""
    room = new_rows(s.Room, node_count)
    if shared is None:
        room["first_core"][:], room["cores"][:] = np.arange(node_count), 1
        return room, np.arange(node_count)
    room["first_core"][:] = shared.first_core
    for name, values in zip(Size._fields, zip(*shared.sizes, strict=True), strict=True):
        room[name][:] = values
    room["weight"][:] = shared.weights
    return room, shared.node_of_core


def _weights(rules: Rules) -> s.Weights:
    weights = new_record(s.Weights)
    weights.age = rules.priority_weight_age
    weights.max_age_us = rules.priority_max_age * US
    weights.fair = rules.priority_weight_fairshare
    half_life_s = rules.priority_decay_half_life
    weights.left_a_second = 1 - _LN2 / half_life_s if half_life_s else 1.0
    weights.counts_ends = rules.enforce_limits
    weights.is_fair_tree = rules.priority_fair_tree
    return weights


def _associations(rules: Rules) -> Rows[s.AssociationUse]:
    """The associations with the limits that count."""
    found = new_rows(s.AssociationUse, len(rules.associations))
    found["parent"][:] = [each.parent for each in rules.associations]
    for name, limit in _ASSOCIATION_LIMITS.items():
        found[name][:] = [getattr(each, limit) for each in rules.associations] if rules.enforce_limits else -1
    return found


def _registers(rules: Rules, slurm: SlurmSettings) -> s.TwinRegisters:
    twin_registers = new_record(s.TwinRegisters)
    for register, value in (
        ("depth", rules.default_queue_depth),
        ("partition_depth", rules.partition_job_depth),
        ("pass_starts", rules.sched_max_job_start),
        ("sched_every_us", max(rules.sched_interval, 0) * US),
        ("pass_gap_us", rules.sched_min_interval),
        ("defer", rules.defer),
        ("fill_every_us", rules.bf_interval * US if rules.backfills else 0),
        ("window_us", rules.bf_window * s.MINUTE),
        ("resolution_us", rules.bf_resolution * US),
        ("max_test", rules.bf_max_job_test),
        ("max_user", 0 if rules.bf_max_job_assoc else rules.bf_max_job_user),
        ("max_partition", rules.bf_max_job_part),
        ("max_user_partition", rules.bf_max_job_user_part),
        ("max_association", rules.bf_max_job_assoc),
        ("fill_starts", rules.bf_max_job_start),
        ("max_reserved", rules.bf_job_part_count_reserve),
        ("min_age_us", rules.bf_min_age_reserve * US),
        ("over_us", rules.over_time_limit * s.MINUTE + (rules.kill_wait * US if slurm.ignores_term else 0)),
        ("calc_every_us", rules.priority_calc_period * US if rules.changes_priorities else 0),
        ("pass_at_us", t.NEVER),
        ("last_pass_us", _LONG_AGO_US),
        ("fill_at_us", t.NEVER),
        ("again_at_us", t.NEVER),
        ("last_fill_us", _LONG_AGO_US),
        ("release_at_us", t.NEVER),
        ("quiet_wait_us", rules.bf_after_quiet * US),
        ("since_24_11", rules.since_24_11),
        ("since_26_05", rules.since_26_05),
        ("by_submit", rules.priority_type == "multifactor"),
        ("preempts", rules.preempts),
        ("preempt_again_us", (rules.kill_wait + rules.message_timeout) * US),
        ("partitions", len(rules.partitions)),
        ("shares", slurm.select is not None),
    ):
        setattr(twin_registers, register, value)
    return twin_registers
