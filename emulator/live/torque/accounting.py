"""Torque's accounting log: one file a day, one record a line, as real Torque writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from emulator.live.torque.format import usage

if TYPE_CHECKING:
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
