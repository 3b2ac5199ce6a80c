"""Equations 1 to 23 of realtime-wang-2017, one function each, named by their numbers.

Times are in any one unit and bandwidths in data per that unit, so whole numbers stay whole where they can. The
machine does not use these: it lets jobs work, write and read, and the tests hold what comes out against them.
`ch` (core-hours in the paper) is time x nodes; multiply by the cores of a node to have the paper's unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Preemption:
    """The i-th preemption of a job.

    `used`: time the job has run in its i-th execution (t_used). `gap`: time since it was checkpointed last, or
    since it began to work where it was not (ckpTgap). `data`: what its latest checkpoint holds (ckpData_latest), 0
    where there is none.
    """

    used: float = 0
    gap: float = 0
    data: float = 0


@dataclass(frozen=True, slots=True)
class History:
    """A batch job: its run time without overheads, its nodes, the preemptions that it met."""

    runtime: float
    nodes: int
    preemptions: tuple[Preemption, ...] = ()
    data: float = 0
    """Of one checkpoint (ckpData); the same for each."""


@dataclass(frozen=True, slots=True)
class Pfs:
    """Bandwidth of the parallel file system, as one job has it."""

    write: float
    read: float


# PRE-REST: preempted jobs start again from the beginning.


def eq1() -> float:
    """t_ckpt^j: nothing is checkpointed."""
    return 0


def eq2(job: History) -> float:
    """t_pre^j: all that the job has run in executions that were preempted."""
    return sum(each.used for each in job.preemptions)


def eq3() -> float:
    """ch_ckpt^sys."""
    return 0


def eq4(t_pre: Sequence[float], nodes: Sequence[int]) -> float:
    """ch_pre^sys over the batch jobs."""
    return _node_time(t_pre, nodes)


def eq5() -> float:
    """ch_ckpt^j."""
    return 0


# PRE-CKPT-SYS: the system checkpoints every job after each interval.


def eq6(job: History, pfs: Pfs, interval: float) -> float:
    """t_ckpt^j: floor(runtime / interval) writes."""
    return int(job.runtime // interval) * job.data / pfs.write


def eq7(job: History, pfs: Pfs) -> float:
    """t_pre^j: for each preemption, reading the latest checkpoint and the time since it was taken."""
    return sum(each.data / pfs.read + each.gap for each in job.preemptions)


def eq8(t_ckpt: Sequence[float], nodes: Sequence[int]) -> float:
    """ch_ckpt^sys over the batch jobs."""
    return _node_time(t_ckpt, nodes)


def eq9(t_pre: Sequence[float], nodes: Sequence[int]) -> float:
    """ch_pre^sys over the batch jobs."""
    return _node_time(t_pre, nodes)


def eq10() -> float:
    """ch_ckpt^j: the system's, not the job's."""
    return 0


# PRE-CKPT-APP: the application does, after an interval of its own; the core-hours are then the job's.


def eq11(job: History, pfs: Pfs, interval: float) -> float:
    """t_ckpt^j: floor(runtime / the job's interval) writes."""
    return int(job.runtime // interval) * job.data / pfs.write


def eq12(job: History, pfs: Pfs) -> float:
    """t_pre^j, as eq. 7."""
    return sum(each.data / pfs.read + each.gap for each in job.preemptions)


def eq13() -> float:
    """ch_ckpt^sys: the jobs', not the system's."""
    return 0


def eq14(t_pre: Sequence[float], nodes: Sequence[int]) -> float:
    """ch_pre^sys over the batch jobs."""
    return _node_time(t_pre, nodes)


def eq15(t_ckpt: float, nodes: int) -> float:
    """ch_ckpt^j."""
    return t_ckpt * nodes


# PRE-CKPT: a job is checkpointed right before it is preempted.


def eq16(job: History, pfs: Pfs) -> float:
    """t_ckpt^j: one write a preemption."""
    return sum(each.data / pfs.write for each in job.preemptions)


def eq17(job: History, pfs: Pfs) -> float:
    """t_pre^j: one read a preemption."""
    return sum(each.data / pfs.read for each in job.preemptions)


def eq18(t_ckpt: Sequence[float], nodes: Sequence[int]) -> float:
    """ch_ckpt^sys over the batch jobs."""
    return _node_time(t_ckpt, nodes)


def eq19(t_pre: Sequence[float], nodes: Sequence[int]) -> float:
    """ch_pre^sys over the batch jobs."""
    return _node_time(t_pre, nodes)


def eq20() -> float:
    """ch_ckpt^j."""
    return 0


# Metrics; equation 21 is `bounded_slowdown_wang` of `emulator/metrics/jobs.py`.


def eq22(
    useful: float, ch_ckpt_jobs: float, ch_pre_sys: float, ch_ckpt_sys: float, available: float
) -> float:
    """System utilisation. `useful`: sum of runtime x nodes over all jobs; `available`: makespan x nodes."""
    return (useful + ch_ckpt_jobs + ch_pre_sys + ch_ckpt_sys) / available


def eq23(useful: float, available: float) -> float:
    """Productive utilisation."""
    return useful / available


@dataclass(frozen=True, slots=True)
class Overhead:
    """What checkpoints and preemptions cost the batch jobs of a run, by the equations of a scheme."""

    t_ckpt: tuple[float, ...]
    t_pre: tuple[float, ...]
    ch_ckpt_sys: float
    ch_pre_sys: float
    ch_ckpt_jobs: float


def overhead(
    scheme: str,
    jobs: Sequence[History],
    pfs: Callable[[History], Pfs],
    interval: Callable[[int], float] | None = None,
) -> Overhead:
    """All equations of a scheme. `pfs`: the bandwidth that a job has; `interval(i)`: between job i's checkpoints."""
    nodes = [job.nodes for job in jobs]
    if scheme == "pre_rest":
        t_pre = [eq2(job) for job in jobs]
        return Overhead(tuple(eq1() for _ in jobs), tuple(t_pre), eq3(), eq4(t_pre, nodes), eq5())
    if scheme == "pre_ckpt":
        t_ckpt = [eq16(job, pfs(job)) for job in jobs]
        t_pre = [eq17(job, pfs(job)) for job in jobs]
        return Overhead(tuple(t_ckpt), tuple(t_pre), eq18(t_ckpt, nodes), eq19(t_pre, nodes), eq20())
    if interval is None:
        raise ValueError(f"{scheme} needs the interval between checkpoints")
    if scheme == "pre_ckpt_sys":
        t_ckpt = [eq6(job, pfs(job), interval(i)) for i, job in enumerate(jobs)]
        t_pre = [eq7(job, pfs(job)) for job in jobs]
        return Overhead(tuple(t_ckpt), tuple(t_pre), eq8(t_ckpt, nodes), eq9(t_pre, nodes), eq10())
    if scheme == "pre_ckpt_app":
        t_ckpt = [eq11(job, pfs(job), interval(i)) for i, job in enumerate(jobs)]
        t_pre = [eq12(job, pfs(job)) for job in jobs]
        own = sum(eq15(time, job.nodes) for time, job in zip(t_ckpt, jobs, strict=True))
        return Overhead(tuple(t_ckpt), tuple(t_pre), eq13(), eq14(t_pre, nodes), own)
    raise ValueError(f"there are no equations for {scheme!r}")


def _node_time(times: Iterable[float], nodes: Iterable[int]) -> float:
    return sum(time * count for time, count in zip(times, nodes, strict=True))
