"""Headline figures counted from the run record alone, job by job and moment by moment, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.record.run_record import NodePool
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.record.run_record import RunRecord

S, HOUR = 1_000_000, 3_600_000_000
MALLEABLE = 2


class Job:
    """One row of the job table with its runs, in whole microseconds."""

    def __init__(self, record: RunRecord, row: int) -> None:
        jobs, runs = record.jobs, record.runs
        self.row, self.nodes = row, int(jobs.nodes[row])
        self.is_batch = jobs.kind[row] == Kind.BATCH
        self.state = JobState(int(record.state[row]))
        self.submit, self.run = int(jobs.submit_us[row]), int(jobs.run_us[row])
        self.start, self.end = int(record.start_us[row]), int(record.end_us[row])
        self.extra = {name: int(column[row]) for name, column in jobs.extra.items()}
        self.runs = [Run(record, at, self.nodes) for at in range(len(runs.job)) if runs.job[at] == row]

    @property
    def has_run(self) -> bool:
        """Whether it ran to its end or walltime limit."""
        return self.state == JobState.ENDED and self.start >= 0 and self.end >= 0

    @property
    def wait(self) -> int:
        return self.start - self.submit

    @property
    def response(self) -> int:
        return self.end - self.submit

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def owed(self) -> int:
        """Its run time alone on the size that it asked for; killed at its limit: at most what it had."""
        return min(self.run, self.length) if self.times(RunOutcome.KILLED) else self.run

    def times(self, outcome: RunOutcome) -> int:
        """How many of its runs ended so."""
        return sum(run.outcome == outcome for run in self.runs)


class Run:
    """One row of the run table; one that goes on counts to the horizon."""

    def __init__(self, record: RunRecord, at: int, asked: int) -> None:
        runs = record.runs
        self.nodes = runs.node[runs.first[at] : runs.first[at + 1]].tolist()
        self.width = len(self.nodes) or asked
        self.start, self.end = int(runs.start_us[at]), int(runs.end_us[at])
        self.end = record.horizon_us if self.end < 0 else self.end
        self.outcome = RunOutcome(int(runs.outcome[at]))
        self.done, self.lost = (
            (int(runs.done_node_us[at]), int(runs.lost_node_us[at])) if runs.has_work else (None, None)
        )

    @property
    def node_us(self) -> int:
        return self.width * (self.end - self.start)


def jobs_of(record: RunRecord) -> list[Job]:
    return [Job(record, row) for row in range(len(record.jobs))]


def mean(values: Iterable[float], unit: int = 1) -> float | None:
    found = list(values)
    return float(Fraction(sum(map(Fraction, found))) / len(found) / unit) if found else None


def percentile(values: list[int], percent: int) -> float | None:
    """Linear between the closest ranks, in seconds."""
    if not values:
        return None
    place = Fraction(percent * (len(values) - 1), 100)
    ranked, low = sorted(values), int(place)
    high = min(low + 1, len(ranked) - 1)
    return float(ranked[low] + (place - low) * (ranked[high] - ranked[low])) / S


def share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def headlines(record: RunRecord) -> dict[str, Any]:
    """The figures that every run has, as `docs/results.md` defines them."""
    every = jobs_of(record)
    batch = [job for job in every if job.is_batch]
    ran = [job for job in batch if job.has_run]
    waits = [job.wait for job in ran]
    all_runs = [(job, run) for job in every for run in job.runs]
    first = min((job.submit for job, _ in all_runs), default=0)
    makespan = max((run.end for _, run in all_runs), default=0) - first
    counted = {
        "jobs_in": len(batch) + sum(record.left_out.values()),
        "jobs_run": sum(job.state == JobState.ENDED for job in batch),
        "jobs_cancelled": sum(job.state in (JobState.CANCELLED, JobState.REJECTED) for job in batch),
        "jobs_killed_at_walltime": sum(job.times(RunOutcome.KILLED) for job in batch),
        "requeues": sum(job.times(RunOutcome.REQUEUED) for job in batch),
        "preemptions": sum(job.times(RunOutcome.PREEMPTED) for job in batch),
        "resizes": sum(job.times(RunOutcome.RESIZED) for job in batch),
        "mean_wait_s": mean(waits, S),
        "median_wait_s": percentile(waits, 50),
        "p95_wait_s": percentile(waits, 95),
        "max_wait_s": max(waits, default=0) / S if waits else None,
        "mean_response_s": mean((job.response for job in ran), S),
        "mean_bounded_slowdown": mean(
            max(Fraction(1), Fraction(job.response, max(job.owed, 10 * S))) for job in ran
        ),
        "slowdown_weighted_by_area": share(
            sum(job.nodes * job.response for job in ran if job.owed),
            sum(job.nodes * job.owed for job in ran if job.owed),
        ),
        "makespan_s": makespan / S,
    }
    lost = [run.lost if run.lost is not None else run.node_us * (run.outcome == RunOutcome.REQUEUED)
            for _, run in all_runs]  # fmt: skip
    done = [run.done for _, run in all_runs]
    counted["lost_node_h"] = sum(lost) / HOUR
    nodes, used = places(record)
    if nodes == len(record.node_names):  # elsewhere slots of cores are told apart
        had = sum(run.node_us for _, run in all_runs)
        counted["overhead_node_h"] = (had - sum(done)) / HOUR if None not in done and done else 0
        used = had
    counted |= {"nodes": nodes, "utilization": share(used, nodes * makespan)}
    return counted | (requests(record, every) if any(not job.is_batch for job in every) else {})


def places(record: RunRecord) -> tuple[int, int]:
    """How many nodes (where jobs share cores: cores) there are, and the time in which something runs on each."""
    shares = "oversubscribe" in (record.scenario.get("mechanism") or {})

    def place(name: str) -> str:
        return name.rsplit(".", 1)[0] if shares else name

    spans: dict[str, list[tuple[int, int]]] = {}
    for job in jobs_of(record):
        for run in job.runs:
            for node in run.nodes:
                spans.setdefault(place(record.node_names[node]), []).append((run.start, run.end))
    busy = 0
    for of_place in spans.values():
        reached = -1
        for start, end in sorted(of_place):
            busy += max(0, end - max(start, reached))
            reached = max(reached, end)
    return len({place(name) for name in record.node_names}), busy


def requests(record: RunRecord, every: list[Job]) -> dict[str, Any]:
    """On-demand requests that arrived and their answers; the reserve's node-time, node by node."""
    asked = [job for job in every if not job.is_batch and job.state != JobState.FUTURE]
    answers = {lease.job: lease for lease in record.leases}
    granted, rejected, waits = 0, 0, []
    for job in asked:
        lease = answers.get(job.row)
        is_granted = lease.granted if lease else bool(job.runs)
        granted += is_granted
        rejected += not lease.granted if lease else not job.runs and job.state == JobState.REJECTED
        if is_granted:
            waits.append((lease.decided_us if lease else job.runs[0].start) - job.submit)
    reserve = 0
    for node in range(len(record.node_names)):
        since = None
        for move in [*record.moves, None]:
            if move is not None and node not in move.nodes:
                continue
            if since is not None:
                until = record.horizon_us if move is None else min(move.at_us, record.horizon_us)
                reserve += max(0, until - max(since, record.begin_us))
            since = move.at_us if move is not None and move.pool == NodePool.OD_RESERVE else None
    return {
        "ondemand_requests": len(asked),
        "ondemand_granted": granted,
        "ondemand_rejected": rejected,
        "ondemand_undecided": len(asked) - granted - rejected,
        "mean_ondemand_wait_s": mean(waits, S),
        "max_ondemand_wait_s": max(waits) / S if waits else None,
        "reserve_idle_node_h": reserve / HOUR,
    }


