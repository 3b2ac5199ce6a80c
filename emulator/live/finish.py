"""A live run is looked after and comes to its end in one way, whoever started its processes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Protocol

from emulator.live.collect import STILL_WORKING, Source, collect
from emulator.live.resume_report import with_differences
from emulator.live.watch import lag

if TYPE_CHECKING:
    from emulator.clock.clock_master import SharedClockMaster
    from emulator.config.run_parts import LivePart
    from emulator.live.collect import BatchSide
    from emulator.live.disk_guard import DiskGuard
    from emulator.live.failure import FailedPlans, Failure
    from emulator.record.run_record import RunRecord

_BROKEN_OFF_S = 0.2
"""A plug-in has failed: its process holds the clock for good, nobody has to be waited for."""


class Ending(Source, Protocol):
    """A run that has come to its end, one way or the other."""

    now_us: int

    @property
    def failure(self) -> Failure | None:
        """A plug-in that failed in the batch system."""

    def annotate(self, at_us: int, text: str) -> None:
        """For the report."""

    def batch_side(self) -> BatchSide:
        """What the batch system knows."""

    def end_processes(self) -> None:
        """Whose files are read next; where they are still needed, nothing."""


def abort_reason(
    live: LivePart,
    clock: SharedClockMaster,
    room: DiskGuard,
    failure: Failure | None,
    plans: FailedPlans | None,
) -> str:
    """Why a run must end now, or '': asked again and again. `plans`: of a Balancer that answers."""
    if failure:
        return failure.reason
    if shortage := room.shortage():
        return shortage
    if plans is not None and (failed_plan := plans.now_and_then()):
        return failed_plan
    return lag(live, clock)


def record_of(
    run: Ending, clock: SharedClockMaster, reason: str, speed: float
) -> tuple[RunRecord, dict[str, Any]]:
    """Let everything stand still and collect: the record is that of one moment. With it the clock's pace."""
    failure = run.failure
    all_done = clock.freeze(_BROKEN_OFF_S) if failure else clock.freeze()
    run.now_us = clock.now_us()
    pace = asdict(clock.pace) | clock.pace.speeds(held=clock.held) | {"speed": speed}
    batch = run.batch_side()
    run.now_us = max(run.now_us, batch.now_us)
    # Who waits for a server that is gone waits in vain.
    if not all_done and batch.offline is not None and not failure:
        run.annotate(run.now_us, STILL_WORKING)
    run.end_processes()
    record = with_differences(collect(run, batch, reason), run.prepared.jobs)
    return (replace(record, traceback=failure.traceback) if failure else record), pace
