"""Jobs of several sizes, the slow and obvious way, over the reference schedule.

Written from `docs/moldable.md`; rule numbers are the numbers there. A plan is made anew from all that runs and all that
is kept whenever somebody asks.
"""

from __future__ import annotations

from typing import NamedTuple

from oracle.reference import Job, Options, Profile, _Machine


class Size(NamedTuple):
    nodes: int
    run_us: int
    estimate_us: int


class Place(NamedTuple):
    start: int
    size: Size

    @property
    def end(self) -> int:
        return self.start + self.size.estimate_us


class MoldableMachine(_Machine):
    """`sizes` by job number. Afterwards `got` has the size of each job, `promised` the first planned end of a head."""

    def __init__(  # noqa: PLR0917
        self,
        jobs: list[Job],
        sizes: dict[int, list[Size]],
        nodes: int,
        order: str,
        backfill: str,
        choose: str,
        options: Options,
    ) -> None:
        super().__init__(jobs, nodes, (order, {}), backfill, options)
        self.sizes = {job.number: sizes.get(job.number) or [Size(*job[4:5], *job[2:4])] for job in jobs}
        self.choose_rule = choose
        self.got: dict[int, Size] = {}
        self.promised: dict[int, int] = {}
        self.asked = {job.number: job for job in jobs}

    # -- plans (rules 2 and 3) -------------------------------------------------------------------------------

    def plan(self) -> Profile:
        """What is free from now on, if nobody else starts."""
        profile = Profile(self.now, self.nodes)
        for job, start in self.running.items():
            profile.take(self.now, max(start + job.estimate_us, self.now + 1), job.nodes)
        return profile

    def places(self, job: Job, plan: Profile) -> list[Place]:
        return [Place(plan.earliest(size.nodes, size.estimate_us), size) for size in self.sizes[job.number]]

    def earliest_end(self, job: Job, plan: Profile) -> Place:
        return min(self.places(job, plan), key=lambda place: (place.end, place.start, place.size.nodes))

    def place(self, job: Job, plan: Profile) -> Place:
        if self.choose_rule == "widest_now":
            now = [each for each in self.places(job, plan) if each.start == self.now]
            if now:
                return max(now, key=lambda place: place.size.nodes)
        return self.earliest_end(job, plan)

    def keep(self, plan: Profile, place: Place) -> None:
        plan.take(place.start, place.end, place.size.nodes)

    def start_at(self, job: Job, size: Size) -> None:
        """The job that runs is as wide and as long as its size."""
        self.queue.remove(job)
        run = job._replace(nodes=size.nodes, run_us=size.run_us, estimate_us=size.estimate_us)
        self.running[run] = self.now
        self.runs.append((run, self.now))
        self.schedule[job.number] = (self.now, self.now + size.run_us)
        self.got[job.number] = size

    # -- a pass ----------------------------------------------------------------------------------------------

    def scheduling_pass(self) -> None:
        if self.free() or self.choose_rule == "at_submit":  # else nobody can start: the order is not asked
            self.seen |= {self.account(job) for job in self.queue}
        self.queue.sort(key=self.queue_order)
        if self.choose_rule == "at_submit":
            self.fix_sizes()
        if self.backfill == "conservative":
            plan = self.plan()
            for job in list(self.queue):
                place = self.place(job, plan)
                self.keep(plan, place)
                if place.start == self.now:
                    self.start_at(job, place.size)
            return
        while self.queue:
            head = self.queue[0]
            place = self.place(head, self.plan())
            if place.start > self.now:
                break
            self.start_at(head, place.size)
        if self.queue and self.backfill == "easy":
            self.promised.setdefault(head.number, place.end)
            for job in self.queue[1:]:
                plan = self.plan()
                self.keep(plan, place)
                other = self.place(job, plan)
                if other.start == self.now:
                    self.start_at(job, other.size)

    def fix_sizes(self) -> None:
        """Rule 5: whoever was submitted since the last pass."""
        if all(len(self.sizes[job.number]) == 1 for job in self.queue):
            return
        plan = self.plan()
        for job in self.queue:
            place = self.earliest_end(job, plan)
            self.sizes[job.number] = [place.size]
            self.keep(plan, place)
