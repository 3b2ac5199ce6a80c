"""What there is to know about a trace before it is replayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US, seconds
from emulator.text.number_text import grouped, number, number_of, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import RenderableType

    from emulator.workload.swf import SwfLog
    from emulator.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A distribution in six numbers."""

    least: float
    quarter: float
    median: float
    three_quarters: float
    largest: float
    mean: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Quantiles:
        """Of at least one value."""
        low, quarter, median, three_quarters, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
        return cls(low, quarter, median, three_quarters, high, float(values.mean()))


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """The figures of a trace on `nodes` nodes. Shares are from 0 to 1; None: the log does not say.

    `span_s` goes from the first submit to the last end by the log's own waits (without them, as if no job
    waited), `load` is the sum of run time x nodes over nodes x span. `estimate_share` is the share of jobs
    with an estimate, `overrun_share` the share of these that ran longer, `overestimate` the median of their
    estimate / run time.
    Of the `records` of the file `rows` may be jobs, `jobs` are; `left_out` and `counted` tell of the others.
    `users`, `groups` and `queues` count the different ones.
    """

    source: str
    records: int
    rows: int
    jobs: int
    nodes: int
    unix_start: int | None
    span_s: float
    load: float
    estimate_share: float
    overrun_share: float | None
    overestimate: float | None
    width: Quantiles
    run_s: Quantiles
    wait_s: Quantiles | None
    users: int
    groups: int
    queues: int
    sorted_by_submit: bool
    left_out: dict[str, int]
    counted: dict[str, int]
    complaints: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def describe(log: SwfLog, workload: Workload) -> TraceInfo:
    """The figures of a log and of the workload made of it."""
    jobs, rows = workload.jobs, workload.rows
    run_s = jobs.run_us / US
    end_s = (jobs.submit_us + jobs.run_us) / US
    wait_s = log.column("wait_s")[rows]
    waited = wait_s >= 0
    span_s = float((end_s + np.where(waited, wait_s, 0)).max())
    estimate_s, recorded_run_s = log.column("requested_s")[rows], log.column("run_s")[rows]
    stated = estimate_s > 0
    unix_start = log.key_int("UnixStartTime")
    return TraceInfo(
        source=workload.source,
        records=log.records,
        rows=len(log),
        jobs=len(jobs),
        nodes=workload.nodes,
        # Some logs have absolute submit times and a start time of 0: the sum is right for both.
        unix_start=None if unix_start is None else unix_start + round(workload.shift_s),
        span_s=span_s,
        load=float(run_s @ jobs.nodes) / (workload.nodes * span_s),
        estimate_share=float(stated.mean()),
        overrun_share=float((recorded_run_s > estimate_s)[stated].mean()) if stated.any() else None,
        overestimate=float(np.median((estimate_s / recorded_run_s)[stated])) if stated.any() else None,
        width=Quantiles.of(jobs.nodes),
        run_s=Quantiles.of(run_s),
        wait_s=Quantiles.of(wait_s[waited]) if waited.any() else None,
        users=_different(jobs.user),
        groups=_different(jobs.group),
        queues=_different(jobs.queue),
        sorted_by_submit=bool((np.diff(log.column("submit_s")) >= 0).all()),
        left_out=workload.left_out,
        counted=workload.counted,
        complaints=log.complaints,
    )


def render(info: TraceInfo) -> RenderableType:
    """The figures for a terminal."""
    # Not needed for the figures alone.
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column()
    begin = "" if not info.unix_start else f", from {np.datetime64(info.unix_start, 's')} UTC"
    facts.add_row("jobs", f"{grouped(info.jobs)} of {grouped(info.records)} lines")
    facts.add_row("cluster", number_of(info.nodes, "node"))
    facts.add_row("span", f"{grouped(info.span_s / 86_400, 1)} days{begin}")
    facts.add_row("offered load", f"{info.load:.2f}")
    facts.add_row("estimates", _estimates(info))
    facts.add_row(
        "users, groups, queues", f"{grouped(info.users)}, {grouped(info.groups)}, {grouped(info.queues)}"
    )
    facts.add_row("sorted by submit", "yes" if info.sorted_by_submit else "no (sorted on reading)")

    spread = Table(box=None, padding=(0, 2), pad_edge=False)
    spread.add_column("", style="bold")
    for heading in ("least", "25 %", "median", "75 %", "largest", "mean"):
        spread.add_column(heading, justify="right")
    for name, quantiles in (
        ("nodes", info.width),
        ("run time (s)", info.run_s),
        ("recorded wait (s)", info.wait_s),
    ):
        if quantiles is not None:
            values = asdict(quantiles).values()
            spread.add_row(name, *map(number, values))

    parts: list[RenderableType] = [Text(info.source, style="bold"), facts, Text(), spread]
    for title, counts in (("left out", info.left_out), ("counted", info.counted)):
        if counts:
            table = Table.grid(padding=(0, 2))
            table.add_column(justify="right")
            table.add_column()
            for reason, count in counts.items():
                table.add_row(grouped(count), reason)
            parts += [Text(), Text(title, style="bold"), table]
    parts += [Text(complaint, style="yellow") for complaint in info.complaints]
    return Group(*parts)


def daily_load(workload: Workload) -> NDArray[np.float64]:
    """For each day, the node-time of the jobs submitted on it over the node-time there is."""
    area = seconds(1) * workload.jobs.run_us * workload.jobs.nodes
    day = workload.jobs.submit_us // (86_400 * US)
    load: NDArray[np.float64] = np.bincount(day, weights=area) / (workload.nodes * 86_400)
    return load


def _estimates(info: TraceInfo) -> str:
    if info.overrun_share is None or info.overestimate is None:
        return "none"
    return (
        f"{percent(info.estimate_share, 2)} of the jobs; {percent(info.overrun_share)} ran longer; "
        f"median estimate {info.overestimate:.2g} x run time"
    )


def _different(labels: NDArray[np.int32]) -> int:
    return len(np.unique(labels[labels >= 0]))
