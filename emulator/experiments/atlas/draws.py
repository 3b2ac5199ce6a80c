"""Quasi-random points of the unit cube, and the search for those that meet all constraints.

The search is approximate Bayesian computation by rejection with sequential narrowing. Each round draws points evenly
from a box, and the next box encloses those within a tolerance that shrinks from round to round to that of the paper.
All boxes enclose every point that meets the constraints. So the points that do are evenly drawn from the last box,
however wide the box was in which they were found, and all have the same weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from emulator.workload.streams import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

MET = 1.0
"""The distance up to which all constraints are met."""
_STEPS = 60
_LEAST_INSIDE = 8
"""A box is drawn around no fewer points than this."""
_QUANTILE = 0.3
"""Share of the points within the tolerance of a round that the next round's tolerance keeps."""
_SPARE = 2.0
_MOST_BATCHES = 16
"""A round has so many batches at most."""


class Box(NamedTuple):
    """A part of the unit cube: least and largest place in each dimension."""

    low: Floats
    high: Floats


class Round(NamedTuple):
    """One round of the search: what was drawn, where, and how many met the constraints."""

    box: Box
    drawn: int
    met: int
    tolerance: float
    """Largest distance of the points that the next box encloses."""


class Search(NamedTuple):
    """All points drawn, in order: `places` (n, d) in the unit cube, `distances` (n); and the rounds."""

    places: Floats
    distances: Floats
    rounds: tuple[Round, ...]

    @property
    def met(self) -> Whole:
        """The points that meet all constraints, in the order in which they were drawn."""
        return np.flatnonzero(self.distances <= MET)


def even_points(seed: int, first: int, count: int, dimensions: int) -> Floats:
    """Points `first` to `first + count` of an additive recurrence, (count, dimensions), each from 0 to 1 (without 1).

    The steps are powers of the root of x^(d+1) = x + 1 (Roberts 2018), which spread evenly in any number of
    dimensions; the begin is drawn from the seed.
    """
    root = 2.0
    for _ in range(_STEPS):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    begin = stream(seed, "atlas").random(dimensions)
    places: Floats = (begin + np.outer(np.arange(first, first + count), steps)) % 1.0
    return places


def search(  # noqa: PLR0917 - what a search is
    assess: Callable[[Floats, int], Floats], dimensions: int, target: int, seed: int, batch: int, most: int
) -> Search:
    """Draw rounds of `batch` points or more until `target` meet all constraints, or `most` are drawn.

    Once a round meets some, the next one has as many points as are still needed at this rate.
    `assess(places, first)` gives the distance of each point of a round; `first` is the number of its first point.
    """
    box = Box(np.zeros(dimensions), np.ones(dimensions))
    places, distances = np.empty((0, dimensions)), np.empty(0)
    rounds: list[Round] = []
    while len(places) < most and np.count_nonzero(distances <= MET) < target:
        first = len(places)
        count = min(_points(rounds, target - int(np.count_nonzero(distances <= MET)), batch), most - first)
        unit = even_points(seed, first, count, dimensions)
        drawn = box.low + unit * (box.high - box.low)
        found = assess(drawn, first)
        places, distances = np.concatenate((places, drawn)), np.concatenate((distances, found))
        tolerance = _tolerance(distances, rounds[-1].tolerance if rounds else np.inf)
        rounds.append(Round(box, count, int(np.count_nonzero(found <= MET)), tolerance))
        box = _around(places[distances <= tolerance], box)
    return Search(places, distances, tuple(rounds))


def _points(rounds: Sequence[Round], needed: int, batch: int) -> int:
    """How many points the next round has: few while the box narrows, then as many as are likely to suffice."""
    if not rounds or rounds[-1].tolerance > MET:
        return batch
    narrow = [each for each in rounds if each.tolerance <= MET]
    likely = needed * sum(each.drawn for each in narrow) // max(1, sum(each.met for each in narrow))
    return max(batch, min(likely, _MOST_BATCHES * batch))


def _tolerance(distances: Floats, before: float) -> float:
    """The next tolerance: a quantile of the distances within the last one, never below what the paper asks for."""
    within = np.sort(distances[(distances <= before) & np.isfinite(distances)])
    if len(within) < _LEAST_INSIDE:
        return before
    place = max(_LEAST_INSIDE - 1, int(_QUANTILE * len(within)))
    return max(MET, float(within[place]))


def _around(inside: Floats, box: Box) -> Box:
    """The box around these points, with room for what a few even draws leave at its ends; never beyond `box`."""
    if len(inside) < _LEAST_INSIDE:
        return box
    low, high = inside.min(axis=0), inside.max(axis=0)
    room = _SPARE * (high - low) / (len(inside) - 1)
    return Box(np.maximum(low - room, box.low), np.minimum(high + room, box.high))
