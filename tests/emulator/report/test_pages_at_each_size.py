"""Each kind of page in a real browser, at a desk and on a phone, by day and by night: nobody meets a barrier.

The service's pages: `balancer/cli/test_dashboard.py`. `study merge` and the like leave a page, `whatif` only a table.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
import yaml

import emulator
from atlas_kit import FewRuns, request
from chromium_kit import browser
from command_line import emulate
from emulator.experiments.atlas import command
from emulator.experiments.balancer import PAPER
from emulator.experiments.claims import judge, worlds
from emulator.experiments.page import render
from emulator.experiments.paper import Options
from emulator.metrics import summarize
from emulator.record.run_record import Mark
from emulator.report import html
from emulator.sweeps.page import page as sweep_page
from mechanism_runs import RUNS, SCENARIOS
from parts import AXE
from testdata import TRACES

LOOKS = [(1280, False), (1280, True), (400, False), (400, True)]
SITE = (
    "--batch",
    TRACES / "site/sacct.txt.xz",
    "--ondemand",
    TRACES / "site/usage.json.xz",
    "--nodes",
    "12+4",
)
FIGURES = (
    "window.mean_wait_s", "window.mean_wait_after_begin_s", "window.ondemand_rejected", "window.ondemand_reject_rate",
    "window.utilization", "window.reserve_idle_node_h", "window.ondemand_utilization",
)  # fmt: skip


def done(*arguments):
    result = emulate(*arguments)
    assert result.exit_code == 0, result.output


def saved(name, folder):
    file, changes = RUNS[name]
    emulator.run(SCENARIOS / f"{file}.yaml", changes=changes).save(folder)
    return folder


def comparison(folder):
    runs = [saved(name, folder / name) for name in ("balancer", "static_partition")]
    done("compare", *runs, "--html", folder / "compare.html")
    return folder / "compare.html"


def sweep(folder):
    grid = {"mechanism.balancer.static_reserve": [0, 12], "mechanism.balancer.wait_s": [0, 600]}
    file = folder / "four.yaml"
    file.write_text(yaml.safe_dump({"base": str(SCENARIOS / "default.yaml"), "grid": grid, "seeds": 2}))
    done("sweep", file, "--keep-runs", "--jobs", 1, "--quiet", "--out", folder / "four")
    return folder / "four/report.html"


def merge(folder):
    done("study", "merge", *SITE, "--reserve", "0,2", "--quick", "--jobs", 1, "--out", folder / "merge")
    return folder / "merge/report.html"


def paper(folder):
    """The page of the Balancer's paper, with figures that nobody has measured."""
    options, chance = Options(quick=True), random.Random(1)
    rows = [run.varied | {name: chance.random() for name in FIGURES} for run in PAPER.sweep(options).runs]
    found = worlds(rows)
    page = folder / "paper.html"
    page.write_text(render(PAPER, options, judge(PAPER.claims(options), found), found), encoding="utf-8")
    return page


def atlas(folder):
    command.run_atlas("realtime", FewRuns(), Options(quick=True), request(folder)[0])
    return folder / "atlas.html"


PAGES = {"compare": comparison, "sweep": sweep, "study merge": merge, "reproduce": paper, "atlas": atlas}


def problems(page, file, width, *, is_dark):
    """What is wrong with a page at this size and time of day, all that can be folded out being so."""
    page.resize(width, 900)
    page.dark(is_dark=is_dark)
    page.open(file.as_uri())
    page.wait_for(f"document.readyState === 'complete' && location.href === '{file.as_uri()}'")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    wide = page.evaluate("document.documentElement.scrollWidth")
    too_wide = [f"{wide} px wide"] if wide > width else []
    return page.barriers(AXE) + too_wide + page.texts_in_the_way() + page.console


