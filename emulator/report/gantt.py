"""The schedule as a Gantt chart: one canvas, its data and its script in the page, nothing fetched.

Rows are nodes, boxes are runs. At most `MOST_RUNS` are drawn, those with most node-time, so that a page stays small.
"""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.harness.record import RunOutcome
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

    from emulator.harness.record import RunRecord

MOST_RUNS = 40_000
_MOST_BOXES = 150_000
_OUTCOMES = {
    RunOutcome.RUNNING: "still running", RunOutcome.FINISHED: "", RunOutcome.KILLED: "ended at its walltime",
    RunOutcome.REQUEUED: "requeued, its work lost", RunOutcome.CANCELLED: "cancelled",
    RunOutcome.RESIZED: "goes on with other nodes", RunOutcome.PREEMPTED: "preempted",
    RunOutcome.SUSPENDED: "suspended",
}  # fmt: skip


class Gantt:
    """The chart of one run. It shows itself in a notebook; `save` writes a page."""

    def __init__(self, record: RunRecord, title: str) -> None:
        self._record = record
        self._title = title

    @property
    def html(self) -> str:
        """A whole page."""
        body = section(self._record) or "<p>Which nodes a run had was not recorded.</p>"
        return _PAGE.format(title=escape(self._title), style=_asset("gantt.css"), body=body)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page into a file."""
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="{escape(self._title)}"'
            ' style="width:100%;height:34rem;border:0"></iframe>'
        )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>:root {{ --paper: #fdfdfb; --ink: #1c2126; --faint: #626a73; --grid: #dcded9; --accent: #2463a6; --od-alloc: #e58a1f }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: #14171a; --ink: #e8e6e1; --faint: #9aa3ab; --grid: #363d43;
--accent: #75b0ec; --od-alloc: #f0a040 }} }}
body {{ margin: .6rem; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }}
{style}</style></head><body>{body}</body></html>
"""


def style() -> str:
    """What a page that has a chart adds to its style."""
    return _asset("gantt.css")


def section(record: RunRecord) -> str:
    """The chart as a part of a page; empty where no run has nodes that are known."""
    data = chart_data(record)
    if not data["start"]:
        return ""
    # `<` would end the script where a text has `</script>`.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    shown, left_out = len(data["start"]), data["left_out"]
    remark = f" The {shown:,} largest of {shown + left_out:,} runs." if left_out else ""
    return _SECTION.format(data=text, script=_asset("gantt.js"), remark=remark)


_SECTION = """<div class="gantt">
<div class="gantt-bar"><label>Job <input type="search" inputmode="numeric" size="9" aria-label="Find a job by its number"></label>
<button type="button" data-do="in" aria-label="Zoom in">+</button><button type="button" data-do="out" aria-label="Zoom out">−</button>
<button type="button" data-do="all">All</button><output aria-live="polite"></output></div>
<canvas tabindex="0" role="application" aria-label="Schedule: nodes upwards, time to the right. Arrow keys move, plus and minus zoom, 0 shows all, N and P go to the next and the previous run of the job that was found."></canvas>
<div class="gantt-tip" hidden></div>
<p class="gantt-help">Nodes upwards, time to the right.{remark} Drag to move; click, then wheel or + and − to zoom (Shift: nodes only); 0 shows all.</p>
<script type="application/json">{data}</script><script>{script}</script>
</div>"""


def chart_data(record: RunRecord) -> dict[str, Any]:
    """What the script draws. Times are whole seconds from `begin`, all but `begin` as differences to keep them short.

    Of each run in order of start: `start` (to the one before), `length`, `wait` (-1: unknown), `job` (to the one before),
    `nodes`, `kind` (1: a lease), `outcome` (index of `outcomes`), `boxes` (how many). Of each box: `low` and `count`,
    the first of neighbouring nodes and how many.
    """
    runs, jobs = record.runs, record.jobs
    sizes = np.diff(runs.first)
    end_us = np.where(runs.end_us < 0, record.horizon_us, runs.end_us)
    chosen = _largest(sizes, (end_us - runs.start_us) * sizes)
    first, low, count = _boxes(runs.first[chosen], sizes[chosen], runs.node)
    if len(low) > _MOST_BOXES:
        kept = np.searchsorted(np.cumsum(first), _MOST_BOXES)
        chosen, boxes = chosen[:kept], int(first[:kept].sum())
        first, low, count = first[:kept], low[:boxes], count[:boxes]
    start_s = (runs.start_us[chosen] - record.begin_us) // US
    job = runs.job[chosen]
    wait_s = (runs.start_us[chosen] - jobs.submit_us[job]) // US
    return {
        "begin": record.begin_us // US,
        "horizon": -(-record.horizon_us // US),
        "node_count": len(record.node_names),
        "names": _short_names(record.node_names),
        "left_out": int((sizes > 0).sum()) - len(chosen),
        "outcomes": [_OUTCOMES[outcome] for outcome in RunOutcome],
        "start": np.diff(start_s, prepend=0).tolist(),
        "length": (-(-end_us[chosen] // US) - record.begin_us // US - start_s).tolist(),
        "wait": wait_s.tolist(),
        "job": np.diff(jobs.number[job], prepend=0).tolist(),
        "nodes": sizes[chosen].tolist(),
        "kind": (jobs.kind[job] == Kind.ON_DEMAND).astype(np.int8).tolist(),
        "outcome": runs.outcome[chosen].tolist(),
        "boxes": first.tolist(),
        "low": low.tolist(),
        "count": count.tolist(),
    }


def _largest(sizes: NDArray[np.int64], area: NDArray[np.int64]) -> NDArray[np.intp]:
    """The rows of runs that are drawn, in order of start."""
    rows = np.flatnonzero(sizes > 0)
    if len(rows) > MOST_RUNS:
        rows = np.sort(rows[np.argsort(-area[rows], kind="stable")[:MOST_RUNS]])
    return rows


def _boxes(
    first: NDArray[np.int64], sizes: NDArray[np.int64], node: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(boxes of each run, first node of each box, its nodes): neighbouring nodes of a run are one box."""
    if not len(sizes):
        return (np.zeros(0, np.int64),) * 3
    run = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(run)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    nodes = node[np.repeat(first, sizes) + within].astype(np.int64)
    order = np.lexsort((nodes, run))
    nodes = nodes[order]
    is_new = np.ones(len(run), np.bool_)
    is_new[1:] = (run[1:] != run[:-1]) | (nodes[1:] != nodes[:-1] + 1)
    begins = np.flatnonzero(is_new)
    return (
        np.bincount(run[begins], minlength=len(sizes)),
        nodes[begins],
        np.diff(begins, append=len(run)),
    )


_MOST_NAMES = 5000


def _short_names(names: tuple[str, ...]) -> list[str]:
    """The names of the nodes where they are not too many; the script numbers the others."""
    return list(names) if len(names) <= _MOST_NAMES else []


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
