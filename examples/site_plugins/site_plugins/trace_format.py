"""A trace format: reads a job log into the columns of the Standard Workload Format."""

import csv
from pathlib import Path

from emulator.workload.files import TraceError, open_trace
from emulator.workload.swf import SwfLog

HEADER = b"submit_s,run_s,nodes"


class SimpleCsv:
    """A table with the columns submit_s, run_s and nodes."""

    name = "simple_csv"

    def can_read(self, path: Path) -> bool:
        """Looks at the beginning only."""
        with open_trace(path) as stream:
            return stream.read(len(HEADER)) == HEADER

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        with open_trace(path) as stream:
            rows = list(csv.DictReader(stream.read().decode().splitlines()))
        columns: dict[str, list[int]] = {name: [] for name in HEADER.decode().split(",")}
        for line, row in enumerate(rows, 2):
            for name, column in columns.items():
                if not row[name].isdecimal():
                    raise TraceError(f"{path}, line {line}: {name} must be a whole number, not {row[name]!r}")
                column.append(int(row[name]))
        return SwfLog.build(
            len(rows),
            source=str(path),
            number=list(range(1, len(rows) + 1)),
            submit_s=columns["submit_s"],
            run_s=columns["run_s"],
            allocated_procs=columns["nodes"],
        )
