"""What another run changed, in words, and whether both runs had the same workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.metrics.mechanism_tiles import at, tiles_of
from emulator.metrics.summary import figures
from emulator.report.tiles import figure_texts, own_tiles
from emulator.text.number_text import NO_FIGURE, duration, grouped, number, numbers, percent, points

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

LINE = 79
"""Characters of a line, for a terminal of 80 columns."""
Row = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of one run as `summary.json` has them (docs/results.md); None where a run has no such figure."""

    jobs_run: int
    mean_wait_s: float | None
    mean_response_s: float | None
    slowdown_weighted_by_area: float | None
    utilization: float | None
    requests: int = 0
    granted: int = 0
    rejected: int = 0
    undecided: int = 0
    mean_ondemand_wait_s: float | None = None
    killed: int = 0
    """Batch jobs that were killed at their walltime."""
    reserve_idle_node_h: float | None = None
    tiles: tuple[tuple[str, str, float], ...] = ()
    """Name, unit and figure of what the mechanism shows first, beyond the figures above."""

    @classmethod
    def of(cls, record: RunRecord) -> RunFigures:
        found = figures(record)
        found["tiles"] = tiles_of(record, found)
        return cls(
            tiles=tuple((tile["name"], tile["unit"], at(found, tile["figure"])) for tile in own_tiles(found)),
            **{key: found[key] for key in _SAME_NAME},
            requests=found.get("ondemand_requests", 0),
            granted=found.get("ondemand_granted", 0),
            rejected=found.get("ondemand_rejected", 0),
            undecided=found.get("ondemand_undecided", 0),
            mean_ondemand_wait_s=found.get("mean_ondemand_wait_s"),
            killed=found.get("jobs_killed_at_walltime", 0),
            reserve_idle_node_h=found.get("reserve_idle_node_h"),
        )


_SAME_NAME = ("jobs_run", "mean_wait_s", "mean_response_s", "slowdown_weighted_by_area", "utilization")


def workload_difference(a: RunRecord, b: RunRecord) -> str:
    """How the workloads of two runs differ, in words; empty if they are the same.

    The same are jobs and requests of the same numbers, kinds, sizes, run times and submits. A live clock measures its
    submits, so that they are not compared where one of the runs was live.
    """
    _, in_a, in_b = np.intersect1d(a.jobs.number, b.jobs.number, return_indices=True)
    columns = ["kind", "nodes", "run_us"]
    if a.clock == b.clock == "virtual":
        columns.append("submit_us")
    equal = np.ones(len(in_a), np.bool_)
    for name in columns:
        equal &= getattr(a.jobs, name)[in_a] == getattr(b.jobs, name)[in_b]
    same = int(equal.sum())
    if same == len(a.jobs) == len(b.jobs):
        return ""
    return (
        f"{number(len(a.jobs))} jobs and requests in the baseline, {number(len(b.jobs))} in the other run,"
        f" {number(same)} of them the same"
    )


def headline(a: RunFigures, b: RunFigures) -> list[str]:
    """What changed from a to b, each in a few words.

    What may have been the price stands beside it: response beside wait, since jobs may run longer instead; that
    requests waited longer, and jobs that did not run or were killed.
    """
    found = []
    if a.requests or b.requests:
        found.append(_granted(a, b))
    if (b.mean_ondemand_wait_s or 0) > (a.mean_ondemand_wait_s or 0):
        found.append(f"requests wait {_time_change(a.mean_ondemand_wait_s or 0, b.mean_ondemand_wait_s)}")
    if a.jobs_run != b.jobs_run:
        found.append(f"batch jobs run {number(a.jobs_run)} -> {number(b.jobs_run)}")
    if a.killed != b.killed:
        found.append(f"killed at walltime {number(a.killed)} -> {number(b.killed)}")
    found += [
        f"batch wait {_time_change(a.mean_wait_s, b.mean_wait_s)}",
        f"response {_time_change(a.mean_response_s, b.mean_response_s)}",
    ]
    if a.reserve_idle_node_h is not None and b.reserve_idle_node_h is not None:
        hours = f"{a.reserve_idle_node_h:.0f}", f"{b.reserve_idle_node_h:.0f}"
        found.append(f"idle reserve {hours[0] if hours[0] == hours[1] else ' -> '.join(hours)} node-h")
    return found


