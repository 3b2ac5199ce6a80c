"""Slurm's accounting as `sacct --json` prints it (Slurm 21.08 and newer; its OpenAPI plugin "dbv0.0.38" and later).

    sacct -a -D --json -S START -E END > slurm.json

Numbers are plain (22.05) or `{"set": true, "infinite": false, "number": 5}` (23.02 and later), states a name or a list
of names. What a row means: `sacct_jobs.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import beginning
from emulator.workload.files import TraceError, read_json_documents
from emulator.workload.rows import Faults, Malformed
from emulator.workload.sacct_jobs import SacctJobs

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_KEYS = re.compile(r'"(?:association|allocation_nodes|derived_exit_code)"\s*:')


class SacctJsonFormat:
    """The trace format `sacct_json`."""

    name = "sacct_json"

    def can_read(self, path: Path) -> bool:
        """True if the file is a JSON object that begins with what Slurm says of a job."""
        begin = beginning(path)
        return begin.startswith("{") and '"jobs"' in begin and _KEYS.search(begin) is not None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs; steps are passed over. Raises TraceError naming file and job, or the place of bad JSON."""
        listed: list[Any] = []
        for document in read_json_documents(path):
            found = document.get("jobs") if isinstance(document, dict) else None
            if not isinstance(found, list):
                raise TraceError(f"{path}: `jobs` is not a list; this is not what sacct --json prints")
            listed += found
        jobs, faults = SacctJobs(), Faults(lenient)
        for place, job in enumerate(listed, 1):
            try:
                jobs.take(_row(job).items())
            except Malformed as fault:
                faults.add(path, f"job {_name(job, place)}", fault)
            faults.tell_doubts(path, f"job {_name(job, place)}", jobs.rows)
        return jobs.log(path, faults)


def _row(job: Any) -> dict[str, str]:
    """A job by the names that sacct's columns have."""
    if not isinstance(job, dict):
        raise Malformed(f"not an object: {str(job)[:40]}")
    time, allocated = _part(job, "time"), _counts(job, "allocated")
    requested, het = _counts(job, "requested"), _part(job, "het")
    state = _part(job, "state").get("current")
    row = {
        "JobIDRaw": job.get("job_id"),
        "State": state[0] if isinstance(state, list) and state else state,
        "Submit": time.get("submission"),
        "Eligible": time.get("eligible") or None,  # 0: not yet
        "Start": time.get("start") or None,
        "ElapsedRaw": time.get("elapsed"),
        "End": time.get("end") or None,
        "Suspended": time.get("suspended"),
        "TimelimitRaw": time.get("limit"),
        "AllocNodes": job.get("allocation_nodes"),
        "ReqNodes": requested.get("node"),
        "AllocCPUS": allocated.get("cpu"),
        "ReqCPUS": requested.get("cpu"),
        "AllocTRES": _tres(allocated),
        "ReqTRES": _tres(requested),
        "Constraints": job.get("constraints") or None,
        "NodeList": job.get("nodes"),
        "QOS": job.get("qos"),
        "Reservation": _part(job, "reservation").get("name") or None,  # 21.08 writes 0 for none
        "Cluster": job.get("cluster"),
        "User": job.get("user"),
        "Group": job.get("group"),
        "Account": job.get("account"),
        "Partition": job.get("partition"),
    }
    leader, component = _number(het.get("job_id")), _number(het.get("job_offset"))
    if leader and component is not None:
        row["JobID"] = f"{leader}+{component}"
    said = {name: _number(value) for name, value in row.items()}
    return {name: str(value) for name, value in said.items() if value is not None}


def _number(value: Any) -> Any:
    """What is meant by a number in either form; None for one that is not set, or has no end."""
    if not isinstance(value, dict):
        return value
    return value.get("number") if value.get("set") and not value.get("infinite") else None


def _part(job: dict[str, Any], name: str) -> dict[str, Any]:
    part = job.get(name)
    return part if isinstance(part, dict) else {}


def _counts(job: dict[str, Any], which: str) -> dict[str, Any]:
    """Of each trackable resource, by its type."""
    listed = _part(job, "tres").get(which)
    if not isinstance(listed, list):
        return {}
    return {
        each["type"] + (f"/{each['name']}" if each.get("name") else ""): each.get("count")
        for each in listed
        if isinstance(each, dict) and "type" in each
    }


def _tres(counts: dict[str, Any]) -> str | None:
    """Memory (in MiB) and GPUs as the column of sacct has them, None if there is neither."""
    found = {name: _number(count) for name, count in counts.items()}
    parts = [
        f"{name}={count}{'M' if name == 'mem' else ''}"
        for name, count in found.items()
        if count is not None and (name == "mem" or name.startswith("gres/gpu"))
    ]
    return ",".join(parts) or None


def _name(job: Any, place: int) -> str:
    number = job.get("job_id") if isinstance(job, dict) else None
    return str(place if number is None else number)
