"""The rules of `docs/slurm-twin.md`, slowly: sets of nodes, lists of jobs, one second after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.clock import NEVER_US, US
from oracle.slurm_site import MINUTE_US, NEVER, OF_JOBS, Running, SlurmSite, limit

if TYPE_CHECKING:
    from emulator.schedulers.slurm.reservations import Reserved
    from oracle.reference import Job

HELD_BACK_S = 121


@dataclass
class SlurmReference(SlurmSite):
    """`run()`: job number -> (start, end, nodes) of its last run. Jobs are given in any order.

    Their numbers are those of the trace. `runs`: all runs.
    """

    def run(self) -> dict[int, tuple[int, int, frozenset[int]]]:
        now: float = -1
        while True:
            own = self.next_time(now)
            comes_back = any(out.drain <= now < out.end < NEVER_US for out in self.outs)
            if own == NEVER and not (self.queue and comes_back):
                return {job.number: (run.start, run.end, run.nodes) for job, run in self.runs}
            now = min([own, *(time for out in self.outs for time in out[1:4] if now < time < NEVER_US)])
            self.instant(int(now))

    def next_time(self, now: float) -> float:
        times: list[float] = [job.submit_us for job in self.future[:1]]
        times += [run.end for run in self.running.values()]
        times += self.held.values()
        if self.queue:
            times.append(self.pass_at)
            times.append(self.fill_at)
            if self.rules.sched_interval > 0 and self.full_changed:
                times.append(after(now, self.rules.sched_interval))
            times += [time for time in self.boundaries() if time > now]
            if self.rules.changes_priorities and (self.running or self.future or self.held):
                times.append(after(now, self.rules.priority_calc_period))
        return min(times, default=NEVER)

    def instant(self, now: int) -> None:
        rules = self.rules
        if self.fill_at < now:  # a cycle at which nobody waited
            self.last_fill, self.fill_at, self.fills_go_on = self.fill_at, NEVER, False
        ending = [job for job, run in self.running.items() if run.end == now]
        for job in ending:
            self.end_run(job, now)
        nodes_moved = self.look_at_outages(now)
        released = self.release(now)
        submitted = [job for job in self.future if job.submit_us == now]
        for job in submitted:
            self.future.remove(job)
            self.queue.append(job)
            self.priority[job] = self.priority_of(job, now)
        might_be_last = rules.sched_interval < 0 and (nodes_moved or released)
        happened = now in self.boundaries() or self.last_leave == now or might_be_last
        if happened or submitted or nodes_moved:
            self.note_change(now)
            if (happened or (submitted and not rules.defer)) and self.pass_at == NEVER:
                self.pass_at = whole(max(now, self.last_pass + rules.sched_min_interval))
        if not self.queue:
            self.pass_at = NEVER
            return
        if rules.changes_priorities and on(now, rules.priority_calc_period):
            self.priority |= {job: self.priority_of(job, now) for job in self.queue}
            if self.running or self.future or self.held:
                self.note_change(now)
        self.queue.sort(key=self.order)
        if rules.sched_interval > 0 and self.full_changed and on(now, rules.sched_interval):
            self.full_changed = self.changes_with_time(now)
            self.main_pass(now, NEVER)
        elif self.pass_at <= now:
            self.main_pass(now, rules.default_queue_depth)
        if self.fill_at <= now:
            self.last_fill, self.fill_at = now, NEVER
            self.backfill(now)

    def note_change(self, now: float) -> None:
        """A cycle follows at once if there was none for an interval, else when that has passed."""
        rules = self.rules
        self.full_changed = True
        if rules.backfills and self.fill_at == NEVER:
            every, soon = rules.bf_interval * US, whole(now)
            if self.fills_go_on:
                self.fill_at = self.last_fill + max(-(-(soon - self.last_fill) // every), 1) * every
            elif self.last_fill + every > soon:
                self.fill_at = self.last_fill + every
            else:
                self.fill_at = soon + min(rules.bf_after_quiet * US, every)

    def end_run(self, job: Job, now: int) -> None:
        self.leave(job, now, "finished" if now == self.running[job].start + job.run_us else "killed")

    def changes_with_time(self, now: int) -> bool:
        """Whether a look at all jobs may find more than the last one though nothing happens."""
        return False

    # -- nodes that fail and are maintained ----------------------------------------------------------------

    def look_at_outages(self, now: int) -> bool:
        """Who runs on a node that goes down leaves its nodes. Returns whether nodes moved."""
        for out in self.outs:
            if out.begin == now:
                for job in [job for job, run in self.running.items() if run.nodes & set(out.nodes)]:
                    is_lost = out.lost or not self.rules.job_requeue
                    self.leave(job, now, "lost" if is_lost else "requeued")
                    if not is_lost:
                        self.held[job] = self.eligible[job] = (now // US + HELD_BACK_S) * US
                        self.submitted[job] = now
        self.out = {node for out in self.outs if out.drain <= now < out.end for node in out.nodes}
        return any(now in out[1:4] for out in self.outs)

    def release(self, now: int) -> bool:
        """Jobs that were held back may wait again. Returns whether there were any."""
        found = [job for job, time in self.held.items() if time <= now]
        for job in found:
            del self.held[job]
            self.queue.append(job)
            self.priority[job] = self.priority_of(job, now)
            self.full_changed = True
        if found and self.fills_go_on:
            self.note_change(now)
        return bool(found)

    def leave(self, job: Job, now: int, outcome: str) -> None:
        run = self.running.pop(job)
        run.end, run.outcome = now, outcome
        self.last_leave = now

    # -- nodes ---------------------------------------------------------------------------------------------

    def start(self, job: Job, nodes: frozenset[int], now: int) -> None:
        limit_end = now + limit(job)
        latest = limit_end + self.rules.over_time_limit * MINUTE_US
        killed = -(-latest // (30 * US)) * 30 * US
        self.queue.remove(job)
        run = self.running[job] = Running(now, limit_end, min(now + job.run_us, killed), nodes)
        self.runs.append((job, run))
        self.note_change(now)

    # -- preemption: `slurm_preemption.py` -----------------------------------------------------------------

    def idle_now(self, job: Job, left: set[int], now: int) -> set[int]:
        return self.with_room(job, left, self.running)

    def preempt(self, job: Job, left: set[int], now: int) -> bool:
        """Others leave their nodes for a job. Returns whether they do, or have done so just before."""
        return False

    def start_now(
        self,
        job: Job,
        nodes: frozenset[int],
        reserved: list[tuple[int, int, frozenset[int]]],
        now: int,
    ) -> int:
        """A cycle has found that a job can start now. Returns when it can after all."""
        self.start(job, nodes, now)
        return now

    # -- the main loop -------------------------------------------------------------------------------------

    def main_pass(self, now: int, depth: float) -> None:
        """Who is passed over is looked at, and written down, which a backfill cycle takes for a change."""
        self.pass_at, self.last_pass = NEVER, now
        blocked: set[Reserved | str] = set()
        kept: set[int] = set()
        passes_over = False
        rules, seen, looked_at, started = self.rules, Counter[str](), 0, 0
        for job in list(self.queue):
            if looked_at > depth or (started and started == rules.sched_max_job_start):
                break
            seen[self.partition(job)] += 1
            if rules.partition_job_depth and seen[self.partition(job)] > rules.partition_job_depth:
                continue
            looked_at += 1
            own = self.own(job)
            if (own or self.partition(job)) in blocked:
                passes_over = True
                continue
            if self.is_over_limit(job) or not self.may_run(job, now):
                continue
            left = self.open_nodes(job, now) - (set() if own else kept)
            idle = self.idle_now(job, left, now)
            if len(idle) >= job.nodes:
                self.start(job, self.choose(job, self.of_first_sets(job, idle), self.running), now)
                started += 1
                continue
            others_leave = self.preempt(job, left, now)
            if now - self.eligible[job] >= rules.bf_min_age_reserve * US:
                if own:
                    blocked.add(own)
                elif others_leave or not self.is_kept_out(job, now, kept):
                    blocked.add(self.partition(job))
                    kept |= self.partition_nodes(job)
        if passes_over and (self.running or self.future or self.held):
            self.note_change(now)

    # -- backfill ------------------------------------------------------------------------------------------

    def backfill(self, now: int) -> None:
        rules = self.rules
        reserved: list[tuple[int, int, frozenset[int]]] = []
        tested: list[Job] = []
        started = 0
        self.kept_for: list[Job] = []
        self.fills_go_on = False
        for job in list(self.queue):
            if len(tested) == rules.bf_max_job_test or (started and started == rules.bf_max_job_start):
                break
            if self.is_over_limit(job, OF_JOBS):
                continue
            same_user = [each for each in tested if each.user == job.user]
            same_partition = [each for each in tested if self.partition(each) == self.partition(job)]
            same_both = [each for each in same_user if each in same_partition]
            own = self.association(job)
            same_association = [each for each in tested if own is not None and self.association(each) == own]
            if any(
                most and len(same) >= most
                for most, same in (
                    (0 if rules.bf_max_job_assoc else rules.bf_max_job_user, same_user),
                    (rules.bf_max_job_assoc, same_association),
                    (rules.bf_max_job_part, same_partition),
                    (rules.bf_max_job_user_part, same_both),
                )
            ):
                continue
            tested.append(job)
            if self.is_over_limit(job):
                continue
            found = self.earliest(job, reserved, now)
            if found is None:
                continue
            begin, nodes = found
            if begin == now:
                begin = self.start_now(job, nodes, reserved, now)
            started += job in self.running
            is_old = now - self.eligible[job] >= rules.bf_min_age_reserve * US
            if begin > now and is_old and self.may_reserve(job):
                reserved.append((*self.blocks(job, begin, now), nodes))
        planned = {node for _, _, nodes in reserved for node in nodes}
        busy = {node for run in self.running.values() for node in run.nodes}
        self.fills_go_on |= not planned <= busy or (bool(reserved) and rules.since_24_11)
        if self.fills_go_on and (self.running or self.future or self.held):
            self.note_change(now)

    def may_reserve(self, job: Job) -> bool:
        """Whether the cycle has not reserved nodes for too many of the job's partition; it counts from now on."""
        same = [each for each in self.kept_for if self.partition(each) == self.partition(job)]
        if self.rules.bf_job_part_count_reserve and len(same) >= self.rules.bf_job_part_count_reserve:
            return False
        self.kept_for.append(job)
        return True

    def blocks(self, job: Job, begin: int, now: int) -> tuple[int, int]:
        """The blocks that are reserved: from that of the begin to before that of the end, since 24.11 with it."""
        block = self.rules.bf_resolution * US
        end = begin + limit(job)
        last = -(-end // block) if self.rules.since_24_11 else end // block
        return max(begin // block * block, now), max(last * block, now)

    def earliest(
        self, job: Job, reserved: list[tuple[int, int, frozenset[int]]], now: int
    ) -> tuple[int, frozenset[int]] | None:
        """A try is followed by one where nodes open before it would begin, or there if it met a plan.

        Since 24.11 the second counts where both do.
        """
        own = self.own(job)
        tried: float = max(now, own.start_s * US) if own else now
        while tried <= now + self.rules.bf_window * MINUTE_US:
            at = int(tried)
            later = min(self.next_opening(job, reserved, at, now), self.next_reservation_end(job, at))
            allowed = self.left_by_plan(job, reserved, at)
            found = self.first_begin(job, allowed, now, at, later)
            if found is None or not self.may_run(job, max(found[0], at)):
                tried = later
                continue
            begin, chosen = max(found[0], at), found[1]
            self.fills_go_on |= found[0] < at
            if begin == now:
                return begin, chosen
            begin_block, end_block = self.blocks(job, begin, now)
            is_met = any(
                nodes & chosen
                for first, last, nodes in reserved
                if begin_block < end_block and first < last and first < end_block and last > begin_block
            )
            opens, is_met = begin > later, is_met or not chosen <= self.open_nodes(job, begin)
            if opens and not (is_met and self.rules.since_24_11):
                tried = later
            elif is_met:
                tried = begin if begin > tried else tried + self.rules.bf_resolution * US
            else:
                return (begin, chosen) if begin <= now + self.rules.bf_window * MINUTE_US else None
        return None

    def left_by_plan(self, job: Job, reserved: list[tuple[int, int, frozenset[int]]], at: int) -> set[int]:
        """The nodes that nobody has planned from then until the job's limit has passed."""
        met = {
            node
            for first, last, nodes in reserved
            if first < last and first <= at + limit(job) and last > at
            for node in nodes
        }
        return self.open_nodes(job, at) - met

    def next_opening(
        self, job: Job, reserved: list[tuple[int, int, frozenset[int]]], tried: int, now: int
    ) -> float:
        """When the plan, as slots of time, next has nodes for the job that it lacks from `tried` on."""
        starts = sorted({now, *(time for first, last, _ in reserved for time in (first, last))})
        slots = [
            self.open_nodes(job, tried)
            - {node for first, last, nodes in reserved if first <= start < last for node in nodes}
            for start in starts
        ]
        left = self.open_nodes(job, tried)
        for place, (start, free) in enumerate(zip(starts, slots, strict=True)):
            after = starts[place + 1 :]
            if after and after[0] <= tried:
                continue
            left &= free
            if after and slots[place + 1] - left:
                return after[0]
            if start > tried + limit(job):
                return after[1] if len(after) > 1 and self.rules.since_24_11 else NEVER
        return NEVER

    def next_reservation_end(self, job: Job, tried: int) -> float:
        """A second after the block in which the next advance reservation ends, if one meets the job's time."""
        others = [each for each in self.rules.reservations if each != self.own(job)]
        if not any(each.start_s * US < tried + limit(job) and tried < each.end_s * US for each in others):
            return NEVER
        block = self.rules.bf_resolution * US
        ends = [each.end_s * US for each in self.rules.reservations if each.end_s * US >= tried]
        return -(-min(ends) // block) * block + US

    def first_begin(
        self,
        job: Job,
        allowed: set[int],
        now: int,
        tried: int,
        until: float,
    ) -> tuple[int, frozenset[int]] | None:
        """When the job could begin, and its nodes among these, in a try at `tried`; the next try is at `until`."""
        return self.first_free(job, allowed, now, self.running)

    def first_free(
        self, job: Job, allowed: set[int], now: int, running: dict[Job, Running]
    ) -> tuple[int, frozenset[int]] | None:
        """When enough of these nodes are free, and the job's: what runs goes by its end, one after the other."""
        by_end = sorted(
            (max(run.limit_end, now + US), other.submit_us, other.number, other)
            for other, run in running.items()
        )
        left, at = dict(running), now
        while len(free := self.with_room(job, allowed, left)) < job.nodes:
            if not by_end:
                return None
            at, _, _, other = by_end.pop(0)
            del left[other]
        starts = at == now and running is self.running
        return at, self.choose(job, self.of_first_sets(job, free) if starts else free, left)

    # -- nodes ---------------------------------------------------------------------------------------------

    def with_room(self, job: Job, nodes: set[int], running: dict[Job, Running]) -> set[int]:
        """Those of the nodes on which the job could run beside these ones."""
        return nodes - self.out - {node for run in running.values() for node in run.nodes}

    def of_first_sets(self, job: Job, nodes: set[int]) -> set[int]:
        """Of nodes that are enough those of the first sets that have enough."""
        if not self.node_sets:
            return nodes
        in_order = sorted(self.node_sets[node] for node in nodes)
        return {node for node in nodes if self.node_sets[node] <= in_order[job.nodes - 1]}

    def choose(self, job: Job, nodes: set[int], running: dict[Job, Running]) -> frozenset[int]:
        """Of these nodes, which are enough."""
        return best_fit(dict.fromkeys(nodes, 1), job.nodes)


def best_fit(cores: dict[int, int], needed: int) -> frozenset[int]:
    """The tightest set of neighbours that is large enough; if there is none the largest, then again.

    `cores`: the free ones of each node, which say how large a set is. The one node that is missing is the fullest.
    """
    chosen: list[int] = []
    left = set(cores)
    while len(chosen) < needed:
        sets = [neighbours(first, left) for first in sorted(left) if first - 1 not in left]
        rest = needed - len(chosen)

        def size(nodes: list[int]) -> int:
            return sum(cores[node] for node in nodes)

        best: list[int] = []
        for each in sets:  # one that is too small may take the place of one that is not
            is_tighter = len(best) < rest or size(each) < size(best)
            if (len(each) >= rest and is_tighter) or (len(each) < rest and size(each) > size(best)):
                best = each
        if rest == 1:
            best = [min(best, key=cores.__getitem__)]
        chosen += best[:rest]
        left -= set(best)
    return frozenset(chosen)


def neighbours(first: int, nodes: set[int]) -> list[int]:
    found = []
    while first in nodes:
        found.append(first)
        first += 1
    return found


def after(now: float, every_s: int) -> float:
    """The next multiple of an interval after now."""
    return (now // (every_s * US) + 1) * every_s * US


def on(now: int, every_s: int) -> bool:
    return now > 0 and now % (every_s * US) == 0


def whole(time_us: float) -> float:
    """The next whole second, or this one."""
    return -(-time_us // US) * US