# Each mechanism's own.


def of_pools(record: RunRecord) -> dict[str, Any]:
    """Of mechanisms that move nodes: why requests were refused, and to whom each node belonged at each moment."""
    every, nodes = jobs_of(record), range(len(record.node_names))
    spans: list[list[tuple[int, int, bool]]] = [[] for _ in nodes]
    used = {True: 0, False: 0}
    for job in every:
        for run in job.runs:
            used[job.is_batch] += run.node_us
            for node in run.nodes:
                spans[node].append((run.start, run.end, job.is_batch))
    moves_tell = any(move.pool == NodePool.OD_ALLOC for move in record.moves)
    spent = dict.fromkeys((pool.value for pool in NodePool), 0)
    for node in nodes:
        moves = [(move.at_us, move.pool) for move in record.moves if node in move.nodes]
        changes = [at for at, _ in moves] + [at for start, end, _ in spans[node] for at in (start, end)]
        inside = {at for at in changes if record.begin_us < at < record.horizon_us}
        for at, until in pairwise(sorted({record.begin_us, record.horizon_us, *inside})):
            pool = next((pool for moved, pool in reversed(moves) if moved <= at), NodePool.OA_IDLE)
            running = [is_batch for start, end, is_batch in spans[node] if start <= at < end]
            if pool == NodePool.OA_IDLE and True in running:
                pool = NodePool.OA_BUSY
            elif pool == NodePool.OA_IDLE and running and not moves_tell:
                pool = NodePool.OD_ALLOC
            spent[pool.value] += until - at
    ran = [(job, run) for job in every for run in job.runs]
    makespan = max((run.end for _, run in ran), default=0) - min((job.submit for job, _ in ran), default=0)
    refused = [lease.reason or "no reason given" for lease in record.leases if not lease.granted]
    of_requests = {
        "batch_utilization": share(used[True], len(nodes) * makespan),
        "ondemand_utilization": share(used[False], len(nodes) * makespan),
        "ondemand_rejected_by_reason": {reason: refused.count(reason) for reason in refused},
    }
    hours = {"node_time_h": {pool: node_us / HOUR for pool, node_us in spent.items()}}
    return hours | (of_requests if any(not job.is_batch for job in every) else {})


