"""`emulator trace check`: what was understood of a log, what is left out and why, and what is likely wrong with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.text.number_text import grouped, number_of, percent
from emulator.workload import rules
from emulator.workload.cloud_rows import SHARED_KEY
from emulator.workload.local_times import ZONE_KEY, is_assumed
from emulator.workload.outages import as_jobs
from emulator.workload.packing import level
from emulator.workload.rows import UNREAD_KEY
from emulator.workload.swf import GPUS_KEY, HOST_KEY, RESERVATION_KEY
from emulator.workload.trust import trust_sentence, trusts
from emulator.workload.unavailable_nodes import unavailable_times
from emulator.workload.workload import PASSED_OVER

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import RenderableType

    from emulator.workload.packing import Demand
    from emulator.workload.swf import SwfLog
    from emulator.workload.table import JobTable
    from emulator.workload.trust import Trust
    from emulator.workload.unavailable_nodes import UnavailableTimes
    from emulator.workload.workload import Workload

_CROWDED, _CROWDED_SHARE = 1.1, 0.01
_EMPTY = 0.3
_FEW_WAITS = 0.95
_MANY = 0.05
_GAP_DAYS = 7
_DAY_US = 86_400 * US

_WHY = {
    rules.NO_RUN: "not ended, cancelled in the queue, or over within a second (`zero_run: one_second` keeps these)",
    rules.NO_SIZE: "the log says neither nodes nor processors of them",
    rules.TOO_WIDE: "is the size right? --nodes says how many nodes there were, --procs-per-node what a node has",
    rules.NO_SUBMIT: "their submit times are unknown",
    rules.TOO_LONG: "a damaged line, or times in milliseconds",
    rules.TOO_FAR: "a clock that was wrong, or a damaged line",
}


@dataclass(frozen=True, slots=True)
class Check:
    """What `emulator trace check` says of a log.

    `trust`: what it can be trusted for; `understood`: name and sentence; `left_out`: count, reason, and what may be
    behind it; `doubts`: sentences.
    """

    source: str
    trust: tuple[Trust, ...]
    understood: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[int, str, str], ...]
    doubts: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        trust = {
            each.what: {"trusted": not each.why, "jobs": each.jobs, "of": each.of, "why": each.why}
            for each in self.trust
        }
        return asdict(self) | {"trust": trust, "understood": dict(self.understood)}


def check(
    log: SwfLog,
    workload: Workload,
    *,
    format_name: str,
    is_size_known: bool,
    down_nodes: Path | None = None,
    reservations: Path | None = None,
) -> Check:
    """Looks at a log and its jobs. `is_size_known`: somebody, or its header, said how many nodes there are.

    `down_nodes`: a file that says when nodes were down; `reservations`: one that says when reservations held nodes.
    These count as in use, and the jobs in such reservations do not. Raises TraceError if a file cannot be read, or if
    the log does not say when it was.
    """
    in_use = _in_use(log, workload)
    facts: list[tuple[str, str]] = []
    if down_nodes is not None:
        were_down = unavailable_times(log, down_nodes, None, workload.nodes)
        down = _amount_text(_unavailable_jobs(log, workload, were_down), workload)
        facts += [
            ("down", f"{down}; they count as in use"),
            *(("clock, down", note) for note in were_down.clocks),
        ]
    if reservations is not None:
        alone = unavailable_times(log, None, reservations, workload.nodes)
        amount = _amount_text(_unavailable_jobs(log, workload, alone), workload)
        facts.append(("reserved", f"{amount}; these count as in use, {alone.reservation_note}"))
        facts += [("clock, reserved", note) for note in alone.clocks]
    if facts:
        in_use = _in_use(log, workload, unavailable_times(log, down_nodes, reservations, workload.nodes))
    left_out = [(count, reason, _WHY.get(reason, "")) for reason, count in workload.left_out.items()]
    left_out += [(count, what, "no job of its own") for what, count in log.passed_over.items()]
    passed_over = {PASSED_OVER.format(what) for what in log.passed_over}
    left_out += [
        (count, what, "" if what == rules.MALFORMED else "kept, and changed so")
        for what, count in workload.counted.items()
        if what not in passed_over
    ]
    return Check(
        source=workload.source,
        trust=trusts(
            log,
            workload,
            is_crowded=in_use is not None and _crowded_share(in_use, workload.nodes) > _CROWDED_SHARE,
        ),
        understood=(
            *_understood(log, workload, format_name, in_use, is_size_known=is_size_known),
            *_further(log, workload.rows, is_told_when_reserved=reservations is not None),
            *facts,
        ),
        left_out=tuple(left_out),
        doubts=tuple(_doubts(log, workload, in_use, is_size_known=is_size_known)),
    )


def _in_use(log: SwfLog, workload: Workload, unavailable: UnavailableTimes | None = None) -> Demand | None:
    """Nodes in use by the log's own starts, or not to be had, None if it has no starts."""
    wait_s = log.column("wait_s")[workload.rows]
    known = wait_s >= 0
    if not known.any():
        return None
    if unavailable is not None:
        known &= ~unavailable.inside[workload.rows]
    start_us = workload.jobs.submit_us[known] + np.rint(wait_s[known] * US).astype(np.int64)
    spans = [(start_us, start_us + workload.jobs.run_us[known], workload.jobs.nodes[known].astype(np.int64))]
    if unavailable is not None:
        held_ = _unavailable_jobs(log, workload, unavailable)
        spans.append((held_.submit_us, held_.submit_us + held_.run_us, held_.nodes.astype(np.int64)))
    return level(*spans[0]) if len(spans) == 1 else level(*map(np.concatenate, zip(*spans, strict=True)))


