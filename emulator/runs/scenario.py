"""The scenario file: one YAML document that says everything about a run.

A key that does not exist is an error that names it and the nearest right one. The whole scenario is stored
with each result, so that a run can be repeated from its folder.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Mapping
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from balancer.plugin_files import Pluggable, reason, resolved
from balancer.plugins import IN_USE, nearest
from balancer.wrong_values import not_yaml, sentence
from emulator.config.run_parts import (
    NO_NAME,
    OUR_BATCH_SYSTEM,
    OUR_MANAGER,
    FailuresPart,
    LivePart,
    MaintenancePart,
    ResultsPart,
    WorkloadPart,
)
from emulator.config.scenario_parts import (
    EnergyPart,
    FeaturePart,
    LimitPart,
    MoldablePart,
    PartitionPart,
    PlacementPart,
    QosPart,
    ReservationPart,
    SharedNodesPart,
)
from emulator.config.scenario_parts import Part as _Part
from emulator.plugins import KINDS, named
from emulator.runs import scenario_files
from emulator.runs.platforms import taken_from, with_platform
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.like import overrun_of
from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from balancer.plugins import Plugins


class ScenarioError(ValueError):
    """A scenario that cannot be run; the message names the file and the key."""


_MOST_NODES = 10_000_000
"""More is a slip of the finger, and would fill the memory."""


"""Of a scenario that is no file's and says no name."""
_LATER_KEYS = ("dependencies", "cancelled", "queue_field", "usage_column", "time_zone")
"""Of `workload`: earlier results have them not."""
_OF_JOBS = {
    "workload", "seed", "nodes", "plugins", "features", "partitions", "qos", "shared_nodes", "moldable",
}  # fmt: skip
_OF_TWIN = ("conf", "nodes_added", "select", "qos")
"""Settings of Slurm's twin by which jobs are read: how many nodes there are, what of them and which QOS jobs have."""
_LATER_PARTS = (
    "limits", "qos", "features", "partitions", "reservations", "shared_nodes", "placement", "moldable", "failures",
    "maintenance", "energy",
)  # fmt: skip
"""Of a scenario, likewise."""


class Scenario(Pluggable, _Part):
    """A run. `mechanism` is a plug-in as `name: {parameters}`; null: on-demand leases are rejected.

    `plugins`: those from files, `FILE.py:NAME`. They are known inside `plugged_in()`.
    """

    plugin_kinds = KINDS

    name: str = NO_NAME
    seed: int = Field(default=1, ge=0)
    nodes: int | None = Field(default=None, ge=1, le=_MOST_NODES)
    workload: WorkloadPart
    scheduler: str | dict[str, Any] = "fcfs+easy"
    mechanism: str | dict[str, Any] | None = None
    limits: tuple[LimitPart, ...] = ()
    qos: QosPart | None = None
    features: dict[str, FeaturePart] = Field(default_factory=dict)
    partitions: dict[str, PartitionPart] = Field(default_factory=dict)
    reservations: dict[str, ReservationPart] = Field(default_factory=dict)
    shared_nodes: SharedNodesPart | None = None
    placement: PlacementPart | None = None
    moldable: MoldablePart | None = None
    failures: FailuresPart | None = None
    maintenance: tuple[MaintenancePart, ...] = ()
    energy: EnergyPart | None = None
    live: LivePart = LivePart()
    results: ResultsPart = ResultsPart()

    @model_validator(mode="before")
    @classmethod
    def _with_the_programs_overrun(cls, document: Any) -> Any:
        """Jobs beyond their estimate as in the program that the scheduler is `like`, unless the scenario says how."""
        workload = document.get("workload") if isinstance(document, dict) else None
        if not isinstance(workload, dict) or "overrun" in workload:
            return document
        return document | {"workload": workload | {"overrun": overrun_of(document.get("scheduler"))}}

    @field_validator("scheduler")
    @classmethod
    def _known_scheduler(cls, value: str | dict[str, Any]) -> str | dict[str, Any]:
        _scheduler(value)
        return value

    @property
    def scheduler_config(self) -> SchedulerConfig:
        with self.plugged_in():
            return _scheduler(self.scheduler)

    def as_json(self) -> dict[str, Any]:
        """The scenario with all defaults filled in, as it is stored with the results.

        Keys that came later are left out where nobody uses them: earlier results, which have them not, are those of the
        same scenario.
        """
        left_out: dict[str, Any] = {} if self.plugins else {"plugins": True}
        left_out |= {key: True for key in _LATER_PARTS if not getattr(self, key)}
        ours = {"batch": OUR_BATCH_SYSTEM, "ondemand": OUR_MANAGER}
        if keys := {key for key, name in ours.items() if getattr(self.live, key) == name}:
            left_out["live"] = keys
        if self.shared_nodes is not None and not self.shared_nodes.kinds:
            left_out["shared_nodes"] = {"kinds"}
        if self.placement is not None and self.placement.switches is None:
            left_out["placement"] = {"switches"}
        part = self.workload
        if keys := {key for key in _LATER_KEYS if getattr(part, key) == type(part).model_fields[key].default}:
            left_out["workload"] = keys
        return self.model_dump(mode="json", exclude=left_out)

    def keys_of_jobs(self) -> str:
        """The keys by which its jobs are made and left out, as JSON: with the same ones, jobs are the same."""
        keys = self.model_dump(mode="json", include=_OF_JOBS)
        said = named(self.scheduler_config.decide, "slurm")
        if said is not None:
            keys["scheduler"] = {"slurm": {name: said[name] for name in _OF_TWIN if name in said}}
        return json.dumps(keys, default=str)


