"""The settings that the twin of Slurm goes by, whoever says them: a scenario, a slurm.conf, or Slurm's defaults.

Names and units are those of slurm.conf (its manual page), in lower case with underscores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from emulator.plugins import check_number
from emulator.schedulers.slurm.preemption_settings import PreemptMode, PreemptType
from emulator.schedulers.slurm.releases import NEWEST, RELEASES
from emulator.schedulers.slurm.times import INFINITE, MOST

if TYPE_CHECKING:
    from emulator.schedulers.slurm.associations import Association
    from emulator.schedulers.slurm.qos import Qos
    from emulator.schedulers.slurm.releases import Release
    from emulator.schedulers.slurm.reservations import Reserved

PriorityType = Literal["basic", "multifactor"]
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. `nodes`: indices, None for all. `max_time` is in minutes. `qos`: whose limits come first.

    `state`: one that is not UP starts no job that comes. `preempt_mode`: None for that of the rules. `grace_time`: so
    many seconds its jobs go on if others take their nodes.
    """

    name: str = "batch"
    nodes: tuple[int, ...] | None = None
    priority_tier: int = 1
    priority_job_factor: int = 1
    max_time: int = INFINITE
    max_nodes: int = INFINITE
    min_nodes: int = 0
    qos: str = ""
    state: str = "UP"
    preempt_mode: PreemptMode | None = None
    grace_time: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """All settings, with Slurm's defaults (slurm.conf's manual page).

    `sched_interval`, `bf_interval`, `bf_resolution`, `bf_min_age_reserve`, `kill_wait`, `message_timeout`,
    `priority_max_age`, `priority_decay_half_life` and `priority_calc_period` in seconds, `sched_min_interval` in
    microseconds, `bf_window` and `over_time_limit` in minutes; other words of SchedulerParameters are numbers of
    jobs, 0 for no limit where that is the default. `enforce_limits`: those of QOS and associations count.
    `job_requeue`: who loses a node waits again. `preempt_type`: who takes the nodes of whom; `preempt_mode`: what
    becomes of these; `preempt_exempt_time`: who has run for fewer seconds keeps its nodes (-1: nobody).
    """

    release: Release = NEWEST
    backfill: bool = True
    default_queue_depth: int = 100
    partition_job_depth: int = 0
    sched_max_job_start: int = 0
    sched_interval: int = 60
    sched_min_interval: int = 2
    defer: bool = False
    bf_interval: int = 30
    bf_window: int = 1440
    bf_resolution: int = 60
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_max_job_user_part: int = 0
    bf_max_job_assoc: int = 0
    bf_max_job_start: int = 0
    bf_job_part_count_reserve: int = 0
    bf_continue: bool = False
    bf_min_age_reserve: int = 0
    bf_after_quiet: int = 0
    over_time_limit: int = 0
    kill_wait: int = 30
    message_timeout: int = 10
    job_requeue: bool = True
    preempt_type: PreemptType = "none"
    preempt_mode: PreemptMode = "off"
    preempt_exempt_time: int = 0
    priority_type: PriorityType = "basic"
    priority_weight_age: int = 0
    priority_weight_fairshare: int = 0
    priority_weight_job_size: int = 0
    priority_weight_partition: int = 0
    priority_weight_qos: int = 0
    priority_max_age: int = 7 * _DAY_S
    priority_favor_small: bool = False
    priority_fair_tree: bool = True
    priority_decay_half_life: int = 7 * _DAY_S
    priority_calc_period: int = 300
    partitions: tuple[Partition, ...] = field(default=(Partition(),))
    default_partition: str = "batch"
    qos: tuple[Qos, ...] = ()
    enforce_limits: bool = True
    reservations: tuple[Reserved, ...] = ()
    associations: tuple[Association, ...] = ()

    def __post_init__(self) -> None:
        for name in ("bf_resolution", "bf_window", "priority_max_age", "priority_calc_period"):
            check_number("slurm", name, getattr(self, name), at_least=1, at_most=MOST, whole=True)
        for name in (
            "default_queue_depth", "partition_job_depth", "sched_max_job_start", "sched_min_interval",
            "bf_max_job_test", "bf_max_job_user", "bf_max_job_part", "bf_max_job_user_part", "bf_max_job_assoc",
            "bf_max_job_start", "bf_job_part_count_reserve", "bf_min_age_reserve", "bf_after_quiet",
            "over_time_limit", "kill_wait", "message_timeout", "priority_weight_age", "priority_weight_fairshare",
            "priority_weight_job_size", "priority_weight_partition", "priority_weight_qos",
            "priority_decay_half_life",
        ):  # fmt: skip
            check_number("slurm", name, getattr(self, name), at_least=0, at_most=MOST, whole=True)
        check_number(
            "slurm", "preempt_exempt_time", self.preempt_exempt_time, at_least=-1, at_most=MOST, whole=True
        )
        for name in ("sched_interval", "bf_interval"):
            if getattr(self, name) != -1:  # never
                check_number("slurm", name, getattr(self, name), at_least=1, at_most=MOST, whole=True)
        if self.priority_type not in ("basic", "multifactor"):
            raise ValueError(f"slurm: priority_type is basic or multifactor, not {self.priority_type!r}")
        for name, kinds in (("preempt_type", get_args(PreemptType)), ("preempt_mode", get_args(PreemptMode))):
            if getattr(self, name) not in kinds:
                raise ValueError(f"slurm: {name} is {' or '.join(kinds)}, not {getattr(self, name)!r}")
        if self.release not in RELEASES:
            known = ", ".join(RELEASES)
            raise ValueError(f"slurm: release is one of {known}, not {self.release!r}")

    @property
    def since_24_11(self) -> bool:
        """Whether backfill plans, and jobs that share nodes get them, as in releases since 24.11."""
        return self.release != "22.05"

    @property
    def since_26_05(self) -> bool:
        """Whether jobs of one node that share it get it as in releases since 26.05."""
        return self.release == "26.05"

    @property
    def preempts(self) -> bool:
        """Whether jobs may take the nodes of others."""
        if self.preempt_mode == "off" or self.preempt_type == "none":
            return False
        return self.preempt_type == "partition_prio" or any(each.preempt for each in self.qos)

    def mode_of(self, its: Partition | Qos | None) -> PreemptMode:
        """What becomes of a job of this partition or QOS if another takes its nodes.

        What may not wait again is cancelled.
        """
        mode = self.preempt_mode if its is None else its.preempt_mode or self.preempt_mode
        return "cancel" if mode == "requeue" and not self.job_requeue else mode

    @property
    def backfills(self) -> bool:
        return self.backfill and self.bf_interval > 0

    @property
    def changes_priorities(self) -> bool:
        """Whether a waiting job's priority changes: else the queue is sorted once, as a job comes."""
        return self.priority_type == "multifactor" and bool(
            self.priority_weight_age or self.priority_weight_fairshare
        )
