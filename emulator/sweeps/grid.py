"""The sweep file: a base scenario and what varies. Turned into runs before the first one begins."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from balancer.plugin_files import reason, resolved
from balancer.plugins import IN_USE
from balancer.wrong_values import not_yaml, sentences
from balancer.yaml_text import read_yaml
from emulator.record.provenance import file_digest, traces, versions
from emulator.runs.scenario import ScenarioError, from_mapping, set_key
from emulator.text.file_errors import refusal
from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from balancer.plugins import Plugins
    from emulator.runs.scenario import Scenario

LABEL, SEED, REPEAT, CLOCK = "label", "seed", "repeat", "clock"
"""Columns that every row has besides the varied keys."""
_MOST_RUNS = 1_000_000


class SweepFile(BaseModel):
    """What a sweep file may say. Every point of `points` is run with every combination of `grid` and seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "sweep"
    base: Path | None = None
    """A scenario file, named relative to the sweep file."""
    scenario: dict[str, Any] | None = None
    """Or the scenario itself."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Changes to the base: path of keys -> value."""
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    """Path of keys -> values; all combinations are run."""
    points: list[dict[str, Any]] = Field(default_factory=list)
    """Paths and values that go together; `label` names a point in the results."""
    seeds: list[int] | int | None = None
    """Seeds, or how many: 5 means 1 to 5. Default: the scenario's one."""
    repeats: int = Field(default=1, ge=1)
    """How often each run is done, with the same seed: for timings."""

    @model_validator(mode="after")
    def _check(self) -> SweepFile:
        if (self.base is None) == (self.scenario is None):
            raise ValueError("give either `base` (a scenario file) or `scenario` (its keys)")
        empty = [key for key, values in self.grid.items() if not values]
        if empty:
            raise ValueError(f"grid: {empty[0]} has no values")
        if isinstance(self.seeds, int) and self.seeds < 1:
            raise ValueError(f"seeds: at least 1, not {self.seeds}")
        self._check_once()
        return self

    def _check_once(self) -> None:
        """Raises ValueError for what is said twice: a seed that counts as two makes an interval too narrow."""
        seeds = self.seeds if isinstance(self.seeds, list) else []
        for where, values in {
            "seeds": seeds,
            **{f"grid: {key}": each for key, each in self.grid.items()},
        }.items():
            for place, value in enumerate(values):
                if any(value == other and type(value) is type(other) for other in values[:place]):
                    raise ValueError(f"{where}: {value!r} is there twice; for timings say `repeats`")
        in_points = {key for point in self.points for key in point}
        for key in self.grid:
            if key in in_points:
                raise ValueError(f"{key} is in the grid and in a point; say it in one of them")
        if self.seeds is not None and SEED in in_points | {*self.grid, *self.set}:
            raise ValueError("seeds: there is a key `seed` as well; say it in one of them")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a sweep: a whole scenario, and what tells it from the others."""

    varied: dict[str, Any]
    """`label`, the varied keys, `seed` and `repeat`, in the order of the columns."""
    scenario: Scenario
    files: tuple[Path, ...] = ()
    """Files that it reads."""
    is_live: bool = False
    """With real processes on an accelerated clock instead of in virtual time."""
    cost: float = 1.0
    """What it costs beside the other runs of its sweep, as far as that is known: only to tell how long it takes."""
    key: str = field(init=False)
    """Hash of everything that the result depends on, our own code included."""

    def __post_init__(self) -> None:
        configuration = {
            "versions": versions(),
            "scenario": self.scenario.as_json() | {"name": ""},
            "files": [file_digest(file) for file in self.files],
            "repeat": self.varied.get(REPEAT, 1),
            **({CLOCK: "live"} if self.is_live else {}),
        }
        text = json.dumps(configuration, sort_keys=True)
        object.__setattr__(self, "key", hashlib.sha256(text.encode()).hexdigest()[:32])


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep in the order of their rows."""

    name: str
    runs: tuple[Run, ...]

    @property
    def varied_keys(self) -> tuple[str, ...]:
        """Every varied key, in order of first appearance."""
        return tuple(dict.fromkeys(key for run in self.runs for key in run.varied))

    @cached_property
    def in_turn(self) -> tuple[Run, ...]:
        """The runs in the order in which they are begun, one with several labels once.

        Those with the same jobs are together, as a process that has made the jobs of a run has them for the next.
        """
        turns: dict[str, dict[str, Run]] = {}
        for run in self.runs:
            turns.setdefault(run.scenario.keys_of_jobs(), {}).setdefault(run.key, run)
        return tuple(run for together in turns.values() for run in together.values())

    @property
    def costs(self) -> tuple[float, ...]:
        """What each run costs beside the others, in the order in which they are begun."""
        return tuple(run.cost for run in self.in_turn)


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file. Raises ScenarioError that names file and key."""
    file = sweep_of(_read_yaml(path), str(path))
    base = file.scenario
    folder = path.parent
    if file.base is not None:
        base_path = path.parent / file.base
        base, folder = _read_yaml(base_path), base_path.parent
    return expand(file, base or {}, folder=folder, where=str(path))


def sweep_of(document: Mapping[str, Any], where: str) -> SweepFile:
    """What the keys of a sweep say. Raises ScenarioError."""
    try:
        return SweepFile.model_validate(document)
    except ValidationError as error:
        if "workload" in document:
            text = "it is a scenario, which `emulator run` runs; a sweep is a file that names it as `base`"
            raise ScenarioError(f"{where}: {text} (docs/sweeps.md)") from error
        known = f"; there are: {', '.join(SweepFile.model_fields)}"
        hint = known if error.errors()[0]["type"] == "extra_forbidden" else ""
        raise ScenarioError(f"{where}: {sentences(error)[0]}{hint}") from error


def on_clocks(sweep: Sweep, clocks: Sequence[str]) -> Sweep:
    """Each run once on each clock, `virtual` or `live`; with several, `clock` is among the varied keys."""
    if tuple(clocks) == ("virtual",):
        return sweep

    def on(run: Run, clock: str) -> Run:
        varied = {**run.varied, CLOCK: clock} if len(clocks) > 1 else run.varied
        return replace(run, varied=varied, is_live=clock == "live")

    return Sweep(sweep.name, tuple(on(run, clock) for run in sweep.runs for clock in clocks))


def expand(file: SweepFile, base: Mapping[str, Any], *, folder: Path = Path(), where: str = "sweep") -> Sweep:
    """All runs: points x grid x seeds x repeats, the last varying fastest. Raises ScenarioError."""
    seeds = file.seeds if isinstance(file.seeds, list) else list(range(1, (file.seeds or 0) + 1))
    points = file.points or [{}]
    combinations = 1
    for values in file.grid.values():
        combinations *= len(values)
    count = len(points) * combinations * max(1, len(seeds)) * file.repeats
    if count > _MOST_RUNS:
        raise ScenarioError(f"{where}: {grouped(count)} runs; at most {grouped(_MOST_RUNS)} make sense")
    runs = []
    for point, values in itertools.product(points, itertools.product(*file.grid.values())):
        varied = point | dict(zip(file.grid, values, strict=True))
        changes = {key: value for key, value in (file.set | varied).items() if key != LABEL}
        every: list[int | None] = [*seeds] or [None]
        for seed, repeat in itertools.product(every, range(1, file.repeats + 1)):
            # A path set before one inside it: `mechanism` comes before `mechanism.balancer.wait_s`.
            document = changed(base, sorted(changes.items(), key=lambda item: item[0].count(".")), where)
            if seed is not None:
                document[SEED] = seed
            runs.append(make_run(document, varied, repeat=repeat, folder=folder, where=_where(where, varied)))
    return Sweep(file.name, tuple(runs))


def make_run(
    document: Mapping[str, Any],
    varied: Mapping[str, Any],
    *,
    repeat: int = 1,
    folder: Path = Path(),
    where: str = "run",
    cost: float = 1.0,
) -> Run:
    """A run of a scenario, checked as far as it can be without reading its workload. Raises ScenarioError."""
    try:
        plugins = {"plugins": resolved(document["plugins"], folder)} if "plugins" in document else {}
    except ValueError as error:
        raise ScenarioError(f"{where}: plugins: {reason(error)}") from error
    scenario = from_mapping({**document, **plugins}, where)
    trace = scenario.workload.trace
    if trace is not None:
        beside = folder / trace
        trace = (beside if beside.exists() else trace).absolute()
        if not trace.exists():
            raise ScenarioError(f"{where}: workload.trace: {trace} does not exist")
        workload = scenario.workload.model_copy(update={"trace": trace})
        scenario = scenario.model_copy(update={"workload": workload})
    files = traces(scenario.workload.model_dump(mode="json"))
    with scenario.plugged_in():
        problem = _mechanism_problem(json.dumps(scenario.mechanism), IN_USE.get())
    if problem:
        raise ScenarioError(f"{where}: {problem}")
    return Run({**varied, SEED: scenario.seed, REPEAT: repeat}, scenario, files, cost=cost)


@cache
def _mechanism_problem(mechanism_json: str, _: Plugins) -> str:
    """What is wrong with a mechanism and its parameters; empty if nothing is."""
    from emulator.simulation.mechanism import mechanism_of  # noqa: PLC0415 - slow, and `--help` needs this module

    mechanism = json.loads(mechanism_json)
    try:
        if mechanism is not None:
            mechanism_of(mechanism)
    except (ValueError, TypeError) as error:
        return f"mechanism: {error}"
    return ""


def changed(base: Mapping[str, Any], changes: Iterable[tuple[str, Any]], where: str) -> dict[str, Any]:
    """A copy of the document with changes by path. Raises ScenarioError."""
    document = copy.deepcopy(dict(base))
    for key, value in changes:
        try:
            set_key(document, key.split("."), copy.deepcopy(value))
        except ScenarioError as error:
            raise ScenarioError(f"{where}: {key}: {error}") from error
    return document


def _where(where: str, varied: Mapping[str, Any]) -> str:
    return f"{where}: " + (", ".join(f"{key}={value}" for key, value in varied.items()) or "base")


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {refusal(error)}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}{not_yaml(error)}") from error
    if not isinstance(document, dict):
        raise ScenarioError(f"{path}: a mapping of keys to values is needed")
    return document
