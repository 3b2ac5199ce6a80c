"""Tables that others have published: each file is whole, figures are judged by their printed digits, rows are met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from command_line import emulate
from emulator.experiments.logs import checkout_logs
from emulator.experiments.published.table import (
    FOLDER,
    Outcome,
    judged,
    merged,
    read_table,
    run_row,
    table_names,
)
from emulator.runs.scenario import from_mapping

if TYPE_CHECKING:
    from click.testing import Result

NAMES = table_names()
DAY = "day-64.swf"


def reproduce(*arguments: str) -> Result:
    return emulate("reproduce", "tables", *arguments)


@pytest.mark.parametrize(
    ("printed", "ours", "outcome"),
    [
        ("7992", 7991.6, Outcome.EXACT),
        ("7992", 7991.4, Outcome.LAST_DIGIT),
        ("7992", 7990.4, Outcome.DIFFERS),
        ("3.10", 3.104, Outcome.EXACT),
        ("3.10", 3.114, Outcome.LAST_DIGIT),
        ("15696.798181243601", 15696.798181243636, Outcome.EXACT),
        ("15696.798181243601", 15696.7983, Outcome.DIFFERS),
    ],
)
def test_a_figure_is_judged_by_the_digits_that_were_printed(
    printed: str, ours: float, outcome: Outcome
) -> None:
    assert judged(printed, ours) is outcome


@pytest.mark.parametrize("name", NAMES)
def test_each_table_names_its_source_and_each_row_is_a_scenario(name: str) -> None:
    table = read_table(FOLDER / f"{name}.yaml")
    assert "" not in {table.paper, table.figures_from, table.log_from}
    for row in table.rows:
        assert row.published or row.scenario
        from_mapping(
            merged({"name": name, "workload": {"trace": table.log}}, merged(table.scenario, row.scenario))
        )


def rows_that_are_met(name: str, *, predicted: bool) -> None:
    table = read_table(FOLDER / f"{name}.yaml")
    for row in table.rows:
        if not row.differs and ("predict" in str(row.scenario)) == predicted:
            found = run_row(table, row, checkout_logs())
            assert {each.figure: each.outcome for each in found} == dict.fromkeys(
                row.published, Outcome.EXACT
            )


@pytest.mark.parametrize("name", ["sc15-kth", "sc15-ctc"])
def test_the_schedules_of_sc15_without_predictions_are_met_to_the_last_digit(name: str) -> None:
    rows_that_are_met(name, predicted=False)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["sc15-kth", "sc15-ctc"])
def test_those_with_predictions_are_met_but_for_the_rows_that_say_why_not(name: str) -> None:
    rows_that_are_met(name, predicted=True)


def own_table(path: Path, **changes: Any) -> str:
    """A table of one's own on a day of 300 jobs: what EASY gives, and two figures that it does not."""
    table: dict[str, Any] = {
        "title": "A day", "paper": "none", "figures_from": "made up", "log": DAY, "log_from": "the checkout",
        "scenario": {"nodes": 64, "scheduler": "fcfs+easy"},
        "figures": {"jobs": {"figure": "jobs_run"}, "minutes": {"figure": "mean_wait_s", "per": 60}},
        "rows": [
            {"name": "EASY", "published": {"jobs": "300", "minutes": "1"}, "differs": "it is made up"},
            {"name": "none", "scenario": {"scheduler": "fcfs+none"}, "published": {"jobs": "301"}},
        ],
    }  # fmt: skip
    file = path / "mine.yaml"
    file.write_text(yaml.safe_dump(table | changes), encoding="utf-8")
    return str(file)


def test_a_table_of_ones_own_is_compared_number_by_number(tmp_path: Path) -> None:
    answer = reproduce("--only", own_table(tmp_path), "--json")
    assert answer.exit_code == 0, answer.output
    document = json.loads(answer.stdout)
    assert [
        (each["row"], each["figure"], each["outcome"], each["reason"]) for each in document["numbers"]
    ] == [
        ("EASY", "jobs", "exact", ""),
        ("EASY", "minutes", "differs", "it is made up"),
        ("none", "jobs", "last digit", ""),
    ]
    assert document["counts"] == {"exact": 1, "last digit": 1, "differs": 1, "beside": 0}
    told = reproduce("--only", own_table(tmp_path), "--quiet").stdout
    assert "EASY: it is made up" in told
    assert "1 exact, 1 last digit, 1 differs" in told


@pytest.fixture
def units(tmp_path: Path) -> str:
    """A table of three units on 10 nodes: EASY fills a gap in the first and the second; the third is wrong."""
    folder = tmp_path / "units"
    folder.mkdir()
    jobs = "# submit, name, estimate, nodes, run time, ..., user\n0 10.1 20 8 10 0 0 one\n\n1 15.1 5 10 5 0 0 two\n"
    for number, line in enumerate(("2 4.1 2 2 2 0 0 one", "3 5.1 9 2 2 0 0 one", "2 5.1 2 2 2 0 0 one")):
        (folder / f"gap.{number}").write_text(f"{jobs}{line}\n", encoding="utf-8")
    return own_table(
        tmp_path, log="units", scenario={"nodes": 10}, figures={"units": {"figure": "units_met"}},
        rows=[
            {"name": "EASY", "scenario": {"scheduler": "fcfs+easy"}, "units": {"gap": 2}, "published": {"units": "2"}},
            {"name": "all", "scenario": {"scheduler": "fcfs+easy"}, "units": {"gap": 3}, "published": {"units": "3"}},
            {"name": "FCFS", "scenario": {"scheduler": "fcfs+none"}, "units": {"gap": 3}, "published": {"units": "3"}},
        ],
    )  # fmt: skip


