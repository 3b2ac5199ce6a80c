"""The planning scheduler the slow and obvious way: the truth that the compiled planner must equal segment by segment.

Written from `docs/mechanisms/malleable.md`. Every width and every start is tried, nodes are handed out one by one,
nothing is kept between passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from oracle.reference import Profile

if TYPE_CHECKING:
    from collections.abc import Callable

RIGID, MOLDABLE, MALLEABLE = range(3)


@dataclass(frozen=True)
class Flexible:
    """A job; `speed(n)` is the work that it does on n nodes in a microsecond."""

    number: int
    submit_us: int
    run_us: int
    estimate_us: int
    nodes: int
    kind: int
    least: int
    most: int
    speed: Callable[[int], int] = field(default=lambda n: n, compare=False)


@dataclass(frozen=True)
class Reading:
    minimum: str = "least"
    at_minimum: bool = False
    penalty_us: int = 0
    penalty_is_work: bool = False
    tick_us: int = 1


class Segment(NamedTuple):
    start_us: int
    end_us: int
    nodes: int


@dataclass
class _Run:
    """A job with nodes. `owed` and `guessed` shrink as it works; `standing_us` is time in which it will not."""

    job: Flexible
    width: int
    floor: int
    owed: int
    guessed: int
    ends_us: int
    began_us: int
    standing_us: int = 0
    expected_us: int = 0


def reference_plan(jobs: list[Flexible], nodes: int, reading: Reading) -> dict[int, list[Segment]]:
    """The segments of every job, by job number."""
    return _Planner(jobs, nodes, reading).run()


class _Planner:
    def __init__(self, jobs: list[Flexible], nodes: int, reading: Reading) -> None:
        self.nodes = nodes
        self.reading = reading
        self.future = sorted(jobs, key=lambda job: (job.submit_us, job.number))
        self.queue: list[Flexible] = []
        self.running: list[_Run] = []  # in order of start
        self.segments: dict[int, list[Segment]] = {job.number: [] for job in jobs}
        self.now = 0

    def run(self) -> dict[int, list[Segment]]:
        while self.future or self.running:
            times = [job.submit_us for job in self.future] + [run.ends_us for run in self.running]
            self.work_until(min(times))
            self.one_instant()
        return self.segments

    def work_until(self, then: int) -> None:
        for run in self.running:
            stands = min(run.standing_us, then - self.now)
            done = (then - self.now - stands) * run.job.speed(run.width)
            run.standing_us -= stands
            run.owed -= done
            run.guessed -= done
        self.now = then

    def one_instant(self) -> None:
        minimum, loose = self.reading.minimum, 0
        for run in [run for run in self.running if run.ends_us == self.now]:
            self.running.remove(run)
            self.close(run)
            if run.job.kind == MALLEABLE:
                loose += run.floor
        while self.future and self.future[0].submit_us == self.now:
            self.queue.append(self.future.pop(0))
        before = list(self.running)
        widths = {run.job.number: run.width for run in before}
        held = loose + sum(run.floor for run in self.malleable())
        if minimum == "pool_waiting_first":
            self.join(held)
        if minimum.startswith("pool") and loose:
            self.divide(held)
        self.plan()
        if minimum in ("shared", "pool") and self.malleable():
            self.join(sum(run.floor for run in self.malleable()))
        self.share(widths)
        for run in before:
            if run.width != widths[run.job.number]:
                self.close(run, widths[run.job.number])
                part = run.width if self.reading.penalty_is_work else 1
                run.standing_us += self.reading.penalty_us // part
                self.open(run)
        for run in self.running:
            if run not in before:
                self.open(run)

    def open(self, run: _Run) -> None:
        run.began_us = self.now
        run.ends_us = self.now + run.standing_us + self.length(run.job, run.owed, run.width)

    def close(self, run: _Run, width: int | None = None) -> None:
        segment = Segment(run.began_us, self.now, run.width if width is None else width)
        self.segments[run.job.number].append(segment)

    def length(self, job: Flexible, work: int, width: int) -> int:
        tick = self.reading.tick_us
        return -(-work // (job.speed(width) * tick)) * tick

    # -- the plan --------------------------------------------------------------------------------------------

    def plan(self) -> None:
        profile = Profile(self.now, self.nodes)
        for run in self.running:
            if run.job.kind == MALLEABLE:
                left = self.length(run.job, max(run.guessed, 1), run.floor)
                run.expected_us = self.now + run.standing_us + left
            profile.take(self.now, max(run.expected_us, self.now + 1), run.floor)
        for job in list(self.queue):
            end, start, width = min(self.places(job, profile))
            if start == self.now:
                if job.kind == MALLEABLE and self.reading.minimum in ("least", "pool", "pool_waiting_first"):
                    width = job.least
                    end = self.now + self.length(job, self.guess(job), width)
                self.start(job, width, end)
            profile.take(start, end, width)

    def places(self, job: Flexible, profile: Profile) -> list[tuple[int, int, int]]:
        """Every (end, start, width) at which the job could run."""
        if job.kind == RIGID:
            tick = self.reading.tick_us
            length = -(-job.estimate_us // tick) * tick
            start = profile.earliest(job.nodes, length)
            return [(start + length, start, job.nodes)]
        most = job.least if job.kind == MALLEABLE and self.reading.at_minimum else job.most
        found = []
        for width in range(job.least, most + 1):
            length = self.length(job, self.guess(job), width)
            start = profile.earliest(width, length)
            found.append((start + length, start, width))
        return found

    def guess(self, job: Flexible) -> int:
        return job.estimate_us * job.speed(job.nodes)

    def start(self, job: Flexible, width: int, end: int) -> None:
        self.queue.remove(job)
        owed = job.run_us * job.speed(job.nodes)
        run = _Run(job, width, width, owed, self.guess(job), -1, self.now, expected_us=end)
        self.running.append(run)

    def malleable(self) -> list[_Run]:
        return [run for run in self.running if run.job.kind == MALLEABLE]

    def join(self, held: int) -> None:
        for job in [job for job in self.queue if job.kind == MALLEABLE]:
            if len(self.malleable()) >= held:
                break
            self.start(job, 1, 0)
            self.divide(held)

    def divide(self, held: int) -> None:
        """One node at a time to the one that keeps the fewest; in the pools nobody keeps more than it may have."""
        runs = self.malleable()
        for run in runs:
            run.floor = 0
        for _ in range(held):
            may = [run for run in runs if run.floor < run.job.most or self.reading.minimum == "shared"]
            if may:
                min(may, key=lambda run: run.floor).floor += 1

    # -- equipartition ---------------------------------------------------------------------------------------

    def share(self, had: dict[int, int]) -> None:
        runs = self.malleable()
        for run in runs:
            run.width = run.floor
        left = self.nodes - sum(run.width for run in self.running)
        while left and any(run.width < run.job.most for run in runs):
            poorest = min(
                (run for run in runs if run.width < run.job.most),
                key=lambda run: (run.width, had.get(run.job.number) != run.width + 1),
            )
            poorest.width += 1
            left -= 1
