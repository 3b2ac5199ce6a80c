from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from emulator.metrics import summarize
from emulator.record.run_record import Mark, NodePool, PoolMove
from emulator.report import html, plots
from emulator.text.number_text import duration, number

US = 1_000_000
OWN_SCRIPTS = ['<script type="application/json">', "<script>", "<script>"]
"""Those of the schedule, and the one that zooms all plots."""
PLOTS = ["node-states", "queue-length", "utilization", "on-demand-requests", "wait-times", "wait-by-size"]


def page_of(record):
    return html.render(record, summarize(record))


def test_the_page_opens_with_the_picture_of_the_nodes(week):
    page = page_of(week)

    assert re.findall(r'<div class="wide" id="([\w-]+)">', page) == PLOTS
    assert page.index('id="node-states"') < page.index('class="cards"') < page.index('id="queue-length"')


def test_the_top_says_what_tells_runs_of_one_scenario_from_each_other(week):
    scenario = {
        "scheduler": "sjf+easy",
        "mechanism": {"balancer": {"static_reserve": 12, "history": [3] * 200}},
    }
    top = unescape(page_of(replace(week, scenario=scenario))).partition("<main>")[0]
    assert "; scheduler: sjf+easy; mechanism: {balancer: {static_reserve: 12, history: [3, 3, " in top
    assert ", 3, 3, ...</p>" in top
    assert (
        "scheduler" not in page_of(replace(week, scenario={})).partition("</header>")[0].partition("<h1>")[2]
    )


def test_the_page_needs_nothing_from_outside(week):
    page = page_of(week)

    links = re.findall(r'(?:src|href|url)\s*[=(]\s*"?([^")\s>]+)', page)
    assert [link for link in links if not link.startswith("#")] == []
    assert re.findall("<script[^>]*>", page) == OWN_SCRIPTS
    assert "@import" not in page


def test_ids_are_unique_and_references_have_a_target(week):
    page = page_of(week)

    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_colours_are_left_to_the_page_so_that_dark_mode_works(week):
    page = page_of(week)

    assert not re.findall(r"#0102\d\d", page)
    assert "prefers-color-scheme: dark" in page


def test_marks_and_what_was_left_out_are_told(week):
    text = unescape(page_of(week))

    assert "node n20 fails" in text
    assert "left out: wider than the cluster" in text
    assert "A week at a small site" in text
    assert "Pace of the live clock" not in text


def test_a_live_run_shows_its_pace_and_its_interruption(live_week):
    text = unescape(page_of(live_week))

    assert "Pace of the live clock" in text
    assert "longest_hold_s" in text
    assert "stopped by SIGINT" in text


def test_text_of_the_scenario_cannot_become_markup(week):
    name = '<script>alert("x")</script>'
    record = replace(week, scenario={"name": name}, marks=(Mark(5 * US, name),), interrupted=name)

    page = page_of(record)

    assert re.findall("<script[^>]*>", page) == OWN_SCRIPTS
    assert page.count("&lt;script&gt;") == 5  # title, heading, interruption, mark, scenario


def test_a_contradictory_record_heads_its_page_with_the_contradiction(week):
    record = replace(
        week, moves=(*week.moves, PoolMove(week.horizon_us - 1, tuple(range(64)), NodePool.DOWN))
    )

    page = page_of(record)

    assert "The record contradicts itself" in page
    assert 'id="node-states"' not in page
    assert 'id="wait-times"' in page


def test_many_requests_and_marks_stay_a_small_page(simulated):
    record = simulated(jobs=1500, leases=900)
    record = replace(record, marks=tuple(Mark(second * US, f"mark {second}") for second in range(900)))

    page = page_of(record)

    assert len(page) < 900_000
    assert "and 700 more" in page


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 s"),
        (0.25, "250 ms"),
        (45.2, "45.2 s"),
        (725, "12 min 5 s"),
        (12_000, "3 h 20 min"),
        (86_400, "1 d"),
        (187_200, "2 d 4 h"),
        (0.9996, "1 s"),
        (59.97, "1 min"),
        (3599.7, "1 h"),
        (3712.7, "1 h 2 min"),
        (86_370.0, "1 d"),
        (85_200, "23 h 40 min"),
        (271_000, "3 d 3 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_durations_are_written_as_people_say_them(time_s, text):
    assert duration(time_s) == text


def test_numbers_have_few_figures():
    assert [number(value) for value in (None, 7, 1234567, 0.12345, 3.14159, 12345.678)] == [
        "\N{EN DASH}",
        "7",
        "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567",
        "0.123",
        "3.14",
        "12\N{NARROW NO-BREAK SPACE}346",
    ]


PROBE = """<script>
const plots = {}, needs = document.documentElement.scrollWidth;
for (const svg of document.querySelectorAll("svg")) {
  const box = svg.getBoundingClientRect(), holder = svg.parentElement;
  if (box.width) plots[holder.id || holder.previousElementSibling.id] = [box.width, box.height];
}
const fetched = performance.getEntriesByType("resource").length;
document.body.innerHTML = "<pre id=found></pre>";
document.getElementById("found").textContent = JSON.stringify({plots, fetched, width: innerWidth, needs});
</script>"""


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [500, 1200])
def test_a_browser_shows_every_plot_and_fetches_nothing(live_week, tmp_path, width):
    path = tmp_path / "report.html"
    page = page_of(live_week)
    path.write_text(page.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")

    shown = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={width},2000",
            "--dump-dom",
            path.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )

    found = json.loads(unescape(re.search(r'<pre id="found">(.*?)</pre>', shown.stdout)[1]))
    assert list(found["plots"]) == PLOTS
    assert all(box[0] > min(0.9 * width, 900) and box[1] > 60 for box in found["plots"].values())
    assert found["fetched"] == 0
    assert found["needs"] <= found["width"]


def test_each_request_is_a_dot_of_its_own_or_counted():
    at = np.array([0.0, 0.1, 5.0, 5.05, 5.12, 9.0, 5.0])
    width = np.array([1, 1, 1, 1, 1, 1, 2], np.int32)
    found = plots.crowds(at, width, gap=0.1)
    assert [(round(x, 3), nodes, count) for x, nodes, count in found] == [
        (0.05, 1, 2), (5.057, 1, 3), (9.0, 1, 1), (5.0, 2, 1),
    ]  # fmt: skip
    assert plots.crowds(at[:0], width[:0], gap=1.0) == []


def test_the_page_counts_requests_that_stand_beside_each_other(week):
    at = week.jobs.submit_us[week.jobs.kind == 1]
    drawn = plots.requests(week, plots.TimeAxis(week.begin_us, week.horizon_us)).wide
    counted = [int(count) for count in re.findall(r">(\d+)\u00d7<", drawn)]
    width = week.jobs.nodes[week.jobs.kind == 1]
    gap = (week.horizon_us - week.begin_us) / 40
    alone = sum(count == 1 for *_, count in plots.crowds(at.astype(float), width, gap))
    assert sum(counted) + alone == len(at)