def _unavailable_jobs(log: SwfLog, workload: Workload, unavailable: UnavailableTimes) -> JobTable:
    """What was down or reserved within the log, as jobs at its workload's times."""
    zero_s = (log.zero_unix_s or 0) + workload.shift_s
    until_s = zero_s + int(workload.jobs.submit_us.max()) / US
    found = {
        node: [(begin, min(end, until_s)) for begin, end in spans if begin < until_s]
        for node, spans in unavailable.spans.items()
    }
    return as_jobs(found, zero_unix_s=zero_s, queue=0)


def _amount_text(jobs: JobTable, workload: Workload) -> str:
    if not len(jobs):
        return "no node, within the log's time"
    mean = float(jobs.run_us.sum()) / max(int(workload.jobs.submit_us.max()), 1)
    ends_us, each = jobs.submit_us + jobs.run_us, jobs.nodes.astype(np.int64)
    most = int(level(jobs.submit_us, ends_us, each).count.max())
    return f"{grouped(mean, 1)} nodes on average, at most {grouped(most)} at once"


def _understood(
    log: SwfLog, workload: Workload, format_name: str, in_use: Demand | None, *, is_size_known: bool
) -> list[tuple[str, str]]:
    jobs, rows = workload.jobs, workload.rows
    wait_s = log.column("wait_s")[rows]
    started, stated = wait_s >= 0, log.column("requested_s")[rows] > 0
    waits = "none: the log does not say when jobs started"
    if started.any():
        waits = (
            f"of {percent(started.mean())} of the jobs; {grouped(wait_s[started].mean() / 60)} min on average"
        )
    size = "whole nodes, as the log says them" if log.nodes is not None else "from the processors of each job"
    if SHARED_KEY in log.keys:
        size = "each server by itself; studies pack them onto nodes by their vCPUs"
    most = (
        ""
        if in_use is None
        else f", at most {grouped(int(in_use.count.max()))} in use at once by the log's own starts"
    )
    cluster = f"{number_of(workload.nodes, 'node')}{'' if is_size_known else ' (as many as the widest job has)'}{most}"
    kinds = (("user", jobs.user), ("group", jobs.group), ("queue", jobs.queue))
    names = ", ".join(number_of(len(np.unique(column[column >= 0])), name) for name, column in kinds)
    return [
        ("format", format_name),
        ("jobs", f"{grouped(len(jobs))} of {grouped(log.records)} lines"),
        ("when", _when(log, workload)),
        ("cluster", cluster),
        ("size of jobs", size),
        ("waits", waits),
        (
            "estimates",
            f"of {percent(stated.mean())} of the jobs" if stated.any() else "none: run times are taken",
        ),
        ("names", names),
    ]


def _further(log: SwfLog, rows: NDArray[np.intp], *, is_told_when_reserved: bool) -> list[tuple[str, str]]:
    """What it says beyond SWF, where it does."""
    lines = []
    gpus, hosts = log.further(GPUS_KEY), log.further(HOST_KEY)
    if gpus is not None:
        some = gpus[rows] > 0
        lines.append(
            (
                "GPUs",
                f"of {percent(some.mean())} of the jobs, at most {grouped(int(gpus[rows].max(initial=0)))} of one",
            )
        )
    if hosts is not None:
        known = hosts[rows] > 0
        named = grouped(len(np.unique(hosts[rows][known])))
        lines.append(
            (
                "node list",
                f"of {percent(known.mean())} of the jobs, those of one node: {named} nodes",
            )
        )
    inside = log.further(RESERVATION_KEY)
    if inside is not None:
        how = "" if is_told_when_reserved else "; --reservations says when these held nodes"
        lines.append(("reservations", f"{grouped(int((inside[rows] > 0).sum()))} jobs ran in one{how}"))
    return lines


