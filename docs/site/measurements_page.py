"""The parts of the site's page of results that `measurements.json` has the figures of."""

from __future__ import annotations

import ast
from itertools import groupby
from math import floor, log10
from typing import TYPE_CHECKING, TypeVar

from measurements import BENCHMARKS, SLICES

from emulator.schedulers.slurm.releases import RELEASES
from emulator.text.number_text import NO_FIGURE, grouped, number, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from measurements import LiveRow, Measured, Measurements, PeerRow, ReleaseRow, SpeedRow, TwinRow

    _Columns = dict[str, Callable[..., str]]
    _Row = TypeVar("_Row", bound=Measured)

_PROGRAMS = {
    "ours": "this emulator",
    "accasim": "AccaSim",
    "batsim": "pybatsim",
    "rlscheduler": "RLScheduler",
    "alea": "Alea",
}
"""As people call them. Another program has the name that its rows say."""
_EACH_SLURM = """
## Slurm by release

Tests of the real one that passed, of those there are: [the driver and the service](../balancer/drivers.md#slurm) and
[live runs](../live-slurm.md).

The row *twin* counts slices that were measured, and those whose mean wait is within 1.7 % of Slurm's
([below](#the-twin-and-the-real-slurm)).

"""
_NEAR = 0.017
_TWIN = """
## The twin and the real Slurm

A real Slurm ran the jobs of a slice on a fast clock, then [the twin](../slurm-twin.md#against-the-real-one) ran them.

* **Wait**: the mean of all jobs, in seconds of cluster time.
* **Range**: six runs of the twin, whose backfill cycles come at other times.
* **Apart**: how far a job's start in the twin is from its start on Slurm. *Far* is more than `bf_interval`.
* **Speed**: that of the clock, as often as the wall's.

In the twin nodes are free as long after an end as in that run.

The rules were written without `unseen-theta`, `unseen-sdsc` and `outages`. The commands run this machine's Slurm;
`--set live.batch.slurm.root=FOLDER` takes [another release](../live-slurm.md#another-release-of-slurm).
"""
_LIVE = """
## Live runs and virtual time

Each scenario ran twice: in virtual time, and with processes on a clock that waits for them. `emulator compare --same`
compares the jobs and the decisions about on-demand requests, to the microsecond. This runs all of them:

    python benchmarks/live_equals_virtual.py

*Wall s* is the time in which the live clock ran, *speed* the cluster time of a second. By hand, the second run has
`--clock live --set live.pace=held --set live.jobs=sleep --set live.speed=60000` besides:

"""
_PEERS = """
## Other simulators

Each program ran the same jobs of a log, in a process of its own, by FCFS with EASY. Time is processor time, with the
log's reading. [The benchmark](../benchmarks.md#other-simulators) installs them. A start is equal if the same job starts
then here: by the textbook's rules, or by those that
[`like`](../schedulers.md#as-another-simulator-does-it-like) has for the program.

"""
_SPEED = """
## Speed

[How to read the figures](../benchmarks.md), and what they mean. A column is named by its unit; a *ratio* has none.
"""
_UNITS = {"mib": "MiB", "mb": "MB"}


def sections(measured: Measurements) -> str:
    """In Markdown, behind the heading of the page."""
    return "".join(
        (
            _each_slurm(measured.slurm_releases, measured.slurm_twin),
            _twin(measured.slurm_twin),
            _live(measured.live),
            _peers(measured.peers),
            _speed(measured.speed),
        )
    )


def _each_slurm(rows: Sequence[ReleaseRow], slices: Sequence[TwinRow]) -> str:
    """A row an ability, a column a release; the last row is the twin's."""
    counts = {(row.ability, row.release): f"{row.passed} of {row.tests}" for row in rows}
    for release in _releases(slices):
        apart = [
            abs(row.twin_mean_wait_s / row.real_mean_wait_s - 1) for row in slices if row.release == release
        ]
        near = sum(each <= _NEAR for each in apart)
        counts["twin", release] = f"{len(apart)} of {len(_slices())}; {near} near"
    abilities = dict.fromkeys(ability for ability, _ in counts)
    columns: _Columns = {"ability": str} | {
        release: lambda ability, release=release: counts.get((ability, release), NO_FIGURE)
        for release in _releases((*rows, *slices))
    }
    return _EACH_SLURM + "\n".join((_commands(rows), _table(columns, abilities), _when(rows, _on_release)))