def lines(parts: list[str]) -> list[str]:
    """Parts of a sentence in lines that fit a terminal of 80 columns; no part is broken."""
    found = [""]
    for part in parts:
        longer = f"{found[-1]}; {part}" if found[-1] else part
        if len(longer) < LINE or not found[-1]:
            found[-1] = longer
        else:
            found[-1] += ";"
            found.append(part)
    return found


def figure_rows(a: RunFigures, b: RunFigures) -> list[Row]:
    """What it is, in a, in b, and the change: texts for people."""
    rows: list[Row] = [
        ("batch jobs run", number(a.jobs_run), number(b.jobs_run), _count_change(a.jobs_run, b.jobs_run)),
        *_killed_row(a, b),
        _time_row("mean wait", a.mean_wait_s, b.mean_wait_s),
        _time_row("mean response", a.mean_response_s, b.mean_response_s),
        _number_row("slowdown by area", a.slowdown_weighted_by_area, b.slowdown_weighted_by_area),
        ("utilisation", percent(a.utilization, 2), percent(b.utilization, 2), _points_change(a, b)),
    ]
    if a.requests or b.requests:
        rows += [
            (
                f"requests {name}",
                f"{of_a} of {a.requests}",
                f"{of_b} of {b.requests}",
                _count_change(of_a, of_b),
            )
            for name, of_a, of_b in (
                ("granted", a.granted, b.granted),
                ("rejected", a.rejected, b.rejected),
                ("unanswered", a.undecided, b.undecided),
            )
            if of_a or of_b or name != "unanswered"
        ]
    if a.mean_ondemand_wait_s or b.mean_ondemand_wait_s:
        rows.append(_time_row("granted ones wait", a.mean_ondemand_wait_s, b.mean_ondemand_wait_s))
    if a.reserve_idle_node_h is not None or b.reserve_idle_node_h is not None:
        rows.append(_number_row("idle reserve, node-h", a.reserve_idle_node_h, b.reserve_idle_node_h))
    return rows + _tile_rows(a, b)


def _killed_row(a: RunFigures, b: RunFigures) -> list[Row]:
    if a.killed == b.killed:
        return []
    return [("killed at walltime", number(a.killed), number(b.killed), _count_change(a.killed, b.killed))]


def _tile_rows(a: RunFigures, b: RunFigures) -> list[Row]:
    """What the mechanism of both shows first."""
    in_b = {(name, unit): value for name, unit, value in b.tiles}
    rows: list[Row] = []
    for name, unit, value in a.tiles:
        if (name, unit) in in_b:
            of_a, of_b = figure_texts([value, in_b[name, unit]], unit)
            rows.append((name, of_a, of_b, percent_change(value, in_b[name, unit])))
    return rows


def percent_change(a: float | None, b: float | None) -> str:
    """`+45 %`; a dash where there is no figure, or a is 0."""
    if a is not None and a == b:
        return "the same"
    return NO_FIGURE if not a or b is None else percent((b - a) / a, 0, signed=True)


def _granted(a: RunFigures, b: RunFigures) -> str:
    if a.requests != b.requests:
        return f"granted {a.granted} of {a.requests} -> {b.granted} of {b.requests}"
    if a.granted == b.granted:
        return f"granted {a.granted} of {a.requests} in both"
    return f"granted {a.granted} -> {b.granted} of {b.requests}"


def _time_change(a_s: float | None, b_s: float | None) -> str:
    if a_s is None or b_s is None:
        return NO_FIGURE
    if a_s == b_s:
        return "the same"
    change = f"{'+' if b_s > a_s else ''}{duration(b_s - a_s)}"
    return f"{change} ({percent_change(a_s, b_s)})" if a_s else change


def _time_row(name: str, a_s: float | None, b_s: float | None) -> Row:
    return name, duration(a_s), duration(b_s), _time_change(a_s, b_s)


def _number_row(name: str, a: float | None, b: float | None) -> Row:
    return name, *_both(a, b), percent_change(a, b)


def _points_change(a: RunFigures, b: RunFigures) -> str:
    if a.utilization is None or b.utilization is None:
        return NO_FIGURE
    return "the same" if a.utilization == b.utilization else points(b.utilization - a.utilization)


def _both(a: float | None, b: float | None) -> tuple[str, str]:
    of_a, of_b = numbers([a, b])
    return of_a, of_b


def _count_change(a: int, b: int) -> str:
    return "the same" if a == b else grouped(b - a, signed=True)
