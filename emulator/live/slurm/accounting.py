"""What Slurm wrote down of a run: jobs and their runs (jobcomp/filetxt), and when nodes were drained (slurmctld's log).

A line of the job log is written when a run ends, whatever becomes of the job then:

    COMPLETED FAILED OUT_OF_MEMORY BOOT_FAIL   it ran to its end
    TIMEOUT DEADLINE                           it was killed at its limit
    CANCELLED                                  somebody took it away
    PENDING NODE_FAIL PREEMPTED REQUEUED       it waits again: another line will follow
    RESIZING                                   it goes on with other nodes

Times are whole seconds, rounded down.
"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from balancer.clock import US
from balancer.nodelist import expand
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.replay_log import Counts, Tail

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

_FIELDS = ("JobId", "Name", "JobState", "StartTime", "EndTime", "NodeList", "SubmitTime")
_FIELD = re.compile(rf"\b({'|'.join(_FIELDS)})=(\S*)")
HELPER_NAME = "emulator-expand"
"""The name of allocations that are only there to be merged into a job of the workload."""
_OUTCOMES = {
    **dict.fromkeys(("COMPLETED", "FAILED", "OUT_OF_MEMORY", "BOOT_FAIL"), RunOutcome.FINISHED),
    **dict.fromkeys(("TIMEOUT", "DEADLINE"), RunOutcome.KILLED),
    "CANCELLED": RunOutcome.CANCELLED,
    **dict.fromkeys(("PENDING", "NODE_FAIL", "PREEMPTED", "REQUEUED"), RunOutcome.REQUEUED),
    "RESIZING": RunOutcome.RESIZED,
}
_STATES = {
    RunOutcome.FINISHED: JobState.ENDED,
    RunOutcome.KILLED: JobState.ENDED,
    RunOutcome.CANCELLED: JobState.CANCELLED,
    RunOutcome.REQUEUED: JobState.QUEUED,
    RunOutcome.RESIZED: JobState.RUNNING,
}
_FINAL = {RunOutcome.FINISHED, RunOutcome.KILLED, RunOutcome.CANCELLED}
_STARTED = re.compile(r"\[([^\]]+)\] sched.*: (?:Allocate|_start_job: Started) JobId=(\d+) ")
SACCT_FIELDS = ("JobIDRaw", "State", "Submit", "Start", "End", "NodeList")
_UNTOLD = {"", "(null)", "None", "None assigned", "Unknown", "N/A"}
_DRAINED = re.compile(r"\[([^\]]+)\] update_node: node (\S+) state set to (\S+)")
QUEUE_FORMAT = "%A|%T|%V|%S|%N|%r"
_HAS_NODES = {
    "RUNNING",
    "COMPLETING",
    "CONFIGURING",
    "SUSPENDED",
    "STOPPED",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
}


class AccountingError(ValueError):
    """A line that cannot be read; the text quotes it."""


def _unix_s(text: str, zone: tzinfo | None = UTC) -> int:
    """`zone`: that of the text; None: this machine's."""
    if text.isdecimal():
        return int(text)
    at = datetime.fromisoformat(text)
    return int((at.astimezone() if zone is None else at.replace(tzinfo=zone)).timestamp())


def _fields(line: str) -> dict[str, str]:
    found = dict(_FIELD.findall(line))
    if len(found) < len(_FIELDS):
        raise AccountingError(f"not a line of Slurm's job log: {line!r}")
    return found


def _outcome(state: str) -> RunOutcome:
    try:
        return _OUTCOMES[state]
    except KeyError:
        raise AccountingError(f"Slurm's job log has an unknown job state {state}") from None


def read_line(line: str) -> tuple[str, RunOutcome]:
    """(name of the job, what became of its run), of a line of the job log. Raises AccountingError."""
    row = _fields(line)
    return row["Name"], _outcome(row["JobState"])


