"""The room that texts of a plot need, so that none overlaps another or leaves the picture. Lengths are points."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_GLYPH = 0.64
"""Width of a digit in the widest of the usual fonts, in sizes of the text; few letters are wider."""
LINE = 1.1
"""Height of a line, in sizes of the text."""
_MOST_LINES = 3
"""Names below an axis have at most so many lines; longer ones are read from below."""
_UPRIGHT_LETTERS = 24
"""Names that are read from below have lines of so many letters where there is room for several."""


def width_of(text: str, size: float) -> float:
    return _GLYPH * size * len(text)


def letters_in(room: float, size: float) -> int:
    return max(1, int(room / (_GLYPH * size)))


def in_lines(name: str, letters: int) -> list[str]:
    """A name in lines of at most so many letters, cut at spaces and hyphens where it has them."""
    return textwrap.wrap(name, letters) or [""]


def ranges(numbers: Sequence[float]) -> str:
    """Whole numbers as `1-3, 7`."""
    parts: list[list[float]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]:g}-{part[-1]:g}" if len(part) > 1 else f"{part[0]:g}" for part in parts)


@dataclass(frozen=True, slots=True)
class NamesBelow:
    """Names below an axis: their lines, whether they are read from below, their size, and how deep they are."""

    lines: list[list[str]]
    is_upright: bool
    size: float

    @classmethod
    def of(cls, names: Sequence[str], room: float, size: float) -> NamesBelow:
        """Names that each have so much room along the axis."""
        letters = letters_in(room, size)
        flat = [textwrap.wrap(name, letters, break_long_words=False) or [""] for name in names]
        if all(len(lines) <= _MOST_LINES and len(max(lines, key=len)) <= letters for lines in flat):
            return cls(flat, False, size)
        size = min(size, room / LINE)
        count = max(1, int(room / (LINE * size)))
        upright = [in_lines(name, max(_UPRIGHT_LETTERS, -(-2 * len(name) // count))) for name in names]
        if any(len(lines) > count for lines in upright):
            upright = [[name] for name in names]
        return cls(upright, True, size)

    @property
    def depth(self) -> float:
        if self.is_upright:
            return max((width_of(line, self.size) for lines in self.lines for line in lines), default=0.0)
        return LINE * self.size * max(map(len, self.lines), default=1)


@dataclass(frozen=True, slots=True)
class Marked:
    """Numbers that a text at a place tells of."""

    x: float
    y: float
    numbers: tuple[float, ...]


def joined(
    places: Iterable[Marked], text: Callable[[Sequence[float]], str], size: float, ends: tuple[float, float]
) -> list[Marked]:
    """Texts that would overlap become one over the uppermost of their places; all are between the ends."""

    def inside(each: Marked) -> Marked:
        half = width_of(text(each.numbers), size) / 2
        return Marked(max(ends[0] + half, min(each.x, ends[1] - half)), each.y, each.numbers)

    def overlap(one: Marked, other: Marked) -> bool:
        room = (width_of(text(one.numbers), size) + width_of(text(other.numbers), size)) / 2
        return abs(one.x - other.x) < room and abs(one.y - other.y) < size

    found: list[Marked] = []
    for place in sorted(map(inside, places), key=lambda each: each.x):
        one = place
        while other := next((each for each in found if overlap(each, one)), None):
            found.remove(other)
            top = min(other, one, key=lambda each: each.y)
            one = inside(Marked(top.x, top.y, other.numbers + one.numbers))
        found.append(one)
    return found
