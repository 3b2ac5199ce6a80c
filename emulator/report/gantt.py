"""The schedule as a Gantt chart: one canvas, its data and its script in the page, nothing fetched.

Rows are nodes, boxes are runs on neighbouring nodes. At most `MOST_RUNS` with `MOST_BOXES` are drawn, those with most
node-time, so that a page stays small.
"""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.kernel.job_states import RunOutcome
from emulator.kernel.lists import intervals
from emulator.text.number_text import number
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from os import PathLike

    import jinja2
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

MOST_RUNS = 40_000
MOST_BOXES = 250_000
_OUTCOMES = {
    RunOutcome.RUNNING: "still running", RunOutcome.FINISHED: "", RunOutcome.KILLED: "ended at its walltime",
    RunOutcome.REQUEUED: "requeued, its work lost", RunOutcome.CANCELLED: "cancelled",
    RunOutcome.RESIZED: "goes on with other nodes", RunOutcome.PREEMPTED: "preempted",
    RunOutcome.SUSPENDED: "suspended",
}  # fmt: skip


NOTHING_YET: dict[str, Any] = {
    "begin": 0, "horizon": 1, "node_count": 1, "names": [], "left_out": 0, "never": 0, "outcomes": [], "start": [],
    "length": [], "wait": [], "job": [], "nodes": [], "kind": [], "outcome": [], "boxes": [], "low": [], "count": [],
    "user": [], "queue": [],
}  # fmt: skip
"""A chart of a run that has not begun."""


class Gantt:
    """The chart of one run. It shows itself in a notebook; `save` writes a page."""

    def __init__(self, record: RunRecord, title: str) -> None:
        self._record = record
        self._title = title

    @property
    def html(self) -> str:
        """A whole page."""
        return template("gantt_page.html.j2", title=self._title, style=style(), body=section(self._record))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page into a file."""
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="{escape(self._title)}"'
            ' style="width:100%;height:34rem;border:0"></iframe>'
        )


def style() -> str:
    """What a page that has a chart adds to its style."""
    return _asset("gantt.css")


def section(record: RunRecord) -> str:
    """The chart as a part of a page; empty where no run has nodes that are known."""
    data = chart_data(record)
    return chart(data) if data["start"] else ""


def chart(data: dict[str, Any]) -> str:
    """What `chart_data` gives, as a part of a page."""
    # `<` would end the script where a text has `</script>`.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    script, shown = _asset("gantt_colours.js") + _asset("gantt.js"), len(data["start"])
    counts = {"shown": shown, "all": shown + data["left_out"], "never": data["never"]}
    texts = {name: number(count) for name, count in counts.items()}
    return template("gantt.html.j2", data=text, script=script, counts=counts, texts=texts)


def template(name: str, **values: Any) -> str:
    """A page, or a part of one, of this folder."""
    return _templates().get_template(name).render(**values)


def chart_data(record: RunRecord) -> dict[str, Any]:
    """What the script draws. Times are whole seconds from `begin`, all but `begin` as differences to keep them short.

    Of each run in order of start: `start` and `job` (less those of the one before), `length`, `wait`, `nodes`, `kind`
    (1: a lease), `outcome` (index of `outcomes`), `boxes` (how many). `user` and `queue` are their numbers, -1 for one
    that is not known; empty where none is. Of each box: `low` and `count`, the first of neighbouring nodes and how
    many. `left_out`: runs that are not drawn; `never`: jobs and leases that never got a node.
    """
    runs, jobs = record.runs, record.jobs
    sizes = np.diff(runs.first)
    end_us = np.where(runs.end_us < 0, record.horizon_us, runs.end_us)
    area = (end_us - runs.start_us) * sizes
    chosen = _largest(sizes, area)
    boxes = _boxes(runs.first[chosen], sizes[chosen], runs.node)
    if boxes.sum() > MOST_BOXES:
        largest = np.argsort(-area[chosen], kind="stable")
        largest_few = np.sort(largest[np.cumsum(boxes[largest]) <= MOST_BOXES])
        chosen, boxes = chosen[largest_few], boxes[largest_few]
    low, count = np.empty((2, boxes.sum()), np.int64)
    _boxes(runs.first[chosen], sizes[chosen], runs.node, low, count)
    start_s = (runs.start_us[chosen] - record.begin_us) // US
    job = runs.job[chosen]
    wait_s = (runs.start_us[chosen] - jobs.submit_us[job]) // US
    return {
        "begin": record.begin_us // US,
        "horizon": -(-record.horizon_us // US),
        "node_count": len(record.node_names),
        "names": _short_names(record.node_names),
        "left_out": int((sizes > 0).sum()) - len(chosen),
        "never": len(jobs) - len(np.unique(runs.job[sizes > 0])),
        "outcomes": [_OUTCOMES[outcome] for outcome in RunOutcome],
        "start": np.diff(start_s, prepend=0).tolist(),
        "length": (-(-end_us[chosen] // US) - record.begin_us // US - start_s).tolist(),
        "wait": wait_s.tolist(),
        "job": np.diff(jobs.number[job], prepend=0).tolist(),
        "nodes": sizes[chosen].tolist(),
        "kind": (jobs.kind[job] == Kind.ON_DEMAND).astype(np.int8).tolist(),
        "user": _numbers_if_any(jobs.user[job]),
        "queue": _numbers_if_any(jobs.queue[job]),
        "outcome": runs.outcome[chosen].tolist(),
        "boxes": boxes.tolist(),
        "low": low.tolist(),
        "count": count.tolist(),
    }


def _numbers_if_any(numbers: NDArray[np.int32]) -> list[int]:
    """Nothing where no number is known."""
    return numbers.tolist() if (numbers >= 0).any() else []


def _largest(sizes: NDArray[np.int64], area: NDArray[np.int64]) -> NDArray[np.intp]:
    """The rows of runs that are drawn, in order of start."""
    rows = np.flatnonzero(sizes > 0)
    if len(rows) > MOST_RUNS:
        rows = np.sort(rows[np.argsort(-area[rows], kind="stable")[:MOST_RUNS]])
    return rows


_NOWHERE = np.empty(0, np.int64)


def _boxes(
    first: NDArray[np.int64],
    sizes: NDArray[np.int64],
    node: NDArray[np.int32],
    low: NDArray[np.int64] = _NOWHERE,
    count: NDArray[np.int64] = _NOWHERE,
) -> NDArray[np.int64]:
    """Boxes of each run, neighbouring nodes being one; where there is room, also `low` and `count` of each."""
    spare, boxes = np.empty(int(sizes.max(initial=0)), np.int32), np.empty(len(sizes), np.int64)
    intervals(first, sizes, node, spare, boxes, low, count)
    return boxes


_MOST_NAMES = 5000


def _short_names(names: tuple[str, ...]) -> list[str]:
    """The names of the nodes where they are not too many; the script numbers the others."""
    return list(names) if len(names) <= _MOST_NAMES else []


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


@cache
def _templates() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - only where a page is made

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
