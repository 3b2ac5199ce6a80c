"""Real-time jobs the slow and obvious way: the truth that the compiled machine must equal job by job.

Written from `docs/mechanisms/realtime.md`; rule numbers are the numbers there. Units are sets, everything is computed
anew at every instant, victims are found by trying all sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

NEVER_US = (1 << 63) - 1
MICRO = 1_000_000
PREEMPTIVE = ("pre_rest", "pre_ckpt_sys", "pre_ckpt_app", "pre_ckpt")


class Job(NamedTuple):
    number: int
    submit_us: int
    run_us: int
    estimate_us: int
    units: int
    realtime: bool = False
    interval_us: int = 0


@dataclass(frozen=True)
class Site:
    """`partitions`: sets of units in order; none: any units. Rates in bytes a second."""

    units: int
    partitions: tuple[frozenset[int], ...] = ()
    unit_nodes: int = 1
    data: int = 4_000_000_000
    node_rate: int = 2_000_000_000
    write_cap: int = 216_000_000_000
    read_cap: int = 216_000_000_000
    shared: bool = True


@dataclass(frozen=True)
class Rules:
    scheme: str = "pre_ckpt"
    backfill: str = "easy"
    choice: str = "first_fit"
    resubmit: str = "back"
    hpq_blocks: bool = True


class Segment(NamedTuple):
    start_us: int
    end_us: int
    units: tuple[int, ...]
    work_us: int
    lost_us: int
    writes_us: int
    redo_us: int


@dataclass
class Life:
    """A job's way through the machine."""

    job: Job
    row: int
    queued_us: int = 0
    phase: str = "out"
    units: frozenset[int] = frozenset()
    place: int = -1
    start: int = 0
    since: int = 0
    planned: int = 0
    done: int = 0
    saved: int = 0
    owed: int = 0
    ready: int = 0
    work: int = 0
    lost: int = 0
    writes: int = 0
    redo: int = 0
    segments: list[Segment] = field(default_factory=list)


def reference_segments(jobs: list[Job], site: Site, rules: Rules) -> dict[int, list[Segment]]:
    """All segments of every job, by job number."""
    return _Machine(jobs, site, rules).run()