def _scheduler(value: str | dict[str, Any]) -> SchedulerConfig:
    """Runs of a sweep ask again and again, with a few schedulers by their names."""
    if isinstance(value, str) and ":" not in value:  # no file is read for it, which may change
        return _named_scheduler(value, IN_USE.get())
    return _made_scheduler(value)


@lru_cache(maxsize=64)
def _named_scheduler(value: str, _: Plugins) -> SchedulerConfig:
    return _made_scheduler(value)


def _made_scheduler(value: str | dict[str, Any]) -> SchedulerConfig:
    return SchedulerConfig.parse(value) if isinstance(value, str) else SchedulerConfig.from_mapping(value)


def load(path: Path, changes: tuple[str, ...] = ()) -> Scenario:
    """Read a scenario file and apply `a.b=value` changes (values are YAML). Raises ScenarioError."""
    document = read_document(path)
    for change in changes:
        apply_change(document, change)
    return beside(document, path.parent, str(path))


def scenario_of(source: object, changes: Mapping[str, Any]) -> Scenario:
    """The scenario that a program asks for: a scenario file, a job log, the keys themselves, or a scenario.

    `changes`: path of keys (`mechanism.balancer.wait_s`) to value. Raises ScenarioError.
    """
    where, folder = "scenario", Path()
    if isinstance(source, Scenario):
        document = source.as_json()
    elif isinstance(source, str | PathLike):
        path = Path(source)
        where = str(path)
        document, folder = (
            (read_document(path), path.parent) if is_scenario_file(path) else (of_trace(path), folder)
        )
    elif isinstance(source, Mapping):
        document = copy.deepcopy(dict(source))
    else:
        several = (
            " (several logs: {'workload.trace': [...]} of a sweep's grid)"
            if isinstance(source, list | tuple)
            else ""
        )
        raise ScenarioError(
            "a scenario file, a job log, the keys of a scenario or a table of jobs is expected, not a "
            f"{type(source).__name__}{several}"
        )
    for key, value in changes.items():
        try:
            set_key(document, key.split("."), value)
        except ScenarioError as error:
            raise ScenarioError(f"{key}: {error}") from error
    return beside(document, folder, where)


def is_scenario_file(path: Path) -> bool:
    """Whether a file is a scenario, by its name; all others are job logs."""
    return path.suffix in {".yaml", ".yml"}


def of_trace(path: Path) -> dict[str, Any]:
    """The keys of a scenario that only runs a job log."""
    return {"name": path.name.split(".")[0], "workload": {"trace": str(path)}}


def read_document(path: Path) -> dict[str, Any]:
    """The keys of a scenario file; its `name` is the file's unless it says one. Raises ScenarioError."""
    import yaml  # noqa: PLC0415 - a run of a job log needs none

    from balancer.yaml_text import read_yaml  # noqa: PLC0415

    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {refusal(error)}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}{not_yaml(error)}") from error
    if not isinstance(document, dict):
        raise ScenarioError(f"{path}: a scenario is a mapping of keys to values; see docs/scenarios.md")
    if "base" in document and not document.keys() & {"workload", "nodes"}:
        raise ScenarioError(f"{path}: it is a sweep: `emulator sweep {path}` runs it")
    return {"name": path.stem} | document


def beside(document: dict[str, Any], folder: Path, where: str) -> Scenario:
    """The scenario of these keys, whose files are named relative to the folder. Raises ScenarioError."""
    try:
        document |= {"plugins": resolved(document["plugins"], folder)} if "plugins" in document else {}
    except ValueError as error:
        raise ScenarioError(f"{where}: plugins: {reason(error)}") from error
    machine = taken_from(document)
    scenario = from_mapping(document, where)
    files: dict[str, Any] = {"workload": scenario_files.with_files(scenario.workload, folder)}
    if machine is not None:
        try:
            with scenario.plugged_in():
                files |= with_platform(scenario_files.find_file(machine, folder), document, files["workload"])
        except ValueError as error:
            raise ScenarioError(f"{where}: nodes: {error}") from error
    files["scheduler"] = scenario_files.with_site_files(scenario.scheduler, folder)
    files["failures"] = scenario_files.with_record(scenario.failures, folder)
    if scenario.moldable is not None and scenario.moldable.file is not None:
        found = scenario_files.find_file(scenario.moldable.file, folder)
        files["moldable"] = scenario.moldable.model_copy(update={"file": found})
    try:
        files["qos"] = scenario_files.with_table(scenario.qos, folder)
        files["placement"] = scenario_files.with_switches(scenario.placement, folder)
    except ValueError as error:
        raise ScenarioError(f"{where}: {error}") from error
    return scenario.model_copy(update=files | {"live": scenario_files.with_conf(scenario.live, folder)})


