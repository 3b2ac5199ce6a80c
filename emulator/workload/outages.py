"""Nodes that were down: what Slurm's accounting keeps of them, or a table of one's own.

    SLURM_TIME_FORMAT=%s sacctmgr -P show event start=2026-01-01 end=now format=NodeName,TimeStart,TimeEnd,State,Reason

A line an outage, columns told apart by `|` or `,` and named by the header: `NodeName`, `TimeStart` and `TimeEnd` as
sacctmgr(1) has them, or `node`, `begin`, `end`. Times are Unix times, or dates (`local_times.py`). An outage
without an end lasts. Lines without a node are events of the cluster, and are passed over. Draining nodes count as down.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.workload.csv_lines import csv_fields
from emulator.workload.files import TraceError
from emulator.workload.local_times import LocalTimes
from emulator.workload.rows import Faults, Malformed, lines_of, no_name_twice, without_nuls
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NAMES = {
    "NodeName": "node", "Node": "node", "node": "node", "TimeStart": "begin", "Start": "begin", "begin": "begin",
    "TimeEnd": "end", "End": "end", "end": "end",
}  # fmt: skip
NO_TIME = {"", "Unknown", "None", "0", "NONE"}
"""What stands for an end that has not come."""
_HOW = "sacctmgr -P show event format=NodeName,TimeStart,TimeEnd,State"


def read_outages(
    path: Path, *, until_s: float, lenient: bool = False, clock: LocalTimes | None = None
) -> dict[str, list[tuple[float, float]]]:
    """Of each node when it was down: (begin, end) in Unix seconds in order, those that overlap as one.

    What has not ended lasts to `until_s`. `clock` reads the times. Raises TraceError naming file and line.
    """
    lines = ((at, line) for at, line in lines_of(path) if line.strip())
    _, heading = next(lines, (1, ""))
    mark = "|" if "|" in heading else ","
    names = [_NAMES.get(name.strip(), name.strip()) for name in heading.removesuffix("|").split(mark)]
    missing = [name for name in ("node", "begin", "end") if name not in names]
    if missing:
        raise TraceError(
            f"{path}:1: the header has no column for the {missing[0]} of an outage; write it with {_HOW}"
        )
    no_name_twice(path, 1, names)
    faults, found = Faults(lenient), dict[str, list[tuple[float, float]]]()
    clock = LocalTimes() if clock is None else clock
    for number, line in lines:
        if re.fullmatch(r"[-| ,]+", line):
            continue
        try:
            row = fields_of(line, mark, names)
            if row["node"]:
                found.setdefault(row["node"], []).append(_outage(row, until_s, clock))
        except Malformed as fault:
            faults.add(path, number, fault)
    return {node: joined(spans) for node, spans in found.items()}


def _outage(row: dict[str, str], until_s: float, clock: LocalTimes) -> tuple[float, float]:
    begin_s, has_ended = time_s(row["begin"], "begin", clock), row["end"] not in NO_TIME
    end_s = time_s(row["end"], "end", clock, begin_s) if has_ended else max(begin_s, until_s)
    if end_s < begin_s:
        raise Malformed(f"it ends at {row['end']}, before it begins at {row['begin']}")
    return begin_s, end_s


def fields_of(line: str, mark: str, names: list[str]) -> dict[str, str]:
    """The fields of a line by their names. Raises Malformed if some are missing."""
    # A reason is free text: it comes last, and may have the mark in it; --parsable ends each line with the mark.
    fields = csv_fields(line) if mark == "," else without_nuls(line).split(mark)
    if len(fields) < len(names):
        raise Malformed(f"{len(fields)} fields where the header has {len(names)}")
    return {name: field.strip() for name, field in zip(names, fields, strict=False)}


def as_jobs(outages: dict[str, list[tuple[float, float]]], *, zero_unix_s: float, queue: int) -> JobTable:
    """Each outage as a batch job of one node that begins and ends with it, at a log's times; whole in its queue."""
    spans = (
        np.array([span for spans in outages.values() for span in spans], np.float64).reshape(-1, 2)
        - zero_unix_s
    )
    begin_us = np.rint(spans * US).astype(np.int64)
    begin_us[:, 0] = np.maximum(begin_us[:, 0], 0)
    spans_us = begin_us[begin_us[:, 1] > begin_us[:, 0]]
    return JobTable.build(
        submit_us=spans_us[:, 0],
        run_us=spans_us[:, 1] - spans_us[:, 0],
        nodes=np.ones(len(spans_us), np.int32),
        queue=np.full(len(spans_us), queue, np.int32),
    )


def joined(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """In order, those that overlap or touch as one."""
    found: list[tuple[float, float]] = []
    for begin_s, end_s in sorted(spans):
        if found and begin_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(end_s, found[-1][1]))
        else:
            found.append((begin_s, end_s))
    return found


def time_s(text: str, name: str, clock: LocalTimes, not_before_s: float | None = None) -> float:
    """A Unix time, of itself or of a date. Raises Malformed naming the field."""
    text = text.strip()
    if text.isdecimal():
        return float(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"{name} is {text[:40]!r}, not a time such as 2026-11-21T01:23:44") from None
    return clock.unix_s(time, not_before_s=not_before_s)
