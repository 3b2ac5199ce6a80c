"""Plots as SVG text: two linear axes and a few shapes. Same shapes, same bytes.

A plotting library takes longer to load than a year of a cluster to replay, and what reports need of one is this.
Colours are CSS variables, so that the page decides on light and dark. Lengths on paper are points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from emulator.report.text_room import LINE, Marked, NamesBelow, in_lines, joined, letters_in, width_of
from emulator.report.ticks import even_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

INK, FAINT, GRID, ACCENT, BAD = (f"var(--{name})" for name in ("ink", "faint", "grid", "accent", "bad"))

Mark = Literal["line", "dot", "cross"]
"""What a legend's entry shows."""

_INCH = 72.0
_WIDE, _NARROW = 10.4, 4.6
_LEFT, _RIGHT, _TOP = 0.68 * _INCH, 0.18 * _INCH, 0.26 * _INCH
"""The same for all plots of a run's time, so that their axes line up; others make room for names that are longer."""
_TEXT = 11.0
_LEGEND_LINE = 12.0
_LABEL = 10.0
_BESIDE = 0.4
"""The most of the width that the names beside the plot take; longer ones have several lines."""
_MARGIN = 0.05
"""Room beside the data where nobody says which range is shown."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot: its name (an HTML id), and the same drawing for wide and for narrow screens."""

    name: str
    wide: str
    narrow: str


def draw(
    name: str, label: str, paint: Callable[[Axes, bool], None], *, height: float = 2.6, bottom: float = 0.52
) -> Plot:
    """A plot whose content `paint(axes, is_wide)` draws; `label` describes it to those who cannot see it.

    `height` and `bottom`, the margin for what stands below the axis, are in inches. It is drawn twice, wide and narrow,
    so that its text stays readable on a phone.
    """

    def plot(width: float, *, is_wide: bool) -> str:
        axes = Axes(width * _INCH, height * _INCH, bottom * _INCH)
        paint(axes, is_wide)
        return axes.svg(label)

    return Plot(name, plot(_WIDE, is_wide=True), plot(_NARROW, is_wide=False))


class _Range:
    """What an axis shows: what was asked for, else where the data are with some room beside."""

    def __init__(self) -> None:
        self.low: float | None = None
        self.high: float | None = None
        self._least, self._most = math.inf, -math.inf

    def hold(self, values: Floats) -> None:
        if values.size:
            self._least, self._most = min(self._least, values.min()), max(self._most, values.max())

    @property
    def ends(self) -> tuple[float, float]:
        least, most = (self._least, self._most) if self._least <= self._most else (0.0, 1.0)
        low = least if self.low is None else self.low
        high = most if self.high is None else self.high
        room = _MARGIN * (high - low)
        low, high = low - room * (self.low is None), high + room * (self.high is None)
        return float(low), float(high) if high > low else float(low) + 1.0


