"""A live run is watched until everything has happened, whoever started its processes, and comes to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import seconds, wall_us
from balancer.nodelist import some
from emulator.kernel.job_states import RunOutcome
from emulator.live.collect import STILL_WORKING, collect, replayed
from emulator.live.failure import DiskGuard, is_full
from emulator.live.roles import RunSettings
from emulator.live.run_requirements import requirements_of
from emulator.record.run_record import Mark
from emulator.report.progress import RunProgress, counted
from emulator.workload.table import Kind

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.clock.clock_master import SharedClockMaster
    from emulator.config.run_parts import LivePart
    from emulator.live.batch_system import RunningBatch
    from emulator.live.collect import BatchSide
    from emulator.live.failure import FailedPlans, Failure
    from emulator.live.replay_log import Counts
    from emulator.live.resume import ResumableRun
    from emulator.live.run_files import RunFiles
    from emulator.record.run_record import RunRecord
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.workload.table import JobTable

_LOOK_S = 0.1
_BROKEN_OFF_S = 0.2
"""A plug-in has failed: its process holds the clock for good, nobody has to be waited for."""


def watch(
    run: LiveRun, clock: SharedClockMaster, counts: Counts, pause: threading.Event, *, quiet: bool = False
) -> str:
    """Until everything has happened. Returns why it ended early, or ''. `pause`: set when nobody need wait."""
    jobs = run.prepared.jobs
    batch_jobs = len(jobs) if run.batch_decides else int((jobs.kind == Kind.BATCH).sum())
    soonest_us = int((jobs.submit_us + jobs.run_us).max(initial=0))  # if nobody waits
    what = counted(jobs) if run.batch_decides else "jobs"
    with RunProgress(jobs=batch_jobs, end_us=soonest_us, quiet=quiet, what=what) as progress:
        while True:
            if why := run.abort_reason():
                return why
            for at_us, text in clock.news():
                run.annotate(at_us, text)
            is_replayed = run.is_replayed()  # before its last lines are read
            counts.look()
            progress.update(clock.now_us(), counts.ended, counts.granted, counts.rejected)
            run.report_progress(counts)
            has_ended = counts.ended >= batch_jobs - counts.failed
            if is_replayed and has_ended and run.is_settled():
                return ""
            if is_replayed and not has_ended and (stuck := run.stuck()) is not None:
                return stuck
            pause.wait(_LOOK_S)


def lag(live: LivePart, clock: SharedClockMaster) -> str:
    """Why a run at a strict pace must end: it is too far behind. '' if it is not."""
    longest_s = seconds(clock.pace.longest_hold_us)
    if live.pace == "strict" and longest_s > live.max_lag_s:
        return (
            f"the machine cannot keep up: {longest_s:.3f} s behind (live.max_lag_s is {live.max_lag_s:g} s)"
        )
    return ""


class LiveRun(ABC):
    """A live run, whoever starts its processes: what it is told, how far it has come, and what it leaves.

    `resumable`: the run of a folder, which may go on; None: nobody could go on with it.
    """

    names: tuple[str, ...]
    _batch: RunningBatch
    _clock: SharedClockMaster

    def __init__(
        self,
        scenario: Scenario,
        prepared: Prepared,
        files: RunFiles,
        resumable: ResumableRun | None,
        *,
        comes_back: bool,
    ) -> None:
        requirements = requirements_of(scenario, prepared)
        self.requirements = requirements
        self.scenario, self.prepared = scenario, prepared
        self.mechanism, self.batch_decides = requirements.balancer, requirements.batch_decides
        self._files, self.replay_log = files, files.replay_log
        self.run_settings = RunSettings(scenario, requirements, prepared.jobs, comes_back)
        self._resumable = resumable
        state = None if resumable is None else resumable.state
        self.marks = [] if state is None else [Mark(at_us, text) for at_us, text in state.marks]
        self.token = "" if state is None else state.token
        self._ran_us = 0 if state is None else state.wall_us
        self._began_us: int | None = None
        self.now_us = 0
        self._disk_guard = DiskGuard(files.root)
        self._failed_plans: FailedPlans | None = None

    @abstractmethod
    def is_replayed(self) -> bool:
        """The replayer has nothing more to submit."""

    @abstractmethod
    def report_progress(self, counts: Counts) -> None:
        """How far it has come, for who asks."""

    @abstractmethod
    def end_processes(self) -> None:
        """Whose files are read next; where they are still needed, nothing."""

    @property
    @abstractmethod
    def ledger(self) -> str | Path | None:
        """File or URL of the Balancer's ledger; None: there is none."""

    @property
    @abstractmethod
    def steps_done(self) -> int:
        """How many steps of the scenario (`live.faults`) are done."""

    @property
    def failure(self) -> Failure | None:
        """A plug-in that failed in the batch system."""
        return self._batch.failure

    def is_settled(self) -> bool:
        """Asked when all jobs are over: everything that was done to them is told."""
        return self._batch.is_settled()

    def stuck(self) -> str | None:
        """Nothing more will happen, though jobs wait: '' if that is how it should end, a text if not; else None."""
        return self._batch.stuck(self._clock.now_us())

    def batch_side(self) -> BatchSide:
        """What the batch system knows."""
        return self._batch.collect(replayed(self.replay_log).job_ids)

    @property
    def wall_us(self) -> int:
        """Wall time for which it has run, with all that it ran before it was stopped."""
        return self._ran_us + (0 if self._began_us is None else wall_us() - self._began_us)

    def annotate(self, at_us: int, text: str) -> None:
        """For the report: what happened to the fleet."""
        self.marks.append(Mark(at_us, text))
        self.note_progress()

    def note_progress(self) -> None:
        """What the next one needs to go on with the run, where it may be stopped."""
        if self._resumable is not None:
            self._resumable.note(
                self.marks, token=self.token, steps_done=self.steps_done, wall_us=self.wall_us
            )

    def abort_reason(self) -> str:
        """Asked again and again: why the run must end now, or ''."""
        if failure := self.failure:
            return failure.reason
        if shortage := self._disk_guard.shortage():
            return shortage
        # Of a Balancer that answers.
        if self._failed_plans is not None and (failed_plan := self._failed_plans.now_and_then()):
            return failed_plan
        return lag(self.scenario.live, self._clock)

    def watch(self, pause: threading.Event, *, quiet: bool) -> str:
        """Until everything has happened. Why it ended early, or ''. A volume without room is a reason, too.

        `pause`: set when nobody need wait.
        """
        try:
            self._disk_guard.reserve()
            return watch(self, self._clock, self._batch.counts(self.replay_log), pause, quiet=quiet)
        except OSError as error:
            if not is_full(error):
                raise
            return self._disk_guard.shortage() or str(error)
        finally:
            self._disk_guard.release()  # at the end others have some to write

    def collect(self, reason: str) -> tuple[RunRecord, dict[str, Any]]:
        """Let everything stand still and collect: the record is that of one moment. With it the clock's pace."""
        if not reason and self._failed_plans is not None:
            reason = self._failed_plans.look()  # it may have failed since it was last looked at
        clock, failure = self._clock, self.failure
        all_done = clock.freeze(_BROKEN_OFF_S) if failure else clock.freeze()
        self.now_us = clock.now_us()
        pace = asdict(clock.pace) | clock.pace.speeds(held=clock.held) | {"speed": self.scenario.live.speed}
        batch = self.batch_side()
        self.now_us = max(self.now_us, batch.now_us)
        # Who waits for a server that is gone waits in vain.
        if not all_done and batch.offline is not None and not failure:
            self.annotate(self.now_us, STILL_WORKING)
        self.end_processes()
        record = with_differences(collect(self, batch, reason), self.prepared.jobs)
        return (replace(record, traceback=failure.traceback) if failure else record), pace


