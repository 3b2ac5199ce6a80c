"""The page of a sweep: settings in order, a map of two, and what no other setting is better in."""

from __future__ import annotations

import re
from html import unescape

import pytest

from command_line import emulate
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.page import page
from emulator.sweeps.ranking import rank
from emulator.text.number_text import grouped
from testdata import TRACES

VARIED = ("mechanism.reserve", "mechanism.wait", "seed")


def rows(figures):
    """A row for each setting and seed, with its wait and rejections."""
    return [
        {"mechanism.reserve": reserve, "mechanism.wait": wait, "seed": seed, "mean_wait_s": mean + seed,
         "ondemand_rejected": rejected, "utilization": 0.5}
        for (reserve, wait), (mean, rejected) in figures.items() for seed in range(5)
    ]  # fmt: skip


FOUR = {(0, 0): (100.0, 9), (0, 10): (200.0, 3), (6, 0): (300.0, 5), (6, 10): (400.0, 0)}


def lines_of(text):
    """Each line of the table: its class and its cells."""
    found = re.findall(r"<tr( class=\"front\")?>(<td>.*?)</tr>", text)
    return [(bool(front), re.findall(r"<td[^>]*>(.*?)</td>", cells)) for front, cells in found]


def test_settings_stand_in_order_with_their_figures_and_those_that_nothing_beats_stand_out():
    found = rows(FOUR)
    lines = lines_of(unescape(page("four", found, VARIED)))
    ranked = rank(found, VARIED, "mean_wait_s")
    assert [cells[:4] for _, cells in lines] == [
        [str(place), *map(str, each.setting.values()), grouped(each.mean, 2)]
        for place, each in enumerate(ranked, 1)
    ]
    assert [cells[-1] for _, cells in lines] == ["9", "3", "5", "0"]
    assert [front for front, _ in lines] == [
        True,
        True,
        False,
        True,
    ]  # 300 s and 5 rejected: 200 s and 3 is better


def test_it_says_first_what_is_best_and_how_sure_that_is():
    text = unescape(page("four", rows(FOUR), VARIED))
    opening = re.search('class="opening">(.*?)<', text)[1]
    assert opening == (
        "20 runs of 4 settings, 5 seeds each. Best by mean wait: reserve 0, wait 0 (1 min 42 s), surely better"
        " than all other 3."
    )
    assert text.index('id="pareto"') < text.index('id="heat"') < text.index("<table>")


def test_one_varied_key_has_no_map_and_figures_that_are_all_alike_no_trade_off():
    found = rows({(0, 0): (100.0, 9), (6, 0): (200.0, 9)})
    text = page("two", found, VARIED)
    assert ('id="heat"' in text, 'id="pareto"' in text) == (False, False)


def test_the_highest_may_be_the_best():
    text = unescape(page("four", rows(FOUR), VARIED, "mean_wait_s", highest=True))
    assert [cells[1:3] for _, cells in lines_of(text)] == [["6", "10"], ["6", "0"], ["0", "10"], ["0", "0"]]
    with pytest.raises(ScenarioError):
        page("four", rows(FOUR), VARIED, "no_such_figure")


def test_the_command_writes_it_and_says_where(tmp_path):
    (tmp_path / "grid.yaml").write_text(
        f"name: small\nbase: {TRACES.parent / 'scenarios' / 'default.yaml'}\n"
        "grid: {mechanism.balancer.static_reserve: [0, 6]}\nseeds: 1\n"
    )
    out = tmp_path / "out"
    done = emulate("sweep", tmp_path / "grid.yaml", "--jobs", "1", "--out", out, "--quiet")
    assert done.exit_code == 0, done.output
    assert f"The settings in order, with intervals: {out / 'report.html'}" in done.stdout
    text = unescape((out / "report.html").read_text())
    assert [cells[1] for _, cells in lines_of(text)] == ["0", "6"]


def test_a_label_that_stands_for_a_setting_is_no_side_of_a_map():
    found = [
        {"label": label, "scheduler": scheduler, "seed": seed, "mean_wait_s": mean + seed}
        for label, scheduler, mean in (("EASY", "fcfs+easy", 100.0), ("mine", "sjf+easy", 90.0)) for seed in range(5)
    ]  # fmt: skip
    assert 'id="heat"' not in page("against-easy", found, ("label", "scheduler", "seed"))
    assert 'id="heat"' in page("four", rows(FOUR), VARIED)
