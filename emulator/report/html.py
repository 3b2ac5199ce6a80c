"""The report: one self-contained page with plots, figures and what was run."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from balancer.clock import US
from emulator.config.run_parts import NO_NAME
from emulator.metrics.mechanism_tiles import picture_of
from emulator.metrics.timeline import InconsistentRecordError, timeline
from emulator.plugins import named
from emulator.record.run_record import NodePool
from emulator.report import gantt, plots
from emulator.report.compare import figure_rows, same_rows, title_lines
from emulator.report.summary_text import SHARES_HEAD, recorded_rows, shares_rows
from emulator.report.templates import environment
from emulator.report.tiles import tile_texts
from emulator.report.wording import FIGURES, Figure, difference_text, headline_text, value_text
from emulator.simulation.mechanism import plugin_name
from emulator.text.number_text import duration, number, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.record.run_record import RunRecord
    from emulator.report.baseline import Baseline
    from emulator.report.compare import Comparison
    from emulator.report.pairs import HeatMap
    from emulator.simulation.tiles import Picture

_POOL_NAMES = {
    NodePool.OA_IDLE: "batch, idle",
    NodePool.OA_BUSY: "batch, busy",
    NodePool.OD_RESERVE: "reserve",
    NodePool.OD_ALLOC: "on demand",
    NodePool.DOWN: "down",
}
_MOST_MARKS = 200
_LONGEST_SETTING = 240
_environment = environment()


def render(record: RunRecord, summary: dict[str, Any], baseline: Baseline | None = None) -> str:
    """The page for one run; the same record, summary and baseline give the same bytes.

    Plots are down-sampled, so the size does not grow with the number of jobs.
    """
    try:
        line = timeline(record)
    except InconsistentRecordError:
        line = None  # named in the summary's problems, which head the page
    axis = plots.TimeAxis(record.begin_us, record.horizon_us)
    picture, failure = _picture(record)
    of_mechanism = picture and plots.of_mechanism(picture, axis)
    has_requests = summary.get("ondemand_requests", 0) > 0
    return _environment.get_template("report.html.j2").render(
        title=_title(record),
        opening=opening(summary),
        beside=beside(summary, baseline),
        places=_places(summary),
        settings=_settings(record),
        record=record,
        summary=summary,
        span=duration((record.horizon_us - record.begin_us) / US),
        headlines=_headlines(summary, baseline),
        states=line and plots.node_states(record, line, axis),
        pools=_pools(summary),
        queue=line and plots.queue_length(record, line, axis),
        utilization=line and plots.utilization(record, line, axis),
        requests=plots.requests(record, axis) if has_requests else None,
        waits=plots.wait_times(record) if summary["jobs_run"] else None,
        by_size=plots.wait_by_size_and_length(record) if summary["jobs_run"] else None,
        mechanism=plugin_name(record.scenario.get("mechanism") or ""),
        tiles=tile_texts(summary),
        picture=picture,
        failure=failure,
        of_mechanism=of_mechanism,
        bands=picture and plots.legend_of(picture),
        gantt=gantt.section(record),
        gantt_style=gantt.style(),
        rows=[_row(figure, summary) for figure in FIGURES if figure.key in summary],
        shares=shares_rows(summary),
        shares_head=SHARES_HEAD,
        pace=[(name, number(value)) for name, value in summary.get("pace", {}).items()],
        node_time=_node_time(summary["node_time_h"] or {}),
        left_out=summary["jobs_left_out"],
        changed=summary["jobs_changed"],
        recorded=recorded_rows(summary),
        not_followed=summary.get("not_followed", ()),
        rejected=summary.get("ondemand_rejected_by_reason", {}),
        marks=[
            (place, duration(mark.at_us / US), mark.text)
            for place, mark in enumerate(record.marks[:_MOST_MARKS], 1)
        ],
        mark_lines=plots.drawn_marks(record, axis),
        more_marks=max(0, len(record.marks) - _MOST_MARKS),
        scenario=yaml.safe_dump(summary["scenario"], sort_keys=False, allow_unicode=True)
        if summary["scenario"]
        else "",
        number=number,
    )


def _picture(record: RunRecord) -> tuple[Picture | None, str]:
    """The mechanism's picture, or how making it failed: the results of a run are not lost by it."""
    try:
        return picture_of(record), ""
    except Exception as error:  # noqa: BLE001 - a plug-in's own code; told on the page
        name = plugin_name(record.scenario["mechanism"])
        return None, f"The picture of {name} could not be made: {type(error).__name__}: {error}"


def render_comparison(comparison: Comparison, heat: HeatMap, names: tuple[str, str]) -> str:
    """The page for two runs: what `emulator compare` prints, a heat map, then how far both are the same."""
    return _environment.get_template("compare.html.j2").render(
        names=names,
        comparison=comparison,
        heat=heat,
        plot=plots.ratio_heat_map(heat),
        jobs=int(heat.jobs.sum()),
        figures=figure_rows(comparison),
        sameness=same_rows(comparison),
        lines=title_lines(comparison),
        number=number,
    )


