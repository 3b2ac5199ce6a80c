"""Jobs that share cores, the slow and obvious way: the truth that the compiled kernel must equal job by job.

Written from `docs/mechanisms/oversubscribe.md` and from nothing else; rule numbers are the numbers there. Work is
counted in fractions, speeds, expected ends and plans are computed anew whenever they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class SharedJob:
    number: int
    submit_us: int
    phases_us: tuple[int, ...]
    """Active and idle by turns; they add up to the run time."""
    estimate_us: int
    nodes: int
    cores: int
    memory: int = 0
    gpus: int = 0
    limit: int = 1 << 20

    @property
    def run_us(self) -> int:
        return sum(self.phases_us)


@dataclass(frozen=True)
class Machine:
    nodes: int
    cores: int
    slots: int
    memory: int = 0
    gpus: int = 0
    gpu_slots: int = 1

    def units(self) -> list[tuple[str, int]]:
        return [("core", k) for k in range(self.cores)] + [("gpu", k) for k in range(self.gpus)]

    def most(self, unit: tuple[str, int]) -> int:
        return self.slots if unit[0] == "core" else self.gpu_slots


Unit = tuple[int, tuple[str, int]]
"""A node and one of its units."""


@dataclass
class Running:
    job: SharedJob
    units: set[Unit]
    start_us: int
    phase: int = 0
    left: Fraction = Fraction(0)
    """Of the present phase."""
    estimate_left: Fraction = Fraction(0)
    done: Fraction = field(default_factory=lambda: Fraction(0))

    @property
    def is_active(self) -> bool:
        return self.phase % 2 == 0


class SharedReference:
    """Runs jobs on a machine; `schedule` has start and end by number afterwards, `done` the work of each."""

    def __init__(
        self,
        machine: Machine,
        jobs: list[SharedJob],
        *,
        easy: bool = True,
        speed: Callable[[int], Fraction] = lambda jobs: Fraction(1, jobs),
    ) -> None:
        self.machine = machine
        self.easy = easy
        self.speed_among = speed
        self.future = sorted(jobs, key=lambda job: (job.submit_us, job.number))
        self.order = {job.number: place for place, job in enumerate(self.future)}
        self.queue: list[SharedJob] = []
        self.running: list[Running] = []
        self.schedule: dict[int, tuple[int, int]] = {}
        self.done: dict[int, Fraction] = {}
        self.now = 0

    def run(self) -> dict[int, tuple[int, int]]:
        while self.future or self.running:
            times = [job.submit_us for job in self.future[:1]] + [
                self.phase_end(each) for each in self.running
            ]
            self.to(min(times))
            changed = False
            while due := [each for each in self.running if self.phase_end(each) == self.now]:
                each = min(due, key=lambda running: self.order[running.job.number])
                changed |= self.end_phase(each)
            while self.future and self.future[0].submit_us == self.now:
                self.queue.append(self.future.pop(0))
                changed = True
            if changed:
                self.scheduling_pass()
        return self.schedule

    def to(self, time: int) -> None:
        for each in self.running:
            work = (time - self.now) * self.speed(each)
            each.done += min(work, each.left) if each.left > 0 else 0
            each.left -= work
            each.estimate_left -= work
        self.now = time

    def end_phase(self, each: Running) -> bool:
        """Rule 4. Returns whether the job is over."""
        each.phase += 1
        if each.phase < len(each.job.phases_us):
            each.left = Fraction(each.job.phases_us[each.phase])
            return False
        self.running.remove(each)
        self.schedule[each.job.number] = (each.start_us, self.now)
        self.done[each.job.number] = each.done
        return True

    # Rule 3: speeds.

    def speed(self, each: Running) -> Fraction:
        if not each.is_active:
            return Fraction(1)
        return min(self.speed_among(self.active_on(unit)) for unit in each.units)

    def active_on(self, unit: Unit) -> int:
        return sum(other.is_active and unit in other.units for other in self.running)

    def phase_end(self, each: Running) -> int:
        return self.now + max(0, ceil(each.left / self.speed(each)))

    def expected_end(self, each: Running) -> int:
        return self.now + max(0, ceil(each.estimate_left / self.speed(each)))

    # Rules 1 and 2: places.

    def on(self, unit: Unit, running: list[Running]) -> list[SharedJob]:
        return [each.job for each in running if unit in each.units]

    def is_open(self, unit: Unit, job: SharedJob, running: list[Running]) -> bool:
        there = self.on(unit, running)
        limits = [other.limit for other in there] + [job.limit, self.machine.most(unit[1])]
        return len(there) + 1 <= min(limits)

    def open_units(self, node: int, kind: str, job: SharedJob, running: list[Running]) -> list[Unit]:
        return [
            (node, unit)
            for unit in self.machine.units()
            if unit[0] == kind and self.is_open((node, unit), job, running)
        ]

    def suits(self, node: int, job: SharedJob, running: list[Running]) -> bool:
        in_use = sum(each.job.memory for each in running if any(unit[0] == node for unit in each.units))
        return (
            len(self.open_units(node, "core", job, running)) >= job.cores
            and len(self.open_units(node, "gpu", job, running)) >= job.gpus
            and (not self.machine.memory or in_use + job.memory <= self.machine.memory)
        )

    def place(self, job: SharedJob, running: list[Running]) -> set[Unit] | None:
        def occupied(node: int) -> int:
            return sum(unit[0] == node for each in running for unit in each.units)

        suiting = [node for node in range(self.machine.nodes) if self.suits(node, job, running)]
        if len(suiting) < job.nodes:
            return None
        chosen: set[Unit] = set()
        for node in sorted(suiting, key=occupied)[: job.nodes]:
            for kind, wanted in (("core", job.cores), ("gpu", job.gpus)):
                units = self.open_units(node, kind, job, running)
                chosen.update(sorted(units, key=lambda unit: len(self.on(unit, running)))[:wanted])
        return chosen

    # Rules 5 and 6: the pass.

    def scheduling_pass(self) -> None:
        while self.queue and (units := self.place(self.queue[0], self.running)) is not None:
            self.start(self.queue[0], units)
        if not (self.easy and self.queue):
            return
        head = self.queue[0]
        planned = self.planned_start(head)
        for job in self.queue[1:]:
            units = self.place(job, self.running)
            if units is None:
                continue
            self.start(job, units)
            if self.planned_start(head) > planned:
                self.running.pop()
                self.queue = sorted([*self.queue, job], key=lambda each: self.order[each.number])

    def planned_start(self, head: SharedJob) -> int:
        """The first time at which the head fits as running jobs leave at their expected ends."""
        ends = {self.order[each.job.number]: self.expected_end(each) for each in self.running}
        for time in sorted({self.now, *ends.values()}):
            staying = [each for each in self.running if ends[self.order[each.job.number]] > time]
            if self.fits(head, staying):
                return time
        raise AssertionError("the head fits the empty machine")

    def fits(self, job: SharedJob, running: list[Running]) -> bool:
        return sum(self.suits(node, job, running) for node in range(self.machine.nodes)) >= job.nodes

    def start(self, job: SharedJob, units: set[Unit]) -> None:
        self.queue.remove(job)
        left, estimate = Fraction(job.phases_us[0]), Fraction(job.estimate_us)
        self.running.append(Running(job, units, self.now, left=left, estimate_left=estimate))