def read_starts(lines: Iterable[str]) -> dict[str, list[int]]:
    """Job id -> when its runs began (unix s), by the log of slurmctld."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        if match := _STARTED.match(line):
            found[match[2]].append(_unix_s(match[1]))
    return found


def read_jobs(
    lines: Iterable[str],
    queue: Iterable[str],
    names: Sequence[str],
    epoch_s: int,
    *,
    starts: Mapping[str, Sequence[int]] = MappingProxyType({}),
    zone: tzinfo | None = UTC,
) -> list[dict[str, Any]]:
    """Jobs as `BatchSide` has them, by the job log and by `squeue --format=QUEUE_FORMAT` for those that are not over.

    The queue was asked first: what it says of a run that the log has is older. Of a job that was resized the log has
    the time of that as the start of each row from then on; when it began says `starts` (`read_starts`).
    Cluster time 0 is `epoch_s`; what was before (while Slurm started) is at 0.
    """
    place = {name: index for index, name in enumerate(names)}

    def at_us(text: str) -> int:
        return max(0, _unix_s(text, zone) - epoch_s) * US

    def nodes_of(text: str) -> list[int]:
        return [] if text in _UNTOLD else [place[name] for name in expand(text)]

    jobs: dict[int, dict[str, Any]] = {}
    for line in lines:
        row = _fields(line)
        number, outcome = int(row["JobId"]), _outcome(row["JobState"])
        job = jobs.setdefault(number, {"number": number, "submit_us": at_us(row["SubmitTime"]), "runs": []})
        begun = [max(0, at_s - epoch_s) * US for at_s in starts.get(row["JobId"], ())]
        times_us = at_us(row["StartTime"]), at_us(row["EndTime"])
        _add_run(job, outcome, times_us, nodes_of(row["NodeList"]), begun)
    for line in queue:
        job_id, state, submitted, started, nodelist, _ = line.split("|", 5)
        number = int(job_id)
        job = jobs.setdefault(number, {"number": number, "submit_us": at_us(submitted), "runs": []})
        if started in _UNTOLD:  # it waits again, and nobody knows how long
            job["state"] = JobState.QUEUED.name
            continue
        goes_on = _was_resized(job)
        is_recorded = not goes_on and any(run["start_us"] == at_us(started) for run in job["runs"])
        is_recorded |= _is_over(job) and at_us(started) < job["runs"][-1]["end_us"]
        if state in _HAS_NODES and not is_recorded:
            start_us = job["runs"][-1]["end_us"] if goes_on else at_us(started)
            open_run = {"start_us": start_us, "end_us": -1, "outcome": RunOutcome.RUNNING.name}
            job["runs"].append(open_run | {"nodes": nodes_of(nodelist)})
            job["state"] = JobState.RUNNING.name
        else:
            job.setdefault("state", JobState.QUEUED.name)
    return list(jobs.values())


def _add_run(
    job: dict[str, Any],
    outcome: RunOutcome,
    times_us: tuple[int, int],
    nodes: list[int],
    begun: Sequence[int],
) -> None:
    """What a row says of a job; `begun`: when its runs began, as far as that is known.

    A controller that died may not have saved that a job was over: the next one tells of the same run once more, with an
    end of its own, or runs the job again.
    """
    start_us, end_us = times_us
    if _is_over(job):
        if not nodes or start_us < job["runs"][-1]["end_us"]:
            return
        job["runs"][-1]["outcome"] = RunOutcome.REQUEUED.name
    job["state"] = _STATES[outcome].name
    if not nodes:
        return
    if goes_on := _was_resized(job):
        start_us = job["runs"][-1]["end_us"]
    elif outcome == RunOutcome.RESIZED or (job["runs"] and start_us < job["runs"][-1]["end_us"]):
        start_us = max((at_us for at_us in begun if at_us <= end_us), default=start_us)
    if not (goes_on and start_us == end_us and outcome == RunOutcome.RESIZED):
        job["runs"].append({"start_us": start_us, "end_us": end_us, "outcome": outcome.name, "nodes": nodes})


def read_sacct(
    lines: Iterable[str], names: Sequence[str], epoch_s: int, zone: tzinfo | None = UTC
) -> list[dict[str, Any]]:
    """The same of what `sacct -X -D --parsable2` printed, heading first, with SACCT_FIELDS at least."""
    place = {name: index for index, name in enumerate(names)}
    rows = iter(lines)
    heading = next(rows, "").split("|")
    if missing := [name for name in SACCT_FIELDS if name not in heading]:
        raise AccountingError(f"sacct's output has no column {missing[0]}; ask for {','.join(SACCT_FIELDS)}")
    jobs: dict[int, dict[str, Any]] = {}
    for line in rows:
        row = dict(zip(heading, line.split("|"), strict=False))
        if not row.get("JobIDRaw", "").isdecimal():
            continue  # a step, or a part of an array
        number = int(row["JobIDRaw"])
        state = row["State"].split(" ")[0]
        submit_us = max(0, _unix_s(row["Submit"], zone) - epoch_s) * US
        job = jobs.setdefault(number, {"number": number, "submit_us": submit_us, "runs": []})
        start_us, end_us = (
            -1 if row[name] in _UNTOLD else max(0, _unix_s(row[name], zone) - epoch_s) * US
            for name in ("Start", "End")
        )
        nodes = (
            []
            if row["NodeList"] in _UNTOLD or start_us < 0
            else [place[name] for name in expand(row["NodeList"])]
        )
        if state in _HAS_NODES - {"RESIZING"}:
            begun_us = job["runs"][-1]["end_us"] if _was_resized(job) else start_us
            run = {"start_us": begun_us, "end_us": -1, "outcome": RunOutcome.RUNNING.name, "nodes": nodes}
            job["state"] = JobState.RUNNING.name
            job["runs"].append(run)
        elif state == "PENDING":
            job["state"] = JobState.QUEUED.name
        else:
            _add_run(job, _outcome(state), (start_us, end_us), nodes, ())
    return list(jobs.values())


def with_the_job_log(
    stored: Sequence[dict[str, Any]], logged: Sequence[dict[str, Any]], untold: Collection[int] = ()
) -> list[dict[str, Any]]:
    """Jobs as slurmdbd tells them; those that were resized, and `untold` (by number), as the job log does.

    A requeue of a job that was resized does not reach slurmdbd (recorded on Slurm 22.05): the run before it and the one
    after it are one there, with nodes that others had meanwhile.
    """
    by_log = {
        job["number"]: job
        for job in logged
        if job["number"] in untold or any(run["outcome"] == RunOutcome.RESIZED.name for run in job["runs"])
    }
    return [by_log.pop(job["number"], job) for job in stored] + [
        job for number, job in by_log.items() if number in untold
    ]


def nodes_named(lines: Iterable[str]) -> list[str]:
    """All nodes in lines of the job log, or of sacct, in order."""
    found: set[str] = set()
    heading: list[str] = []
    for line in lines:
        if "NodeList=" in line:
            text = _fields(line)["NodeList"]
        elif heading:
            text = dict(zip(heading, line.split("|"), strict=False)).get("NodeList", "")
        else:
            heading, text = line.split("|"), ""
        if text not in _UNTOLD:
            found.update(expand(text))
    return sorted(found)


def _is_over(job: dict[str, Any]) -> bool:
    return bool(job["runs"]) and RunOutcome[job["runs"][-1]["outcome"]] in _FINAL


def _was_resized(job: dict[str, Any]) -> bool:
    return bool(job["runs"]) and job["runs"][-1]["outcome"] == RunOutcome.RESIZED.name


def read_marks(lines: Iterable[str], names: Sequence[str], epoch_s: int) -> list[tuple[int, int, bool]]:
    """(us, node, is drained or down), by the log of slurmctld; rounded down to seconds as the job log is."""
    place = {name: index for index, name in enumerate(names)}
    drained: dict[int, bool] = defaultdict(bool)
    found = []
    for line in lines:
        match = _DRAINED.match(line)
        if match is None or match[2] not in place:
            continue
        node, is_drained = place[match[2]], match[3].startswith(("DRAIN", "DOWN"))
        if drained[node] != is_drained:
            drained[node] = is_drained
            found.append((max(0, _unix_s(match[1]) - epoch_s) * US, node, is_drained))
    return found


class SlurmCounts(Counts):
    """Jobs that are over, by the job log."""

    def __init__(self, jobcomp: Path, replay_log: Path) -> None:
        super().__init__(jobcomp.parent, replay_log)
        self._jobcomp = jobcomp
        self._jobs_tail = Tail()
        self._over: set[str] = set()

    def look_at_accounting(self) -> None:
        for line in self._jobs_tail.lines(self._jobcomp):
            name, outcome = read_line(line.decode())
            if outcome in _FINAL and name != HELPER_NAME:
                self._over.add(name)
        self.ended = len(self._over)
