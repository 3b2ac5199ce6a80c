"""Numbers as people read them everywhere: thin spaces between thousands, a space before `%` and units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_FIGURE = "\u2013"
"""Stands for a figure that does not exist."""

_THIN_SPACE = "\u202f"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def grouped(value: float | None, decimals: int = 0, *, signed: bool = False) -> str:
    """A number with so many decimals, thousands set apart by thin spaces; a dash for None."""
    if value is None:
        return NO_FIGURE
    return f"{value:{'+' if signed else ''}z,.{decimals}f}".replace(",", _THIN_SPACE)


def number_of(count: int, noun: str) -> str:
    """`1 week`, `4 weeks`: how many of what an `s` makes many."""
    return f"{grouped(count)} {noun}{'' if count == 1 else 's'}"


def number(value: float | str | None) -> str:
    """A number that stands alone, in at most five figures; texts are left as they are."""
    if value is None or isinstance(value, str):
        return NO_FIGURE if value is None else value
    if 0 < abs(value) < 1:
        return f"{value:.3g}"
    return grouped(value, decimals_of([value]))


def numbers(values: Iterable[float | None], *, signed: bool = False) -> list[str]:
    """The numbers of a column (or of a row that compares them): all with the same decimals."""
    column = list(values)
    decimals = decimals_of(column)
    return [grouped(value, decimals, signed=signed) for value in column]


def decimals_of(values: Iterable[float | None]) -> int:
    """How many decimals a column has: none for whole numbers and thousands, else three figures of the largest."""
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value)]
    if all(float(size).is_integer() for size in sizes):
        return 0
    largest = max(sizes)
    if largest >= 1000:  # noqa: PLR2004 - decimals of thousands say nothing
        return 0
    return 2 if largest >= 1 else 2 - math.floor(math.log10(largest))


def percent(share: float | None, decimals: int = 1, *, signed: bool = False) -> str:
    """A share of 1 as `63.5 %`; a dash for None."""
    return NO_FIGURE if share is None else f"{grouped(100 * share, decimals, signed=signed)} %"


def points(change: float | None) -> str:
    """A change of a share of 1 as `-4.38 points`; a dash for None."""
    return NO_FIGURE if change is None else f"{grouped(100 * change, 2, signed=True)} points"


def duration(time_s: float | None) -> str:
    """A duration as people say it: `132 ms`, `45.2 s`, `12 min 5 s`, `3 h 20 min`, `2 d 4 h`; a dash for None.

    It is rounded to the smaller unit that it shows.
    """
    if time_s is None:
        return NO_FIGURE
    if time_s < 0:
        return f"-{duration(-time_s)}"
    if round(time_s, 1) < _MINUTE_S:
        if 0 < round(time_s, 3) < 1:
            return f"{1000 * time_s:.3g} ms"
        return f"{time_s:.1f} s".replace(".0 ", " ")
    unit_s, unit, part_s, part = _DAY_S, "d", _HOUR_S, "h"
    if round(time_s) < _HOUR_S:
        unit_s, unit, part_s, part = _MINUTE_S, "min", 1, "s"
    elif round(time_s / _MINUTE_S) * _MINUTE_S < _DAY_S:
        unit_s, unit, part_s, part = _HOUR_S, "h", _MINUTE_S, "min"
    whole, rest = divmod(round(time_s / part_s), unit_s // part_s)
    return f"{whole} {unit} {rest} {part}" if rest else f"{whole} {unit}"