def of_hybrid(record: RunRecord) -> dict[str, Any]:
    """hybrid-fan-2021, section IV-D, where no job is warned and no node fails.

    Not `instant_start_ratio`: a job that found too few nodes may start in the same microsecond after all.
    """
    every = jobs_of(record)
    kinds: dict[str, Callable[[Job], bool]] = {
        "on_demand": lambda job: not job.is_batch,
        "malleable": lambda job: job.is_batch and job.extra["job_class"] == MALLEABLE,
        "rigid": lambda job: job.is_batch and job.extra["job_class"] != MALLEABLE,
    }
    found = {"turnaround_h": mean((job.response for job in every if job.state == JobState.ENDED), HOUR)}
    for name, is_kind in kinds.items():
        ended = [job.response for job in every if is_kind(job) and job.state == JobState.ENDED]
        found[f"turnaround_{name}_h"] = mean(ended, HOUR)
    for name in ("rigid", "malleable"):
        mine = [job for job in every if kinds[name](job)]
        found[f"preemption_ratio_{name}"] = share(
            sum(job.times(RunOutcome.PREEMPTED) > 0 for job in mine), len(mine)
        )
    waits = [
        (job.end if job.state == JobState.ENDED else record.horizon_us)
        - job.submit
        - sum(run.end - run.start for run in job.runs)
        for job in every
        if job.is_batch
    ]
    found["longest_wait_h"] = max([0, *waits]) / HOUR
    found["lost_recomputed_node_h"] = sum(run.lost or 0 for job in every for run in job.runs) / HOUR
    return found


