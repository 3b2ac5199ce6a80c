"""`emulator reproduce PAPER --fit`: every way to read a paper, by how many of its claims hold, on seeds of its own.

The seeds are not those of the claims, so that what is chosen here is not chosen for the figures that are then told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from rich.table import Table

from emulator.experiments.claims import counted, judge, worlds
from emulator.experiments.criteria import Outcome
from emulator.experiments.paper import LEAST_SEEDS
from emulator.experiments.readings import combinations
from emulator.sweeps.grid import Run, Sweep
from emulator.sweeps.store import PARQUET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from emulator.experiments.paper import Options, Paper
    from emulator.experiments.readings import Reading

FIRST_SEED = 501
"""Seeds 501 to 1000 are for choosing readings."""
_READ = "reading"


@dataclass(frozen=True, slots=True)
class Scored:
    """One way to read the paper, and how the claims come out."""

    readings: Mapping[str, str]
    holds: tuple[str, ...]
    """The claims that hold."""
    counts: Mapping[Outcome, int]

    @property
    def score(self) -> tuple[int, int]:
        """What is compared: claims that hold, and those that do not (fewer are better)."""
        return len(self.holds), -self.counts[Outcome.FAILS]

    def as_json(self) -> dict[str, Any]:
        return {"readings": dict(self.readings), "counts": dict(self.counts), "holds": list(self.holds)}


def options_for(options: Options, chosen: Mapping[str, str]) -> Options:
    """The same experiment, read so, on the seeds of the search."""
    seeds = options.seeds or LEAST_SEEDS + 1
    return replace(options, readings=dict(chosen), first_seed=FIRST_SEED, seeds=seeds)


def plan(paper: Paper, options: Options, known: Sequence[Reading]) -> tuple[Sweep, list[dict[str, str]]]:
    """The runs of all ways to read the paper, in one sweep, and the ways. Raises ScenarioError."""
    ways = list(combinations(known, options.readings))
    runs = [
        Run({**run.varied, _READ: str(number)}, run.scenario, run.files)
        for number, chosen in enumerate(ways)
        for run in paper.sweep(options_for(options, chosen)).runs
    ]
    return Sweep("fit", tuple(runs)), ways


def scores(paper: Paper, options: Options, ways: Sequence[Mapping[str, str]], folder: Path) -> list[Scored]:
    """The ways by what the sweep in this folder found, the best first; of equals the one nearer to the defaults."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in pq.read_table(folder / PARQUET).to_pylist():
        rows.setdefault(str(row[_READ]), []).append(row)
    found = []
    for number, chosen in enumerate(ways):
        claims = paper.claims(options_for(options, chosen))
        verdicts = judge(claims, worlds(rows.get(str(number), [])))
        held = tuple(verdict.claim.id for verdict in verdicts if verdict.holds)
        found.append(Scored(chosen, held, counted(verdicts)))
    return sorted(found, key=lambda each: each.score, reverse=True)


def front(found: Sequence[Scored]) -> list[Scored]:
    """Those that no other one equals or beats in the claims themselves: none holds all of theirs and more."""
    return [each for each in found if not any(set(each.holds) < set(other.holds) for other in found)]


def table(found: Sequence[Scored], known: Sequence[Reading]) -> Table:
    """The front, the best first."""
    best = set(found[0].holds)
    shown = Table(
        title="The front: ways to read the paper of which no other one holds the same claims and more"
    )
    for name in (
        *(reading.name for reading in known),
        "holds",
        "does not",
        "cannot be told",
        "against the first",
    ):
        shown.add_column(name)
    for each in front(found):
        more, fewer = sorted(set(each.holds) - best), sorted(best - set(each.holds))
        shown.add_row(
            *(each.readings[reading.name] for reading in known),
            *(str(each.counts[outcome]) for outcome in (Outcome.HOLDS, Outcome.FAILS, Outcome.OPEN)),
            " ".join([*(f"+{name}" for name in more), *(f"-{name}" for name in fewer)]),
        )
    return shown
