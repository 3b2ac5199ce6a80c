"""Jobs of OAR as `oarstat` prints them in JSON.

    oarstat -f -J --sql "state IN ('Terminated', 'Error') AND stop_time >= 1767225600" > oar.json

An object of jobs by their numbers (OAR 2.5: `submissionTime`, `startTime`, `stopTime`, oarstat(1)), or a list of them
(OAR 3: `submission_time`, ...; Grid'5000's API: `submitted_at`, ..., under `items`). Times are Unix times, 0 for what
has not come; the walltime is in seconds, or HH:MM:SS. Nodes are the different names in `assigned_network_address`,
processors the `assigned_resources`, GPUs those that were asked for (`-l host=2/gpu=4`: each level of the hierarchy
within the one before, oarsub(1)). Jobs of the type `inner` run on the nodes of another job (`container`) and are passed
over. Several records of one job are one job.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import beginning
from emulator.workload.files import TraceError, read_json_documents
from emulator.workload.rows import (
    Faults,
    Malformed,
    Rows,
    first_line,
    seconds_between,
    span_s,
    unix_time_s,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_KEYS = re.compile(
    r'"(?:assigned_network_address|launchingDirectory|launching_directory|wanted_resources|assigned_nodes|submitted_at|api_timestamp)"\s*:'
)
_NAMES = {
    "number": ("Job_Id", "job_id", "id", "uid"),
    "submit": ("submissionTime", "submission_time", "submission", "submitted_at"),
    "start": ("startTime", "start_time", "start", "started_at"),
    "stop": ("stopTime", "stop_time", "stop", "stopped_at"),
    "owner": ("owner", "job_user", "user", "user_uid"),
    "queue": ("queue", "queue_name"),
    "nodes": ("assigned_network_address", "assigned_nodes"),
}
_WALLTIME = re.compile(r"\b(?:W|walltime)=(\d+(?::\d+){0,2})")
_REQUEST = re.compile(r"""-l\s+(["'])(.*?)\1(?=\s|$)|-l\s+(\S+)""")
_PROPERTIES = re.compile(r"\{[^}]*\}")
_LEVEL = re.compile(r"/?([\w.-]+)=(\d{1,9})")
SUSPENDED = "was suspended, and that time counts as run"
_COMPLETED, _FAILED = {"terminated", "finishing"}, {"error", "toerror"}
_ENDED = _COMPLETED | _FAILED
"""States, in small letters."""


class OarFormat:
    """The trace format `oar`."""

    name = "oar"

    def can_read(self, path: Path) -> bool:
        """True if the file is JSON that begins with what OAR says of a job."""
        begin = beginning(path)
        return begin.startswith(("{", "[")) and _KEYS.search(begin) is not None and '"state"' in begin

    def hint(self, path: Path) -> str | None:
        """What is wrong with a file that oarstat may have written, None if it looks like none."""
        line = first_line(path)
        if re.match(
            r"Job id\s+(S\s+User|Name\s+User\s+Submission Date)\b|Job_Id: \d+|\$VAR1 = ", line
        ) or re.search(r"^\s*assigned_network_address:", beginning(path), re.MULTILINE):
            return "if oarstat wrote it: write it again with -f -J, and with --sql for jobs that have ended"
        return None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs. Raises TraceError naming file and job, or the place of bad JSON."""
        rows, faults = Rows(), Faults(lenient)
        for document in read_json_documents(path):
            for name, job in _jobs(document, path):
                try:
                    _take(name, job, rows)
                except Malformed as fault:
                    faults.add(path, f"job {name}", fault)
                faults.tell_doubts(path, f"job {name}", rows)
        return rows.log(
            path, "from oarstat; times are Unix times", faults, size_from="`oarnodes` lists the nodes"
        )


def _jobs(document: Any, path: Path) -> Iterable[tuple[str, Any]]:
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        document = document["items"]
    if isinstance(document, dict) and isinstance(document.get("state"), str):  # one job, as the API shows it
        document = [document]
    if isinstance(document, dict):
        return document.items()
    if isinstance(document, list):
        return [
            (str(_first(job, "number") if isinstance(job, dict) else at), job)
            for at, job in enumerate(document, 1)
        ]
    raise TraceError(f"{path}: neither an object nor a list of jobs; this is not what oarstat -J prints")


def _take(name: str, job: Any, rows: Rows) -> None:
    if not isinstance(job, dict):
        raise Malformed(f"not an object: {str(job)[:40]}")
    if any(each.startswith("inner=") for each in _types(job)):
        rows.pass_over("job inside a container")
        return
    submit_s = unix_time_s(_text(job, "submit"), "submissionTime")
    start_s, stop_s = (unix_time_s(_text(job, which) or "0", f"{which}Time") for which in ("start", "stop"))
    has_ended = _state(job) in _ENDED and stop_s > 0
    # One that was to start and never did keeps the time for which that was planned.
    has_started = start_s > 0 and not (_state(job) in _FAILED and has_ended and stop_s < start_s)
    if not submit_s <= (start_s if has_started else submit_s) or (
        has_started and has_ended and stop_s < start_s
    ):
        raise Malformed(
            f"submissionTime {submit_s}, startTime {start_s} and stopTime {stop_s} are not in this order"
        )
    if has_started and (str(job.get("suspended")).upper() == "YES" or "HOLD_RUNNING_JOB" in _events(job)):
        rows.remark(SUSPENDED)
    hosts = {str(each) for each in _first(job, "nodes") or ()}
    nodes, resources = len(hosts), len(_listed(job, "assigned_resources"))
    number = whole(_text(job, "number") or name, "Job_Id")
    rows.add_run(
        (number, submit_s, _text(job, "owner")),
        start_s if has_started else -1,
        max(start_s, stop_s if has_ended else 0),
        number=number,
        submit_s=submit_s,
        wait_s=seconds_between(submit_s, start_s) if has_started else -1,
        run_s=seconds_between(start_s, stop_s) if has_started and has_ended else -1,
        allocated_procs=resources or nodes or -1,
        requested_procs=resources or nodes or -1,
        nodes=nodes or -1,
        gpus=_gpus(job) or -1,
        host=rows.host_of(hosts),
        requested_s=_limit_s(job, rows),
        status=_status(job),
        user=rows.users.number(_text(job, "owner")),
        group=rows.groups.number(str(job.get("project") or "")),
        queue=rows.queues.number(_text(job, "queue")),
    )


def _limit_s(job: dict[str, Any], rows: Rows) -> int:
    """Seconds; where `walltime` is missing the scheduler's message has it (`R=16,W=12:0:0`), or the request."""
    if job.get("walltime") is not None:
        return rows.known(span_s, str(job["walltime"]), "walltime", -1)
    texts = (str(job.get(name) or "") for name in ("message", "wanted_resources"))
    found = next((match for match in map(_WALLTIME.search, texts) if match), None)
    return -1 if found is None else rows.known(span_s, found[1], "walltime", -1)


def _first(job: dict[str, Any], which: str) -> Any:
    return next((job[name] for name in _NAMES[which] if job.get(name) is not None), None)


def _text(job: dict[str, Any], which: str) -> str | None:
    value = _first(job, which)
    return None if value is None else str(value)


def _listed(job: dict[str, Any], name: str) -> list[Any]:
    value = job.get(name)
    return value if isinstance(value, list) else []


def _types(job: dict[str, Any]) -> list[str]:
    """A list, an object or words between commas: as versions write them."""
    types = job.get("types")
    if isinstance(types, dict):
        return [f"{name}={value}" for name, value in types.items()]
    return types.split(",") if isinstance(types, str) else [str(each) for each in _listed(job, "types")]


def _state(job: dict[str, Any]) -> str:
    return str(job.get("state")).lower()


def _gpus(job: dict[str, Any]) -> int:
    """GPUs of the (first) request; 0 if it has none, or as many as there happen to be (`gpu=ALL`, `host=BEST`)."""
    match = _REQUEST.search(str(job.get("wanted_resources") or ""))
    if match is None:
        return 0
    count = 0
    for part in _PROPERTIES.sub("", match[2] or match[3]).partition(",")[0].split("+"):
        above = 1
        for level in filter(None, part.split("/")):
            named = _LEVEL.fullmatch(level)
            if named is None:
                break
            above *= int(named[2])
            if named[1] == "gpu":
                count += above
                break
    return count


def _status(job: dict[str, Any]) -> int:
    """SWF's: 1 completed, 0 failed, 5 cancelled, -1 not ended."""
    if _state(job) not in _ENDED:
        return -1
    if "FRAG_JOB_REQUEST" in _events(job):  # oardel
        return 5
    return 1 if _state(job) in _COMPLETED and str(job.get("exit_code") or 0) == "0" else 0


def _events(job: dict[str, Any]) -> set[str]:
    """The kinds of what befell a job."""
    return {str(each.get("type")) for each in _listed(job, "events") if isinstance(each, dict)}
