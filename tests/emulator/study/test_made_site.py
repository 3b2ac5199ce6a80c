"""A site whose answer is known: it is found, whatever form its logs are in."""

from __future__ import annotations

import json
import lzma
import shlex

import pytest

import made_site
from command_line import emulate, study_merge
from emulator.study.logs import read_logs
from emulator.workload.formats import load
from testdata import TRACES


@pytest.fixture(scope="module")
def jobs():
    return made_site.jobs()


@pytest.fixture(scope="module")
def servers():
    return made_site.servers()


@pytest.fixture(scope="module")
def written(tmp_path_factory, jobs, servers):
    """The path of a log in the named form."""
    folder = tmp_path_factory.mktemp("site")

    def write(form):
        path = folder / form
        if not path.exists():
            found = (
                made_site.BATCH[form](jobs) if form in made_site.BATCH else made_site.ONDEMAND[form](servers)
            )
            path.write_text(found)
        return path

    return write


def tables(batch, ondemand):
    found = read_logs(load(batch), load(ondemand), batch_nodes=made_site.BATCH_NODES)
    begin_us = found.batch.submit_us.min()
    rows = [
        [
            tuple(map(int, row))
            for row in zip(
                table.submit_us - begin_us,
                table.run_us,
                table.nodes,
                *((table.estimate_us,) if estimates else ()),
                strict=True,
            )
        ]
        for table, estimates in ((found.batch, True), (found.leases, False))
    ]
    return [sorted(each) for each in rows], found.waited_us.sum()


@pytest.mark.parametrize("form", [form for form in made_site.BATCH if form != "swf"])
def test_the_batch_log_is_the_same_in_each_form(written, form):
    assert tables(written(form), written("usage")) == tables(written("swf"), written("usage"))


@pytest.mark.parametrize("form", [form for form in made_site.ONDEMAND if form != "usage"])
def test_the_leases_are_the_same_in_each_form(written, form):
    assert tables(written("swf"), written(form)) == tables(written("swf"), written("usage"))


def test_the_files_that_ship_are_those_of_the_made_site(jobs, servers):
    site = TRACES / "site"
    assert lzma.decompress((site / "sacct.txt.xz").read_bytes()).decode() == made_site.sacct(jobs)
    assert lzma.decompress((site / "usage.json.xz").read_bytes()).decode() == made_site.usage(servers)


def test_the_commands_of_the_tutorial_say_what_it_says(tmp_path, monkeypatch):
    page = (TRACES.parent / "docs" / "tutorials" / "two-machines.md").read_text()
    check, merge = [shlex.split(line)[1:] for line in page.splitlines() if line.startswith("    emulator ")]
    monkeypatch.chdir(TRACES.parent)
    checked = emulate(*check)
    assert (checked.exit_code, "Nothing looks wrong" in checked.stdout) == (0, True), checked.output
    weeks = merge.index("--weeks")
    quick = [*merge[:weeks], *merge[weeks + 2 :], "--quick"]
    done = emulate(*quick, "--out", tmp_path, "--jobs", "1", "--predictor", "peak")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Cannot be told: with a reserve of 3 nodes, batch jobs wait ")
    said = " ".join(done.stdout.split())
    assert "within your limits is the one with a reserve of 3 nodes (basic R=3 W=0 in the tables)" in said


def test_the_known_answer_is_found(tmp_path):
    """Three nodes in reserve, and not two: three servers are wanted at once while no node is idle."""
    site = TRACES / "site"
    done = study_merge(
        site / "sacct.txt.xz", site / "usage.json.xz", tmp_path, "--nodes", "12+4", "--reserve", "0,1,2,3",
        "--wait-min", 0, "--weeks", "all", "--pairings", 1, "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    found = {each["setting"]: each for each in document["settings"]}
    days = len(document["weeks"]) * 7
    # Each reserved node that is missing costs one request a day; the one at 14 finds what is held.
    assert [found[f"basic R={reserve} W=0"]["rejected"] for reserve in range(4)] == [
        4 * days,
        2 * days,
        days,
        0,
    ]
    advice = document["advice"][0]
    assert (advice["figures"]["setting"], advice["meets"]) == (f"basic R={made_site.RESERVE} W=0", True)
    assert advice["confidence"] == 1.0
    assert (document["verdict"], next(iter(document))) == ("merge", "verdict")
    low, high = advice["wait_ratio"]
    assert low <= advice["figures"]["wait_ratio"] <= high < 1
    trial = document["held_out"]
    assert (trial["setting"], trial["rejected"], trial["keeps"]) == (advice["figures"]["setting"], 0, True)
    # Today is the log's own schedule: simulated waits are the recorded ones.
    for today in document["today"]:
        assert today["simulated_wait_min"] == pytest.approx(today["recorded_wait_min"], rel=0.01)
