"""What becomes of a recommendation when either load grows."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from command_line import study_merge
from emulator.study import growth, show
from emulator.study.judge import Wishes
from emulator.study.logs import batch_of, leases_of, read_logs, usable_weeks
from emulator.study.settings import SPLIT, Setting
from emulator.workload.formats import load
from emulator.workload.grow import node_time
from testdata import TRACES

SITE = TRACES / "site"
LOGS = (str(SITE / "sacct.txt.xz"), str(SITE / "usage.json.xz"))


@pytest.fixture(scope="module")
def logs():
    return read_logs(*(load(path) for path in LOGS), batch_nodes=12)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("name", ["batch", "leases"])
def test_the_weeks_of_a_load_grow_by_the_share(logs, name, share):
    weeks, table = usable_weeks(logs), getattr(logs, name)
    more, work = growth.added(logs, table, weeks, share, seed=1, name=name)
    own = sum(int(node_time(leases_of(logs, week)).sum()) for week in weeks)
    if name == "batch":
        jobs = growth.from_origin(logs, table)
        own = int(node_time(jobs)[np.isin(jobs.submit_us // growth.WEEK_US, weeks)].sum())
    assert work == pytest.approx(share * own, rel=0.05)
    for week in weeks:
        before, after = (
            (batch_of(logs, week), batch_of(logs, week, more[week]))
            if name == "batch"
            else (leases_of(logs, week), leases_of(logs, week, more[week]))
        )
        assert len(after) == len(before) + len(more[week])
        assert int(node_time(after).sum() - node_time(before).sum()) == int(node_time(more[week]).sum())


def test_what_has_not_grown_is_the_same_week_to_the_last_job(logs):
    (week, *_) = usable_weeks(logs)
    more, work = growth.added(logs, logs.batch, [week], 0.0, seed=1, name="batch")
    assert (len(more[week]), work) == (0, 0)
    for name in ("submit_us", "run_us", "nodes", "number", "user"):
        same = getattr(batch_of(logs, week, more[week]), name) == getattr(batch_of(logs, week), name)
        assert same.all()


def test_only_what_could_be_recommended_is_tried_again():
    late, hint, peak = Setting("basic", 2, 10), Setting("hint", notice_min=30), Setting("peak")
    every = [Setting(SPLIT), Setting("batch only"), Setting("basic", 2), late, hint, peak]
    assert growth.candidates(every, peak, Wishes()) == [Setting(SPLIT), Setting("basic", 2), peak]
    assert growth.candidates(every, late, Wishes(longest_wait_min=10)) == [
        Setting(SPLIT),
        Setting("basic", 2),
        late,
    ]


def row(setting, *, rejected=0, wait_s=600.0, grown=None, pairing=1):
    return {
        "label": setting.label, "week": "2026-01-04", "pairing": pairing, "grown": grown,
        "window.ondemand_requests": 10, "window.ondemand_rejected": rejected, "window.mean_wait_s": wait_s,
        "window.reserve_idle_node_h": float(setting.reserve),
    }  # fmt: skip


def test_each_growth_says_what_today_and_the_recommendation_do_and_what_would_be_taken_then():
    today, few, more = Setting(SPLIT), Setting("basic", 1), Setting("basic", 2)
    name = "on-demand +50 %"
    steps = (growth.Step("", "", 0, 0, 0.5), growth.Step(name, "on-demand", 50, 49.5, 0.6))
    asis = [row(today, wait_s=1200), row(few), row(more, wait_s=900), row(few, rejected=9, pairing=2)]
    grown = [
        row(today, wait_s=1200, rejected=1, grown=name),
        row(few, rejected=3, grown=name),
        row(more, wait_s=900, grown=name),
    ]
    found = growth.outcomes(
        asis, grown, growth.Growth(None, steps), [today, few, more], few, Wishes(), ondemand_nodes=4
    )
    few_now = growth.Outcome("basic R=1 W=0", 3, 10, 0, 10.0, 0.5)
    assert found == (
        growth.GrowthOutcome("", 0, 0, 0.5, growth.Outcome("split", 0, 10, 0, 20.0, 1.0), few_now, few_now),
        growth.GrowthOutcome(
            "on-demand", 50, 49.5, 0.6,
            growth.Outcome("split", 0, 10, 1, 20.0, 1.0),
            growth.Outcome("basic R=1 W=0", 3, 10, 3, 10.0, 0.5),
            growth.Outcome("basic R=2 W=0", 2, 10, 0, 15.0, 0.75),
        ),
    )  # fmt: skip
    nothing = growth.outcomes(
        asis, grown, growth.Growth(None, steps), [today, few], few, Wishes(), ondemand_nodes=4
    )
    assert (nothing[0].best, nothing[1].best) == (few_now, None)


def test_each_figure_of_a_growth_stands_below_its_own_heading():
    each = growth.GrowthOutcome(
        "batch", 25, 25, 0.6,
        growth.Outcome("split", 0, 10, 1, 20.0, 1.0),
        growth.Outcome("basic R=1 W=0", 3, 10, 2, 30.0, 1.5),
        growth.Outcome("basic R=2 W=0", 4, 10, 0, 40.0, 2.0),
    )  # fmt: skip
    found = zip(show.GROWTH_HEADINGS, show.growth_cells(each), strict=True)
    assert [(long, cell) for (long, _), cell in found] == [
        ("load", "batch +25 %"),
        ("asked of the machine", "60 %"),
        ("today: rejected", "1"),
        ("kept: rejected", "2"),
        ("kept: batch wait, min", "30"),
        ("best then", "basic R=2 W=0"),
        ("best then: nodes given up", "4"),
        ("best then: batch wait, min", "40"),
    ]


def study(folder, *more):
    return study_merge(*LOGS, folder, "--nodes", "12+4", "--reserve", 3, "--wait-min", 0, "--quick", *more)


def test_the_report_says_what_changes_if_demand_grows(tmp_path):
    done = study(tmp_path, "--growth", "0,50", "--node-hour-price", "1")
    assert done.exit_code == 0, done.output
    assert "With 50 % more batch load " in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "If demand grows" in page
    with (tmp_path / "growth.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [each["load"] for each in rows] == ["as it is", "batch", "on-demand"]
    asis, batch, ondemand = rows
    assert (asis["kept_setting"], asis["kept_rejected"]) == ("basic R=3 W=0", "0")
    for each in (batch, ondemand):
        assert float(each["reached_percent"]) == pytest.approx(50, rel=0.05)
        assert float(each["load_of_machine"]) > float(asis["load_of_machine"])
    assert float(batch["kept_wait_min"]) > float(asis["kept_wait_min"])
    # More servers at once than are held in reserve.
    assert int(ondemand["kept_rejected"]) > 0
    document = json.loads((tmp_path / "study.json").read_text())
    assert [each["percent"] for each in document["growth"]] == [0, 50, 50]


def test_a_study_that_does_not_ask_is_as_it_was(tmp_path):
    without, nothing = study(tmp_path / "a"), study(tmp_path / "b", "--growth", "0")
    assert (without.exit_code, nothing.exit_code) == (0, 0)
    for name in ("report.html", "study.json", "settings.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert not (tmp_path / "b" / "growth").exists()
    assert not (tmp_path / "b" / "growth.csv").exists()


def test_a_growth_that_is_no_number_is_named_with_status_2(tmp_path):
    done = study(tmp_path, "--growth", "ten")
    assert (done.exit_code, "--growth ten: expected numbers such as" in done.stderr) == (2, True)