def of_realtime(record: RunRecord, *, narrow_nodes: int) -> dict[str, Any]:
    """realtime-wang-2017: equation 21 and turnaround by kind and class, and how many wait at most a minute."""
    found: dict[str, Any] = {"slowdown_threshold_s": 600}
    ended = [job for job in jobs_of(record) if job.state == JobState.ENDED]
    classes: dict[str, Callable[[Job], bool]] = {
        "": lambda _: True,
        "_narrow_short": lambda job: job.nodes <= narrow_nodes and job.run <= 2 * HOUR,
        "_narrow_long": lambda job: job.nodes <= narrow_nodes and job.run > 2 * HOUR,
        "_wide_short": lambda job: job.nodes > narrow_nodes and job.run <= 2 * HOUR,
        "_wide_long": lambda job: job.nodes > narrow_nodes and job.run > 2 * HOUR,
    }
    for kind, is_urgent in (("realtime", 1), ("batch", 0)):
        for name, is_class in classes.items():
            mine = [job for job in ended if job.extra["real_time"] == is_urgent and is_class(job)]
            slowdowns = [
                Fraction(job.response - job.run + max(job.run, 600 * S), max(job.run, 600 * S))
                for job in mine
            ]
            found[f"{kind}_jobs{name}"] = len(mine)
            found[f"{kind}_slowdown{name}"] = mean(slowdowns)
            found[f"{kind}_turnaround_s{name}"] = mean((job.response for job in mine), S)
    urgent = [job.wait for job in ended if job.extra["real_time"]]
    found["realtime_within_a_minute"] = mean(int(wait <= 60 * S) for wait in urgent)
    found["realtime_longest_wait_s"] = max(urgent) / S if urgent else None
    stopped = [job.times(RunOutcome.PREEMPTED) + job.times(RunOutcome.REQUEUED) for job in jobs_of(record)]
    return found | {"preemptions": sum(stopped), "preempted_jobs": sum(map(bool, stopped))}


def of_classes(record: RunRecord) -> dict[str, Any]:
    """malleable-hungershoefer-2004, sections 4 and 6, over all and by class."""
    ran = [job for job in jobs_of(record) if job.is_batch and job.has_run]
    area = sum(job.run * job.nodes for job in ran if job.length)
    weighted = sum(Fraction(job.run * job.nodes * job.response, job.length) for job in ran if job.length)
    queues = [
        sum(other.start >= job.submit for other in ran[:place]) - sum(other.start < job.submit for other in ran[place:])
        for place, job in enumerate(ran)
    ]  # fmt: skip
    found = {
        "slowdown_by_real_length": float(weighted / area) if area else None,
        "mean_queue_at_submit": mean(queues),
    }
    for number, name in ((None, ""), (0, "rigid_"), (1, "moldable_"), (2, "malleable_")):
        mine = [job for job in ran if number is None or job.extra["job_class"] == number]
        changes = [job.times(RunOutcome.RESIZED) for job in mine]
        found |= {
            f"{name}jobs": len(mine),
            f"{name}mean_wait_s": mean((job.wait for job in mine), S),
            f"{name}mean_response_s": mean((job.response for job in mine), S),
            f"{name}mean_width": mean(
                Fraction(job.run * job.nodes, job.length) for job in mine if job.length
            ),
            f"{name}mean_changes": mean(changes),
            f"{name}max_changes": max(changes, default=0),
        }
    return found


def of_sharing(record: RunRecord, *, responsive_queues: list[int]) -> dict[str, Any]:
    """oversubscribing-minami-2023: equation 2, waits and completion."""
    over = [job for job in jobs_of(record) if job.start >= 0 and job.end >= 0]
    found: dict[str, Any] = {}
    for name, is_mine in (("responsive", True), ("normal", False)):
        mine = [job for job in over if (record.jobs.queue[job.row] in responsive_queues) == is_mine]
        found[f"jobs_{name}"] = len(mine)
        if mine:
            slowdowns = [Fraction(job.response, job.run) for job in mine]
            found |= {
                f"max_wait_s_{name}": max(job.wait for job in mine) / S,
                f"mean_wait_s_{name}": mean((job.wait for job in mine), S),
                f"max_slowdown_{name}": float(max(slowdowns)),
                f"mean_slowdown_{name}": mean(slowdowns),
                f"waiting_{name}": sum(job.wait > 0 for job in mine),
            }
    if over:
        slowdowns = [Fraction(job.response, job.run) for job in over]
        ends = sorted(job.end for job in over)
        found |= {
            "slowdown_100": sum(each >= 100 for each in slowdowns),
            "slowdown_100_share": mean(int(each >= 100) for each in slowdowns),
            "last_end_s": ends[-1] / S,
            "slowdown_at_most_2": mean(int(each <= 2) for each in slowdowns),
            "completion_90_h": ends[-(-9 * len(ends) // 10) - 1] / HOUR,
            "completion_95_h": ends[-(-19 * len(ends) // 20) - 1] / HOUR,
        }
    return found