# What differs in a run that was stopped in the middle and went on: it is said with the mark of that moment.

WENT_ON = "the controller was started again"
"""The mark of a run that went on; what differs from there on is added."""
_SAME = "nothing that was under way differs"
_MOST_NUMBERS = 100


def with_differences(record: RunRecord, planned: JobTable) -> RunRecord:
    """The record, whose marks say what each stop has changed. `planned`: jobs as the trace has them."""
    marks = tuple(
        Mark(mark.at_us, f"{mark.text}: {differences(record, planned, mark.at_us)}")
        if mark.text == WENT_ON
        else mark
        for mark in record.marks
    )
    return replace(record, marks=marks)


def differences(record: RunRecord, planned: JobTable, at_us: int) -> str:
    """What went otherwise of all that was under way when the run stood still, in one line.

    Jobs that ran and had to begin again, jobs that were due and came late, requests that waited and were rejected:
    by their numbers in the trace.
    """
    found = [
        _of(record, _began_again(record, at_us), "job", "began again, since their nodes were lost"),
        _of(record, _came_late(record, planned, at_us), "job", "came late"),
        _of(record, _rejected(record, planned, at_us), "request", "rejected that waited then"),
    ]
    return "; ".join(filter(None, found)) or _SAME


def _began_again(record: RunRecord, at_us: int) -> NDArray[np.int64]:
    runs = record.runs
    lost = (runs.start_us <= at_us) & (runs.end_us >= at_us) & (runs.end_us > runs.start_us)
    return np.unique(runs.job[lost & (runs.outcome == RunOutcome.REQUEUED)]).astype(np.int64)


def _came_late(record: RunRecord, planned: JobTable, at_us: int) -> NDArray[np.int64]:
    late = (planned.submit_us <= at_us) & (record.jobs.submit_us > at_us)
    return np.flatnonzero(late & (planned.kind == Kind.BATCH)).astype(np.int64)


def _rejected(record: RunRecord, planned: JobTable, at_us: int) -> NDArray[np.int64]:
    asked_us = planned.submit_us
    rows = [
        lease.job
        for lease in record.leases
        if not lease.granted and asked_us[lease.job] <= at_us <= lease.decided_us
    ]
    return np.array(rows, np.int64)


def _of(record: RunRecord, rows: NDArray[np.int64], what: str, how: str) -> str:
    if not len(rows):
        return ""
    numbers = [str(number) for number in sorted(record.jobs.number[rows].tolist())]
    return f"{len(numbers)} {what}{'s' * (len(numbers) > 1)} {how} ({some(numbers, _MOST_NUMBERS)})"
