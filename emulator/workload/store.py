"""Job tables in files: `.parquet` for other tools, `.npz` for ourselves. The suffix decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from balancer.whole_file import replacing
from emulator.workload.sound_jobs import sound
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
    columns = _columns(path)
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
        return sound(JobTable.build(**columns, extra=extra))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _columns(path: Path) -> dict[str, Any]:
    """Raises ValueError for a file that is not what its suffix says."""
    if path.suffix not in {".parquet", ".npz"}:
        raise ValueError(f"{path}: a job table is stored as .parquet or .npz")
    try:
        if path.suffix == ".parquet":
            read = pq.read_table(path)
            return {name: read.column(name).to_numpy() for name in read.column_names}
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (pa.ArrowInvalid, BadZipFile, EOFError, ValueError) as error:
        raise ValueError(f"{path}: this is no {path.suffix} file of jobs ({error})") from error
