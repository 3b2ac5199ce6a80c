"""What a paper's experiments are: a plug-in of the group `emulator.papers`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from emulator.plugins import make_plugin
from emulator.runs.scenario import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.table import Table

    from emulator.experiments.claims import Claim, World
    from emulator.report.drawing import Plot
    from emulator.sweeps.grid import Sweep

GROUP = "emulator.papers"
LEAST_SEEDS = 5
"""With fewer no sign test can decide at our level; `--quick` has as many."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an experiment is to be run. `traces`: a folder with the paper's own logs; None: the stand-in."""

    quick: bool = False
    traces: Path | None = None
    seeds: int | None = None
    """How many; None: as many as the paper's experiments want."""
    readings: Mapping[str, str] = field(default_factory=dict)
    """How points that the paper leaves open are read, by name; the others as by default (`readings.py`)."""
    first_seed: int = 1001
    """Those from 1001 on are for the claims, smaller ones for trying things out and for choosing readings."""
    world: Mapping[str, float | int | str] = field(default_factory=dict)
    """A world of the atlas: values of the inputs that the paper does not publish. It goes before `readings`."""

    def seed_count(self, usual: int) -> int:
        """How many seeds; `usual`: of the whole experiments, if nobody says."""
        return self.seeds or (LEAST_SEEDS if self.quick else usual)

    def seed_list(self, usual: int) -> list[int]:
        """The seeds, `seed_count` of them."""
        return list(range(self.first_seed, self.first_seed + self.seed_count(usual)))


class Paper(Protocol):
    """The experiments of one paper."""

    title: str
    reads_logs: bool
    """Whether it replays recorded logs (`Options.traces`); otherwise all its workloads are generated."""

    def about(self, options: Options) -> str:
        """What the workloads are and what is calibrated, in a few sentences for the reader of the table."""

    def sweep(self, options: Options) -> Sweep:
        """All runs; each has a `label` that claims know it by. Raises ScenarioError."""

    def claims(self, options: Options) -> Sequence[Claim]:
        """The claims that these runs can judge."""

    def tables(self, found: Sequence[World]) -> Sequence[Table]:
        """The paper's tables and figures with our numbers."""


@runtime_checkable
class DrawsFigures(Protocol):
    """The ability of a paper to show its figures as plots."""

    def figures(self, found: Sequence[World]) -> Sequence[tuple[str, str, Plot]]:
        """Title, caption and plot of each."""


def find_paper(name: str) -> Paper:
    """The paper of this name. Raises ScenarioError with the nearest right name."""
    try:
        return cast("Paper", make_plugin(GROUP, name))
    except ValueError as error:
        raise ScenarioError(str(error)) from error