def _on_release(row: ReleaseRow) -> str:
    return f"{row.ability} ({row.slurm})"


def _releases(rows: Iterable[ReleaseRow | TwinRow]) -> list[str]:
    names = {*RELEASES, *(row.release for row in rows)}
    return sorted(names, key=lambda name: [*map(int, name.split("."))])


def _slices() -> list[str]:
    return sorted(path.stem for path in SLICES.glob("*.yaml"))


def _twin(rows: Sequence[TwinRow]) -> str:
    of = {name: [row for row in rows if row.release == name] for name in _releases(rows)}
    return _TWIN + "".join(_release(name, of[name]) for name in of)


def _release(name: str, rows: list[TwinRow]) -> str:
    slices = _slices()
    missing = [each for each in slices if each not in {row.scenario for row in rows}]
    head = f"\n### Slurm {name}\n\n"
    if not rows:
        return f"{head}Not measured: none of the {len(slices)} slices ran on it.\n"
    left = f" Not measured: {', '.join(f'`{each}`' for each in missing)}." if missing else ""
    columns: _Columns = {
        "slice": _slice,
        "nodes": lambda row: grouped(row.nodes),
        "jobs": lambda row: grouped(row.jobs),
        "wait on Slurm, s": lambda row: grouped(row.real_mean_wait_s, 1),
        "wait in the twin, s": lambda row: grouped(row.twin_mean_wait_s, 1),
        "off": lambda row: percent(row.twin_mean_wait_s / row.real_mean_wait_s - 1, 1, signed=True),
        "apart, median s": lambda row: number(row.median_start_off_s),
        "jobs far apart": lambda row: grouped(row.jobs_beyond_bf_interval),
        "range, s": _range,
        "`bf_interval`, s": lambda row: grouped(row.bf_interval_s),
        "speed": lambda row: f"{row.speed:g}x",
        "Slurm": lambda row: row.slurm,
    }
    said = "".join(f"* {_slice(row)}: {_about(row)}.{_note(row)}\n" for row in rows)
    parts = (
        f"{len(rows)} of {len(slices)} slices.{left}",
        _table(columns, rows),
        said,
        _when(rows, _slice),
        _commands(rows),
    )
    return head + "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _slice(row: TwinRow) -> str:
    return f"`{row.scenario}`"


def _about(row: TwinRow) -> str:
    """The first line of the scenario says it."""
    line = (SLICES / f"{row.scenario}.yaml").read_text("utf-8").partition("\n")[0]
    return line.removeprefix("# ").removesuffix(".")


def _note(row: Measured) -> str:
    return f" {row.note}" if row.note else ""


def _range(row: TwinRow) -> str:
    least, most = row.twin_least_mean_wait_s, row.twin_most_mean_wait_s
    return NO_FIGURE if least is None or most is None else f"{grouped(least, 1)} to {grouped(most, 1)}"


def _live(rows: Sequence[LiveRow]) -> str:
    columns: _Columns = {
        "mechanism": _mechanism,
        "nodes": lambda row: grouped(row.nodes),
        "jobs": lambda row: grouped(row.jobs),
        "decisions": lambda row: grouped(row.decisions),
        "other starts": lambda row: grouped(row.starts_that_differ),
        "other states": lambda row: grouped(row.states_that_differ),
        "the same run": lambda row: "yes" if row.is_same else "**no**",
        "wall s": lambda row: grouped(row.live_wall_s, 1),
        "speed": lambda row: f"{grouped(row.live_speed)}x",
    }
    said = "".join(f"* {_mechanism(row)}: {row.about}.{_note(row)}\n" for row in rows)
    return _LIVE + "\n".join((_commands(rows), _table(columns, rows), said, _when(rows, _mechanism)))


