"""Zooming one plot of a report in time zooms all: lines, marks and the schedule, from any of them."""

from __future__ import annotations

import json
import re

import pytest

import emulator
from chromium_kit import browser
from emulator.report.drawing import ACCENT, Axes
from parts import AXE
from testdata import TRACES

CANVAS = "document.querySelector('.gantt canvas')"
BAR = "document.querySelector('.time-bar output').textContent"
ALL = "Drag over a plot to zoom all in time; double-click: all."
SHOWN = """JSON.stringify([...document.querySelectorAll('svg[data-time]')]
.filter((svg) => svg.clientWidth).map((svg) => {
  const [begin, end] = svg.dataset.time.split(' ').map(Number);
  const [left, right] = svg.dataset.frame.split(' ').map(Number);
  const path = svg.querySelector('.shapes path[transform]');
  const { a, e } = path ? path.transform.baseVal.getItem(0).matrix : { a: 1, e: 0 };
  const time = (x) => begin + ((x - e) / a - left) / (right - left) * (end - begin);
  return [time(left), time(right)];
}))"""
"""From when to when each plot that is seen shows its lines, in seconds."""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("day") / "out"
    emulator.run(TRACES.parent / "scenarios" / "default.yaml", out=folder)
    return folder / "report.html"


def settled(page):
    """Two pictures have been drawn: the schedule draws with the next one."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def ranges(page):
    settled(page)
    view = json.loads(page.evaluate(f"JSON.stringify({CANVAS}.gantt.view)"))
    return [*json.loads(page.evaluate(SHOWN)), [view["t0"], view["t1"]]]


def dragged(page, plot, first, last):
    place = f"document.querySelector('{plot}').getBoundingClientRect()"
    page.evaluate(f"document.querySelector('{plot}').scrollIntoView()")
    box = json.loads(page.evaluate(f"JSON.stringify({place})"))
    y = box["top"] + box["height"] / 2
    for kind, share in (("mousePressed", first), ("mouseMoved", last), ("mouseReleased", last)):
        x = box["left"] + share * box["width"]
        page.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
@pytest.mark.parametrize("width", [1280, 400])
def test_any_of_them_zooms_all_and_all_go_back(report, width, tmp_path):
    with browser(tmp_path) as page:
        page.resize(width, 900)
        page.open(report.as_uri())
        page.wait_for(f"{CANVAS} && {CANVAS}.gantt && !document.querySelector('.time-bar').hidden")
        whole = ranges(page)
        assert len(whole) == 5  # pools, queue, utilisation, requests, schedule
        assert page.evaluate(BAR) == ALL
        ticks = page.evaluate("document.querySelector('svg[data-time] .ticks').textContent")

        page.evaluate(f"{CANVAS}.focus()")
        page.press("+")
        by_schedule = ranges(page)
        assert by_schedule[-1][1] - by_schedule[-1][0] == pytest.approx(0.67 * whole[-1][1])
        for shown in by_schedule:
            assert shown == pytest.approx(by_schedule[-1], abs=1)

        plot = f"#queue-length{'' if width > 704 else ' + .narrow'} svg"
        dragged(page, plot, 0.4, 0.6)
        by_line = ranges(page)
        assert by_line[-1][1] - by_line[-1][0] < 0.3 * (by_schedule[-1][1] - by_schedule[-1][0])
        for shown in by_line:
            assert shown == pytest.approx(by_line[-1], abs=1)
        hours = [float(text) for text in re.findall(r"[\d.]+", page.evaluate(BAR))]
        assert hours == pytest.approx([by_line[-1][0] / 3600, by_line[-1][1] / 3600], abs=0.01)
        assert page.evaluate("document.querySelector('svg[data-time] .ticks').textContent") != ticks
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.barriers(AXE) == []

        page.evaluate("document.querySelector('.time-bar [data-do=all]').click()")
        assert ranges(page) == whole
        assert page.evaluate(BAR) == ALL
        assert page.evaluate("document.querySelector('svg[data-time] .ticks').textContent") == ticks
        assert page.console == []


def test_only_an_axis_of_time_is_linked_and_says_where_its_frame_is():
    axes = Axes(720, 200, 40)
    axes.show(x=(0, 10), y=(0, 1))
    axes.line([0, 10], [0, 1], ACCENT)
    assert "data-time" not in axes.svg("a plot")
    axes.link_time("hours", 3600)
    assert 'data-time="0.000000 36000.000000" data-unit="hours 3600" data-frame="49 707 160"' in axes.svg(
        "a plot"
    )
