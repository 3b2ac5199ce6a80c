"""How figures are named and written for people: in the report, on the console, in comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.report.baseline import Baseline

NO_FIGURE = "\u2013"
"""Stands for a figure that does not exist."""

_THIN_SPACE = "\u202f"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the summary: its key, its name, its unit (`s`, `share`, `node-h`, `1/s`, `count`, ``)."""

    key: str
    name: str
    unit: str
    meaning: str = ""


FIGURES = (
    Figure("jobs_in", "Batch jobs given", "count", "rows of the workload, with those left out"),
    Figure("jobs_run", "Batch jobs run", "count", "ended, or reached their walltime limit"),
    Figure("jobs_running", "Still running", "count"),
    Figure("jobs_waiting", "Still waiting", "count"),
    Figure("jobs_not_submitted", "Not submitted yet", "count"),
    Figure("jobs_cancelled", "Cancelled", "count"),
    Figure("jobs_killed_at_walltime", "Killed at walltime", "count"),
    Figure("requeues", "Requeues", "count", "runs whose work was lost"),
    Figure("mean_wait_s", "Mean wait", "s", "start - submit"),
    Figure("median_wait_s", "Median wait", "s"),
    Figure("p90_wait_s", "90 % wait at most", "s"),
    Figure("p95_wait_s", "95 % wait at most", "s"),
    Figure("p99_wait_s", "99 % wait at most", "s"),
    Figure("max_wait_s", "Longest wait", "s"),
    Figure("mean_response_s", "Mean response", "s", "end - submit"),
    Figure("mean_bounded_slowdown", "Mean bounded slowdown", "", "max(1, response / max(run, threshold))"),
    Figure("bounded_slowdown_threshold_s", "Slowdown threshold", "s"),
    Figure("slowdown_weighted_by_area", "Slowdown weighted by area", "", "SLDwA; area = nodes x run"),
    Figure("utilization", "Utilisation", "share", "node-time used / (nodes x makespan)"),
    Figure("batch_utilization", "… by batch jobs", "share"),
    Figure("ondemand_utilization", "… by on-demand leases", "share"),
    Figure("makespan_s", "Makespan", "s", "first submit to last end"),
    Figure("lost_node_h", "Lost node-time", "node-h", "runs that were requeued"),
    Figure("ondemand_requests", "On-demand requests", "count"),
    Figure("ondemand_granted", "… granted", "count"),
    Figure("ondemand_rejected", "… rejected", "count"),
    Figure("ondemand_undecided", "… not answered yet", "count"),
    Figure("mean_ondemand_wait_s", "Mean wait for an answer", "s", "granted requests: decided - arrival"),
    Figure("max_ondemand_wait_s", "Longest wait for an answer", "s", "granted requests"),
    Figure("reserve_idle_node_h", "Reserve node-time", "node-h", "nodes kept in reserve, idle"),
    Figure("nodes", "Nodes", "count"),
    Figure("wall_s", "Wall time", "s", "of the run on this machine"),
    Figure("jobs_per_s", "Jobs per second of wall time", "1/s"),
    Figure("seed", "Seed", "id"),
)


def number(value: float | str | None) -> str:
    """A number in at most five figures, thousands set apart by thin spaces; a dash for None."""
    if value is None:
        return NO_FIGURE
    if isinstance(value, str):
        return value
    if isinstance(value, int) or float(value).is_integer():
        text = f"{int(value):,}"
    elif abs(value) >= 1000:  # noqa: PLR2004 - decimals of thousands say nothing
        text = f"{value:,.0f}"
    else:
        text = f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
    return text.replace(",", _THIN_SPACE)


def grouped(value: float | None, decimals: int = 0, *, signed: bool = False) -> str:
    """A number with so many decimals, thousands set apart as `number` does; a dash for None."""
    if value is None:
        return NO_FIGURE
    return f"{value:{'+' if signed else ''},.{decimals}f}".replace(",", _THIN_SPACE)


def duration(time_s: float | None) -> str:
    """A duration as people say it: `132 ms`, `45.2 s`, `12 min 5 s`, `3 h 20 min`, `2 d 4 h`; a dash for None."""
    if time_s is None:
        return NO_FIGURE
    if time_s < 0:
        return f"-{duration(-time_s)}"
    if time_s < _MINUTE_S:
        if 0 < time_s < 1:
            return f"{1000 * time_s:.3g} ms"
        return f"{time_s:.1f} s".replace(".0 ", " ")
    whole = round(time_s)
    for unit_s, unit, part_s, part in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "min"),
        (_MINUTE_S, "min", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit} {rest} {part}" if rest else f"{whole // unit_s} {unit}"
    return f"{whole} s"


def value_text(figure: Figure, value: Any) -> str:
    """A figure's value with its unit."""
    if value is None:
        return NO_FIGURE
    match figure.unit:
        case "s":
            exact = duration(value) if value < 1 else f"{number(value)} s"
            return exact if value < _MINUTE_S else f"{exact} ({duration(value)})"
        case "share":
            return f"{100 * value:.2f} %"
        case "id":
            return str(value)
        case "count" | "":
            return number(value)
        case unit:
            return f"{number(value)} {unit}"


def headline_text(key: str, value: float | None) -> str:
    """A figure of the summary as tiles show it."""
    unit = _UNITS.get(key, "")
    if value is not None and unit == "s":
        return duration(value)
    return NO_FIGURE if value is None else f"{100 * value:.1f} %" if unit == "share" else number(value)


def difference_text(key: str, summary: Mapping[str, Any], baseline: Baseline | None) -> str:
    """`2 min 3 s less than without the mechanism`; "": there is no baseline, or one of the two has no such figure."""
    if baseline is None:
        return ""
    ours, theirs = summary.get(key), baseline.figures.get(key)
    if ours is None or theirs is None:
        return ""
    if ours == theirs:
        return f"as {baseline.name}"
    size, more = abs(ours - theirs), "more" if ours > theirs else "less"
    match _UNITS.get(key, ""):
        case "s":
            text = f"{duration(size)} {'longer' if ours > theirs else 'shorter'}"
        case "share":
            text = f"{100 * size:.1f} points {more}"
        case _:
            text = f"{number(size)} {more}"
    return f"{text} than {baseline.name}"


_UNITS = {figure.key: figure.unit for figure in FIGURES}
