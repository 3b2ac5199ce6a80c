"""Nodes that reservations held, as Slurm tells of them, or a table of one's own.

    SLURM_TIME_FORMAT=%s sacctmgr -P show reservation start=2026-01-01 end=now format=Name,Start,End,NodeNames
    SLURM_TIME_FORMAT=%s scontrol show reservation

Of `sacctmgr` (and of a table `name,begin,end,nodes`) a line is a reservation, or a part of its time in which it had
these nodes; of `scontrol` the lines from one `ReservationName=` to the next, or one line (`-o`). Times are Unix times,
or dates (`local_times.py`). A reservation without an end lasts. Jobs that ran in a reservation are told by the
log (sacct's column `Reservation`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from balancer.nodelist import NodeListError, expand
from emulator.workload.files import TraceError
from emulator.workload.local_times import LocalTimes
from emulator.workload.outages import NO_TIME, fields_of, joined, time_s
from emulator.workload.rows import Faults, Malformed, lines_of, no_name_twice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_NAMES = {
    "Name": "name", "ReservationName": "name", "Start": "begin", "StartTime": "begin", "TimeStart": "begin",
    "End": "end", "EndTime": "end", "TimeEnd": "end", "NodeNames": "nodes", "Nodes": "nodes", "NodeList": "nodes",
}  # fmt: skip
_NEEDED = ("name", "begin", "end", "nodes")
_HOW = "sacctmgr -P show reservation format=Name,Start,End,NodeNames"
_BLOCK = "ReservationName="
_WORD = re.compile(r"(\w+)=(\S*)")
_NO_NODES = {"", "(null)", "None", "none assigned", "None assigned"}


def read_reservations(
    path: Path, *, until_s: float, lenient: bool = False, clock: LocalTimes | None = None
) -> tuple[dict[str, list[tuple[float, float]]], frozenset[str]]:
    """Of each node when a reservation held it, as `read_outages`, and the names of the reservations.

    What has not ended lasts to `until_s`. `clock` reads the times. Raises TraceError naming file and line.
    """
    lines = [(at, line) for at, line in lines_of(path) if line.strip()]
    is_block = bool(lines) and lines[0][1].startswith(_BLOCK)
    faults, found, names = Faults(lenient), dict[str, list[tuple[float, float]]](), set[str]()
    clock = LocalTimes() if clock is None else clock
    for number, values in _blocks(lines) if is_block else _rows(lines, path, faults):
        try:
            nodes, span = _span(values, until_s, clock)
        except Malformed as fault:
            faults.add(path, number, fault)
            continue
        names.add(values["name"])
        for node in nodes:
            found.setdefault(node, []).append(span)
    return {node: joined(spans) for node, spans in found.items()}, frozenset(names)


def _rows(
    lines: list[tuple[int, str]], path: Path, faults: Faults
) -> Iterator[tuple[int, Mapping[str, str]]]:
    heading = lines[0][1] if lines else ""
    mark = "|" if "|" in heading else ","
    names = [_NAMES.get(name.strip(), name.strip()) for name in heading.removesuffix("|").split(mark)]
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise TraceError(
            f"{path}:1: the header has no column for the {missing[0]} of a reservation; write it with {_HOW}"
        )
    no_name_twice(path, 1, names)
    for number, line in lines[1:]:
        if re.fullmatch(r"[-| ,]+", line):
            continue
        try:
            yield number, fields_of(line, mark, names)
        except Malformed as fault:
            faults.add(path, number, fault)


def _blocks(lines: list[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, str]]]:
    at, words = 0, dict[str, str]()
    for number, line in lines:
        if line.startswith(_BLOCK):
            if words:
                yield at, words
            at, words = number, {}
        words |= {_NAMES.get(key, key): value for key, value in _WORD.findall(line)}
    yield at, words


def _span(
    values: Mapping[str, str], until_s: float, clock: LocalTimes
) -> tuple[list[str], tuple[float, float]]:
    missing = [name for name in _NEEDED if name not in values]
    if missing:
        raise Malformed(f"it does not say the {missing[0]} of the reservation")
    begin_s, has_ended = time_s(values["begin"], "begin", clock), values["end"] not in NO_TIME
    end_s = time_s(values["end"], "end", clock, begin_s) if has_ended else max(begin_s, until_s)
    if end_s < begin_s:
        raise Malformed(f"it ends at {values['end']}, before it begins at {values['begin']}")
    if values["nodes"] in _NO_NODES:  # of licenses, or of nodes that were not chosen yet
        return [], (begin_s, end_s)
    try:
        return expand(values["nodes"]), (begin_s, end_s)
    except NodeListError as error:
        raise Malformed(f"nodes: {error}") from error
