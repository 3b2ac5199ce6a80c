"""Random hybrid workloads, and one run of them by the mechanism and by the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.events.node_failures import Failures, all_to_come
from emulator.kernel.job_states import RunOutcome
from emulator.machine.points import Point
from emulator.mechanisms.hybrid import HybridMechanism
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from oracle.hybrid_reference import Failure, HybridJob, HybridReference, Segment

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

CLASSES = {"rigid": 0, "malleable": 2, "on_demand": 0}
_COLUMNS = {
    "job_class": 0, "min_nodes": 1, "setup_us": 0, "checkpoint_interval_us": 0, "checkpoint_us": 0,
    "notice_us": -1, "predicted_us": -1,
}  # fmt: skip
STRATEGIES = ("n+paa", "n+spaa", "cua+paa", "cua+spaa", "cup+paa", "cup+spaa")


def random_jobs(rng: np.random.Generator, *, jobs: int = 25, nodes: int = 12) -> tuple[list[HybridJob], int]:
    """Jobs in whole microseconds that are small numbers, many at one time, of all kinds; and the machine's nodes."""
    node_count = int(rng.integers(2, nodes + 1))
    widest = node_count if rng.random() < 0.5 else max(2, node_count // 3)
    found: list[HybridJob] = []
    now = 0
    for _ in range(int(rng.integers(1, jobs + 1))):
        now += int(rng.integers(0, 12)) * int(rng.random() < 0.6)
        found.append(random_job(rng, now, widest))
    return found, node_count


def random_job(rng: np.random.Generator, submit_us: int, widest: int) -> HybridJob:
    kind = str(rng.choice(["rigid", "malleable", "on_demand"], p=[0.4, 0.35, 0.25]))
    nodes = int(rng.integers(2 if kind == "malleable" else 1, widest + 1))
    run = int(rng.integers(1, 40))
    job = HybridJob(submit_us, run, run + int(rng.choice([0, 0, 3, 20])), nodes, kind, least=nodes)
    if kind == "malleable":
        return job._replace(least=int(rng.integers(1, nodes + 1)), setup_us=int(rng.integers(0, 4)))
    if kind == "rigid":
        interval = int(rng.choice([0, 3, 7]))
        write = int(rng.integers(0, 4)) if interval else 0
        return job._replace(setup_us=int(rng.integers(0, 5)), interval_us=interval, write_us=write)
    if rng.random() < 0.25:
        return job
    predicted = max(0, submit_us + int(rng.integers(-15, 16)))
    notice = max(0, min(predicted, submit_us) - int(rng.integers(0, 20)))
    return job._replace(predicted_us=predicted, notice_us=notice)


def announced_jobs(rng: np.random.Generator) -> tuple[list[HybridJob], int]:
    """On-demand jobs that are announced long before they come, while batch jobs wait that may run on their nodes.

    In half of the workloads the batch jobs are narrow and long, so that who runs there depends on time alone.
    """
    is_narrow = rng.random() < 0.5
    node_count = int(rng.integers(6, 20))
    found: list[HybridJob] = []
    now = 0
    for _ in range(int(rng.integers(20, 120))):
        now += int(rng.integers(0, 14)) * int(rng.random() < 0.6)
        if rng.random() < 0.2:
            arrival = now + int(rng.integers(5, 120 if is_narrow else 80))
            nodes = int(rng.integers(2, (node_count // 3 if is_narrow else node_count) + 1))
            run = int(rng.integers(1, 20))
            job = HybridJob(arrival, run, run, nodes, "on_demand", least=nodes, notice_us=now)
            found.append(job._replace(predicted_us=max(now, arrival + int(rng.integers(-10, 11)))))
            continue
        nodes = int(rng.choice([1, 1, 2] if is_narrow else [1, 1, 2, 3, node_count // 2, node_count - 1]))
        run = int(rng.integers(20, 90)) if is_narrow else int(rng.choice([2, 5, 15, 40, 90]))
        kind = "malleable" if nodes > 1 and rng.random() < 0.3 else "rigid"
        least = int(rng.integers(1, nodes + 1)) if kind == "malleable" else nodes
        found.append(HybridJob(now, run, run + int(rng.choice([0, 0, 5])), nodes, kind, least=least))
    return sorted(found, key=lambda job: job.submit_us), node_count


def slower(jobs: list[HybridJob], factor: int) -> list[HybridJob]:
    """The same jobs with all times so many times as long: little happens at one time."""
    times = [name for name in HybridJob._fields if name.endswith("_us")]
    return [
        job._replace(**{name: factor * value for name in times if (value := getattr(job, name)) >= 0})
        for job in jobs
    ]


def hybrid_jobs(table: JobTable) -> list[HybridJob]:
    """The jobs of a table that `hybrid_kinds` has made."""
    extra = {name: table.column(name, instead) for name, instead in _COLUMNS.items()}
    found = []
    for row in range(len(table)):
        of_row = {name: int(values[row]) for name, values in extra.items()}
        malleable = of_row["job_class"] == JobClass.MALLEABLE
        kind = "on_demand" if table.kind[row] == Kind.ON_DEMAND else "malleable" if malleable else "rigid"
        nodes = int(table.nodes[row])
        found.append(
            HybridJob(
                int(table.submit_us[row]),
                int(table.run_us[row]),
                int(table.estimate_us[row]),
                nodes,
                kind,
                least=of_row["min_nodes"] if malleable else nodes,
                setup_us=of_row["setup_us"],
                interval_us=of_row["checkpoint_interval_us"],
                write_us=of_row["checkpoint_us"],
                notice_us=of_row["notice_us"],
                predicted_us=of_row["predicted_us"],
            )
        )
    return found


def job_table(jobs: list[HybridJob]) -> JobTable:
    return JobTable.build(
        submit_us=[job.submit_us for job in jobs],
        run_us=[job.run_us for job in jobs],
        estimate_us=[job.estimate_us for job in jobs],
        nodes=[job.nodes for job in jobs],
        kind=[Kind.ON_DEMAND if job.kind == "on_demand" else Kind.BATCH for job in jobs],
        extra={
            "job_class": [CLASSES[job.kind] for job in jobs],
            "min_nodes": [job.least for job in jobs],
            "max_nodes": [job.nodes for job in jobs],
            "setup_us": [job.setup_us for job in jobs],
            "checkpoint_us": [job.write_us for job in jobs],
            "checkpoint_interval_us": [job.interval_us for job in jobs],
            "notice_us": [job.notice_us for job in jobs],
            "predicted_us": [job.predicted_us for job in jobs],
        },
    )


def make_loop(
    jobs: list[HybridJob],
    nodes: int,
    strategy: str,
    *,
    warning_us: int = 0,
    release_us: int = 10,
    scheduler: str = "fcfs+easy",
    **params: float,
) -> tuple[HybridMechanism, Loop]:
    mechanism = HybridMechanism(
        strategy, release_after_s=release_us / 1e6, warning_s=warning_us / 1e6, **params
    )
    machine = mechanism.make_machine(nodes, SchedulerConfig.parse(scheduler), job_table(jobs), 1)
    return mechanism, Loop(machine, mechanism)


def simulate(
    jobs: list[HybridJob], nodes: int, strategy: str, *, by_steps: bool = False, **params: Any
) -> tuple[RunRecord, HybridMechanism]:
    mechanism, loop = make_loop(jobs, nodes, strategy, **params)
    loop.run(by_steps=by_steps)
    return loop.record(), mechanism


def segments(record: RunRecord) -> list[Segment]:
    runs = record.runs
    rows = zip(runs.job, runs.start_us, runs.end_us, np.diff(runs.first), runs.outcome, strict=True)
    found = [
        Segment(int(j), int(s), int(e), int(n), RunOutcome(int(o)).name.lower()) for j, s, e, n, o in rows
    ]
    return sorted(found, key=lambda one: (one.start_us, one.job, one.end_us))


def reference(
    jobs: list[HybridJob],
    nodes: int,
    strategy: str,
    *,
    warning_us: int = 0,
    release_us: int = 10,
    failures: tuple[Failure, ...] = (),
    repairs_us: tuple[int, ...] = (),
) -> HybridReference:
    notice, _, arrival = strategy.partition("+")
    return HybridReference(
        jobs,
        nodes,
        notice,
        arrival,
        warning_us=warning_us,
        release_us=release_us,
        failures=failures,
        repairs_us=repairs_us,
    )


def drawn_outages(jobs: list[HybridJob], nodes: int, **params: float) -> list[tuple[int, int, bool]]:
    """(time in us, node, whether it fails or is up again) of the outages that `simulate` draws."""
    last_us = max(job.submit_us for job in jobs)
    drawn = Failures(stream(1, "mechanisms.hybrid.failures"), nodes, until_us=last_us, **params)
    return all_to_come(drawn)


def who_has_them(
    jobs: list[HybridJob], nodes: int, strategy: str, outages: list[tuple[int, int, bool]], **params: Any
) -> tuple[Failure, ...] | None:
    """The failures as the reference wants them told; None if one happens when a job leaves its nodes, too.

    Read from the tables of a run that is stopped just before each of them.
    """
    _, loop = make_loop(jobs, nodes, strategy, **params)
    machine = loop.machine
    loop.begin()
    found = []
    for at_us, node, _ in (each for each in outages if each[2]):
        while loop.now_us < at_us - 1:
            loop.step(at_us - 1)
        if machine.next_event_us <= at_us or loop._next_point() == (at_us, Point.CHECKPOINT):
            return None
        job, slot = int(machine.node_job[node]), int(machine.rules._held["holder"][node])
        place = machine.nodes_of(job).tolist().index(node) if job >= 0 else -1
        held_for = int(machine.rules._claim["job"][slot]) if job < 0 <= slot else -1
        found.append(Failure(at_us, job, place, held_for))
    return tuple(found)
