"""Job tables in files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emulator.workload.store import load, save
from emulator.workload.table import COLUMNS, JobTable, Kind

TABLE = JobTable.build(
    number=[7, 3],
    submit_us=[5_000_001, 0],
    run_us=[10, 20],
    nodes=[4, 1],
    kind=[Kind.ON_DEMAND, Kind.BATCH],
    user=9,
    extra={"setup_us": [3, -1]},
)


@pytest.mark.parametrize("name", ["jobs.npz", "jobs.parquet"])
def test_a_table_comes_back_as_it_was_saved(tmp_path, name):
    save(TABLE, tmp_path / name)
    loaded = load(tmp_path / name)
    for name_ in COLUMNS:
        ours, theirs = getattr(loaded, name_), getattr(TABLE, name_)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.extra["setup_us"].tolist() == [-1, 3]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["jobs.npz", "jobs.parquet"])
def test_an_empty_table_can_be_saved(tmp_path, name):
    save(JobTable.empty(), tmp_path / name)
    assert len(load(tmp_path / name)) == 0


def test_a_file_of_another_kind_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"jobs\.csv: a job table is stored as \.parquet or \.npz"):
        save(TABLE, tmp_path / "jobs.csv")


def test_a_missing_and_an_unknown_column_are_named(tmp_path):
    pq.write_table(pa.table({"submit_us": [0], "run_us": [1]}), tmp_path / "short.parquet")
    with pytest.raises(ValueError, match=r"short\.parquet: column nodes is missing"):
        load(tmp_path / "short.parquet")
    columns = {"submit_us": [0], "run_us": [1], "nodes": [1], "colour": [3]}
    pq.write_table(pa.table(columns), tmp_path / "long.parquet")
    with pytest.raises(ValueError, match=r"long\.parquet: unknown column colour"):
        load(tmp_path / "long.parquet")
