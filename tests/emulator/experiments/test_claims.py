"""A claim holds when the median over the seeds is accepted; the reasons say what else was tried."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from emulator.cli import main
from emulator.experiments.balancer import PAPER
from emulator.experiments.claims import Between, Claim, judge, percent, worlds
from emulator.experiments.page import render
from emulator.experiments.paper import Options, find_paper
from emulator.scenario import ScenarioError
from testdata import TRACES


def claim(**changes) -> Claim:
    keys = {
        "id": "X", "statement": "few", "where": "III", "paper": "10 %", "measure": lambda world: world("a", "rate"),
        "accepted": Between(0.05, 0.15), "show": percent, "open_points": "Leases differ.",
    }  # fmt: skip
    return Claim(**keys | changes)


def seeds(*rates: float):
    return worlds([{"label": "a", "seed": seed, "rate": rate} for seed, rate in enumerate(rates)])


def test_the_median_decides_and_the_spread_is_shown():
    (verdict,) = judge([claim()], seeds(0.1, 0.9, 0.12))
    assert (verdict.holds, verdict.ours, verdict.spread) == (True, "12.0 %", "10.0 % to 90.0 %")
    assert verdict.why == "Accepted: 5.0 % to 15.0 %; met with 2 of 3 seeds."


def test_a_claim_that_does_not_hold_says_why_and_what_another_reading_gives():
    other = {"twice": lambda world: 2 * world("a", "rate")}
    (verdict,) = judge([claim(also=other)], seeds(0.02))
    assert not verdict.holds
    assert verdict.why == (
        "Accepted: 5.0 % to 15.0 %; met with 0 of 1 seeds. Read otherwise, twice: 4.0 %. Leases differ."
    )


def test_a_claim_without_its_runs_does_not_hold():
    (verdict,) = judge([claim(measure=lambda world: world("b", "rate"))], seeds(0.1))
    assert (verdict.holds, verdict.ours, verdict.why) == (False, "none", "run 'b' has no rate")


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
    assert page.count("<svg") == 2 * 12  # Figures 2 to 5: rejections, wait, utilisation; wide and narrow
    assert all(verdict.claim.id in page for verdict in verdicts)


def test_an_unknown_paper_is_an_error_with_the_nearest_name():
    with pytest.raises(ScenarioError, match="did you mean 'balancer'"):
        find_paper("balance")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_reproduce_prints_each_claim_as_json(tmp_path):
    done = CliRunner().invoke(
        main, ["reproduce", "balancer", "--stand-in", "--quick", "--json", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    claims = json.loads(done.output)["claims"]
    assert {"id", "statement", "paper", "ours", "spread", "holds", "why"} <= claims[0].keys()
    by_id = {each["id"]: each for each in claims}
    assert by_id["T1-static-serves-all"]["holds"]
    assert by_id["F2-density"]["holds"]
