"""The examples of docs/traces.md run as they stand there; so does the count of the tutorial of one's own log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from command_line import emulate
from emulator.runs.scenario import from_mapping
from emulator.text.number_text import number
from emulator.workload.generators import parse_generators
from emulator.workload.transforms import parse_transforms
from testdata import TRACES

PAGE = (Path(__file__).resolve().parents[3] / "docs/traces.md").read_text()
BLOCKS = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, flags=re.MULTILINE)
PYTHON = [block for block in BLOCKS if "import" in block]


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_pages_python_runs(tmp_path, monkeypatch, number):
    (tmp_path / "traces").symlink_to(TRACES)
    monkeypatch.chdir(tmp_path)
    code = re.sub("^    ", "", PYTHON[number], flags=re.MULTILINE)
    exec(compile(code, "docs/traces.md", "exec"), {})  # noqa: S102 - our own page


def test_the_pages_list_of_transforms_is_one():
    lists = [yaml.safe_load(block) for block in BLOCKS if "transforms:" in block]
    assert len(parse_transforms(lists[0]["transforms"])) == 18
    assert from_mapping(lists[1]).workload.origin_s == 0
    assert len(parse_generators(lists[1]["workload"]["generate"])) == 1


def test_the_page_has_its_examples():
    assert len(PYTHON) == 2


def test_the_tutorial_of_ones_own_log_has_the_number_of_jobs_that_its_command_runs(tmp_path, monkeypatch):
    page = (TRACES.parent / "docs/tutorials/own-log.md").read_text()
    command = re.search(
        r"^    emulator (run .*--overrun kill) --out runs/easy\n\n([\d\u202f]+) jobs take", page, re.MULTILINE
    )
    assert command is not None
    monkeypatch.chdir(TRACES.parent)
    done = emulate(*command[1].split(), "--out", tmp_path / "out", "--no-report", "--json")
    assert done.exit_code == 0, done.output
    assert number(json.loads(done.stdout)["jobs_run"]) == command[2]
