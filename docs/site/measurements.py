"""The results file: what was last measured of Slurm's twin, live runs, other simulators, and our own speed.

`measurements.json` beside this module has the figures, and the site's page of results shows them. Each line measures
some of them and renews their rows; rows that were not measured stay:

    emulator calibrate slurm SLICE.yaml --json | python docs/site/measurements.py slurm_twin --machine idle
    python benchmarks/slurm_abilities.py --json | python docs/site/measurements.py slurm_releases --machine idle
    python benchmarks/live_equals_virtual.py --json | python docs/site/measurements.py live --machine idle
    python benchmarks/peers.py --json | python docs/site/measurements.py peers --machine idle
    python benchmarks/scheduling.py --json | python docs/site/measurements.py speed --machine idle

`speed` takes what any other benchmark prints with `--json`.

What cannot be read changes nothing: a message, and exit status 2. A note is written by hand, and goes with its row.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import emulator
from balancer.clock import US, utc_us
from balancer.whole_file import write_text
from balancer.wrong_values import sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEPT = Path(__file__).with_name("measurements.json")
ROOT = Path(__file__).resolve().parents[2]
SLICES = ROOT / "scenarios" / "slurm-slices"
BENCHMARKS = ROOT / "benchmarks"
_FIGURES = 3
"""So many figures of a speed are kept: machines that are alike differ by more."""
_Count = Annotated[int, Field(ge=0)]
_Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1)]
_Version = Annotated[str, Field(pattern=r"^\d+\.\d+")]
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class InputError(ValueError):
    """What was read is no measurement; the text says where and why."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Measured(_Strict):
    """What each row says besides its figures. `emulator`: our version; `machine`: its cores, idle or shared.

    `KEY`: what a later measurement of the same has, too: its row takes this one's place.
    """

    KEY: ClassVar[tuple[str, ...]] = ()
    command: _Text
    emulator: _Text
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    machine: _Text
    note: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(str(getattr(self, name)) for name in self.KEY)


def release_of(version: str) -> str:
    """`26.05` of `26.05.5`."""
    return ".".join(version.split(".")[:2])


class TwinRow(Measured):
    """A slice on the real Slurm and in the twin; see `Calibration`. A figure that was not kept is missing."""

    KEY = ("scenario", "release")

    scenario: _Text
    slurm: _Version
    nodes: _Count
    jobs: _Count
    speed: _Figure
    real_mean_wait_s: _Figure
    twin_mean_wait_s: _Figure
    twin_least_mean_wait_s: _Figure | None = None
    twin_most_mean_wait_s: _Figure | None = None
    median_start_off_s: _Figure | None = None
    bf_interval_s: _Count
    jobs_beyond_bf_interval: _Count | None = None

    @property
    def release(self) -> str:
        return release_of(self.slurm)


class ReleaseRow(Measured):
    """Tests of an ability on a real Slurm, and how many passed."""

    KEY = ("ability", "release")

    ability: _Text
    slurm: _Version
    tests: _Count
    passed: _Count

    @property
    def release(self) -> str:
        return release_of(self.slurm)


class LiveRow(Measured):
    """A mechanism in both clocks, as `benchmarks/live_equals_virtual.py` says."""

    KEY = ("mechanism",)

    mechanism: _Text
    about: _Text
    nodes: _Count
    jobs: _Count
    decisions: _Count
    starts_that_differ: _Count
    states_that_differ: _Count
    same_decisions: bool
    is_same: bool
    live_wall_s: _Figure
    live_speed: _Figure


class PeerRow(Measured):
    """A program on the first `jobs` of a log: speed, memory, and its starts that are ours by two sets of rules."""

    KEY = ("log", "program", "jobs")

    log: _Text
    program: _Text
    version: _Text
    jobs: _Count
    jobs_per_s: _Figure | None = None
    peak_mib: _Figure | None = None
    equal_textbook: _Count | None = None
    equal_like: _Count | None = None


class SpeedRow(Measured):
    """What a benchmark measured: its figures, by names that end with their unit (`wall_s`, `jobs_per_s`)."""

    KEY = ("benchmark", "what")

    benchmark: _Text
    what: _Text
    figures: dict[_Name, _Figure] = Field(min_length=1)


_Row = TypeVar("_Row", TwinRow, ReleaseRow, LiveRow, PeerRow, SpeedRow)


class Measurements(_Strict):
    slurm_twin: tuple[TwinRow, ...] = Field(strict=False)
    slurm_releases: tuple[ReleaseRow, ...] = Field(strict=False)
    live: tuple[LiveRow, ...] = Field(strict=False)
    peers: tuple[PeerRow, ...] = Field(strict=False)
    speed: tuple[SpeedRow, ...] = Field(strict=False)


def _twin_rows(printed: list[dict[str, Any]], measured: dict[str, str]) -> list[TwinRow]:
    rows = []
    for place, each in enumerate(printed):
        name, apart = each.get("scenario"), each.get("differences")
        if not (SLICES / f"{name}.yaml").exists():
            known = ", ".join(sorted(path.stem for path in SLICES.glob("*.yaml")))
            raise InputError(f"{place}.scenario: {name!r} is none of the slices: {known}")
        if each.get("slurm") is None:
            raise InputError(f"{place}.slurm: is not known: the run's logs do not name Slurm's version")
        if not isinstance(apart, list):
            raise InputError(f"{place}.differences: must be a list, not {apart!r}")
        at_speed = f"--set live.speed={each['speed']:g}" if isinstance(each.get("speed"), float) else ""
        command = f"emulator calibrate slurm scenarios/slurm-slices/{name}.yaml {at_speed}".strip()
        rows.append(each | {"command": command, "jobs_beyond_bf_interval": len(apart)})
    return _rows(TwinRow, rows, measured)


