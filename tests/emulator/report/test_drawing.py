"""Plots as SVG: what is drawn where. The frame of a test is 749 x 187 points, its plot 49..736 x 18.7..149.8."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from emulator.report.drawing import ACCENT, BAD, Axes, draw
from emulator.report.ticks import even_ticks


def axes_of(x=(0, 10), y=(0, 10)):
    axes = Axes(720, 200, 40)
    axes.show(x=x, y=y)
    return axes


def paths(axes, colour):
    return re.findall(rf'<path d="([^"]+)" style="[^"]*{re.escape(colour)}', axes.svg("a plot"))


@pytest.mark.parametrize(
    ("ends", "most", "names"),
    [
        ((0, 104), 6, ["0", "20", "40", "60", "80", "100"]),
        ((0, 1), 4, ["0.0", "0.5", "1.0"]),
        ((0, 0.9), 4, ["0.0", "0.5"]),
        ((3, 17), 8, ["4", "6", "8", "10", "12", "14", "16"]),
        ((0, 45_000), 5, ["0", "10k", "20k", "30k", "40k"]),
        ((0, 2_600_000), 6, ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]),
        ((-0.4, 0.4), 4, ["-0.4", "-0.2", "0.0", "0.2", "0.4"]),
    ],
)
def test_ticks_are_round_numbers_and_written_as_short_as_they_differ(ends, most, names):
    assert even_ticks(ends, most)[1] == names


def test_counts_have_no_ticks_between_whole_numbers():
    assert even_ticks((0, 1.15), 4, whole=True) == ([0, 1], ["0", "1"])


def test_a_line_of_steps_has_one_number_a_corner_and_lies_where_its_values_are():
    axes = axes_of()
    axes.line([0, 5, 5, 10], [0, 0, 10, 10], ACCENT)

    assert paths(axes, ACCENT) == ["M49 160H378V18.7H707"]


def test_an_area_goes_down_to_zero():
    axes = axes_of()
    axes.area([0, 10], [10, 10], ACCENT)

    assert paths(axes, ACCENT) == ["M49 18.7H707V160H49z"]


def test_bars_stand_on_others():
    axes = axes_of()
    axes.bars([0, 5], [1, 2], 5, ACCENT)
    axes.bars([0, 5], [3, 4], 5, BAD, [1, 2])

    assert paths(axes, ACCENT) == ["M49 160V145.9H378V160zM378 160V131.7H707V160z"]
    assert paths(axes, BAD) == ["M49 145.9V103.5H378V145.9zM378 131.7V75.2H707V131.7z"]


def test_what_is_before_or_after_the_time_shown_is_not_drawn():
    axes = axes_of()
    axes.stems([-1, 5, 11], 0, [10, 10, 10], ACCENT)
    axes.upright(12, BAD)

    assert paths(axes, ACCENT) == ["M378 160V18.7"]
    assert paths(axes, BAD) == []


def test_an_axis_without_a_range_shows_all_data_with_room_beside():
    axes = Axes(720, 200, 40)
    axes.show(y=(0, None))
    axes.dots([10, 20], [3, 40], ACCENT)

    assert (axes.x_ends, axes.y_ends) == ((9.5, 20.5), (0, 42))


@pytest.mark.parametrize(
    ("mark", "shape"), [("line", "h9"), ("dot", "<circle"), ("cross", "m-3.5-3.5l7 7m0-7l-7 7")]
)
def test_a_legend_has_the_mark_that_it_is_about(mark, shape):
    def legend(axes, is_wide):
        axes.legend("some", ACCENT, mark=mark)

    found = draw("name", "label", legend)

    assert all(shape in svg for svg in (found.wide, found.narrow))


def test_a_legend_of_several_lines_stands_above_the_plot():
    def legend(axes, is_wide):
        for at in range(9):
            axes.legend(f"requests wait up to {at} min", ACCENT)

    found = draw("name", "label", legend)
    for svg, lines in ((found.wide, 3), (found.narrow, 9)):
        heights = [float(y) for y in re.findall(r'y="([\d.-]+)"[^>]*>requests', svg)]
        assert sorted({*heights}) == pytest.approx([13.9 - 12 * at for at in reversed(range(lines))])
        top, height = re.findall(r'viewBox="0 ([\d.-]+) [\d.]+ ([\d.]+)"', svg)[0]
        assert (float(top), float(height)) == (-12 * (lines - 1), pytest.approx(187.2 + 12 * (lines - 1)))


def test_a_drawing_is_well_formed_whatever_its_texts_are_and_the_same_each_time():
    def paint(axes, is_wide):
        axes.legend('<b>&"', ACCENT)
        axes.text(1, 1, "<i>")
        axes.x_names([0, 1], ["<a> b", "c&d" * 40])
        axes.label(x="<x>", y="&y")

    first, second = (draw("name", 'a "label" & more', paint) for _ in range(2))

    assert first == second
    for svg in (first.wide, first.narrow):
        assert ET.fromstring(svg).get("aria-label") == 'a "label" & more'  # noqa: S314 - our own text
