"""The slices that the twin is held against on the real Slurm are those of the results file."""

from __future__ import annotations

from pathlib import Path

import measurements
import pytest

from emulator.runs.preparation import prepare
from emulator.runs.scenario import load

SLICES = sorted((Path(__file__).parents[3] / "scenarios" / "slurm-slices").glob("*.yaml"))
MEASURED = measurements.load().slurm_twin


def test_all_of_them_ran_on_a_release() -> None:
    assert {row.scenario for row in MEASURED} == {path.stem for path in SLICES}


@pytest.mark.parametrize("path", SLICES, ids=lambda path: path.stem)
def test_a_slice_is_what_its_rows_say(path: Path) -> None:
    scenario = load(path)
    prepared = prepare(scenario)
    rows = {(row.nodes, row.jobs) for row in MEASURED if row.scenario == path.stem}
    assert scenario.name == path.stem
    assert {(prepared.nodes, len(prepared.jobs))} == rows
