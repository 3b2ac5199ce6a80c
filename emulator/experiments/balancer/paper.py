"""The plug-in `balancer` of `emulator reproduce`: runs, claims and tables of balancer-liu-2018."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from emulator.experiments.atlas.prior import load_prior
from emulator.experiments.balancer.claims import claims
from emulator.experiments.balancer.figures import figures
from emulator.experiments.balancer.measures import IDLE, ONDEMAND, RATE, REJECTED, USED, WAIT
from emulator.experiments.balancer.read import READINGS
from emulator.experiments.balancer.runs import (
    MAINSTREAM,
    RESERVES,
    RHO,
    STATIC_RESERVES,
    WAITS_MIN,
    baseline,
    experiments,
    inputs,
)
from emulator.experiments.balancer.workloads import BATCH_LOAD, CHALLENGING_WEEK, FACTORS
from emulator.experiments.claims import middle_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.experiments.atlas.prior import Prior
    from emulator.experiments.claims import World
    from emulator.experiments.paper import Options
    from emulator.experiments.readings import Reading
    from emulator.report.drawing import Plot

_PAPER_TABLE_1 = {
    "batch": (122.5, 84.4, 141), "static": (1002.8, 80.1, 0),
    "R0W0": (122.0, 84.9, 30), "R0W5": (147.0, 85.7, 3), "R0W10": (147.0, 85.7, 3),
    "R6W0": (150.0, 85.3, 1), "R6W5": (140.6, 85.3, 1), "R6W10": (150.4, 85.3, 0),
    "R12W0": (130.0, 85.3, 0),
}  # fmt: skip
"""Setting: mean batch wait in minutes, combined utilisation in per cent, rejections."""


class BalancerPaper:
    """Table I and Figures 2 to 5."""

    title = (
        "Liu, Keahey, Riteau, Weissman: Dynamically Negotiating Capacity Between On-demand and Batch Clusters"
    )
    reads_logs = True
    sweep = staticmethod(experiments)
    claims = staticmethod(claims)
    inputs = staticmethod(inputs)
    baseline = staticmethod(baseline)

    def about(self, options: Options) -> str:
        if options.traces is None:
            source = (
                "Workload: a generated stand-in: batch jobs with the paper's numbers and loads and the"
                " shapes of other weeks of the same cluster, which is busy from the begin."
            )
        else:
            source = (
                f"Workload: the paper's own batch logs in {options.traces}: the challenging week"
                f" {CHALLENGING_WEEK[:10]} behind what was running before it, and samples of all weeks."
            )
        return (
            f"{source} Leases: generated, as those of the paper's week are not published, with its number and load"
            " and the bursts of other weeks. EASY backfilling. Each seed makes other leases and samples;"
            " nothing is fitted to a claim."
        )

    def readings(self) -> Sequence[Reading]:
        return READINGS

    def prior(self) -> Prior:
        return load_prior(Path(__file__).with_name("atlas.yaml"))

    def tables(self, found: Sequence[World]) -> Sequence[Table]:
        return [_table_1(found), _reserves(found), _loads(found)]

    def figures(self, found: Sequence[World]) -> Sequence[tuple[str, str, Plot]]:
        return figures(found)


def _table_1(found: Sequence[World]) -> Table:
    table = Table(title="Table I: the challenging week (medians over seeds; the paper's figures in brackets)")
    for column in ("setting", "mean batch wait, min", "without backfilling", "utilisation, %", "rejected"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    names = ["batch", "static", *(f"R{reserve}W{wait}" for reserve in RESERVES for wait in WAITS_MIN)]
    for name in names:
        figures = [
            middle_text(found, f"t1/{name}", WAIT, 1 / 60),
            middle_text(found, f"t1-fcfs/{name}", WAIT, 1 / 60),
            middle_text(found, f"t1/{name}", USED, 100),
            middle_text(found, f"t1/{name}", REJECTED, 1),
        ]
        if figures[0] == "":
            continue
        known = _PAPER_TABLE_1.get(name)
        if known is not None:
            figures[0] += f" [{known[0]}]"
            figures[2] += f" [{known[1]}]"
            figures[3] += f" [{known[2]}]"
        table.add_row(name, *(figure.replace("[", r"\[") for figure in figures))
    return table


def _reserves(found: Sequence[World]) -> Table:
    table = Table("workload", *(f"R={reserve}" for reserve in STATIC_RESERVES), "H15", "H30", "predictive")
    table.title = f"Figures 3 to 5 at {RHO:g} %: rejected, % / mean batch wait, min / idle reserve, node-h"
    for batch in MAINSTREAM:
        labels = [
            f"R{reserve}/{batch}" if reserve else f"basic/{batch}/{RHO:g}" for reserve in STATIC_RESERVES
        ]
        labels += [f"{name}/{batch}/{RHO:g}" for name in ("H15", "H30", "predictive")]
        cells = []
        for label in labels:
            three = ((RATE, 100), (WAIT, 1 / 60), (IDLE, 1))
            cells.append(" / ".join(middle_text(found, label, figure, factor) for figure, factor in three))
        table.add_row(batch, *cells)
    return table


def _loads(found: Sequence[World]) -> Table:
    table = Table("algorithm", "workload", *(f"{rho:g} %" for rho in FACTORS))
    table.title = (
        "Figures 2, 4 and 5 by on-demand load: rejected, % / mean batch wait, min / on-demand utilisation, %"
    )
    for name in ("basic", "H30", "predictive"):
        for batch in BATCH_LOAD:
            three = ((RATE, 100), (WAIT, 1 / 60), (ONDEMAND, 100))
            cells = [
                " / ".join(
                    middle_text(found, f"{name}/{batch}/{rho:g}", figure, factor) for figure, factor in three
                )
                for rho in FACTORS
            ]
            cells = [cell.replace(" /  / ", "") for cell in cells]
            if any(cells):
                table.add_row(name, batch, *cells)
    return table


PAPER = BalancerPaper()
