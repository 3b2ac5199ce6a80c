"""The same runs in virtual time and live, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from rich.table import Table

from emulator.report.terminal import stdout_console
from emulator.sweeps.grid import CLOCK, LABEL, REPEAT, SEED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_FIGURES = {
    # name in the row: (heading, factor, digits)
    "ondemand_rejected": ("rejected", 1.0, 0),
    "mean_wait_s": ("batch wait, min", 1 / 60, 1),
    "utilization": ("utilisation, %", 100.0, 2),
    "reserve_idle_node_h": ("idle reserve, node-h", 1.0, 1),
}


def print_beside(parquet: Path) -> None:
    """Print the table for a sweep that was done on both clocks."""
    table = pq.read_table(parquet)
    varied = table.column_names[: table.column_names.index("jobs_in")]
    stdout_console().print(
        beside(table.to_pylist(), [name for name in varied if name not in (CLOCK, REPEAT)])
    )


def beside(rows: Iterable[Mapping[str, Any]], varied: Iterable[str]) -> Table:
    """A line for each setting: every figure in virtual time / live. A run that is missing leaves a gap."""
    names = [*varied]
    if LABEL in names:  # which says the rest
        names = [LABEL, SEED]
    table = Table(title="virtual / live", title_justify="left")
    for name in names:
        table.add_column(name.rpartition(".")[2], no_wrap=True)
    for heading, _, _ in _FIGURES.values():
        table.add_column(heading, justify="right")
    found: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(str(row[name]) for name in names), {})[str(row[CLOCK])] = row
    for setting, runs in found.items():
        cells = []
        for figure, (_, factor, digits) in _FIGURES.items():
            two = [runs.get(clock, {}).get(figure) for clock in ("virtual", "live")]
            cells.append(" / ".join("" if value is None else f"{value * factor:.{digits}f}" for value in two))
        table.add_row(*setting, *cells)
    return table
