"""Which rows of Slurm's accounting are one job, whatever form they came in (`sacct.py`, `sacct_json.py`).

A job that was requeued, preempted, lost a node or was resized has several rows under one number (of one cluster and
user, each submitted before the one above it was a day over): it is its last run, submitted when it first was; a resized
one keeps the size that it was first given. Rows may come newest first. The components of a heterogeneous job, which
start together, are one job where the number tells them (`5+0`, `5+1`). What a row says: `sacct_row.py`.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

import numpy as np

from emulator.workload.local_times import SACCT_REMEDY, LocalTimes
from emulator.workload.rows import (
    SAME_RUN,
    Malformed,
    Rows,
    whole,
)
from emulator.workload.sacct_row import HOW_TO_AVOID, NOT_ENDED, STATES, UNSAID, read_row
from emulator.workload.sacct_tres import constraint_of, gpus_of, memory_kb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from emulator.workload.rows import Faults
    from emulator.workload.sacct_row import Row
    from emulator.workload.swf import SwfLog

SIZE_FROM = "`sinfo -h -o %D` prints the number, and slurm.conf has the nodes in its NodeName lines"
_NUMBER = re.compile(r"\d+")
_STATUS = {"COMPLETED": 1, "CANCELLED": 5} | dict.fromkeys(NOT_ENDED, -1)
"""SWF's numbers for Slurm's states; all others that Slurm has are 0, failed."""
_NO_END, _MAYBE_THE_END = {"REQUEUED", "RESIZING"}, {"PREEMPTED", "NODE_FAIL"}
_MAY_GO_ON = _NO_END | _MAYBE_THE_END
STEPS, RUNS, RESIZES, COMPONENTS, SIBLINGS = (
    "step of a job", "earlier run of a job that ran again", "earlier size of a resized job",
    "further component of a heterogeneous job", "federated job that another cluster ran",
)  # fmt: skip
"""What a row is that is a part of a job."""
NO_FIRST_SIZE = "resized, and the row of its first size is not there; its wait is unknown"
OTHER_NODES = "had another number of nodes than it asked for, and what it had counts"
_GIVEN = (
    "number", "submit_s", "wait_s", "run_s", "allocated_procs", "requested_procs", "nodes", "requested_s",
    "requested_memory_kb", "gpus", "host", "reservation", "qos", "constraint", "status", "user", "group", "queue",
)  # fmt: skip
"""What a row says of its job, in this order."""


class SacctJobs:
    """Takes rows in the order of the output. With `steps`, those of job steps are kept as jobs of their own."""

    def __init__(self, *, steps: bool = False) -> None:
        self.steps = steps
        self.rows = Rows(LocalTimes(SACCT_REMEDY.format("sacct")))
        self._unfinished: dict[tuple[str, ...], Row] = {}
        self._leaders: dict[tuple[str, ...], int] = {}
        """Row of the first component of each heterogeneous job and of each of its runs."""
        self._components: set[tuple[str, ...]] = set()
        self._keys, self._jobs, self._submitted = array("q"), array("q"), array("q")
        """Of each row a number for its job, cluster, user and submit (rows of one come from exports that overlap), one
        without the submit, and when this run was submitted."""

    def take(self, row: Iterable[tuple[str, str]]) -> None:
        """One row, each field with sacct's name of it. Raises Malformed naming the field."""
        said = {name: text for name, text in row if text not in UNSAID}
        job = said.get("JobIDRaw") or said.get("JobID") or ""
        if job.isdecimal():
            number = job
        elif found := _NUMBER.match(job):
            number = found[0]
        else:
            raise Malformed(f"the job's number is {job[:40]!r}")
        if "." in job and not self.steps:
            self.rows.pass_over(STEPS)
            return
        if said.get("State") == "REVOKED":
            self.rows.pass_over(SIBLINGS)
            return
        self._take(read_row(job, whole(number, "JobID"), said, self.rows))
        if self.rows.clock.is_odd:
            self.rows.remark_on_times()

    def log(self, path: Path, faults: Faults) -> SwfLog:
        """All jobs. One whose last row says that it was requeued is there without a run time."""
        later = _Later(self.rows, self._jobs, self._submitted) if self._unfinished else None
        for row in self._unfinished.values():
            if later is None or not later.takes(row):
                self._last(row)
        self.rows.keep_last_records(self._keys)
        note = "from sacct; a job that ran again is its last run"
        return self.rows.log(path, note, faults, size_from=SIZE_FROM)

    def _take(self, row: Row) -> None:
        first = self._unfinished.get(row.key) if self._unfinished else None
        goes_on = False
        if first is not None:
            is_earlier = row.state in _MAY_GO_ON and row.submitted_s < first.submitted_s
            if is_earlier and row.goes_on_in(first):
                self._take_earlier(row, first)
                return
            if goes_on := first.goes_on_in(row):
                row = row._replace(submit_s=min(row.submit_s, first.submit_s))
                if first.state == "RESIZING":
                    row = row._replace(nodes=first.nodes, procs=first.procs)
        if row.starts_before_submit:
            if not row.is_second_size or self.rows.clock.is_local:
                why = f" (were clocks set back? {HOW_TO_AVOID})" if self.rows.clock.is_local else ""
                raise Malformed(f"Start {row.start_s} is before Submit {row.submit_s}{why}")
            self.rows.remark(NO_FIRST_SIZE)
        if first is not None:
            del self._unfinished[row.key]
            if goes_on:
                self.rows.pass_over(RESIZES if first.state == "RESIZING" else RUNS)
            else:
                self._last(first)
        if row.state in _MAY_GO_ON:
            self._unfinished[row.key] = row
        else:
            self._add(row)

    def _take_earlier(self, row: Row, later: Row) -> None:
        """A run of a job where a later one has come before it: some outputs have the newest row first."""
        later = later._replace(submit_s=min(row.submit_s, later.submit_s))
        if row.state == "RESIZING":
            later = later._replace(nodes=row.nodes, procs=row.procs)
        self._unfinished[row.key] = later
        self.rows.pass_over(RESIZES if row.state == "RESIZING" else RUNS)

    def _last(self, row: Row) -> None:
        """The last row of a job that might have gone on."""
        if row.state in _MAYBE_THE_END:
            self._add(row)
        else:
            self.rows.add(number=row.number, submit_s=row.submit_s, nodes=row.nodes)
            self._keep_key(row)

    def _keep_key(self, row: Row) -> None:
        job = hash(row.key)
        self._keys.append(hash((job, row.submitted_s)))
        self._jobs.append(job)
        self._submitted.append(row.submitted_s)

    def _add(self, row: Row) -> None:
        said, start_s, nodes = row.said, row.start_s, row.nodes
        if row.nodes_asked not in {0, nodes}:
            self.rows.remark(OTHER_NODES)
        size = row.procs if row.procs > 0 else nodes
        gpus = gpus_of(said, nodes)
        memory = memory_kb(said, size, nodes, self.rows)
        if "+" in (said.get("JobID") or row.job) and self._is_component(row, size, gpus, memory):
            return
        if "Cluster" in said:
            self.rows.remark_on_source("cluster", said["Cluster"])
        rows, submit_s, wait_s = self.rows, row.submit_s, -1
        if start_s is not None:
            wait_s = start_s - submit_s
            if row.is_second_size:
                submit_s, wait_s = start_s, -1
        rows.add_row(
            _GIVEN,
            (
                row.number,
                submit_s,
                wait_s,
                row.run_s,
                size,
                size,
                nodes,
                row.limit_s,
                memory,
                gpus,
                self._host(said),
                rows.reservations.number(said.get("Reservation")),
                rows.qos.number(said.get("QOS")),
                rows.constraints.number(constraint_of(said)),
                rows.known(_status, row.state, "State", -1),
                rows.users.number(said.get("User") or said.get("UID")),
                rows.groups.number(said.get("Group") or said.get("GID") or said.get("Account")),
                rows.queues.number(said.get("Partition")),
            ),
        )
        self._keep_key(row)

    def _is_component(self, row: Row, size: int, gpus: int, memory: int) -> bool:
        """Whether it is a further component of a heterogeneous job; then its size is added to the first one's, once."""
        leader, plus, component = row.said.get("JobID", row.job).partition("+")
        if not plus or not component.isdecimal():
            return False
        run = (leader, row.said.get("Cluster", ""), str(row.start_s))
        is_again = (*run, component) in self._components
        self._components.add((*run, component))
        at = self._leaders.setdefault(run, len(self.rows))
        if at == len(self.rows):
            return False
        self.rows.pass_over(SAME_RUN if is_again else COMPONENTS)
        if is_again:
            return True
        procs, of_first = (
            max(self.rows.value(name, at), 0) for name in ("allocated_procs", "requested_memory_kb")
        )
        if memory > 0 or of_first:
            of_all = of_first * procs + max(memory, 0) * max(size, 0)
            self.rows.put("requested_memory_kb", at, round(of_all / max(procs + max(size, 0), 1)))
        for name, more in (
            ("nodes", row.nodes), ("allocated_procs", size), ("requested_procs", size), ("gpus", gpus),
        ):  # fmt: skip
            self.rows.put(name, at, max(self.rows.value(name, at), 0) + max(more, 0))
        self.rows.put("host", at, -1)
        return True

    def _host(self, said: Mapping[str, str]) -> int:
        names = said.get("NodeList")
        return -1 if names is None or "[" in names or "," in names else self.rows.hosts.number(names)


