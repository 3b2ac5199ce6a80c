"""EASY with a head that is pinned to named nodes, the slow and obvious way: the rules of the authors' program.

Written from the rules in `docs/mechanisms/oversubscribe.md` and from nothing else. One job a core; whole seconds or
microseconds, whatever the jobs are in.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    number: int
    submit: int
    run: int
    estimate: int
    nodes: int
    cores: int
    """On each of its nodes."""


class PinnedHead:
    """`nodes` nodes of `cores` cores. `run()` says when each job starts."""

    def __init__(self, nodes: int, cores: int, jobs: list[Job]) -> None:
        self.free = dict.fromkeys(range(nodes), cores)
        self.to_come = sorted(jobs, key=lambda job: (job.submit, job.number))
        self.queue: list[Job] = []
        self.running: dict[Job, list[int]] = {}
        self.start: dict[Job, int] = {}

    def run(self) -> dict[int, int]:
        while self.to_come or self.running:
            ends = [(self.start[job] + job.run, job.submit, job.number, job) for job in self.running]
            end = min(ends)[0] if ends else None
            if end is not None and (not self.to_come or end <= self.to_come[0].submit):
                job = min(ends)[-1]
                for node in self.running.pop(job):
                    self.free[node] += job.cores
                others_end = any(self.start[other] + other.run == end for other in self.running)
                if job.run == job.estimate and others_end:
                    continue
                self.one_pass(end)
            else:
                job = self.to_come.pop(0)
                self.queue.append(job)
                self.one_pass(job.submit)
        return {job.number: start for job, start in self.start.items()}

    def one_pass(self, now: int) -> None:
        while self.queue:
            chosen = self.most_free(self.queue[0], self.free)
            if chosen is None:
                break
            self.begin(self.queue.pop(0), chosen, now)
        if len(self.queue) < 2:
            return
        head = self.queue[0]
        at, then = self.planned(head)
        pinned = self.most_free(head, then)
        assert pinned is not None
        for job in self.queue[1:]:
            crosses = now + job.estimate > at
            least = dict(self.free)
            if crosses:
                for node in pinned:
                    least[node] = min(least[node], then[node] - head.cores)
            chosen = self.most_free(job, least)
            if chosen is not None:
                self.queue.remove(job)
                self.begin(job, chosen, now)
                if crosses:
                    for node in chosen:
                        then[node] -= job.cores

    def planned(self, head: Job) -> tuple[int, dict[int, int]]:
        """The first expected end at which the head fits, with the free cores then."""
        expected = sorted({self.start[job] + job.estimate for job in self.running})
        for at in expected:
            then = dict(self.free)
            for job, nodes in self.running.items():
                if self.start[job] + job.estimate <= at:
                    for node in nodes:
                        then[node] += job.cores
            if self.most_free(head, then) is not None:
                return at, then
        raise AssertionError(f"{head} never fits")

    @staticmethod
    def most_free(job: Job, free: dict[int, int]) -> list[int] | None:
        """The nodes with the most free cores, the lower number first."""
        fitting = sorted((node for node in free if free[node] >= job.cores), key=lambda n: (-free[n], n))
        return fitting[: job.nodes] if len(fitting) >= job.nodes else None

    def begin(self, job: Job, nodes: list[int], now: int) -> None:
        self.start[job] = now
        self.running[job] = nodes
        for node in nodes:
            self.free[node] -= job.cores
