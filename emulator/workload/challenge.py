"""Which week of a log is the most challenging (Liu et al. 2018, section III-A).

The paper takes the week with the highest sum of usage and inverse of availability. Availability: the free
nodes of the batch cluster, averaged over periods of 60 s and these over the week (the paper measures them every
second; here the means are exact). Usage: the sum of time x cores of the on-demand jobs. As the paper does not
say how core-seconds and nodes are added, each of the two is taken as a share of the greatest there is in any
week: the sum goes from 0 to 2 and has no unit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.text.number_text import grouped, percent
from emulator.workload.packing import intervals, level
from emulator.workload.rules import with_times_of_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from rich.console import RenderableType

    from emulator.workload.swf import SwfLog

WEEK_S = 604_800
PERIOD_S = 60
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Week:
    """The figures of a week that begins at midnight UTC of `begin`.

    `jobs` and `on_demand_jobs` count starts, `free_nodes` is the average availability, `full_share` the share of
    60 s periods with less than one node free, `core_hours` the on-demand usage. `score` is from 0 to 2.
    `first_from_core_hours`: with more usage than that this week would have the highest score (None: never).
    """

    begin: date
    jobs: int
    free_nodes: float
    full_share: float
    on_demand_jobs: int
    core_hours: float
    score: float
    first_from_core_hours: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "begin": self.begin.isoformat()}


def weeks(
    batch: Sequence[SwfLog],
    on_demand: Sequence[SwfLog] = (),
    *,
    nodes: int,
    known_core_hours: Mapping[date, float] | None = None,
) -> list[Week]:
    """The weeks in which batch jobs were submitted, in order. Jobs that run on into a week count in it.

    Weeks begin on the weekday of the earliest log's start (UnixStartTime, or its first submit). For a week
    whose on-demand log is missing, `known_core_hours` may say the usage. Raises ValueError without batch jobs.
    """
    batch = [with_times_of_jobs(log)[0] for log in batch]
    begins = [_begin(log) for log in batch if len(log)]
    if not begins:
        raise ValueError("there are no batch jobs")
    origin = min(begins)
    last_s = max(
        _unix_s(log) + float(log.column("submit_s").max()) - _seconds(origin) for log in batch if len(log)
    )
    count = int(last_s // WEEK_S) + 1
    batch_starts, busy = _in_use(batch, origin, count, nodes)
    on_demand_starts, cores = _in_use(on_demand, origin, count, np.inf)
    free = (nodes - busy).reshape(count, -1)
    core_hours = cores.reshape(count, -1).mean(axis=1) * WEEK_S / 3600
    names = [origin + timedelta(weeks=number) for number in range(count)]
    for begin, known in (known_core_hours or {}).items():
        if begin not in names:
            raise ValueError(f"no week begins on {begin}; the first begins on {origin}")
        core_hours[names.index(begin)] = known
    inverse = _inverse(free.mean(axis=1))
    score = core_hours / max(float(core_hours.max()), 1e-9) + inverse
    return [
        Week(
            begin=names[number],
            jobs=int(batch_starts[number]),
            free_nodes=float(free[number].mean()),
            full_share=float((free[number] < 1).mean()),
            on_demand_jobs=int(on_demand_starts[number]),
            core_hours=float(core_hours[number]),
            score=float(score[number]),
            first_from_core_hours=_first_from(number, core_hours, inverse),
        )
        for number in range(count)
    ]


def most_challenging_week(figures: Sequence[Week]) -> Week:
    """The week with the highest score; the earlier of equal ones."""
    return max(figures, key=lambda week: (week.score, -week.begin.toordinal()))


def render(figures: Sequence[Week]) -> RenderableType:
    """A table for a terminal, the most challenging week in bold."""
    from rich.table import Table  # noqa: PLC0415 - not needed for the figures alone

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("week", no_wrap=True)
    for heading in ("jobs", "free", "full", "on demand", "core-hours", "first at", "score"):
        table.add_column(heading, justify="right", no_wrap=True)
    hardest = most_challenging_week(figures)
    for week in figures:
        table.add_row(
            week.begin.isoformat(),
            grouped(week.jobs),
            grouped(week.free_nodes, 1),
            percent(week.full_share),
            grouped(week.on_demand_jobs),
            grouped(week.core_hours),
            "" if week.first_from_core_hours is None else grouped(week.first_from_core_hours),
            f"{week.score:.3f}{' *' if week is hardest else '  '}",
            style="bold" if week is hardest else None,
        )
    table.caption = (
        "* the most challenging week; first at: with more core-hours on demand than that a week would be it"
    )
    return table


def _inverse(free_nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse availability as a share of the greatest: the least availability over this one; 0 free nodes are most."""
    least = float(free_nodes.min())
    return np.where(free_nodes > 0, least / np.maximum(free_nodes, 1e-9), 1.0)


def _first_from(week: int, core_hours: NDArray[np.float64], inverse: NDArray[np.float64]) -> float | None:
    """The usage from which a week's score is above all others'."""
    other_weeks = np.arange(len(core_hours)) != week
    used, lead = core_hours[other_weeks], inverse[other_weeks] - inverse[week]
    most = float(used.max(initial=0.0))
    # Below the greatest usage of the others the shares are of that one, above it of this week's own.
    below = float((used + most * lead).max(initial=0.0))
    if below < most:
        return max(below, 0.0)
    if (lead >= 1).any():
        return None
    return max(most, float((used / (1 - lead)).max(initial=0.0)))


def _in_use(
    logs: Sequence[SwfLog], origin: date, count: int, most: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Starts in each week, and for each period of all weeks the mean of the processors in use, `most` at most."""
    starts, ends, widths = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for log in logs:
        start_us, end_us, width = intervals(log)
        shift_us = (_unix_s(log) - _seconds(origin)) * US
        starts.append(start_us + shift_us)
        ends.append(end_us + shift_us)
        widths.append(width)
    start_us = np.concatenate(starts)
    week = start_us // (WEEK_S * US)
    per_week = np.bincount(week[(week >= 0) & (week < count)], minlength=count)
    use = level(start_us, np.concatenate(ends), np.concatenate(widths))
    if not len(use.time_us):
        return per_week, np.zeros(count * WEEK_S // PERIOD_S)
    # The integral of a step function is linear between the steps, so its means over periods are exact.
    time_s = use.time_us / US
    integral = np.concatenate(([0.0], np.cumsum(np.minimum(use.count[:-1], most) * np.diff(time_s))))
    bounds_s = np.arange(0, count * WEEK_S + 1, PERIOD_S)
    return per_week, np.diff(np.interp(bounds_s, time_s, integral)) / PERIOD_S


def _unix_s(log: SwfLog) -> int:
    return log.zero_unix_s or 0


def _begin(log: SwfLog) -> date:
    """The day on which the log begins: its start time's if it has one, else its first submit's."""
    unix_s = _unix_s(log) or float(log.column("submit_s").min())
    return datetime.fromtimestamp(unix_s, UTC).date()


def _seconds(day: date) -> int:
    return (day - _EPOCH).days * 86_400
