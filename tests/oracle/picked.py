"""Episodes of picks the slow and obvious way: the truth that `PickedCluster` and the environments must equal.

Nothing is kept that could be computed anew, nothing is made fast. The rules: docs/reinforcement-learning.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oracle.reference import Job


class Episode:
    """`decision`: "next" or "fitting"; `easy`: backfill behind the picked job (EASY, first fit)."""

    def __init__(
        self, jobs: list[Job], nodes: int, *, decision: str = "next", easy: bool = False, window: int = 10**9
    ) -> None:
        self.jobs = sorted(jobs, key=lambda job: (job.submit_us, job.number))
        self.nodes, self.decision, self.easy, self.window = nodes, decision, easy, window
        self.now = -1
        self.start: dict[Job, int] = {}
        self.go_on()

    # -- what there is at this time ------------------------------------------------------------------------

    def submitted(self) -> list[Job]:
        return [job for job in self.jobs if job.submit_us <= self.now]

    def queue(self) -> list[Job]:
        return [job for job in self.submitted() if job not in self.start]

    def end(self, job: Job) -> int:
        return self.start[job] + job.run_us

    def running(self) -> list[Job]:
        return [job for job in self.start if self.end(job) > self.now]

    def free(self) -> int:
        return self.nodes - sum(job.nodes for job in self.running())

    def fits(self, job: Job) -> bool:
        return job.nodes <= self.free()

    def next_time(self) -> int | None:
        submits = [job.submit_us for job in self.jobs if job.submit_us > self.now]
        return min([*submits, *(self.end(job) for job in self.running())], default=None)

    def pickable(self) -> list[int]:
        """Places of the queue that can be picked."""
        shown = self.queue()[: self.window]
        return [k for k, job in enumerate(shown) if self.decision == "next" or self.fits(job)]

    @property
    def is_over(self) -> bool:
        return self.next_time() is None and not self.queue()

    # -- decisions -----------------------------------------------------------------------------------------

    def pick(self, place: int) -> None:
        """Start this job of the queue as soon as it fits."""
        picked = self.queue()[place]
        while not self.fits(picked):
            if self.easy:
                self.backfill(picked)
            self.step()
        self.start[picked] = self.now
        self.go_on()

    def wait(self) -> None:
        self.step()
        self.go_on()

    def step(self) -> None:
        later = self.next_time()
        assert later is not None
        self.now = later

    def go_on(self) -> None:
        """To the next decision, or to the end of all."""
        while not self.pickable() and self.next_time() is not None:
            self.step()

    def backfill(self, head: Job) -> None:
        """Rules 2 and 3 of docs/schedulers.md, with the picked job as the head."""
        expected = {job: max(self.start[job] + job.estimate_us, self.now) for job in self.running()}

        def free_at(time: int) -> int:
            return self.free() + sum(job.nodes for job, end in expected.items() if end <= time)

        shadow = min(end for end in expected.values() if free_at(end) >= head.nodes)
        spare = free_at(shadow) - head.nodes
        for job in self.queue():
            crosses = self.now + job.estimate_us > shadow
            if job != head and self.fits(job) and (not crosses or job.nodes <= spare):
                if crosses:
                    spare -= job.nodes
                self.start[job] = self.now

    # -- costs ---------------------------------------------------------------------------------------------

    def cost(self, objective: str, threshold_us: int = 10_000_000) -> float:
        """Of the submitted jobs up to now, in the mean over all jobs; waits and responses in s."""
        total = 0.0
        for job in self.submitted():
            wait = self.start.get(job, self.now) - job.submit_us
            ends = self.end(job) if job in self.start else self.now
            slowdown = max((wait + job.run_us) / max(job.run_us, threshold_us), 1)
            response = min(self.now, ends) - job.submit_us
            total += {"bounded_slowdown": slowdown, "wait": wait / 1e6, "response": response / 1e6}[objective]
        return total / len(self.jobs)