def _row(figure: Figure, summary: dict[str, Any]) -> tuple[str, str, str, str]:
    return figure.name, value_text(figure, summary[figure.key]), figure.key, figure.meaning


def _title(record: RunRecord) -> str:
    """The scenario's name, or that of the job log where nobody named the scenario."""
    scenario: Mapping[str, Any] = record.scenario
    name, trace = scenario.get("name"), scenario.get("workload", {}).get("trace")
    if name and name != NO_NAME:
        return str(name)
    return Path(trace).name.split(".")[0] if trace else "Emulator run"


def _settings(record: RunRecord) -> str:
    """Scheduler and mechanism as `--set` takes them, which tell runs of one scenario from each other."""
    found = ((key, record.scenario.get(key)) for key in ("scheduler", "mechanism"))
    return "; ".join(
        f"{key}: {textwrap.shorten(_in_one_line(value), _LONGEST_SETTING, placeholder=' ...')}"
        for key, value in found
        if value
    )


def _in_one_line(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _headlines(summary: dict[str, Any], baseline: Baseline | None) -> list[tuple[str, str, str, str]]:
    """(figure, value, remark, difference from the baseline) of what most readers come for."""
    found = []
    if summary["mean_wait_s"] is None:
        remark = "no job was run"
    else:
        remark = f"median {duration(summary['median_wait_s'])}, 95 % within {duration(summary['p95_wait_s'])}"
    found.append(("Mean wait", "mean_wait_s", remark))
    remark = f"of {_places(summary)}, first submit to last end"
    found.append(
        ("Utilisation", "utilization", remark if summary["utilization"] is not None else "no job was run")
    )
    found.append(("Batch jobs run", "jobs_run", _jobs_remark(summary)))
    if "ondemand_requests" in summary:
        remark = f"{number(summary['ondemand_rejected'])} rejected"
        found.append(("On-demand granted", "ondemand_granted", remark))
    else:
        found.append(("Makespan", "makespan_s", "first submit to last end"))
    remarks = {"ondemand_granted": f" of {number(summary.get('ondemand_requests'))}"}
    return [
        (
            name,
            headline_text(key, summary[key]) + remarks.get(key, ""),
            remark,
            difference_text(key, summary, baseline),
        )
        for name, key, remark in found
    ]


def _jobs_remark(summary: dict[str, Any]) -> str:
    left_out, unfinished = sum(summary["jobs_left_out"].values()), summary["jobs_unfinished"]
    parts = ((f"{number(left_out)} left out", left_out), (f"{number(unfinished)} unfinished", unfinished))
    return ", ".join(text for text, count in parts if count) or "all that were given"


def beside(summary: dict[str, Any], baseline: Baseline | None) -> str:
    """The baseline in a sentence; "": there is none."""
    if baseline is None:
        return ""
    parts = [f"the mean wait is {headline_text('mean_wait_s', baseline.figures['mean_wait_s'])}"]
    parts.append(f"the utilisation {headline_text('utilization', baseline.figures['utilization'])}")
    if requests := summary.get("ondemand_requests"):
        granted = number(baseline.figures.get("ondemand_granted", 0))
        parts.append(f"{granted} of {number(requests)} on-demand requests are granted")
    return f"The same run {baseline.name}: {', '.join(parts)}."


def _places(summary: dict[str, Any]) -> str:
    """`64 nodes`; where jobs share cores, so many cores (docs/results.md)."""
    shares = named(summary["scenario"].get("mechanism"), "oversubscribe") is not None
    return f"{number(summary['nodes'])} {'cores' if shares else 'nodes'}"


def opening(summary: dict[str, Any]) -> str:
    """One sentence: what ran, and what came of it."""
    jobs = number(summary["jobs_run"])
    job = "batch job" if summary["jobs_run"] == 1 else "batch jobs"
    text = f"{jobs} {job} ran on {_places(summary)} in {duration(summary['makespan_s'])}"
    if summary["jobs_unfinished"]:
        text += f", {number(summary['jobs_unfinished'])} did not end"
    if summary["mean_wait_s"] is not None:
        text += f"; the mean wait was {duration(summary['mean_wait_s'])}"
    if requests := summary.get("ondemand_requests"):
        text += (
            f"; {number(summary['ondemand_granted'])} of {number(requests)} on-demand requests were granted"
        )
    return f"{text}."


def _node_time(spent_h: Mapping[str, float]) -> list[tuple[str, str]]:
    return list(zip(spent_h, numbers(spent_h.values()), strict=True))


def _pools(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(CSS variable, name, node-time) of each pool that held nodes, in the order of the plot."""
    spent = summary["node_time_us"]
    if not spent:
        return []
    pools = [pool for pool in _POOL_NAMES if spent[pool.value]]
    return [
        (pool.value.lower().replace("_", "-"), _POOL_NAMES[pool], f"{text} node-h")
        for pool, text in zip(
            pools, numbers(summary["node_time_h"][pool.value] for pool in pools), strict=True
        )
    ]
