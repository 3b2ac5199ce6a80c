"""From two logs to weeks: what each week's batch users and on-demand users asked for.

A week begins with the jobs that ran at its beginning (`preload`). A batch log without waits cannot say what ran;
then the week before is replayed as well and left out of the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from balancer.predictors.interface import Slots
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import grouped
from emulator.workload import challenge, packing, preload
from emulator.workload.cloud_rows import SHARED_KEY
from emulator.workload.local_times import is_assumed, not_one_clock
from emulator.workload.requests import with_qos
from emulator.workload.rules import not_read, remarks, to_jobs, with_times_of_jobs
from emulator.workload.sharing import pack_shared
from emulator.workload.streams import stream
from emulator.workload.swf import GPUS_KEY
from emulator.workload.table import JobTable, Kind
from emulator.workload.unavailable_nodes import unavailable_times

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.workload.overruns import Overrun
    from emulator.workload.sharing import Shared
    from emulator.workload.swf import SwfLog
    from emulator.workload.workload import Workload

WEEK_S = 604_800
_WEEK_US = WEEK_S * US
_HISTORY_WEEKS = 4
_LEAST_DAYS = 6
"""So many days must lie between a week's begin and the log's last submit, or the week is not complete."""
_MOST_NODES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Logs:
    """Both logs as tables at the batch log's own times, and what was done to them.

    `batch` has only jobs that fit the batch part; `waited_us` is what each of them waited by the log, negative where it
    does not say; `notes` says in sentences what a reader must know. `shared_queue` is the queue of the nodes that jobs
    share (`sharing.py`), or that are down or reserved, None if none do. `down` has outages and
    reservations as jobs of one node.
    """

    log: SwfLog
    batch: JobTable
    waited_us: NDArray[np.int64]
    leases: JobTable
    weeks: tuple[challenge.Week, ...]
    batch_nodes: int
    notes: tuple[str, ...]
    shared_queue: int | None = None
    down: JobTable = field(default_factory=JobTable.empty)

    @property
    def has_waits(self) -> bool:
        return bool((self.log.column("wait_s") >= 0).any())

    @property
    def warm_up_us(self) -> int:
        return 0 if self.has_waits else _WEEK_US


@dataclass(frozen=True, slots=True)
class Pair:
    """A batch week that meets an on-demand week; numbers of weeks of the batch log. `pairing` 1: as it was."""

    batch: int
    leases: int
    pairing: int


def read_logs(
    batch: SwfLog,
    ondemand: SwfLog,
    *,
    batch_nodes: int,
    procs_per_node: int = 1,
    cores_per_node: int | None = None,
    lay_together: bool = False,
    shared_nodes: bool = False,
    memory_gib_per_node: float | None = None,
    gpus_per_node: int | None = None,
    down_nodes: Path | None = None,
    reservations: Path | None = None,
    overrun: Overrun = "extend",
) -> Logs:
    """The tables of both logs. Raises ScenarioError where they have no time in common, or one does not say its time.

    `shared_nodes`: batch jobs of fewer than `procs_per_node` processors (1: guessed from the log) share nodes, which
    are full by memory too if `memory_gib_per_node` is given, and by GPUs if the log has them (`gpus_per_node`: how many
    a node has, None: guessed). Where the log names the node of a job, it is on that one.

    `down_nodes`: a file that says when nodes of the batch cluster were down (`outages.py`); `reservations`: one that
    says when reservations held some (`reservations.py`), whose jobs are left out. `overrun`: of batch jobs.

    `lay_together`: the first submits of both are taken to be at the same time.

    `cores_per_node`: pack on-demand jobs of single cores onto machines of so many cores; 0: each on-demand job is
    a lease of its own nodes; None: pack where the log says that its jobs share nodes (a cloud's servers: as many cores
    as the largest has) or has only single-core jobs of a machine with more processors than nodes (16 cores).
    """
    (batch, left_out), (ondemand, left_out_leases) = map(with_times_of_jobs, (batch, ondemand))
    unavailable = unavailable_times(batch, down_nodes, reservations, batch_nodes)
    batch, shared_queue = unavailable.log, None
    notes = _notes_of({"batch": (batch, left_out), "on-demand": (ondemand, left_out_leases)})
    if shared_nodes:
        if procs_per_node == 1:
            procs_per_node, note = _guess_procs(batch)
            notes.append(note)
        gpus_per_node, gpu_notes = _gpus_of_a_node(batch, gpus_per_node)
        shared = _shared(batch, procs_per_node, memory_gib_per_node, gpus_per_node)
        batch, shared_queue = shared.log, shared.queue
        notes += [*gpu_notes, *_sharing_notes(shared, procs_per_node)]
    down = JobTable.empty()
    if unavailable.spans:
        if shared_queue is None:
            shared_queue = max(int(batch.column("queue").max(initial=0)), 0) + 1
        down = unavailable.as_jobs(shared_queue)
    notes += unavailable.notes
    work = with_qos(
        to_jobs(batch, nodes=_MOST_NODES, procs_per_node=procs_per_node, overrun=overrun, origin_s=0), batch
    )
    fits = _fits(batch, work, batch_nodes)
    notes += _left_out("batch", work, int((~fits).sum()), batch_nodes)
    leases, lease_notes = _leases(ondemand, cores_per_node, batch_nodes)
    offset_us, laid = (_laid_together if lay_together else _common_clock)(batch, ondemand)
    notes += [*lease_notes, laid]
    leases = replace(leases, submit_us=leases.submit_us + offset_us)
    weeks = challenge.weeks([batch], [] if lay_together else [ondemand], nodes=batch_nodes)
    waited_us = np.rint(batch.column("wait_s")[work.rows][fits] * US).astype(np.int64)
    return Logs(
        batch,
        work.jobs.take(fits),
        waited_us,
        leases,
        tuple(weeks),
        batch_nodes,
        tuple(notes),
        shared_queue,
        down,
    )


def _notes_of(logs: dict[str, tuple[SwfLog, dict[str, int]]]) -> list[str]:
    """What is to say of both logs as they were read, by their names: remarks, and what was left out."""
    said = [f"{which}: {each}" for which, (log, _) in logs.items() for each in remarks(log)]
    return said + [
        f"{which}: left out: {grouped(count)} {reason}"
        for which, (_, left_out) in logs.items()
        for reason, count in left_out.items()
    ]


def _fits(batch: SwfLog, work: Workload, nodes: int) -> NDArray[np.bool_]:
    """Which jobs are not wider than the batch part. Raises ScenarioError if all are."""
    fits = work.jobs.nodes <= nodes
    if not fits.any():
        raise ScenarioError(
            f"{batch.source}: each of its {grouped(len(fits))} jobs is wider than the"
            f" {grouped(nodes)} nodes of the batch part;"
            " likely the log counts processors: say --procs-per-node; or the two logs are the wrong way round (--batch"
            " and --ondemand)"
        )
    return fits


def _leases(ondemand: SwfLog, cores_per_node: int | None, nodes: int) -> tuple[JobTable, list[str]]:
    """The on-demand jobs as leases (`read_logs` says of how many cores), and what is to say of them."""
    cores = _guess_cores(ondemand) if cores_per_node is None else cores_per_node
    if cores:
        leases = packing.pack(ondemand, cores_per_vm=cores)
        said = (
            f"on-demand: {grouped(len(ondemand))} jobs packed onto machines of {cores} cores:"
            f" {grouped(len(leases))} leases"
        )
        if SHARED_KEY in ondemand.keys:
            said += "; --cores-per-node says how many cores a node really has"
        notes = [said]
    else:
        work = to_jobs(ondemand, nodes=_MOST_NODES, origin_s=0)
        leases = replace(work.jobs, kind=np.full(len(work.jobs), Kind.ON_DEMAND, np.int8))
        notes = _left_out("on-demand", work, 0, nodes)
    if not len(leases):
        raise ScenarioError(f"{ondemand.source}: there is nothing in it that ran on demand")
    return leases, notes


def _laid_together(batch: SwfLog, ondemand: SwfLog) -> tuple[int, str]:
    """By how much on-demand submits are moved so that the first ones of both logs are at one time, and a note."""
    first_s = [float(log.column("submit_s").min()) for log in (batch, ondemand)]
    said = "the first submits of both logs are laid together, whenever they were"
    return round((first_s[0] - first_s[1]) * US), said


def _guess_procs(batch: SwfLog) -> tuple[int, str]:
    """Processors of a node by the log, and a sentence that says so. Raises ScenarioError if the log does not tell."""
    max_nodes, max_procs = batch.key_int("MaxNodes") or 0, batch.key_int("MaxProcs") or 0
    if max_procs > max_nodes > 0:
        found, why = max_procs // max_nodes, "MaxProcs / MaxNodes of its header"
    elif batch.nodes is not None and (batch.nodes > 0).any():
        known = batch.nodes > 0
        procs = np.maximum(batch.column("allocated_procs"), batch.column("requested_procs"))[known]
        found, why = int(np.ceil(procs / batch.nodes[known]).max()), "no job has more on a node"
    else:
        found, why = 1, ""
    if found <= 1:
        raise ScenarioError("--shared-nodes: say with --procs-per-node how many processors a batch node has")
    return (
        found,
        f"batch: a node is taken to have {found} processors ({why}); --procs-per-node says what it really has",
    )


def _gpus_of_a_node(batch: SwfLog, stated: int | None) -> tuple[int | None, list[str]]:
    """GPUs of a node, None where jobs have none, and what to say of a guess. Raises ScenarioError."""
    gpus = batch.further(GPUS_KEY)
    if gpus is None:
        if stated is not None:
            raise ScenarioError(
                f"{batch.source}: it does not say which jobs had GPUs (sacct: AllocTRES; PBS: Resource_List.ngpus), so"
                " --gpus-per-node cannot be kept to"
            )
        return None, []
    if stated is not None:
        return stated, []
    nodes = np.ones(len(batch), np.int64) if batch.nodes is None else np.maximum(batch.nodes, 1)
    found = int(np.ceil(gpus / nodes).max())
    how = "no job has more on a node"
    note = f"batch: a node is taken to have {found} GPUs ({how}); --gpus-per-node says what it really has"
    return found, [note]


def _sharing_notes(shared: Shared, procs_per_node: int) -> list[str]:
    how = "starts"
    if shared.listed:
        but = "" if shared.listed == shared.jobs else f" for {grouped(shared.listed)} of them"
        how = f"node list{but} (first fit would need {grouped(shared.fitted)})"
    note = (
        f"batch: {grouped(shared.jobs)} jobs of fewer than {procs_per_node} processors share"
        f" nodes, at most {grouped(shared.most)} at"
        f" once by the log's own {how}; they wait for nodes by themselves, and"
        f" {grouped(shared.unstarted)} without a start are"
        " left out"
    )
    if not shared.crowded:
        return [note]
    doubt = (
        f"batch: on {grouped(len(shared.crowded))} nodes of the log's list up to"
        f" {grouped(max(shared.crowded.values()))} processors"
        f" were in use at once: is --procs-per-node {procs_per_node} right?"
    )
    return [note, doubt]


def _shared(batch: SwfLog, procs_per_node: int, memory_gib: float | None, gpus: int | None) -> Shared:
    if memory_gib is not None and not (batch.column("requested_memory_kb") > 0).any():
        raise ScenarioError(
            f"{batch.source}: it does not say how much memory jobs asked for (sacct: AllocTRES), so --memory-per-node"
            " cannot be kept to"
        )
    try:
        memory_kb = None if memory_gib is None else round(memory_gib * 1024**2)
        return pack_shared(batch, procs_per_node, memory_kb, gpus)
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def _common_clock(batch: SwfLog, ondemand: SwfLog) -> tuple[int, str]:
    """What is added to on-demand times (us) to have the batch log's, and from when to when both logs have submits."""
    cure = "say --lay-together if their first submits are to be taken for the same time"
    spans = []
    for log in (batch, ondemand):
        zero_s, submit_s = log.zero_unix_s, log.column("submit_s")
        if zero_s is None:
            raise ScenarioError(
                f"{log.source}: it does not say when it was (no UnixStartTime in its header, and its times are no Unix"
                f" times), so which lease met which job is unknown; add that line, or {cure}"
            )
        spans.append((zero_s, zero_s + float(submit_s.min()), zero_s + float(submit_s.max())))
    if is_assumed(batch) != is_assumed(ondemand):
        local, other = (batch, ondemand) if is_assumed(batch) else (ondemand, batch)
        raise ScenarioError(not_one_clock(local.source, other.source))
    begin_s, end_s = max(span[1] for span in spans), min(span[2] for span in spans)
    if begin_s > end_s:
        texts = [
            f"{log.source} has submits from {_day(span[1])} to {_day(span[2])}"
            for log, span in zip((batch, ondemand), spans, strict=True)
        ]
        raise ScenarioError(f"{texts[0]}, {texts[1]} (UTC): they have no time in common; {cure}")
    weeks = (end_s - begin_s) / WEEK_S
    overlap = (
        f"both logs have submits from {_day(begin_s)} to {_day(end_s)} (UTC): {weeks:.1f} weeks in common"
    )
    if is_assumed(batch):
        overlap += "; the times of both say no offset from UTC, and are taken for those of one clock"
    return (spans[1][0] - spans[0][0]) * US, overlap


