"""What a mechanism shows of a run before all other figures: at most four tiles, and one picture over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

    Values = NDArray[np.float64]

Unit = Literal["count", "s", "share", "node-h", "nodes", "h", ""]
MOST_TILES = 4
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of `summary.json` by its path, such as `mechanism.preemptions`, under a name for people.

    `of`: the path of the whole that it is a part of ("30 of 35"). `beside`: further figures, each a name and a path.
    """

    name: str
    figure: str
    unit: Unit = "count"
    of: str = ""
    beside: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each interval of a picture; NaN where there is none.

    `colour`: a name of the page's palette (`style.html.j2`), such as `od-alloc`; empty: the next one of a list.
    """

    name: str
    values: Values
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Curves over intervals of time. Series are stacked from the ground, or drawn as lines.

    `edges_us` is one longer than the values of each series; cluster time, or with `is_day` the time since midnight of
    cluster time. `counts`: how often something happened in each interval, written above it.
    """

    title: str
    caption: str
    y_label: str
    edges_us: Values
    series: tuple[Series, ...]
    is_stacked: bool = True
    is_day: bool = False
    counts: Series | None = None


@runtime_checkable
class HasTiles(Protocol):
    tiles: Sequence[Tile]
    """The first four are shown; one whose figure is not in the summary is left out."""


@runtime_checkable
class HasPicture(Protocol):
    @staticmethod
    def picture(record: RunRecord) -> Picture | None:
        """Made from the record alone, so that a results folder has it as well; None: nothing to see in this run."""


def intervals(record: RunRecord, count: int = 120) -> Values:
    """Edges of so many equal intervals from begin to horizon, in us."""
    return np.linspace(record.begin_us, max(record.horizon_us, record.begin_us + 1), count + 1)


def mean_over(edges_us: Values, start_us: Values, end_us: Values, amount: Values) -> Values:
    """In each interval the mean over time of what is there: `amount` of each from its start to its end."""
    at_us = np.concatenate((start_us, end_us)).astype(np.float64)
    change = np.concatenate((amount, -np.asarray(amount))).astype(np.float64)
    order = np.argsort(at_us, kind="stable")
    at_us, height = at_us[order], np.cumsum(change[order])
    if not len(at_us):
        return np.zeros(len(edges_us) - 1)
    area = np.concatenate(([0.0], np.cumsum(height[:-1] * np.diff(at_us))))
    found: Values = np.diff(np.interp(edges_us, at_us, area)) / np.diff(edges_us)
    return found


def mean_by(edges_us: Values, at_us: Values, value: Values) -> Values:
    """In each interval the mean of the values at these times; NaN where there are none."""
    count, _ = np.histogram(at_us, edges_us)
    total, _ = np.histogram(at_us, edges_us, weights=value)
    found: Values = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return found
