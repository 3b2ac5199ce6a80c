"""Hybrid workloads the slow and obvious way: the truth that the mechanism `hybrid` must equal, segment by segment.

Written from hybrid-fan-2021 and `docs/mechanisms/hybrid.md`. Nodes have no names here, only numbers of them count.
Nothing is kept that could be computed anew, nothing is made fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = 1 << 62


class HybridJob(NamedTuple):
    """`kind`: rigid, malleable or on_demand. Times in us; `run_us` and `estimate_us` without setup and checkpoints."""

    submit_us: int
    run_us: int
    estimate_us: int
    nodes: int
    kind: str = "rigid"
    least: int = 0
    setup_us: int = 0
    interval_us: int = 0
    write_us: int = 0
    notice_us: int = -1
    predicted_us: int = -1


class Segment(NamedTuple):
    job: int
    start_us: int
    end_us: int
    nodes: int
    outcome: str


@dataclass
class Run:
    start_us: int
    segment_us: int
    width: int
    since_us: int
    done: int
    saved: int
    expected_us: int
    guest_of: int = -1
    promised_to: int = -1
    leaving: bool = False
    written_us: int = NEVER
    leased: bool = False


@dataclass
class Claim:
    job: int
    wanted: int
    idle: int = 0
    deadline_us: int = -1
    collects: bool = False
    arrived: bool = False
    leaving: dict[int, int] = field(default_factory=dict)


class Loan(NamedTuple):
    job: int
    nodes: int
    shrunk_run_us: int


class Failure(NamedTuple):
    """A node breaks. Nodes have no names here: it is told who has it.

    `job` runs on it (-1: nobody), as the node with the number `place` of its own; `held_for`: the on-demand job for
    which it is idle and held, -1 for none.
    """

    at_us: int
    job: int
    place: int
    held_for: int


class HybridReference:
    def __init__(
        self,
        jobs: list[HybridJob],
        nodes: int,
        notice: str,
        arrival: str,
        *,
        warning_us: int,
        release_us: int,
        failures: tuple[Failure, ...] = (),
        repairs_us: tuple[int, ...] = (),
    ) -> None:
        self.jobs, self.nodes = jobs, nodes
        self.notice, self.arrival = notice, arrival
        self.warning_us, self.release_us = warning_us, release_us
        self.saved = [0] * len(jobs)
        self.front: set[int] = set()
        self.queue: set[int] = set()
        self.running: dict[int, Run] = {}
        self.claims: dict[int, Claim] = {}  # in order of notice
        self.loans: dict[int, list[Loan]] = {}
        self.timers: list[tuple[int, int, int]] = []
        self.segments: list[Segment] = []
        self.instant: set[int] = set()
        self.failures, self.repairs_us = list(failures), list(repairs_us)
        self.down = 0
        self.now = 0

    # -- the job model -------------------------------------------------------------------------------------

    def length(self, job: int, owed: int, width: int) -> int:
        computing = -(-owed // width) if owed > 0 else 0
        interval = self.jobs[job].interval_us
        if interval and computing:
            computing += (computing - 1) // interval * self.jobs[job].write_us
        return computing

    def owed(self, job: int) -> int:
        return self.jobs[job].run_us * self.jobs[job].nodes

    def guess(self, job: int) -> int:
        return self.jobs[job].estimate_us * self.jobs[job].nodes

    def request_us(self, job: int, width: int) -> int:
        """What the scheduler thinks the next run lasts."""
        left = max(self.guess(job) - self.saved[job], 1)
        return max(self.jobs[job].setup_us + self.length(job, left, width), 1)

    def done_saved(self, job: int, at: int) -> tuple[int, int]:
        run, interval = self.running[job], self.jobs[job].interval_us
        if run.leaving or at <= run.since_us:
            return run.done, run.saved
        done, saved, left = run.done, run.saved, at - run.since_us
        while left > 0:
            computing = min(left, interval) if interval else left
            done = min(done + computing * run.width, self.owed(job))
            left -= computing
            if interval and computing == interval:
                if left >= self.jobs[job].write_us:
                    saved = max(saved, done)
                left -= self.jobs[job].write_us
        return done, saved

    def end_us(self, job: int) -> int:
        run = self.running[job]
        if run.leaving:
            return NEVER
        return run.since_us + self.length(job, self.owed(job) - run.done, run.width)

    # -- nodes ---------------------------------------------------------------------------------------------

    def free(self) -> int:
        return (
            self.nodes
            - self.down
            - sum(run.width for run in self.running.values())
            - sum(c.idle for c in self.claims.values())
        )

    def guests(self, claim: Claim) -> list[int]:
        return sorted(job for job, run in self.running.items() if run.guest_of == claim.job)

    def needed(self, claim: Claim) -> int:
        return claim.wanted - claim.idle - sum(self.running[guest].width for guest in self.guests(claim))

    def take_free(self, claim: Claim) -> None:
        claim.idle += min(self.needed(claim), self.free())

    def on_demand_waits(self) -> bool:
        return bool(self.queue) and self.jobs[self.in_order()[0]].kind == "on_demand"

    def collect(self) -> None:
        if not self.on_demand_waits():
            for claim in self.claims.values():
                if claim.collects:
                    self.take_free(claim)

    # -- starts and stops ----------------------------------------------------------------------------------

    def start(self, job: int, width: int, *, guest_of: int = -1, leased: bool = False) -> None:
        self.queue.discard(job)
        since = self.now + self.jobs[job].setup_us
        expected = self.now + self.request_us(job, width)
        self.running[job] = Run(
            self.now,
            self.now,
            width,
            since,
            self.saved[job],
            self.saved[job],
            expected,
            guest_of,
            leased=leased,
        )

    def stop(self, job: int, outcome: str, kept: int) -> int:
        """The job leaves its nodes, which are free or its host's or those they were promised to. How many got free."""
        run = self.running.pop(job)
        self.segments.append(Segment(job, run.segment_us, self.now, run.width, outcome))
        self.saved[job] = kept
        if outcome == "preempted":
            self.queue.add(job)
        if run.guest_of in self.claims:
            self.claims[run.guest_of].idle += run.width
            return 0
        if run.promised_to in self.claims:
            claim = self.claims[run.promised_to]
            got = min(self.needed(claim), run.width)
            claim.idle += got
            return run.width - got
        return run.width

    def preempt(self, job: int, claim: Claim) -> None:
        run = self.running[job]
        run.promised_to = -1
        if self.jobs[job].kind == "malleable" and self.warning_us:
            run.done, run.saved = self.done_saved(job, self.now)
            run.leaving, run.written_us = True, self.now + self.warning_us
            run.expected_us = run.written_us
            wanted = self.needed(claim) - sum(claim.leaving.values())
            claim.leaving[job] = 0 if run.guest_of >= 0 else max(0, min(wanted, run.width))
            return
        done, saved = self.done_saved(job, self.now)
        kept = done if self.jobs[job].kind == "malleable" else saved
        self.receive(claim, job, self.stop(job, "preempted", kept), run)

    def receive(self, claim: Claim, job: int, freed: int, run: Run) -> None:
        if self.claims.get(claim.job) is not claim:
            return
        if run.guest_of == claim.job:
            lent = run.width
        else:
            lent = min(self.needed(claim), freed)
            claim.idle += lent
        if lent:
            self.loans.setdefault(claim.job, []).append(Loan(job, lent, -1))

    def resize(self, job: int, width: int) -> None:
        run = self.running[job]
        self.segments.append(Segment(job, run.segment_us, self.now, run.width, "resized"))
        run.done, run.saved = self.done_saved(job, self.now)
        run.since_us = max(run.since_us, self.now)
        run.width, run.segment_us = width, self.now
        run.expected_us = max(
            run.since_us + self.length(job, self.guess(job) - run.done, width), run.since_us + 1
        )

    # -- the events of on-demand jobs ----------------------------------------------------------------------

    def on_notice(self, job: int) -> None:
        if self.notice == "n" or self.jobs[job].submit_us <= self.now:
            return  # arrivals of this time have been handled already
        self.collect()
        wanted, predicted = self.jobs[job].nodes, self.jobs[job].predicted_us
        free = 0 if self.on_demand_waits() else self.free()
        promised, stops = self.plan(wanted - free, predicted) if self.notice == "cup" else ([], [])
        claim = Claim(job, wanted, deadline_us=predicted, collects=self.notice == "cua")
        self.claims[job] = claim
        if free:
            self.take_free(claim)
        for one in (*promised, *(victim for _, victim in stops)):
            self.running[one].promised_to = job
        self.timers += [(max(at, self.now), job, victim) for at, victim in stops]
        self.timers.append((predicted + self.release_us, job, -1))

    def plan(self, missing: int, predicted: int) -> tuple[list[int], list[tuple[int, int]]]:
        if missing <= 0:
            return [], []
        jobs = sorted(job for job in self.preemptable() if self.running[job].promised_to < 0)
        ending = [job for job in jobs if self.running[job].expected_us <= predicted]
        promised: list[int] = []
        for job in sorted(ending, key=lambda one: (self.running[one].expected_us, one)):
            if missing > 0:
                promised.append(job)
                missing -= self.running[job].width
        stops = []
        others = [job for job in jobs if job not in ending]
        for job in sorted(others, key=lambda one: (self.overhead(one, self.stop_us(one, predicted)), one)):
            if missing > 0:
                stops.append((self.stop_us(job, predicted), job))
                missing -= self.running[job].width
        return promised, stops

    def stop_us(self, job: int, predicted: int) -> int:
        spec, since = self.jobs[job], self.running[job].since_us
        if spec.kind == "malleable":
            return max(predicted - self.warning_us, self.now)
        if spec.interval_us and predicted > since:
            cycle = spec.interval_us + spec.write_us
            last = since + (predicted - since) // cycle * cycle
            if last > max(since, self.now):
                return last
        return max(predicted, self.now)

    def overhead(self, job: int, at: int) -> int:
        spec = self.jobs[job]
        if spec.kind == "malleable":
            return spec.setup_us
        if not spec.interval_us:
            return at - self.running[job].start_us
        done, saved = self.done_saved(job, at)
        return (done - saved) // spec.nodes + spec.setup_us

    def preemptable(self) -> list[int]:
        return sorted(
            job
            for job, run in self.running.items()
            if self.jobs[job].kind != "on_demand" and run.guest_of < 0 and not run.leaving
        )

    def on_arrival(self, job: int) -> None:
        if self.arrive(job):
            self.instant.add(job)

    def arrive(self, job: int) -> bool:
        claim = self.claims.setdefault(job, Claim(job, self.jobs[job].nodes))
        claim.arrived, claim.collects, claim.deadline_us = True, False, -1
        self.unpromise(job)
        missing = self.needed(claim) - sum(claim.leaving.values()) - self.free()
        shrink, victims = self.make_room(missing)
        if victims is None:
            self.close(claim)
            self.front.add(job)
            self.queue.add(job)
            self.instant.discard(job)
            return False
        for guest in self.guests(claim):
            if guest not in claim.leaving:
                self.preempt(guest, claim)
        self.take_free(claim)
        for lender, fewer in shrink:
            self.resize(lender, self.running[lender].width - fewer)
            claim.idle += fewer
            self.loans.setdefault(job, []).append(Loan(lender, fewer, self.running[lender].start_us))
        for victim in victims:
            self.preempt(victim, claim)
        self.start_if_complete(claim)
        return job not in self.queue

    def make_room(self, missing: int) -> tuple[list[tuple[int, int]], list[int] | None]:
        if missing <= 0:
            return [], []
        jobs = self.preemptable()
        if self.arrival == "spaa":
            spare = {
                job: max(self.running[job].width - self.jobs[job].least, 0)
                for job in jobs
                if self.jobs[job].kind == "malleable"
            }
            if sum(spare.values()) >= missing:
                return self.evenly(spare, missing), []
        if sum(self.running[job].width for job in jobs) < missing:
            return [], None
        victims = []
        for job in sorted(jobs, key=lambda one: (self.overhead(one, self.now), one)):
            if missing > 0:
                victims.append(job)
                missing -= self.running[job].width
        return [], victims

    @staticmethod
    def evenly(spare: dict[int, int], missing: int) -> list[tuple[int, int]]:
        """One node from each in turn, again and again; in the last round the first ones give."""
        given = dict.fromkeys(spare, 0)
        while missing:
            for job, most in spare.items():
                if missing and given[job] < most:
                    given[job] += 1
                    missing -= 1
        return [(job, fewer) for job, fewer in given.items() if fewer]

    def start_if_complete(self, claim: Claim) -> None:
        if not claim.arrived or claim.leaving:
            return
        if self.needed(claim) > 0:  # a node broke meanwhile
            self.arrive(claim.job)
            return
        del self.claims[claim.job]
        self.start(claim.job, claim.wanted, leased=True)

    def unpromise(self, job: int) -> None:
        for run in self.running.values():
            if run.promised_to == job:
                run.promised_to = -1

    def close(self, claim: Claim) -> None:
        self.unpromise(claim.job)
        for guest in self.guests(claim):
            self.running[guest].guest_of = -1
        del self.claims[claim.job]
        loans = self.loans.pop(claim.job, [])
        self.expand_all(loans, min(sum(loan.nodes for loan in loans), self.free()))

    def on_written(self, job: int) -> None:
        run = self.running[job]
        claim = next((one for one in self.claims.values() if job in one.leaving), None)
        freed = self.stop(job, "preempted", run.done)
        if claim is not None:
            del claim.leaving[job]
            self.receive(claim, job, freed, run)
            self.start_if_complete(claim)

    def on_timers(self) -> None:
        while due := sorted(timer for timer in self.timers if timer[0] <= self.now):
            self.timers.remove(due[0])
            _, on_demand, job = due[0]
            claim = self.claims.get(on_demand)
            if claim is None or claim.arrived:
                continue
            if job < 0:
                self.close(claim)
                continue
            run = self.running.get(job)
            if run is None or run.promised_to != on_demand or run.leaving:
                continue
            if self.needed(claim) <= sum(claim.leaving.values()):
                run.promised_to = -1
            else:
                self.preempt(job, claim)

    def on_completion(self, job: int) -> None:
        left = self.running[job].width
        self.stop(job, "finished", 0)
        waits = self.on_demand_waits()
        for loan in self.loans.pop(job, []):
            given = min(loan.nodes, left)
            left -= given
            if loan.shrunk_run_us >= 0:
                self.expand(loan, given)
            elif loan.job in self.queue and not waits:
                wanted = self.jobs[loan.job].nodes
                least = self.jobs[loan.job].least if self.jobs[loan.job].kind == "malleable" else wanted
                width = min(wanted, self.free() - left)
                if width >= least:
                    self.start(loan.job, width)

    def expand_all(self, loans: list[Loan], left: int) -> None:
        """Of so many idle nodes shrunk lenders get back what they lent; preempted ones do not resume."""
        for loan in loans:
            given = min(loan.nodes, left)
            left -= given
            if loan.shrunk_run_us >= 0:
                self.expand(loan, given)

    def expand(self, loan: Loan, given: int) -> None:
        run = self.running.get(loan.job)
        if run is not None and run.start_us == loan.shrunk_run_us and not run.leaving:
            more = min(given, self.jobs[loan.job].nodes - run.width)
            if more > 0:
                self.resize(loan.job, run.width + more)

    # -- the scheduler -------------------------------------------------------------------------------------

    def in_order(self) -> list[int]:
        return sorted(self.queue, key=lambda job: (job not in self.front, self.key(job), job))

    def key(self, job: int) -> int:
        return 0 if job in self.front else self.jobs[job].submit_us

    def scheduling_pass(self) -> None:
        while (queue := self.in_order()) and self.jobs[queue[0]].nodes <= self.free():
            self.start(queue[0], self.jobs[queue[0]].nodes)
        if queue:
            self.backfill(queue)
        self.start_guests()

    def backfill(self, queue: list[int]) -> None:
        head = self.jobs[queue[0]].nodes
        ends = sorted(
            (max(run.expected_us, self.now), run.width)
            for run in self.running.values()
            if run.guest_of < 0 and not run.leased
        )
        free, shadow, spare = self.free(), NEVER, 0
        for at, _ in ends:
            then = free + sum(width for end, width in ends if end <= at)
            if then >= head:
                shadow, spare = at, then - head
                break
        for job in queue[1:]:
            nodes = self.jobs[job].nodes
            if nodes > self.free():
                continue
            in_time = self.now + self.request_us(job, nodes) <= shadow
            if in_time or nodes <= spare:
                spare -= 0 if in_time else nodes
                self.start(job, nodes)

    def start_guests(self) -> None:
        for malleable in (False, True):
            for job in self.in_order():
                spec = self.jobs[job]
                if spec.kind == "on_demand" or (malleable and spec.kind != "malleable"):
                    continue
                least = spec.least if malleable else spec.nodes
                until = 0 if malleable else self.now + self.request_us(job, spec.nodes)
                for claim in self.claims.values():
                    if claim.idle >= least and claim.deadline_us >= until:
                        width = min(spec.nodes, claim.idle) if malleable else spec.nodes
                        claim.idle -= width
                        self.start(job, width, guest_of=claim.job)
                        break

    # -- failures ------------------------------------------------------------------------------------------

    def on_outages(self) -> None:
        while self.repairs_us and self.repairs_us[0] <= self.now:
            del self.repairs_us[0]
            self.down -= 1
        while self.failures and self.failures[0].at_us <= self.now:
            self.on_failure(self.failures.pop(0))

    def on_failure(self, failure: Failure) -> None:
        self.down += 1
        if failure.job >= 0 and self.jobs[failure.job].kind == "on_demand":
            self.lease_breaks(failure.job)
        elif failure.job >= 0:
            self.job_breaks(failure.job, failure.place)
        elif failure.held_for >= 0:
            self.claims[failure.held_for].idle -= 1
        for claim in list(self.claims.values()):
            self.start_if_complete(claim)

    def lease_breaks(self, job: int) -> None:
        """It begins anew, before all others, and its lenders have their nodes back."""
        width = self.running[job].width
        self.instant.discard(job)
        self.front.add(job)
        self.stop(job, "preempted", 0)
        self.expand_all(self.loans.pop(job, []), width - 1)

    def job_breaks(self, job: int, place: int) -> None:
        """A malleable job goes on with one node less, if it may; another one goes back to its latest checkpoint."""
        run, spec = self.running[job], self.jobs[job]
        malleable = spec.kind == "malleable" and not run.leaving
        if malleable and run.guest_of < 0 and run.width > spec.least:
            self.resize(job, run.width - 1)
            return
        host, promised = self.claims.get(run.guest_of), self.claims.get(run.promised_to)
        leaves_for = next((one for one in self.claims.values() if job in one.leaving), None)
        done, saved = self.done_saved(job, self.now)
        freed = self.stop(job, "preempted", done if malleable else saved)
        if leaves_for is not None:
            del leaves_for.leaving[job]
            before = leaves_for.idle
            self.receive(leaves_for, job, freed, run)
            promised, freed = leaves_for, run.width - (leaves_for.idle - before)
        if host is not None:
            host.idle -= 1
        elif promised is not None and place < run.width - freed:  # they have the first of its nodes
            promised.idle -= 1

    # -- time ----------------------------------------------------------------------------------------------

    def run(self) -> list[Segment]:
        on_demand = [job for job, spec in enumerate(self.jobs) if spec.kind == "on_demand"]
        arrivals = {job: self.jobs[job].submit_us for job in on_demand}
        notices = {job: self.jobs[job].notice_us for job in on_demand if self.jobs[job].notice_us >= 0}
        submits = {job: spec.submit_us for job, spec in enumerate(self.jobs) if job not in arrivals}
        while True:
            times = [
                *arrivals.values(),
                *notices.values(),
                *submits.values(),
                *(at for at, _, _ in self.timers),
                *(failure.at_us for failure in self.failures),
                *self.repairs_us,
            ]
            times += [min(self.end_us(job), run.written_us) for job, run in self.running.items()]
            if not times:
                return sorted(self.segments, key=lambda one: (one.start_us, one.job, one.end_us))
            self.now = min(times)
            for job in sorted(self.running):
                if not self.running[job].leased and self.end_us(job) == self.now:
                    self.stop(job, "finished", 0)
            self.collect()
            for job in sorted(job for job, run in self.running.items() if run.written_us == self.now):
                self.on_written(job)
            self.on_outages()
            self.on_timers()
            for job in sorted(self.running):
                if self.running[job].leased and self.end_us(job) == self.now:
                    self.on_completion(job)
            for due, handler in ((arrivals, self.on_arrival), (notices, self.on_notice)):
                for job in sorted(job for job, at in due.items() if at == self.now):
                    del due[job]
                    handler(job)
                    self.on_timers()
            for job in [job for job, at in submits.items() if at == self.now]:
                del submits[job]
                self.queue.add(job)
            self.collect()
            self.scheduling_pass()
