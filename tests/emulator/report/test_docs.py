from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow.parquet as pq

from emulator.report import files, tables

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
