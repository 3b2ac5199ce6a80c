"""Torque's accounting log: one file a day, one record a line, as real Torque writes it; and what it tells of jobs.

The log has whole seconds, so what is read of it is rounded down to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, TextIO

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.torque.format import usage
from emulator.live.torque.jobs import outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from emulator.live.torque.format import View
    from emulator.live.torque.jobs import Job


def queued(job: Job) -> str:
    return f"queue={job.request.queue}"


def started(job: Job, view: View) -> str:
    request = job.request
    fields = {
        "user": request.user,
        "group": request.group,
        **({"account": request.account} if request.account else {}),
        "jobname": request.name,
        "queue": request.queue,
        "ctime": view.moment(job.ctime_us),
        "qtime": view.moment(job.ctime_us),
        "etime": view.moment(job.etime_us),
        "start_count": job.run,
        "start": view.moment(job.start_us),
        "owner": f"{request.user}@{view.server}",
        "exec_host": view.exec_host(job),
    }
    return "".join(f"{name}={value} " for name, value in fields.items()) + "".join(
        f"Resource_List.{name}={value} " for name, value in _resources(job)
    )


def _resources(job: Job) -> list[tuple[str, str]]:
    """Torque sets `neednodes` behind `nodect` when the job runs."""
    listed = []
    for pair in job.request.resources:
        listed.append(pair)
        if pair[0] == "nodect":
            listed.append(("neednodes", job.request.neednodes))
    return listed


def ended(job: Job, view: View) -> str:
    used = " ".join(f"resources_used.{name}={value}" for name, value in usage(job))
    return (
        f"{started(job, view)}session={job.session or 0} "
        f"total_execution_slots={job.request.nodes * job.request.ppn} unique_node_count={job.request.nodes} "
        f"end={view.moment(job.end_us)} Exit_status={job.exit_status} {used}"
    )


def deleted(requestor: str) -> str:
    return f"requestor={requestor}"


class AccountingLog:
    """Appends to `folder/YYYYMMDD`; each record is flushed, so that it can be read at once.

    `muted`: nothing is written, because it has been before (a server is being rebuilt).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._day = ""
        self._file: TextIO | None = None
        self.muted = False

    def write(self, kind: str, job: Job, view: View, text: str = "") -> None:
        """One record of type Q, S, E, D or R, dated now."""
        if self.muted:
            return
        now = datetime.fromtimestamp(view.moment(view.now_us), UTC)
        if (day := f"{now:%Y%m%d}") != self._day:
            self.close()
            self._day = day
        if self._file is None:
            self._file = (self._folder / day).open("a", encoding="utf-8")
        self._file.write(f"{now:%m/%d/%Y %H:%M:%S};{kind};{view.job_id(job)};{text}\n")
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


_FIELDS = 4


@dataclass(slots=True)
class _Job:
    submit_us: int
    state: JobState = JobState.QUEUED
    runs: list[dict[str, Any]] = field(default_factory=list)

    def close(self, at_us: int, outcome: RunOutcome) -> None:
        """The run that is open, if one is, ended."""
        if self.runs and self.runs[-1]["end_us"] < 0:
            self.runs[-1] |= {"end_us": at_us, "outcome": outcome.name}


def nodes_named(folder: Path) -> list[str]:
    """All nodes on which something ran, by the records of starts."""
    return sorted(
        {
            host.partition("/")[0]
            for _, kind, _, text in _records(folder, 0)
            if kind == "S"
            for host in _fields(text)["exec_host"].split("+")
        }
    )


def read_accounting(
    folder: Path, nodes: Sequence[str], epoch_s: int, zone: tzinfo | None = UTC
) -> list[dict[str, Any]]:
    """Jobs and runs in the form of the batch server's export. A last line without its end is left out.

    `zone`: the log's; None: this machine's.
    """
    places = {name: place for place, name in enumerate(nodes)}
    jobs: dict[int, _Job] = {}
    for at_us, kind, number, text in _records(folder, epoch_s, zone):
        if kind == "Q":
            jobs[number] = _Job(at_us)
        elif number in jobs:
            _apply(jobs[number], kind, at_us, text, places)
    return [
        {"number": number, "submit_us": job.submit_us, "state": job.state.name, "runs": job.runs}
        for number, job in sorted(jobs.items())
    ]


def _records(folder: Path, epoch_s: int, zone: tzinfo | None = UTC) -> Iterator[tuple[int, str, int, str]]:
    """(cluster time, type, job number, text) of each record, oldest first."""
    for path in sorted(folder.glob("*")):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if not line.endswith("\n"):
                return
            date, kind, job, text = line.rstrip("\n").split(";", _FIELDS - 1)
            if not job.split(".", 1)[0].isdecimal():
                continue  # a licence record, or a part of an array
            local = datetime.strptime(date, "%m/%d/%Y %H:%M:%S")  # noqa: DTZ007 - the next line gives it its zone
            at = local.astimezone() if zone is None else local.replace(tzinfo=zone)
            yield (int(at.timestamp()) - epoch_s) * US, kind, int(job.split(".", 1)[0]), text


def _apply(job: _Job, kind: str, at_us: int, text: str, places: Mapping[str, int]) -> None:
    if kind == "S":
        job.close(at_us, RunOutcome.REQUEUED)  # a job that starts again has been sent back before
        hosts = _fields(text)["exec_host"].split("+")
        nodes = sorted({places[host.partition("/")[0]] for host in hosts})
        job.runs.append({"start_us": at_us, "end_us": -1, "outcome": RunOutcome.RUNNING.name, "nodes": nodes})
        job.state = JobState.RUNNING
    elif kind == "R":
        job.close(at_us, RunOutcome.REQUEUED)
        job.state = JobState.QUEUED
    elif kind == "E":
        is_deleted = job.state == JobState.CANCELLED
        outcome = RunOutcome.CANCELLED if is_deleted else outcome_of(int(_fields(text)["Exit_status"]))
        job.close(at_us, outcome)
        job.state = JobState.CANCELLED if outcome == RunOutcome.CANCELLED else JobState.ENDED
    elif kind == "D":
        job.state = JobState.CANCELLED


def _fields(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split() if "=" in pair)
