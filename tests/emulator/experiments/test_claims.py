"""A claim is a difference, a level or a replay, and the seeds decide; the reasons say what else was tried."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from rich.table import Table

from command_line import emulate
from emulator.experiments.balancer import PAPER
from emulator.experiments.balancer.measures import WAIT_OF_ALL
from emulator.experiments.claims import Claim, World, judge, open_points, summary, worlds
from emulator.experiments.criteria import (
    Between,
    Outcome,
    exact,
    less,
    median_interval,
    more,
    other_log,
    printed,
    untested,
)
from emulator.experiments.page import render
from emulator.experiments.paper import GROUP, LEAST_SEEDS, Options, find_paper
from emulator.plugins import plugin_names
from emulator.report.drawing import Plot
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import percent
from testdata import TRACES


def claim(**changes) -> Claim:
    keys = {
        "id": "X", "statement": "few", "where": "III", "paper": "10 %", "measure": lambda world: world("a", "rate"),
        "criterion": printed(0.1, 0.1), "show": percent, "open_points": "Leases differ.",
    }  # fmt: skip
    return Claim(**keys | changes)


def seeds(*rates: float):
    return worlds([{"label": "a", "seed": seed, "rate": rate} for seed, rate in enumerate(rates)])


def outcome(criterion, *rates: float) -> Outcome:
    (verdict,) = judge([claim(criterion=criterion)], seeds(*rates))
    return verdict.outcome


def test_the_median_the_spread_and_the_test_are_shown():
    (verdict,) = judge([claim(criterion=less(0.1, than=0.5))], seeds(0.1, 0.3, 0.12, 0.2, 0.2))
    assert (verdict.holds, verdict.ours, verdict.spread) == (True, "20.0 %", "10.0 % to 30.0 %")
    assert verdict.why == "Accepted: at most 40.0 %; met with 5 of 5 seeds (sign test: p = 0.031)."


def test_a_claim_that_does_not_hold_says_why_and_what_another_reading_gives():
    other = {"twice": lambda world: 2 * world("a", "rate")}
    (verdict,) = judge([claim(also=other, criterion=printed(0.1, 0.1, replay=True))], seeds(0.02))
    assert verdict.outcome is Outcome.FAILS
    assert verdict.why == (
        "Accepted: 5.0 % to 15.0 %; not met (deterministic run). Under reading twice: 4.0 %. Leases differ."
    )


def test_a_claim_without_its_runs_cannot_be_told():
    (verdict,) = judge([claim(measure=lambda world: world("b", "rate"))], seeds(0.1))
    assert (verdict.outcome, verdict.ours, verdict.why) == (Outcome.OPEN, "none", "run 'b' has no rate")


@pytest.mark.parametrize(
    ("beyond", "short", "expected"),
    [(9, 1, Outcome.HOLDS), (8, 2, Outcome.OPEN), (5, 5, Outcome.OPEN), (1, 9, Outcome.FAILS), (5, 0, Outcome.HOLDS),
     (4, 0, Outcome.OPEN), (0, 4, Outcome.OPEN), (0, 5, Outcome.FAILS)],
)  # fmt: skip
def test_a_difference_holds_in_more_seeds_than_a_coin_would_give(beyond, short, expected):
    assert outcome(more(0.1), *[1.2] * beyond, *[1.05] * short) is expected


def test_a_difference_without_margin_is_no_criterion():
    with pytest.raises(ValueError, match="needs a margin above 0"):
        less(0.0)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [((0.27, 0.28, 0.29, 0.31, 0.32), Outcome.HOLDS), ((0.2, 0.3, 0.4, 0.3, 0.3), Outcome.OPEN),
     ((0.31, 0.32, 0.33, 0.34, 0.35), Outcome.FAILS), ((0.3,), Outcome.HOLDS), ((0.31,), Outcome.OPEN)],
)  # fmt: skip
def test_a_level_is_met_if_the_papers_figure_is_one_of_ours_and_they_are_close_together(rates, expected):
    assert outcome(printed(0.30, 0.01), *rates) is expected


def test_a_printed_figure_is_met_within_its_last_digit_and_no_finer_than_a_thousandth():
    assert printed(122.5, 0.1, replay=True).accepted == Between(122.5 - 0.1225, 122.5 + 0.1225)
    assert printed(3.10, 0.01).accepted == Between(3.095, 3.105)


def test_a_replay_without_chance_counts_once_and_needs_one_figure():
    (verdict,) = judge([claim(criterion=exact(0.1, 0.1))], seeds(0.1, 0.1, 0.1))
    assert (verdict.outcome, verdict.n) == (Outcome.HOLDS, 1)
    assert outcome(exact(0.1, 0.1), 0.11) is Outcome.FAILS


def test_what_the_trace_cannot_tell_is_told_apart_from_what_is_not_tested():
    found = judge(
        [claim(criterion=other_log(exact(0.1, 0.1), "Another log.")), claim(criterion=untested("Fitted to it.")),
         claim(criterion=exact(0.1, 0.1)), claim(criterion=exact(0.2, 0.2))],
        seeds(0.1),
    )  # fmt: skip
    assert [verdict.outcome for verdict in found] == [
        Outcome.OPEN,
        Outcome.UNTESTED,
        Outcome.HOLDS,
        Outcome.FAILS,
    ]
    assert "Another log." in found[0].why
    assert "Fitted to it." in found[1].why
    assert summary(found) == (
        "2 of 3 claims can be decided from these runs: 1 held, 1 not."
        " 1 undecided: they need more seeds or another trace. 1 not tested."
    )


def test_the_interval_of_a_median_comes_from_the_values_in_order():
    assert median_interval(range(1, 11)) == (2, 9)
    assert median_interval(range(6)) == (0, 5)
    assert median_interval(range(5)) is None


def test_a_claim_in_json_says_how_it_was_judged():
    (verdict,) = judge([claim(criterion=less(0.1, than=0.5))], seeds(*[0.2] * 6))
    document = json.loads(json.dumps(verdict.as_json()))
    wanted = ("kind", "margin", "test", "level", "n", "p", "interval", "outcome", "holds")
    assert [document[name] for name in wanted] == [
        "difference", 0.1, "sign test", 0.05, 6, 1 / 64, [0.2, 0.2], "holds", True
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("traces", [TRACES, None])
def test_every_claim_of_the_paper_can_be_judged_from_the_planned_runs(quick, traces):
    options = Options(quick=quick, traces=traces, seeds=1)
    labels = [run.varied["label"] for run in PAPER.sweep(options).runs]
    assert len(labels) == len(set(labels))
    figures = dict.fromkeys(
        ["window.mean_wait_s", "window.mean_wait_after_begin_s",
         "window.ondemand_rejected", "window.ondemand_reject_rate", "window.utilization",
         "window.reserve_idle_node_h", "window.ondemand_utilization"], 1.0,
    )  # fmt: skip
    found = worlds([{"label": label, "seed": 1} | figures for label in labels])
    verdicts = judge(PAPER.claims(options), found)
    assert [verdict.claim.id for verdict in verdicts if not verdict.values] == []
    assert [verdict.claim.id for verdict in verdicts if not all(verdict.also.values())] == []
    assert len({verdict.claim.id for verdict in verdicts}) == len(verdicts)
    assert all(table.row_count for table in PAPER.tables(found))
    page = render(PAPER, options, verdicts, found)
    # Of Figures 2 to 5, --quick has one load, so that Figure 3 alone has more than a point.
    drawn = 1 if quick else 4
    assert page.count("<svg") == 2 * 3 * drawn  # rejections, wait, utilisation; wide and narrow
    assert all(verdict.claim.id in page for verdict in verdicts)


class WatchedRow(dict):
    """A run in which every figure is 1, and which knows whether a claim looked at it."""

    is_looked_at = False

    def get(self, figure):
        self.is_looked_at |= (
            figure != WAIT_OF_ALL
        )  # that is looked up in every run, for those that a claim looks at
        return 1.0


@pytest.mark.parametrize("traces", [TRACES, None])
def test_a_quick_run_of_the_paper_has_no_run_that_nobody_looks_at(traces):
    options = Options(quick=True, traces=traces, seeds=1)
    rows = {run.varied["label"]: WatchedRow() for run in PAPER.sweep(options).runs}
    for each in PAPER.claims(options):
        for measure in (each.measure, *each.also.values()):
            measure(World(1, rows))
    in_tables = ["H15/U66-M/10"]  # the table of Figures 3 to 5 has a column of it
    assert [label for label, row in rows.items() if not row.is_looked_at] == in_tables


def test_a_page_begins_with_what_came_of_the_paper_then_its_figures_then_the_claims():
    paper = SimpleNamespace(
        title="A paper",
        about=lambda _: "What was run.",
        tables=lambda _: [],
        figures=lambda _: [("Figure 4", "Rejected", Plot("four", "<svg></svg>", "<svg></svg>"))],
    )
    found = judge([claim()], seeds(0.1))
    page = render(paper, Options(quick=True), found, [])
    parts = [">A paper</h1>", summary(found), "What was run.", "<svg>", "<h2>Claims</h2>", ">X</strong>"]
    assert sorted(parts, key=page.index) == parts


def test_a_page_leads_from_its_top_to_its_claims_and_to_each_table():
    table = Table(title="Table I: a week (medians)")
    paper = SimpleNamespace(title="A paper", about=lambda _: "", tables=lambda _: [table])
    page = render(paper, Options(), judge([claim()], seeds(0.1)), [])
    linked = re.findall('<a href="#(.*?)">(.*?)</a>', page)
    assert linked == [("claims", "Claims"), ("table-1", "Table I")]
    headings = [re.search(rf'<section id="{name}"><h2>(.*?)</h2>', page)[1] for name, _ in linked]
    assert headings == ["Claims", "Table I: a week (medians)"]


def test_a_page_says_once_what_could_explain_several_claims_and_names_them():
    claims = [
        claim(id="A"),
        claim(id="B"),
        claim(id="C", criterion=printed(0.8, 0.1), open_points="Weeks differ."),
    ]
    found = judge(claims, seeds(*[0.5] * 5))
    assert open_points(found) == {"Leases differ.": ["A", "B"], "Weeks differ.": ["C"]}
    paper = SimpleNamespace(title="A paper", about=lambda _: "", tables=lambda _: [])
    page = render(paper, Options(), found, [])
    assert page.count("Leases differ.") == 1
    assert '<li>Leases differ. <span class="remark">(A, B)</span></li>' in page
    assert all(verdict.reason in page for verdict in found)
    assert "What could explain" not in render(paper, Options(), judge([claim()], seeds(*[0.1] * 5)), [])


@pytest.mark.slow
@pytest.mark.parametrize("name", plugin_names(GROUP))
def test_a_quick_run_has_as_many_seeds_as_a_verdict_needs(name):
    paper = find_paper(name)
    options = Options(quick=True, traces=TRACES if paper.reads_logs else None)
    assert len({run.varied["seed"] for run in paper.sweep(options).runs}) == LEAST_SEEDS
    shown = seeds(*[0.1] * LEAST_SEEDS)
    assert judge([claim(criterion=less(0.1, than=0.5))], shown)[0].outcome is Outcome.HOLDS
    assert judge([claim(criterion=less(0.1, than=0.5))], shown[1:])[0].outcome is Outcome.OPEN


def test_an_unknown_paper_is_an_error_with_the_nearest_name():
    with pytest.raises(ScenarioError, match="did you mean 'balancer'"):
        find_paper("balance")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_reproduce_prints_each_claim_as_json(tmp_path):
    done = emulate(
        "reproduce", "balancer", "--stand-in", "--quick", "--seeds", "1", "--json", "--out", tmp_path / "out"
    )
    assert done.exit_code == 0, done.output
    claims = json.loads(done.output)["claims"]
    assert {"id", "statement", "paper", "ours", "spread", "kind", "outcome", "why"} <= claims[0].keys()
    by_id = {each["id"]: each for each in claims}
    assert by_id["T1-static-serves-all"]["values"] == [0]
    assert {each["outcome"] for each in claims if each["kind"] == "difference"} == {"cannot be told"}
    assert sum(json.loads(done.output)["counts"].values()) == len(claims)