def _status(state: str, name: str) -> int:
    """SWF's number for a state. Raises Malformed for a word that is none of Slurm's, or is cut."""
    if state not in STATES:
        raise Malformed(
            f"{name} is {state[:40]!r}, no state of Slurm; run sacct with --parsable2, and keep its words"
        )
    return _STATUS.get(state, 0)


class _Later:
    """The rows that a log has, to find those that are later runs of a job whose earlier run came behind them."""

    def __init__(self, rows: Rows, jobs: Sequence[int], submitted_s: Sequence[int]) -> None:
        self._rows, self._submitted_s = rows, submitted_s
        numbers = np.asarray(jobs, np.int64)
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._order]

    def takes(self, earlier: Row) -> bool:
        """Whether one of the rows is the next run of this job; then it has this one's submit (and first size)."""
        low, high = np.searchsorted(self._numbers, [hash(earlier.key), hash(earlier.key) + 1])
        for at in self._order[low:high].tolist():
            if not earlier.submitted_s < self._submitted_s[at] or not earlier.is_followed_at(
                self._submitted_s[at]
            ):
                continue
            submit_s, wait_s, run_s = (self._rows.value(name, at) for name in ("submit_s", "wait_s", "run_s"))
            first_s = min(submit_s, earlier.submit_s)
            self._rows.put("submit_s", at, first_s)
            if max(wait_s, run_s) >= 0:
                self._rows.put("wait_s", at, submit_s + max(wait_s, 0) - first_s)
            if wait_s < 0 <= run_s:
                self._rows.remarks[NO_FIRST_SIZE] -= 1
            if earlier.state == "RESIZING":
                for name, value in (
                    ("nodes", earlier.nodes), ("allocated_procs", earlier.procs), ("requested_procs", earlier.procs),
                ):  # fmt: skip
                    self._rows.put(name, at, value)
            self._rows.pass_over(RESIZES if earlier.state == "RESIZING" else RUNS)
            return True
        return False
