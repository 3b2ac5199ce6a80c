"""Who the users are stands beside the results of a log with names, in a file of its own that can be left out."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import made_site
from command_line import emulate


@pytest.fixture
def run(tmp_path):
    (tmp_path / "sacct.txt").write_text(made_site.sacct(made_site.jobs()[:200]))

    def go(*more):
        done = emulate(
            "run", tmp_path / "sacct.txt", "--nodes", "12", "--out", tmp_path / "out", "--quiet", *more
        )
        assert done.exit_code == 0, done.output
        return tmp_path / "out"

    return go


def test_every_number_of_a_user_has_its_name_of_the_log(run):
    out = run("--no-report")
    with (out / "users.csv").open(newline="") as file:
        names = {int(row["user"]): row["name"] for row in csv.DictReader(file)}
    jobs = pq.read_table(out / "jobs.parquet", columns=["job", "user"]).to_pylist()
    logged = {job.number: job.user for job in made_site.jobs()[:200]}
    assert {job["job"]: names[job["user"]] for job in jobs} == logged


def test_the_query_of_the_docs_names_files_and_columns_that_there_are(run):
    page = (Path(__file__).parents[3] / "docs" / "results.md").read_text(encoding="utf-8")
    query = page.split("```sql\n")[1].split("```")[0]
    out = run("--no-report")
    there = {
        *pq.read_schema(out / "jobs.parquet").names,
        *(out / "users.csv").read_text().split("\n")[0].split(","),
    }
    assert all((out / name).exists() for name in re.findall(r"'(.+?)'", query))
    assert set(re.findall(r"[a-z_]+", re.sub(r"'.+?'|AS \w+|avg|6e7", "", query))) <= there


def test_without_names_none_are_written_and_earlier_ones_go(run):
    out = run()
    assert (out / "users.csv").exists()
    run("--anonymous")
    assert not (out / "users.csv").exists()
    assert [path.name for path in out.iterdir() if "user00" in path.read_text(errors="replace")] == []


def test_other_files_know_numbers_only(run):
    out = run()
    with_names = [path.name for path in out.iterdir() if "user00" in path.read_text(errors="replace")]
    assert with_names == ["users.csv"]
