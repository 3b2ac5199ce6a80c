"""The parts of the atlas: priors, draws, rules and verdicts; and a whole one with few runs a world."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from atlas_kit import FewRuns, nothing, request
from balancer.clock import US
from command_line import emulate
from emulator.experiments.atlas import command
from emulator.experiments.atlas.draws import MET, even_points, search
from emulator.experiments.atlas.figures import mean_node_s, overlap
from emulator.experiments.atlas.prior import Constraint, Drawn, HasAtlas, Parameter, load_prior
from emulator.experiments.atlas.rule import Column, rank_differences, rule
from emulator.experiments.atlas.verdict import (
    NONE,
    AtlasOutcome,
    Chance,
    ClaimValue,
    outcome_of,
    values_in,
    verdict_of,
    wilson,
)
from emulator.experiments.atlas.worlds import Means, Subject, sample
from emulator.experiments.claims import Claim, World, plain
from emulator.experiments.criteria import Outcome, bound, level, other_log, printed, untested
from emulator.experiments.paper import GROUP, Options, find_paper
from emulator.plugins import plugin_names
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.pools import Here
from emulator.workload.table import JobTable
from testdata import TRACES

BASELINES = r"baseline|^t1/(batch|static)$|^kit/M1$|/rigid$"
"""Labels of runs without a mechanism."""
WITH_ATLAS = [name for name in plugin_names(GROUP) if isinstance(find_paper(name), HasAtlas)]


def options_of(paper, **world):
    return Options(
        quick=True, seeds=1, first_seed=1, traces=TRACES if paper.reads_logs else None, world=world
    )


def parameter(**changes):
    return Parameter(**{"name": "x", "about": "a", "source": "s", "low": 1, "high": 100} | changes)


def column(values, **changes):
    return Column.of(parameter(**changes), values)


# Priors.


def test_a_range_is_even_in_its_scale():
    assert [parameter().value(place) for place in (0.0, 0.5)] == [1.0, 50.5]
    assert parameter(scale="log").value(0.5) == pytest.approx(10)
    few = parameter(low=None, high=None, values=("a", "b"))
    assert [few.value(place) for place in (0.0, 0.49, 0.5, 0.999)] == ["a", "a", "b", "b"]


def test_a_constraint_is_met_within_its_tolerance():
    by_value = Constraint(figure="f", of="inputs", says="", where="", value=10, tolerance=2)
    by_range = Constraint(figure="f", of="inputs", says="", where="", low=8, high=12)
    for each in (by_value, by_range):
        assert [each.distance(figure) for figure in (8.0, 10.0, 13.0)] == [1.0, 0.0, 1.5]


@pytest.mark.parametrize("figures", [[0.0, 0.0], [2.5e14, 2.5e14], [1.0, 3.0]])
def test_a_figure_that_chance_decides_may_be_the_same_in_all_worlds(figures):
    found = Drawn(name="most", about="").parameter(figures)
    assert found.low == min(figures)
    assert found.high == pytest.approx(max(figures))


def test_figures_of_a_workload_are_those_of_the_jobs_that_are_asked_for():
    jobs = JobTable.build(submit_us=[0, 5 * US, 10 * US], run_us=[10 * US, 10 * US, US], nodes=[2, 3, 4])
    every, last = np.ones(3, bool), np.arange(3) == 2
    assert (overlap(jobs, every), overlap(jobs, last), overlap(jobs, ~every)) == (7, 4, 0)
    assert (mean_node_s(jobs, every), mean_node_s(jobs, ~every)) == (18, 0)


GOOD = "parameters: [{name: x, about: a, source: s, low: 0, high: 1}]\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("parameters: [", "not valid YAML"),
        ("parameters: [{name: x, about: a, source: s, low: 2, high: 1}]", "`low` below `high`"),
        ("parameters: [{name: x, about: a, source: s, low: 0, high: 1, scale: log}]", "begins above 0"),
        ("parameters: [{name: x, about: a, source: s, values: [1]}]", "two or more"),
        ("parameters: [{name: x, about: a, low: 0, high: 1}]", "source"),
        (GOOD + "constraints: [{figure: f, of: inputs, says: s, where: w, value: 1}]", "`value` and `tolerance`"),
        (GOOD + "constraints: [{figure: f, of: outputs, says: s, where: w, low: 1, high: 2}]", "constraints.0.of"),
        (GOOD + "claims: []", "claims"),
        (GOOD.replace("]", ", {name: x, about: a, source: s, low: 0, high: 1}]"), "x is there twice"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_by_file_and_field(tmp_path, text, problem):
    path = tmp_path / "atlas.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=r"atlas\.yaml") as error:
        load_prior(path)
    assert problem in str(error.value)


@pytest.mark.parametrize("name", WITH_ATLAS)
def test_the_files_of_the_papers_name_what_there_is(name):
    paper = find_paper(name)
    prior = paper.prior()
    options = options_of(paper, **prior.values((0.5,) * len(prior.parameters)))
    known = {each.figure for each in prior.constraints if each.of == "inputs"} | {
        each.name for each in prior.drawn
    }
    assert known <= set(paper.inputs(options))
    every = (*paper.claims(options), *paper.claims(replace(options, quick=False)))
    assert set(prior.not_judged) <= {claim.id for claim in every}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", WITH_ATLAS)
def test_each_parameter_changes_the_runs(name):
    paper = find_paper(name)
    prior = paper.prior()

    def keys(**changes):
        world = prior.values((0.3,) * len(prior.parameters)) | changes
        return {run.key for run in paper.sweep(options_of(paper, **world)).runs}

    usual = keys()
    for each in prior.parameters:
        assert keys(**{each.name: each.value(0.9)}) != usual, each.name


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_ATLAS)
def test_a_claim_that_looks_at_the_baseline_alone_is_not_judged(name):
    """Outcomes of the baseline are constraints for claims about mechanisms, never for claims about the baseline."""
    paper = find_paper(name)
    prior = paper.prior()
    if not any(each.of == "baseline" for each in prior.constraints):
        return
    options = options_of(paper)
    labels = {run.varied["label"] for run in paper.sweep(options).runs}
    baselines = {label: AnyFigure() for label in labels if re.search(BASELINES, label)}
    assert baselines
    found = values_in(paper.claims(options), "w", World(1, baselines))
    assert set(found) <= set(prior.not_judged)


class AnyFigure(dict):
    """A row that has every figure."""

    def get(self, key, default=None):
        return 1.0


@pytest.mark.parametrize(("name", "figures"), [("malleable", "kth_"), ("oversubscribe", "unilu_")])
def test_a_published_log_has_what_is_printed_of_it(name, figures):
    paper = find_paper(name)
    prior = paper.prior()
    some = [each for each in prior.constraints if each.figure.startswith(figures)]
    found = paper.inputs(options_of(paper, **prior.values((0.0,) * len(prior.parameters))))
    assert some
    assert [each.figure for each in some if each.distance(found[each.figure]) > MET] == []


def test_a_reading_of_a_log_that_table_1_contradicts_is_refused():
    """With all interactive jobs the log of UniLu has 88 jobs and two users more than are printed."""
    paper = find_paper("oversubscribe")
    prior = paper.prior()
    world = prior.values((0.0,) * len(prior.parameters)) | {"widest_responsive": 0}
    assert prior.distance("inputs", paper.inputs(options_of(paper, **world))) > MET


NEW_WORLDS = ("malleable", "oversubscribe")


def means(folder):
    return Means(Here(), 1, folder, lambda: False, nothing, nothing, nothing)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW_WORLDS)
def test_a_world_is_drawn_whose_runs_differ_by_its_seed_alone(name, tmp_path, monkeypatch):
    monkeypatch.setattr("emulator.experiments.atlas.worlds._BATCH", 8)
    monkeypatch.setattr("emulator.experiments.atlas.worlds._MOST_DRAWN", 800)
    paper = find_paper(name)
    prior, options = paper.prior(), options_of(paper)
    found = sample(Subject(name, paper), prior, options, 1, means(tmp_path)).worlds
    assert prior.distance("inputs", found[0].figures) <= MET
    assert prior.distance("baseline", found[0].figures) <= MET
    one = found[0].draw.options(options)
    seeds = [{run.key for run in paper.sweep(replace(one, first_seed=seed)).runs} for seed in (1, 2)]
    assert seeds[0] & seeds[1]  # what chance has no part in
    assert seeds[0] - seeds[1]


@pytest.mark.parametrize("name", NEW_WORLDS)
def test_a_printed_figure_that_no_workload_has_refuses_all_worlds(name, tmp_path, monkeypatch):
    monkeypatch.setattr("emulator.experiments.atlas.worlds._BATCH", 4)
    monkeypatch.setattr("emulator.experiments.atlas.worlds._MOST_DRAWN", 4)
    paper = find_paper(name)
    prior = paper.prior()
    first, *others = prior.constraints
    broken = prior.model_copy(update={"constraints": (first.model_copy(update={
        "value": 1.0, "tolerance": 0.5, "low": None, "high": None}), *others)})  # fmt: skip
    with pytest.raises(ScenarioError, match="none agrees"):
        sample(Subject(name, paper), broken, options_of(paper), 1, means(tmp_path))


def test_a_paper_without_a_file_has_no_atlas():
    with pytest.raises(ScenarioError, match="what this paper leaves open"):
        command.subject_of("other", object())


def test_what_no_log_here_can_tell_is_judged_in_no_world():
    claim = Claim(id="c", statement="", where="", paper="", measure=lambda world: world("run", "f"),
                  criterion=other_log(bound(low=1.0), "another log"), show=plain)  # fmt: skip
    assert values_in([claim], "w", World(1, {"run": {"f": 2.0}})) == {}


# Draws.


def test_points_are_even_and_go_on():
    places = even_points(1, 0, 1000, 4)
    assert places.min() >= 0
    assert places.max() < 1
    for d in range(4):
        counts = np.histogram(places[:, d], bins=10, range=(0, 1))[0]
        assert counts.min() > 80
    assert np.array_equal(places[600:], even_points(1, 600, 400, 4))
    assert not np.array_equal(places, even_points(2, 0, 1000, 4))


def line(places, first):
    """Meets the constraints where the first two places are 0.3 together."""
    return np.abs(places[:, 0] + places[:, 1] - 0.3) / 0.02


def test_a_search_finds_what_meets_all_constraints_evenly():
    found = search(line, 3, 200, 1, 256, 20_000)
    places = found.places[found.met]
    assert len(places) >= 200
    assert np.all(line(places, 0) <= MET)
    # Evenly along the whole line, though the box has narrowed.
    assert np.histogram(places[:, 0], bins=4, range=(0, 0.3))[0].min() > len(places) / 8
    assert np.histogram(places[:, 2], bins=4, range=(0, 1))[0].min() > len(places) / 8
    assert found.rounds[-1].box.high[0] < 0.5
    again = search(line, 3, 200, 1, 256, 20_000)
    assert np.array_equal(found.places, again.places)


def test_a_search_gives_up():
    found = search(lambda places, _first: np.full(len(places), 7.0), 2, 5, 1, 100, 350)
    assert len(found.places) == 350
    assert not len(found.met)


# Rules.


def test_a_rule_finds_the_parameter_that_decides():
    rng = np.random.default_rng(1)
    x, y = rng.random(100), rng.random(100)
    kind = rng.choice(["own", "shared"], 100)
    columns = [
        column(x, name="x"), column(y, name="y"),
        Column.of(parameter(name="io", low=None, high=None, values=("own", "shared")), list(kind)),
    ]  # fmt: skip
    one = rule(columns, x < 0.25)
    assert one.parameters == ("x",)
    assert one.text().startswith("holds where x < 0.2")
    assert one.explained > 0.9
    two = rule(columns, (y >= 0.4) & (kind == "own"))
    assert set(two.parameters) == {"y", "io"}
    assert "io is own" in two.text()
    assert two.explained > 0.8
    differences = rank_differences(columns, kind == "own")
    assert max(differences, key=differences.get) == "io"
    assert differences["io"] == 1.0


def test_chance_decides_nothing():
    rng = np.random.default_rng(2)
    columns = [column(rng.random(40), name=f"p{n}") for n in range(8)]
    called = [outcome_of(held, rule(columns, held)) for held in rng.random((200, 40)) < 0.5]
    assert called.count(AtlasOutcome.DEPENDS) <= 0.05 * len(called)


def test_where_a_claim_holds_everywhere_no_parameter_decides():
    assert rule([column([1.0, 2.0, 3.0, 4.0] * 5)], np.ones(20, bool)) is None


# Verdicts.


@pytest.mark.parametrize(
    ("held", "of", "verdict"),
    [
        (20, 20, AtlasOutcome.HOLDS), (19, 20, AtlasOutcome.HOLDS), (17, 20, AtlasOutcome.OPEN),
        (10, 20, AtlasOutcome.OPEN), (1, 20, AtlasOutcome.FAILS),
        (0, 20, AtlasOutcome.FAILS), (0, 80, AtlasOutcome.CONTRADICTED),
        (1, 80, AtlasOutcome.FAILS), (0, 0, AtlasOutcome.OPEN),
    ],
)  # fmt: skip
def test_the_interval_of_the_share_tells(held, of, verdict):
    assert outcome_of(np.arange(of) < held, None) is verdict


COIN = Claim(
    id="c", statement="", where="", paper="", measure=lambda _: 0.0, criterion=bound(low=1.0), show=plain
)


def told(held, columns, again):
    """The verdict on a claim that holds in these worlds, and (`again`) in other draws of the first of them."""
    values = [ClaimValue(str(n), 0.0, bool(each)) for n, each in enumerate(held)]
    replicas = [ClaimValue(f"replica of {n}", 0.0, bool(each)) for n, each in enumerate(again)]
    pairs = [*zip(values, replicas, strict=False)]
    return verdict_of(COIN, values, columns, pairs)


def three_columns(rng, worlds=100):
    return [column(rng.random(worlds), name=f"p{n}", low=0, high=1) for n in range(3)]


def test_chance_is_told_where_it_alone_decides():
    rng = np.random.default_rng(1)
    share = 0.35
    found = [told(rng.random(100) < share, three_columns(rng), rng.random(50) < share) for _ in range(100)]
    outcomes = [each.outcome for each in found]
    assert outcomes.count(AtlasOutcome.CHANCE) > 75
    assert re.fullmatch(
        r"No parameter decides it in these 100 worlds\. Another draw of the same parameters came out otherwise in"
        r" \d+ of 50 \(chance explains \d+ % or more\)\.",
        found[outcomes.index(AtlasOutcome.CHANCE)].why,
    )


def test_of_a_claim_that_seldom_holds_it_is_said_where_or_that_nothing_decides_it():
    rng = np.random.default_rng(3)
    columns = three_columns(rng)
    some = told(np.arange(100) % 12 == 0, columns, [])
    assert (some.outcome, some.why) == (
        AtlasOutcome.FAILS,
        "No parameter decides in which of these 100 worlds it holds.",
    )
    small = told(columns[0].codes < np.sort(columns[0].codes)[10], columns, [])
    assert (small.outcome, small.why.startswith("It holds where p0 < ")) == (AtlasOutcome.FAILS, True)


def test_chance_is_not_told_where_parameters_decide_together_in_a_way_that_no_small_tree_sees():
    rng = np.random.default_rng(2)
    outcomes = []
    for _ in range(100):
        columns = three_columns(rng)
        is_odd = sum(each.codes < 0.5 for each in columns) % 2 == 1
        outcomes.append(told(is_odd, columns, is_odd[:50]).outcome)
    assert AtlasOutcome.CHANCE not in outcomes
    assert outcomes.count(AtlasOutcome.OPEN) > 75


def test_a_claim_that_holds_everywhere_or_has_no_other_draws_says_nothing_of_chance():
    assert Chance.of([], 0.5) is None
    assert Chance.of([(True, True)], 1.0) is None
    assert Chance.of([(True, False), (True, True)], 0.5) == Chance(2, 1, pytest.approx(0.1893, abs=1e-3))


def test_wilsons_interval_is_that_of_the_textbook():
    assert wilson(8, 20) == pytest.approx((0.2188, 0.6134), abs=1e-4)
    assert wilson(0, 72)[1] > NONE > wilson(0, 74)[1]


def test_a_printed_level_holds_in_a_world_within_half_of_the_spread_that_seeds_may_have():
    assert printed(8.0, 0.1).holds_in(8.8)
    assert not printed(8.0, 0.1).holds_in(8.9)
    assert level(1.24, 1.28).in_one_world().judge([1.3]) is Outcome.HOLDS
    assert bound(low=1.0).in_one_world().judge([0.99]) is Outcome.FAILS
    assert untested("x").in_one_world().judge([1.0]) is Outcome.UNTESTED


def test_a_world_without_the_runs_does_not_count():
    claim = Claim(id="c", statement="", where="", paper="", measure=lambda world: world("run", "f"),
                  criterion=bound(low=1.0), show=plain)  # fmt: skip
    assert values_in([claim], "w", World(1, {})) == {}
    assert values_in([claim], "w", World(1, {"run": {"f": 2.0}}))["c"].holds


# A whole one.


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce") / "realtime-atlas"
    folder.mkdir()
    (folder.parent / "realtime").mkdir()
    usual = {"claims": [{"id": "F1-overall", "outcome": "cannot be told"}]}
    (folder.parent / "realtime" / "claims.json").write_text(json.dumps(usual))
    wish, said = request(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_LEAST_FOR_REPLICAS", 20)
        yield command.run_atlas("realtime", FewRuns(), Options(), wish), folder, said


@pytest.mark.slow
def test_a_whole_atlas_has_worlds_verdicts_and_a_page(small):
    atlas, folder, said = small
    assert len(atlas.sample.worlds) == 20
    assert len({each.draw.id for each in atlas.sample.worlds}) == 20
    by_id = {each.claim.id: each for each in atlas.verdicts}
    overall = by_id["F1-overall"]
    assert len(overall.values) == 20
    assert overall.interval[0] < overall.share < overall.interval[1]
    assert not by_id["F7-batch"].values
    assert "Of 1 claims that cannot be told" in atlas.resolution
    assert any("worlds drawn" in line for line in said)
    document = json.loads((folder / "atlas.json").read_text())
    assert [each["id"] for each in document["worlds"]] == [each.draw.id for each in atlas.sample.worlds]
    seeds = {each["id"]: each["seed"] for each in document["worlds"]}
    values = {each["id"]: each["values"] for each in document["worlds"]}
    assert [values[each["of"]] for each in document["replicas"]] == [
        each["values"] for each in document["replicas"]
    ]
    assert len({*seeds.values(), *(each["seed"] for each in document["replicas"])}) == 30
    assert overall.chance is None or overall.chance.pairs == 10
    assert [each.world for each in overall.replicas] == [each["id"] for each in document["replicas"]]
    of_claim = next(each for each in document["claims"] if each["id"] == "F1-overall")
    assert of_claim["values_in_replicas"] == {each.world: each.value for each in overall.replicas}
    assert of_claim["holds_in_replicas"] == [each.world for each in overall.replicas if each.holds]
    page = (folder / "atlas.html").read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert all(each.draw.id in page for each in (*atlas.sample.worlds, *atlas.replicas.values()))


@pytest.mark.slow
def test_the_same_atlas_again_has_the_same_worlds_and_no_more_runs(small, tmp_path):
    atlas, folder, _ = small
    before = (folder / "atlas.json").read_bytes()
    runs = sum(path.read_text().count("\n") for path in folder.rglob("*.jsonl"))
    wish, _ = request(folder)
    command.run_atlas("realtime", FewRuns(), Options(quick=True), wish)
    assert (folder / "atlas.json").read_bytes() == before
    assert sum(path.read_text().count("\n") for path in folder.rglob("*.jsonl")) == runs
    elsewhere, _ = request(tmp_path)
    other = command.run_atlas("realtime", FewRuns(), Options(quick=True), elsewhere)
    assert [each.values for each in other.verdicts] == [each.values for each in atlas.verdicts]


def test_a_world_of_the_atlas_is_found_by_its_id(small):
    atlas, folder, _ = small
    first = atlas.sample.worlds[0].draw
    for each in (first, atlas.replicas[0].draw):
        found = command.find_world("realtime", each.id, Options(), folder)
        assert found == each.options(Options())
    for world, options, where, problem in (
        ("nowhere", Options(), folder, "no such world"),
        ("nowhere", Options(), folder / "elsewhere", "make the atlas first"),
        (first.id, Options(traces=TRACES), folder, "--stand-in"),
        (first.id, Options(readings={"campaign": "30"}), folder, "leave --read out"),
    ):
        with pytest.raises(ScenarioError, match=problem):
            command.find_world("realtime", world, options, where)


def test_an_atlas_takes_the_quick_experiments_and_a_world_those_that_are_asked_for(small):
    atlas, folder, _ = small
    world = atlas.sample.worlds[0].draw.id
    assert atlas.options.quick
    assert [
        command.find_world("realtime", world, Options(quick=quick), folder).quick for quick in (True, False)
    ] == [
        True,
        False,
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"claims": [{}]}', "{}"])
def test_a_damaged_file_is_told(tmp_path, text):
    (tmp_path / "realtime").mkdir()
    (tmp_path / "realtime" / "claims.json").write_text(text)
    (tmp_path / "atlas.json").write_text(text)
    with pytest.raises(ScenarioError, match=r"atlas\.json"):
        command.find_world("realtime", "x", Options(), tmp_path)
    with pytest.raises(ScenarioError, match=r"claims\.json"):
        command.usual_verdicts(tmp_path / "realtime" / "claims.json")


@pytest.mark.slow
def test_a_reading_that_the_user_gives_is_not_drawn(tmp_path):
    wish, _ = request(tmp_path, 3)
    atlas = command.run_atlas("realtime", FewRuns(), Options(quick=True, readings={"campaign": "30"}), wish)
    assert all("campaign" not in each.draw.values for each in atlas.sample.worlds)
    options = atlas.sample.worlds[0].draw.options(atlas.options)
    run = FewRuns().sweep(options).runs[0]
    assert run.scenario.as_json()["workload"]["generate"][0]["mira_week"]["campaign"] == 30


def test_where_no_world_agrees_the_nearest_one_is_told(tmp_path, monkeypatch):
    class Impossible(FewRuns):
        def prior(self):
            usual = super().prior()
            never = [each.model_copy(update={"low": 900.0, "high": 901.0}) for each in usual.constraints[1:]]
            return usual.model_copy(update={"constraints": (usual.constraints[0], *never)})

    monkeypatch.setattr("emulator.experiments.atlas.worlds._MOST_DRAWN", 20)
    told = []
    wish, _ = request(tmp_path, drawing=lambda over, count: told.append((over, count)))
    with pytest.raises(ScenarioError, match=r"none agrees.*batch_slowdown.*not 900 to 901"):
        command.run_atlas("realtime", Impossible(), Options(quick=True), wish)
    assert [told[0], told[-1]] == [(0, 20), (20, 20)]
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("realtime", "--worlds", "3"), "give both"),
        (("realtime", "--atlas", "--world", "x"), "not both"),
        (("realtime", "hybrid", "--world", "x"), "one paper"),
        (("realtime", "--atlas", "--fit"), "--fit does not go with"),
        (("realtime", "--atlas", "--seeds", "3"), "--seeds does not go with"),
        (("realtime", "--world", "x"), "make the atlas first"),
    ],
)
def test_what_does_not_go_together_is_told(arguments, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = emulate("reproduce", *arguments)
    assert result.exit_code == 2
    assert problem in result.output


def test_a_run_in_one_world_judges_it_as_one_deterministic_run():
    claim = next(
        each for each in find_paper("realtime").claims(Options(quick=True)) if each.id == "F1-hpq-high"
    )
    there = replace(claim, criterion=claim.criterion.in_one_world())
    assert there.criterion.judge([3.2]) is Outcome.HOLDS
    assert there.criterion.judge([3.6]) is Outcome.FAILS


def test_the_command_runs_one_world_and_reports_it(small):
    atlas, folder, _ = small
    world = atlas.sample.worlds[0].draw.id
    result = emulate("reproduce", "realtime", "--world", world, "--out", folder, "--jobs", 1, "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["world"] == atlas.sample.worlds[0].draw.values
    assert document["seeds"] == [atlas.sample.worlds[0].draw.seed]
    of_world = {each["id"]: each for each in document["claims"]}
    assert of_world["F1-overall"]["test"] == "replay"
    assert {each["outcome"] for each in document["claims"]} <= {"holds", "does not hold"}
    assert (folder / f"world-{world}" / "report.html").exists()
