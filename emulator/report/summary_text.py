"""What a run shows on the console when it is over: the main figures with their units, and where the rest is.

Plain text: loading the library that draws other commands' tables takes as long as writing the results of a small run.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from html import escape
from typing import TYPE_CHECKING, Any

import click

from emulator.metrics.wait_comparison import JOBS, LIKELY, RECORDED, SIMULATED, is_far
from emulator.report.tiles import own_tiles, tile_texts
from emulator.report.wording import headline_text
from emulator.text.number_text import duration, number, percent
from emulator.workload.recorded_waits import FAR
from emulator.workload.workload import is_not_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from emulator.report.baseline import Baseline

_GAP = "  "


def summary_text(
    summary: dict[str, Any],
    out_dir: Path | None = None,
    *,
    has_report: bool = True,
    width: int | None = None,
    baseline: Baseline | None = None,
) -> str:
    """The text, styled for a terminal; figures that are wider than `width` columns go on below themselves."""
    return "\n".join(_lines(summary, out_dir, has_report=has_report, width=width, baseline=baseline))


def print_summary(
    summary: dict[str, Any], out_dir: Path, *, has_report: bool = True, baseline: Baseline | None = None
) -> None:
    """Print it: where stdout is no terminal, without styles, and a figure a line however long.

    Nor are there styles where NO_COLOR is set (https://no-color.org) or the terminal knows none.
    """
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    click.echo(
        summary_text(summary, out_dir, has_report=has_report, width=width, baseline=baseline),
        color=False if is_plain else None,
    )


def _lines(
    summary: dict[str, Any],
    out_dir: Path | None,
    *,
    has_report: bool,
    width: int | None,
    baseline: Baseline | None,
) -> Iterator[str]:
    if summary["interrupted"]:
        yield click.style(f"Interrupted: {summary['interrupted']}", bold=True, fg="yellow")
    for problem in summary["problems"]:
        yield click.style(f"The record contradicts itself: {problem}", bold=True, fg="red")
    yield from _figures([*summary_rows(summary), *_baseline_rows(summary, baseline)], width)
    if shares := shares_rows(summary):
        yield from _shares_table(shares)
    if out_dir is not None:
        then = (
            f"open {out_dir / 'report.html'}"
            if has_report
            else f"`emulator report {out_dir}` makes a page of them"
        )
        yield f"Results are in {out_dir}; {then}"


def _figures(rows: Sequence[tuple[str, str]], width: int | None) -> Iterator[str]:
    names = max(len(name) for name, _ in rows)
    room = max(20, width - names - len(_GAP)) if width else max(len(text) for _, text in rows)
    for name, text in rows:
        first, *more = textwrap.wrap(text, room) or [""]
        yield click.style(f"{name:{names}}", dim=True) + _GAP + first
        for other in more:
            yield " " * names + _GAP + other


def _baseline_rows(summary: dict[str, Any], baseline: Baseline | None) -> list[tuple[str, str]]:
    if baseline is None:
        return []
    shown = [("mean wait", "mean_wait_s"), ("utilisation", "utilization")]
    shown += [("on-demand granted", "ondemand_granted")] if summary.get("ondemand_requests") else []
    figures = baseline.figures
    return [
        (
            baseline.name,
            ", ".join(f"{name} {headline_text(key, figures[key])}" for name, key in shown if key in figures),
        )
    ]


_MOST_SHARES = 20
SHARES_HEAD = ("job", "cores", "model", "measured", "by shares")


def shares_rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """The slow-downs of jobs that really shared processors, beside the model's, and their means; texts."""
    found = summary.get("mechanism", {})
    keys = ("model_slowdown", "measured_slowdown", "slowdown_by_shares")
    rows = [
        (str(each["job"]), str(each["cores"]), *(f"{each[key]:.2f}" for key in keys))
        for each in json.loads(found.get("processor_shares", "[]"))
    ]
    return [*rows, ("mean", "", *(f"{found[f'mean_{key}']:.2f}" for key in keys))] if rows else []


def _shares_table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    *jobs, means = rows
    shown = [*jobs[:_MOST_SHARES], *([("…", "", "", "", "")] if len(jobs) > _MOST_SHARES else []), means]
    widths = [max(map(len, column)) for column in zip(SHARES_HEAD, *shown, strict=True)]

    def line(cells: tuple[str, ...]) -> str:
        return _GAP.join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))

    yield click.style("Slow-down on shared processors", italic=True)
    yield click.style(line(SHARES_HEAD), bold=True)
    yield from map(line, shown)


