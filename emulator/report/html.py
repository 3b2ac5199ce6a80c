"""The report: one self-contained page with plots, figures and what was run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

from balancer.clock import US
from emulator.harness.record import NodePool
from emulator.metrics.timeline import InconsistentRecordError, timeline
from emulator.report import gantt, plots
from emulator.report.compare import table_rows, title_lines
from emulator.report.summary_text import SHARES_HEAD, recorded_rows, shares_rows
from emulator.report.wording import FIGURES, Figure, duration, number, value_text

if TYPE_CHECKING:
    from emulator.harness.record import RunRecord
    from emulator.report.compare import Comparison
    from emulator.report.pairs import HeatMap

_POOL_NAMES = {
    NodePool.OA_IDLE: "batch, idle",
    NodePool.OA_BUSY: "batch, busy",
    NodePool.OD_RESERVE: "reserve",
    NodePool.OD_ALLOC: "on demand",
    NodePool.DOWN: "down",
}
_MOST_MARKS = 200
_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def render(record: RunRecord, summary: dict[str, Any]) -> str:
    """The page for one run; the same record and summary give the same bytes.

    Plots are down-sampled, so the size does not grow with the number of jobs.
    """
    try:
        line = timeline(record)
    except InconsistentRecordError:
        line = None  # named in the summary's problems, which head the page
    axis = plots.TimeAxis(record.begin_us, record.horizon_us)
    has_requests = summary.get("ondemand_requests", 0) > 0
    return _environment.get_template("report.html.j2").render(
        title=str(record.scenario.get("name") or "Emulator run"),
        record=record,
        summary=summary,
        span=duration((record.horizon_us - record.begin_us) / US),
        headlines=_headlines(summary),
        states=line and plots.node_states(record, line, axis),
        pools=_pools(summary),
        queue=line and plots.queue_length(record, line, axis),
        utilization=line and plots.utilization(record, line, axis),
        requests=plots.requests(record, axis) if has_requests else None,
        waits=plots.wait_times(record) if summary["jobs_run"] else None,
        by_size=plots.wait_by_size_and_length(record) if summary["jobs_run"] else None,
        gantt=gantt.section(record),
        gantt_style=gantt.style(),
        rows=[_row(figure, summary) for figure in FIGURES if figure.key in summary],
        shares=shares_rows(summary),
        shares_head=SHARES_HEAD,
        pace=[(name, number(value)) for name, value in summary.get("pace", {}).items()],
        left_out=summary["jobs_left_out"],
        changed=summary["jobs_changed"],
        recorded=recorded_rows(summary),
        not_followed=summary.get("not_followed", ()),
        rejected=summary.get("ondemand_rejected_by_reason", {}),
        marks=[
            (place, duration(mark.at_us / US), mark.text)
            for place, mark in enumerate(record.marks[:_MOST_MARKS], 1)
        ],
        more_marks=max(0, len(record.marks) - _MOST_MARKS),
        scenario=yaml.safe_dump(summary["scenario"], sort_keys=False, allow_unicode=True)
        if summary["scenario"]
        else "",
        number=number,
    )


def render_comparison(comparison: Comparison, heat: HeatMap, names: tuple[str, str]) -> str:
    """The page for two runs: a heat map, then the table of `emulator compare`."""
    return _environment.get_template("compare.html.j2").render(
        names=names,
        comparison=comparison,
        heat=heat,
        plot=plots.ratio_heat_map(heat),
        jobs=int(heat.jobs.sum()),
        rows=table_rows(comparison),
        lines=title_lines(comparison),
        number=number,
    )


def _row(figure: Figure, summary: dict[str, Any]) -> tuple[str, str, str, str]:
    return figure.name, value_text(figure, summary[figure.key]), figure.key, figure.meaning


def _headlines(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(figure, value, remark) of what most readers come for."""
    cards = [
        ("Mean wait", summary["mean_wait_s"], "wait"),
        ("Utilisation", summary["utilization"], "share"),
    ]
    found = []
    for name, value, kind in cards:
        if value is None:
            found.append((name, number(None), "no job was run"))
        elif kind == "wait":
            remark = (
                f"median {duration(summary['median_wait_s'])}, 95 % within {duration(summary['p95_wait_s'])}"
            )
            found.append((name, duration(value), remark))
        else:
            found.append((name, f"{100 * value:.1f} %", f"of {number(summary['nodes'])} nodes"))
    left_out = sum(summary["jobs_left_out"].values())
    unfinished = summary["jobs_unfinished"]
    remark = ", ".join(
        text
        for text, count in (
            (f"{number(left_out)} left out", left_out),
            (f"{number(unfinished)} unfinished", unfinished),
        )
        if count
    )
    found.append(("Batch jobs run", number(summary["jobs_run"]), remark or "all that were given"))
    if "ondemand_requests" in summary:
        asked, rejected = summary["ondemand_requests"], summary["ondemand_rejected"]
        met = f"{number(summary['ondemand_granted'])} of {number(asked)}"
        found.append(("On-demand granted", met, f"{number(rejected)} rejected"))
    else:
        found.append(("Makespan", duration(summary["makespan_s"]), "first submit to last end"))
    return found


def _pools(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(CSS variable, name, share of node-time) of each pool that held nodes, in the order of the plot."""
    spent = summary["node_time_us"]
    if not spent:
        return []
    total = sum(spent.values()) or 1
    return [
        (pool.value.lower().replace("_", "-"), name, f"{100 * spent[pool.value] / total:.1f} %")
        for pool, name in _POOL_NAMES.items()
        if spent[pool.value]
    ]
