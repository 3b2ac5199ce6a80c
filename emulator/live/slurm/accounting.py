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
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from balancer.clock import US
from balancer.nodelist import expand
from emulator.harness.record import JobState, RunOutcome
from emulator.live.counts import Counts, Tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_FIELDS = ("JobId", "JobState", "StartTime", "EndTime", "NodeList", "SubmitTime")
_FIELD = re.compile(rf"({'|'.join(_FIELDS)})=(\S*)")
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
_DRAINED = re.compile(r"\[([^\]]+)\] update_node: node (\S+) state set to (\S+)")
QUEUE_FORMAT = "%A|%T|%V|%S|%N"
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


def _unix_s(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


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


def read_jobs(
    lines: Iterable[str], queue: Iterable[str], names: Sequence[str], epoch_s: int
) -> list[dict[str, Any]]:
    """Jobs as `BatchSide` has them, by the job log and by `squeue --format=QUEUE_FORMAT` for those that are not over.

    The queue was asked first: what it says of a run that the log has is older.
    Cluster time 0 is `epoch_s`; what was before (while Slurm started) is at 0.
    """
    place = {name: index for index, name in enumerate(names)}

    def at_us(text: str) -> int:
        return max(0, _unix_s(text) - epoch_s) * US

    def nodes_of(text: str) -> list[int]:
        return [] if text in {"", "(null)"} else [place[name] for name in expand(text)]

    jobs: dict[int, dict[str, Any]] = {}
    for line in lines:
        told = _fields(line)
        number, outcome = int(told["JobId"]), _outcome(told["JobState"])
        job = jobs.setdefault(number, {"number": number, "submit_us": at_us(told["SubmitTime"]), "runs": []})
        job["state"] = _STATES[outcome].name
        nodes = nodes_of(told["NodeList"])
        if nodes:
            times = {"start_us": at_us(told["StartTime"]), "end_us": at_us(told["EndTime"])}
            job["runs"].append(times | {"outcome": outcome.name, "nodes": nodes})
    for line in queue:
        job_id, state, submitted, started, nodelist = line.split("|")
        number = int(job_id)
        job = jobs.setdefault(number, {"number": number, "submit_us": at_us(submitted), "runs": []})
        is_told = state in _HAS_NODES and any(run["start_us"] == at_us(started) for run in job["runs"])
        if state in _HAS_NODES and not is_told:
            open_run = {"start_us": at_us(started), "end_us": -1, "outcome": RunOutcome.RUNNING.name}
            job["runs"].append(open_run | {"nodes": nodes_of(nodelist)})
            job["state"] = JobState.RUNNING.name
        else:
            job.setdefault("state", JobState.QUEUED.name)
    return list(jobs.values())


def read_marks(lines: Iterable[str], names: Sequence[str], epoch_s: int) -> list[tuple[int, int, bool]]:
    """(us, node, is drained), by the log of slurmctld; rounded down to seconds as the job log is."""
    place = {name: index for index, name in enumerate(names)}
    drained: dict[int, bool] = defaultdict(bool)
    found = []
    for line in lines:
        match = _DRAINED.match(line)
        if match is None or match[2] not in place:
            continue
        node, is_drained = place[match[2]], match[3].startswith("DRAIN")
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

    def look_at_accounting(self) -> None:
        for line in self._jobs_tail.lines(self._jobcomp):
            self.ended += _outcome(_fields(line.decode())["JobState"]) in _FINAL
