"""Plots as SVG text: two linear axes and a few shapes. Same shapes, same bytes.

A plotting library takes longer to load than a year of a cluster to replay, and what reports need of one is this.
Colours are CSS variables, so that the page decides on light and dark. Lengths on paper are points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from emulator.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

INK, FAINT, GRID, ACCENT, BAD = (f"var(--{name})" for name in ("ink", "faint", "grid", "accent", "bad"))

Mark = Literal["line", "dot", "cross"]
"""What a legend's entry shows."""

_INCH = 72.0
_LEFT, _RIGHT, _TOP = 0.68 * _INCH, 0.18 * _INCH, 0.26 * _INCH
"""The same for all plots, so that their time axes line up."""
_TEXT = 11.0
_LEGEND_LINE = 12.0
_GLYPH = 0.56
"""Width of a usual letter, in sizes of the text."""
_MARGIN = 0.05
"""Room beside the data where nobody says which range is shown."""
_THOUSANDS = 10_000
_MOST_DECIMALS = 9


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

    return Plot(name, plot(10.4, is_wide=True), plot(4.6, is_wide=False))


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
        self._floor = height - bottom
        self._x, self._y = _Range(), _Range()
        self._shapes: list[Callable[[], str]] = []
        self._below: list[Callable[[], str]] = []
        self._x_ticks: Callable[[], tuple[Sequence[float], Sequence[str]]] = lambda: even_ticks(
            self.x_ends, 8
        )
        self._y_ticks: Callable[[], tuple[Sequence[float], Sequence[str]]] = lambda: even_ticks(
            self.y_ends, 6
        )
        self._x_size, self._x_is_upright, self._has_ticks = _TEXT, False, True
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

    def y_steps(self, most: int, *, whole: bool = False) -> None:
        self._y_ticks = lambda: even_ticks(self.y_ends, most, whole=whole)

    def x_names(
        self, at: Sequence[float], names: Sequence[str], *, size: float = _TEXT, upright: bool = False
    ) -> None:
        """These ticks; a name may have several lines, `upright` ones are read from below."""
        self._x_ticks = lambda: (at, names)
        self._x_size, self._x_is_upright = size, upright

    def y_names(self, at: Sequence[float], names: Sequence[str]) -> None:
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

    def heading(self, x: float, text: str, colour: str, *, size: float = 9.0) -> None:
        """Text over the plot, at `x`."""
        self._shapes.append(lambda: _text(self._px(x), _TOP - 3, text, colour, size))

    # On paper.

    def svg(self, label: str) -> str:
        """The drawing as part of a page."""
        entries, above = self._entries()
        size = f"{_tenth(-above)} {_tenth(self._width)} {_tenth(self._height + above)}"
        named = f'role="img" aria-label="{escape(label)}"{self._linked()}'
        parts = [
            f'<svg {named} viewBox="0 {size}" xmlns="http://www.w3.org/2000/svg">',
            *self._frame(),
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

    def _frame(self) -> list[str]:
        left, right, floor = _tenth(_LEFT), _tenth(self._width - _RIGHT), _tenth(self._floor)
        (at_x, x_names), (at_y, y_names) = self._x_ticks(), self._y_ticks()
        lines, names, ticks = [], [], []
        for at, name in zip(at_y, y_names, strict=True):
            y = self._py(at)
            lines.append(f"M{left} {_tenth(y)}H{right}" if self._has_ticks else "")
            names.append(_text(_LEFT - 6, y + 0.35 * _TEXT, name, FAINT, _TEXT, anchor="end"))
        for at, name in zip(at_x, x_names, strict=True):
            x = self._px(at)
            if self._has_ticks:
                ticks.append(f'<path d="M{_tenth(x)} {floor}v3.5" style="{_stroke(GRID, 0.7)}"/>')
            ticks += self._x_name(x, name)
        below, beside = self._labels
        if below:
            names.append(_text((_LEFT + self._width - _RIGHT) / 2, self._floor + 31, below, FAINT, 10))
        if beside:
            middle = f"translate(10 {_tenth((_TOP + self._floor) / 2)}) rotate(-90)"
            names.append(f'<g transform="{middle}">{_text(0, 0, beside, FAINT, 10)}</g>')
        frame = f'<path d="{"".join(lines)}M{left} {floor}H{right}" style="{_stroke(GRID, 0.7)}"/>'
        return [frame, *names, '<g class="ticks">', *ticks, "</g>"]

    def _x_name(self, x: float, name: str) -> list[str]:
        size = self._x_size
        if self._x_is_upright:
            place = f"translate({_tenth(x + 0.35 * size)} {_tenth(self._floor + 7)}) rotate(-90)"
            return [f'<g transform="{place}">{_text(0, 0, name, FAINT, size, anchor="end")}</g>']
        return [
            _text(x, self._floor + 6 + size * (0.8 + 1.1 * row), part, FAINT, size)
            for row, part in enumerate(name.split("\n"))
        ]

    def _entries(self) -> tuple[list[str], float]:
        """The legend, in lines as long as the plot is wide, and the room that it takes above the drawing."""
        places, x, line = [], _LEFT, 0
        for name, _, _ in self._legend:
            needs = 18 + _GLYPH * 9 * len(name)
            if x > _LEFT and x + needs > self._width - _RIGHT:
                x, line = _LEFT, line + 1
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
        return _LEFT + (x - low) / (high - low) * (self._width - _RIGHT - _LEFT)

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


def _text(x: float, y: float, text: str, colour: str, size: float, *, anchor: str = "middle") -> str:
    place = f'x="{_tenth(x)}" y="{_tenth(y)}" text-anchor="{anchor}"'
    return f'<text {place} style="font-size:{size:g}px;{_fill(colour)}">{escape(text)}</text>'


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
