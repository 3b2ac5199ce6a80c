"""What the jobs of a log ask for beside processors: memory and GPUs, how all of it lies on nodes, QOS and features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from emulator.workload.job_columns import CONSTRAINT_OF_LOG, QOS_OF_LOG
from emulator.workload.rules import processors
from emulator.workload.swf import CONSTRAINT_KEY, GPUS_KEY, QOS_KEY, SwfLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.overruns import Size
    from emulator.workload.table import JobTable
    from emulator.workload.workload import Workload

NO_MEMORY = "memory not said, none taken"


def memory_kb(
    log: SwfLog, which: Literal["requested", "used"] = "requested"
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Memory of each processor of each job (SWF field 10 or 7), 0 where unknown."""
    return np.maximum(log.column(f"{which}_memory_kb"), 0)


def gpus(log: SwfLog) -> NDArray[np.int64] | None:
    """All GPUs of each job, 0 where unknown; None where the log says nothing of them."""
    found = log.further(GPUS_KEY)
    return None if found is None else np.maximum(np.rint(found).astype(np.int64), 0)


def with_requests(
    work: Workload,
    log: SwfLog,
    which: Literal["requested", "used"] = "requested",
    counted: dict[str, int] | None = None,
    size: Size = "nodes",
) -> JobTable:
    """The jobs with the extra columns `cores`, `memory_kib` and `gpus`: what each wants of each of its nodes.

    A job's processors are spread over its nodes, the same number on each, rounded up; so are its GPUs. A job whose
    processors the log does not say has no `cores`. Memory is in whole MiB, to the nearest. `counted`: where jobs are
    counted of which it says no memory. `size`: as in `to_jobs`.
    """
    rows, nodes = work.rows, work.jobs.nodes.astype(np.int64)
    procs = np.ceil(processors(log, size)[rows]).astype(np.int64)
    cores = np.where(procs > 0, -(-procs // nodes), -1)
    # What logs say of each processor is in whole KiB: its sum may be a little more than the node that a job had.
    memory_mib = np.rint(memory_kb(log, which)[rows] * np.maximum(cores, 0) / 1024)
    memory = memory_mib.astype(np.int64) * 1024
    if counted is not None and (unknown := int((memory == 0).sum())):
        counted[NO_MEMORY] = unknown
    of_all = gpus(log)
    of_each = np.zeros(len(rows), np.int64) if of_all is None else -(-of_all[rows] // nodes)
    return work.jobs.with_extra(cores=cores, memory_kib=memory, gpus=of_each)


def with_qos(work: Workload, log: SwfLog) -> Workload:
    """The jobs with the number of the QOS that the log says of each, and what these are called."""
    found = log.further(QOS_KEY)
    if found is None:
        return work
    numbers = found[work.rows].astype(np.int64)
    return replace(work, jobs=work.jobs.with_extra(**{QOS_OF_LOG: numbers}), qos_names=log.names_of("Qos"))


def with_constraints(work: Workload, log: SwfLog) -> Workload:
    """The jobs with the number of the constraint that the log says of each, and what these are."""
    found = log.further(CONSTRAINT_KEY)
    if found is None:
        return work
    numbers = found[work.rows].astype(np.int64)
    return replace(
        work,
        jobs=work.jobs.with_extra(**{CONSTRAINT_OF_LOG: numbers}),
        constraint_names=log.names_of("Constraint"),
    )
