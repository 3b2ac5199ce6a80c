"""The paper's experiments: every claim is judged by runs that there are, and judges them the right way round."""

from __future__ import annotations

import json
from zlib import crc32

import pytest

from emulator.experiments.claims import World, judge
from emulator.experiments.criteria import Outcome
from emulator.experiments.hybrid import PAPER
from emulator.experiments.hybrid.claims import INSTANT, MALLEABLE, RIGID, TURNAROUND
from emulator.experiments.hybrid.runs import CORI_SEEDS, mixes
from emulator.experiments.paper import Options
from emulator.sweeps.execute import execute
from emulator.workload.hybrid_kinds import MIXES

FIGURES = ("turnaround_h", "turnaround_rigid_h", "turnaround_malleable_h", "useful_utilization",
           "instant_start_ratio", "preemption_ratio_rigid", "preemption_ratio_malleable",
           "preemption_ratio_rigid_without_guests", "preemption_ratio_malleable_without_guests")  # fmt: skip


def world(options, change=lambda label, row: row):
    """Every run of the sweep with the same figures, but for what `change` makes of them."""
    row = {f"mechanism.{name}": 0.5 for name in FIGURES}
    labels = [run.varied["label"] for run in PAPER.sweep(options).runs]
    return World(1001, {label: change(label, dict(row)) for label in labels})


@pytest.mark.parametrize("options", [Options(quick=True, seeds=1), Options(seeds=1)])
def test_every_observation_has_a_claim_that_the_runs_can_judge(options):
    claims = PAPER.claims(options)
    observations = {claim.where.removeprefix("Observation ") for claim in claims}
    assert {str(number) for number in range(1, 18)} <= observations
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(verdict.values for verdict in judge(claims, [world(options)]))


def kinds(options, label):
    run = next(run for run in PAPER.sweep(options).runs if run.varied["label"] == label)
    return run.scenario.as_json()["workload"]["transforms"][0]["hybrid_kinds"]


def test_the_baseline_replays_the_log_and_the_others_pay_on_top_of_it_unless_read_otherwise():
    plain, usual = (kinds(Options(quick=True), label) for label in ("theta/baseline", "theta/W5/cua+paa"))
    assert (plain["setups"], plain["checkpoints"]) == ("none", "none")
    assert (usual["setups"], usual["checkpoints"], usual["mtbf_s"]) == ("on_top", "on_top", 50 * 3600)
    other = {"setups": "inside", "checkpoints": "inside", "baseline": "loaded", "daly_h": "5"}
    for label in ("theta/baseline", "theta/W5/cua+paa"):
        found = kinds(Options(quick=True, readings=other), label)
        assert (found["setups"], found["checkpoints"], found["mtbf_s"]) == ("inside", "inside", 5 * 3600)
    failing = kinds(Options(quick=True, readings={"daly_h": "5"}), "mtbf50/ck1/cua+paa")
    assert failing["mtbf_s"] == 50 * 3600, "the optimum for the failures that happen"


def test_cori_has_as_many_traces_as_a_claim_needs_and_no_more_than_there_are_seeds():
    def traces(options, machine):
        return sorted(
            {run.scenario.seed for run in PAPER.sweep(options).runs if machine in run.varied["label"]}
        )

    assert traces(Options(), "cori/") == list(range(1001, 1006))
    assert traces(Options(), "theta/") == list(range(1001, 1011))
    assert traces(Options(seeds=2), "cori/") == [1001, 1002]
    assert traces(Options(quick=True), "cori/") == list(range(1001, 1006))
    of_cori = {
        claim.id: claim for claim in PAPER.claims(Options()) if "cori" in claim.id or claim.id == "O10"
    }
    worlds = [world(Options(seeds=1))] * CORI_SEEDS
    told = {verdict.claim.id: verdict.outcome for verdict in judge(of_cori.values(), worlds)}
    assert {name for name, outcome in told.items() if outcome is Outcome.OPEN} == set()
    told = {verdict.claim.id: verdict.outcome for verdict in judge(of_cori.values(), worlds[1:])}
    assert len([name for name, outcome in told.items() if outcome is Outcome.OPEN]) == 4