def walked(file, folder):
    with browser(folder) as page:
        return {look: found for look in LOOKS if (found := problems(page, file, look[0], is_dark=look[1]))}


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
@pytest.mark.parametrize("mechanism", RUNS)
def test_the_report_of_each_mechanism_has_no_barrier_at_any_size_by_day_or_night(mechanism, tmp_path):
    assert walked(saved(mechanism, tmp_path / "run") / "report.html", tmp_path) == {}


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
@pytest.mark.parametrize("kind", PAGES)
def test_each_other_page_has_no_barrier_at_any_size_by_day_or_night(kind, tmp_path):
    assert walked(PAGES[kind](tmp_path), tmp_path) == {}


def crowded_rows(across, upwards):
    """A sweep of two settings of which each figure hardly differs from the next."""
    values = enumerate(itertools.product(across, upwards))
    return [
        {ACROSS: x, UPWARDS: y, "seed": 1, "mean_wait_s": 123_456 + at / 10, "ondemand_rejected": 900 - at}
        for at, (x, y) in values
    ]


ACROSS, UPWARDS = (
    "mechanism.balancer.seconds_until_a_request_is_given_up",
    "partition.longest_queue_name_of_a_site",
)
LONG = [f"conservative-backfill with the fair share of account {at}" for at in range(8)]
WORDLESS = [f"/scratch/projects/{at}/traces_of_the_cluster_from_2019_to_2026.swf.gz" for at in range(3)]
CROWDED = {
    "names of words": (LONG[:2], LONG),
    "names without a space": (WORDLESS, WORDLESS),
    "many columns": (range(1_000_000, 1_000_024), [0.25, 0.5]),
    "many long columns": (LONG, [0]),
    "many rows": ([0, 600], range(25)),
    "one-letter names": ("ab", "cd"),
}


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
@pytest.mark.parametrize("what", CROWDED)
def test_the_texts_of_a_sweep_s_pictures_stand_apart_however_many_and_long_they_are(what, tmp_path):
    file = tmp_path / "sweep.html"
    rows = crowded_rows(*(list(values) for values in CROWDED[what]))
    file.write_text(sweep_page(what, rows, (ACROSS, UPWARDS, "seed")), encoding="utf-8")
    assert 'id="pareto"' in file.read_text(encoding="utf-8")
    assert walked(file, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
def test_the_texts_of_a_report_stand_apart_where_much_happens_at_once(simulated, tmp_path):
    record = simulated(leases=120)
    marks = tuple(Mark(30 * 3_600_000_000 + at * 900_000_000, f"node n{at:02} fails") for at in range(25))
    busy, file = replace(record, marks=marks), tmp_path / "report.html"
    file.write_text(html.render(busy, summarize(busy)), encoding="utf-8")
    assert walked(file, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
def test_texts_that_overlap_or_leave_their_picture_are_told_of(tmp_path):
    file = tmp_path / "page.html"
    texts = [(10, 20, "one"), (20, 24, "two"), (50, 50, "apart"), (90, 80, "outside")]
    drawn = "".join(f'<text x="{x}" y="{y}" font-size="10">{text}</text>' for x, y, text in texts)
    picture = (
        f'<svg role="img" aria-label="A plot" viewBox="0 0 100 100" width="100" height="100">{drawn}</svg>'
    )
    file.write_text(
        f'<!doctype html><html lang="en"><title>A page</title><main><h1>A page</h1>{picture}</main></html>'
    )
    assert walked(file, tmp_path)[1280, False] == [
        'A plot: "outside" leaves the picture',
        'A plot: "one" overlaps "two"',
    ]


@pytest.mark.slow
@pytest.mark.needs("chromium", "axe")
def test_a_page_that_is_too_wide_and_too_faint_is_told_of_at_the_size_where_it_is(tmp_path):
    file = tmp_path / "page.html"
    faint = '<p style="color: #bbb">faint</p><div style="width: 600px">wide</div>'
    file.write_text(
        f'<!doctype html><html lang="en"><title>A page</title><main><h1>A page</h1>{faint}</main></html>'
    )
    found = walked(file, tmp_path)
    assert found.keys() == set(LOOKS)
    told = {look: [each.partition(":")[0] for each in each_look] for look, each_look in found.items()}
    assert told[1280, False] == ["color-contrast"]
    assert told[400, True] == ["color-contrast", "608 px wide"]
