"""The lab of `docs/tutorials` runs as it stands, and gives the figures that its answers print."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from command_line import emulate
from emulator.text.number_text import grouped, percent

ROOT = Path(__file__).parents[2]
LAB, ANSWERS = (
    (ROOT / "docs" / "tutorials" / name).read_text("utf-8") for name in ("lab.md", "lab-answers.md")
)
FIGURES = {
    "mean wait": lambda run: f"{grouped(run['mean_wait_s'] / 60)} min",
    "median wait": lambda run: f"{grouped(run['median_wait_s'] / 60)} min",
    "95th percentile": lambda run: f"{grouped(run['p95_wait_s'] / 60)} min",
    "99th percentile": lambda run: f"{grouped(run['p99_wait_s'] / 60)} min",
    "longest wait": lambda run: f"{grouped(run['max_wait_s'] / 60)} min",
    "utilisation": lambda run: percent(run["utilization"]),
    "requests granted": lambda run: str(run["ondemand_granted"]),
    "requests rejected": lambda run: str(run["ondemand_rejected"]),
    "idle reserve": lambda run: f"{run['reserve_idle_node_h']:.0f} node-h",
    "slowest answer": lambda run: f"{run['max_ondemand_wait_s']:.0f} s",
}
"""What a column of the answers has of a run."""


def exercise(text, number):
    return text.split(f"## Exercise {number}", 1)[1].split("\n## ", 1)[0]


def tables(number):
    """Tables of an answer: each a list of rows, cells by the names of columns."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", exercise(ANSWERS, number), re.MULTILINE):
        header, _, *rows = (
            [cell.strip(" `") for cell in line.strip("|").split("|")] for line in block.splitlines()
        )
        found.append([dict(zip(header, row, strict=True)) for row in rows])
    return found


@pytest.fixture
def do(tmp_path, monkeypatch):
    """Run the commands of an exercise as students do; what each printed."""
    for name in ("scenarios", "traces"):
        (tmp_path / name).symlink_to(ROOT / name)
    (log,) = re.findall(r"```\n(; MaxNodes.*?)```", LAB, re.DOTALL)
    (tmp_path / "mine.swf").write_text(log)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(number):
        commands = re.findall(r"^    emulator (.*)$", exercise(LAB, number), re.MULTILINE)
        return [invoke(*shlex.split(command)) for command in commands]

    return run


def invoke(*words):
    one_core = ("--jobs", "1") if words[0] == "sweep" else ()
    done = emulate(*words, *one_core)
    assert done.exit_code == 0, done.output
    return done.output


def assert_figures(number):
    for row in tables(number)[0]:
        run = json.loads(Path("runs", row["run"], "summary.json").read_text("utf-8"))
        columns = [name for name in row if name in FIGURES]
        assert columns
        assert row == row | {name: FIGURES[name](run) for name in columns}


def assert_ranked(rows, printed):
    """The rows of an answer are those of the command's table, in its order."""
    lines = re.findall(r"^│ (.*) │$", printed, re.MULTILINE)
    cells = [[cell.strip() for cell in line.split("│")] for line in lines]
    assert [[line[0], *line[-4:]] for line in cells] == [list(row.values()) for row in rows]


def test_five_jobs_start_when_the_answer_says(do):
    do(1)
    assert_figures(1)
    for row in tables(1)[0]:
        with Path("runs", row["run"], "jobs.csv").open(encoding="utf-8", newline="") as file:
            starts = {f"job {job['job_id']}": job["starting_time"] for job in csv.DictReader(file)}
        assert row == row | starts


def test_a_year_under_three_rules_and_two_orders(do):
    log, *_, gained, heat_map = do(2)
    assert re.search(r"28\u202f467 of .*offered load +0\.70", log, re.DOTALL)
    assert "-98 %" in gained
    assert "+8 min 59 s to +30 min 17 s" in heat_map
    rows = {
        line.split()[0]: line.split()[1:] for line in heat_map.splitlines() if re.match(r" +\d\S* ", line)
    }
    assert rows["49-192"][3:5] == ["0.86", "0.86"]
    assert (rows["1"][3], rows["1"][-1]) == ("2.22", "3.56")
    assert_figures(2)
    assert "-33 %" in do(3)[-1]
    assert_figures(3)


def test_reserves_and_a_split_give_the_day_that_the_answers_print(do):
    do(4)
    assert_figures(4)
    do(5)
    assert_figures(5)


@pytest.mark.slow
def test_ten_seeds_and_forty_rank_the_settings_as_the_answers_do(do):
    waits, rejected, more = tables(6)
    for rows, printed in zip((waits, rejected), do(6), strict=True):
        assert_ranked(rows, printed)
    folder = ROOT / "scenarios"
    text = (folder / "sweeps" / "lab.yaml").read_text("utf-8")
    Path("lab-40.yaml").write_text(
        text.replace("../default.yaml", "scenarios/default.yaml").replace("seeds: 10", "seeds: 40")
    )
    assert_ranked(more, invoke("sweep", "lab-40.yaml", "--rank", "ondemand_rejected"))


def test_the_notebook_has_the_same_starts_and_figures(do, capsys):
    cells = json.loads((ROOT / "notebooks" / "lab.ipynb").read_text("utf-8"))["cells"]
    names = {"__name__": "notebook"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # noqa: S102 - our own
    printed = capsys.readouterr().out
    for row, (rule, starts, wait) in zip(
        tables(1)[0],
        re.findall(r"^(\w+) +starts at \[(.*)\] s, mean wait (.* min)$", printed, re.MULTILINE),
        strict=True,
    ):
        assert list(row.values()) == [f"hand-{rule}", *starts.split(", "), wait]
    for row in tables(6)[1]:
        assert re.search(rf"^  {row['setting']} +{row['rejected']}  ", printed, re.MULTILINE)