def _when(log: SwfLog, workload: Workload) -> str:
    last_us = int(workload.jobs.submit_us.max())
    if log.zero_unix_s is None:
        return (
            f"{grouped(last_us / _DAY_US, 1)} days of submits, date unknown: no UnixStartTime in the header, and"
            " times are no Unix times"
        )
    first_s = log.zero_unix_s + workload.shift_s
    when = f"submits from {_date(first_s)} to {_date(first_s + last_us / US)} UTC"
    if is_assumed(log):
        return f"{when}, if that is what its times mean: they say no offset (--time-zone)"
    return f"{when}{''.join(f' (its clock: {name})' for name in log.keys.get(ZONE_KEY, ()))}"


def _date(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M")


def _doubts(log: SwfLog, workload: Workload, in_use: Demand | None, *, is_size_known: bool) -> list[str]:
    doubts = [f"Files of its folder are not read: {names}." for names in log.keys.get(UNREAD_KEY, ())]
    if not is_size_known:
        where = f" ({log.size_from})" if log.size_from else ""
        doubts.append(f"The number of nodes is unknown: pass --nodes N{where}.")
    if in_use is not None:
        doubts += _doubts_of_use(in_use, workload.nodes, is_size_known=is_size_known)
    wait_s = log.column("wait_s")[workload.rows]
    if 0 < (wait_s >= 0).mean() < _FEW_WAITS:
        doubts.append(
            f"{percent((wait_s < 0).mean(), 0)} of the jobs that ran have no start: their nodes are not in the figures."
        )
    overran = workload.counted.get(rules.OVERRUN, 0)
    if overran > _MANY * len(workload.jobs):
        doubts.append(
            f"{grouped(overran)} jobs ran longer than their estimate: is it in seconds? `overrun: kill` cuts them,"
            " `extend` (the default) believes the run time, `run_on` leaves both."
        )
    gaps = np.diff(workload.jobs.submit_us)
    if len(gaps) and gaps.max() > _GAP_DAYS * _DAY_US:
        at = int(gaps.argmax())
        doubts.append(
            f"Nothing was submitted for {grouped(gaps[at] / _DAY_US)} days from day"
            f" {grouped(workload.jobs.submit_us[at] / _DAY_US)} on: a part of the log is missing, or the machine was"
            " down."
        )
    renumbered = workload.counted.get(rules.RENUMBERED, 0)
    if renumbered > _MANY * len(workload.jobs):
        doubts.append(
            f"{grouped(renumbered)} jobs have a number that is taken: arrays, or the same lines twice (sacct's"
            " JobIDRaw and -D tell them apart)."
        )
    return doubts


def _doubts_of_use(in_use: Demand, nodes: int, *, is_size_known: bool) -> list[str]:
    most, crowded = int(in_use.count.max()), _crowded_share(in_use, nodes)
    if crowded > _CROWDED_SHARE:
        doubt = (
            f"Up to {grouped(most)} nodes were in use at once, and for {percent(crowded, 0)} of the time more than"
            f" the {grouped(nodes)} there are: the log counts processors or its jobs share nodes (--procs-per-node), or"
            " there were more nodes (--nodes)."
        )
        return [doubt]
    if is_size_known and most < _EMPTY * nodes:
        doubt = (
            f"No more than {grouped(most)} of {grouped(nodes)} nodes were ever in use at once: is this the log of"
            " the whole machine, and --procs-per-node right?"
        )
        return [doubt]
    return []


def _crowded_share(in_use: Demand, nodes: int) -> float:
    """The share of the time in which clearly more nodes were in use than there are."""
    lengths = np.diff(in_use.time_us)
    return float(lengths[in_use.count[:-1] > _CROWDED * nodes].sum()) / max(float(lengths.sum()), 1)


def render(found: Check) -> RenderableType:
    """For a terminal."""
    from rich.console import Group  # noqa: PLC0415 - not needed for the figures alone
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for name, text in found.understood:
        facts.add_row(name, text)
    parts: list[RenderableType] = [
        Text(trust_sentence(found.trust), style="bold"),
        Text(found.source, style="bold"),
        facts,
    ]
    if found.left_out:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(style="dim")
        for count, reason, why in found.left_out:
            table.add_row(grouped(count), reason, why)
        parts += [Text(), Text("left out or changed", style="bold"), table]
    parts += [Text(), Text("likely wrong" if found.doubts else "Nothing looks wrong.", style="bold")]
    parts += [Text(f"* {doubt}", style="yellow") for doubt in found.doubts]
    return Group(*parts)
