"""Jobs that were stored before: by `emulator trace pack --out`, `emulator trace generate --out` or a study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.text.file_errors import refusal
from emulator.workload import store

if TYPE_CHECKING:
    import numpy as np

    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class StoredJobs:
    """The generator `stored_jobs`: the jobs and leases of a .parquet or .npz file, at the times they have there."""

    trace: str

    def __post_init__(self) -> None:
        if not isinstance(self.trace, str | Path):
            raise ValueError(f"stored_jobs: trace must be the name of a file, not {self.trace!r}")  # noqa: TRY004 - a border: one kind of error

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:  # noqa: ARG002
        """Nothing of it is random. Raises ValueError if the file cannot be read."""
        try:
            return store.load(Path(self.trace))
        except OSError as error:
            raise ValueError(f"{self.trace}: {refusal(error)}") from error
