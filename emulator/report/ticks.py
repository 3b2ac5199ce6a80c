"""Where the ticks of an axis stand, and their names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

_THOUSANDS = 10_000
_MOST_DECIMALS = 9


def even_ticks(
    ends: tuple[float, float], most: int, steps: Sequence[int] = (1, 2, 5), *, whole: bool = False
) -> tuple[list[float], list[str]]:
    """Places and names of at most `most` + 1 ticks between the ends, the least step that does."""
    low, high = ends
    power = math.floor(math.log10((high - low) / most))
    sizes = [step * 10.0**each for each in (power, power + 1, power + 2) for step in steps]
    step = next(
        size for size in sizes if size * most >= (high - low) * (1 - 1e-9) and (size >= 1 or not whole)
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    at = [count * step for count in range(first, last + 1)]
    return at, _tick_names(at, step)


def _tick_names(at: Sequence[float], step: float) -> list[str]:
    """Numbers as short as they can be told apart: `0.25`, `800`, `40k`, `2.5M`."""
    largest = max((abs(value) for value in at), default=0.0)
    unit, sign = (1e6, "M") if largest >= 1e6 else (1e3, "k") if largest >= _THOUSANDS else (1.0, "")  # noqa: PLR2004
    size = step / unit
    decimals = next(
        (d for d in range(_MOST_DECIMALS) if math.isclose(round(size, d), size, rel_tol=1e-6)), _MOST_DECIMALS
    )
    return [f"{grouped(value / unit, decimals)}{sign}" if value or not sign else "0" for value in at]
