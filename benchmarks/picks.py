"""Decisions a second: this environment beside RLScheduler's method in plain Python, on the same picks, in one run.

    python benchmarks/picks.py [--log FILE] [--episodes N] [--rounds N] [--backfill none|easy]

`plain` is the method of Zhang et al. (SC'20, section IV) written down plainly, in the objects that such environments
are made of: a list of waiting jobs, a sorted list of running ones, an observation of so many jobs built at every step.
Both take the same random picks of the same windows by turns, and must start every job at the same time.
"""

from __future__ import annotations

import argparse
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from speed_rows import print_rows, row
from workloads import TRACES

from emulator.rl import PickEnv, PickVectorEnv

if TYPE_CHECKING:
    from emulator.workload.table import JobTable

WINDOW, JOBS, MANY = 128, 256, 64
MONTH = math.log1p(30 * 86_400)


@dataclass(slots=True, eq=False)
class PlainJob:
    submit: int
    run: int
    estimate: int
    nodes: int
    start: int = -1
    taken: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + self.run

    @property
    def expected_end(self) -> int:
        return self.start + self.estimate


class PlainEnv:
    """One window of jobs; `step` picks, as the method's does."""

    def __init__(self, table: JobTable, nodes: int, *, easy: bool) -> None:
        columns = (table.submit_us, table.run_us, table.estimate_us, table.nodes)
        rows = zip(*(each.tolist() for each in columns), strict=True)
        self.jobs = [PlainJob(*row) for row in rows]
        self.nodes, self.easy = nodes, easy
        self.idle = list(range(nodes))
        self.queue: list[PlainJob] = []
        self.running: list[PlainJob] = []
        self.now = 0
        self.next = 0

    def reset(self) -> tuple[Any, Any]:
        self.until_one_waits()
        return self.observe()

    def step(self, action: int) -> tuple[Any, Any, float, bool]:
        picked = self.queue[action]
        while picked.nodes > len(self.idle):
            if self.easy:
                self.backfill(picked)
            self.next_event()
        self.start(picked)
        is_over = not self.until_one_waits()
        if is_over:
            while self.running:
                self.next_event()
        return *self.observe(), self.reward() if is_over else 0.0, is_over

    def until_one_waits(self) -> bool:
        while not self.queue and self.next < len(self.jobs):
            self.next_event()
        return bool(self.queue)

    def next_event(self) -> None:
        times = [self.running[0].end] if self.running else []
        if self.next < len(self.jobs):
            times.append(self.jobs[self.next].submit)
        self.now = min(times)
        while self.running and self.running[0].end == self.now:
            self.idle += self.running.pop(0).taken
        while self.next < len(self.jobs) and self.jobs[self.next].submit == self.now:
            self.queue.append(self.jobs[self.next])
            self.next += 1

    def start(self, job: PlainJob) -> None:
        job.start = self.now
        job.taken = [self.idle.pop() for _ in range(job.nodes)]
        self.queue.remove(job)
        self.running.append(job)
        self.running.sort(key=lambda job: job.end)

    def backfill(self, head: PlainJob) -> None:
        free = len(self.idle)
        shadow = self.now
        by_end = sorted(self.running, key=lambda job: max(job.expected_end, self.now))
        for job in by_end:
            end = max(job.expected_end, self.now)
            if free >= head.nodes and end > shadow:
                break
            free, shadow = free + job.nodes, end
        spare = free - head.nodes
        for job in list(self.queue):
            crosses = self.now + job.estimate > shadow
            if job is not head and job.nodes <= len(self.idle) and (not crosses or job.nodes <= spare):
                spare -= job.nodes if crosses else 0
                self.start(job)

    def observe(self) -> tuple[Any, Any]:
        """A row for each place of the window, those without a job too, put together place by place."""
        rows = [self.features(job) for job in self.queue[:WINDOW]]
        rows += [[0.0] * 7 for _ in range(WINDOW - len(rows))]
        seen = np.zeros((WINDOW, 7), np.float32)
        mask = np.zeros(WINDOW, np.int8)
        for k, features in enumerate(rows):
            seen[k] = features
            mask[k] = k < len(self.queue)
        return seen, mask

    def features(self, job: PlainJob) -> list[float]:
        wait, estimate = (self.now - job.submit) / 1e6, job.estimate / 1e6
        return [
            1.0,
            wait / (wait + 3600),
            wait / (wait + estimate),
            min(math.log1p(estimate) / MONTH, 1.0),
            job.nodes / self.nodes,
            math.log1p(job.nodes) / math.log1p(self.nodes),
            float(job.nodes <= len(self.idle)),
        ]

    def reward(self) -> float:
        slowdowns = [max((job.end - job.submit) / max(job.run, 10**7), 1.0) for job in self.jobs]
        return -sum(slowdowns) / len(slowdowns)


