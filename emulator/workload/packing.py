"""Single-core jobs as leases of virtual machines (Liu et al. 2018, section III-A).

At every start or stop of a job, so many machines are needed as the running jobs fill when they are packed
tightly. A machine more is a lease that begins, a machine less is one that ends; jobs that start and stop at
the same time do not meet, so that a stop and a start at once need no other machine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from balancer.clock import US
from balancer.predictors.interface import Slots
from balancer.timestamps import iso
from emulator.plugins import check_number
from emulator.text.number_text import grouped, percent
from emulator.workload.files import write_whole
from emulator.workload.rules import with_times_of_jobs
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import RenderableType

    from emulator.workload.swf import SwfLog

WEEK_S = 604_800
CORES = 16
"""Of a virtual machine in the paper."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A number that changes: from `time_us[i]` on it is `count[i]`; before the first it is 0."""

    time_us: NDArray[np.int64]
    count: NDArray[np.int64]


def running(log: SwfLog) -> Demand:
    """Processors in use by the log's own starts. Jobs without a start, run time or size do not count."""
    return level(*intervals(log))


def intervals(log: SwfLog) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Start, end (in microseconds) and processors of each job that the log says them of, if a job had such times."""
    log, _ = with_times_of_jobs(log)
    submit_s, wait_s, run_s = log.column("submit_s"), log.column("wait_s"), log.column("run_s")
    procs = np.maximum(log.column("allocated_procs"), log.column("requested_procs"))
    ran = (submit_s >= 0) & (wait_s >= 0) & (run_s > 0) & (procs > 0)
    start_us = np.rint((submit_s + wait_s)[ran] * US).astype(np.int64)
    end_us = start_us + np.rint(run_s[ran] * US).astype(np.int64)
    return start_us, end_us, np.asarray(procs[ran], np.int64)


def level(start_us: NDArray[np.int64], end_us: NDArray[np.int64], width: NDArray[np.int64]) -> Demand:
    """The sum of the widths of what is between its start and its end, after all events of each time."""
    time_us = np.concatenate((start_us, end_us))
    order = np.argsort(time_us)
    time_us, count = time_us[order], np.cumsum(np.concatenate((width, -width))[order])
    is_last = np.ones(len(time_us), np.bool_)  # of the events of its time
    is_last[:-1] = time_us[1:] > time_us[:-1]
    return Demand(time_us[is_last], count[is_last])


def machines(cores: Demand, cores_per_vm: int = CORES) -> Demand:
    """The machines that tightly packed cores need."""
    return Demand(cores.time_us, -(-cores.count // cores_per_vm))


def to_leases(need: Demand, *, ends_first: Literal["newest", "oldest"] = "newest") -> JobTable:
    """Leases of one node each that are at every time as many as needed.

    When fewer are needed, the newest lease ends: tight packing fills the oldest machines, so that the newest is
    the empty one. With "oldest" the oldest ends, which makes the durations more alike; their sum is the same.
    """
    change = np.diff(need.count, prepend=0)
    begins = np.repeat(need.time_us, np.maximum(change, 0))
    stops = np.repeat(need.time_us, np.maximum(-change, 0))
    if ends_first == "newest":
        begins, stops = _by_level(need)
    return JobTable.build(
        submit_us=begins,
        run_us=stops - begins,
        nodes=np.ones(len(begins), np.int32),
        kind=Kind.ON_DEMAND,
    )


def _by_level(need: Demand) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begin and end of each time that the need is at least k, for k = 1, 2, ...: last in, first out."""
    change = np.diff(need.count, prepend=0)
    steps = np.abs(change)
    rank = np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)
    low = np.repeat(np.minimum(need.count, need.count - change), steps)
    time_us = np.repeat(need.time_us, steps)
    # A level is crossed upwards and downwards in turn, beginning and ending below it.
    order = np.lexsort((time_us, low + rank))
    crossings = time_us[order]
    return crossings[::2], crossings[1::2]


def pack(
    log: SwfLog, *, cores_per_vm: int = CORES, ends_first: Literal["newest", "oldest"] = "newest"
) -> JobTable:
    """The leases that a log of jobs on shared cores needs, at the log's own times."""
    return to_leases(vms_for(log, cores_per_vm), ends_first=ends_first)


