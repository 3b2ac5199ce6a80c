"""Reservations, partitions and features the slow and obvious way, over the reference schedule.

Written from `docs/placement.md`; rule numbers are the numbers there. Nodes that no rule tells apart are counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from oracle.reference import NEVER_US, Job, Options, Profile, _Machine

NodeClass = tuple[bool, ...]


class Hold(NamedTuple):
    """A reservation: these nodes from `begin` to `end`, for `users` and `jobs`."""

    name: str
    begin: int
    end: int
    nodes: frozenset[int]
    users: frozenset[int] = frozenset()
    jobs: frozenset[int] = frozenset()


class Part(NamedTuple):
    """A partition: the jobs of `queues` may have `nodes`."""

    name: str
    nodes: frozenset[int]
    queues: frozenset[int]
    tier: int = 0


class Having(NamedTuple):
    """A feature: these nodes have it, these jobs ask for it."""

    nodes: frozenset[int]
    jobs: frozenset[int]


class PlacedMachine(_Machine):
    """`parts` have all queues between them; without any all jobs may have all nodes."""

    def __init__(  # noqa: PLR0917
        self,
        jobs: list[Job],
        nodes: int,
        order: str,
        backfill: str,
        options: Options,
        holds: list[Hold],
        parts: list[Part],
        features: list[Having],
    ) -> None:
        super().__init__(jobs, nodes, (order, {}), backfill, options)
        self.holds = sorted(holds)
        self.parts = parts or [Part("all", frozenset(range(nodes)), frozenset())]
        self.features = features
        self.kinds = list({part.nodes for part in self.parts} | {self.may_have(job) for job in jobs})
        self.class_of = {
            node: tuple(node in each for each in [*self.kinds, *(hold.nodes for hold in self.holds)])
            for node in range(nodes)
        }
        self.size = Counter(self.class_of.values())
        self.first = {kind: min(n for n in range(nodes) if self.class_of[n] == kind) for kind in self.size}
        self.on: dict[Job, Counter[NodeClass]] = {}
        self.got: dict[int, Counter[NodeClass]] = {}
        self.lent_to = {job: self.hold_of(job) for job in jobs}

    # -- who asks for what (rules 1 to 3) --------------------------------------------------------------------

    def part_of(self, job: Job) -> Part:
        return next((part for part in self.parts if job.queue in part.queues), self.parts[0])

    def may_have(self, job: Job) -> frozenset[int]:
        asked = [each.nodes for each in self.features if job.number in each.jobs]
        return self.part_of(job).nodes.intersection(*asked)

    def hold_of(self, job: Job) -> Hold | None:
        named = [hold for hold in self.holds if job.number in hold.jobs]
        mine = [hold for hold in self.holds if job.user in hold.users and self.has_room(hold, job)]
        mine.sort(key=lambda hold: hold.begin)
        return (named + mine)[0] if named + mine else None

    def has_room(self, hold: Hold, job: Job) -> bool:
        begin = max(job.submit_us, hold.begin)
        return job.nodes <= len(hold.nodes & self.may_have(job)) and begin + job.estimate_us <= hold.end

    def own(self, job: Job) -> Hold | None:
        """The reservation that it waits for or runs in now."""
        hold = self.lent_to[job]
        if hold is None or max(self.now, hold.begin) + job.estimate_us > hold.end:
            return None
        return hold

    def line(self, job: Job) -> str:
        own = self.own(job)
        return f"part {self.part_of(job).name}" if own is None else f"hold {own.name}"

    # -- time ------------------------------------------------------------------------------------------------

    def run(self) -> dict[int, tuple[int, int]]:
        self.now = -1
        while self.future or self.running or self.queue:
            times = [job.submit_us for job in self.future]
            times += [start + job.run_us for job, start in self.running.items()]
            times += [] if self.due is None else [self.due]
            times += [at for hold in self.holds for at in (hold.begin, hold.end) if at > self.now]
            self.now = min(times)
            self.one_instant()
        return self.schedule

    # -- a pass ----------------------------------------------------------------------------------------------

    def scheduling_pass(self) -> None:
        self.queue.sort(key=self.queue_order)
        self.queue.sort(key=lambda job: -self.part_of(job).tier)  # rule 4
        self.profiles = {kind: Profile(self.now, size) for kind, size in self.size.items()}
        for job, start in self.running.items():
            for kind, count in self.on[job].items():
                self.profiles[kind].take(self.now, max(start + job.estimate_us, self.now + 1), count)
        heads: set[str] = set()
        self.shut: set[NodeClass] = set()
        for job in list(self.queue):
            own = self.own(job)
            if own is not None and self.now < own.begin:
                continue  # rule 3
            is_head = self.line(job) not in heads
            if self.backfill == "none" and not is_head:
                continue
            if self.fits_at(job, self.now):
                self.plan(job, self.now)
                self.start(job)
                continue
            if self.backfill == "none":
                self.shut |= {kind for kind in self.size if self.may_use(job, kind, self.now, self.now + 1)}
            elif self.backfill == "conservative" or is_head:
                later = [at for at in self.candidates() if self.fits_at(job, at)]
                if later:
                    self.plan(job, later[0])
            heads.add(self.line(job))

    def candidates(self) -> list[int]:
        steps = {time for profile in self.profiles.values() for time, _ in profile.steps}
        return sorted(at for at in steps | {hold.end for hold in self.holds} if self.now < at < NEVER_US)

    def may_use(self, job: Job, kind: NodeClass, begin: int, end: int) -> bool:
        """Rule 2."""
        is_in = dict(zip(self.holds, kind[len(self.kinds) :], strict=True))
        own = self.own(job)
        if not kind[self.kinds.index(self.may_have(job))] or kind in self.shut:
            return False
        if own is not None:
            return is_in[own] and end <= own.end
        return not any(is_in[hold] and hold.begin < end and begin < hold.end for hold in self.holds)

    def room(self, job: Job, begin: int) -> Counter[NodeClass]:
        """How many nodes of each class the job could have from then on."""
        end = begin + job.estimate_us
        return Counter(
            {
                kind: least(profile, begin, end)
                for kind, profile in self.profiles.items()
                if self.may_use(job, kind, begin, end)
            }
        )

    def fits_at(self, job: Job, begin: int) -> bool:
        return self.room(job, begin).total() >= job.nodes

    def plan(self, job: Job, begin: int) -> None:
        """Rule 6: first nodes that are not free from now on for ever, then others; class by class."""
        room = self.room(job, begin)
        order = sorted(room, key=lambda kind: self.class_order(kind, begin))
        taken: Counter[NodeClass] = Counter()
        for kind in order:
            tight = room[kind] - min(room[kind], least(self.profiles[kind], self.now, NEVER_US))
            taken[kind] += min(tight, job.nodes - taken.total())
        for kind in order:
            taken[kind] += min(room[kind] - taken[kind], job.nodes - taken.total())
        for kind, count in taken.items():
            self.profiles[kind].take(begin, begin + job.estimate_us, count)
        self.last_plan = taken

    def class_order(self, kind: NodeClass, begin: int) -> Any:
        holds = [hold for hold, is_in in zip(self.holds, kind[len(self.kinds) :], strict=True) if is_in]
        soonest = min((hold.begin for hold in holds if hold.begin > begin), default=NEVER_US)
        return soonest, sum(kind[: len(self.kinds)]), self.first[kind]

    def start(self, job: Job) -> None:
        super().start(job)
        self.on[job] = self.got[job.number] = +self.last_plan


def least(profile: Profile, begin: int, end: int) -> int:
    """The fewest nodes that are free at any time of [begin, end)."""
    at_begin = [free for time, free in profile.steps if time <= begin][-1]
    return min([at_begin, *(free for time, free in profile.steps if begin < time < end)])
