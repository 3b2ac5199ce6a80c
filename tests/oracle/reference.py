"""Schedules the slow and obvious way: the truth that the compiled kernel must equal job by job.

Written from `docs/schedulers.md` and from nothing else; rule numbers are the numbers there. Nothing is kept
between passes that could be computed anew, nothing is made fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

NEVER_US = (1 << 63) - 1


class Job(NamedTuple):
    number: int
    submit_us: int
    run_us: int
    estimate_us: int
    nodes: int
    queue: int = -1


@dataclass(frozen=True)
class Options:
    choice: str = "first_fit"
    estimates: str = "user"
    pass_: str = "instant"
    reservation: str = "refreshed"
    spare_nodes: bool = True
    protect_head: bool = True
    priorities: dict[int, int] = field(default_factory=dict)


DEFAULT = Options()

ORDERS = ("fcfs", "sjf", "ljf", "smallest", "largest", "priority")
BACKFILLS = ("none", "easy", "conservative")
CHOICES = ("first_fit", "best_fit", "shortest_first")


def reference_schedule(
    jobs: list[Job], nodes: int, *, order: str = "fcfs", backfill: str = "easy", options: Options = DEFAULT
) -> dict[int, tuple[int, int]]:
    """Start and end of every job, by job number. Every job must fit the machine and run for some time."""
    for job in jobs:
        if not (1 <= job.nodes <= nodes and job.run_us >= 1 and job.estimate_us >= 1):
            raise ValueError(f"{job} cannot be run on {nodes} nodes")
    return _Machine(jobs, nodes, order, backfill, options).run()


class _Machine:
    def __init__(self, jobs: list[Job], nodes: int, order: str, backfill: str, options: Options) -> None:
        self.nodes = nodes
        self.order = order
        self.backfill = backfill
        self.options = options
        self.future = sorted(jobs, key=_submit_order)
        self.queue: list[Job] = []
        self.running: dict[Job, int] = {}  # job -> start
        self.schedule: dict[int, tuple[int, int]] = {}
        self.now = 0
        self.kept: tuple[Job, int, int] | None = None  # head, shadow, spare of the last pass that was blocked

    # -- time ----------------------------------------------------------------------------------------------

    def run(self) -> dict[int, tuple[int, int]]:
        while self.future or self.running:
            times = [job.submit_us for job in self.future]
            times += [start + job.run_us for job, start in self.running.items()]
            self.now = min(times)
            self.one_instant()
        return self.schedule

    def one_instant(self) -> None:
        """All ends, then all submits, by (submit, number); a pass after all or after each of them."""
        after_each = self.options.pass_ == "event"
        ending = [job for job, start in self.running.items() if start + job.run_us == self.now]
        for job in sorted(ending, key=_submit_order):
            del self.running[job]
            if after_each:
                self.scheduling_pass()
        while self.future and self.future[0].submit_us == self.now:
            self.queue.append(self.future.pop(0))
            if after_each:
                self.scheduling_pass()
        if not after_each:
            self.scheduling_pass()

    # -- a pass --------------------------------------------------------------------------------------------

    def scheduling_pass(self) -> None:
        self.queue.sort(key=self.queue_order)
        if self.backfill == "conservative":
            self.start_what_is_planned_for_now()
            return
        while self.queue and self.fits(self.queue[0]):  # rule 1
            self.start(self.queue[0])
        if self.queue and self.backfill == "easy":
            self.easy_backfill()

    def queue_order(self, job: Job) -> tuple[int, int, int]:
        first = {
            "fcfs": 0,
            "sjf": job.estimate_us,
            "ljf": -job.estimate_us,
            "smallest": job.nodes,
            "largest": -job.nodes,
            "priority": -self.options.priorities.get(job.queue, 0),
        }[self.order]
        return first, job.submit_us, job.number

    def free(self) -> int:
        return self.nodes - sum(job.nodes for job in self.running)

    def fits(self, job: Job) -> bool:
        return job.nodes <= self.free()

    def start(self, job: Job) -> None:
        self.queue.remove(job)
        self.running[job] = self.now
        self.schedule[job.number] = (self.now, self.now + job.run_us)

    # -- EASY ----------------------------------------------------------------------------------------------

    def easy_backfill(self) -> None:
        head = self.queue[0]
        if not self.options.protect_head:
            shadow, spare = NEVER_US, 0
        elif self.options.reservation == "kept" and self.kept is not None and self.kept[0] == head:
            _, shadow, spare = self.kept
        else:
            shadow, spare = self.reservation(head)  # rule 2
        while True:
            candidates = [job for job in self.queue[1:] if self.may_start_now(job, shadow, spare)]
            if not candidates:
                break
            chosen = self.choose(candidates)
            if self.crosses(chosen, shadow):
                spare -= chosen.nodes
            self.start(chosen)
        self.kept = (head, shadow, spare)

    def reservation(self, head: Job) -> tuple[int, int]:
        """Rule 2: the shadow time, and the spare nodes then."""

        def free_at(time: int) -> int:
            return self.free() + sum(job.nodes for job, end in expected_ends.items() if end <= time)

        expected_ends = {job: max(start + job.estimate_us, self.now) for job, start in self.running.items()}
        shadow = min(end for end in expected_ends.values() if free_at(end) >= head.nodes)
        return shadow, free_at(shadow) - head.nodes if self.options.spare_nodes else 0

    def crosses(self, job: Job, shadow: int) -> bool:
        actual = self.options.estimates == "actual_for_queued"
        return self.now + (job.run_us if actual else job.estimate_us) > shadow

    def may_start_now(self, job: Job, shadow: int, spare: int) -> bool:
        """Rule 3."""
        return self.fits(job) and (not self.crosses(job, shadow) or job.nodes <= spare)

    def choose(self, candidates: list[Job]) -> Job:
        """Rule 4; `min` and `max` return the first of equals, so ties go in queue order."""
        if self.options.choice == "best_fit":
            return max(candidates, key=lambda job: job.nodes)
        if self.options.choice == "shortest_first":
            return min(candidates, key=lambda job: job.estimate_us)
        return candidates[0]

    # -- conservative --------------------------------------------------------------------------------------

    def start_what_is_planned_for_now(self) -> None:
        profile = Profile(self.now, self.nodes)
        for job, start in self.running.items():
            profile.take(self.now, max(start + job.estimate_us, self.now + 1), job.nodes)
        for job in list(self.queue):
            planned = profile.earliest(job.nodes, job.estimate_us)
            profile.take(planned, planned + job.estimate_us, job.nodes)
            if planned == self.now:
                self.start(job)


class Profile:
    """How many nodes are free from each time on: `steps` are (time, free), the last one lasts for ever."""

    def __init__(self, now: int, nodes: int) -> None:
        self.steps = [(now, nodes)]

    def take(self, start: int, end: int, nodes: int) -> None:
        """`nodes` fewer are free from `start` to `end`."""
        self.cut(start)
        self.cut(end)
        self.steps = [(time, free - nodes if start <= time < end else free) for time, free in self.steps]

    def cut(self, at: int) -> None:
        """Make a step begin at this time."""
        if at not in [time for time, _ in self.steps]:
            free_then = [free for time, free in self.steps if time < at][-1]
            self.steps = sorted([*self.steps, (at, free_then)])

    def earliest(self, nodes: int, duration: int) -> int:
        """The first time from which `nodes` are free for `duration`: now, or one at which nodes come free."""
        start = None
        for time, free in self.steps:
            if start is not None and time >= start + duration:
                break
            if free < nodes:
                start = None
            elif start is None:
                start = time
        assert start is not None, "in the last step every running and planned job has ended"
        return start


def _submit_order(job: Job) -> tuple[int, int]:
    return job.submit_us, job.number