def test_units_are_met_if_each_job_ends_when_its_name_says(units: str, tmp_path: Path) -> None:
    answer = reproduce("--only", units, "--traces", str(tmp_path), "--json")
    assert answer.exit_code == 0, answer.output
    assert [
        (each["row"], each["ours"], each["outcome"], each["reason"])
        for each in json.loads(answer.stdout)["numbers"]
    ] == [
        ("EASY", 2, "exact", ""),
        ("all", 2, "last digit", "not met: gap.2"),
        ("FCFS", 0, "differs", "not met: gap.0, gap.1, gap.2"),
    ]


@pytest.mark.parametrize("line", ["1 2 3", "0 ten 1 1 1 0 0 one", "0.5 10 1 1 1 0 0 one"])
def test_a_line_of_a_unit_that_is_no_job_is_named(units: str, tmp_path: Path, line: str) -> None:
    (tmp_path / "units" / "gap.1").write_text(f"# jobs\n{line}\n", encoding="utf-8")
    answer = reproduce("--only", units, "--traces", str(tmp_path), "--quiet")
    assert answer.exit_code == 2
    assert "gap.1: line 2: must be submit, name, estimate, nodes, run time" in answer.output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"scenario": {"nodes": 10, "workload": {"overrun": "kill"}}},
            "workload.overrun: a unit has its jobs as",
        ),
        ({"windows": {"jobs": 5, "skip": [0]}}, "row EASY: units are run whole; leave out windows"),
    ],
)
def test_what_units_do_not_use_is_refused(
    units: str, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    file = Path(units)
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text("utf-8")) | changes), encoding="utf-8")
    answer = reproduce("--only", units, "--traces", str(tmp_path), "--quiet")
    assert (answer.exit_code, words in " ".join(answer.output.split())) == (2, True)


def test_a_unit_that_is_not_there_is_named(units: str, tmp_path: Path) -> None:
    (tmp_path / "units" / "gap.1").unlink()
    answer = reproduce("--only", units, "--traces", str(tmp_path), "--quiet")
    assert (answer.exit_code, "gap.1: " in answer.output) == (2, True)


def test_a_row_that_nobody_has_published_stands_beside_and_windows_are_run_one_by_one(tmp_path: Path) -> None:
    rows = [{"name": "EASY", "published": {"jobs": "50"}}, {"name": "none", "published": {}}]

    def numbers(*skip: int) -> list[dict[str, Any]]:
        changes = {"rows": rows, "windows": {"jobs": 50, "skip": list(skip)}}
        found: list[dict[str, Any]] = json.loads(
            reproduce("--only", own_table(tmp_path, **changes), "--json").stdout
        )["numbers"]
        return found

    both, first, second = numbers(0, 100), numbers(0), numbers(100)
    assert [(each["row"], each["figure"], each["outcome"]) for each in both] == [
        ("EASY", "jobs", "exact"), ("none", "jobs", "beside"), ("none", "minutes", "beside"),
    ]  # fmt: skip
    assert both[2]["ours"] == pytest.approx((first[2]["ours"] + second[2]["ours"]) / 2)
    assert first[2]["ours"] != second[2]["ours"]


def test_a_log_that_is_not_there_is_told_of_with_where_it_is_from(tmp_path: Path) -> None:
    answer = reproduce("--only", own_table(tmp_path, log="theirs.swf", log_from="git clone x"), "--quiet")
    assert answer.exit_code == 0
    assert "has no theirs.swf. git clone x" in " ".join(answer.stdout.split())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": []}, "rows: "),
        ({"figures": {}}, "row EASY: jobs is none of figures"),
        ({"rows": [{"name": "x", "published": {"jobs": "many"}}]}, "row x: jobs: 'many' is no number"),
        (
            {"figures": {"jobs": {"figure": "jobz"}, "minutes": {"figure": "mean_wait_s"}}},
            "has no figure jobz",
        ),
        ({"scenario": {"nodes": 64, "scheduler": "fcfs+easyy"}}, "row EASY: "),
        ({"unknown": 1}, "unknown: "),
    ],
)
def test_a_table_that_is_wrong_is_an_error_that_says_where(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    answer = reproduce("--only", own_table(tmp_path, **changes), "--quiet")
    assert answer.exit_code == 2
    assert words in answer.output


def test_a_name_that_is_none_is_an_error_with_the_nearest() -> None:
    answer = reproduce("--only", "sc15-kht")
    assert (answer.exit_code, "did you mean 'sc15-kth'" in answer.output) == (2, True)
    alone = emulate("reproduce", "balancer", "--only", "sc15-kth")
    assert (alone.exit_code, "reproduce tables --only NAME" in alone.output) == (2, True)