def places(seed: int) -> list[float]:
    """Picks as parts of the queue, the same for everybody."""
    found: list[float] = np.random.default_rng(seed).random(JOBS).tolist()
    return found


def plain_episodes(env: PickEnv, firsts: list[int], *, easy: bool) -> tuple[float, int, list[Any]]:
    """Processor time, decisions, and the starts of each episode."""
    starts, decisions, used = [], 0, 0.0
    for first in firsts:
        picks = places(first)
        began = process_time()
        plain = PlainEnv(env.log.episode(first)[0], env.log.nodes, easy=easy)
        plain.reset()
        is_over, number = False, 0
        while not is_over:
            *_, is_over = plain.step(int(picks[number] * min(len(plain.queue), WINDOW)))
            number += 1
        used += process_time() - began
        decisions += number
        starts.append([job.start for job in plain.jobs])
    return used, decisions, starts


def our_episodes(env: PickEnv, firsts: list[int]) -> tuple[float, int, list[Any]]:
    """The same by `PickEnv`."""
    starts, decisions, used = [], 0, 0.0
    for first in firsts:
        picks = places(first)
        began = process_time()
        _, info = env.reset(options={"first": first})
        is_over, number = False, 0
        while not is_over:
            waiting = int(np.count_nonzero(info["action_mask"]))
            _, _, is_over, _, info = env.step(int(picks[number] * waiting))
            number += 1
        used += process_time() - began
        decisions += number
        starts.append(env.cluster.start_us.tolist())
    return used, decisions, starts


def many_steps(many: PickVectorEnv, steps: int) -> float:
    """Processor time of so many steps of MANY clusters, each picking at random."""
    seen, infos = many.reset(seed=1)
    picks = np.random.default_rng(1).random((steps, MANY))
    began = process_time()
    for shares in picks:
        waiting = np.maximum(infos["action_mask"].sum(axis=1), 1)
        seen, *_, infos = many.step((shares * waiting).astype(np.int64))
    assert seen
    return process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--log", type=Path, default=TRACES / "SDSC-SP2-1998-4.2-cln.swf.xz")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backfill", choices=("none", "easy"), default="none")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    options: dict[str, Any] = {"jobs": JOBS, "window": WINDOW, "backfill": given.backfill, "overrun": "kill"}
    env = PickEnv(given.log, **options)
    many = PickVectorEnv(given.log, num_envs=MANY, **options)
    rng = np.random.default_rng(1)
    firsts = [env.log.draw(rng) for _ in range(given.episodes)]
    our_episodes(env, firsts[:1])  # compiles
    many_steps(many, JOBS + 1)
    rates: dict[str, list[float]] = {"plain": [], "ours": [], "many": []}
    for _ in range(given.rounds):
        plain_s, decisions, expected = plain_episodes(env, firsts, easy=given.backfill == "easy")
        our_s, same, starts = our_episodes(env, firsts)
        assert (same, starts) == (decisions, expected), "the two made different schedules"
        rates["plain"].append(decisions / plain_s)
        rates["ours"].append(decisions / our_s)
        rates["many"].append(600 * MANY / many_steps(many, 600))
    ratios = [ours / plain for ours, plain in zip(rates["ours"], rates["plain"], strict=True)]
    found: dict[str, float] = {name: round(statistics.median(values)) for name, values in rates.items()}
    found["ratio"] = round(statistics.median(ratios), 1)
    if given.json:
        print_rows(
            [
                row("plain Python", {"decisions_per_s": found["plain"]}),
                row("PickEnv", {"decisions_per_s": found["ours"], "ratio_to_plain": found["ratio"]}),
                row(f"PickVectorEnv, {MANY} clusters", {"decisions_per_s": found["many"]}),
            ]
        )
        return
    print(f"plain Python   {found['plain']:>10,} decisions/s")
    print(f"PickEnv        {found['ours']:>10,} decisions/s, {found['ratio']} times as many")
    print(f"PickVectorEnv  {found['many']:>10,} decisions/s, {MANY} clusters")


if __name__ == "__main__":
    main()
