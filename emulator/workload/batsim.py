"""Workloads of Batsim: JSON with `nb_res`, `jobs` and `profiles` (Batsim's documentation, "Workload").

A resource is a node. A job's run time is that of its `delay` profile, or of a sequence of such (`composed`; Batsim 5
calls them `DelayProfile` and `SequentialCompositionProfile`). What other profiles take depends on Batsim's platform
(SimGrid computes it), so jobs that have one are malformed here. An id without a number is a name: such jobs are
numbered behind the largest number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import beginning
from emulator.workload.files import TraceError, read_json
from emulator.workload.rows import Faults, Malformed, Rows

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_KEYS = re.compile(r'"(?:nb_res|profiles|subtime)"\s*:')
_NUMBER = re.compile(r"(?:.*!)?(\d{1,18})$")
"""Batsim writes `w0!17` for job 17 of the workload that it knows as w0."""
_DELAYS = {"delay", "DelayProfile"}
_SEQUENCES = {"composed", "SequentialCompositionProfile"}
_DEEPEST = 20
_ENDED_BY_BATSIM = 10**12
"""No time in seconds is as large; Batsim itself ends then."""


class BatsimFormat:
    """The trace format `batsim`."""

    name = "batsim"

    def can_read(self, path: Path) -> bool:
        """True if the file is a JSON object that begins with what a workload has."""
        begin = beginning(path)
        return begin.startswith("{") and _KEYS.search(begin) is not None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs; `MaxNodes` is `nb_res`. Raises TraceError naming file and job, or line and column of bad JSON."""
        document = _document(path)
        rows, faults, numbers = Rows(), Faults(lenient), _Numbers(document["jobs"])
        for place, job in enumerate(document["jobs"], 1):
            try:
                _take(job, document["profiles"], rows, numbers)
            except Malformed as fault:
                faults.add(path, f"job {_name(job, place)}", fault)
        header = () if document["nb_res"] is None else (f"; MaxNodes: {document['nb_res']}",)
        return rows.log(path, "from a workload of Batsim", faults, header)


def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = read_json(path)
    kinds = {"jobs": (list, "a list"), "profiles": (dict, "an object")}
    for key, (kind, text) in kinds.items():
        if not isinstance(document, dict) or not isinstance(document.get(key), kind):
            raise TraceError(f"{path}: no workload of Batsim: `{key}` must be {text}")
    nodes = document.get("nb_res")
    if nodes is not None and (not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1):
        raise TraceError(f"{path}: nb_res must be a whole number of resources from 1 on, not {nodes!r}")
    return document | {"nb_res": nodes}


class _Numbers:
    """The numbers of jobs: those in their ids, and for ids that are names the next behind the largest of them."""

    def __init__(self, jobs: list[Any]) -> None:
        found = (_NUMBER.match(str(job.get("id", ""))) for job in jobs if isinstance(job, dict))
        self._next = max((int(match[1]) for match in found if match), default=0) + 1
        self._used_numbers = set[str | int]()

    def of(self, job: dict[str, Any]) -> int:
        """Of a job that is kept. Raises Malformed if another one is called so."""
        text = str(job.get("id", ""))
        numbered = _NUMBER.match(text)
        called: str | int = int(numbered[1]) if numbered else text
        if called in self._used_numbers:
            raise Malformed(f"there is another job with the {'number' if numbered else 'name'} {called}")
        if called != "":
            self._used_numbers.add(called)
        if isinstance(called, int):
            return called
        self._next += 1
        return self._next - 1


def _take(job: Any, profiles: dict[str, Any], rows: Rows, numbers: _Numbers) -> None:
    if not isinstance(job, dict):
        raise Malformed(f"{job!r} is not an object")
    submit_s, nodes = _time(job, "subtime"), job.get("res")
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise Malformed(f"res is {nodes!r}, not a whole number of resources from 1 on")
    # -1 or nothing: Batsim kills no such job.
    walltime_s = -1 if job.get("walltime") in {None, -1} else _time(job, "walltime")
    run_s = _run_s(job.get("profile"), profiles)
    rows.add(
        number=numbers.of(job),
        submit_s=submit_s,
        run_s=run_s,
        allocated_procs=nodes,
        requested_procs=nodes,
        requested_s=walltime_s,
        status=1,
        nodes=nodes,
    )


def _run_s(name: Any, profiles: dict[str, Any], deep: int = 0) -> float:
    profile = profiles.get(name) if isinstance(name, str) else None
    if not isinstance(profile, dict):
        raise Malformed(f"profile {name!r} is not among `profiles`")
    kind = profile.get("type")
    if isinstance(kind, str) and kind in _DELAYS:
        return _time(profile, "delay")
    if not isinstance(kind, str) or kind not in _SEQUENCES:
        raise Malformed(
            f"profile {name!r} is of type {kind!r}: how long it takes depends on Batsim's platform; only delays"
            " (`delay`, `DelayProfile`) and sequences of them (`composed`, `SequentialCompositionProfile`) say it"
        )
    parts = next((profile[key] for key in ("seq", "profile_ids") if key in profile), None)
    times = next((profile[key] for key in ("repeat", "nb", "repetition_count") if key in profile), 1)
    if deep == _DEEPEST:
        raise Malformed(f"profile {name!r}: sequences within sequences, more than {_DEEPEST} deep")
    if not isinstance(parts, list) or not parts:
        raise Malformed(f"seq of profile {name!r} is {parts!r}, not a list of profiles")
    if not isinstance(times, int) or isinstance(times, bool) or times < 1:
        raise Malformed(f"repeat of profile {name!r} is {times!r}, not a whole number from 1 on")
    run_s = times * sum(_run_s(part, profiles, deep + 1) for part in parts)
    if not run_s < _ENDED_BY_BATSIM:
        raise Malformed(f"profile {name!r} takes {run_s} s, which is too long")
    return run_s


def _time(profile: dict[str, Any], name: str) -> float:
    value = profile.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _ENDED_BY_BATSIM:
        raise Malformed(f"{name} is {value!r}, not a time in seconds from 0 on")
    return value


def _name(job: Any, place: int) -> str:
    return str(job["id"]) if isinstance(job, dict) and "id" in job else f"number {place} of the list"
