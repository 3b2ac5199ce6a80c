"""How figures are named and written for people: in the report, on the console, in comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.text.number_text import NO_FIGURE, duration, number, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.report.baseline import Baseline


_MINUTE_S = 60


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


def title(key: str, *, with_unit: bool = False) -> str:
    """What a figure is called where it stands alone; times with their unit if wanted: `mean wait, s`."""
    above = ""
    for figure in FIGURES:
        if figure.key == key:
            name = figure.name.replace("\u2026", above)
            return f"{name[0].lower()}{name[1:]}{', s' if with_unit and figure.unit == 's' else ''}"
        above = above if figure.name.startswith("\u2026") else figure.name
    return key.replace("_", " ")


def value_text(figure: Figure, value: Any) -> str:
    """A figure's value with its unit."""
    if value is None:
        return NO_FIGURE
    match figure.unit:
        case "s":
            exact = duration(value) if value < 1 else f"{number(value)} s"
            return exact if value < _MINUTE_S else f"{exact} ({duration(value)})"
        case "share":
            return percent(value, 2)
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
    return NO_FIGURE if value is None else percent(value) if unit == "share" else number(value)


def is_share(key: str) -> bool:
    """Whether a figure of the summary is a share of 1."""
    return _UNITS.get(key) == "share"


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