def from_mapping(document: dict[str, Any], where: str = "scenario") -> Scenario:
    """A scenario from its keys. Raises ScenarioError that names all wrong ones."""
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(f"{where}: {_explain(error)}") from error


def apply_change(document: dict[str, Any], change: str) -> None:
    """Set one key, `a.b=value`, where the value is YAML. Raises ScenarioError."""
    key, equals, text = change.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise ScenarioError(f"--set {change}: expected KEY=VALUE, for example mechanism.balancer.wait_s=300")
    import yaml  # noqa: PLC0415 - as above

    from balancer.yaml_text import read_yaml  # noqa: PLC0415

    try:
        value = read_yaml(text)
    except yaml.YAMLError as error:
        raise ScenarioError(f"--set {change}{not_yaml(error, with_line=False)}") from error
    try:
        set_key(document, path, value)
    except ScenarioError as error:
        raise ScenarioError(f"--set {change}: {error}") from error


def set_key(document: dict[str, Any], path: list[str], value: Any) -> None:
    """Set the value at a path of keys; in a list the key is a number, from 0. Raises ScenarioError."""
    place: Any = document
    for name, below in itertools.pairwise(path):
        key: Any = _index(place, name) if isinstance(place, list) else name
        inner = place[key] if isinstance(place, list) else place.get(key)
        if isinstance(inner, str):
            # `mechanism: balancer` is short for `mechanism: {balancer: {}}`
            is_scheduler = path[0] == "scheduler" and place is document and inner != below
            inner = SchedulerConfig.written_out(inner) if is_scheduler else {inner: {}}
        elif inner is None:
            inner = {}
        elif not isinstance(inner, dict | list):
            raise ScenarioError(f"{name} is {inner!r} and has no keys of its own")
        place[key] = inner
        place = inner
    place[_index(place, path[-1]) if isinstance(place, list) else path[-1]] = value


def _index(items: list[Any], name: str) -> int:
    if not name.isdecimal() or int(name) >= len(items):
        raise ScenarioError(f"{name} is no place in a list of {len(items)} (the first is 0)")
    return int(name)


def _explain(error: ValidationError) -> str:
    """All that is wrong: one line, or a line for each."""
    said = list(dict.fromkeys(_in_words(each) for each in _one_a_key(error)))
    return said[0] if len(said) == 1 else "\n  ".join([f"{len(said)} mistakes", *said])


def _one_a_key(error: ValidationError) -> list[ErrorDetails]:
    """The errors, but for those of the other forms that a value of several may have."""
    found: dict[tuple[int | str, ...], ErrorDetails] = {}
    for each in error.errors():
        is_form = each["loc"][-1:] == ("str",) or any("[" in str(part) for part in each["loc"][-1:])
        place = each["loc"][:-1] if is_form else each["loc"]
        found.setdefault(place, each)
    return list(found.values())


def _in_words(wrong: ErrorDetails) -> str:
    place = ".".join(str(part) for part in wrong["loc"])
    if wrong["type"] == "extra_forbidden":
        known = _keys_at(wrong["loc"][:-1])
        hint = nearest(str(wrong["loc"][-1]), known)
        if "did you mean" not in hint and (
            other := _place_elsewhere(str(wrong["loc"][-1]), wrong["loc"][:-1])
        ):
            hint = f"; did you mean {other!r}?"
        return f"unknown key {place!r}{hint}"
    if wrong["type"] == "missing":
        return f"{place!r} is missing"
    if wrong["type"] == "model_type":
        return f"{place}: expected keys with values ({', '.join(_keys_at(wrong['loc']))}), not {wrong['input']!r}"
    if len(wrong["loc"]) > 1 and wrong["loc"][-1] == "str":  # the first of the forms that a plug-in may have
        name = wrong["loc"][0]
        return f"{name}: expected a name, or a name with parameters (`name: {{...}}`), not {wrong['input']!r}"
    return sentence(wrong)


def _place_elsewhere(key: str, location: tuple[int | str, ...]) -> str:
    """Where a scenario has this key, if it is in the wrong part of it; "" if it has none."""
    of_all = _keys_at(())
    if location and key in of_all:
        return key
    parts = (name for name in of_all if (name,) != location[:1] and _keys_at((name,)) != of_all)
    return next((f"{name}.{key}" for name in parts if key in _keys_at((name,))), "")


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Scenario
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None:  # a place in a list, or the name of one of several
            continue
        for annotation in (field.annotation, *get_args(field.annotation)):
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                model = annotation
    return sorted(model.model_fields)
