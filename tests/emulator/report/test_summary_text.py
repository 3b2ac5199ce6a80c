from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import click
import pytest

from emulator.metrics import summarize
from emulator.report.summary_text import print_summary, summary_text

SHARE = {"cores": 2, "model_slowdown": 1.5, "measured_slowdown": 1.625, "slowdown_by_shares": 2.0}
MEANS = {"mean_model_slowdown": 1.5, "mean_measured_slowdown": 1.6, "mean_slowdown_by_shares": 2.0}


def test_the_summary_fits_a_screen_and_says_where_the_results_are(week):
    text = click.unstyle(summary_text(summarize(week), Path("runs/week")))

    assert len(text.splitlines()) <= 20
    assert "Results are in runs/week; open runs/week/report.html" in text
    assert "31 of 36 granted, 5 rejected" in text
    assert "left out: no run time" in text


def test_the_summary_names_an_interruption_and_the_hold_of_a_live_clock(live_week):
    text = click.unstyle(summary_text(summarize(live_week)))

    assert text.startswith("Interrupted: stopped by SIGINT")
    assert "for 4.2 s in all, by at most 31 ms (wall time)" in text
    assert "598x of 600x; at most about 14\u202f103x here" in text


def test_figures_stand_below_each_other_and_go_on_below_themselves_in_a_narrow_terminal(week):
    summary = summarize(week)
    lines = click.unstyle(summary_text(summary, width=60)).splitlines()
    wide = click.unstyle(summary_text(summary)).splitlines()

    assert max(map(len, lines)) <= 60 < max(map(len, wide))
    assert " ".join(lines).split() == " ".join(wide).split()
    names = [line for line in lines if not line.startswith(" ")]
    assert [name[:16] for name in names] == [line[:16] for line in wide]


def test_a_contradiction_is_told_before_all_figures(week):
    summary = summarize(week) | {"problems": ["job 1 ends before it starts"]}
    assert click.unstyle(summary_text(summary)).startswith(
        "The record contradicts itself: job 1 ends before it starts\nbatch jobs run"
    )


def test_where_stdout_is_no_terminal_there_are_no_styles_and_a_figure_is_a_line(week, capsys):
    print_summary(summarize(week), Path("runs/week"), has_report=False)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown == click.unstyle(summary_text(summarize(week), Path("runs/week"), has_report=False)) + "\n"
    assert "`emulator report runs/week` makes a page of them" in shown


@pytest.mark.parametrize(
    ("name", "value", "styled"), [("NO_COLOR", "1", 0), ("TERM", "dumb", 0), ("TERM", "vt100", 1)]
)
def test_a_terminal_shows_styles_unless_it_has_none_or_the_user_wants_none(
    week, monkeypatch, name, value, styled
):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    for each in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, value)
    print_summary(summarize(week), Path("runs/week"))
    assert ("\x1b" in terminal.getvalue()) == bool(styled)


def test_of_many_jobs_that_shared_processors_twenty_and_the_means_are_shown(week):
    shares = [SHARE | {"job": number} for number in range(1, 26)]
    found = {"processor_shares": json.dumps(shares)} | MEANS
    text = click.unstyle(summary_text(summarize(week) | {"mechanism": found}))
    _, title, table = text.partition("Slow-down on shared processors\n")
    rows = table.splitlines()

    assert title
    assert [row.split() for row in rows[:2]] == [
        ["job", "cores", "model", "measured", "by", "shares"],
        ["1", "2", "1.50", "1.62", "2.00"],
    ]
    assert [rows[20].split()[0], rows[21].split(), rows[22].split()] == [
        "20",
        ["…"],
        ["mean", "1.50", "1.60", "2.00"],
    ]
    assert len({len(row) for row in rows}) == 1