def test_runs_of_a_trace_come_one_after_the_other_and_tell_what_they_cost():
    runs = PAPER.sweep(Options(seeds=2)).runs
    machine_and_seed = [("cori" in run.varied["label"], run.scenario.seed) for run in runs]
    assert machine_and_seed == sorted(machine_and_seed)
    cost = {run.varied["label"]: run.cost for run in runs}
    assert cost["cori/baseline"] > 10 * cost["theta/baseline"]
    different = PAPER.sweep(Options(seeds=2)).costs
    assert len(different) == len({run.key for run in runs}) < len(runs), "as many as are told to be over"
    assert different[0] == cost["theta/baseline"]
    assert different[-1] == cost["cori/baseline"]


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["theta", "cori"])
@pytest.mark.parametrize("arrival", ["paa", "spaa"])
def test_without_notices_one_run_stands_for_all_mixes_because_each_mix_gives_the_same(machine, arrival):
    options = Options(quick=True, seeds=1)
    runs = {run.varied["label"]: run for run in PAPER.sweep(options).runs}
    labels = [f"{machine}/{mix}/n+{arrival}" for mix in mixes(options)]
    assert len({runs[label].key for label in labels}) == 1
    assert len({runs[f"{machine}/{mix}/cua+{arrival}"].key for mix in mixes(options)}) == len(labels)

    def on_mix(strategy, mix):
        document = runs[labels[0]].scenario.as_json()
        document["workload"]["transforms"][0]["hybrid_kinds"]["notices"] = mix
        (generator,) = document["workload"]["generate"]
        days = {"theta": 7, "cori": 1}[machine]
        share = days / generator[next(iter(generator))]["days"]
        for settings in generator.values():
            settings |= {"days": days, "jobs": round(settings["jobs"] * share)}
        document["mechanism"] = {"hybrid": {"strategy": f"{strategy}+{arrival}"}}
        row = execute(json.dumps(document))
        return {
            name: value for name, value in row.items() if not name.endswith(("_s", "_ms")) or "wait" in name
        }

    for strategy, is_same in (("n", True), ("cup", False)):
        rows = [on_mix(strategy, mix) for mix in MIXES]
        assert rows[0]["jobs_in"] > 100
        assert all(row == rows[0] for row in rows) is is_same


def verdicts(change):
    options = Options(quick=True)
    found = [world(options, change)] * 5
    return {verdict.claim.id: verdict.holds for verdict in judge(PAPER.claims(options), found)}


def test_a_mechanism_that_starts_nearly_all_at_once_meets_observations_1_and_9():
    def good(label, row):
        return row | {INSTANT: 0.2 if label.endswith("baseline") else 0.985}

    found = verdicts(good)
    assert found["O1-instant"]
    assert found["O9-all"]
    assert not verdicts(lambda _, row: row)["O1-instant"]


def test_every_claim_of_preemptions_is_read_without_guests_too_and_no_other_one():
    def figures(options, change):
        found = judge(PAPER.claims(options), [world(options, change)])
        return {verdict.claim.id: verdict for verdict in found}

    def other_ratios(label, row):
        share = 0.001 * (1 + crc32(label.encode()) % 997)
        return row | {RIGID: share, MALLEABLE: 2 - share + label.endswith("/n+paa")}

    usual, changed = (figures(Options(quick=True), change) for change in (lambda _, row: row, other_ratios))
    of_preemptions = {name for name in usual if usual[name].values != changed[name].values}
    assert of_preemptions == {name for name in usual if usual[name].also}
    assert all(
        usual[name].values == changed[name].also[next(iter(changed[name].also))] for name in of_preemptions
    )


def test_the_worst_method_is_found():
    def worst(label, row):
        if label.endswith("/n+paa"):
            row |= {TURNAROUND: 0.9, MALLEABLE: 0.9, "mechanism.useful_utilization": 0.1}
        return row

    assert verdicts(worst)["O2"]
    assert not verdicts(lambda label, row: row | {TURNAROUND: 0.9 if "n+spaa" in label else 0.5})["O2"]


def test_tables_show_what_was_run():
    options = Options(quick=True)
    titles = [str(table.title) for table in PAPER.tables([world(options)])]
    assert [title[:8] for title in titles] == ["Table II", *["Figure 6"] * 2, *["Figure 7"] * 2, *["Figure 8"] * 2,
                                               "Figure 9", "Figure 1"]  # fmt: skip
