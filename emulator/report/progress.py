"""What a run shows on the console: its progress while it lasts, its summary at the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from balancer.clock import US, seconds, wall_us
from emulator.report.wording import duration, number

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console, Group
    from rich.progress import Progress
    from rich.table import Table

_SILENT_US = 2 * US
_REDRAW_US = US // 5
_LINE_US = 5 * US
COMPILING = "Compiling the scheduling loops: once for each version, up to a minute"
_LEAST_SHARE = 0.02
"""Of a run that is done, before anything is said of the time that is left."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


class RunProgress:
    """Progress of one run on stderr: a bar on a terminal, a line every five seconds elsewhere.

    Nothing is shown in the first two seconds, nor ever when `quiet`. `update` costs well under a microsecond
    of drawing unless something is due, so it may be called a thousand times a second.
    """

    def __init__(
        self,
        *,
        jobs: int,
        end_us: int | None = None,
        quiet: bool = False,
        deed: str = "done",
        console: Console | None = None,
        wall: Callable[[], int] = wall_us,
    ) -> None:
        """`jobs` to be run in all, 0 if unknown; `end_us`, where known, is the cluster time at the end of the run.

        `deed`: what is done to the jobs.
        """
        self._jobs = jobs
        self._end_us = end_us
        self._console = console
        self._quiet = quiet
        self._deed = deed
        self._wall = wall
        self._begin_us = wall()
        self._due_us = self._begin_us + _SILENT_US
        self._first_us: int | None = None
        self._compiled = False
        self._bar: Progress | None = None
        self._last: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, cluster_us: int, jobs_done: int, granted: int = 0, rejected: int = 0) -> None:
        """Where the run is now: cluster time, jobs ended, on-demand requests granted and rejected so far."""
        if self._first_us is None:
            self._first_us = cluster_us
            if self._compiled:  # that took its time, which says nothing of what is to come
                self._begin_us = self._wall()
                self._due_us = self._begin_us + _SILENT_US
        self._last = (cluster_us, jobs_done, granted, rejected)
        if not self._quiet and self._wall() >= self._due_us:
            self._show()

    def announce_compiling(self) -> None:
        """Say why nothing moves at first, where that is so."""
        from emulator.harness.compiled import is_first_time  # noqa: PLC0415 - for a run only

        if not self._quiet and is_first_time():
            self._compiled = True
            from rich.console import Console  # noqa: PLC0415 - as below

            self._console = self._console or Console(stderr=True)
            self._console.print(COMPILING, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar off the terminal, so that the summary follows cleanly."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - slow to load; most runs and pages need none
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

        self._console = self._console or Console(stderr=True)
        if not self._console.is_terminal:
            self._console.print(self._text(), markup=False, highlight=False, soft_wrap=True)
            self._due_us = self._wall() + _LINE_US
            return
        if self._bar is None:
            self._bar = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.description}", markup=False),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._bar.add_task("", total=1.0)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=self._share(), description=self._text())
        self._bar.refresh()
        self._due_us = self._wall() + _REDRAW_US

    def _share(self) -> float:
        """How much of the run is done: the larger of the shares of jobs and of cluster time."""
        cluster_us, jobs_done, _, _ = self._last
        of_jobs = jobs_done / self._jobs if self._jobs else 0.0
        first_us = self._first_us or 0
        of_time = 0.0
        if self._end_us is not None and self._end_us > first_us:
            of_time = (cluster_us - first_us) / (self._end_us - first_us)
        return min(1.0, max(of_jobs, of_time))

    def _text(self) -> str:
        cluster_us, jobs_done, granted, rejected = self._last
        parts = [
            f"cluster time {clock_text(seconds(cluster_us))}",
            f"{number(jobs_done)} of {number(self._jobs)} jobs {self._deed}"
            if self._jobs
            else f"{number(jobs_done)} jobs {self._deed}",
        ]
        if granted or rejected:
            parts.append(f"on demand {number(granted)} granted, {number(rejected)} rejected")
        share = self._share()
        if _LEAST_SHARE <= share < 1:  # before, the estimate jumps from years to minutes
            left_s = seconds(self._wall() - self._begin_us) * (1 - share) / share
            parts.append(f"about {duration(left_s)} to go")
        return ", ".join(parts)