def _day(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).date().isoformat()


def _guess_cores(log: SwfLog) -> int:
    """Cores of a node that on-demand jobs share, 0 if each has nodes of its own."""
    nodes, procs = log.key_int("MaxNodes") or 0, log.key_int("MaxProcs") or 0
    widest = max(int(log.column(name).max(initial=0)) for name in ("allocated_procs", "requested_procs"))
    if SHARED_KEY in log.keys:  # a server never spans nodes, so a node has at least as many
        return widest
    return packing.CORES if procs > nodes > 0 and widest == 1 else 0


def _left_out(which: str, work: Workload, too_wide: int, nodes: int) -> list[str]:
    reasons = dict(work.left_out)
    if too_wide:
        reasons[f"wider than the {nodes} nodes of the batch part"] = too_wide
    notes = [f"{which}: {note}" for note in not_read(work)]
    if not reasons:
        return notes
    text = ", ".join(f"{grouped(count)} {reason}" for reason, count in reasons.items())
    return [f"{which}: left out: {text}", *notes]


def usable_weeks(logs: Logs) -> list[int]:
    """Complete weeks with batch jobs and leases, the most challenging first (`challenge.py`)."""
    origin_us = _origin_us(logs)
    counts = []
    for table in (logs.batch, logs.leases):
        week = (table.submit_us - origin_us) // _WEEK_US
        inside = (week >= 0) & (week < len(logs.weeks))
        counts.append(np.bincount(week[inside], minlength=len(logs.weeks)))
    last_us = int(logs.batch.submit_us.max())
    first = 0 if logs.has_waits else 1  # the first week has no week before it to warm up with
    found = [
        number
        for number in range(first, len(logs.weeks))
        if counts[0][number]
        and counts[1][number]
        and last_us - (origin_us + number * _WEEK_US) >= _LEAST_DAYS * 86_400 * US
    ]
    return sorted(found, key=lambda number: (-logs.weeks[number].score, number))