class Axes:
    """A frame and what is drawn into it, in its coordinates; `svg` puts it on paper."""

    def __init__(self, width: float, height: float, bottom: float) -> None:
        self._width, self._height = width, height
        self._floor, self._left = height - bottom, _LEFT
        self._x, self._y = _Range(), _Range()
        self._shapes: list[Callable[[], str]] = []
        self._x_ticks: Callable[[], tuple[Sequence[float], Sequence[str]]] = lambda: even_ticks(
            self.x_ends, 8
        )
        self._y_ticks: Callable[[], tuple[Sequence[float], Sequence[str]]] = lambda: even_ticks(
            self.y_ends, 6
        )
        self._x_size, self._has_ticks = _TEXT, True
        self._labels = ["", ""]
        self._legend: list[tuple[str, str, Mark]] = []
        self._unit: tuple[str, float] | None = None

    # Axes.

    @property
    def x_ends(self) -> tuple[float, float]:
        return self._x.ends

    @property
    def y_ends(self) -> tuple[float, float]:
        return self._y.ends

    def show(
        self, *, x: tuple[float, float | None] | None = None, y: tuple[float, float | None] | None = None
    ) -> None:
        """What the axes show; None for an end: as far as the data go."""
        for axis, ends in ((self._x, x), (self._y, y)):
            if ends is not None:
                axis.low, axis.high = ends

    def label(self, *, x: str = "", y: str = "") -> None:
        self._labels = [x or self._labels[0], y or self._labels[1]]

    def x_steps(self, most: int, steps: Sequence[int] = (1, 2, 5)) -> None:
        """At most so many steps between ticks, each 1, 2, ... times a power of ten."""
        self._x_ticks = lambda: even_ticks(self.x_ends, most, steps)

    def y_counts(self) -> None:
        """At most four ticks, at whole numbers."""
        self._y_ticks = lambda: even_ticks(self.y_ends, 4, whole=True)

    def x_names(self, at: Sequence[float], names: Sequence[str], *, size: float = _TEXT) -> None:
        """These ticks; names that are too long for their room have several lines or are read from below."""
        self._x_ticks = lambda: (at, names)
        self._x_size = size

    def y_names(self, at: Sequence[float], names: Sequence[str]) -> None:
        """These ticks; `lines_beside` says how many lines such names have."""
        self._y_ticks = lambda: (at, names)

    def link_time(self, unit: str, unit_s: float) -> None:
        """The x axis is cluster time in this unit: a page zooms it with its others (`time_zoom.js`)."""
        self._unit = unit, unit_s

    def no_ticks(self) -> None:
        """Names without lines: a table rather than a plot."""
        self._has_ticks = False

    def legend(self, name: str, colour: str, *, mark: Mark = "line") -> None:
        """One more entry above the plot, with the mark that it has there."""
        self._legend.append((name, colour, mark))

    # Shapes.

    def area(self, x: ArrayLike, y: ArrayLike, colour: str, *, alpha: float = 1.0) -> None:
        """What is between a line and zero."""
        xs, ys = self._held(x, y)
        self._y.hold(np.zeros(1))
        if xs.size:
            ends = np.concatenate((xs, xs[-1:], xs[:1])), np.concatenate((ys, [0.0, 0.0]))
            self._shapes.append(lambda: f'<path d="{self._path(*ends)}z" style="{_fill(colour, alpha)}"/>')

    def line(self, x: ArrayLike, y: ArrayLike, colour: str, *, width: float = 1.2) -> None:
        xs, ys = self._held(x, y)
        if xs.size:
            style = f"{_stroke(colour, width)};fill:none;stroke-linejoin:round"
            self._shapes.append(lambda: f'<path d="{self._path(xs, ys)}" style="{style}"/>')

    def stems(
        self, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str, *, width: float = 1.0
    ) -> None:
        """Upright lines from `low` to `high` (each a number or one for each x)."""
        xs, lows = self._held(x, low)
        _, highs = self._held(x, high)

        def drawn() -> str:
            shown = self._shown(xs)
            columns = self._px(xs[shown]), self._py(lows[shown]), self._py(highs[shown])
            path = "".join(f"M{x} {a}V{b}" for x, a, b in zip(*map(_tenths, columns), strict=True))
            return f'<path d="{path}" style="{_stroke(colour, width)}"/>'

        self._shapes.append(drawn)

    def dots(
        self, x: ArrayLike, y: ArrayLike, colour: str, *, size: float = 4.5, crossed: bool = False
    ) -> None:
        """A round mark, or a cross, at each place."""
        xs, ys = self._held(x, y)
        r = f"{size / 2:g}"

        def drawn() -> str:
            shown = self._shown(xs)
            places = zip(*map(_tenths, (self._px(xs[shown]), self._py(ys[shown]))), strict=True)
            if crossed:
                crosses = "".join(f'<path class="mark" d="{_cross(x, y, size)}"/>' for x, y in places)
                return f'<g style="{_stroke(colour, 2)}">{crosses}</g>'
            dots = "".join(f'<circle cx="{x}" cy="{y}" r="{r}"/>' for x, y in places)
            return f'<g style="{_fill(colour)}">{dots}</g>'

        self._shapes.append(drawn)

    def bars(
        self,
        x: ArrayLike,
        height: ArrayLike,
        width: ArrayLike,
        colour: str | Sequence[str],
        bottom: ArrayLike = 0.0,
        *,
        alpha: float = 1.0,
    ) -> None:
        """Bars of this width that begin at `x` and `bottom`; one colour for all, or one for each."""
        xs, lows = self._held(x, bottom)
        ends, tops = self._held(
            xs + np.broadcast_to(np.asarray(width, float), xs.shape), lows + np.asarray(height, float)
        )
        colours = [colour] * len(xs) if isinstance(colour, str) else list(colour)

        def drawn() -> str:
            left, right = _tenths(self._px(xs)), _tenths(self._px(ends))
            top, low = _tenths(self._py(tops)), _tenths(self._py(lows))
            by_colour: dict[str, list[str]] = {}
            for a, b, t, l, ink in zip(left, right, top, low, colours, strict=True):  # noqa: E741
                by_colour.setdefault(ink, []).append(f"M{a} {l}V{t}H{b}V{l}z")
            return "".join(
                f'<path d="{"".join(d)}" style="{_fill(ink, alpha)}"/>' for ink, d in by_colour.items()
            )

        self._shapes.append(drawn)

    def upright(self, x: float, colour: str, *, width: float = 0.9, dashed: bool = False) -> None:
        """A line from the floor to the top."""
        style = _stroke(colour, width) + (";stroke-dasharray:3 3" if dashed else "")

        def drawn() -> str:
            if not self._shown(np.array([x]))[0]:
                return ""
            return f'<path d="M{_tenth(self._px(x))} {_tenth(self._floor)}V{_tenth(_TOP)}" style="{style}"/>'

        self._shapes.append(drawn)

    def text(self, x: float, y: float, text: str, *, size: float = _TEXT, above: bool = False) -> None:
        """Text in the middle of this place, or `above` it."""
        down = -6.0 if above else 0.35 * size
        self._shapes.append(lambda: _text(self._px(x), self._py(y) + down, text, INK, size))

    def cell_texts(
        self, x: Sequence[float], y: Sequence[float], texts: Sequence[str], width: float, *, size: float
    ) -> None:
        """Texts in the middle of cells that are so wide; if one is wider than its cell, all are read from below."""
        longest = max((width_of(text, size) for text in texts), default=0.0)

        def drawn() -> str:
            room = self._px(width) - self._px(0)
            if longest <= room:
                places = zip(x, y, texts, strict=True)
                return "".join(
                    _text(self._px(a), self._py(b) + 0.35 * size, text, INK, size) for a, b, text in places
                )
            small = min(size, room / LINE)
            return "".join(
                _upright(self._px(a) + 0.35 * small, self._py(b), text, INK, small)
                for a, b, text in zip(x, y, texts, strict=True)
            )

        self._shapes.append(drawn)

    def texts_apart(
        self,
        x: ArrayLike,
        y: ArrayLike | None,
        numbers: Sequence[float],
        text: Callable[[Sequence[float]], str],
        *,
        colour: str = INK,
        size: float = 9.0,
    ) -> None:
        """The text of each number above its place, or over the plot; those that would overlap become one."""

        def drawn() -> str:
            xs = self._px(np.asarray(x, np.float64))
            heights = np.full(xs.shape, _TOP - 3) if y is None else self._py(np.asarray(y, np.float64)) - 6
            places = [Marked(a, b, (number,)) for a, b, number in zip(xs, heights, numbers, strict=True)]
            found = joined(places, text, size, (0, self._width))
            return "".join(_text(each.x, each.y, text(each.numbers), colour, size) for each in found)

        self._shapes.append(drawn)

    # On paper.

    def svg(self, label: str) -> str:
        """The drawing as part of a page."""
        beside = self._lines_beside()
        self._left = self._room_beside(beside)
        below = self._names_below()
        entries, above = self._entries()
        depth = 8 + below.depth + 6 + (_LABEL if self._labels[0] else 0)
        height = max(self._height, self._floor + depth) + above
        size = f"{_tenth(-above)} {_tenth(self._width)} {_tenth(height)}"
        named = f'role="img" aria-label="{escape(label)}"{self._linked()}'
        parts = [
            f'<svg {named} viewBox="0 {size}" xmlns="http://www.w3.org/2000/svg">',
            *self._frame(beside, below),
            '<g class="shapes">',
            *(shape() for shape in self._shapes),
            "</g>",
            *entries,
            "</svg>",
        ]
        return "\n".join(part for part in parts if part)

    def _linked(self) -> str:
        """Of an axis of time: its unit, its ends (seconds), and where the frame is, for the script that zooms."""
        if self._unit is None:
            return ""
        unit, unit_s = self._unit
        ends = " ".join(f"{end * unit_s:.6f}" for end in self.x_ends)
        frame = " ".join(map(_tenth, (_LEFT, self._width - _RIGHT, self._floor)))
        return f' data-time="{ends}" data-unit="{unit} {unit_s:g}" data-frame="{frame}"'

    def _lines_beside(self) -> list[list[str]]:
        letters = letters_in(_BESIDE * self._width, _TEXT)
        return [in_lines(name, letters) for name in self._y_ticks()[1]]

    def _room_beside(self, names: list[list[str]]) -> float:
        if self._unit is not None:
            return _LEFT
        longest = max((width_of(line, _TEXT) for lines in names for line in lines), default=0.0)
        return max(_LEFT, longest + 6 + (1.3 * _LABEL if self._labels[1] else 0))

    def _names_below(self) -> NamesBelow:
        """The names of the x axis: each has the room from it to the next."""
        at, names = self._x_ticks()
        places = sorted(self._px(each) for each in at)
        gaps = [after - before for before, after in pairwise(places)]
        return NamesBelow.of(names, min(gaps, default=self._width) - 2, self._x_size)

    def _frame(self, beside: list[list[str]], below: NamesBelow) -> list[str]:
        left, right, floor = _tenth(self._left), _tenth(self._width - _RIGHT), _tenth(self._floor)
        lines, names, ticks = [], [], []
        for at, parts in zip(self._y_ticks()[0], beside, strict=True):
            y = self._py(at)
            lines.append(f"M{left} {_tenth(y)}H{right}" if self._has_ticks else "")
            for row, part in enumerate(parts):
                down = 0.35 * _TEXT + LINE * _TEXT * (row - (len(parts) - 1) / 2)
                names.append(_text(self._left - 6, y + down, part, FAINT, _TEXT, anchor="end"))
        for at, parts in zip(self._x_ticks()[0], below.lines, strict=True):
            x = self._px(at)
            if self._has_ticks:
                ticks.append(f'<path d="M{_tenth(x)} {floor}v3.5" style="{_stroke(GRID, 0.7)}"/>')
            ticks += self._x_name(x, parts, below)
        frame = f'<path d="{"".join(lines)}M{left} {floor}H{right}" style="{_stroke(GRID, 0.7)}"/>'
        return [frame, *names, *self._labelled(below.depth), '<g class="ticks">', *ticks, "</g>"]

    def _labelled(self, depth: float) -> list[str]:
        """The labels of the axes, smaller where they are longer than the picture."""
        below, beside = self._labels
        found = []
        if below:
            middle = (self._left + self._width - _RIGHT) / 2
            size = _fitting(below, 2 * min(middle, self._width - middle))
            found.append(_text(middle, self._floor + max(31, 8 + depth + _LABEL), below, FAINT, size))
        if beside:
            middle = (_TOP + self._floor) / 2
            found.append(_upright(10, middle, beside, FAINT, _fitting(beside, 2 * middle)))
        return found

    def _x_name(self, x: float, lines: list[str], names: NamesBelow) -> list[str]:
        size, middle = names.size, (len(lines) - 1) / 2
        if names.is_upright:
            return [
                _upright(
                    x + size * (0.35 + LINE * (row - middle)),
                    self._floor + 7,
                    part,
                    FAINT,
                    size,
                    anchor="end",
                )
                for row, part in enumerate(lines)
            ]
        half = max(width_of(part, size) for part in lines) / 2
        inside = max(half, min(x, self._width - half))
        return [
            _text(inside, self._floor + 6 + size * (0.8 + LINE * row), part, FAINT, size)
            for row, part in enumerate(lines)
        ]

    def _entries(self) -> tuple[list[str], float]:
        """The legend, in lines as long as the plot is wide, and the room that it takes above the drawing."""
        places, x, line = [], self._left, 0
        for name, _, _ in self._legend:
            needs = 18 + width_of(name, 9)
            if x > self._left and x + needs > self._width - _RIGHT:
                x, line = self._left, line + 1
            places.append((x, line))
            x += needs
        found = []
        for (left, at), (name, colour, mark) in zip(places, self._legend, strict=True):
            y = _TOP - 8 - _LEGEND_LINE * (line - at)
            found.append(_sample(left, y, colour, mark))
            found.append(_text(left + 12, y + 3.2, name, INK, 9, anchor="start"))
        return found, _LEGEND_LINE * line

    def _held(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        xs = np.atleast_1d(np.asarray(x, np.float64))
        ys = np.broadcast_to(np.asarray(y, np.float64), xs.shape)
        self._x.hold(xs)
        self._y.hold(ys)
        return xs, ys

    def _shown(self, x: Floats) -> NDArray[np.bool_]:
        low, high = self.x_ends
        return (x >= low) & (x <= high)

    def _px(self, x: Any) -> Any:
        low, high = self.x_ends
        return self._left + (x - low) / (high - low) * (self._width - _RIGHT - self._left)

    def _py(self, y: Any) -> Any:
        low, high = self.y_ends
        return self._floor - (y - low) / (high - low) * (self._floor - _TOP)

    def _path(self, x: Floats, y: Floats) -> str:
        """A line through these places; corners of steps need one number each."""
        xs, ys = _tenths(self._px(x)), _tenths(self._py(y))
        parts = [f"M{xs[0]} {ys[0]}"]
        for place in range(1, len(xs)):
            same_x, same_y = xs[place] == xs[place - 1], ys[place] == ys[place - 1]
            if same_x and same_y:
                continue
            parts.append(
                f"V{ys[place]}" if same_x else f"H{xs[place]}" if same_y else f"L{xs[place]} {ys[place]}"
            )
        return "".join(parts)


def lines_beside(names: Sequence[str]) -> int:
    """How many lines the longest of names beside a narrow plot has."""
    letters = letters_in(_BESIDE * _NARROW * _INCH, _TEXT)
    return max((len(in_lines(name, letters)) for name in names), default=1)


def _text(x: float, y: float, text: str, colour: str, size: float, *, anchor: str = "middle") -> str:
    place = f'x="{_tenth(x)}" y="{_tenth(y)}" text-anchor="{anchor}"'
    return f'<text {place} style="font-size:{size:g}px;{_fill(colour)}">{escape(text)}</text>'


def _upright(x: float, y: float, text: str, colour: str, size: float, *, anchor: str = "middle") -> str:
    """A text that is read from below."""
    place = f"translate({_tenth(x)} {_tenth(y)}) rotate(-90)"
    return f'<g transform="{place}">{_text(0, 0, text, colour, size, anchor=anchor)}</g>'


def _fitting(label: str, room: float) -> float:
    return min(_LABEL, _LABEL * room / width_of(label, _LABEL))


def _fill(colour: str, alpha: float = 1.0) -> str:
    return f"fill:{colour}" + (f";fill-opacity:{alpha:.2f}" if alpha < 1 else "")


def _stroke(colour: str, width: float) -> str:
    return f"stroke:{colour};stroke-width:{width:g}"


def _tenths(values: Floats | float) -> list[str]:
    """A tenth of a point is finer than any screen."""
    return [f"{value:g}" for value in (np.round(np.asarray(values) * 10) / 10 + 0.0).tolist()]


def _tenth(value: float) -> str:
    return f"{round(value * 10) / 10 + 0.0:g}"


def _cross(x: str, y: str, size: float) -> str:
    """The path of a cross around a place."""
    return f"M{x} {y}m-{size / 2:g}-{size / 2:g}l{size:g} {size:g}m0-{size:g}l-{size:g} {size:g}"


def _sample(x: float, y: float, colour: str, mark: Mark) -> str:
    """The mark of a legend's entry that begins at `x`."""
    if mark == "line":
        return f'<path d="M{_tenth(x)} {_tenth(y)}h9" style="{_stroke(colour, 3)}"/>'
    middle, height = _tenth(x + 4.5), _tenth(y)
    if mark == "dot":
        return f'<circle cx="{middle}" cy="{height}" r="3.5" style="{_fill(colour)}"/>'
    return f'<path d="{_cross(middle, height, 7)}" style="{_stroke(colour, 2)};fill:none"/>'
