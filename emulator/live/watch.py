"""A live run is watched until everything has happened, whoever started its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from balancer.clock import seconds
from emulator.report.progress import RunProgress, counted
from emulator.workload.table import Kind

if TYPE_CHECKING:
    import threading

    from emulator.clock.clock_master import SharedClockMaster
    from emulator.config.run_parts import LivePart
    from emulator.live.progress import Counts
    from emulator.runs.preparation import Prepared

_LOOK_S = 0.1


class Watched(Protocol):
    """A run that is under way."""

    prepared: Prepared
    batch_decides: bool
    """The mechanism is the batch system's, not a service of its own."""

    def abort_reason(self) -> str:
        """Asked again and again: why the run must end now, or ''."""

    def is_replayed(self) -> bool:
        """The replayer has nothing more to submit."""

    def is_settled(self) -> bool:
        """Asked when all jobs are over: everything that was done to them is told."""

    def stuck(self) -> str | None:
        """Nothing more will happen, though jobs wait: '' if that is how it should end, a text if not; else None."""

    def annotate(self, at_us: int, text: str) -> None:
        """For the report: what happened to the fleet."""

    def report_progress(self, counts: Counts) -> None:
        """How far it has come, for who asks."""


def watch(
    run: Watched, clock: SharedClockMaster, counts: Counts, pause: threading.Event, *, quiet: bool = False
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