class _Machine:
    def __init__(self, jobs: list[Job], site: Site, rules: Rules) -> None:
        ordered = sorted(jobs, key=lambda job: (job.submit_us, job.number))
        self.lives = [Life(job, row) for row, job in enumerate(ordered)]
        self.site, self.rules = site, rules
        self.future = list(self.lives)
        self.batch: list[Life] = []
        self.urgent: list[Life] = []
        self.inside: list[Life] = []  # whoever has units or a claim
        self.now = self.last = 0
        self.preemptive = rules.scheme in PREEMPTIVE
        self.one_queue = rules.scheme == "hpq" and not rules.hpq_blocks  # real-time jobs are its first

    # -- time ----------------------------------------------------------------------------------------------

    def run(self) -> dict[int, list[Segment]]:
        while self.future or self.inside:
            times = [life.job.submit_us for life in self.future]
            times += [self.end_of_phase(life) for life in self.inside if life.phase != "claimed"]
            self.now = min(times)
            self.one_instant()
        assert not self.batch
        assert not self.urgent
        return {life.job.number: life.segments for life in self.lives}

    def one_instant(self) -> None:
        self.transfer(self.now - self.last)
        self.last = self.now
        changed = False
        while due := [life for life in self.inside if self.is_due(life)]:
            changed |= self.go_on(due[0])
        while self.future and self.future[0].job.submit_us == self.now:
            life = self.future.pop(0)
            life.queued_us = self.now
            urgent = life.job.realtime and self.rules.scheme != "baseline" and not self.one_queue
            (self.urgent if urgent else self.batch).append(life)
            changed = True
        if changed:
            self.schedule()

    # -- transfers (rule 3) --------------------------------------------------------------------------------

    def rate(self, life: Life, phases: tuple[str, ...], cap: int) -> int:
        at_it = [other for other in self.inside if other.phase in phases] if self.site.shared else [life]
        nodes = sum(other.job.units for other in at_it) * self.site.unit_nodes
        return max(1, min(self.site.node_rate, cap // nodes)) if nodes else self.site.node_rate

    def rate_for(self, life: Life) -> int:
        if life.phase == "reading":
            return self.rate(life, ("reading",), self.site.read_cap)
        return self.rate(life, ("writing", "leaving"), self.site.write_cap)

    def transfer(self, for_us: int) -> None:
        moved = [(life, self.rate_for(life)) for life in self.inside]
        for life, rate in moved:
            if life.phase in ("reading", "writing", "leaving"):
                life.owed -= rate * for_us

    def end_of_phase(self, life: Life) -> int:
        if life.phase == "working":
            return life.ready
        return self.last + max(0, _up(life.owed, self.rate_for(life)))

    def is_due(self, life: Life) -> bool:
        if life.phase == "claimed":
            return False
        return life.ready <= self.now if life.phase == "working" else life.owed <= 0

    def alone(self, units: int, cap: int) -> int:
        nodes = units * self.site.unit_nodes
        return _up(self.site.data * MICRO, max(1, min(self.site.node_rate, cap // nodes)))

    # -- a segment (rule 2) --------------------------------------------------------------------------------

    def expected(self, life: Life) -> int:
        job = life.job
        length = max(job.estimate_us - life.saved, 1)
        if life.saved:
            length += self.alone(job.units, self.site.read_cap)
        if job.interval_us and not job.realtime:
            writes = job.estimate_us // job.interval_us - life.saved // job.interval_us
            length += max(writes, 0) * self.alone(job.units, self.site.write_cap)
        return length

    def begin(self, life: Life, units: frozenset[int]) -> None:
        life.units, life.start = units, self.now
        life.planned = self.now + self.expected(life)
        life.work = life.lost = life.writes = life.redo = 0
        life.done = life.saved
        if life not in self.inside:
            self.inside.append(life)
        if life.saved:
            self.begin_transfer(life, "reading")
        else:
            self.begin_work(life)

    def begin_transfer(self, life: Life, phase: str) -> None:
        life.phase, life.since, life.owed = phase, self.now, self.site.data * MICRO

    def begin_work(self, life: Life) -> None:
        interval = 0 if life.job.realtime else life.job.interval_us
        until = life.job.run_us
        if interval:
            until = min(until, (life.done // interval + 1) * interval)
        life.phase, life.since = "working", self.now
        life.ready = self.now + until - life.done

    def go_on(self, life: Life) -> bool:
        """The phase is over. Whether the job left its units."""
        spent = self.now - life.since
        if life.phase == "working":
            life.done += spent
            life.work += spent
            interval = 0 if life.job.realtime else life.job.interval_us
            if interval and life.done % interval == 0:
                self.begin_transfer(life, "writing")
                return False
            self.leave(life)
            return True
        if life.phase == "reading":
            life.redo += spent
            self.begin_work(life)
            return False
        life.writes += spent
        life.saved = life.done
        if life.phase == "leaving":
            self.leave(life)
            self.resubmit(life)
            return True
        if life.done == life.job.run_us:
            self.leave(life)
            return True
        self.begin_work(life)
        return False

    def leave(self, life: Life) -> None:
        self.inside.remove(life)
        life.segments.append(
            Segment(
                life.start, self.now, tuple(sorted(life.units)), life.work, life.lost, life.writes, life.redo
            )
        )
        life.phase, life.units = "out", frozenset()

    def resubmit(self, life: Life) -> None:
        if self.rules.resubmit == "back":
            life.queued_us = self.now
        self.batch.append(life)

    def preempt(self, life: Life) -> None:
        spent = self.now - life.since
        if life.phase == "working":
            life.done += spent
            life.work += spent
            if self.rules.scheme == "pre_ckpt" and life.done > life.saved:
                self.begin_transfer(life, "leaving")
                return
        else:
            life.redo += spent
        life.lost = life.done - life.saved
        life.redo += life.lost
        self.leave(life)
        self.resubmit(life)

    # -- a pass (rules 4 to 6) -----------------------------------------------------------------------------

    def schedule(self) -> None:
        for life in self.inside:
            self.start_if_clear(life)
        if self.urgent:
            self.pass_over(self.urgent, urgent=self.preemptive)
        if self.rules.scheme != "hpq" or not self.urgent:
            self.pass_over(self.batch, urgent=False)

    def start_if_clear(self, life: Life) -> None:
        others = [other.units for other in self.inside if other is not life and other.phase != "claimed"]
        if life.phase == "claimed" and not any(life.units & units for units in others):
            self.begin(life, life.units)

    def pass_over(self, queue: list[Life], *, urgent: bool) -> None:
        queue.sort(key=lambda life: (self.one_queue and not life.job.realtime, life.queued_us, life.row))
        while queue and self.places(queue[0], urgent=urgent):
            self.launch(queue, queue[0], self.places(queue[0], urgent=urgent), urgent=urgent)
        if not queue or self.rules.backfill == "none":
            return
        head = queue[0]
        shadow, reserved, spare = self.reservation(head, urgent=urgent)
        while True:
            candidates = []
            for life in queue[1:]:
                in_time = self.now + self.expected(life) <= shadow
                places = self.places(life, urgent=urgent)
                if not in_time and self.site.partitions:
                    places = [place for place in places if not self.partition(place) & reserved]
                if not in_time and not self.site.partitions and life.job.units > spare:
                    places = []
                if places:
                    candidates.append((life, places, in_time))
            if not candidates:
                return
            life, places, in_time = self.choose(candidates)
            if not in_time:
                spare -= life.job.units
            self.launch(queue, life, places, urgent=urgent)

    def choose(self, candidates: list[tuple[Life, list[int], bool]]) -> tuple[Life, list[int], bool]:
        if self.rules.choice == "best_fit":
            return max(candidates, key=lambda each: each[0].job.units)
        if self.rules.choice == "shortest_first":
            return min(candidates, key=lambda each: each[0].job.estimate_us)
        if self.rules.choice == "first_submitted":
            return min(candidates, key=lambda each: (each[0].job.submit_us, each[0].job.number))
        return candidates[0]

    def partition(self, place: int) -> frozenset[int]:
        return self.site.partitions[place]

    def held(self, *, urgent: bool) -> frozenset[int]:
        """Units that cannot be had: in an urgent pass those of real-time jobs, else all that are taken or kept."""
        taken = [life.units for life in self.inside if life.job.realtime or not urgent]
        return frozenset().union(*taken)

    def places(self, life: Life, *, urgent: bool) -> list[int]:
        """Partitions in which the job could start or claim; flat: [-1] if there are enough units."""
        held = self.held(urgent=urgent)
        if not self.site.partitions:
            return [-1] if life.job.units <= self.site.units - len(held) else []
        fitting = [i for i, each in enumerate(self.site.partitions) if len(each) == life.job.units]
        return [place for place in fitting if not self.partition(place) & held]

    def blocked(self, place: int) -> int:
        taken = self.held(urgent=False)
        free = [each for each in self.site.partitions if not each & taken]
        return sum(bool(each & self.partition(place)) for each in free)

    def launch(self, queue: list[Life], life: Life, places: list[int], *, urgent: bool) -> None:
        queue.remove(life)
        if urgent:
            self.claim(life, places)
            return
        if self.site.partitions:
            place = min(places, key=lambda each: (self.blocked(each), each))
            self.begin(life, self.partition(place))
            return
        free = sorted(set(range(self.site.units)) - self.held(urgent=False))
        self.begin(life, frozenset(free[: life.job.units]))

    def reservation(self, head: Life, *, urgent: bool) -> tuple[int, frozenset[int], int]:
        """Shadow time, reserved partition, spare units."""
        seen = [life for life in self.inside if (life.job.realtime or not urgent) and life.phase != "leaving"]

        def planned(life: Life) -> int:
            return max(life.planned, self.now)

        if self.site.partitions:
            ends = {
                place: max([self.now, *(planned(life) for life in seen if life.units & each)])
                for place, each in enumerate(self.site.partitions)
                if len(each) == head.job.units
            }
            place = min(ends, key=lambda each: (ends[each], each))
            return ends[place], self.partition(place), 0

        def free_at(time: int) -> int:
            return self.site.units - sum(life.job.units for life in seen if planned(life) > time)

        free_now = self.site.units - sum(life.job.units for life in seen)
        if free_now >= head.job.units:
            shadow = self.now
        else:
            shadow = min(planned(life) for life in seen if free_at(planned(life)) >= head.job.units)
        return shadow, frozenset(), free_at(shadow) - head.job.units

    # -- claims and victims (rule 7) -----------------------------------------------------------------------

    def at_risk(self, life: Life) -> int:
        if self.rules.scheme == "pre_ckpt":
            return 0
        done = life.done + (self.now - life.since if life.phase == "working" else 0)
        return life.job.units * (done - (0 if self.rules.scheme == "pre_rest" else life.saved))

    def victims_of(self, units: frozenset[int]) -> list[Life]:
        return [
            life
            for life in self.inside
            if not life.job.realtime and life.phase != "leaving" and life.units & units
        ]

    def claim(self, life: Life, places: list[int]) -> None:
        if self.site.partitions:
            place = min(places, key=self.cost)
            units = self.partition(place)
            victims = self.victims_of(units)
        else:
            units, victims = self.flat_claim(life.job.units)
        for victim in victims:
            self.preempt(victim)
        life.units, life.phase = units, "claimed"
        life.planned = self.now + life.job.estimate_us
        self.inside.append(life)
        self.start_if_clear(life)

    def cost(self, place: int) -> tuple[int, bool, int, int, int]:
        units = self.partition(place)
        victims = self.victims_of(units)
        occupied = any(not life.job.realtime and life.units & units for life in self.inside)
        return (
            sum(victim.job.units for victim in victims),
            occupied,
            sum(self.at_risk(victim) for victim in victims),
            self.blocked(place),
            place,
        )

    def flat_claim(self, wanted: int) -> tuple[frozenset[int], list[Life]]:
        got = sorted(set(range(self.site.units)) - self.held(urgent=False))[:wanted]
        in_order = sorted(self.inside, key=lambda life: (life.planned, life.row))
        claimed = frozenset().union(*(life.units for life in self.inside if life.phase == "claimed"))
        for life in in_order:
            if life.phase == "leaving":
                got += sorted(life.units - claimed)[: wanted - len(got)]
        short = wanted - len(got)
        if short <= 0:
            return frozenset(got), []
        able = [life for life in in_order if not life.job.realtime and life.phase != "leaving"]
        best: tuple[Life, ...] = ()
        best_key: tuple[int, int, tuple[bool, ...]] | None = None
        for count in range(1, len(able) + 1):
            for some in combinations(able, count):
                units = sum(life.job.units for life in some)
                if units >= short:
                    chosen = tuple(life not in some for life in able)  # of equals, the soonest to end
                    key = (units, sum(self.at_risk(life) for life in some), chosen)
                    if best_key is None or key < best_key:
                        best, best_key = some, key
        for life in best:
            got += sorted(life.units)[: wanted - len(got)]
        return frozenset(got), list(best)


def _up(owed: int, rate: int) -> int:
    return -(-owed // rate)
