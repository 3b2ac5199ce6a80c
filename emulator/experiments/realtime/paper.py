"""The plug-in `realtime` of `emulator reproduce`: runs, claims and figures of realtime-wang-2017."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table

from emulator.experiments.atlas.prior import load_prior
from emulator.experiments.claims import MissingRunError
from emulator.experiments.realtime.claims import claims
from emulator.experiments.realtime.measures import (
    BJ_SLOWDOWN,
    BJ_TURNAROUND,
    CLASSES,
    OVERALL,
    PRODUCTIVE,
    RT_SLOWDOWN,
    RT_TURNAROUND,
    mean,
)
from emulator.experiments.realtime.read import READINGS, ReadingChoice
from emulator.experiments.realtime.runs import (
    ALIKE,
    ONE,
    OTHER_WEEKS,
    PERCENTS,
    SCHEMES,
    baseline,
    experiments,
    inputs,
    samples,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.experiments.atlas.prior import Prior
    from emulator.experiments.claims import World
    from emulator.experiments.paper import Options
    from emulator.experiments.readings import Reading

_NAMES = {
    "baseline": "baseline", "hpq": "hpQ", "pre_rest": "PRE-REST", "pre_ckpt_sys": "PRE-CKPT-SYS",
    "pre_ckpt_app": "PRE-CKPT-APP", "pre_ckpt": "PRE-CKPT",
}  # fmt: skip
_SLOWDOWN = ((RT_SLOWDOWN, 1.0, 2), (BJ_SLOWDOWN, 1.0, 2))
_BOTH = (*_SLOWDOWN, (RT_TURNAROUND, 1 / 3600, 1), (BJ_TURNAROUND, 1 / 3600, 1))


class RealtimePaper:
    """Figures 1 to 8."""

    title = "Wang et al.: Supporting Real-Time Jobs on the IBM Blue Gene/Q: Simulation-Based Study"
    reads_logs = False
    sweep = staticmethod(experiments)
    claims = staticmethod(claims)
    inputs = staticmethod(inputs)
    baseline = staticmethod(baseline)

    def about(self, options: Options) -> str:
        read = ReadingChoice.of(options)
        low, high = ALIKE
        alike = f"of the weeks drawn those with a baseline slowdown of {low:g} to {high:g} (the paper's is about 8)"
        return (
            "Workload: generated weeks with the row of Wk-a in Table 1 (Mira's logs are not published), on Mira's 96"
            f" midplanes. Chosen: load {read.load:g}, campaigns of {read.campaign:g} jobs, none wider than"
            f" {read.widest} nodes, and {alike if read.alike_only else 'all weeks drawn'}; nothing else. Each figure"
            f" is the mean over {samples(options)} samples of real-time jobs, each seed is another week."
        )

    def readings(self) -> Sequence[Reading]:
        return READINGS

    def prior(self) -> Prior:
        return load_prior(Path(__file__).with_name("atlas.yaml"))

    def tables(self, found: Sequence[World]) -> Sequence[Table]:
        sizes = {
            f"{_NAMES[scheme]}, {size} GB": scheme if size == 4 else f"{scheme}-{size}GB"  # noqa: PLR2004 - the default
            for scheme in ("pre_ckpt_sys", "pre_ckpt")
            for size in (1, 4, 16)
        }
        intervals = {
            "PRE-CKPT-SYS, 15 min": "pre_ckpt_sys-15min", "30 min": "pre_ckpt_sys", "60 min": "pre_ckpt_sys-60min",
            "PRE-CKPT-APP, 15 %": "pre_ckpt_app-15%", "30 %": "pre_ckpt_app", "50 %": "pre_ckpt_app-50%",
            "PRE-CKPT": "pre_ckpt",
        }  # fmt: skip
        every = {_NAMES[scheme]: scheme for scheme in SCHEMES}
        first = {_NAMES[scheme]: scheme for scheme in SCHEMES[:3]}
        every["hpQ, backfilled"] = first["hpQ, backfilled"] = "hpq-backfilled"
        used = ((OVERALL, 100.0, 1), (PRODUCTIVE, 100.0, 1))
        jobs = "real-time / batch slowdown / real-time / batch turnaround, h"
        return [
            _table(found, "Figures 1(a), 1(b) and 2: " + jobs, every, _BOTH),
            _table(found, "Figure 1(c): overall / productive utilisation, %", first, used),
            *(
                _table(
                    found,
                    f"Figure {number}, {name.strip('_').replace('_', '-')} jobs: {jobs}",
                    every,
                    [(figure + name, factor, digits) for figure, factor, digits in _BOTH],
                )
                for number, name in enumerate(CLASSES, start=3)
            ),
            _table(found, "Figure 7: real-time / batch slowdown by checkpoint data", sizes, _SLOWDOWN),
            _table(
                found, "Figure 8: real-time / batch slowdown by checkpoint interval", intervals, _SLOWDOWN
            ),
            _other_readings(found),
        ]


def _table(
    found: Sequence[World], title: str, variants: dict[str, str], figures: Iterable[tuple[str, float, int]]
) -> Table:
    """A row a variant, a column a share of real-time jobs."""
    shown = [share for share in PERCENTS if _median(found, "baseline", share, _SLOWDOWN[1])]
    table = Table("", *(f"{share} %" for share in shown), title=title)
    for name, variant in variants.items():
        cells = [
            " / ".join(_median(found, variant, share, figure) or "-" for figure in figures) for share in shown
        ]
        table.add_row(name, *cells)
    return table


def _other_readings(found: Sequence[World]) -> Table:
    readings = {
        "as above": "", "any nodes (flat)": "flat:", "preempted keep their place": "place:",
        "best-fit backfilling": "best_fit:", "shortest-first backfilling": "shortest_first:",
        **{f"week {name}": f"week-{name}:" for name in OTHER_WEEKS},
    }  # fmt: skip
    table = Table("", *(_NAMES[scheme] for scheme in SCHEMES))
    table.title = f"Other readings, and other weeks: real-time / batch slowdown at {ONE} %"
    for name, prefix in readings.items():
        cells = [
            " / ".join(_median(found, prefix + scheme, ONE, figure) or "-" for figure in _SLOWDOWN)
            for scheme in SCHEMES
        ]
        if any(cell != "- / -" for cell in cells):
            table.add_row(name, *cells)
    return table


def _median(found: Sequence[World], variant: str, share: int, shown: tuple[str, float, int]) -> str:
    """Over the seeds; empty if there are no such runs."""
    figure, factor, digits = shown
    values = []
    for world in found:
        try:
            values.append(mean(world, variant, share, figure))
        except MissingRunError:
            continue
    return f"{median(values) * factor:.{digits}f}" if values else ""


PAPER = RealtimePaper()
