"""Dependencies, arrays, cancellations and deadlines the slow and obvious way, over the reference schedule.

Written from `docs/job-rules.md`. At each instant everything about every job is asked anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from oracle.reference import Job, Options, _Machine

FAILED = (0, 5)


class After(NamedTuple):
    number: int
    kind: str
    delay_us: int


class Rule(NamedTuple):
    """All that is said of one job. Times count from its submit."""

    after: tuple[After, ...] = ()
    cancel_us: int | None = None
    deadline_us: int | None = None
    array: int | None = None
    limit: int | None = None
    status: int = -1


class Limit(NamedTuple):
    """Of jobs of one user (`by` is 0), group (1), queue (2) or QOS (3); `only` these numbers, or all of them."""

    by: int
    jobs: int | None = None
    nodes: int | None = None
    only: tuple[int, ...] | None = None
    node_us: int | None = None
    """Nodes times estimate."""
    submitted: int | None = None
    """Jobs that are submitted and not over, be they held or not."""
    qos: int | None = None
    """Of the jobs of this QOS alone."""


NO_RULE = Rule()


class RuledMachine(_Machine):
    """`places`: the job numbers in the order of the job table, which decides between jobs submitted at one time."""

    def __init__(  # noqa: PLR0917
        self,
        jobs: list[Job],
        nodes: int,
        order: str,
        backfill: str,
        options: Options,
        rules: dict[int, Rule],
        limits: tuple[Limit, ...] = (),
        whose: dict[int, tuple[int, ...]] | None = None,
        tiers: tuple[int, ...] = (),
    ) -> None:
        super().__init__(jobs, nodes, (order, {}), backfill, options)
        self.rules = rules
        self.limits = limits
        self.whose = whose or {}  # user, group, queue and, where there are QOS, QOS of each job
        self.tiers = tiers  # of each QOS; the jobs of a lower tier come first
        self.entered: set[int] = set()  # jobs that found room among the submitted ones
        self.jobs = {job.number: job for job in jobs}
        self.place = {job.number: place for place, job in enumerate(sorted(jobs, key=_place))}
        self.submitted: dict[int, int] = {}  # when a job with `think` came at last
        self.started: dict[int, int] = {}
        self.over: dict[int, tuple[int, bool]] = {}  # when, and whether it succeeded
        self.cancelled: dict[int, int] = {}
        self.released: set[int] = set()

    def rule(self, number: int) -> Rule:
        return self.rules.get(number, NO_RULE)

    def thinks(self, number: int) -> bool:
        return any(each.kind == "think" and each.number in self.jobs for each in self.rule(number).after)

    def waits(self, number: int) -> list[After]:
        return [each for each in self.rule(number).after if each.number in self.jobs]

    # -- time ----------------------------------------------------------------------------------------------

    def run(self) -> dict[int, Any]:  # type: ignore[override]
        while times := [time for time in self.instants() if time >= self.now]:
            self.now = min(times)
            self.one_instant()
        return {
            number: (
                self.schedule.get(number, (None, None))[0],
                self.end_of(number),
                number in self.cancelled,
            )
            for number in self.jobs
        }

    def end_of(self, number: int) -> int | None:
        return self.over[number][0] if number in self.over else None

    def instants(self) -> list[int]:
        """Every time at which something may happen that has not happened yet."""
        times = [job.submit_us for job in self.future]
        times += [start + job.run_us for job, start in self.running.items()]
        for number in self.jobs:
            if number in self.over:
                continue
            times += [time for time in (self.cancel_at(number), self.too_late_at(number)) if time is not None]
            if number not in self.released and (ready := self.ready_at(number)) is not None:
                times.append(ready)
        return [time for time in times if time > self.now or not self.begun]

    begun = False

    def one_instant(self) -> None:
        self.begun = True
        for job, start in list(self.running.items()):
            if start + job.run_us == self.now:
                del self.running[job]
                self.over[job.number] = (self.now, self.rule(job.number).status not in FAILED)
        while self.future and self.future[0].submit_us == self.now:
            self.enter(self.future.pop(0).number)
        self.settle()
        self.scheduling_pass()
        while self.starts_matter():
            self.settle()
            self.scheduling_pass()

    def enter(self, number: int) -> None:
        """A job is submitted, in the order of the table: with those that are not over by now it may be one too many.

        Who fails with a job that ended now is gone already; who is cancelled by its own time still counts.
        """
        while going := [
            n for n in sorted(self.jobs, key=self.place.__getitem__) if self.fails_with_another(n)
        ]:
            self.cancel(going[0])
        if number in self.over:
            return
        if self.is_one_too_many(number):
            self.cancel(number)
        else:
            self.entered.add(number)

    def fails_with_another(self, number: int) -> bool:
        if not self.has_come(number) or number in self.over or self.jobs[number] in self.future:
            return False
        return any(
            each.number in self.over and each.kind in ("afterok", "afternotok") and self.met_at(each) is None
            for each in self.waits(number)
        )

    def is_one_too_many(self, number: int) -> bool:
        for limit in self.limits:
            if limit.submitted is None or not self.counts(number, limit):
                continue
            value = self.whose[number][limit.by]
            there = [
                other
                for other in self.entered - self.over.keys()
                if self.counts(other, limit) and self.whose[other][limit.by] == value
            ]
            if len(there) >= limit.submitted:
                return True
        return False

    def starts_matter(self) -> bool:
        """Whether the pass has started a job for whose start somebody waited who is released or cancelled by that."""
        return any(
            (self.is_due(number) or self.is_too_wide(number))
            and any(
                each.kind == "after" and self.started.get(each.number) == self.now
                for each in self.waits(number)
            )
            for number in self.held()
        )

    def settle(self) -> None:
        """Cancel until nobody must be cancelled any more, release whoever may be, and again until nothing changes."""
        in_order = sorted(self.jobs, key=self.place.__getitem__)
        changed = True
        while changed:
            changed = False
            while going := [n for n in in_order if n not in self.over and self.must_go(n)]:
                self.cancel(going[0])
            for number in [n for n in in_order if n in self.held()]:
                if self.is_due(number):
                    self.release(number)
                    changed = True

    # -- a job ---------------------------------------------------------------------------------------------

    def has_come(self, number: int) -> bool:
        return self.jobs[number].submit_us <= self.now

    def held(self) -> list[int]:
        return [n for n in self.jobs if self.has_come(n) and n not in self.released and n not in self.over]

    def counts_from(self, number: int) -> int | None:
        return self.submitted.get(number) if self.thinks(number) else self.jobs[number].submit_us

    def cancel_at(self, number: int) -> int | None:
        begin, after = self.counts_from(number), self.rule(number).cancel_us
        return None if begin is None or after is None else begin + after

    def too_late_at(self, number: int) -> int | None:
        """The first moment at which it could not meet its deadline any more if it started."""
        begin, after = self.counts_from(number), self.rule(number).deadline_us
        if begin is None or after is None:
            return None
        return max(begin, begin + after - self.jobs[number].estimate_us + 1)

    def met_at(self, each: After) -> int | None:
        """When a dependency was met, None if it is not yet or never will be."""
        over = self.over.get(each.number)
        if each.kind == "after":
            start = self.started.get(each.number)
            return (
                start + each.delay_us
                if start is not None
                else None
                if over is None
                else over[0] + each.delay_us
            )
        if (
            over is None
            or (each.kind == "afterok" and not over[1])
            or (each.kind == "afternotok" and over[1])
        ):
            return None
        return over[0] + each.delay_us

    def ready_at(self, number: int) -> int | None:
        times = [self.met_at(each) for each in self.waits(number)]
        if any(time is None for time in times):
            return None
        return max([self.jobs[number].submit_us, *times])  # type: ignore[type-var]

    def must_go(self, number: int) -> bool:
        if not self.has_come(number):
            return False
        for each in self.waits(number):
            over = self.over.get(each.number)
            if over is not None and each.kind in ("afterok", "afternotok") and self.met_at(each) is None:
                return True
        if self.is_too_wide(number):
            return True
        cancel, late = self.cancel_at(number), self.too_late_at(number)
        is_waiting = self.jobs[number] not in self.running
        return (cancel is not None and cancel <= self.now) or (
            late is not None and late == self.now and is_waiting
        )

    def is_due(self, number: int) -> bool:
        ready = self.ready_at(number)
        if ready is None or ready > self.now:
            return False
        if not all(self.has_room(number, limit) for limit in self.limits):
            return False
        array = self.rule(number).array
        if array is None or self.limit_of(array) is None:
            return True
        mine = [
            other for other in self.released if self.rule(other).array == array and other not in self.over
        ]
        return len(mine) < self.limit_of(array)  # type: ignore[operator]

    def counts(self, number: int, limit: Limit) -> bool:
        value = self.whose[number][limit.by]
        if limit.qos is not None and self.whose[number][3] != limit.qos:
            return False
        return value >= 0 and (limit.only is None or value in limit.only)

    def has_room(self, number: int, limit: Limit) -> bool:
        if not self.counts(number, limit):
            return True
        value = self.whose[number][limit.by]
        others = [
            other
            for other in self.released
            if other not in self.over and self.counts(other, limit) and self.whose[other][limit.by] == value
        ]
        nodes = sum(self.jobs[other].nodes for other in others) + self.jobs[number].nodes
        node_us = sum(self.asked_us(other) for other in others) + self.asked_us(number)
        return (
            (limit.jobs is None or len(others) < limit.jobs)
            and (limit.nodes is None or nodes <= limit.nodes)
            and (limit.node_us is None or node_us <= limit.node_us)
        )

    def asked_us(self, number: int) -> int:
        return self.jobs[number].nodes * self.jobs[number].estimate_us

    def is_too_wide(self, number: int) -> bool:
        """It can be queued by all else, and never by a limit."""
        ready = self.ready_at(number)
        return (
            ready is not None
            and ready <= self.now
            and any(
                self.counts(number, limit)
                and (
                    limit.jobs == 0
                    or (limit.nodes is not None and self.jobs[number].nodes > limit.nodes)
                    or (limit.node_us is not None and self.asked_us(number) > limit.node_us)
                )
                for limit in self.limits
            )
        )

    def limit_of(self, array: int) -> int | None:
        limits = {rule.limit for rule in self.rules.values() if rule.array == array} - {None}
        return next(iter(limits), None)

    def cancel(self, number: int) -> None:
        job = self.jobs[number]
        self.running.pop(job, None)
        if job in self.queue:
            self.queue.remove(job)
        for waiting in [each for each in self.queue if each.number == number]:
            self.queue.remove(waiting)
        self.cancelled[number] = self.now
        self.over[number] = (self.now, False)

    def release(self, number: int) -> None:
        if self.thinks(number):
            self.submitted[number] = self.now
        self.released.add(number)
        self.queue.append(self.jobs[number])

    def start(self, job: Job) -> None:
        super().start(job)
        self.started[job.number] = self.now

    def queue_order(self, job: Job) -> tuple[Any, ...]:  # type: ignore[override]
        came = job._replace(submit_us=self.submitted.get(job.number, job.submit_us))
        first, submit_us, _ = super().queue_order(came)
        tier = self.tiers[self.whose[job.number][3]] if self.tiers else 0
        return tier, first, submit_us if self.order in ("fcfs", "priority") else 0, self.place[job.number]


def _place(job: Job) -> tuple[int, int]:
    return job.submit_us, job.number
