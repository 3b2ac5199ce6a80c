"""Jobs of ElastiSim: JSON with `jobs`, each with a model of its application in a file (its documentation, "Workload").

A job's run time is that of its application model where that only waits (`idle` and `busy_wait` tasks, in sequences and
repeated); formulas may use the job's arguments and `num_nodes`. What other tasks take depends on the platform, which
SimGrid computes, so jobs that have one are malformed here. A job that may have several widths takes the fewest nodes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import beginning
from emulator.workload.files import TraceError, read_json
from emulator.workload.formulas import formula_value
from emulator.workload.rows import Faults, Malformed, Rows

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_KEYS = re.compile(r'"application_model"\s*:')
_WAITS = ("idle", "busy_wait")
_FLEXIBLE = ("moldable", "malleable", "evolving", "adaptive")
_MOST_S = 10**10
_DEEPEST = 20


class ElastisimFormat:
    """The trace format `elastisim`."""

    name = "elastisim"

    def can_read(self, path: Path) -> bool:
        """True if the file is a JSON object whose beginning names an application model."""
        begin = beginning(path)
        return begin.startswith("{") and _KEYS.search(begin) is not None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs, numbered from 1 as they stand. Raises TraceError naming file and job, or the place of bad JSON."""
        document = read_json(path)
        if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
            raise TraceError(f"{path}: no jobs of ElastiSim: `jobs` must be a list")
        rows, faults = Rows(), Faults(lenient)
        model_of = cache(lambda name: _model(path, name))
        for number, job in enumerate(document["jobs"], 1):
            try:
                rows.add(**_row(job, number, model_of))
            except Malformed as fault:
                faults.add(path, f"job {number}", fault)
        return rows.log(path, "from jobs of ElastiSim", faults)


def _row(job: Any, number: int, model_of: Any) -> dict[str, float]:
    if not isinstance(job, dict):
        raise Malformed(f"{job!r} is not an object")
    kind = str(job.get("type")).lower()
    if kind not in ("rigid", *_FLEXIBLE):
        raise Malformed(f"type is {job.get('type')!r}, not rigid, {', '.join(_FLEXIBLE)}")
    suffix = "" if kind == "rigid" else "_min"
    nodes = _whole(job, f"num_nodes{suffix}", 1)
    gpus = _whole(job, f"num_gpus_per_node{suffix}", 0) if f"num_gpus_per_node{suffix}" in job else 0
    submit_s, walltime_s = _time(job, "submit_time"), _time(job, "walltime") if "walltime" in job else 0
    name, arguments = job.get("application_model"), job.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Malformed("application_model must be a file's name, arguments an object")
    return {
        "number": number,
        "submit_s": submit_s,
        "run_s": _model_s(model_of(name), name, _numbers(arguments) | {"num_nodes": nodes}),
        "allocated_procs": nodes,
        "requested_procs": nodes,
        "requested_s": walltime_s or -1,  # 0: no limit
        "status": 1,
        "nodes": nodes,
        "gpus": gpus * nodes or -1,
    }


def _model(jobs: Path, name: str) -> dict[str, Any]:
    """An application model: beside the jobs, or beside any folder above them (ElastiSim looks from where it starts)."""
    places = [folder / name for folder in jobs.absolute().parents]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise Malformed(f"application_model {name}: there is no such file in {places[0].parent} or above")
    try:
        model = read_json(found)
    except TraceError as error:
        raise Malformed(f"application_model {error}") from error
    if not isinstance(model, dict) or not isinstance(model.get("phases"), list):
        raise Malformed(f"application_model {found}: `phases` must be a list")
    return model


def _numbers(arguments: dict[str, Any]) -> dict[str, float]:
    """Those of a job's arguments that are numbers; a name may be among them, too."""
    return {
        name: value
        for name, value in arguments.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _model_s(model: dict[str, Any], name: str, arguments: dict[str, float]) -> float:
    """How long a model takes: what it does at its begin, and its phases one after the other."""
    begin = model.get("on_init", [])  # a phase to the program, a list of tasks in its documentation
    phases = [{"tasks": begin} if isinstance(begin, list) else begin, *model["phases"]]
    if not all(isinstance(phase, dict) for phase in phases):
        raise Malformed(f"application_model {name}: a phase is an object with `tasks`")
    try:
        # A phase is repeated a whole number of times.
        total_s = sum(
            int(_times(phase, arguments)) * _tasks_s(phase.get("tasks"), arguments) for phase in phases
        )
    except Malformed as fault:
        raise Malformed(f"application_model {name}: {fault}") from None
    if not total_s < _MOST_S:
        raise Malformed(f"application_model {name}: {total_s} s are too long")
    return total_s


def _tasks_s(tasks: Any, arguments: dict[str, float], deep: int = 0) -> float:
    if not isinstance(tasks, list) or deep > _DEEPEST:
        raise Malformed(f"`tasks` must be a list, at most {_DEEPEST} deep")
    total_s = 0.0
    for task in tasks:
        kind = str(task.get("type") if isinstance(task, dict) else task).lower()
        if kind == "sequence":
            took_s = _tasks_s(task.get("tasks"), arguments, deep + 1)
        elif kind in _WAITS:
            took_s = _number(task, "delay", arguments)
        else:
            raise Malformed(
                f"a task of type {kind!r}: how long it takes depends on ElastiSim's platform; only"
                f" {' and '.join(_WAITS)} tasks say it"
            )
        total_s += _times(task, arguments) * took_s
    return total_s


def _times(phase: dict[str, Any], arguments: dict[str, float]) -> float:
    return _number(phase, "iterations", arguments) if "iterations" in phase else 1


def _number(phase: dict[str, Any], name: str, arguments: dict[str, float]) -> float:
    """A number, or what a formula comes to."""
    said = value = phase.get(name)
    if isinstance(said, str):
        try:
            value = formula_value(said, arguments)
        except ValueError:
            value = None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < _MOST_S:
        shown = said if value is None else value
        raise Malformed(f"{name} is {shown!r}, not a number above 0 or a formula of the job's arguments")
    return value


def _whole(job: dict[str, Any], name: str, least: int) -> int:
    value = job.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Malformed(f"{name} is {value!r}, not a whole number from {least} on")
    return value


def _time(job: dict[str, Any], name: str) -> float:
    value = job.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _MOST_S:
        raise Malformed(f"{name} is {value!r}, not a time in seconds from 0 on")
    return value
