"""Jobs that share nodes, the slow and obvious way, over the reference schedule.

Written from `docs/shared-nodes.md`; rule numbers are the numbers there. What a node has left is added up anew whenever
somebody asks, from all that is booked on it.
"""

from __future__ import annotations

from typing import NamedTuple

from oracle.reference import Job, Options, _Machine


class Part(NamedTuple):
    """What a node has, or what a job wants of each of its nodes."""

    cores: int
    memory: int = 0
    gpus: int = 0

    def holds(self, other: Part) -> bool:
        return self.cores >= other.cores and self.memory >= other.memory and self.gpus >= other.gpus


class Request(NamedTuple):
    """`may`: the nodes that the job may have; None: all."""

    nodes: int
    part: Part
    may: frozenset[int] | None = None


class Booking(NamedTuple):
    """A job that runs, or is planned, on these nodes."""

    job: Job
    nodes: tuple[int, ...]
    begin: int
    end: int


class SharedMachine(_Machine):
    """`nodes` nodes of the size `room`, or one of each of these sizes; `requests` by job number.

    A job's own `nodes` are all its cores.

    Afterwards `got` has the nodes of each job, and `promised` the first planned start of each job that was a head.
    """

    def __init__(  # noqa: PLR0917
        self,
        jobs: list[Job],
        requests: dict[int, Request],
        nodes: int,
        room: Part | list[Part],
        order: str,
        backfill: str,
        options: Options,
        *,
        best_fit: bool,
    ) -> None:
        self.rooms = [room] * nodes if isinstance(room, Part) else room
        super().__init__(jobs, sum(each.cores for each in self.rooms), (order, {}), backfill, options)
        self.requests, self.node_count, self.best_fit = requests, nodes, best_fit
        self.got: dict[int, tuple[int, ...]] = {}
        self.promised: dict[int, int] = {}

    # -- what is left (rules 1 and 2) ------------------------------------------------------------------------

    def runs_on(self) -> list[Booking]:
        """Rule 7."""
        return [
            Booking(job, self.got[job.number], start, max(start + job.estimate_us, self.now + 1))
            for job, start in self.running.items()
        ]

    def left(self, node: int, booked: list[Booking], at: int) -> Part:
        there = [
            self.requests[each.job.number].part
            for each in booked
            if node in each.nodes and each.begin <= at < each.end
        ]
        return Part(*(have - sum(taken) for have, *taken in zip(self.rooms[node], *there, strict=True)))

    def has_room(self, job: Job, node: int, booked: list[Booking], begin: int, end: int) -> bool:
        """All of the time from begin to end: what is left only gets less where a booking begins."""
        may = self.requests[job.number].may
        if may is not None and node not in may:
            return False
        times = {begin} | {each.begin for each in booked if begin < each.begin < end}
        wanted = self.requests[job.number].part
        return all(self.left(node, booked, at).holds(wanted) for at in times)

    def in_order(self, nodes: list[int], booked: list[Booking], at: int) -> list[int]:
        """Rule 2."""
        if not self.best_fit:
            return sorted(nodes)
        return sorted(nodes, key=lambda node: (self.left(node, booked, at).cores, node))

    def with_room(self, job: Job, booked: list[Booking], begin: int, end: int) -> list[int]:
        nodes = [node for node in range(self.node_count) if self.has_room(job, node, booked, begin, end)]
        return self.in_order(nodes, booked, begin)

    def start_on(self, job: Job, nodes: list[int]) -> None:
        wanted = self.requests[job.number].nodes
        self.start(job)
        self.got[job.number] = tuple(sorted(nodes[:wanted]))
        assert len(self.got[job.number]) == wanted

    # -- a pass ----------------------------------------------------------------------------------------------

    def scheduling_pass(self) -> None:
        self.queue.sort(key=self.queue_order)
        if self.backfill == "conservative":
            self.start_what_is_planned_for_now()
            return
        while self.queue:  # rule 3
            head = self.queue[0]
            nodes = self.now_open(head)
            if len(nodes) < self.requests[head.number].nodes:
                break
            self.start_on(head, nodes)
        if self.queue and self.backfill == "easy":
            self.easy_backfill()

    def now_open(self, job: Job) -> list[int]:
        return self.with_room(job, self.runs_on(), self.now, self.now + 1)

    def open_then(self, head: Job, at: int) -> set[int]:
        """Where the head has room at a later time, beside those that run now."""
        return set(self.with_room(head, self.runs_on(), at, at + 1))

    def easy_backfill(self) -> None:
        """Rule 5."""
        head = self.queue[0]
        wanted = self.requests[head.number].nodes
        ends = sorted({each.end for each in self.runs_on()})
        planned = next(at for at in ends if len(self.open_then(head, at)) >= wanted)
        self.promised.setdefault(head.number, planned)
        for job in self.queue[1:]:
            nodes = self.now_open(job)
            if self.now + job.estimate_us > planned:
                nodes = self.beside(head, job, nodes, planned)
            if len(nodes) >= self.requests[job.number].nodes:
                self.start_on(job, nodes)
                assert len(self.open_then(head, planned)) >= wanted, "the head is never delayed"

    def beside(self, head: Job, job: Job, nodes: list[int], planned: int) -> list[int]:
        """In order, but for those nodes that the head cannot do without."""
        open_then = self.open_then(head, planned)
        can_lose = len(open_then) - self.requests[head.number].nodes
        found = []
        for node in nodes:
            with_job = Booking(job, (node,), self.now, self.now + job.estimate_us)
            takes_it = node in open_then and not self.has_room(
                head, node, [*self.runs_on(), with_job], planned, planned + 1
            )
            if takes_it and not can_lose:
                continue
            can_lose -= takes_it
            found.append(node)
        return found

    def start_what_is_planned_for_now(self) -> None:
        """Rule 6."""
        booked = self.runs_on()
        for job in list(self.queue):
            times = sorted({self.now} | {each.end for each in booked})
            for at in times:
                nodes = self.with_room(job, booked, at, at + job.estimate_us)
                if len(nodes) >= self.requests[job.number].nodes:
                    break
            nodes = nodes[: self.requests[job.number].nodes]
            booked.append(Booking(job, tuple(nodes), at, at + job.estimate_us))
            if at == self.now:
                self.start_on(job, nodes)