def pairs(weeks: list[int], pairings: int, seed: int) -> list[Pair]:
    """Each week with its own leases, and for each further pairing with those of another week.

    So it is seen what is owed to the coincidence of just these leases with just this queue.
    """
    found = [Pair(week, week, 1) for week in weeks]
    for pairing in range(2, pairings + 1):
        order = stream(seed, f"study.pairing.{pairing}").permutation(len(weeks))
        following = {weeks[here]: weeks[there] for here, there in zip(order, np.roll(order, -1), strict=True)}
        found += [Pair(week, following[week], pairing) for week in weeks]
    return found


def from_origin(logs: Logs, jobs: JobTable) -> JobTable:
    """Jobs at the batch log's times as jobs at times that count from the begin of its first week."""
    return replace(jobs, submit_us=jobs.submit_us - _origin_us(logs))


def batch_of(logs: Logs, week: int, more: JobTable | None = None) -> JobTable:
    """A week's batch jobs, and `more`, behind what ran when it began, or behind the week before."""
    begin_us = week_begin_us(logs, week) - logs.warm_up_us
    jobs = _between(logs.batch, begin_us, begin_us + logs.warm_up_us + _WEEK_US)
    if more is not None:
        jobs = jobs.merge(more)
    down = _down_between(logs.down, begin_us, begin_us + logs.warm_up_us + _WEEK_US)
    if not logs.has_waits:
        return jobs.merge(down)
    before = preload.running_of(logs.batch, logs.waited_us, begin_us, nodes=logs.batch_nodes)
    is_down = down.submit_us == 0
    still = down.take(np.flatnonzero(is_down)[: logs.batch_nodes - int(before.nodes.sum())])
    return preload.put_in_front(before.merge(still), jobs.merge(down.take(~is_down)))


