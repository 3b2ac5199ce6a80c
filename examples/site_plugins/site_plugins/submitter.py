"""A submitter: how a live run gives jobs to the batch system. This one notes what it submitted."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - parameters are converted to their types
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING

from emulator.live.qsub import Qsub

if TYPE_CHECKING:
    from emulator.live.qsub import Submission


@dataclass(frozen=True, slots=True)
class NotedQsub:
    """Submits with `qsub`, and adds a line `ID NAME` a job to a file."""

    notes: Path
    command: Sequence[str] = ("qsub",)

    def submit(self, job: Submission) -> str:
        job_id = Qsub(self.command).submit(job)
        with self.notes.open("a", encoding="utf-8") as notes:
            notes.write(f"{job_id} {job.name}\n")
        return job_id

    def find(self, name: str) -> str | None:
        return Qsub(self.command).find(name)
