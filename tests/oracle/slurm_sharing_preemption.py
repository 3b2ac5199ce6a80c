"""Preemption where jobs share nodes (`docs/slurm-twin.md`), slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.clock import US
from oracle.slurm_preemption import PreemptingReference
from oracle.slurm_sharing import SharingReference

if TYPE_CHECKING:
    from oracle.reference import Job
    from oracle.slurm_site import Running

MOST_ORDERS = 3


@dataclass
class PreemptingSharingReference(PreemptingReference, SharingReference):
    """The reference where jobs take the cores, memory and GPUs of others."""

    def at_once(self, job: Job, left: dict[Job, Running], now: int, tried: int) -> list[dict[Job, Running]]:
        """All; then those whom the job may not preempt. Since 24.11 a later try begins with these."""
        leaving = self.may_leave(job, now)
        stays = {other: run for other, run in left.items() if other not in leaving}
        return [left, stays] if tried == now or not self.rules.since_24_11 else [stays]

    def preempt(self, job: Job, left: set[int], now: int) -> bool:
        nodes = left - self.being_cleaned(now)
        order = self.may_leave(job, now)
        for _ in range(max(1, min(MOST_ORDERS, len(order)))):
            leaving = self.enough(job, nodes, order)
            if not leaving:
                return False
            *others, last = leaving
            chosen = self.chosen_without(job, nodes, leaving)
            tried = order
            order = sorted(others, key=lambda other: -len(self.running[other].nodes & chosen))
            order = [last, *order, *(other for other in tried if other not in leaving)]
        again = (self.rules.kill_wait + self.rules.message_timeout) * US
        if now - self.preempted.get(job, -again) < again:
            return True
        for other in [other for other in leaving if self.running[other].nodes & chosen]:
            self.tell_to_leave(other, now)
        self.preempted[job] = now
        return True

    def enough(self, job: Job, nodes: set[int], order: list[Job]) -> list[Job]:
        """The shortest beginning that leaves the job enough room; empty if all do not."""
        for count in range(1, len(order) + 1):
            leaving = order[:count]
            if self.running[leaving[-1]].nodes & nodes and self.chosen_without(job, nodes, leaving):
                return leaving
        return []

    def chosen_without(self, job: Job, nodes: set[int], gone: list[Job]) -> frozenset[int]:
        """The nodes that the job gets of these when those are gone; none if they are too few."""
        running = {other: run for other, run in self.running.items() if other not in gone}
        free = self.with_room(job, nodes, running)
        return self.choose(job, free, running) if len(free) >= job.nodes else frozenset()
