"""Nodes that go together the slow and obvious way, over the reference schedule.

Written from `docs/placement.md`, "Contiguous nodes and switches"; rule numbers are the numbers there. Every set of
nodes is a set of positions, and the best place is the least of all that there are.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from oracle.reference import NEVER_US, Job, Options, _Machine

Places = frozenset[int]


class Wiring(NamedTuple):
    """`order`: the node at each position; `units`: its switch or group, nothing for a line or torus."""

    policy: str
    order: tuple[int, ...]
    units: tuple[int, ...] = ()
    penalty: float = 0.0
    kills: bool = False


def runs_of(free: Places) -> list[list[int]]:
    """The free positions, cut where one is missing."""
    runs: list[list[int]] = []
    for place in sorted(free):
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def by_unit(free: Places, units: tuple[int, ...]) -> dict[int, list[int]]:
    return {
        which: [place for place in sorted(free) if units[place] == which]
        for which in {units[p] for p in free}
    }


def contiguous(free: Places, width: int) -> Places | None:
    """Rule 2: the shortest run that holds it, from its low end."""
    fit = [run for run in runs_of(free) if len(run) >= width]
    return frozenset(min(fit, key=len)[:width]) if fit else None


def closest(free: Places, width: int) -> Places:
    """Rule 2: no run holds it: the nodes whose first and last are closest."""
    places = sorted(free)
    windows = [places[k : k + width] for k in range(len(places) - width + 1)]
    return frozenset(min(windows, key=lambda window: window[-1] - window[0]))


def local(free: Places, width: int, units_of: tuple[int, ...]) -> Places:
    """Rule 3: the emptiest units until one holds the rest, then the fullest of these that does."""
    units, taken = by_unit(free, units_of), set[int]()
    while len(taken) < width:
        left = width - len(taken)
        fit = [which for which, places in units.items() if len(places) >= left]
        order = sorted(fit or units, key=lambda which: (len(units[which]) * (1 if fit else -1), which))
        taken |= set(units.pop(order[0])[:left])
    return frozenset(taken)


def fewest_units(free: Places, width: int, units: tuple[int, ...]) -> int:
    """By trying all sets of units."""
    sizes = [len(places) for places in by_unit(free, units).values()]
    return next(n for n in range(1, len(sizes) + 1) if any(sum(c) >= width for c in combinations(sizes, n)))


def place_of(wiring: Wiring, free: Places, width: int) -> Places | None:
    """The positions that a job gets of those that are free, None if it has to wait."""
    if len(free) < width:
        return None
    if wiring.policy == "basic":
        return frozenset(sorted(free, key=lambda place: wiring.order[place])[:width])
    if wiring.policy.endswith("contiguous"):
        found = contiguous(free, width)
        return closest(free, width) if found is None and wiring.policy != "contiguous" else found
    if wiring.policy == "local" and fewest_units(free, width, wiring.units) > fewest_parts(wiring, width):
        return None
    return local(free, width, wiring.units)


def fewest_parts(wiring: Wiring, width: int) -> int:
    """On an empty machine."""
    everywhere = frozenset(range(len(wiring.order)))
    return fewest_units(everywhere, width, wiring.units) if wiring.units else 1


def parts_of(wiring: Wiring, places: Places) -> int:
    return len(by_unit(places, wiring.units)) if wiring.units else len(runs_of(places))


class WiredMachine(_Machine):
    """The reference machine, whose jobs have nodes."""

    def __init__(self, jobs: list[Job], order: str, backfill: str, options: Options, wiring: Wiring) -> None:
        super().__init__(jobs, len(wiring.order), (order, {}), backfill, options)
        self.wiring = wiring
        self.on: dict[int, Places] = {}
        self.killed: set[int] = set()

    @property
    def all_places(self) -> Places:
        return frozenset(range(self.nodes))

    def free_places(self) -> Places:
        return self.all_places.difference(*(self.on[job.number] for job in self.running))

    def start(self, job: Job) -> None:
        place = place_of(self.wiring, self.free_places(), job.nodes)
        assert place is not None
        self.start_at(job, place)

    def start_at(self, job: Job, place: Places) -> None:
        self.on[job.number] = place
        extra = parts_of(self.wiring, place) - fewest_parts(self.wiring, job.nodes)
        took = job.run_us + int(job.run_us * self.wiring.penalty * extra)  # rule 6
        if self.wiring.kills and took > job.estimate_us:
            took = job.estimate_us
            self.killed.add(job.number)
        self.queue.remove(job)
        ran = job._replace(run_us=took)
        self.running[ran] = self.now
        self.runs.append((ran, self.now))
        self.schedule[job.number] = (self.now, self.now + took)

    # -- where it is required: rules 4 and 5 -----------------------------------------------------------------

    def scheduling_pass(self) -> None:
        if self.wiring.policy not in {"contiguous", "local"}:
            super().scheduling_pass()
            return
        if not self.free_places():
            return
        self.queue.sort(key=self.queue_order)
        if self.backfill == "conservative":
            self.plan_all()
            return
        while self.queue and (place := place_of(self.wiring, self.free_places(), self.queue[0].nodes)):
            self.start_at(self.queue[0], place)
        if self.queue and self.backfill == "easy":
            self.backfill_beside(self.queue[0])

    def release(self, place: int) -> int:
        """When a position is free by the estimates of those that run."""
        ends = [
            max(start + job.estimate_us, self.now + 1)
            for job, start in self.running.items()
            if place in self.on[job.number]
        ]
        return ends[0] if ends else self.now

    def backfill_beside(self, head: Job) -> None:
        shadow, held = NEVER_US, frozenset[int]()
        for time in sorted({self.release(place) for place in self.all_places}):
            free_then = frozenset(place for place in self.all_places if self.release(place) <= time)
            place = place_of(self.wiring, free_then, head.nodes)
            if place is not None:
                shadow, held = time, place
                break
        self.held_from = shadow
        for job in self.queue[1:]:
            over_by_then = self.now + job.estimate_us <= shadow
            free = self.free_places() if over_by_then else self.free_places() - held
            place = place_of(self.wiring, free, job.nodes)
            if place is not None:
                self.start_at(job, place)

    def plan_all(self) -> None:
        taken = [
            (self.now, max(start + job.estimate_us, self.now + 1), self.on[job.number])
            for job, start in self.running.items()
        ]
        for job in list(self.queue):
            for begin in sorted({self.now, *(end for _, end, _ in taken)}):
                end = begin + job.estimate_us
                free = self.all_places.difference(*(p for b, e, p in taken if b < end and begin < e))
                place = place_of(self.wiring, free, job.nodes)
                if place is not None:
                    taken.append((begin, end, place))
                    if begin == self.now:
                        self.start_at(job, place)
                    break
