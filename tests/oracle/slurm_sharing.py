"""Jobs that share nodes under Slurm (`select/cons_tres`), slowly: every look goes over all nodes and running jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import ge
from typing import TYPE_CHECKING

from balancer.clock import US
from oracle.slurm import SlurmReference, best_fit
from oracle.slurm_site import NEVER

if TYPE_CHECKING:
    from oracle.reference import Job
    from oracle.slurm_site import Running

Size = tuple[int, int, int]
"""Cores, memory and GPUs."""


@dataclass
class SharingReference(SlurmReference):
    """`node_has`, `weights`: of each node. `wants`: of each of its nodes, by the number of the job."""

    node_has: list[Size] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    wants: dict[int, Size] = field(default_factory=dict)

    def width(self, job: Job) -> int:
        """Cores."""
        return job.nodes * self.wants[job.number][0]

    def size(self, job: Job) -> float:
        """Half by nodes, half by cores."""
        of_cores = self.width(job) / sum(cores for cores, _, _ in self.node_has)
        return (super().size(job) + of_cores) / 2

    def room(self, node: int, running: dict[Job, Running]) -> Size:
        """Cores, memory and GPUs that these jobs leave of a node."""
        cores, memory, gpus = self.node_has[node]
        for job, run in running.items():
            if node in run.nodes:
                cores -= self.wants[job.number][0]
                memory -= self.wants[job.number][1]
                gpus -= self.wants[job.number][2]
        return cores, memory, gpus

    def with_room(self, job: Job, nodes: set[int], running: dict[Job, Running]) -> set[int]:
        found = {node: self.room(node, running) for node in nodes - self.out}
        return {node for node, has in found.items() if all(map(ge, has, self.wants[job.number]))}

    def choose(self, job: Job, nodes: set[int], running: dict[Job, Running]) -> frozenset[int]:
        """Of the least weights."""
        chosen: set[int] = set()
        for weight in sorted({self.weights[node] for node in nodes}):
            alike = {node for node in nodes if self.weights[node] == weight}
            count = min(len(alike), job.nodes - len(chosen))
            if count:
                chosen |= self.choose_alike(job, alike, count, running)
        return frozenset(chosen)

    def choose_alike(
        self, job: Job, nodes: set[int], count: int, running: dict[Job, Running]
    ) -> frozenset[int]:
        """By free cores on 22.05; as nodes that are all alike for who wants GPUs, and on 24.11 and later."""
        if job.nodes == 1 and self.rules.release == "26.05":
            return frozenset({min(nodes)})
        alike = self.rules.release != "22.05" or self.wants[job.number][2] > 0
        return best_fit({node: 1 if alike else self.room(node, running)[0] for node in nodes}, count)

    def at_once(self, job: Job, left: dict[Job, Running], now: int, tried: int) -> list[dict[Job, Running]]:
        """Who is still there in each look of a try before others come to their ends."""
        return [left]

    def first_begin(
        self, job: Job, allowed: set[int], now: int, tried: int, until: float
    ) -> tuple[int, frozenset[int]] | None:
        """When enough of these nodes have room for the job, and the job's: what runs goes by its end, some at a time.

        Those that end by half a minute after the first end, which is put up to a whole half minute, then by a minute,
        two, ... After one that has none of the nodes comes the next in any case. Since 24.11 who ends before `tried` is
        gone already, and who ends after `until` stays. Since 26.05 the job can start when the last one has left its own
        nodes, else when the last one has left any.
        """

        ends = {other: max(run.limit_end, now + US) for other, run in self.running.items()}
        left = dict(self.running)
        if self.rules.since_24_11:
            left = {other: run for other, run in left.items() if tried <= ends[other]}
        for running in self.at_once(job, left, now, tried):
            if len(free := self.with_room(job, allowed, running)) >= job.nodes:
                return now, self.choose(job, free, running)
            left = running
        last = until if self.rules.since_24_11 else NEVER
        coming = sorted(left, key=lambda other: (ends[other], other.submit_us, other.number))
        return self.begin_by_ends(
            job, allowed, left, {each: ends[each] for each in coming if ends[each] <= last}
        )

    def begin_by_ends(
        self, job: Job, allowed: set[int], left: dict[Job, Running], ends: dict[Job, int]
    ) -> tuple[int, frozenset[int]] | None:
        """The same as those go whose `ends` these are, in their order."""
        coming = list(ends)
        mine = [other for other in coming if self.running[other].nodes & allowed]
        if not mine:
            return None
        first_end, window = (ends[mine[0]] // (30 * US) + 1) * 30 * US, 30 * US
        gone: list[Job] = []
        for place, other in enumerate(coming):
            if other not in mine:
                continue
            gone.append(other)
            left = {each: run for each, run in left.items() if each != other}
            after = coming[place + 1 :]
            if after and whole_seconds(ends[after[0]]) <= first_end + window and set(after) & set(mine):
                continue
            if len(free := self.with_room(job, allowed, left)) >= job.nodes:
                chosen = self.choose(job, free, left)
                if self.rules.release == "26.05":
                    gone = [each for each in gone if self.running[each].nodes & chosen] or gone
                return ends[gone[-1]], chosen
            window *= 2
            while after and whole_seconds(ends[after[0]]) > first_end + window:
                window *= 2
        return None


def whole_seconds(time_us: int) -> int:
    """The whole second that a time is in."""
    return time_us // US * US
