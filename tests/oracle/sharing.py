"""Jobs and machines in few words, and both truths about them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import NEVER_US
from emulator.mechanisms.oversubscribe.contention import EqualShares
from emulator.mechanisms.oversubscribe.machine import Demands, NodeShape, OversubscribedMachine
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable
from oracle.oversubscribe import Machine, SharedJob, SharedReference

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.contention import Contention

S = 1_000_000


def job(number: int, submit_s: float, run_s: float, shape: str, **more) -> SharedJob:
    """`shape` is the paper's: n2c1 is a core on each of two nodes."""
    nodes, cores = map(int, shape.removeprefix("n").split("c"))
    run_us, estimate_us = round(run_s * S), round(more.pop("estimate_s", run_s) * S)
    phases = tuple(round(each * S) for each in more.pop("phases_s", ())) or (run_us,)
    return SharedJob(number, round(submit_s * S), phases, estimate_us, nodes, cores, **more)


def cluster_of(
    machine: Machine,
    jobs: list[SharedJob],
    *,
    scheduler: str = "fcfs+easy",
    contention: Contention | None = None,
) -> OversubscribedMachine:
    table = JobTable.build(
        number=[each.number for each in jobs],
        submit_us=[each.submit_us for each in jobs],
        run_us=[each.run_us for each in jobs],
        estimate_us=[each.estimate_us for each in jobs],
        nodes=[each.nodes for each in jobs],
        extra={
            "cores": [each.cores for each in jobs],
            "memory_kib": [each.memory for each in jobs],
            "gpus": [each.gpus for each in jobs],
            "share_limit": [each.limit for each in jobs],
        },
    )
    shape = NodeShape(machine.cores, machine.slots, machine.memory, machine.gpus, machine.gpu_slots)
    by_number = {each.number: each for each in jobs}
    phases = {
        row: np.array(by_number[number].phases_us, np.int64)
        for row, number in enumerate(table.number.tolist())
        if len(by_number[number].phases_us) > 1
    }
    return OversubscribedMachine(
        machine.nodes,
        shape,
        SchedulerConfig.parse(scheduler),
        table,
        Demands.of(table, shape, phases),
        contention=contention,
    )


def schedule_of(cluster: OversubscribedMachine) -> dict[int, tuple[int, int]]:
    """Start and end by job number, after the run."""
    cluster.advance(NEVER_US)
    columns = (cluster.job_table().number, cluster.start_us, cluster.end_us)
    return {
        number: (start, end) for number, start, end in zip(*(each.tolist() for each in columns), strict=True)
    }


def seconds_of(cluster: OversubscribedMachine) -> dict[int, tuple[float, float]]:
    return {number: (start / S, end / S) for number, (start, end) in schedule_of(cluster).items()}


def reference_of(
    machine: Machine,
    jobs: list[SharedJob],
    *,
    scheduler: str = "fcfs+easy",
    contention: Contention | None = None,
) -> SharedReference:
    model = contention or EqualShares()
    return SharedReference(machine, jobs, easy=scheduler.endswith("easy"), speed=model.speed)


def random_case(rng: np.random.Generator, *, most_jobs: int = 25) -> tuple[Machine, list[SharedJob]]:
    """A small machine and jobs full of ties, some with memory, GPUs, limits and phases."""
    machine = Machine(
        nodes=int(rng.integers(1, 5)),
        cores=int(rng.integers(1, 5)),
        slots=int(rng.integers(1, 5)),
        memory=int(rng.choice((0, 8))),
        gpus=int(rng.choice((0, 0, 2))),
        gpu_slots=int(rng.integers(1, 4)),
    )
    longest_s, gap_s = int(rng.choice((3, 20))), int(rng.choice((0, 2, 6)))
    with_limits, with_phases = rng.random() < 0.3, rng.random() < 0.3
    jobs, submit_s = [], 0
    for number in rng.permutation(int(rng.integers(1, most_jobs + 1))) + 1:
        submit_s += int(rng.integers(0, gap_s + 1)) if rng.random() < 0.6 else 0
        run_s = int(rng.integers(1, longest_s + 1))
        phases: list[int] = [run_s * S]
        if with_phases and rng.random() < 0.5:
            cuts = np.unique(rng.integers(1, run_s * 4, size=int(rng.integers(1, 5)))) * S // 4
            phases = np.diff(np.concatenate(([0], cuts, [run_s * S]))).tolist()
        jobs.append(
            SharedJob(
                number=int(number),
                submit_us=submit_s * S,
                phases_us=tuple(phases),
                estimate_us=run_s * S * int(rng.choice((1, 1, 2, 5))),
                nodes=int(rng.integers(1, machine.nodes + 1)),
                cores=int(rng.integers(1, machine.cores + 1)),
                memory=int(rng.integers(0, 9)) if machine.memory else 0,
                gpus=int(rng.integers(0, machine.gpus + 1)),
                limit=int(rng.integers(1, 4)) if with_limits and rng.random() < 0.5 else 1 << 20,
            )
        )
    return machine, jobs


def dense_case(
    rng: np.random.Generator, nodes: int, *, jobs: int, gpus: int = 0
) -> tuple[Machine, list[SharedJob]]:
    """Far more jobs than there is room for, of whole nodes and of parts, that ask for too much time or too little."""
    plain = gpus > 0 or rng.random() < 0.7
    machine = Machine(
        nodes=nodes,
        cores=int(rng.integers(1, 5)),
        slots=int(rng.choice((1, 1, 2, 3))),
        memory=0 if plain else int(rng.choice((0, 8))),
        gpus=gpus if plain else int(rng.choice((0, 1))),
    )
    made, submit_s = [], 0
    for number in range(1, jobs + 1):
        submit_s += int(rng.integers(0, 3)) if rng.random() < 0.5 else 0
        run_s = int(rng.integers(1, 30))
        widest = nodes if rng.random() < 0.3 else max(1, nodes // 4)
        made.append(
            SharedJob(
                number=number,
                submit_us=submit_s * S,
                phases_us=(run_s * S,),
                estimate_us=max(1, int(run_s * S * rng.choice((0.3, 1, 1, 2, 6)))),
                nodes=int(rng.integers(1, widest + 1)),
                cores=machine.cores if rng.random() < 0.6 else int(rng.integers(1, machine.cores + 1)),
                memory=int(rng.integers(0, 9)) if machine.memory else 0,
                gpus=int(rng.integers(0, machine.gpus + 1)),
                limit=1 << 20 if plain or rng.random() < 0.7 else int(rng.integers(1, 4)),
            )
        )
    return machine, made


HALF = Fraction(1, 2)
