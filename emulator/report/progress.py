"""What a run, and the reading of a log, show on the console while they last; at its end: `summary_text.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from balancer.clock import US, seconds, wall_us
from emulator.text.number_text import duration, number, percent
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Progress

    from emulator.workload.table import JobTable

_SILENT_US = 2 * US
_REDRAW_US = US // 5
_LINE_US = 5 * US
COMPILING = "Compiling the scheduling loops: once for each version, up to a minute"
_KNOWN = ((5, 0.05), (60, 0.01))
"""After so many seconds and so much of the work the time that is left is known well enough to be said."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def time_left(elapsed_s: float, share: float) -> str:
    """How long the rest takes if it goes on like this (`about 8 s left`); empty while too little is done to tell."""
    if share >= 1 or not any(elapsed_s >= known_s and share >= known for known_s, known in _KNOWN):
        return ""
    left_s = round(elapsed_s * (1 - share) / share)
    return f"about {duration(left_s)} left" if left_s > 0 else ""


def counted(jobs: JobTable) -> str:
    """What the rows of a table are, for people."""
    return "jobs and leases" if (jobs.kind != Kind.BATCH).any() else "jobs"


class _Display:
    """A bar on a terminal, a line every five seconds elsewhere, on stderr; nothing in the first two seconds."""

    def __init__(self, console: Console | None, wall: Callable[[], int]) -> None:
        self._console = console
        self._wall = wall
        self._due_us = wall() + _SILENT_US
        self._bar: Progress | None = None

    @property
    def is_due(self) -> bool:
        return self._wall() >= self._due_us

    def begin_again(self) -> None:
        """The two seconds count from now."""
        self._due_us = self._wall() + _SILENT_US

    def announce(self, text: str) -> None:
        """A line at once."""
        from rich.console import Console  # noqa: PLC0415 - slow to load; most runs and pages need none

        self._console = self._console or Console(stderr=True)
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, share: float, text: str) -> None:
        from rich.console import Console  # noqa: PLC0415 - as above
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

        self._console = self._console or Console(stderr=True)
        if not self._console.is_terminal:
            self.announce(text)
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
        self._bar.update(self._bar.task_ids[0], completed=share, description=text)
        self._bar.refresh()
        self._due_us = self._wall() + _REDRAW_US

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class ReadingProgress:
    """How much of a log has been read. `is_quiet` is asked when something is to be shown."""

    def __init__(
        self,
        is_quiet: Callable[[], bool],
        *,
        console: Console | None = None,
        wall: Callable[[], int] = wall_us,
    ) -> None:
        self._is_quiet = is_quiet
        self._wall = wall
        self._display = _Display(console, wall)
        self._begin_us = wall()
        self._path: Path | None = None

    def update(self, path: Path, share: float) -> None:
        """Where the reader is: which file, and how much of it is behind it."""
        if path != self._path:
            self._path, self._begin_us = path, self._wall()
            self._display.begin_again()
        if share >= 1:
            self._display.close()
        elif self._display.is_due and not self._is_quiet():
            left = time_left(seconds(self._wall() - self._begin_us), share)
            self._display.show(share, ", ".join(filter(None, (f"{percent(share)} of {path} read", left))))

    def close(self) -> None:
        """Take the bar off the terminal."""
        self._display.close()


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
        verb: str = "done",
        what: str = "jobs",
        console: Console | None = None,
        wall: Callable[[], int] = wall_us,
    ) -> None:
        """`jobs` to be run in all, 0 if unknown; `end_us`, where known, is the cluster time at the end of the run.

        `verb`: what is done to the jobs. `what`: what `jobs` counts, where it is not only jobs.
        """
        self._jobs = jobs
        self._end_us = end_us
        self._display = _Display(console, wall)
        self._quiet = quiet
        self._verb = verb
        self._what = what
        self._wall = wall
        self._begin_us = wall()
        self._first_us: int | None = None
        self._jobs_before = 0
        self._compiled = False
        self._last: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, cluster_us: int, jobs_done: int, granted: int = 0, rejected: int = 0) -> None:
        """Where the run is now: cluster time, jobs ended, on-demand requests granted and rejected so far."""
        if self._jobs:  # a job that is preempted leaves its nodes more than once
            jobs_done = min(jobs_done, self._jobs)
        if self._first_us is None:
            self._first_us = cluster_us
            # What was done until then and what it took (compiling, an earlier part) says nothing of the rest.
            self._jobs_before, self._begin_us = jobs_done, self._wall()
            if self._compiled:
                self._display.begin_again()
        self._last = (cluster_us, jobs_done, granted, rejected)
        if not self._quiet and self._display.is_due:
            self._display.show(self._share(), self._text())

    def announce_compiling(self) -> None:
        """Say why nothing moves at first, where that is so."""
        from emulator.kernel.compiled import is_first_time  # noqa: PLC0415 - for a run only

        if not self._quiet and is_first_time():
            self._compiled = True
            self._display.announce(COMPILING)

    def close(self) -> None:
        """Take the bar off the terminal, so that the summary follows cleanly."""
        self._display.close()

    def _share(self) -> float:
        """How much of the run is done: the larger of the shares of jobs and of cluster time."""
        return min(1.0, max(self._shares(), default=0.0))

    def _shares(self) -> list[float]:
        """The share of the jobs that are done and of the cluster time that is over, where they are known."""
        _, jobs_done, _, _ = self._last
        shares = [jobs_done / self._jobs] if self._jobs else []
        return shares + self._time_share()

    def _shares_since_first(self) -> list[float]:
        """The same of what was left when this part of the run began."""
        _, jobs_done, _, _ = self._last
        left = self._jobs - self._jobs_before
        return ([(jobs_done - self._jobs_before) / left] if left > 0 else []) + self._time_share()

    def _time_share(self) -> list[float]:
        cluster_us = self._last[0]
        first_us = self._first_us or 0
        if self._end_us is not None and self._end_us > first_us:
            return [(cluster_us - first_us) / (self._end_us - first_us)]
        return []

    def _text(self) -> str:
        cluster_us, jobs_done, granted, rejected = self._last
        parts = [
            f"cluster time {clock_text(seconds(cluster_us))}",
            f"{number(jobs_done)} of {number(self._jobs)} {self._what} {self._verb}"
            if self._jobs
            else f"{number(jobs_done)} {self._what} {self._verb}",
        ]
        if granted or rejected:
            parts.append(f"on demand {number(granted)} granted, {number(rejected)} rejected")
        # By the smaller share: the last submit is over long before the last job is.
        share = min(self._shares_since_first(), default=0.0)
        parts.append(time_left(seconds(self._wall() - self._begin_us), share))
        return ", ".join(filter(None, parts))


def clock_text(time_s: float) -> str:
    """A cluster time with a width that hardly changes: `3 d 04:05:06`."""
    whole = int(time_s)
    days, rest = divmod(whole, _DAY_S)
    text = f"{rest // _HOUR_S:02}:{rest % _HOUR_S // _MINUTE_S:02}:{rest % _MINUTE_S:02}"
    return f"{days} d {text}" if days else text
