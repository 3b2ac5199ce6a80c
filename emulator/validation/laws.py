"""The laws that hold for every run, whatever the scheduler and the mechanism: `check` names each breach.

`assert_lawful` is for tests, `emulator run --check` prints what `check` returns. Only the record is read, by
other means than those that made it. Everything is vectorised: millions of jobs take seconds. If the record's
arrays do not fit together (`well_formed`), the other laws are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import seconds
from emulator.cluster.moldable import unlisted
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.record.lease_table import LeaseTable
from emulator.record.run_record import NodePool, first_start_us, resumed_rows, rows_after
from emulator.validation.job_laws import JOB_LAWS
from emulator.validation.node_laws import NODE_LAWS
from emulator.validation.node_use import NodeUse
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

_MOST = 10
"""So many breaches of one law are told one by one, the rest is counted."""


@dataclass(frozen=True, slots=True)
class Violation:
    """`law` is the name of a function below without its underscore; `text` is a sentence."""

    law: str
    text: str

    def __str__(self) -> str:
        return f"{self.law}: {self.text}"


class UnlawfulRunError(AssertionError):
    """A run broke a law: a bug in the scheduler, the mechanism or the record."""


def check(record: RunRecord, *, jobs_in: int | None = None) -> list[Violation]:
    """Every breach of a law. `jobs_in`, the number of jobs of the input, is held against it."""
    facts = _Facts(record, jobs_in)
    broken = _look(_well_formed, facts)
    if not broken:
        for law in _LAWS:
            broken += _look(law, facts)
    return broken


def assert_lawful(record: RunRecord, *, jobs_in: int | None = None) -> None:
    """Raise `UnlawfulRunError` with every breach on a line of its own."""
    if broken := check(record, jobs_in=jobs_in):
        raise UnlawfulRunError("\n".join(map(str, broken)))


def _look(law: Callable[[_Facts], Iterable[str]], facts: _Facts) -> list[Violation]:
    return [Violation(law.__name__.removeprefix("_"), text) for text in law(facts)]


class _Facts(NodeUse):
    """What the laws look at, and names for sentences."""

    def __init__(self, record: RunRecord, jobs_in: int | None) -> None:
        super().__init__(record)
        self.jobs_in = jobs_in

    @property
    def is_exact(self) -> bool:
        """Everything happened at its time: in virtual time, and live where the clock waited for everybody."""
        record = self.record
        if record.clock == "virtual":
            return True
        live: Any = record.scenario.get("live", {})
        return live.get("pace") == "held" and not (
            record.pace.get("dropped_processes") or record.pace.get("excused_processes")
        )

    def job(self, row: int) -> str:
        return f"job {self.record.jobs.number[row]}"

    def state(self, row: int) -> str:
        return JobState(int(self.record.state[row])).name

    def run(self, row: int) -> str:
        """The job of a run and when it had its nodes."""
        runs = self.record.runs
        end = "now" if runs.outcome[row] == RunOutcome.RUNNING else _s(runs.end_us[row])
        return f"{self.job(int(runs.job[row]))} ({_s(runs.start_us[row])} to {end})"

    def node(self, row: int) -> str:
        return f"node {self.record.node_names[row]}"


def _s(time_us: Any) -> str:
    return f"{seconds(int(time_us)):.15g} s"


def _tell(rows: NDArray[Any], sentence: Callable[[int], str]) -> Iterator[str]:
    """A sentence for each row, for the first few at least."""
    indices = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    for row in indices[:_MOST]:
        yield sentence(int(row))
    if len(indices) > _MOST:
        yield f"and {len(indices) - _MOST} more like these"


def _well_formed(facts: _Facts) -> Iterator[str]:
    """The arrays fit together, indices exist, runs and moves are in order of time."""
    record, runs = facts.record, facts.record.runs
    unfit = [*_wrong_lengths(facts), *_wrong_indices(facts)]
    yield from unfit
    if unfit:
        return
    if record.horizon_us < record.begin_us:
        yield f"the record ends at {_s(record.horizon_us)}, before it begins at {_s(record.begin_us)}"
    unknown = ~np.isin(record.state, list(JobState))
    yield from _tell(unknown, lambda row: f"{facts.job(row)} is in state {record.state[row]}, which is none")
    early = np.flatnonzero(np.diff(runs.start_us) < 0) + 1
    yield from _tell(early, lambda row: f"the run of {facts.run(row)} is listed after one that started later")
    for one, next_ in pairwise(record.moves):
        if next_.at_us < one.at_us:
            yield f"a move at {_s(next_.at_us)} is listed after one at {_s(one.at_us)}"


def _wrong_lengths(facts: _Facts) -> Iterator[str]:
    record, runs = facts.record, facts.record.runs
    jobs, count = len(record.jobs), len(runs.job)
    for name, rows in (("state", record.state), ("start_us", record.start_us), ("end_us", record.end_us)):
        if len(rows) != jobs:
            yield f"{name} has {len(rows)} rows for {jobs} jobs"
    for name, column in (("start_us", runs.start_us), ("end_us", runs.end_us), ("outcome", runs.outcome)):
        if len(column) != count:
            yield f"column {name} of the runs has {len(column)} rows for {count} runs"
    first = runs.first
    if len(first) != count + 1 or first[0] != 0 or first[-1] != len(runs.node) or np.any(np.diff(first) < 0):
        yield f"`first` of the runs does not cut {len(runs.node)} nodes into {count} runs"


def _wrong_indices(facts: _Facts) -> Iterator[str]:
    record = facts.record
    moved = np.array([node for move in record.moves for node in move.nodes], np.int64)
    leases = LeaseTable.of(record.leases).job
    for what, indices, kind, count in (
        ("a run", record.runs.job, "job", len(record.jobs)),
        ("a lease outcome", leases, "job", len(record.jobs)),
        ("a run", record.runs.node, "node", facts.nodes),
        ("a move", moved, "node", facts.nodes),
    ):
        if len(indices) and not (indices.min() >= 0 and indices.max() < count):
            yield f"{what} names a {kind} outside of the {count} there are"


def _no_number_twice(facts: _Facts) -> Iterator[str]:
    numbers, counts = np.unique(facts.record.jobs.number, return_counts=True)
    yield from _tell(counts > 1, lambda row: f"job {numbers[row]} is in the table {counts[row]} times")


def _no_start_before_submit(facts: _Facts) -> Iterator[str]:
    runs, jobs = facts.record.runs, facts.record.jobs
    yield from _tell(
        runs.start_us < jobs.submit_us[runs.job],
        lambda row: f"{facts.run(row)} was submitted at {_s(jobs.submit_us[runs.job[row]])}, after its start",
    )


def _runs_last_as_long_as_they_should(facts: _Facts) -> Iterator[str]:
    """Simulated batch jobs: a finished run lasts its run time, a killed one its limit at least, others not longer.

    Live a node that is lost may be noticed late, but nobody finishes early.
    """
    record, runs, jobs = facts.record, facts.record.runs, facts.record.jobs
    closed = runs.outcome != RunOutcome.RUNNING
    ends_us = np.where(closed, runs.end_us, np.maximum(record.horizon_us, runs.start_us))
    lasted_us = ends_us - runs.start_us
    yield from _tell(lasted_us < 0, lambda row: f"{facts.run(row)} ends before it starts")
    late = closed & (runs.end_us > record.horizon_us)
    yield from _tell(late, lambda row: f"{facts.run(row)} ends after the record, at {_s(record.horizon_us)}")
    if not facts.is_exact or runs.has_work:
        return  # what was done to running jobs is in their work
    run_us = jobs.run_us[runs.job]
    killed = runs.outcome == RunOutcome.KILLED
    wanted_us = np.where(killed, np.minimum(run_us, jobs.estimate_us[runs.job]), run_us)
    to_its_end = killed | (runs.outcome == RunOutcome.FINISHED)
    if record.clock == "virtual":
        wrong = np.where(to_its_end, lasted_us != wanted_us, lasted_us > wanted_us)
        # Who looks at limits now and then kills late, and never what would be over by then.
        wrong = np.where(killed, (lasted_us < wanted_us) | (lasted_us > run_us), wrong)
    else:
        wrong = (runs.outcome == RunOutcome.FINISHED) & (lasted_us < wanted_us)
    yield from _tell(
        wrong & (lasted_us >= 0) & (jobs.kind[runs.job] == Kind.BATCH),
        lambda row: (
            f"{facts.run(row)} lasted {_s(lasted_us[row])} and should have lasted {_s(wanted_us[row])}"
        ),
    )


def _states_agree_with_runs(facts: _Facts) -> Iterator[str]:
    """An ended job has one run that came to an end, with its times; a running one has an open run."""
    record, runs = facts.record, facts.record.runs
    count = len(record.jobs)
    final = (runs.outcome == RunOutcome.FINISHED) | (runs.outcome == RunOutcome.KILLED)
    finals = np.bincount(runs.job[final], minlength=count)
    opens = np.bincount(runs.job[runs.outcome == RunOutcome.RUNNING], minlength=count)
    ended, running = record.state == JobState.ENDED, record.state == JobState.RUNNING
    yield from _tell(
        finals != ended,
        lambda row: f"{facts.job(row)} is {facts.state(row)} and {finals[row]} of its runs came to an end",
    )
    yield from _tell(
        opens != running,
        lambda row: f"{facts.job(row)} is {facts.state(row)} and {opens[row]} of its runs still go on",
    )
    last = np.flatnonzero(final)
    row_of = runs.job[last]
    start_us = first_start_us(runs)
    differs = (record.start_us[row_of] != start_us[last]) | (record.end_us[row_of] != runs.end_us[last])
    yield from _tell(
        last[differs],
        lambda row: (
            f"{facts.run(row)} is said to have run from {_s(record.start_us[runs.job[row]])} "
            f"to {_s(record.end_us[runs.job[row]])}"
        ),
    )
    if np.any(np.bincount(runs.job, minlength=count) > 1):
        # Runs are in order of start; a stable sort puts the runs of one job together and keeps that.
        order = np.argsort(runs.job, kind="stable")
        again = (runs.job[order][1:] == runs.job[order][:-1]) & (
            runs.start_us[order][1:] < facts.run_end_us[order][:-1]
        )
        yield from _tell(order[1:][again], lambda row: f"{facts.run(row)} was still running when it started")


def _every_job_is_accounted_for(facts: _Facts) -> Iterator[str]:
    """Jobs in = ended + waiting + running + rejected + cancelled + left out; nobody was forgotten."""
    record = facts.record
    left_out = sum(record.left_out.values())
    if facts.jobs_in is not None and facts.jobs_in != len(record.jobs) + left_out:
        yield f"{facts.jobs_in} jobs came in, {len(record.jobs)} are here, {left_out} were left out"
    if record.interrupted and record.clock == "live":
        return  # nothing can be submitted to a batch server that is gone, and its end ends the run
    forgotten = (record.state == JobState.FUTURE) & (record.jobs.submit_us < record.horizon_us)
    if record.interrupted:
        forgotten &= record.jobs.kind == Kind.BATCH  # a lease may wait for its answer
    yield from _tell(
        forgotten,
        lambda row: (
            f"{facts.job(row)} was due at {_s(record.jobs.submit_us[row])} and was never submitted, "
            f"though the record goes on to {_s(record.horizon_us)}"
        ),
    )


def _every_run_is_as_wide_as_asked(facts: _Facts) -> Iterator[str]:
    """A rigid job has the nodes it asked for, another one stays within its bounds; a lease may lose some that fail."""
    if not facts.has_node_identities:
        return
    runs, jobs = facts.record.runs, facts.record.jobs
    given, asked = np.diff(runs.first), jobs.nodes[runs.job]
    least = jobs.column("min_nodes", jobs.nodes)[runs.job]
    if facts.record.scenario.get("failures"):
        least = np.where(_goes_on(facts) & (jobs.kind[runs.job] == Kind.ON_DEMAND), 1, least)
    most = jobs.column("max_nodes", jobs.nodes)[runs.job]
    yield from _tell(
        (given < least) | (given > most),
        lambda row: (
            f"{facts.run(row)} asked for {asked[row]} nodes and got {given[row]}"
            if least[row] == most[row]
            else f"{facts.run(row)} can use {least[row]} to {most[row]} nodes and got {given[row]}"
        ),
    )


def _goes_on(facts: _Facts) -> NDArray[np.bool_]:
    """Rows in which a run goes on with other nodes."""
    found = np.zeros(len(facts.record.runs.job), np.bool_)
    found[rows_after(facts.record.runs, RunOutcome.RESIZED)[:, 1]] = True
    return found


def _a_moldable_job_has_one_of_its_sizes(facts: _Facts) -> Iterator[str]:
    """Nodes, run time and walltime together (docs/moldable.md); other jobs have the nodes they asked for."""
    yield from unlisted(facts.record)


def _owed(facts: _Facts) -> NDArray[np.int64]:
    """Node-us that each job owes. A lease that went on with fewer nodes ended at its time: it owes what it had."""
    runs, jobs = facts.record.runs, facts.record.jobs
    owed: NDArray[np.int64] = jobs.run_us * jobs.nodes
    if not (facts.record.scenario.get("failures") and facts.has_node_identities):
        return owed
    changed = np.zeros(len(jobs), np.bool_)
    changed[runs.job[runs.outcome == RunOutcome.RESIZED]] = True
    changed &= jobs.kind == Kind.ON_DEMAND
    had = np.zeros(len(jobs), np.int64)
    ends_us = np.where(runs.outcome == RunOutcome.RUNNING, facts.record.horizon_us, runs.end_us)
    np.add.at(had, runs.job, (ends_us - runs.start_us) * np.diff(runs.first))
    return np.where(changed, had, owed)


def _work_done_is_work_owed(facts: _Facts) -> Iterator[str]:
    """A job that finished did what it owed, once, whatever was done to it; nobody worked faster than its nodes."""
    runs, jobs = facts.record.runs, facts.record.jobs
    if not runs.has_work:
        return
    done, lost = runs.done_node_us, runs.lost_node_us
    kept = np.zeros(len(jobs), np.int64)
    np.add.at(kept, runs.job, done - lost)
    owed = _owed(facts)
    finished = np.zeros(len(jobs), np.bool_)
    finished[runs.job[runs.outcome == RunOutcome.FINISHED]] = True
    yield from _tell(
        (finished & (kept != owed)) | (kept < 0) | (kept > owed),
        lambda row: f"{facts.job(row)} owed {owed[row]} node-us of work and did {kept[row]}",
    )
    if not facts.is_exact:
        return  # at a free pace a process hears of other nodes a moment after the server's account has changed
    ends_us = np.where(runs.outcome == RunOutcome.RUNNING, facts.record.horizon_us, runs.end_us)
    given = np.diff(runs.first) if facts.has_node_identities else jobs.nodes[runs.job]
    # Where speed-up is less than linear, a job on fewer nodes than it asked for makes more of each.
    busy = np.where(jobs.column("sublinear", 0)[runs.job] > 0, np.maximum(given, jobs.nodes[runs.job]), given)
    possible = np.maximum(ends_us - runs.start_us, 0) * busy
    yield from _tell(
        (done < 0) | (done > possible),
        lambda row: f"{facts.run(row)} did {done[row]} node-us of work, its nodes could do {possible[row]}",
    )


def _a_suspended_job_goes_on_where_its_memory_is(facts: _Facts) -> Iterator[str]:
    """What left its nodes and kept its memory has the same nodes again, or is still suspended at the end."""
    record, runs = facts.record, facts.record.runs
    pairs = resumed_rows(runs)
    away = np.setdiff1d(np.flatnonzero(runs.outcome == RunOutcome.SUSPENDED), pairs[:, 0])
    count = np.bincount(runs.job[away], minlength=len(record.jobs))
    yield from _tell(
        (count > 0) != (record.state == JobState.SUSPENDED),
        lambda row: (
            f"{facts.job(row)} is {facts.state(row)} and {count[row]} of its runs wait for their nodes"
        ),
    )
    if not facts.has_node_identities:
        return
    moved = [
        after
        for before, after in pairs
        if set(runs.node[runs.first[before] : runs.first[before + 1]].tolist())
        != set(runs.node[runs.first[after] : runs.first[after + 1]].tolist())
    ]
    yield from _tell(
        np.array(moved, np.intp),
        lambda row: f"{facts.run(row)} goes on, and not on the nodes on which its memory is",
    )


def _no_node_is_booked_twice(facts: _Facts) -> Iterator[str]:
    if facts.has_node_identities:
        stays = facts.stays
        # If any two stays on a node overlap, two neighbours do.
        clash = (stays.node[1:] == stays.node[:-1]) & (stays.start_us[1:] < stays.end_us[:-1])
        yield from _tell(clash, lambda row: _booked_twice(facts, row))
    else:
        yield from _never_more_than_there_are(facts)


def _booked_twice(facts: _Facts, row: int) -> str:
    run, next_run = int(facts.stays.run[row]), int(facts.stays.run[row + 1])
    node = facts.node(int(facts.stays.node[row]))
    if run == next_run:
        return f"{facts.run(run)} has {node} twice"
    return f"{node} is booked twice: {facts.run(run)} and {facts.run(next_run)}"


def _never_more_than_there_are(facts: _Facts) -> Iterator[str]:
    """Without node identities: at no time do the runs have more nodes than are not taken from them."""
    record, runs = facts.record, facts.record.runs
    allotted = any(stint.pool == NodePool.OD_ALLOC for stint in facts.stints)
    counts = np.ones(len(runs.job), np.bool_)
    if allotted:
        counts = ~facts.is_lease(np.arange(len(runs.job)))
    width = record.jobs.nodes[runs.job][counts].astype(np.int64)
    stint_us = np.array([(stint.start_us, stint.end_us) for stint in facts.stints], np.int64).reshape(-1, 2)
    one = np.ones(len(stint_us), np.int64)
    times_us = np.concatenate(
        (runs.start_us[counts], facts.run_end_us[counts], stint_us[:, 0], stint_us[:, 1])
    )
    order = np.argsort(times_us, kind="stable")
    in_use = np.cumsum(np.concatenate((width, -width, one, -one))[order])
    times_us = times_us[order]
    settled = np.append(times_us[1:] != times_us[:-1], True) if len(times_us) else np.zeros(0, np.bool_)
    yield from _tell(
        settled & (in_use > facts.nodes),
        lambda row: f"{in_use[row]} nodes are in use at {_s(times_us[row])}, there are {facts.nodes}",
    )


def _a_node_given_away_runs_no_batch_job(facts: _Facts) -> Iterator[str]:
    """OD_ALLOC and OD_RESERVE run no batch job, OD_RESERVE no lease; on a DOWN node nothing starts."""
    if not facts.has_node_identities:
        return
    sentences = []
    for overlap in facts.overlaps:
        stint, run = overlap.stint, overlap.run
        if stint.pool == NodePool.DOWN:
            wrong = int(facts.record.runs.start_us[run]) >= stint.start_us
        else:
            wrong = stint.pool == NodePool.OD_RESERVE or not facts.is_lease(run)
        if wrong:
            sentences.append(
                f"{facts.node(stint.node)} is {stint.pool} from {_s(stint.start_us)} to {_s(stint.end_us)} "
                f"and runs {facts.run(run)}"
            )
    yield from _tell(np.arange(len(sentences)), sentences.__getitem__)


def _each_lease_has_one_outcome(facts: _Facts) -> Iterator[str]:
    """A lease that is over or has nodes was granted or rejected, once; a batch job was neither."""
    record = facts.record
    count = len(record.jobs)
    leases = LeaseTable.of(record.leases)
    outcomes = np.bincount(leases.job, minlength=count)
    lease = record.jobs.kind == Kind.ON_DEMAND
    yield from _tell(
        ~lease & (outcomes > 0), lambda row: f"{facts.job(row)} is a batch job and has the outcome of a lease"
    )
    yield from _tell(
        lease & (outcomes > 1), lambda row: f"lease {facts.job(row)} has {outcomes[row]} outcomes"
    )
    done = np.isin(record.state, (JobState.ENDED, JobState.RUNNING, JobState.REJECTED))
    if not record.interrupted:
        done |= record.state == JobState.QUEUED
    yield from _tell(
        lease & done & (outcomes == 0),
        lambda row: f"lease {facts.job(row)} is {facts.state(row)} and was never decided",
    )
    wrong = leases.granted == (record.state[leases.job] == JobState.REJECTED)
    early = leases.decided_us < record.jobs.submit_us[leases.job]
    for place in np.flatnonzero(wrong | early).tolist():
        one = leases[place]
        if wrong[place]:
            answer = "granted" if one.granted else "rejected"
            when = _s(one.decided_us)
            yield f"lease {facts.job(one.job)} was {answer} at {when} and is {facts.state(one.job)}"
        if early[place]:
            yield f"lease {facts.job(one.job)} was decided at {_s(one.decided_us)}, before it was asked for"


def _node_time_adds_up(facts: _Facts) -> Iterator[str]:
    """Idle + batch + on-demand + reserve + down = nodes x duration, to the microsecond (I17)."""
    account = facts.node_time()
    if account.total_us != facts.total_us or account.idle_us < 0:
        yield f"{account} adds up to {account.total_us} us, there are {facts.total_us} us"


def _jobs_say_what_their_account_says(facts: _Facts) -> Iterator[str]:
    yield from facts.record.contradictions


_LAWS = (
    _no_number_twice,
    _no_start_before_submit,
    _runs_last_as_long_as_they_should,
    _states_agree_with_runs,
    _every_job_is_accounted_for,
    _every_run_is_as_wide_as_asked,
    _a_moldable_job_has_one_of_its_sizes,
    _work_done_is_work_owed,
    _a_suspended_job_goes_on_where_its_memory_is,
    _no_node_is_booked_twice,
    _a_node_given_away_runs_no_batch_job,
    _each_lease_has_one_outcome,
    _node_time_adds_up,
    _jobs_say_what_their_account_says,
    *NODE_LAWS,
    *JOB_LAWS,
)
