"""The jobs of a replay as they go to the batch system: in the order of their times, the next ones prepared ahead.

To start the program that submits a job takes far longer than the submission itself. A submitter that `Prepares` has
that done before the job's time; the submissions themselves still go one after the other, so that the batch
system numbers and ranks jobs in the order of the log.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.live.qsub import Prepares, Submission, computing, following, sleeping, working
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.live.qsub import Submitter
    from emulator.live.replayer_config import ReplayerConfig


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the workload, its times in cluster time."""

    number: int
    submit_us: int
    run_us: int
    estimate_us: int
    nodes: int
    kind: Kind = Kind.BATCH
    trace_numbers: str = "-1/-1/-1"
    """Queue, user and group in the trace: a queue order may ask for them."""

    @property
    def name(self) -> str:
        return f"j{self.number}"

    @property
    def lease_name(self) -> str:
        return f"lease{self.number}"


class Submissions:
    """What `submitter` is given, by the settings of a replay."""

    def __init__(self, config: ReplayerConfig, submitter: Submitter) -> None:
        self._config = config
        self._submitter = submitter
        self._prepares = submitter if isinstance(submitter, Prepares) else None
        self._to_come: deque[Job] = deque()
        self._prepared: set[int] = set()

    def expect(self, job: Job) -> None:
        """It will be submitted: after those of earlier times, and after those that were told before it."""
        self._to_come.append(job)

    def prepare(self) -> None:
        """All jobs are told: begin with the first ones."""
        self._to_come = deque(sorted(self._to_come, key=lambda job: job.submit_us))
        self._prepare_more()

    def submit(self, job: Job) -> str:
        """The identifier that the job got. Raises QsubError."""
        submission = self._submission(job)
        if self._prepares is not None and job.number in self._prepared:
            self._prepares.send(submission)
            self._prepared.discard(job.number)
            self._prepare_more()  # while the batch system is busy with this one
        return self._submitter.submit(submission)

    def find(self, job: Job) -> str | None:
        """The identifier of a job that may have been submitted already."""
        return self._submitter.find(job.name)

    def close(self) -> None:
        """Nothing more will be submitted."""
        if self._prepares is not None:
            self._prepares.close()

    def _prepare_more(self) -> None:
        if self._prepares is None:
            return
        while self._to_come and len(self._prepared) < self._prepares.ahead:
            job = self._to_come.popleft()
            self._prepares.prepare(self._submission(job))
            self._prepared.add(job.number)

    def _submission(self, job: Job) -> Submission:
        """Where a job goes, whose it is in the trace, and, for a mechanism, which of the workload it is."""
        config = self._config
        variables = [f"WORKLOAD_JOB={job.number}"] if config.qnotice else []
        if config.job_folder is not None:
            variables.append("PYTHONPATH")  # ours, so that the job finds the same program
        return Submission(
            job.name,
            job.nodes,
            job.estimate_us,
            self._script(job),
            job.trace_numbers,
            "ondemand" if config.qnotice and job.kind == Kind.ON_DEMAND else None,
            variables,
            config.job_folder,
            job.number,
        )

    def _script(self, job: Job) -> str:
        config, folder = self._config, self._config.job_folder
        if folder is None:
            return sleeping(job.run_us)
        if config.program == "cpu-bound":
            return computing()
        options: list[str] = []
        if config.follow_clock and config.clock is not None:
            options = following(config.clock, job.name, job.nodes, config.orders)
        return working(job.run_us, job.nodes, folder / "checkpoints", *options)