def leases_of(logs: Logs, week: int, more: JobTable | None = None) -> JobTable:
    """A week's leases and `more`, with those of the warm-up if there is one; none that began earlier."""
    begin_us = week_begin_us(logs, week) - logs.warm_up_us
    leases = _between(logs.leases, begin_us, begin_us + logs.warm_up_us + _WEEK_US)
    return leases if more is None else leases.merge(more)


def history_of(logs: Logs, week: int) -> list[int]:
    """Nodes requested in each slot of the four weeks before that, as a service would remember them."""
    slots = Slots()
    end_us = week_begin_us(logs, week) - logs.warm_up_us
    leases = _between(logs.leases, end_us - _HISTORY_WEEKS * _WEEK_US, end_us)
    counts = np.bincount(
        leases.submit_us // slots.length_us, weights=leases.nodes, minlength=7 * _HISTORY_WEEKS * slots.a_day
    )
    return [int(each) for each in counts]


def week_name(logs: Logs, week: int) -> str:
    """The day on which it begins, or its number where the log does not say when it was."""
    begin = logs.weeks[week].begin
    if logs.log.zero_unix_s is not None:
        return begin.isoformat()
    return f"week {1 + (begin - logs.weeks[0].begin) // timedelta(weeks=1)}"


def week_begin_us(logs: Logs, week: int) -> int:
    """When a week begins, at the batch log's own times."""
    return _origin_us(logs) + week * _WEEK_US


def _down_between(down: JobTable, begin_us: int, end_us: int) -> JobTable:
    """Outages with what is left of them at the begin, at times that count from there."""
    end = down.submit_us + down.run_us
    inside = (end > begin_us) & (down.submit_us < end_us)
    start = np.maximum(down.submit_us[inside], begin_us)
    left_us = end[inside] - start
    return replace(down.take(inside), submit_us=start - begin_us, run_us=left_us, estimate_us=left_us)


def _between(jobs: JobTable, begin_us: int, end_us: int) -> JobTable:
    inside = jobs.take((jobs.submit_us >= begin_us) & (jobs.submit_us < end_us))
    return replace(inside, submit_us=inside.submit_us - begin_us)


def _origin_us(logs: Logs) -> int:
    """Midnight of the first week's day, at the batch log's own times."""
    unix_s = logs.log.zero_unix_s or 0
    day_s = (logs.weeks[0].begin - date(1970, 1, 1)).days * 86_400
    return (day_s - unix_s) * US
