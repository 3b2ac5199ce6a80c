"""Nodes of the batch cluster that its jobs could not have: those that were down, and those that reservations held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from emulator.text.number_text import grouped
from emulator.workload import outages
from emulator.workload.files import TraceError
from emulator.workload.local_times import SACCT_REMEDY, LocalTimes, is_assumed
from emulator.workload.reservations import read_reservations
from emulator.workload.sreport import is_sreport, read_sreport
from emulator.workload.swf import RESERVATION_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.workload.swf import SwfLog
    from emulator.workload.table import JobTable

Spans = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class UnavailableTimes:
    """`spans`: of each node when it was held, Unix seconds. `log` is without the jobs that ran in the reservations.

    These are `inside`, rows of the log as it was; `reservation_note` says what became of them.
    """

    log: SwfLog
    spans: Spans
    notes: tuple[str, ...]
    inside: NDArray[np.bool_]
    reservation_note: str = ""
    clocks: tuple[str, ...] = ()
    """What is to be told of the clocks of the files."""

    def as_jobs(self, queue: int) -> JobTable:
        """Each time as a job of one node, at the log's times."""
        return outages.as_jobs(self.spans, zero_unix_s=_zero_s(self.log), queue=queue)


def unavailable_times(
    batch: SwfLog, down_nodes: Path | None, reservations: Path | None, nodes: int
) -> UnavailableTimes:
    """Of a machine of so many `nodes`.

    Raises TraceError for a log that does not say when it was, and for a file that cannot be read.
    """
    path = down_nodes if down_nodes is not None else reservations
    if path is None:
        return UnavailableTimes(batch, {}, (), np.zeros(len(batch), np.bool_))
    if batch.zero_unix_s is None:
        raise TraceError(
            f"{batch.source}: it does not say when it was, so which jobs the times of {path} met is unknown; add"
            " UnixStartTime to its header"
        )
    zero_s, submit_s = _zero_s(batch), batch.column("submit_s")
    begin_s, end_s = zero_s + float(submit_s.min()), zero_s + float(submit_s.max())
    ends_s = submit_s + np.maximum(batch.column("wait_s"), 0) + np.maximum(batch.column("run_s"), 0)
    until_s = zero_s + float(ends_s.max())
    clock = LocalTimes(SACCT_REMEDY.format("sacctmgr or scontrol"))
    when = f"on average from {_day(begin_s)} to {_day(end_s)}"
    notes, clocks, every, inside, reservation_note = list[str](), list[str](), list[Spans](), None, ""
    if down_nodes is not None:
        if is_sreport(down_nodes):
            spans = read_sreport(down_nodes, nodes=nodes, clock=clock)
        else:
            spans = outages.read_outages(down_nodes, until_s=until_s, clock=clock)
        clocks += _clock_notes(batch, down_nodes, clock)
        every.append(spans)
        notes.append(
            f"batch: {grouped(len(spans))} nodes were down at times, {_mean(spans, begin_s, end_s):.1f} of them {when};"
            " a node that is down counts as one in use"
        )
    if reservations is not None:
        spans, names = read_reservations(reservations, until_s=until_s, clock=clock)
        clocks += _clock_notes(batch, reservations, clock)
        every.append(spans)
        inside = in_reservations(batch, names)
        reservation_note = (
            "and the log does not say which jobs ran in them (sacct: Reservation), so that such a job counts besides"
            if inside is None
            else f"and the {grouped(int(inside.sum()))} jobs that ran in them are left out"
        )
        notes.append(
            f"batch: {grouped(len(names))} reservations held {grouped(len(spans))} nodes at times,"
            f" {_mean(spans, begin_s, end_s):.1f} of them {when}; these count as in use, {reservation_note}"
        )
    log = batch
    if inside is None:
        inside = np.zeros(len(batch), np.bool_)
    else:
        log = replace(batch, columns=tuple(column[~inside] for column in batch.columns))
    return UnavailableTimes(log, _together(every), (*notes, *clocks), inside, reservation_note, tuple(clocks))


def _clock_notes(batch: SwfLog, path: Path, clock: LocalTimes) -> list[str]:
    """What to tell where only one of the two says which clock its times are of."""
    if clock.is_assumed and not is_assumed(batch):
        return [f"{path}: its times say no offset from UTC, and were taken to be UTC; say --time-zone"]
    return []


def in_reservations(log: SwfLog, names: Iterable[str]) -> NDArray[np.bool_] | None:
    """Which jobs ran in one of these, None where the log does not say that of any job."""
    which = log.further(RESERVATION_KEY)
    if which is None:
        return None
    chosen = set(names)
    pairs = (line.split(None, 1) for line in log.keys.get("Reservation", ()))
    numbers = [int(pair[0]) for pair in pairs if len(pair) > 1 and pair[1] in chosen]
    return np.isin(which, numbers)


def _together(every: Iterable[Spans]) -> Spans:
    """A node that is reserved while it is down is held once."""
    found: Spans = {}
    for each in every:
        for node, spans in each.items():
            found.setdefault(node, []).extend(spans)
    return {node: outages.joined(spans) for node, spans in found.items()}


def _mean(found: Spans, begin_s: float, end_s: float) -> float:
    held_s = sum(
        max(0.0, min(end, end_s) - max(begin, begin_s)) for spans in found.values() for begin, end in spans
    )
    return held_s / max(end_s - begin_s, 1.0)


def _zero_s(log: SwfLog) -> int:
    return log.zero_unix_s or 0


def _day(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).date().isoformat()
