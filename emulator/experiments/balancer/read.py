"""What the paper leaves open about all of its runs, and the runs under another reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from emulator.experiments.balancer.workloads import AT_ONCE
from emulator.experiments.readings import Reading, value_of

if TYPE_CHECKING:
    from emulator.experiments.paper import Options

Item = tuple[str, dict[str, Any], dict[str, Any] | None, "str | dict[str, Any]"]
"""A run: label, workload, mechanism, scheduler."""

EASY = "fcfs+easy"
MAUI = {"order": "largest", "backfill": "easy", "cycle_s": 120}
"""Maui with a priority for wide jobs, which starts jobs every other second of the emulation's wall time."""

RESERVE = Reading(
    "reserve",
    ("fixed", "refilled"),
    "whether R counts granted nodes (Algorithm 1 has no line that refills it) or idle nodes take their place",
)
LEASES = Reading(
    "leases",
    ("generated", "at_most_11"),
    "how many leases there are at a time: as the bursts overlap, or never more than in the real weeks",
)
QUEUE = Reading(
    "queue",
    ("fcfs", "no_backfill", "wide_first"),
    "Maui's settings: FCFS with EASY, without backfilling, or the widest job first with EASY",
)
CYCLE = Reading(
    "cycle_s",
    ("0", "60", "120", "300"),
    "cluster time between two scheduling passes; a second of the emulation is 60 s",
)
OVERHEAD = Reading(
    "overhead_s",
    ("0", "60"),
    "cluster time that starting and ending a job takes besides its run time",
)
READINGS = (RESERVE, LEASES, QUEUE, CYCLE, OVERHEAD)
LEASE_PARAMETERS = (
    "most_at_once", "full_share", "least_full", "small_mean", "burst_span_s", "duration_spread", "working_share",
    "weekend_share",
)  # fmt: skip
"""Of the leases in a world of the atlas."""
_QUEUES: dict[str, dict[str, Any]] = {
    "fcfs": {"order": "fcfs", "backfill": "easy"},
    "no_backfill": {"order": "fcfs", "backfill": "none"},
    "wide_first": {"order": "largest", "backfill": "easy"},
}


@dataclass(frozen=True, slots=True)
class ReadingChoice:
    """One way to read the paper. It is put where a run says nothing else."""

    reserve_rule: str
    leases: Any
    scheduler: str | dict[str, Any]
    overhead_s: int

    @classmethod
    def of(cls, options: Options) -> Self:
        leases: Any = "aps_leases" if value_of(options, LEASES) == LEASES.default else AT_ONCE
        drawn = {name: options.world[name] for name in LEASE_PARAMETERS if name in options.world}
        if drawn:
            leases = {"aps_leases": drawn | (AT_ONCE["aps_leases"] if leases is AT_ONCE else {})}
        queue, cycle_s = value_of(options, QUEUE), float(value_of(options, CYCLE))
        is_usual = queue == QUEUE.default and not cycle_s
        return cls(
            reserve_rule=value_of(options, RESERVE),
            leases=leases,
            scheduler=EASY if is_usual else {**_QUEUES[queue], "cycle_s": cycle_s},
            overhead_s=int(value_of(options, OVERHEAD)),
        )

    def applied(self, item: Item) -> Item:
        """The run under this reading."""
        label, workload, mechanism, scheduler = item
        policy = (mechanism or {}).get("balancer")
        if policy is not None and policy.get("static_reserve"):
            mechanism = {"balancer": {"reserve_rule": self.reserve_rule, **policy}}
        changes = workload["transforms"]
        if self.overhead_s and not any("job_overhead" in each for each in changes):
            changes = [*changes]
            # Where utilisation is injected, it is that of the jobs alone.
            at = len(changes) - 1 if changes and changes[-1] == "wrap_around" else 0
            changes.insert(at, {"job_overhead": {"overhead_s": self.overhead_s}})
            workload = {**workload, "transforms": changes}
        return label, workload, mechanism, self.scheduler if scheduler == EASY else scheduler