def summary_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    left_out = sum(summary["jobs_left_out"].values())
    remarks = [
        f"{number(count)} {what}"
        for what, count in (
            ("still running", summary["jobs_running"]),
            ("still waiting", summary["jobs_waiting"]),
            ("not submitted", summary["jobs_not_submitted"]),
            ("cancelled", summary["jobs_cancelled"]),
            ("left out", left_out),
        )
        if count
    ]
    rows = [("batch jobs run", ", ".join([number(summary["jobs_run"]), *remarks]))]
    rows += [(f"left out: {reason}", number(count)) for reason, count in summary["jobs_left_out"].items()]
    rows += [(what, number(count)) for what, count in summary["jobs_changed"].items() if is_not_read(what)]
    wait = ", ".join(
        f"{name} {duration(summary[key])}"
        for name, key in (("mean", "mean_wait_s"), ("median", "median_wait_s"), ("longest", "max_wait_s"))
    )
    threshold = number(summary["bounded_slowdown_threshold_s"])
    rows += [
        ("wait time", wait),
        *recorded_rows(summary),
        ("mean response", duration(summary["mean_response_s"])),
        ("bounded slowdown", f"{number(summary['mean_bounded_slowdown'])} (threshold {threshold} s)"),
        ("slowdown by area", number(summary["slowdown_weighted_by_area"])),
        ("utilisation", percent(summary["utilization"], 2)),
    ]
    if "ondemand_requests" in summary:
        batch, ondemand = (
            percent(summary["batch_utilization"], 2),
            percent(summary["ondemand_utilization"], 2),
        )
        whole = percent(summary["utilization"], 2)
        rows[-1] = ("utilisation", f"{whole} (batch {batch}, on demand {ondemand})")
        granted, requests = number(summary["ondemand_granted"]), number(summary["ondemand_requests"])
        rejected = number(summary["ondemand_rejected"])
        rows += [
            ("on-demand requests", f"{granted} of {requests} granted, {rejected} rejected"),
            ("reserve, idle", f"{number(summary['reserve_idle_node_h'])} node-h"),
        ]
    tiles = tile_texts(summary, own_tiles(summary))
    rows += [(name, f"{text} ({remark})" if remark else text) for name, text, remark in tiles]
    rows.append(("makespan", duration(summary["makespan_s"])))
    if "energy" in summary:
        energy = summary["energy"]
        boots = f", {number(energy['boots'])} boots" if energy["boots"] else ""
        rows.append(("energy", f"{number(energy['total_kwh'])} kWh{boots}"))
    rows += [("not followed", rule) for rule in summary.get("not_followed", ())]
    pace = summary.get("pace", {})
    if "held_s" in pace:
        in_all, most = duration(pace["held_s"]), duration(pace["longest_hold_s"])
        if summary["scenario"].get("live", {}).get("pace") == "held":
            rows.append(("clock waited", f"{in_all} in all, at most {most} at once"))
        else:
            rows.append(("behind the clock", f"for {in_all} in all, by at most {most} (wall time)"))
    if "reached_speed" in pace:
        rows.append(("speed", speeds(pace)))
    rows += _cost_rows(pace, summary["scenario"].get("live", {}))
    speed = summary["jobs_per_s"]
    rows.append(("wall time", duration(summary["wall_s"]) + (f", {number(speed)} jobs/s" if speed else "")))
    return rows


def recorded_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Waits by the log beside those of the run; nothing where the log has none."""
    found = summary.get("recorded_waits")
    if not found:
        return []
    few = (
        "" if found[JOBS] == summary["jobs_run"] else f" of the {number(found[JOBS])} jobs whose start it has"
    )
    text = f"mean {duration(found[RECORDED])}{few}, simulated {duration(found[SIMULATED])}"
    if not is_far(found):
        return [("wait by the log", text)]
    why = found.get(LIKELY, ["`emulator trace check` says what may be wrong with the log"])
    return [
        ("wait by the log", f"{text}: more than {FAR:g} times apart"),
        *(("likely", each) for each in why),
    ]


def speeds(pace: dict[str, Any]) -> str:
    """What was asked of the clock and what came of it, both in cluster time over wall time."""
    reached, requested, limit = (
        f"{number(round(pace[key]))}x" if key in pace else ""
        for key in ("reached_speed", "speed", "limit_speed")
    )
    return f"{reached} of {requested}" + (f"; at most about {limit} here" if limit else "")


def _cost_rows(pace: dict[str, Any], live: dict[str, Any]) -> list[tuple[str, str]]:
    """What a clock that waits for nobody cost, in cluster time."""
    rows = [
        (label, f"mean {duration(pace[f'{name}_mean_s'])}, at most {duration(pace[f'{name}_most_s'])}")
        for label, name in (
            ("submitted late", "submit_late"),
            ("run over nominal", "run_over_nominal"),
            ("servers later than their grant", "lease_start_late"),
        )
        if f"{name}_mean_s" in pace
    ]
    if "lag_s" in pace:
        limit_s = live.get("max_lag_s", 0)
        verdict = "more than" if pace["lag_s"] > limit_s else "within"
        rows.append(("lag", f"{duration(pace['lag_s'])} of wall time, {verdict} the limit of {limit_s:g} s"))
    return rows


def html_table(title: str, rows: Sequence[tuple[str, ...]], remarks: Sequence[str] = ()) -> str:
    """Rows of texts for a notebook; the first column says what the others are."""
    body = "".join(
        f"<tr><th style='text-align:left;font-weight:400'>{escape(first)}</th>"
        + "".join(f"<td style='text-align:left'>{escape(text)}</td>" for text in rest)
        + "</tr>"
        for first, *rest in rows
    )
    paragraphs = "".join(f"<p><strong>{escape(remark)}</strong></p>" for remark in remarks)
    return f"<div><p><strong>{escape(title)}</strong></p>{paragraphs}<table>{body}</table></div>"