def _release_rows(printed: list[dict[str, Any]], measured: dict[str, str]) -> list[ReleaseRow]:
    command = {"command": "python benchmarks/slurm_abilities.py"}
    return _rows(ReleaseRow, [command | each for each in printed], measured)


def _live_rows(printed: list[dict[str, Any]], measured: dict[str, str]) -> list[LiveRow]:
    return _rows(LiveRow, printed, measured)


def _peer_rows(printed: list[dict[str, Any]], measured: dict[str, str]) -> list[PeerRow]:
    return _rows(PeerRow, [{"command": "python benchmarks/peers.py"} | each for each in printed], measured)


def _speed_rows(printed: list[dict[str, Any]], measured: dict[str, str]) -> list[SpeedRow]:
    known = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text("utf-8")}
    rows = []
    for place, each in enumerate(printed):
        if each.get("benchmark") not in known:
            raise InputError(
                f"{place}.benchmark: {each.get('benchmark')!r} is none of them: {', '.join(sorted(known))}"
            )
        figures = each.get("figures")
        if isinstance(figures, dict):
            figures = {name: _in_short(value) for name, value in figures.items()}
        rows.append(each | {"figures": figures})
    return _rows(SpeedRow, rows, measured)


SUBJECTS: dict[str, Callable[[list[dict[str, Any]], dict[str, str]], Sequence[Measured]]] = {
    "slurm_twin": _twin_rows,
    "slurm_releases": _release_rows,
    "live": _live_rows,
    "peers": _peer_rows,
    "speed": _speed_rows,
}
"""By name: rows of what the command prints."""


def _rows(kind: type[_Row], printed: list[dict[str, Any]], measured: dict[str, str]) -> list[_Row]:
    """What the command printed of the figures that a row has, to a tenth. Raises InputError."""
    rows = []
    for place, each in enumerate(printed):
        figures = {name: _tenth(each[name]) for name in kind.model_fields if name in each}
        try:
            rows.append(kind.model_validate(figures | measured))
        except ValidationError as error:
            raise InputError("\n".join(f"{place}.{wrong}" for wrong in sentences(error))) from error
    return rows


def _tenth(figure: Any) -> Any:
    return round(figure, 1) if isinstance(figure, float) else figure


def _in_short(value: Any) -> Any:
    return float(f"{value:.{_FIGURES}g}") if isinstance(value, float) else value


def load(file: Path = KEPT) -> Measurements:
    """The results file. Raises InputError, which names the file and the row."""
    try:
        content = json.loads(file.read_text("utf-8"))
        return Measurements.model_validate(content)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    except ValidationError as error:
        raise InputError("\n".join(f"{file}: {each}" for each in sentences(error))) from error


def renewed(kept: Measurements, subject: str, printed: Any, measured: dict[str, str]) -> Measurements:
    """With the rows that a command printed in the place of those before, or behind them. Raises InputError."""
    listed = printed if isinstance(printed, list) else [printed]
    if not listed or not all(isinstance(each, dict) for each in listed):
        raise InputError("must be one row of figures, or a list of them")
    new: dict[tuple[str, ...], Measured] = {}
    for row in SUBJECTS[subject](listed, measured):
        if row.key in new:
            raise InputError(f"{', '.join(row.key)}: is there twice; give one run of each")
        new[row.key] = row
    before = getattr(kept, subject)
    places = [new.pop(row.key, row) for row in before]
    return kept.model_copy(update={subject: (*places, *new.values())})


def text_of(measurements: Measurements) -> str:
    """As the file has it: what is empty or was not kept is left out."""
    content = measurements.model_dump(exclude_defaults=True)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _today() -> str:
    return datetime.fromtimestamp(utc_us() // US, UTC).date().isoformat()


def _day(text: str) -> str:
    return date.fromisoformat(text).isoformat()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Renews rows of the results file by what a command printed as JSON."
    )
    parser.add_argument("subject", choices=SUBJECTS, help="what was measured")
    parser.add_argument(
        "--machine", choices=("idle", "shared"), required=True, help="shared: other programs used the cores"
    )
    parser.add_argument("--date", type=_day, default=_today(), help="of the measurement (default: today)")
    parser.add_argument("--file", type=Path, default=KEPT, help="the results file (default: %(default)s)")
    options = parser.parse_args(arguments)
    cores = len(os.sched_getaffinity(0))
    machine = f"{cores} cores, {options.machine}"
    measured = {"emulator": emulator.__version__, "date": options.date, "machine": machine}
    try:
        kept = load(options.file)
        try:
            printed = json.load(sys.stdin)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"stdin: is not what the command prints with --json: {error}") from error
        try:
            found = renewed(kept, options.subject, printed, measured)
        except InputError as error:
            raise InputError("\n".join(f"stdin: {line}" for line in str(error).splitlines())) from error
        write_text(options.file, text_of(found))
    except (InputError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
