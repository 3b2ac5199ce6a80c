"""The slices that the twin is held against on the real Slurm (`scenarios/slurm-slices`) are those of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.runs.preparation import prepare
from emulator.runs.scenario import load

ROOT = Path(__file__).parents[3]
SLICES = sorted((ROOT / "scenarios" / "slurm-slices").glob("*.yaml"))
ROW = re.compile(r"^\| `([\w-]+)`[^|]*\| (\d+), (\d+) \|", re.MULTILINE)
"""Name, nodes and jobs of a row of the page's table."""


def test_the_page_has_all_of_them() -> None:
    page = (ROOT / "docs" / "slurm-twin.md").read_text(encoding="utf-8")
    assert {name for name, _, _ in ROW.findall(page)} == {path.stem for path in SLICES}


@pytest.mark.parametrize("path", SLICES, ids=lambda path: path.stem)
def test_a_slice_is_what_the_page_says(path: Path) -> None:
    page = (ROOT / "docs" / "slurm-twin.md").read_text(encoding="utf-8")
    scenario = load(path)
    prepared = prepare(scenario)
    rows = {name: (int(nodes), int(jobs)) for name, nodes, jobs in ROW.findall(page)}
    assert scenario.name == path.stem
    assert (prepared.nodes, len(prepared.jobs)) == rows[path.stem]
