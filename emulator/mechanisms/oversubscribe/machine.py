"""Nodes of cores and memory that jobs share, and a queue over them: a `Machine` of the harness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster import Stop
from emulator.cluster.views import TableViews
from emulator.config.node_names import default_node_names
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_point
from emulator.kernel.job_states import JobState
from emulator.kernel.rows import new_record, new_rows
from emulator.kernel.tables import BackfillRule
from emulator.mechanisms.oversubscribe import kernel
from emulator.mechanisms.oversubscribe import tables as s
from emulator.mechanisms.oversubscribe.contention import EqualShares, speed_table
from emulator.schedulers.orders import static_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from emulator.mechanisms.oversubscribe.contention import Contention
    from emulator.record.run_record import RunTable
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_BACKFILL = {"none": BackfillRule.NONE, "easy": BackfillRule.EASY}
_ADVANCE = entry_point(kernel.advance)
_FINISH_INSTANT = entry_point(kernel.finish_instant)
ANY_NUMBER = 1 << 20
"""Limit of a job that shares with as many as the machine lets it."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What each node has. `slots`: jobs that may share a core (the paper's M), `gpu_slots`: a GPU.

    `memory_kib` 0: memory is not looked at. `rules`: of the `paper`, or of the authors' `program`.
    """

    cores: int
    slots: int = 1
    memory_kib: int = 0
    gpus: int = 0
    gpu_slots: int = 1
    rules: str = "paper"

    @property
    def slot_count(self) -> int:
        """Slots of a node."""
        return self.cores * self.slots + self.gpus * self.gpu_slots

    def core_of(self, slot: int) -> int:
        """The core of a slot of the machine, cores counted over all nodes; -1 for a slot of a GPU."""
        node, place = divmod(slot, self.slot_count)
        core = place // self.slots
        return node * self.cores + core if core < self.cores else -1

    def slot_names(self) -> Iterator[str]:
        """Of the slots of a node, in order, behind its name: `n001/c03.2` is the second slot of core 3."""
        for kind, units, slots in (("c", self.cores, self.slots), ("g", self.gpus, self.gpu_slots)):
            for unit in range(units):
                for slot in range(1, slots + 1):
                    yield f"/{kind}{unit:02d}.{slot}"


@dataclass(frozen=True, slots=True)
class Demands:
    """What each job wants of each of its nodes, one entry a row of the job table.

    `limit`: how many jobs, itself included, may be on its cores. `phase_first` is one longer: phases of row r are
    `phase_us[phase_first[r]:phase_first[r + 1]]`, active and idle by turns, active first; they add up to its run time.
    """

    cores: NDArray[np.int64]
    memory_kib: NDArray[np.int64]
    gpus: NDArray[np.int64]
    limit: NDArray[np.int64]
    phase_first: NDArray[np.int64]
    phase_us: NDArray[np.int64]

    @classmethod
    def of(
        cls, jobs: JobTable, shape: NodeShape, phases: dict[int, NDArray[np.int64]] | None = None
    ) -> Demands:
        """By the extra columns `cores`, `memory_kib`, `gpus` and `share_limit`; `phases` by row.

        A job without `cores` wants whole nodes.
        """
        lengths = {row: len(each) for row, each in (phases or {}).items()}
        counts = np.ones(len(jobs), np.int64)
        counts[list(lengths)] = list(lengths.values())
        first = np.concatenate(([0], np.cumsum(counts)))
        phase_us = np.repeat(jobs.run_us, counts)
        for row, each in (phases or {}).items():
            phase_us[first[row] : first[row + 1]] = each
        return cls(
            cores=jobs.column("cores", shape.cores),
            memory_kib=jobs.column("memory_kib", 0),
            gpus=jobs.column("gpus", 0),
            limit=np.where(jobs.column("share_limit", 0) <= 0, ANY_NUMBER, jobs.column("share_limit", 0)),
            phase_first=first,
            phase_us=phase_us,
        )


class OversubscribedMachine(TableViews):
    """`nodes` nodes of one shape, and FCFS or EASY over all jobs (Minami et al. 2023, section 3).

    To the harness and in records a *slot* is what a node is elsewhere: a job has slots to itself, one of each core
    (and GPU) that it uses, so that all laws hold of them. `node_count` is the number of slots, `job_table` has as
    many nodes a job as it has slots, and `nodes` of the jobs given is in its extra column `whole_nodes`.

    Raises ValueError for a scheduler that it does not have and for a job that no empty machine could run.
    """

    _job: s.Jobs

    def __init__(
        self,
        nodes: int,
        shape: NodeShape,
        scheduler: SchedulerConfig,
        jobs: JobTable,
        demands: Demands,
        *,
        contention: Contention | None = None,
    ) -> None:
        self.nodes = nodes
        self.node_count = nodes * shape.slot_count
        self.shape = shape
        self._jobs = in_slots(jobs, demands)
        self._demands = demands
        _check_scheduler(scheduler)
        _check_jobs(jobs, demands, nodes, shape)
        full, speeds = speed_table(contention or EqualShares(), max(shape.slots, shape.gpu_slots))
        longest_us = int(np.maximum(jobs.run_us, jobs.estimate_us).max(initial=1))
        if longest_us > t.NEVER // 2 // full:
            raise ValueError(
                f"a job of {longest_us / 1e6:g} s is too long to be counted in 1/{full} us; round the contention"
            )
        room = self._room = _make_room(nodes, shape, scheduler, jobs, demands, full=full, speeds=speeds)
        self._job, self._runs, self._log, self._registers = room.job, room.runs, room.log, room.registers

    # What a reader may look at.

    @property
    def queue(self) -> NDArray[np.int32]:
        """Waiting jobs, the head first."""
        return self._room.queue[self._room.registers.queue_lo : self._room.registers.queue_hi]

    @property
    def sharing(self) -> NDArray[np.int32]:
        """Jobs on each core, by node and core."""
        return self._room.unit.taken[:, : self.shape.cores]

    @property
    def slots(self) -> NDArray[np.int32]:
        """The job in each slot, by node, unit (cores, then GPUs) and slot; -1 for none."""
        return self._room.slot_job

    @property
    def free_memory_kib(self) -> NDArray[np.int64]:
        return self._room.node.free_memory_kib

    @property
    def full_speed(self) -> int:
        """Speed of a job alone, in parts."""
        return int(self._room.core_registers.full)

    def parts_of_full_speed(self, job: int) -> int:
        """Present speed of a running job."""
        return int(self._room.job["rate"][job])

    @property
    def next_event_us(self) -> int:
        room = self._room
        registers = room.registers
        next_event = room.job["event_us"][room.heap[0]] if registers.heap_n else t.NEVER
        row = registers.next_submit
        next_submit = room.job["submit_us"][row] if row < registers.jobs_n else t.NEVER
        return int(min(next_event, next_submit))

    # Simulated time.

    def advance(
        self, until_us: int, *, stop_on_end: bool = False, stop_on_pass: bool = False, pause_after: int = -1
    ) -> Stop:
        """As `Cluster.advance`; nobody can ask it to stop after passes."""
        if stop_on_pass:
            raise ValueError("a machine of shared nodes does not stop after passes")
        self._room.registers.stop_on_end = stop_on_end
        self._room.registers.instants_left = pause_after
        self._room.core_registers.pause_at = t.NEVER
        return Stop(_ADVANCE(self._room, until_us))

    def catch_up(self, to_us: int) -> None:
        """Let everything up to and at this time happen."""
        self._room.registers.instants_left = -1
        self._room.core_registers.pause_at = to_us
        _ADVANCE(self._room, t.NEVER)

    @property
    def node_names(self) -> tuple[str, ...]:
        """A name for each slot."""
        return slot_names(self.nodes, self.shape)

    @property
    def slots_per_node(self) -> int:
        return self.shape.slot_count

    @property
    def core_count(self) -> int:
        return self.nodes * self.shape.cores

    def core_of(self, slot: int) -> int:
        return self.shape.core_of(slot)

    def finish_instant(self, now_us: int) -> None:
        _FINISH_INSTANT(self._room, now_us)

    # Afterwards.

    def job_table(self) -> JobTable:
        return self._jobs

    def run_table(self) -> RunTable:
        """Every run so far, on its slots."""
        table = super().run_table()
        is_slot = self._room.slot_job[0].size == self.shape.slot_count
        return replace(
            table,
            node=table.node if is_slot else self._slot_of_place()[table.node],
            done_node_us=self._done_us(table.job) * np.diff(table.first),
            lost_node_us=np.zeros(len(table.job), np.int64),
        )

    def _slot_of_place(self) -> NDArray[np.int32]:
        """The slot of each of the kernel's places, of which a core has as many as a GPU, whatever slots they have."""
        nodes, units, slots = self._room.slot_job.shape
        node, unit, slot = np.indices((nodes, units, slots), np.int32).reshape(3, -1)
        shape = self.shape
        gpu = unit - shape.cores
        within = np.where(
            gpu < 0, unit * shape.slots + slot, shape.cores * shape.slots + gpu * shape.gpu_slots + slot
        )
        return (node * shape.slot_count + within).astype(np.int32)

    def _done_us(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """What these jobs have done of their run times so far, in whole microseconds."""
        registers = self._room.registers
        done: NDArray[np.int64] = self._room.job["run_us"][rows]
        later = np.concatenate(([0], np.cumsum(self._demands.phase_us)))
        for k in np.flatnonzero(self._room.job["state"][rows] == JobState.RUNNING):
            job = self._room.job[rows[k]]
            left = job.phase_left - (registers.now - job.settled_us) * job.rate
            rest = later[job.phase_end] - later[job.phase + 1]
            done[k] -= -(-max(left, 0) // self.full_speed) + rest
        return done


def in_slots(jobs: JobTable, demands: Demands) -> JobTable:
    """The jobs as records know them: as many nodes as they have slots; the nodes they are on as `whole_nodes`."""
    slots = (jobs.nodes * (demands.cores + demands.gpus)).astype(np.int32)
    return replace(jobs.with_extra(cores=demands.cores, whole_nodes=jobs.nodes), nodes=slots)


def slot_names(nodes: int, shape: NodeShape) -> tuple[str, ...]:
    """The slots of all nodes, in order."""
    of_a_node = [*shape.slot_names()]
    return tuple([node + slot for node in default_node_names(nodes) for slot in of_a_node])


def _check_scheduler(scheduler: SchedulerConfig) -> None:
    if scheduler.backfill not in _BACKFILL:
        raise ValueError(f"shared nodes have the backfilling none and easy, not {scheduler.backfill}")
    plain = {"choice": "first_fit", "estimates": "user", "reservation": "refreshed", "spare_nodes": True,
             "protect_head": True, "end_at_shadow": True}  # fmt: skip
    for name, value in plain.items():
        if getattr(scheduler, name) != value:
            raise ValueError(f"shared nodes have no scheduler option {name} but {value}")


def _check_jobs(jobs: JobTable, demands: Demands, node_count: int, shape: NodeShape) -> None:
    """Every job must be able to run on the empty machine, or it would wait for ever."""
    wants = (
        ("nodes", jobs.nodes, node_count),
        ("cores on a node", demands.cores, shape.cores),
        ("GPUs on a node", demands.gpus, shape.gpus),
        ("KiB of memory on a node", demands.memory_kib, shape.memory_kib or t.NEVER),
    )
    for what, wanted, there in wants:
        too_much = np.flatnonzero(wanted > there)
        if len(too_much):
            row = int(too_much[0])
            raise ValueError(
                f"job {jobs.number[row]} wants {wanted[row]} {what}, there are {there}: leave it out, or take"
                " larger nodes"
            )
    for what, wanted in (("nodes", jobs.nodes), ("cores", demands.cores), ("share_limit", demands.limit)):
        if (wanted < 1).any():
            row = int(np.flatnonzero(wanted < 1)[0])
            raise ValueError(f"job {jobs.number[row]}: {what} must be at least 1, not {wanted[row]}")


def _make_room(
    node_count: int,
    shape: NodeShape,
    scheduler: SchedulerConfig,
    jobs: JobTable,
    demands: Demands,
    *,
    full: int,
    speeds: NDArray[np.int64],
) -> s.State:
    count = len(jobs)
    units = shape.cores + shape.gpus
    slots = max(shape.slots, shape.gpu_slots)
    job = _job_rows(jobs, demands, static_keys(jobs, scheduler, "oversubscribe"))
    node = s.Nodes(*np.zeros((len(s.Nodes._fields), node_count), np.int64))
    node.open[:] = node.most_open[:] = shape.cores
    node.free_memory_kib[:] = shape.memory_kib
    open_nodes = np.zeros(shape.cores + 1, np.int32)
    open_nodes[shape.cores] = node_count
    unit = s.Units(*np.zeros((len(s.Units._fields), node_count, units), np.int32))
    unit.cap[:] = np.where(np.arange(units) < shape.cores, shape.slots, shape.gpu_slots)
    slot_job = np.full((node_count, units, slots), -1, np.int32)
    queue = np.zeros(2 * count + 8, np.int32)
    registers = new_record(t.Registers)
    registers.queue_lo = registers.queue_hi = len(queue) // 2
    registers.jobs_n = count
    registers.backfill = _BACKFILL[scheduler.backfill]
    registers.every_event = scheduler.pass_ == "event"  # noqa: S105 - a scheduling pass
    core_registers = new_rows(s.Registers, 1)[0]
    core_registers.program = shape.rules == "program"
    core_registers.node_cores, core_registers.core_slots, core_registers.gpu_slots = (
        shape.cores,
        shape.slots,
        shape.gpu_slots,
    )
    core_registers.full = full
    core_registers.head = core_registers.enough_at = -1
    core_registers.has_memory = shape.memory_kib > 0
    return s.State(
        job=job,
        node=node,
        slot_job=slot_job,
        slot_next=np.full(node_count * units * slots, -1, np.int32),
        unit=unit,
        shared_by=np.zeros((max(count, 1), 2 * (slots + 1)), np.int32),
        rate=np.tile(speeds, (2, 1)),
        phases=demands.phase_us,
        heap=np.zeros(max(count, 1), np.int32),
        queue=queue,
        touched=np.zeros(max(count, 1), np.int32),
        chosen=np.zeros(node_count, np.int32),
        runs=new_rows(t.Run, max(count, 1)),
        log=np.zeros(max(int(((demands.cores + demands.gpus) * jobs.nodes).sum()), 1), np.int32),
        failed=s.Failed(*np.zeros((len(s.Failed._fields), node_count, shape.cores), np.int64)),
        open_nodes=open_nodes,
        scratch=s.Scratch(*np.zeros((len(s.Scratch._fields), max(node_count, units * slots + 1)), np.int64)),
        registers=registers,
        core_registers=core_registers,
    )


def _job_rows(jobs: JobTable, demands: Demands, key: NDArray[np.int64]) -> s.Jobs:
    job = new_rows(s.Job, max(len(jobs), 1))
    rows = slice(0, len(jobs))
    job["submit_us"][rows] = jobs.submit_us
    job["run_us"][rows] = jobs.run_us
    job["estimate_us"][rows] = np.maximum(jobs.estimate_us, 1)
    job["nodes"][rows] = jobs.nodes
    job["key"][rows] = key
    job["kind"][rows] = jobs.kind
    job["cores"][rows] = demands.cores
    job["gpus"][rows] = demands.gpus
    job["memory_kib"][rows] = demands.memory_kib
    job["limit"][rows] = demands.limit
    job["phase"][rows] = demands.phase_first[:-1]
    job["phase_end"][rows] = demands.phase_first[1:]
    for column in ("start_us", "end_us", "run_row", "heap_at", "first_slot"):
        job[column][:] = -1
    return job
