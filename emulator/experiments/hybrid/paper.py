"""The plug-in `hybrid` of `emulator reproduce`: runs, claims and tables of hybrid-fan-2021."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from emulator.experiments.atlas.prior import load_prior
from emulator.experiments.claims import middle_text
from emulator.experiments.hybrid.claims import (
    INSTANT,
    MALLEABLE,
    MALLEABLE_TURNAROUND,
    RIGID,
    RIGID_TURNAROUND,
    TURNAROUND,
    USED,
    claims,
)
from emulator.experiments.hybrid.read import READINGS
from emulator.experiments.hybrid.runs import (
    BASELINE,
    MIX,
    MTBFS_H,
    SCALES,
    SETUPS,
    SHARES,
    STRATEGIES,
    baseline,
    experiments,
    inputs,
)
from emulator.text.number_text import percent
from emulator.workload.hybrid_kinds import MIXES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.experiments.atlas.prior import Prior
    from emulator.experiments.claims import World
    from emulator.experiments.paper import Options
    from emulator.experiments.readings import Reading

_PAPER_TABLE_3 = {"theta": (15.6, 83.93, 22.69), "cori": (1.97, 80.27, 18.94)}
_OVERALL = ((TURNAROUND, 1), (USED, 100), (INSTANT, 100), (RIGID, 100), (MALLEABLE, 100))
_BY_KIND = ((RIGID_TURNAROUND, 1), (MALLEABLE_TURNAROUND, 1))
_FIVE = "turnaround, h / utilisation, % / instant, % / rigid and malleable preempted, %"


class HybridPaper:
    """Table III and Figures 6 to 10."""

    title = "Fan, Lan, Rich, Allcock, Papka: Hybrid Workload Scheduling on HPC Systems"
    reads_logs = False
    sweep = staticmethod(experiments)
    claims = staticmethod(claims)
    inputs = staticmethod(inputs)
    baseline = staticmethod(baseline)

    def about(self, options: Options) -> str:
        length = (
            "a month of Theta and two days of Cori" if options.quick else "Theta's year and Cori's months"
        )
        return (
            f"Workload: made traces, {length}, with the machines, numbers and sizes of Table I (the logs are not"
            " published with users). Load and bursts were fitted to Table III with seeds 1 to 10, the claims have"
            " others. Kinds by project, notices by Table II; FCFS/EASY. Cori: the first five seeds. Utilisation:"
            " without work done twice, setups of restarts and warnings."
        )

    def readings(self) -> Sequence[Reading]:
        return READINGS

    def prior(self) -> Prior:
        return load_prior(Path(__file__).with_name("atlas.yaml"))

    def tables(self, found: Sequence[World]) -> Sequence[Table]:
        labels = {label for world in found for label in world.rows}
        tables = [_table_3(found)]
        for machine, figure in (("theta", 6), ("cori", 7)):
            columns = [(mix, f"{machine}/{mix}/") for mix in MIXES]
            title = f"Figure {figure}, {machine.capitalize()}: {_FIVE}"
            tables.append(_grid(found, labels, title, columns, _OVERALL))
            title = f"Figure {figure}, {machine.capitalize()}: turnaround of rigid / malleable jobs, h"
            tables.append(_grid(found, labels, title, columns, _BY_KIND))
        for hours in MTBFS_H:
            columns = [(percent(scale, 0), f"mtbf{hours}/ck{scale:g}/") for scale in SCALES]
            title = f"Figure 8, MTBF {hours} h, by checkpoint interval over the optimum: {_FIVE}"
            tables.append(_grid(found, labels, title, columns, _OVERALL))
        columns = [
            (percent(share, 0), f"theta/{MIX}/" if share == SHARES[0] else f"min{share}/") for share in SHARES
        ]
        tables.append(
            _grid(found, labels, f"Figure 9, by malleable jobs' least size: {_FIVE}", columns, _OVERALL)
        )
        columns = [
            (f"{low}-{high} %", f"theta/{MIX}/" if (low, high) == SETUPS[1] else f"setup{low}-{high}/")
            for low, high in SETUPS
        ]
        tables.append(_grid(found, labels, f"Figure 10, by rigid jobs' setup: {_FIVE}", columns, _OVERALL))
        return tables


def _table_3(found: Sequence[World]) -> Table:
    table = Table("machine", "turnaround, h", "utilisation, %", "instant start, %")
    table.title = "Table III: FCFS/EASY (medians over seeds; the paper's figures in brackets)"
    for machine, paper in _PAPER_TABLE_3.items():
        cells = []
        for (figure, factor), known in zip(_OVERALL[:3], paper, strict=True):
            cells.append(f"{middle_text(found, f'{machine}/{BASELINE}', figure, factor)} \\[{known}]")
        table.add_row(machine.capitalize(), *cells)
    return table


def _grid(
    found: Sequence[World],
    labels: set[str],
    title: str,
    columns: Sequence[tuple[str, str]],
    figures: Sequence[tuple[str, float]],
) -> Table:
    """One row a strategy; columns without a run are left out."""
    shown = [(head, prefix) for head, prefix in columns if any(label.startswith(prefix) for label in labels)]
    table = Table("method", *(head for head, _ in shown), title=title)
    for name in STRATEGIES:
        cells = [
            " / ".join(middle_text(found, f"{prefix}{name}", figure, factor) for figure, factor in figures)
            for _, prefix in shown
        ]
        table.add_row(name.upper().replace("+", "&"), *cells)
    return table


PAPER = HybridPaper()
