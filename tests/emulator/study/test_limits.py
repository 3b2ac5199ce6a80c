"""What a study says of the limits that were given is what its own table says, whatever the limits."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import made_site
from command_line import study_merge
from emulator.study.judge import Figures, Wishes
from emulator.study.longer_limits import if_they_wait, sentence
from emulator.study.settings import Setting

MERGE = re.compile(
    r"(basic R=(\d+) W=(\d+)|hint H=\d+|peak)(?: \*)? +([\d,]+) \([\d.]+ %\) +[\d.]+ % +([\d.]+) "
)
REQUESTS = 112


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The made site, with no reserve that is large enough: only who lets requests wait rejects none of them."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "batch").write_text(made_site.sacct(made_site.jobs()))
    (folder / "ondemand").write_text(made_site.usage(made_site.servers()))
    return folder


def study(site, *limits):
    done = study_merge(
        site / "batch", site / "ondemand", site / "out", "--nodes", "12+4", "--reserve", "0,1,2", "--wait-min",
        "0,60,120", "--pairings", 1, "--quiet", *limits,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return done.stdout, json.loads((site / "out" / "study.json").read_text())


def table_of(text):
    """By label of a merger in the printed table: reserve, W, how many requests it rejects, and what batch jobs wait."""
    rows = [MERGE.match(line) for line in text.splitlines()]
    return {
        row[1]: (int(row[2] or 0), int(row[3] or 0), int(row[4].replace(",", "")), float(row[5]))
        for row in rows
        if row is not None
    }


@pytest.mark.sample(5)
@pytest.mark.parametrize("wait_min", [0, 60, 120])
@pytest.mark.parametrize("rejected_percent", [0, 1.7857142857142858, 5, 25, 50])
def test_the_sentences_agree_with_the_table_beside_them(site, wait_min, rejected_percent):
    text, document = study(
        site, "--accept-wait-min", str(wait_min), "--accept-rejected", str(rejected_percent)
    )
    table = table_of(text)
    assert len(table) == 11
    most = round(REQUESTS * rejected_percent / 100)
    keeps = {
        label for label, (_, wait, rejected, _) in table.items() if rejected <= most and wait <= wait_min
    }
    for is_announced, advice in enumerate(document["advice"]):
        mine = {label for label in keeps if label.startswith("hint") is bool(is_announced)}
        assert advice["meets"] is bool(mine)
        assert ("No merger" in advice["text"]) is not bool(mine)
        assert advice["text"].replace("\n", " ") in text
        assert not mine or advice["figures"]["setting"] in mine
    is_refused = (
        "no merger without a notice from users that was tried keeps to your limits" in text.splitlines()[0]
    )
    assert is_refused is not bool({label for label in keeps if not label.startswith("hint")})

    taken = document["advice"][0]
    reserve_of_taken, _, _, wait_of_taken = table[taken["figures"]["setting"]]
    longer = [
        (reserve, wait, label)
        for label, (reserve, wait, rejected, batch_wait) in table.items()
        if wait > wait_min
        and rejected <= most
        and not label.startswith("hint")
        and (not taken["meets"] or reserve < reserve_of_taken or batch_wait < wait_of_taken)
    ]
    said = document["if_requests_wait"]
    assert (said is not None) is bool(longer)
    if longer:
        need = min(longer)
        assert (said["reserve"], said["wait_limit_min"], said["setting"]) == need
        words = f"a reserve of {need[0]} node" if need[0] else "no reserve is needed"
        assert f"If requests may wait {need[1]} min, {words}" in text
        assert said["text"] in text


def test_where_only_waiting_keeps_to_the_limits_that_is_said_beside_the_refusal(site):
    text, _ = study(site)
    assert text.startswith(
        "Keep two machines: no merger without a notice from users that was tried keeps to your limits (nothing"
        " rejected, no request waits)"
    )
    assert "If requests may wait 120 min, no reserve is needed: basic R=0 W=120 rejects 0 of 112" in text
    assert "Try larger reserves" not in text
    page = (site / "out" / "report.html").read_text()
    assert "If requests may wait 120 min, no reserve is needed" in page


TRIED = Figures(
    setting=Setting("basic", 3), runs=4, requests=100, rejected=0, worst_rejected=0.0, runs_with_rejections=0,
    wait_min=22.0, least_wait_min=20.0, most_wait_min=24.0, wait_ratio=0.2, idle_node_h=1.0, utilisation=0.8,
)  # fmt: skip


def tried(reserve, wait_limit_min, **changed):
    return replace(TRIED, setting=Setting("basic", reserve, wait_limit_min), **changed)


@pytest.mark.parametrize(
    ("found", "label"),
    [
        ([tried(0, 10)], "basic R=0 W=10"),
        ([tried(1, 5), tried(0, 10)], "basic R=0 W=10"),
        ([tried(0, 10), tried(0, 5)], "basic R=0 W=5"),
        ([tried(0, 5, rejected=3), tried(1, 5)], "basic R=1 W=5"),
        ([tried(0, 5, rejected=3)], None),
        ([tried(0, 0)], None),
    ],
)
def test_of_the_waits_that_help_the_one_with_the_least_reserve_is_told(found, label):
    best = if_they_wait(found, Wishes(), None)
    assert (None if best is None else best.setting.label) == label


def test_a_wait_that_changes_nothing_is_not_told():
    assert if_they_wait([tried(3, 10)], Wishes(), None) is not None
    taken = type("Taken", (), {"meets": True, "figures": TRIED})()
    assert if_they_wait([tried(3, 10)], Wishes(), taken) is None
    assert if_they_wait([tried(2, 10)], Wishes(), taken).setting.reserve == 2


def test_the_line_has_reserve_wait_and_what_it_costs():
    assert sentence(tried(1, 10, wait_min=15.0)) == (
        "If requests may wait 10 min, a reserve of 1 node is enough: basic R=1 W=10 rejects 0 of 100, and batch jobs"
        " wait 15 min, 20 % of today's. To have that judged: --accept-wait-min 10."
    )


@pytest.mark.parametrize("percent", [0, 0.1, 0.7, 1, 2.3, 7, 14, 28, 29, 55, 57, 58, 99.9, 100])
def test_a_limit_that_is_met_exactly_is_kept_to(percent):
    """0.29 * 100 is 28.999999999999996."""
    wishes = Wishes(percent / 100)
    for requests in (100, 1000, 5000, 10_000):
        most = round(requests * percent / 100)
        if most != requests * percent / 100 and abs(most - requests * percent / 100) > 1e-6:
            continue
        assert wishes.accept(most, requests)
        assert not wishes.accept(most + 1, requests)
    assert wishes.accept(np.array([0, 101]), np.array([100, 100])).tolist() == [True, False]
