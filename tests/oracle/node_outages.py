"""Failures, drains and maintenance the slow and obvious way, over the reference schedule.

Written from `docs/failures.md`. Which of the idle nodes a job gets is no rule: it is looked up (`given`), and checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from balancer.clock import US
from emulator.events.node_failures import Outage
from emulator.events.node_outages import NodeOutages, Window
from oracle.reference import NEVER_US, Job, Options, Profile, _Machine

if TYPE_CHECKING:
    import numpy as np


class Out(NamedTuple):
    """These nodes get no new job from `drain` on, and are down from `begin` to `end`."""

    nodes: tuple[int, ...]
    drain: int
    begin: int
    end: int
    lost: bool


@dataclass(frozen=True)
class RandomOutages:
    """The same outages for the harness and for a reference; `lost`: what failures make of jobs."""

    failures: list[Outage]
    windows: list[Window]
    lost: bool

    def on(self, nodes: int, *, lost: bool = False) -> NodeOutages:
        """`lost`: all jobs that are hit are."""
        windows = [replace(each, lost=each.lost or lost) for each in self.windows]
        return NodeOutages(nodes, iter(self.failures), lost=self.lost or lost, windows=windows)

    @property
    def outs(self) -> list[Out]:
        """Of a job that is hit twice at one time the first says what becomes of it: windows are planned first."""
        return [
            Out(each.nodes, each.drain_us, each.begin_us, each.end_us, each.lost) for each in self.windows
        ] + [
            Out((each.node,), each.begin_us, each.begin_us, each.end_us, self.lost) for each in self.failures
        ]


def random_outages(
    rng: np.random.Generator, nodes: int, longest_s: int, *, longest_drain_s: int = 20
) -> RandomOutages:
    """Up to seven failures and two windows in whole seconds, some that overlap, some for good."""
    lost = bool(rng.random() < 0.3)
    failures = []
    for _ in range(int(rng.integers(0, 8))):
        begin = int(rng.integers(0, longest_s)) * US
        end = NEVER_US if rng.random() < 0.1 else begin + int(rng.integers(1, longest_s + 1)) * US
        failures.append(Outage(begin, end, int(rng.integers(nodes))))
    failures.sort()
    windows = []
    for _ in range(int(rng.integers(0, 3))):
        begin = int(rng.integers(0, longest_s)) * US
        which = rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))]
        windows.append(
            Window(
                drain_us=max(begin - int(rng.integers(0, longest_drain_s)) * US, 0),
                begin_us=begin,
                end_us=begin + int(rng.integers(1, longest_s + 1)) * US,
                nodes=tuple(sorted(which.tolist())),
                lost=bool(rng.random() < 0.3),
            )
        )
    return RandomOutages(failures, windows, lost)


class FailingMachine(_Machine):
    """`given`: the nodes of the k-th run of each job, by (number, k)."""

    def __init__(  # noqa: PLR0917
        self,
        jobs: list[Job],
        nodes: int,
        order: str,
        backfill: str,
        options: Options,
        outs: list[Out],
        given: dict[tuple[int, int], frozenset[int]],
    ) -> None:
        super().__init__(jobs, nodes, (order, {}), backfill, options)
        self.outs = outs
        self.given = given
        self.count: dict[int, int] = {}
        self.on: dict[Job, frozenset[int]] = {}
        self.history: list[tuple[int, int, int, str]] = []  # number, start, end, how it ended

    def run(self) -> list[tuple[int, int, int, str]]:  # type: ignore[override]
        self.now = -1
        while True:
            mine = [job.submit_us for job in self.future]
            mine += [start + job.run_us for job, start in self.running.items()]
            outs = [at for out in self.outs for at in (out.drain, out.begin, out.end) if at != NEVER_US]
            back = [out.end for out in self.outs if out.drain <= self.now < out.end < NEVER_US]
            if not mine and not (self.queue and back):
                return sorted(self.history)
            self.now = min(at for at in [*mine, *outs] if at > self.now)
            self.one_instant()

    def one_instant(self) -> None:
        for job, start in list(self.running.items()):
            if start + job.run_us == self.now:
                self.leave(job, "finished")
        for out in self.outs:
            if out.begin == self.now:
                for job in [job for job in self.running if self.on[job] & set(out.nodes)]:
                    self.leave(job, "lost" if out.lost else "requeued")
                    if not out.lost:
                        self.queue.append(job)
        while self.future and self.future[0].submit_us == self.now:
            self.queue.append(self.future.pop(0))
        self.scheduling_pass()

    def leave(self, job: Job, how: str) -> None:
        self.history.append((job.number, self.running.pop(job), self.now, how))
        del self.on[job]

    def start(self, job: Job) -> None:
        super().start(job)
        k = self.count[job.number] = self.count.get(job.number, -1) + 1
        nodes = self.given[job.number, k]
        assert len(nodes) == job.nodes, f"job {job.number} got {sorted(nodes)}"
        for other, taken in self.on.items():
            assert not nodes & taken, f"jobs {job.number} and {other.number} share nodes"
        assert not nodes & self.out_now(), f"job {job.number} got nodes that are out"
        self.on[job] = nodes

    def out_now(self) -> set[int]:
        return {node for out in self.outs if out.drain <= self.now < out.end for node in out.nodes}

    def returning(self, job: Job) -> int:
        return len(self.on[job] - self.out_now())

    def free(self) -> int:
        taken = {node for nodes in self.on.values() for node in nodes}
        return self.nodes - len(taken | self.out_now())

    def reservation(self, head: Job) -> tuple[int, int]:
        ends = {job: max(start + job.estimate_us, self.now) for job, start in self.running.items()}

        def free_at(time: int) -> int:
            return self.free() + sum(self.returning(job) for job, end in ends.items() if end <= time)

        shadow = min((end for end in ends.values() if free_at(end) >= head.nodes), default=NEVER_US)
        if shadow == NEVER_US:
            return NEVER_US, 0
        return shadow, free_at(shadow) - head.nodes if self.options.spare_nodes else 0

    def start_what_is_planned_for_now(self) -> None:
        pool = self.free() + sum(self.returning(job) for job in self.running)
        profile = Profile(self.now, pool)
        for job, start in self.running.items():
            if self.returning(job):
                profile.take(self.now, max(start + job.estimate_us, self.now + 1), self.returning(job))
        for job in list(self.queue):
            if job.nodes > pool:
                continue
            planned = profile.earliest(job.nodes, job.estimate_us)
            profile.take(planned, planned + job.estimate_us, job.nodes)
            if planned == self.now:
                self.start(job)
