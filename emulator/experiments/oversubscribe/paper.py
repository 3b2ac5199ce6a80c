"""The plug-in `oversubscribe` of `emulator reproduce`: runs, claims and tables of oversubscribing-minami-2023."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table

from emulator.experiments.atlas.prior import load_prior
from emulator.experiments.claims import middle
from emulator.experiments.oversubscribe.claims import claims
from emulator.experiments.oversubscribe.runs import FOLLOWED, KIT, UNILU, baseline, experiments, inputs
from emulator.mechanisms.oversubscribe.figures import LEVELS
from emulator.metrics.heat import LENGTH_EDGES_S, SIZE_EDGES
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import grouped, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.experiments.atlas.prior import Prior
    from emulator.experiments.claims import World
    from emulator.experiments.oversubscribe.runs import Site
    from emulator.experiments.paper import Options
    from emulator.sweeps.grid import Sweep

_M = "mechanism."
_TABLE_5 = {
    "M8": (13566, 13728), "M7": (13568, 13728), "M6": (13569, 13728), "M5": (13568, 13728), "M4": (13568, 13728),
    "M3": (13566, 13727), "M2": (13566, 13726), "M1": (13566, 13726), "R5": (13570, 13726), "R3": (13568, 13726),
    "R1": (13566, 13726), "R0.5": (13565, 13726),
}  # fmt: skip


class OversubscribePaper:
    """Tables 1 and 3 to 5, Figures 4 to 13, and what the paper leaves to the future."""

    title = "Minami, Endo, Nomura: Effectiveness of the Oversubscribing Scheduling on Supercomputer Systems"
    reads_logs = True
    claims = staticmethod(claims)
    inputs = staticmethod(inputs)
    baseline = staticmethod(baseline)

    def about(self, options: Options) -> str:
        kit = "KIT: a generated stand-in with the figures of Table 2, calibrated with other seeds."
        if options.traces is None:
            return (
                "UniLu: a generated stand-in with the figures of Table 1; what only the log can show is"
                f" left out. {kit}"
            )
        return (
            "UniLu: the log itself, 51 871 jobs: interactive jobs wider than a node are left out (R=1 % is one node),"
            f" and so are jobs with neither run time nor processor time. {kit}"
        )

    def prior(self) -> Prior:
        return load_prior(Path(__file__).with_name("atlas.yaml"))

    def sweep(self, options: Options) -> Sweep:
        """Raises ScenarioError."""
        try:
            return experiments(options)
        except ScenarioError:
            raise
        except ValueError as error:
            raise ScenarioError(str(error)) from error

    def tables(self, found: Sequence[World]) -> Sequence[Table]:
        tables = []
        for site in (UNILU, KIT):
            labels = [f"M{m}" for m in site.multiplicities] + [f"R{r:g}" for r in site.percents]
            labels = [label for label in labels if any(world.has(f"{site.name}/{label}") for world in found)]
            if labels:
                tables += [_overview(site, labels, found), _distribution(site, labels, found)]
        tables.append(_jobs(found))
        tables += [
            _heat(title, first, second, found)
            for title, first, second in (
                ("Figure 10 (UniLu): mean slowdown, R=7 % over M=4", "unilu/R7", "unilu/M4"),
                ("Figure 11 (KIT): mean slowdown, R=3 % over M=8", "kit/R3", "kit/M8"),
            )
        ]
        tables.append(_beyond(found))
        return [table for table in tables if table.row_count]


def _cell(value: float | None, decimals: int = 0) -> str:
    return "" if value is None else grouped(value, decimals)


def _overview(site: Site, labels: Sequence[str], found: Sequence[World]) -> Table:
    numbers = "4, 6, 12 and Table 4" if site is UNILU else "5, 7, 13 and Table 5"
    table = Table(
        "setting", "max wait HRR (s)", "normal (s)", "max slowdown HRR", "normal", "mean HRR", "normal", ">= 100",
        "makespan (s)", "90 % over (h)", "95 % (h)", "paper (h)",
        title=f"{site.name}: Figures {numbers}", title_justify="left",
    )  # fmt: skip
    names = (
        ("max_wait_s_responsive", 0), ("max_wait_s_normal", 0),
        ("max_slowdown_responsive", 2), ("max_slowdown_normal", 1),
        ("mean_slowdown_responsive", 2), ("mean_slowdown_normal", 2),
        ("slowdown_100", 0), ("last_end_s", 0), ("completion_90_h", 1),
        ("completion_95_h", 1),
    )  # fmt: skip
    for label in labels:
        paper = _TABLE_5.get(label) if site is KIT else (2094, 2105)
        cells = [_cell(middle(found, f"{site.name}/{label}", _M + name), digits) for name, digits in names]
        table.add_row(label, *cells, " / ".join(map(str, paper or ())))
    return table


def _distribution(site: Site, labels: Sequence[str], found: Sequence[World]) -> Table:
    table = Table(
        "setting", *(f"<= {level:g}" for level in LEVELS),
        title=f"Figure {8 if site is UNILU else 9} ({site.name}): share of jobs by slowdown", title_justify="left",
    )  # fmt: skip
    for label in labels:
        cells = [
            "" if share is None else percent(share)
            for share in (
                middle(found, f"{site.name}/{label}", f"{_M}slowdown_at_most_{level:g}") for level in LEVELS
            )
        ]
        table.add_row(label, *cells)
    return table


def _jobs(found: Sequence[World]) -> Table:
    paper = {
        2819: "2 938 / 29 289 / 11.0; 5 876 / 0 / 2.00",
        918: "119 / 0 / 1.00; 119 / 0 / 1.00",
        9087: "20 920 / 12 702 / 7.07; 41 840 / 0 / 2.00 (there as job 9121, and without the wait's last digit)",
    }
    table = Table(
        "job",
        "setting",
        "run (s)",
        "wait (s)",
        "slowdown",
        "paper (R=5 %; M=4)",
        title="Table 3",
        title_justify="left",
    )
    for number in FOLLOWED:
        for label in ("unilu/R5", "unilu/M4"):
            values = [
                middle(found, label, f"{_M}job_{number}_{name}") for name in ("run_s", "wait_s", "slowdown")
            ]
            # The numbers of the stand-in's jobs mean nothing.
            if None not in values and any(world.has(label) and _is_log(world) for world in found):
                table.add_row(
                    str(number),
                    label,
                    _cell(values[0]),
                    _cell(values[1]),
                    _cell(values[2], 2),
                    paper[number],
                )
    return table


def _is_log(world: World) -> bool:
    """Job 918 of the log ran 119 s alone."""
    return world.rows["unilu/M4"].get(f"{_M}job_918_run_s") == 119  # noqa: PLR2004 - Table 3


def _heat(title: str, shared_label: str, plain_label: str, found: Sequence[World]) -> Table:
    """Above one: sharing is better. Medians over the seeds; cells without jobs are empty."""
    table = Table(
        "cores",
        *(f">= {grouped(length_s)} s" for length_s in LENGTH_EDGES_S),
        title=title,
        title_justify="left",
    )
    grids = [
        tuple(json.loads(str(world.rows[label][_M + "heat"])) for label in (shared_label, plain_label))
        for world in found
        if world.has(shared_label) and world.has(plain_label)
    ]
    if not grids:
        return table
    for row, size in enumerate(SIZE_EDGES):
        cells = []
        for column in range(len(LENGTH_EDGES_S)):
            ratios = [
                first[row][column][1] / second[row][column][1]
                for first, second in grids
                if first[row][column][0] and second[row][column][0]
            ]
            cells.append(_cell(median(ratios) if ratios else None, 2))
        table.add_row(f">= {size}", *cells)
    return table


def _beyond(found: Sequence[World]) -> Table:
    table = Table(
        "UniLu, M=4", "mean slowdown HRR", "normal", "max wait HRR (s)", "normal (s)", ">= 100", "makespan (s)",
        title="Beyond the paper (its sections 5.2 and 7)", title_justify="left",
    )  # fmt: skip
    names = (
        ("mean_slowdown_responsive", 3), ("mean_slowdown_normal", 3),
        ("max_wait_s_responsive", 0), ("max_wait_s_normal", 0), ("slowdown_100", 0),
        ("last_end_s", 0),
    )  # fmt: skip
    for what, label in (
        ("as in the paper", "unilu/M4"),
        ("HRR users think 120 s after 30 s", "unilu-thinking/M4"),
        ("only HRR jobs share", "unilu-low-use/M4"),
        ("best-effort jobs opt out", "unilu-opt-out/M4"),
        ("5 % overhead a neighbour", "unilu-overhead/M4"),
        ("jobs use half a core", "unilu-half-use/M4"),
    ):
        cells = [_cell(middle(found, label, _M + name), digits) for name, digits in names]
        if any(cells):
            table.add_row(what, *cells)
    return table


PAPER = OversubscribePaper()
