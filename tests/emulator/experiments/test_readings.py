"""What a paper leaves open is read by name, and the search over it uses seeds of its own."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import emulate
from emulator.experiments import fit
from emulator.experiments.balancer.read import ReadingChoice
from emulator.experiments.balancer.runs import _table_1
from emulator.experiments.balancer.workloads import Workloads, _held_at_once
from emulator.experiments.claims import Claim, plain
from emulator.experiments.criteria import Outcome, less, more
from emulator.experiments.paper import Options, find_paper
from emulator.experiments.readings import Reading, combinations, parse
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.grid import Sweep, make_run
from emulator.workload.table import JobTable, Kind
from testdata import TRACES

COLOUR, SIZE = (
    Reading("colour", ("red", "blue"), "its colour"),
    Reading("size", ("small", "large"), "its size"),
)
FIXED = {"static_reserve": 12, "reserve_rule": "fixed"}


def test_readings_are_given_by_name_and_the_others_are_as_by_default():
    assert parse(["size=large"], [COLOUR, SIZE]) == {"size": "large"}
    assert list(combinations([COLOUR, SIZE], {"size": "large"})) == [
        {"colour": "red", "size": "large"},
        {"colour": "blue", "size": "large"},
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["size"], "--read size: expected NAME=VALUE"),
        (["sise=large"], "there is no reading 'sise'; did you mean 'size'?"),
        (["size=larg"], "size is not 'larg'; did you mean 'large'?"),
        (["size=large", "size=small"], "size is given twice"),
        (["weight=1"], "there are: colour, size"),
    ],
)
def test_a_reading_that_is_not_known_is_refused(given, said):
    with pytest.raises(ScenarioError) as refused:
        parse(given, [COLOUR, SIZE])
    assert said in str(refused.value)


class Painting:
    """A paper with two open points, whose claims look at one figure each."""

    title = "Paint"
    reads_logs = False

    def readings(self):
        return (COLOUR, SIZE)

    def sweep(self, options):
        nodes = 2 if options.readings["size"] == "small" else 3
        return Sweep(
            "paint",
            tuple(
                make_run(
                    {"nodes": nodes, "seed": seed, "workload": {"generate": ["daily_batch"]}}, {}, where=""
                )
                for seed in options.seed_list(1)
            ),
        )

    def claims(self, options):
        def claim(name, criterion):
            return Claim(
                id=name, statement="", where="", paper="", measure=lambda world: world("run", name),
                criterion=criterion, show=plain,
            )  # fmt: skip

        return [claim("bright", more(0.1)), claim("cheap", less(0.1)), claim("old", more(0.1))]


@pytest.fixture
def painted(tmp_path):
    """What a search found: large is bright, red is cheap, nothing is old."""

    def figures(number, seed):
        large, red = number % 2, number < 2
        return {"reading": str(number), "label": "run", "seed": seed, "bright": 1.0 + large, "cheap": 1.0 - red,
                "old": 0.5}  # fmt: skip

    rows = [figures(number, seed) for number in range(4) for seed in range(501, 507)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "results.parquet")
    _, ways = fit.plan(Painting(), Options(), (COLOUR, SIZE))
    return fit.scores(Painting(), Options(), ways, tmp_path)


def test_the_search_tries_all_ways_on_seeds_that_are_not_the_claims():
    plan, ways = fit.plan(Painting(), Options(readings={"colour": "blue"}), (COLOUR, SIZE))
    assert ways == [{"colour": "blue", "size": "small"}, {"colour": "blue", "size": "large"}]
    assert [run.varied["seed"] for run in plan.runs] == [*range(501, 507)] * 2
    assert {run.varied["reading"] for run in plan.runs[:6]} == {"0"}
    assert all(seed < Options().first_seed for seed in range(501, 507))


def test_the_way_that_meets_most_claims_together_comes_first(painted):
    best = painted[0]
    assert best.readings == {"colour": "red", "size": "large"}
    assert best.holds == ("bright", "cheap")
    assert best.counts[Outcome.FAILS] == 1


def test_the_front_has_no_way_of_which_another_holds_all_claims_and_more(painted):
    assert [each.readings for each in fit.front(painted)] == [painted[0].readings]
    without = [each for each in painted if each.holds != ("bright", "cheap")]
    assert [each.holds for each in fit.front(without)] == [("cheap",), ("bright",)]
    assert fit.table(painted, (COLOUR, SIZE)).row_count == 1


def read(item, **readings):
    return ReadingChoice.of(Options(readings=readings)).applied(item)


def test_the_papers_runs_follow_the_reading_where_they_say_nothing_else():
    week = {"generate": ["lcrc_batch"], "transforms": [{"inject": {"load": 1}}, "wrap_around"]}
    item = ("R12", week, {"balancer": {"static_reserve": 12}}, "fcfs+easy")
    assert read(item) == ("R12", week, {"balancer": FIXED}, "fcfs+easy")
    label, workload, mechanism, scheduler = read(
        item, reserve="refilled", queue="wide_first", cycle_s="120", overhead_s="60"
    )
    assert label == "R12"
    assert mechanism == {"balancer": {"static_reserve": 12, "reserve_rule": "refilled"}}
    assert scheduler == {"order": "largest", "backfill": "easy", "cycle_s": 120}
    assert workload["transforms"] == [
        {"inject": {"load": 1}}, {"job_overhead": {"overhead_s": 60}}, "wrap_around",
    ]  # fmt: skip
    own = ("t1-fcfs/R12", week, {"balancer": FIXED}, "fcfs+none")
    assert read(own, reserve="refilled", queue="wide_first")[2:] == ({"balancer": FIXED}, "fcfs+none")


def test_every_value_of_every_reading_of_the_balancer_makes_other_runs():
    def items(**readings):
        options = Options(quick=True, readings=readings)
        read = ReadingChoice.of(options)
        return [read.applied(item) for item in _table_1(Workloads(None, read.leases), options)]

    usual = items()
    others = [(each.name, value) for each in find_paper("balancer").readings() for value in each.values[1:]]
    assert len(others) == 8
    assert [other for other in others if items(**dict([other])) == usual] == []


def test_the_most_nodes_at_once_are_counted_over_the_whole_slot():
    hour = 3_600_000_000
    leases = JobTable.build(
        submit_us=[0, hour, 5 * hour, 7 * hour],
        run_us=[hour, hour, 3 * hour, hour],
        estimate_us=[hour, hour, 3 * hour, hour],
        nodes=[4, 2, 3, 1],
        number=[1, 2, 3, 4],
        kind=[Kind.ON_DEMAND] * 4,
    )
    assert _held_at_once(leases, 2)[:4] == [8, 8, 0, 0], (
        "4 at once, then 3 and 1 together, of which 3 from before"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["oversubscribe", "--quick", "--fit"], "this paper names no readings"),
        (["balancer", "--quick", "--fit", "--seeds", "4"], "with fewer than 5 seeds no claim can hold"),
        (["hybrid", "--quick", "--read", "setups=below"], "setups is not 'below'"),
        (
            ["malleable", "--quick", "--fit", "--read=minimum=pool", "--read=zero_run=kept", "--read=penalty=work"],
            "nothing is left to try",
        ),
    ],
)  # fmt: skip
def test_a_search_that_cannot_be_made_is_refused_before_any_run(given, said, tmp_path):
    done = emulate("reproduce", *given, "--out", tmp_path / "out")
    assert (done.exit_code, said in done.output) == (2, True), done.output
    assert not (tmp_path / "out").exists()


def test_malleable_runs_follow_the_reading_where_they_say_nothing_else():
    readings = {"minimum": "pool", "zero_run": "kept", "penalty": "work"}
    options = Options(quick=True, traces=TRACES, seeds=1, readings=readings)
    found = {
        run.varied["label"]: run.scenario.as_json() for run in find_paper("malleable").sweep(options).runs
    }
    policies = {label: scenario["mechanism"]["malleable"] for label, scenario in found.items()}
    assert all(scenario["workload"]["zero_run"] == "one_second" for scenario in found.values())
    assert policies["KTH/0.75/malleable-50"]["minimum"] == "pool"
    assert policies["KTH/0.75/malleable-50/shared"]["minimum"] == "shared"
    assert policies["KTH/0.75/malleable-100/penalty-20"]["reconfiguration"] == "work"
    assert "reconfiguration" not in policies["KTH/0.75/malleable-100"]


class Sheds(Painting):
    """Two sizes of a machine; the larger one is less used."""

    def sweep(self, options):
        nodes = 8 if options.readings["size"] == "small" else 16
        workload = {"generate": [{"daily_batch": {"days": 0.2, "jobs": 10}}]}
        return Sweep(
            "sheds",
            tuple(
                make_run(
                    {"nodes": nodes, "seed": seed, "workload": workload},
                    {"label": "run", "seed": seed},
                    where="",
                )
                for seed in options.seed_list(1)
            ),
        )

    def claims(self, options):
        return [
            Claim(id="many", statement="", where="", paper="", measure=lambda world: world("run", "nodes") / 8,
                  criterion=more(0.1), show=plain)
        ]  # fmt: skip


def test_the_search_prints_the_front_and_leaves_all_it_found_with_where_it_came_from(tmp_path, monkeypatch):
    monkeypatch.setattr("emulator.commands.reproduce.find_paper", lambda _: Sheds())
    given = ["reproduce", "sheds", "--fit", "--read", "colour=blue", "--jobs", "1", "--out", str(tmp_path)]
    done = emulate(*given)
    assert done.exit_code == 0, done.output
    assert "2 ways were tried, on seeds from 501 on" in done.output
    found = json.loads((tmp_path / "fit.json").read_text())
    assert found["seeds"] == [*range(501, 507)]
    assert (found["paper"], found["readings"]) == ("sheds", {"colour": "blue"})
    assert {"versions", "traces", "options"} <= found.keys()
    assert [(way["readings"]["size"], way["holds"]) for way in found["ways"]] == [
        ("large", ["many"]),
        ("small", []),
    ]


class Yard(Sheds):
    def about(self, options):
        return "Sheds beside each other."

    def tables(self, found):
        return []


def test_several_papers_are_done_one_after_the_other_each_in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("emulator.commands.reproduce.find_paper", lambda _: Yard())
    monkeypatch.setattr("emulator.commands.reproduce.plugin_names", lambda _: ["barns", "sheds"])
    given = ["--jobs", "1", "--seeds", "5", "--read", "size=large", "--read", "colour=red"]
    done = emulate("reproduce", "all", *given, "--out", tmp_path / "all")
    assert done.exit_code == 0, done.output
    assert "All papers" in done.output
    documents = [
        json.loads((tmp_path / "all" / name / "claims.json").read_text()) for name in ("barns", "sheds")
    ]
    assert [document["paper"] for document in documents] == ["barns", "sheds"]
    assert [document["counts"]["holds"] for document in documents] == [1, 1]
    again = [*given, "--out", str(tmp_path / "all"), "--json"]
    told = emulate("reproduce", "barns", "sheds", "barns", *again)
    assert json.loads(told.stdout) == documents


def test_nothing_runs_where_one_of_several_papers_cannot_be_done(tmp_path):
    done = emulate("reproduce", "malleable", "hybird", "--quick", "--out", tmp_path / "out")
    assert (done.exit_code, "did you mean 'hybrid'?" in done.output) == (2, True), done.output
    assert not (tmp_path / "out").exists()
