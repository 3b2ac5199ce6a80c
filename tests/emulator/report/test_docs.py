from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import emulator
from emulator.report import files, tables

SCENARIOS = Path(__file__).parents[3] / "scenarios"
PAGE = Path(__file__).parents[3] / "docs" / "results.md"


def test_docs_define_every_figure_column_and_event(live_week, tmp_path):
    named = set(re.findall(r"`([^`\s]+)`", PAGE.read_text(encoding="utf-8")))

    summary = files.write(live_week, tmp_path / "run")
    with (tmp_path / "run/jobs.csv").open(newline="") as file:
        csv_columns = next(csv.reader(file))
    columns = {
        name
        for table in (files.JOBS, files.EVENTS)
        for name in pq.read_schema(tmp_path / "run" / table).names
    }

    assert set(summary) - named == set()
    assert set(csv_columns) - named == set()
    assert columns - named == set()
    assert set(tables._EVENTS) - named == set()


OF_MECHANISMS = {
    "hybrid": ("hybrid", {"workload.generate": [{"theta_year": {"days": 2, "jobs": 200}}]}),
    "realtime": ("default", {"mechanism": {"realtime": {"percent": 10}}}),
    "oversubscribe": ("shared-cores", {"mechanism.oversubscribe.follow": [1]}),
    "dedicated_nodes": ("shared-cores", {"nodes": 2, "mechanism": {"dedicated_nodes": {"cores": 2, "percent": 50}}}),
    "malleable": (
        "default",
        {
            "workload.generate": ["daily_batch"],
            "workload.transforms": [{"flexible_jobs": {"malleable": 0.5}}],
            "scheduler": "fcfs+conservative",
            "mechanism": "malleable",
        },
    ),
    "balancer": ("default", {}),
    "static_partition": ("default", {"mechanism": {"static_partition": {"ondemand_nodes": 24}}}),
}  # fmt: skip
CLASSES = ("_narrow_short", "_narrow_long", "_wide_short", "_wide_long")


@pytest.mark.parametrize("name", OF_MECHANISMS)
def test_docs_define_every_figure_of_a_mechanism(name):
    scenario, changes = OF_MECHANISMS[name]
    summary = emulator.run(SCENARIOS / f"{scenario}.yaml", changes=changes).summary
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\s]+)`", text))
    own = set(summary.get("mechanism", {})) | set(summary.get("job_classes", {}))
    assert set(summary) - named == set()
    assert {of_kind(key) for key in own} - named == set()


def of_kind(key):
    """The key under which the page defines a figure of a class, a level, a number or a kind of job."""
    for end in CLASSES:
        key = key.removesuffix(end)
    key = re.sub(r"(?<=^slowdown_at_most_)[\d.]+$", "LEVEL", key)
    key = re.sub(r"(?<=^job_)\d+(?=_)", "NUMBER", key)
    return re.sub("^(rigid|moldable|malleable)_", "", key)
