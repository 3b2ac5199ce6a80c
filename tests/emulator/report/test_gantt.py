"""The Gantt chart: what it draws is the schedule, and in a real browser it is quick, legible and can be searched."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import emulator
from balancer.clock import US
from chromium_kit import browser
from emulator.metrics import summarize
from emulator.report import gantt, html
from emulator.report.gantt import chart_data
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.workload.table import JobTable
from parts import AXE
from testdata import TRACES

KTH = {
    "name": "KTH",
    "nodes": 100,
    "workload": {"trace": str(TRACES / "KTH-SP2-1996-2.swf.xz"), "overrun": "kill"},
}


@pytest.fixture(scope="module")
def record():
    """Three jobs on four nodes: 7 on two of them, then 9 on all, 8 on one beside 7."""
    jobs = JobTable.build(
        number=[7, 9, 8],
        submit_us=[0, 10 * US, 20 * US],
        run_us=[100 * US, 50 * US, 30 * US],
        nodes=[2, 4, 1],
    )
    return simulate(jobs, 4, SchedulerConfig())


def boxes_of(data):
    """(job, start, end, nodes) of each box."""
    run_of = np.repeat(np.arange(len(data["start"])), data["boxes"])
    starts, jobs = np.cumsum(data["start"]), np.cumsum(data["job"])
    return [
        (
            int(jobs[run]),
            int(starts[run]),
            int(starts[run]) + data["length"][run],
            set(range(low, low + count)),
        )
        for run, low, count in zip(run_of, data["low"], data["count"], strict=True)
    ]


def runs_of(record):
    """(job, start, end, nodes) of each run."""
    runs, found = record.runs, []
    for row, job in enumerate(runs.job.tolist()):
        nodes = runs.node[runs.first[row] : runs.first[row + 1]]
        times = (int(runs.start_us[row]) // US, int(runs.end_us[row]) // US)
        found.append((int(record.jobs.number[job]), *times, sorted(nodes.tolist())))
    return sorted(found)


def joined(boxes):
    found = {}
    for job, begin, end, nodes in boxes:
        found.setdefault((job, begin, end), set()).update(nodes)
    return sorted((*key, sorted(nodes)) for key, nodes in found.items())


def test_its_boxes_are_the_schedule(record):
    data = chart_data(record)
    assert joined(boxes_of(data)) == runs_of(record)
    assert [data[key] for key in ("begin", "horizon", "node_count", "left_out", "wait", "nodes", "kind")] == [
        0, 150, 4, 0, [0, 0, 90], [2, 1, 4], [0, 0, 0],
    ]  # fmt: skip
    assert len(data["low"]) == 3  # neighbours are one box


def test_of_too_many_runs_the_largest_are_drawn(record, monkeypatch):
    monkeypatch.setattr(gantt, "MOST_RUNS", 2)
    data = chart_data(record)
    assert {job for job, *_ in boxes_of(data)} == {7, 9}
    assert data["left_out"] == 1
    assert "The 2 largest of 3 runs." in gantt.section(record)
    monkeypatch.setattr(gantt, "MOST_BOXES", 1)
    assert [(job, sorted(nodes)) for job, _, _, nodes in boxes_of(chart_data(record))] == [(7, [0, 1])]


def test_without_nodes_there_is_no_chart(record):
    runs = replace(record.runs, node=np.empty(0, np.int32), first=np.zeros_like(record.runs.first))
    without = replace(record, runs=runs)
    assert gantt.section(without) == ""
    assert 'id="schedule"' not in html.render(without, summarize(without))
    assert "was not recorded" in gantt.Gantt(without, "x").html


def test_names_end_no_script_and_a_page_asks_for_nothing(record):
    named = replace(record, node_names=("</script><b>", "b", "c", "d"))
    page = gantt.Gantt(named, "a <title>").html
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert json.loads(text)["names"][0] == "</script><b>"
    assert "a &lt;title&gt;" in page
    assert not re.findall(r"https?://|src=|@import|fetch\(", page)


def test_a_result_has_it_and_a_notebook_shows_it_in_a_frame(tmp_path):
    found = emulator.run(TRACES / "day-64.swf")
    page = found.gantt().save(tmp_path / "day.html").read_text()
    assert '<div class="gantt">' in page
    shown = found.gantt()._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert "<script" not in shown
    assert '<h2 id="schedule">' in (found.save(tmp_path / "out") / "report.html").read_text()


@pytest.mark.slow
def test_the_page_of_a_year_of_kth_stays_below_three_megabytes(tmp_path):
    found = emulator.run(KTH, out=tmp_path / "kth")
    assert 300_000 < (tmp_path / "kth" / "report.html").stat().st_size < 3_000_000
    assert chart_data(found.record)["left_out"] == 0


CANVAS = "document.querySelector('.gantt canvas')"
SHOWN = f"JSON.stringify({CANVAS}.gantt.view)"
INKED = """(() => {
  const c = document.querySelector('.gantt canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const seen = new Set();
  let n = 0;
  for (let k = 0; k < d.length; k += 4) if (d[k + 3]) { n++; seen.add(d[k] << 16 | d[k + 1] << 8 | d[k + 2]); }
  return JSON.stringify([n / (d.length / 4), seen.size]);
})()"""
"""The share of pixels that are drawn on, and how many colours there are."""
MIDDLE_OF_9 = """(() => {
  const b = document.querySelector('.gantt canvas').getBoundingClientRect();
  const left = b.width * 0.68 / 4.6, right = b.width * 0.18 / 4.6;  // of a narrow window, as drawing.py has it
  return JSON.stringify([b.left + left + (b.width - left - right) * 0.8, b.top + b.height / 2]);
})()"""
TIMED = """(() => {
  const c = document.querySelector('.gantt canvas'), g = c.gantt, pen = c.getContext('2d');
  const time = (f) => {
    f();
    const b = performance.now();
    for (let k = 0; k < 5; k++) f();
    return (performance.now() - b) / 5;
  };
  const bare = () => { for (let k = 0; k < g.boxes; k++) pen.fillRect(k % 300, k % 200, 3, 3); };
  return JSON.stringify([time(g.draw), time(bare), g.boxes]);
})()"""
"""Milliseconds of a picture of all boxes, and of as many bare rectangles; boxes."""


@pytest.fixture
def page(tmp_path):
    with browser(tmp_path) as opened:
        yield opened


def ready(page, path):
    page.open(path.as_uri())
    page.wait_for(f"{CANVAS} && {CANVAS}.gantt && {CANVAS}.gantt.runs > 0")
    page.wait_for(f"{CANVAS}.width === Math.round({CANVAS}.getBoundingClientRect().width * devicePixelRatio)")


def view(page):
    return json.loads(page.evaluate(SHOWN))


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_in_a_browser_keys_zoom_search_finds_and_hovering_tells(record, page, tmp_path):
    ready(page, gantt.Gantt(record, "three").save(tmp_path / "three.html"))
    assert view(page) == {"t0": 0, "t1": 150, "n0": 0, "n1": 4}
    page.evaluate(f"{CANVAS}.focus()")
    page.press("+")
    zoomed = view(page)
    assert zoomed["t1"] - zoomed["t0"] == pytest.approx(150 * 0.67)
    page.press("ArrowRight")
    assert view(page)["t0"] > zoomed["t0"]
    page.press("0")
    assert view(page) == {"t0": 0, "t1": 150, "n0": 0, "n1": 4}
    page.evaluate("document.querySelector('.gantt input').focus()")
    page.type("9")
    assert page.evaluate("document.querySelector('.gantt output').textContent") == (
        "job 9, 4 nodes, start 0 d 00:01:40, ran 50 s, waited 1 min 30 s"
    )
    page.type("9")
    assert page.evaluate("document.querySelector('.gantt output').textContent") == "no run of job 99 is drawn"
    page.evaluate("document.querySelector('[data-do=all]').click()")
    page.resize(500, 900)
    page.wait_for(f"{CANVAS}.width === Math.round({CANVAS}.getBoundingClientRect().width * devicePixelRatio)")
    x, y = json.loads(page.evaluate(MIDDLE_OF_9))
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    tip = "document.querySelector('.gantt-tip')"
    assert page.evaluate(f"!{tip}.hidden && {tip}.textContent.split('\\n')[0]") == "job 9, 4 nodes"
    page.ask("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-100)
    assert view(page)["t1"] == 150  # not clicked: the page scrolls
    assert page.console == []


def test_users_and_queues_are_told_where_the_log_has_them(record):
    assert chart_data(record)["user"] == chart_data(record)["queue"] == []
    jobs = replace(record.jobs, user=np.array([4, 5, -1], np.int32))
    data = chart_data(replace(record, jobs=jobs))
    assert (data["user"], data["queue"]) == ([4, -1, 5], [])


def test_what_has_no_box_is_counted(record):
    runs = record.runs
    gone = replace(runs, job=np.array([0, 0, 1], runs.job.dtype))
    data = chart_data(replace(record, runs=gone))
    assert data["never"] == 1
    assert "1 job or request never had a node." in gantt.section(replace(record, runs=gone))
    assert "All 3 runs." in gantt.section(record)


LEGEND = """JSON.stringify([...document.querySelectorAll('.gantt .legend li')].map(
  (item) => [item.childNodes[1].textContent, Number(item.querySelector('b').textContent.replace(/\\D/g, ''))]))"""


def coloured_by(page, choice):
    change = f"s.value = '{choice}'; s.dispatchEvent(new Event('change'));"
    page.evaluate(f"(() => {{ const s = document.querySelector('.gantt select'); {change} }})()")
    return dict(json.loads(page.evaluate(LEGEND)))


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
def test_its_colours_are_chosen_and_its_axis_is_that_of_the_plots(page, tmp_path):
    scenario = TRACES.parent / "scenarios" / "default.yaml"
    found = emulator.run(scenario, out=tmp_path / "day")
    record, runs = found.record, found.record.runs
    sizes = np.diff(runs.first)
    wait_s = (runs.start_us - record.jobs.submit_us[runs.job]) // US
    leases = int((record.jobs.kind[runs.job] == 1).sum())
    for width, is_dark in ((1280, False), (1280, True), (400, False), (400, True)):
        page.resize(width, 900)
        page.dark(is_dark=is_dark)
        ready(page, tmp_path / "day" / "report.html")
        assert coloured_by(page, "class") == {"batch job": len(sizes) - leases, "on-demand lease": leases}
        by_size = coloured_by(page, "size")
        assert by_size["1 node"] == int((sizes == 1).sum())
        assert sum(by_size.values()) == len(sizes)
        by_wait = coloured_by(page, "wait")
        assert by_wait["≤ 1 min"] == int((wait_s <= 60).sum())
        assert sum(by_wait.values()) == len(sizes)
        by_user = coloured_by(page, "user")
        assert sum(by_user.values()) == len(sizes)
        assert len(by_user) <= 9
        assert page.barriers(AXE) + page.texts_in_the_way() == []
        # A place of the plots above is the same place here.
        both = "#queue-length svg, #queue-length + .narrow svg"
        plot = f"[...document.querySelectorAll('{both}')].find((svg) => svg.clientWidth)"
        begin, end = json.loads(
            page.evaluate(f"""(() => {{
          const svg = {plot}, box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
          return JSON.stringify([box.left + 0.68 * 72 * scale, box.right - 0.18 * 72 * scale]);
        }})()""")
        )
        shown = json.loads(
            page.evaluate(f"(b => JSON.stringify([b.left, b.right]))({CANVAS}.getBoundingClientRect())")
        )
        of = 10.4 if width > 704 else 4.6
        wide = shown[1] - shown[0]
        assert shown[0] + wide * 0.68 / of == pytest.approx(begin, abs=1)
        assert shown[1] - wide * 0.18 / of == pytest.approx(end, abs=1)
        ends = f"JSON.stringify({CANVAS}.gantt.ends())"
        assert json.loads(page.evaluate(ends)) == pytest.approx([begin - shown[0], end - shown[0]], abs=1)
    assert page.console == []


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
def test_hovering_tells_job_user_queue_and_wait(record, page, tmp_path):
    queue = np.array([2, 2, 3], np.int32)
    jobs = replace(record.jobs, user=np.array([4, 5, 4], np.int32), queue=queue)
    page.resize(500, 900)
    ready(page, gantt.Gantt(replace(record, jobs=jobs), "three").save(tmp_path / "three.html"))
    assert dict(json.loads(page.evaluate(LEGEND))) == {"user 4": 2, "user 5": 1}
    assert page.barriers(AXE) + page.texts_in_the_way() == []
    x, y = json.loads(page.evaluate(MIDDLE_OF_9))
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    told = page.evaluate("document.querySelector('.gantt-tip').textContent")
    assert told == "job 9, user 5, queue 2, 4 nodes\nstart 0 d 00:01:40, ran 50 s, waited 1 min 30 s"


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_the_report_of_kth_shows_it_quickly_on_a_desk_and_on_a_phone(page, tmp_path):
    emulator.run(KTH, out=tmp_path / "kth")
    inks = []
    for width, is_dark in ((1280, False), (400, False), (400, True)):
        page.resize(width, 900)
        if is_dark:
            page.dark()
        ready(page, tmp_path / "kth" / "report.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        share, colours = json.loads(page.evaluate(INKED))
        assert share > 0.3
        assert colours > 5
        inks.append(
            page.evaluate("getComputedStyle(document.querySelector('.gantt')).getPropertyValue('--ink')")
        )
        size = json.loads(
            page.evaluate(f"(b => JSON.stringify([b.width, b.height]))({CANVAS}.getBoundingClientRect())")
        )
        assert size[0] > 0.85 * min(width, 900)
        assert size[1] > 280
    assert inks[0] == inks[1] != inks[2]
    # All boxes at once is the dearest picture. Ratio to an equal number of bare rectangles: no clock of this machine.
    spent = json.loads(page.evaluate(TIMED))
    print("ms a picture, ms for as many bare rectangles, boxes:", spent)
    assert spent[0] < max(8 * spent[1], 33)
    loaded_ms = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print("ms until the page is loaded:", loaded_ms)
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert page.console == []
