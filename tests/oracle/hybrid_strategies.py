"""The strategies of hybrid-fan-2021 as somebody would write them as plug-ins, the slow and obvious way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.mechanisms.hybrid.decisions import Room
from emulator.mechanisms.hybrid.notice_plan import Preparation
from oracle.hybrid_reference import HybridReference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.mechanisms.hybrid.decisions import Running
    from emulator.mechanisms.hybrid.notice_plan import Outlook


def least_first(rows: Iterable[tuple[int, int, int]], needed: int) -> list[int]:
    """Of rows of (key, job, nodes) the jobs with the least keys, until they have enough nodes."""
    chosen = []
    for _, job, nodes in sorted(rows):
        if needed > 0:
            chosen.append(job)
            needed -= nodes
    return chosen


class Paa:
    def make_room(self, running: Running, needed: int) -> Room | None:
        if running.nodes.sum() < needed:
            return None
        costs = zip(running.overhead_us.tolist(), running.job.tolist(), running.nodes.tolist(), strict=True)
        return Room(preempt=tuple(least_first(costs, needed)))


class Spaa(Paa):
    def make_room(self, running: Running, needed: int) -> Room | None:
        if running.spare.sum() < needed:
            return super().make_room(running, needed)
        spare = dict(zip(running.job.tolist(), running.spare.tolist(), strict=True))
        return Room(shrink=tuple(HybridReference.evenly(spare, needed)))


class N:
    def prepare(self, outlook: Outlook) -> Preparation | None:
        return None


class Cua:
    def prepare(self, outlook: Outlook) -> Preparation | None:
        return Preparation(collects=True)


class Cup:
    def prepare(self, outlook: Outlook) -> Preparation | None:
        missing = outlook.needed - outlook.free
        if missing <= 0:
            return Preparation()
        jobs = outlook.candidates
        columns = (jobs.job, jobs.nodes, jobs.expected_end_us, jobs.stop_us, jobs.overhead_us)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        nodes, stop_us = ({row[0]: row[place] for row in rows} for place in (1, 3))
        ending = [(end_us, job, many) for job, many, end_us, _, _ in rows if end_us <= outlook.predicted_us]
        promised = least_first(ending, missing)
        missing -= sum(nodes[job] for job in promised)
        late = [(cost, job, many) for job, many, end_us, _, cost in rows if end_us > outlook.predicted_us]
        stops = [(stop_us[job], job) for job in least_first(late, missing)]
        return Preparation(promised=tuple(promised), stops=tuple(stops))


NOTICES = {"n": N, "cua": Cua, "cup": Cup}
ARRIVALS = {"paa": Paa, "spaa": Spaa}