def vms_for(log: SwfLog, cores_per_vm: int = CORES) -> Demand:
    """The machines that a log's jobs need over time."""
    if cores_per_vm < 1:
        raise ValueError(f"a machine has at least 1 core, not {cores_per_vm}")
    return machines(running(log), cores_per_vm)


def write_history(leases: JobTable, unix_s: int, path: Path) -> int:
    """Nodes requested in each six-hour slot as CSV, for `balancer predictor backtest`. Returns how many slots.

    `unix_s` is the time of the leases' 0.
    """
    slots = Slots()
    slot = (leases.submit_us + unix_s * US) // slots.length_us
    first = int(slot[0]) if len(leases) else 0
    counts = np.bincount(slot - first, weights=leases.nodes)
    lines = [f"{iso(slots.begin_us(first + at))},{int(nodes)}\n" for at, nodes in enumerate(counts)]
    with write_whole(path) as file:
        file.write(("start,nodes_requested\n" + "".join(lines)).encode())
    return len(lines)


@dataclass(frozen=True, slots=True)
class PackingInfo:
    """The leases of a log: `utilisation` is of `nodes` x whole weeks, `vms` the most at one time."""

    source: str
    leases: int
    vms: int
    hours: float
    utilisation: float
    mean_s: float
    busiest_minute: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def describe(source: str, leases: JobTable, need: Demand, nodes: int) -> PackingInfo:
    """The figures of leases and of the need that they cover."""
    total_s = float(leases.run_us.sum()) / US
    submit_us = leases.submit_us
    weeks = 1 + (int(submit_us[-1]) // (WEEK_S * US) if len(leases) else 0)
    in_a_minute = np.searchsorted(submit_us, submit_us + 60 * US) - np.arange(len(leases))
    return PackingInfo(
        source=source,
        leases=len(leases),
        vms=int(need.count.max(initial=0)),
        hours=total_s / 3600,
        utilisation=total_s / (nodes * WEEK_S * weeks),
        mean_s=total_s / max(len(leases), 1),
        busiest_minute=int(in_a_minute.max(initial=0)),
    )


def render(rows: list[PackingInfo]) -> RenderableType:
    """A table for a terminal."""
    from rich.table import Table  # noqa: PLC0415 - not needed for the figures alone

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("log")
    for heading in ("leases", "VMs", "VM-hours", "of nodes", "mean (s)", "a minute"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Path(row.source).name,
            grouped(row.leases),
            grouped(row.vms),
            grouped(row.hours),
            percent(row.utilisation, 3),
            grouped(row.mean_s),
            grouped(row.busiest_minute),
        )
    return table


@dataclass(frozen=True, slots=True)
class PackedJobs:
    """The generator `packed_jobs`: on-demand leases for the jobs of a log, such as a week of the APS.

    Jobs are packed onto machines of `cores_per_vm` cores. Time 0 is `origin_s` of the log; leases that begin
    earlier are left out.
    """

    trace: str
    cores_per_vm: int = CORES
    origin_s: float = 0
    ends_first: Literal["newest", "oldest"] = "newest"

    def __post_init__(self) -> None:
        owner = "packed_jobs"
        if not isinstance(self.trace, str | Path):
            raise ValueError(f"{owner}: trace must be the name of a file, not {self.trace!r}")  # noqa: TRY004 - a border: one kind of error
        check_number(owner, "cores_per_vm", self.cores_per_vm, at_least=1, whole=True)
        check_number(owner, "origin_s", self.origin_s, at_least=0)
        if self.ends_first not in ("newest", "oldest"):
            raise ValueError(f"{owner}: ends_first is 'newest' or 'oldest', not {self.ends_first!r}")

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:  # noqa: ARG002
        """The log's leases; nothing of it is random. Raises ValueError if the log cannot be read."""
        from emulator.workload.formats import load  # noqa: PLC0415 - `load` finds formats, which need tables

        leases = pack(load(self.trace), cores_per_vm=self.cores_per_vm, ends_first=self.ends_first)
        origin_us = round(self.origin_s * US)
        later = leases.take(leases.submit_us >= origin_us)
        return JobTable.build(
            submit_us=later.submit_us - origin_us,
            run_us=later.run_us,
            nodes=later.nodes,
            kind=Kind.ON_DEMAND,
        )
