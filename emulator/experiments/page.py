"""What `emulator reproduce` leaves for people: one self-contained page with claims, tables and plots."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from emulator.experiments.claims import open_points, summary
from emulator.experiments.paper import DrawsFigures
from emulator.report.templates import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from emulator.experiments.claims import Verdict, World
    from emulator.experiments.paper import Options, Paper

_environment = environment(Path(__file__).parent)
_WIDTH = 150


def render(paper: Paper, options: Options, verdicts: Sequence[Verdict], found: Sequence[World]) -> str:
    """The page. The same runs give the same bytes."""
    return _environment.get_template("paper.html.j2").render(
        title=paper.title,
        about=paper.about(options),
        verdicts=verdicts,
        summary=summary(verdicts),
        open_points=open_points(verdicts),
        tables=[(str(table.title or ""), _as_text(table)) for table in paper.tables(found)],
        plots=paper.figures(found) if isinstance(paper, DrawsFigures) else [],
    )


def _as_text(table: Table) -> str:
    console = Console(file=io.StringIO(), width=_WIDTH, record=True, color_system=None)
    console.print(table)
    return console.export_text().rstrip()
