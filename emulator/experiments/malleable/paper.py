"""The paper as a plug-in: its runs, its claims, and its tables and figures with our numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from emulator.experiments.atlas.prior import load_prior
from emulator.experiments.claims import middle
from emulator.experiments.malleable.claims import (
    CHANGES,
    MOST_CHANGES,
    QUEUE,
    RESPONSE,
    SLDWA,
    TABLE_1,
    TABLE_2,
    USED,
    WAIT,
    WIDTH,
    claims,
)
from emulator.experiments.malleable.read import READINGS as MEANINGS
from emulator.experiments.malleable.runs import (
    FACTORS,
    KTH,
    LOGS,
    MIXED,
    OF_FIGURE_6,
    PENALTIES_S,
    READ_AT,
    READINGS,
    SHARES,
    baseline,
    experiments,
    inputs,
    label_of,
)
from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.experiments.atlas.prior import Prior
    from emulator.experiments.claims import World
    from emulator.experiments.malleable.runs import Log
    from emulator.experiments.paper import Options
    from emulator.experiments.readings import Reading


class MalleablePaper:
    """Tables 1 and 2, Figures 2 to 7 and section 6.1 on the logs KTH, CTC and SDSC."""

    title = "Hungershöfer: On the Combined Scheduling of Malleable and Rigid Jobs"
    reads_logs = True
    sweep = staticmethod(experiments)
    claims = staticmethod(claims)
    inputs = staticmethod(inputs)
    baseline = staticmethod(baseline)

    def about(self, options: Options) -> str:
        which = "KTH alone" if options.quick else "KTH, CTC and SDSC (CHPC and PC2 are not public)"
        return (
            f"Workload: the logs of the Parallel Workloads Archive, {which}. Planning scheduler, replanned at every event, lengths"
            " in whole seconds, run times cut at the estimate; a running malleable job keeps one node at least. Each"
            " seed draws other moldable and malleable jobs. Nothing is fitted to a claim; what the paper leaves open is"
            " run under other readings too."
        )

    def readings(self) -> Sequence[Reading]:
        return MEANINGS

    def prior(self) -> Prior:
        return load_prior(Path(__file__).with_name("atlas.yaml"))

    def tables(self, found: Sequence[World]) -> Sequence[Table]:
        logs = [log for log in LOGS if _median(found, label_of(log, 1.0, "rigid"), RESPONSE)]
        tables = [_table_2(found, logs), _figure_2(found, logs)]
        tables += [_by_share(found, log) for log in logs]
        return [*tables, _figure_5(found), _figures_6_and_7(found), _readings(found), _penalties(found)]


def _table_2(found: Sequence[World], logs: Sequence[Log]) -> Table:
    table = Table(title="Tables 1 and 2: all jobs rigid (the paper's figures in brackets)")
    for column in ("log", "nodes", "jobs", "MS s", "AWT s", "ART s", "SLDwA", "UTIL %"):
        table.add_column(column, justify="left" if column == "log" else "right")
    for log in logs:
        label = label_of(log, 1.0, "rigid")
        ours = [
            _median(found, label, figure, factor, digits)
            for figure, factor, digits in ((WAIT, 1, 0), (RESPONSE, 1, 0), (SLDWA, 1, 2), (USED, 100, 2))
        ]
        awt, art, sldwa, util = TABLE_2[log.name]
        papers = (grouped(awt), grouped(art), f"{sldwa:.2f}", f"{100 * util:.2f}")
        jobs = f"{_median(found, label, 'jobs_run')} \\[{grouped(TABLE_1[log.name])}]"
        both = (f"{here} \\[{printed}]" for here, printed in zip(ours, papers, strict=True))
        table.add_row(log.name, str(log.nodes), jobs, _median(found, label, "makespan_s"), *both)
    return table


def _figure_2(found: Sequence[World], logs: Sequence[Log]) -> Table:
    factors = sorted({*FACTORS, *(log.factor for log in logs)}, reverse=True)
    title = "Figure 2: all jobs rigid, SLDwA / ART in s by shrinking factor"
    return _grid(
        title, "log", [f"{factor:g}" for factor in factors], (
            (log.name, [_pair(found, label_of(log, factor, "rigid"), (SLDWA, 2), (RESPONSE, 0)) for factor in factors])
            for log in logs
        ),
    )  # fmt: skip


def _by_share(found: Sequence[World], log: Log) -> Table:
    shares = SHARES[log.name]
    rows = []
    for kind in ("moldable", "malleable"):
        labels = ["rigid", *(f"{kind}-{share}" for share in shares)]
        rows.append((kind, [_three(found, log, label) for label in labels]))
    mixed = [_three(found, log, f"mixed-{share}") for share in MIXED]
    rows.append((f"both, {', '.join(map(str, MIXED))} % each", mixed))
    title = f"Figures 3 and 4: {log.name} at {log.factor:g}: average width / ART in s / queue at submit by share of flexible jobs"
    return _grid(title, "jobs", ["0 %", *(f"{share} %" for share in shares)], rows)


def _three(found: Sequence[World], log: Log, jobs: str) -> str:
    return _pair(found, label_of(log, log.factor, jobs), (WIDTH, 2), (RESPONSE, 0), (QUEUE, 1))


def _figure_5(found: Sequence[World]) -> Table:
    shares = SHARES["KTH"]
    rows = []
    for kind in ("moldable", "malleable"):
        cells = []
        for share in shares:
            label = label_of(KTH, KTH.factor, f"{kind}-{share}")
            cells.append(
                _pair(
                    found,
                    label,
                    ("job_classes.rigid_mean_response_s", 0),
                    (f"job_classes.{kind}_mean_response_s", 0),
                )
            )
        rows.append((f"rigid / {kind}", cells))
    return _grid("Figure 5: KTH at 0.75: ART in s by class", "jobs", [f"{share} %" for share in shares], rows)


def _figures_6_and_7(found: Sequence[World]) -> Table:
    names = ["rigid", *(f"{kind}-{OF_FIGURE_6}" for kind in ("moldable", "malleable"))]
    rows = [
        (name, [_pair(found, label_of(KTH, factor, name), (RESPONSE, 0), (USED, 3)) for factor in FACTORS])
        for name in names
    ]
    title = f"Figures 6 and 7: KTH, {OF_FIGURE_6} % flexible: ART in s / utilisation by shrinking factor"
    return _grid(title, "jobs", [f"{factor:g}" for factor in FACTORS], rows)


def _readings(found: Sequence[World]) -> Table:
    rigid, malleable = "job_classes.rigid_mean_response_s", "job_classes.malleable_mean_response_s"
    rows = []
    for name in ("", *READINGS):
        labels = [label_of(KTH, KTH.factor, f"malleable-{share}", name) for share in READ_AT]
        rows.append(
            (
                name or "default",
                [_pair(found, label, (rigid, 0), (malleable, 0), (WIDTH, 2)) for label in labels],
            )
        )
    title = (
        "KTH at 0.75, malleable jobs read otherwise: ART of rigid / of malleable jobs in s / average width"
    )
    return _grid(title, "reading", [f"{share} %" for share in READ_AT], rows)


def _penalties(found: Sequence[World]) -> Table:
    rows = []
    for name in ("", *(f"penalty-{penalty}" for penalty in PENALTIES_S), f"penalty-{PENALTIES_S[-1]}-work"):
        label = label_of(KTH, KTH.factor, "malleable-100", name)
        cells = [_median(found, label, figure, 1, digits) for figure, digits in
                 ((RESPONSE, 0), (CHANGES, 2), (MOST_CHANGES, 0))]  # fmt: skip
        rows.append((name.removeprefix("penalty-") or "0", cells))
    columns = ["ART s", "changes a job", "at most"]
    return _grid(
        "Section 6.1: KTH at 0.75, all malleable, by seconds for each change", "penalty s", columns, rows
    )


def _grid(title: str, first: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    for name, cells in rows:
        table.add_row(name, *cells)
    return table


def _pair(found: Sequence[World], label: str, *figures: tuple[str, int]) -> str:
    """Medians of several figures of a run, or nothing if it was not run."""
    cells = [_median(found, label, figure, 1, digits) for figure, digits in figures]
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def _median(found: Sequence[World], label: str, figure: str, factor: float = 1, digits: int = 0) -> str:
    value = middle(found, label, figure)
    return "" if value is None else grouped(value * factor, digits)


PAPER = MalleablePaper()
