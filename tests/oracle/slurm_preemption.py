"""Preemption by the tiers of partitions or by QOS (`docs/slurm-twin.md`), slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.clock import US
from oracle.slurm import HELD_BACK_S, SlurmReference, whole

if TYPE_CHECKING:
    from emulator.schedulers.slurm.qos import Qos
    from emulator.schedulers.slurm.rules import Partition
    from oracle.reference import Job
    from oracle.slurm_site import Running


class PreemptingReference(SlurmReference):
    """The reference where jobs take the nodes of others."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cleaned: dict[int, int] = {}
        """When nodes are free that somebody had to leave."""
        self.preempted: dict[Job, int] = {}
        """When a job last made others leave."""
        self.in_grace: set[Job] = set()
        self.runs_again: set[Job] = set()
        """Who was in grace, and has to run again when it has come to its end."""

    def tier(self, job: Job) -> int:
        return self.partitions[self.partition(job)].priority_tier

    @property
    def is_by_qos(self) -> bool:
        return self.rules.preempt_type == "qos"

    def place(self, job: Job) -> tuple[int, int]:
        tier, priority = super().place(job)
        return (
            (tier - 100_000 * self.level(self.qos_of(job)), priority) if self.is_by_qos else (tier, priority)
        )

    def level(self, qos: str) -> int:
        return max((1 + self.level(name) for name in self.qos[qos].preempt), default=0)

    def exempt_until(self, job: Job) -> int:
        """By its partition's QOS, else its own, else for all."""
        said = [self.qos[name].preempt_exempt_time for name in self.all_qos(job)]
        counts = [*(each for each in said if each >= 0), self.rules.preempt_exempt_time]
        return self.running[job].start + counts[0] * US

    def may_take(self, job: Job, other: Job, now: int) -> bool:
        if now < self.exempt_until(other):
            return False
        if self.is_by_qos:
            own, its = self.qos[self.qos_of(job)], self.qos[self.qos_of(other)]
            return its.name in own.preempt and self.rules.mode_of(its) != "off"
        return self.tier(other) < self.tier(job) and self.mode(other) != "off"

    def first_to_leave(self, job: Job) -> int:
        return self.qos[self.qos_of(job)].priority if self.is_by_qos else self.tier(job)

    def its(self, job: Job) -> Qos | Partition:
        """What says what becomes of it."""
        return self.qos[self.qos_of(job)] if self.is_by_qos else self.partitions[self.partition(job)]

    def mode(self, job: Job) -> str:
        return self.rules.mode_of(self.its(job))

    def may_leave(self, job: Job, now: int) -> list[Job]:
        """Who runs on the job's partition and may be preempted for it, the first to leave first."""
        theirs = [
            other
            for other, run in self.running.items()
            if run.nodes & self.partition_nodes(job) and self.may_take(job, other, now)
        ]
        return sorted(
            theirs, key=lambda other: (self.first_to_leave(other), other.nodes, other.submit_us, other.number)
        )

    def being_cleaned(self, now: int) -> set[int]:
        return {node for node, at in self.cleaned.items() if at > now}

    def idle_now(self, job: Job, left: set[int], now: int) -> set[int]:
        return super().idle_now(job, left, now) - self.being_cleaned(now)

    def preempt(self, job: Job, left: set[int], now: int) -> bool:
        idle = self.idle_now(job, left, now)

        def has(other: Job) -> frozenset[int]:
            return self.running[other].nodes & left

        def enough(order: list[Job]) -> list[Job]:
            """The shortest beginning that leaves enough nodes; empty if all do not."""
            for count in range(len(order) + 1):
                if len(idle.union(*map(has, order[:count]))) >= job.nodes:
                    return order[:count]
            return []

        order = self.may_leave(job, now)
        leaving = enough(order)
        if not leaving:
            return False
        if len(order) > 1:
            *others, last = leaving
            leaving = enough([last, *sorted(others, key=lambda other: -len(has(other)))])
        again = (self.rules.kill_wait + self.rules.message_timeout) * US
        if now - self.preempted.get(job, -again) < again:
            return True
        chosen = self.choose(job, idle.union(*map(has, leaving)), self.running)
        for other in [other for other in leaving if has(other) & chosen]:
            self.tell_to_leave(other, now)
        self.preempted[job] = now
        return True

    def tell_to_leave(self, job: Job, now: int) -> None:
        run, grace = self.running[job], self.its(job).grace_time * US
        if job in self.in_grace and now < run.limit_end:
            return
        if job in self.in_grace or not grace:
            self.make_leave(job, now)
            return
        self.in_grace.add(job)
        if self.rules.release != "22.05":
            self.runs_again.add(job)
        run.limit_end = min(run.limit_end, now + grace)
        next_look = -(-max(run.limit_end, now + 1) // (30 * US)) * 30 * US
        run.end = min(run.start + job.run_us, next_look)
        self.note_change(now)

    def end_run(self, job: Job, now: int) -> None:
        is_done = now == self.running[job].start + job.run_us
        if is_done and job in self.runs_again and self.mode(job) == "requeue":
            self.make_room(job, now)
            self.runs_again.discard(job)
        elif not is_done and job in self.in_grace:
            self.make_room(job, now)
        else:
            super().end_run(job, now)

    def make_room(self, job: Job, now: int) -> None:
        waits = self.mode(job) == "requeue"
        self.leave(job, now, "requeued" if waits else "lost")
        self.in_grace.discard(job)
        if self.rules.release == "26.05":
            self.runs_again.discard(job)
        if waits:
            self.held[job] = self.eligible[job] = (now // US + HELD_BACK_S) * US
            self.submitted[job] = now

    def changes_with_time(self, now: int) -> bool:
        return any(job in self.in_grace or now < self.exempt_until(job) for job in self.running)

    def make_leave(self, job: Job, now: int) -> None:
        free_at = (now // US + 1) * US
        self.cleaned |= dict.fromkeys(self.running[job].nodes, free_at)
        self.make_room(job, now)
        self.note_change(now)
        self.pass_at = min(self.pass_at, whole(max(free_at, self.last_pass + self.rules.sched_min_interval)))

    def first_free(
        self, job: Job, allowed: set[int], now: int, running: dict[Job, Running]
    ) -> tuple[int, frozenset[int]] | None:
        if len(self.with_room(job, allowed, running)) < job.nodes:
            leaving = self.may_leave(job, now)
            running = {other: run for other, run in running.items() if other not in leaving}
        return super().first_free(job, allowed, now, running)

    def start_now(
        self,
        job: Job,
        nodes: frozenset[int],
        reserved: list[tuple[int, int, frozenset[int]]],
        now: int,
    ) -> int:
        free = self.with_room(job, set(nodes), self.running)
        if free & self.being_cleaned(now):
            return now + US
        if nodes <= free:
            return super().start_now(job, nodes, reserved, now)
        left = self.left_by_plan(job, reserved, now)
        if self.may_reserve(job):
            reserved.append((*self.blocks(job, now, now), nodes))
        self.preempt(job, left - self.out, now)
        return now
