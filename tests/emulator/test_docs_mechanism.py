"""The example of docs/mechanisms.md runs."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable, Kind

_PAGE = Path(__file__).parents[2] / "docs" / "mechanisms.md"


def blocks():
    """The example of a mechanism, and that of what one shows."""
    example, shown = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return example, shown


def test_the_example_mechanism_serves_leases_from_idle_nodes(tmp_path, monkeypatch):
    code, _ = blocks()
    (tmp_path / "first_mechanism.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    example = import_module("first_mechanism")
    jobs = JobTable.build(
        submit_us=[0, 10, 20],
        run_us=[100, 50, 50],
        nodes=[2, 2, 1],
        kind=[Kind.BATCH, Kind.ON_DEMAND, Kind.ON_DEMAND],
    )
    record = simulate(jobs, 4, SchedulerConfig(), mechanism=example.IdleOnly())
    assert_lawful(record)
    assert [(lease.granted, lease.reason) for lease in record.leases] == [
        (True, ""),
        (False, "not enough idle nodes"),
    ]


def test_the_example_of_what_a_mechanism_shows_has_tiles_and_a_picture(tmp_path, monkeypatch):
    (tmp_path / "shown_mechanism.py").write_text(blocks()[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    example = import_module("shown_mechanism").IdleOnly
    jobs = JobTable.build(submit_us=[0, 50], run_us=[100, 50], nodes=[2, 1])
    record = simulate(jobs, 4, SchedulerConfig())
    assert [tile.figure for tile in example.tiles] == ["ondemand_rejected", "max_ondemand_wait_s"]
    (series,) = example.picture(record).series
    assert series.values[[10, 110]].tolist() == pytest.approx([2, 3])
