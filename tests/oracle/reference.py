"""Schedules the slow and obvious way: the truth that the compiled kernel must equal job by job.

Written from `docs/schedulers.md` and from nothing else; rule numbers are the numbers there. Nothing is kept
between passes that could be computed anew, nothing is made fast.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

NEVER_US = (1 << 63) - 1


class Job(NamedTuple):
    number: int
    submit_us: int
    run_us: int
    estimate_us: int
    nodes: int
    queue: int = -1
    user: int = -1
    group: int = -1


@dataclass(frozen=True)
class Options:
    choice: str = "first_fit"
    estimates: str = "user"
    pass_: str = "instant"
    reservation: str = "refreshed"
    spare_nodes: bool = True
    protect_head: bool = True
    end_at_shadow: bool = True
    head_waits: bool = False
    commit: bool = False
    exact_ends_first: bool = False
    submits_first: bool = False
    submit_pass: str = "always"
    ends_in_order_of: str = "submit"
    cycle_s: float = 0
    start_delay_s: float = 0
    priorities: dict[int, int] = field(default_factory=dict)


DEFAULT = Options()

STATIC_ORDERS = ("fcfs", "sjf", "ljf", "smallest", "largest", "priority", "f1", "f2", "f3", "f4")
ASKED_ORDERS = ("wfp3", "unicef", "multifactor")
ORDERS = (*STATIC_ORDERS, *ASKED_ORDERS)
BACKFILLS = ("none", "easy", "conservative")
CHOICES = ("first_fit", "best_fit", "shortest_first", "first_submitted")


def reference_schedule(
    jobs: list[Job],
    nodes: int,
    *,
    order: str | dict[str, Any] = "fcfs",
    backfill: str = "easy",
    options: Options = DEFAULT,
) -> dict[int, tuple[int, int]]:
    """Start and end of every job, by job number. Every job must fit the machine and run for some time."""
    name, parameters = (order, {}) if isinstance(order, str) else next(iter(order.items()))
    for job in jobs:
        if not (1 <= job.nodes <= nodes and job.run_us >= 1 and job.estimate_us >= 1):
            raise ValueError(f"{job} cannot be run on {nodes} nodes")
    return _Machine(jobs, nodes, (name, parameters), backfill, options).run()


class _Machine:
    def __init__(
        self, jobs: list[Job], nodes: int, order: tuple[str, dict[str, Any]], backfill: str, options: Options
    ) -> None:
        self.nodes = nodes
        self.order, parameters = order
        self.parameters = MULTIFACTOR | parameters if self.order == "multifactor" else parameters
        self.runs: list[tuple[Job, int]] = []  # every run so far, and its start
        self.seen: set[int] = set()  # accounts that had a job in the queue when the order was asked
        self.backfill = backfill
        self.options = options
        self.future = sorted(jobs, key=_submit_order)
        self.queue: list[Job] = []
        self.running: dict[Job, int] = {}  # job -> start
        self.schedule: dict[int, tuple[int, int]] = {}
        self.now = 0
        self.due: int | None = None  # a scheduling cycle, or the start of who was picked
        self.picked: Job | None = None
        self.committed: Job | None = None  # the head of the last pass that was blocked
        self.kept: tuple[Job, int, int] | None = None  # head, shadow, spare of the last pass that was blocked
        self.ran_then: list[Job] = []  # who ran when the last kept reservation was made, and who waited
        self.waited_then: list[Job] = []

    # -- time ----------------------------------------------------------------------------------------------

    def run(self) -> dict[int, tuple[int, int]]:
        while self.future or self.running or self.queue:
            times = [job.submit_us for job in self.future]
            times += [start + job.run_us for job, start in self.running.items()]
            times += [] if self.due is None else [self.due]
            if not times:  # a head waits for its reservation on an empty machine
                assert self.kept is not None
                assert self.options.head_waits
                times = [self.kept[1]]
            self.now = min(times)
            self.one_instant()
        return self.schedule

    def one_instant(self) -> None:
        """All ends, then all submits, by (submit, number); a pass after all or after each of them.

        Options of `pass: event`: the submits before the ends, and ends in another order.
        """
        after_each = self.options.pass_ == "event"
        ending = [job for job, start in self.running.items() if start + job.run_us == self.now]
        if self.options.exact_ends_first:
            for job in ending:
                if job.run_us == job.estimate_us:
                    del self.running[job]
        if self.options.submits_first:
            self.submits(after_each=after_each)
        while ending:
            job = min(ending, key=self.end_order)  # a pass may make a reservation, which changes it
            ending.remove(job)
            self.running.pop(job, None)
            if after_each:
                self.scheduling_pass()
        self.submits(after_each=after_each)
        if self.options.start_delay_s:
            self.start_and_pick()
        elif not after_each:
            self.at_the_cycle()

    def end_order(self, job: Job) -> tuple[int, int]:
        order, started = self.options.ends_in_order_of, list(self.schedule).index(job.number)
        if order == "submit":
            return _submit_order(job)
        if order == "expected_end" and job in self.ran_then:
            return self.schedule[job.number][0] + job.estimate_us, started
        return NEVER_US, started

    def submits(self, *, after_each: bool) -> None:
        while self.future and self.future[0].submit_us == self.now:
            self.queue.append(job := self.future.pop(0))
            fits = job.nodes <= self.free()
            if after_each and (fits or self.options.submit_pass == "always"):
                self.scheduling_pass()

    def start_and_pick(self) -> None:
        """Who was picked starts when its time has come; who would be the first to start now is picked then."""
        if self.due is not None and self.now < self.due:
            return
        if self.picked is not None:
            self.start(self.picked)
        without = copy.copy(self)
        without.queue, without.running = list(self.queue), dict(self.running)
        without.runs, without.schedule = list(self.runs), {}
        without.scheduling_pass()
        self.picked = next(
            (job for job in self.queue if job.number == next(iter(without.schedule), None)), None
        )
        self.due = None if self.picked is None else self.now + round(self.options.start_delay_s * 1e6)

    def at_the_cycle(self) -> None:
        """A pass now, or at the next multiple of the cycle."""
        cycle_us = round(self.options.cycle_s * 1e6)
        if not cycle_us or self.now % cycle_us == 0:
            self.due = None
            self.scheduling_pass()
        elif self.queue:
            self.due = (self.now // cycle_us + 1) * cycle_us

    # -- a pass --------------------------------------------------------------------------------------------

    def scheduling_pass(self) -> None:
        always = self.options.reservation == "kept" or self.options.commit
        if self.free() or always:  # else nobody can start: the order is not asked
            self.seen |= {self.account(job) for job in self.queue}
        self.queue.sort(key=self.queue_order)
        if self.options.commit and self.committed in self.queue:
            self.queue.remove(self.committed)
            self.queue.insert(0, self.committed)
        if self.backfill == "conservative":
            self.start_what_is_planned_for_now()
            return
        while self.queue and self.fits(self.queue[0]) and not self.has_to_wait(self.queue[0]):  # rule 1
            self.start(self.queue[0])
        self.committed = self.queue[0] if self.queue else None
        if self.queue and self.backfill == "easy":
            self.easy_backfill()

    def queue_order(self, job: Job) -> tuple[float, int, int]:
        first: dict[str, Any] = {
            "fcfs": lambda _: 0,
            "sjf": lambda job: job.estimate_us,
            "ljf": lambda job: -job.estimate_us,
            "smallest": lambda job: job.nodes,
            "largest": lambda job: -job.nodes,
            "priority": lambda job: -self.options.priorities.get(job.queue, 0),
            "f1": lambda job: log10(r_s(job)) * job.nodes + 870 * log10(submit_s(job)),
            "f2": lambda job: math.sqrt(r_s(job)) * job.nodes + 25_600 * log10(submit_s(job)),
            "f3": lambda job: r_s(job) * job.nodes + 6_860_000 * log10(submit_s(job)),
            "f4": lambda job: r_s(job) * math.sqrt(job.nodes) + 530_000 * log10(submit_s(job)),
            "wfp3": lambda job: -self.wfp3(job),
            "unicef": lambda job: -self.unicef(job),
            "multifactor": lambda job: -rounded(self.multifactor(job)),
        }
        return first[self.order](job), job.submit_us, job.number

    # -- priorities at this pass ---------------------------------------------------------------------------

    def wfp3(self, job: Job) -> float:
        waited = self.now - job.submit_us
        return (waited / job.estimate_us) ** self.parameters.get("exponent", 3) * job.nodes

    def unicef(self, job: Job) -> float:
        width = math.log2(job.nodes) if job.nodes > 1 else 1e-15
        return (self.now - job.submit_us) / (width * job.estimate_us)

    def multifactor(self, job: Job) -> float:
        given = self.parameters
        age = min((self.now - job.submit_us) / 1e6 / given["max_age_s"], 1)
        size = (self.nodes - job.nodes + 1 if given["favor_small"] else job.nodes) / self.nodes
        queue = given["queues"].get(job.queue, 0) / (max(given["queues"].values(), default=0) or 1)
        fair_share = 2 ** (-self.used_share(job) / self.owned_share(job) / given["damping"])
        return (
            given["age_weight"] * age
            + given["size_weight"] * size
            + given["fair_share_weight"] * fair_share
            + given["queue_weight"] * queue
        )

    def account(self, job: Job) -> int:
        return job.group if self.parameters.get("account") == "group" else job.user

    def owned_share(self, job: Job) -> float:
        def owned(account: int) -> float:
            return self.parameters["shares"].get(account, 1)

        return owned(self.account(job)) / sum(map(owned, self.seen | {self.account(job)}))

    def used_share(self, job: Job) -> float:
        used = {ran: self.used(ran, start) for ran, start in self.runs}
        total = sum(used.values())
        mine = sum(usage for ran, usage in used.items() if self.account(ran) == self.account(job))
        return mine / total if total else 0

    def used(self, job: Job, start: int) -> float:
        """The integral of nodes x 2^(-age / half-life) over the run, up to now, but for a factor all have."""
        half_life_us = self.parameters["half_life_s"] * 1e6
        end = min(start + job.run_us, self.now)
        return job.nodes * (2 ** ((end - self.now) / half_life_us) - 2 ** ((start - self.now) / half_life_us))

    def free(self) -> int:
        return self.nodes - sum(job.nodes for job in self.running)

    def fits(self, job: Job) -> bool:
        return job.nodes <= self.free()

    def has_to_wait(self, head: Job) -> bool:
        if not self.options.head_waits or self.kept is None or self.kept[0] != head:
            return False
        return self.backfill == "easy" and self.now < self.kept[1]

    def start(self, job: Job) -> None:
        self.queue.remove(job)
        self.running[job] = self.now
        self.runs.append((job, self.now))
        self.schedule[job.number] = (self.now, self.now + job.run_us)

    # -- EASY ----------------------------------------------------------------------------------------------

    def easy_backfill(self) -> None:
        head = self.queue[0]
        if not self.options.protect_head and not self.options.head_waits:
            shadow, spare = NEVER_US, 0
        elif self.options.reservation == "kept" and self.kept is not None and self.kept[0] == head:
            _, shadow, spare = self.kept
        else:
            shadow, spare = self.reservation(head)  # rule 2
            if self.options.reservation == "kept":
                self.ran_then, self.waited_then = list(self.running), list(self.queue)
        reserved = shadow
        if not self.options.protect_head:
            shadow, spare = NEVER_US, 0
        while True:
            candidates = [job for job in self.queue[1:] if self.may_start_now(job, shadow, spare)]
            if not candidates:
                break
            chosen = self.choose(candidates)
            if self.crosses(chosen, shadow):
                spare -= chosen.nodes
            self.start(chosen)
        self.kept = (head, reserved, spare)

    def reservation(self, head: Job) -> tuple[int, int]:
        """Rule 2: the shadow time, and the spare nodes then."""

        def free_at(time: int) -> int:
            return self.free() + sum(job.nodes for job, end in expected_ends.items() if end <= time)

        expected_ends = {job: max(start + job.estimate_us, self.now) for job, start in self.running.items()}
        shadow = min(end for end in expected_ends.values() if free_at(end) >= head.nodes)
        return shadow, free_at(shadow) - head.nodes if self.options.spare_nodes else 0

    def crosses(self, job: Job, shadow: int) -> bool:
        actual = self.options.estimates == "actual_for_queued"
        end = self.now + (job.run_us if actual else job.estimate_us)
        return end > shadow if self.options.end_at_shadow else end >= shadow

    def may_start_now(self, job: Job, shadow: int, spare: int) -> bool:
        """Rule 3."""
        return self.fits(job) and (not self.crosses(job, shadow) or job.nodes <= spare)

    def choose(self, candidates: list[Job]) -> Job:
        """Rule 4; `min` and `max` return the first of equals, so ties go in queue order."""
        if self.options.choice == "best_fit":
            return max(candidates, key=lambda job: job.nodes)
        if self.options.choice == "shortest_first":
            return min(candidates, key=lambda job: job.estimate_us)
        if self.options.choice == "first_submitted":
            return min(candidates, key=self.first_submitted)
        return candidates[0]

    def first_submitted(self, job: Job) -> tuple[int, bool, int]:
        came_later = job not in self.waited_then
        return job.submit_us, came_later, job.number if came_later else self.queue.index(job)

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


MULTIFACTOR: dict[str, Any] = {
    "age_weight": 1000, "size_weight": 1000, "fair_share_weight": 1000, "queue_weight": 1000, "max_age_s": 604_800,
    "favor_small": False, "half_life_s": 604_800, "damping": 1, "account": "user", "shares": {}, "queues": {},
}  # fmt: skip


def rounded(value: float) -> float:
    """To 33 binary digits, halves away from zero."""
    fraction, exponent = math.frexp(abs(value))
    size = math.ldexp(math.floor(fraction * 2**33 + 0.5), exponent - 33)
    return -size if value < 0 else size


def r_s(job: Job) -> float:
    return job.estimate_us / 1e6


def submit_s(job: Job) -> float:
    return max(job.submit_us / 1e6, 0.1)


def log10(value: float) -> float:
    """NumPy's, whose last digit may be another than that of `math`."""
    return float(np.log10(value))


def _submit_order(job: Job) -> tuple[int, int]:
    return job.submit_us, job.number