def clock_text(time_s: float) -> str:
    """A cluster time with a width that hardly changes: `3 d 04:05:06`."""
    whole = int(time_s)
    days, rest = divmod(whole, _DAY_S)
    text = f"{rest // _HOUR_S:02}:{rest % _HOUR_S // _MINUTE_S:02}:{rest % _MINUTE_S:02}"
    return f"{days} d {text}" if days else text


def render_summary(summary: dict[str, Any], out_dir: Path | None = None, *, has_report: bool = True) -> Group:
    """What the console shows when a run is over: the main figures with their units, and where the rest is."""
    from rich.console import Group  # noqa: PLC0415 - slow to load; most runs and pages need none
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, text in summary_rows(summary):
        table.add_row(name, Text(text))
    lines: list[Text | Table] = []
    if summary["interrupted"]:
        lines.append(Text(f"Interrupted: {summary['interrupted']}", style="bold yellow"))
    lines += [
        Text(f"The record contradicts itself: {problem}", style="bold red") for problem in summary["problems"]
    ]
    lines.append(table)
    if shares := shares_rows(summary):
        lines.append(_shares_table(shares))
    if out_dir is not None:
        then = (
            f"open {out_dir / 'report.html'}"
            if has_report
            else f"`emulator report {out_dir}` makes a page of them"
        )
        lines.append(Text(f"Results are in {out_dir}; {then}"))
    return Group(*lines)


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


def _shares_table(rows: list[tuple[str, ...]]) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title="Slow-down on shared processors", title_justify="left", box=None)
    for name in SHARES_HEAD:
        table.add_column(name, justify="right")
    *jobs, means = rows
    for row in jobs[:_MOST_SHARES]:
        table.add_row(*row)
    if len(jobs) > _MOST_SHARES:
        table.add_row("…")
    table.add_row(*means)
    return table


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
    wait = ", ".join(
        f"{name} {duration(summary[key])}"
        for name, key in (("mean", "mean_wait_s"), ("median", "median_wait_s"), ("longest", "max_wait_s"))
    )
    threshold = number(summary["bounded_slowdown_threshold_s"])
    rows += [
        ("wait time", wait),
        ("mean response", duration(summary["mean_response_s"])),
        ("bounded slowdown", f"{number(summary['mean_bounded_slowdown'])} (threshold {threshold} s)"),
        ("slowdown by area", number(summary["slowdown_weighted_by_area"])),
        ("utilisation", _percent(summary["utilization"])),
    ]
    if "ondemand_requests" in summary:
        batch, ondemand = _percent(summary["batch_utilization"]), _percent(summary["ondemand_utilization"])
        whole = _percent(summary["utilization"])
        rows[-1] = ("utilisation", f"{whole} (batch {batch}, on demand {ondemand})")
        granted, asked = number(summary["ondemand_granted"]), number(summary["ondemand_requests"])
        rejected = number(summary["ondemand_rejected"])
        rows += [
            ("on-demand requests", f"{granted} of {asked} granted, {rejected} rejected"),
            ("reserve, idle", f"{number(summary['reserve_idle_node_h'])} node-hours"),
        ]
    rows.append(("makespan", duration(summary["makespan_s"])))
    if "energy" in summary:
        energy = summary["energy"]
        boots = f", {number(energy['boots'])} boots" if energy["boots"] else ""
        rows.append(("energy", f"{number(energy['total_kwh'])} kWh{boots}"))
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


def speeds(pace: dict[str, Any]) -> str:
    """What was asked of the clock and what came of it, both in cluster time over wall time."""
    text = f"{pace['reached_speed']:,.0f}x of {pace['speed']:,.0f}x"
    return text + (f"; at most about {pace['limit_speed']:,.0f}x here" if "limit_speed" in pace else "")


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


def _percent(share: float | None) -> str:
    return number(None) if share is None else f"{100 * share:.2f} %"
