"""Job tables in files: `.parquet` for other tools, `.npz` for ourselves. The suffix decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from balancer.whole_file import replacing
from emulator.workload.table import COLUMNS, JobTable

if TYPE_CHECKING:
    from pathlib import Path

_REQUIRED = ("submit_us", "run_us", "nodes")
_EXTRA = "extra."
"""Before the names of extra columns, so that a misspelt column is an error and not an extra one."""


def save(table: JobTable, path: Path) -> None:
    """Write the table; the file appears whole or not at all. Raises ValueError for another suffix."""
    columns = {name: getattr(table, name) for name in COLUMNS}
    columns |= {f"{_EXTRA}{name}": values for name, values in table.extra.items()}
    with replacing(path) as draft:
        if path.suffix == ".parquet":
            pq.write_table(pa.table(columns), draft)
        elif path.suffix == ".npz":
            with draft.open("wb") as file:
                np.savez_compressed(file, **columns)
        else:
            raise ValueError(f"{path}: a job table is stored as .parquet or .npz")


def load(path: Path) -> JobTable:
    """Read a table that `save` wrote, or any file with its columns; unknown columns are errors.

    Raises ValueError naming the file and the column, FileNotFoundError if there is none.
    """
    if path.suffix == ".parquet":
        read = pq.read_table(path)
        columns: dict[str, Any] = {name: read.column(name).to_numpy() for name in read.column_names}
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            columns = dict(arrays)
    else:
        raise ValueError(f"{path}: a job table is stored as .parquet or .npz")
    for name in _REQUIRED:
        if name not in columns:
            raise ValueError(f"{path}: column {name} is missing")
    extra = {
        name.removeprefix(_EXTRA): columns.pop(name) for name in list(columns) if name.startswith(_EXTRA)
    }
    for name in columns:
        if name not in COLUMNS:
            known = f"{', '.join(COLUMNS)} and {_EXTRA}NAME for further ones"
            raise ValueError(f"{path}: unknown column {name}; known are {known}")
    try:
        return JobTable.build(**columns, extra=extra)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
