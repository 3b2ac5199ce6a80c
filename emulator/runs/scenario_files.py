"""The files that a scenario names: relative to it, or to where the user stands. Some are read with it.

What is read (a table of QOS, a topology.conf) takes its file's place, so that results have all of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.config.scenario_parts import SwitchPart

if TYPE_CHECKING:
    from emulator.config.run_parts import FailuresPart, LivePart, WorkloadPart
    from emulator.config.scenario_parts import PlacementPart, QosPart


def with_record(part: FailuresPart | None, folder: Path) -> FailuresPart | None:
    """A model's parameter `trace` is a file, named relative to the scenario, or to where the user stands."""
    if part is None or not isinstance(part.model, dict):
        return part
    return part.model_copy(update={"model": _plugin_with_file(part.model, folder)})


def with_table(part: QosPart | None, folder: Path) -> QosPart | None:
    """With the table itself instead of the file that it is in: results have all of it. Raises ValueError."""
    if part is None or not isinstance(part.table, Path):
        return part
    from emulator.schedulers.slurm.qos import columns_of, read_qos  # noqa: PLC0415 - few scenarios need it

    path = find_file(part.table, folder)
    read_qos(path, part.cpus_per_node, plain=True)  # what is wrong in it is told with its line
    return part.model_copy(update={"table": columns_of(path)})


def with_switches(part: PlacementPart | None, folder: Path) -> PlacementPart | None:
    """Likewise with what a topology.conf says. Raises ValueError that names its line."""
    if part is None or not isinstance(part.switches, Path):
        return part
    from emulator.cluster.switches import switches_in  # noqa: PLC0415 - few scenarios need it

    said = switches_in(find_file(part.switches, folder))
    return part.model_copy(
        update={"switches": {name: SwitchPart.model_validate(each) for name, each in said.items()}}
    )


_SLURM = "slurm:"
_SITE_FILES = ("conf", "qos", "associations")


def find_file(name: str | Path, folder: Path) -> Path:
    beside = folder / name  # which is `name` itself if that is absolute
    return beside if beside.exists() else Path(name)


def _plugin_with_file(item: Any, folder: Path) -> Any:
    """A plug-in whose parameter `trace` is a file, such as the transform `preload`."""
    if not isinstance(item, dict):
        return item
    return {
        name: {**params, "trace": str(find_file(params["trace"], folder))}
        if isinstance(params, dict) and isinstance(params.get("trace"), str)
        else params
        for name, params in item.items()
    }


def with_conf(part: LivePart, folder: Path) -> LivePart:
    """The batch system's own configuration is named relative to the scenario, or to where the user stands."""
    match part.batch:
        case {**systems} if len(systems) == 1:
            ((name, params),) = systems.items()
            if isinstance(params, dict) and isinstance(params.get("conf"), str):
                beside = folder / params["conf"]
                conf = str(beside if beside.exists() else params["conf"])
                return part.model_copy(update={"batch": {name: {**params, "conf": conf}}})
    return part


def with_site_files(scheduler: Any, folder: Path) -> Any:
    """Likewise what Slurm's twin is told of a site: a slurm.conf, and what sacctmgr printed."""
    match scheduler:
        case {"slurm": {**params}}:
            said = {
                name: str(find_file(value, folder))
                if name in _SITE_FILES and isinstance(value, str)
                else value
                for name, value in params.items()
            }
            return {**scheduler, "slurm": said}
        case str() if scheduler.startswith(_SLURM):
            return _SLURM + str(find_file(scheduler.removeprefix(_SLURM), folder))
    return scheduler


def with_files(part: WorkloadPart, folder: Path) -> WorkloadPart:
    """Traces are named relative to the scenario that uses them, or to where the user stands."""
    return part.model_copy(
        update={
            "trace": None if part.trace is None else find_file(part.trace, folder),
            "generate": [_plugin_with_file(item, folder) for item in part.generate],
            "transforms": [_plugin_with_file(item, folder) for item in part.transforms],
        }
    )