def _mechanism(row: LiveRow) -> str:
    return _plain(row.mechanism)


def _peers(rows: Sequence[PeerRow]) -> str:
    columns: _Columns = {
        "log": lambda row: _plain(row.log),
        "program": _program,
        "jobs": lambda row: grouped(row.jobs),
        "jobs per s": lambda row: grouped(row.jobs_per_s),
        "peak, MiB": lambda row: grouped(row.peak_mib),
        "equal starts, textbook": lambda row: grouped(row.equal_textbook),
        "equal starts, `like`": lambda row: NO_FIGURE if row.program == "ours" else grouped(row.equal_like),
    }
    said = "".join(f"* {_of_log(row)}:{_note(row)}\n" for row in rows if row.note)
    return _PEERS + "\n".join((_commands(rows), _table(columns, rows), said, _when(rows, _of_log)))


def _program(row: PeerRow) -> str:
    return f"{_PROGRAMS.get(row.program, row.program)} {row.version}"


def _of_log(row: PeerRow) -> str:
    return f"{_program(row)} on {_plain(row.log)}"


def _speed(rows: Sequence[SpeedRow]) -> str:
    names = dict.fromkeys(row.benchmark for row in rows)
    return _SPEED + "".join(
        _benchmark(name, [row for row in rows if row.benchmark == name]) for name in names
    )


def _benchmark(name: str, rows: list[SpeedRow]) -> str:
    """What it compares, and a table for each command."""
    about = ast.get_docstring(ast.parse((BENCHMARKS / f"{name}.py").read_text("utf-8"))) or ""
    parts = [f"### {name.replace('_', ' ').capitalize()}", about.partition("\n")[0]]
    for _, same in groupby(rows, key=lambda row: row.command):
        parts += _of_command(list(same))
    return "\n" + "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _of_command(rows: list[SpeedRow]) -> Iterator[str]:
    columns: _Columns = {"what": _what}
    for figure in dict.fromkeys(name for row in rows for name in row.figures):
        words = (_UNITS.get(word, word) for word in figure.split("_"))
        columns[" ".join(words)] = lambda row, figure=figure: _short(row.figures.get(figure))
    yield f"```text\n{rows[0].command}\n```"  # indented, it would go on with a list that is before it
    yield _table(columns, rows)
    yield "".join(f"* {_what(row)}:{_note(row)}\n" for row in rows if row.note)
    yield _when(rows, _what)


def _what(row: SpeedRow) -> str:
    """Commands as code: the site would make one dash of two."""
    return f"`{row.what}`" if row.what.startswith("emulator ") else _plain(row.what)


def _short(value: float | None) -> str:
    """As it was kept: in three figures, or a count."""
    return grouped(value, 0 if value is None or value.is_integer() else max(0, 2 - floor(log10(value))))


def _when(rows: Sequence[_Row], name: Callable[[_Row], str]) -> str:
    """When and where they were measured: in one sentence if that is the same for all."""
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.date}, version {row.emulator}; {row.machine}", []).append(row)
    if len(groups) == 1:
        return f"Measured: {next(iter(groups))}.\n"
    return "Measured:\n\n" + "".join(f"* {when}: {', '.join(map(name, of))}\n" for when, of in groups.items())


def _table(columns: _Columns, rows: Iterable[object]) -> str:
    lines = [
        [*columns],
        ["---"] * len(columns),
        *([cell(row).replace(" ", "\u00a0") for cell in columns.values()] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _commands(rows: Iterable[Measured]) -> str:
    """Each once, in the order of the rows."""
    return "".join(f"    {command}\n" for command in dict.fromkeys(row.command for row in rows))


def _plain(name: str) -> str:
    return name.replace("_", "\\_")
