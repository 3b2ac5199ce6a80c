"""Whether a run still gets anywhere: one whose events bring no job and no lease nearer to its end is ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from emulator.kernel.job_states import JobState
from emulator.plugins.failure import Cause, PluginError
from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from emulator.machine.actions import Accounting
    from emulator.machine.machine import Machine

MOST_EVENTS = 500_000
"""Timers, failures, repairs and the like in a row that may bring no job and no lease nearer to its end."""
_LOOKS = 10
"""How often jobs are looked at meanwhile: that costs as much as there are jobs."""
_OVER = (JobState.ENDED, JobState.REJECTED, JobState.CANCELLED)
_UNDER_WAY = (JobState.RUNNING, JobState.SUSPENDED)


class Progress:
    """Counts the events of a run. Progress is a job or lease that is submitted, is over, or has more of its work done.

    While some are still to be submitted, time that passes is progress, too: it leads to them. Work that is lost when a
    job must begin anew is no progress: only more than there ever was since the latest end is.
    """

    def __init__(self, machine: Machine, actions: Accounting | None = None) -> None:
        self._machine = machine
        self._actions = actions
        self._events: Counter[Cause] = Counter()
        """Since the latest progress that was seen."""
        self._unseen = 0
        """Events since the latest look."""
        self._steps, self._done = -1, 0.0

    def event(self, cause: Cause, count: int = 1) -> None:
        """Events have happened. Raises PluginError where they lead nowhere, with the name of what caused most."""
        self._events[cause] += count
        self._unseen += count
        if self._unseen * _LOOKS >= MOST_EVENTS:
            self._look()

    def _look(self) -> None:
        steps, done = self._jobs_and_work()
        self._unseen = 0
        if steps > self._steps or done > self._done:
            self._steps, self._done = max(steps, self._steps), done
            self._events.clear()
        elif self._events.total() >= MOST_EVENTS:
            self._fail()

    @property
    def _now_us(self) -> int:
        return self._machine.now_us if self._actions is None else self._actions.now_us

    def _jobs_and_work(self) -> tuple[int, float]:
        """How many times a job was submitted or over; work done of those that are not (us, or node-us), and waiting."""
        state = self._machine.state
        acts, now_us = self._actions, self._now_us
        is_to_come = (state == JobState.FUTURE) & (self._machine.job_table().submit_us > now_us)
        to_come = int(is_to_come.sum())
        steps = len(state) - to_come + int(np.isin(state, _OVER).sum())
        waited = float(now_us) if to_come else 0.0
        if acts is None or not acts.has_acted_on_runs:
            running = state == JobState.RUNNING
            return steps, waited + float((now_us - self._machine.start_us[running]).sum(dtype=float))
        done, _ = acts.running.done_of(np.flatnonzero(np.isin(state, _UNDER_WAY)), now_us)
        waits = ~np.isin(state, (*_OVER, *_UNDER_WAY))
        saved = acts.running.work["saved"][waits]
        return steps, waited + float(done.sum(dtype=float)) + float(saved.sum(dtype=float))

    def _fail(self) -> NoReturn:
        (cause, _), events = self._events.most_common(1)[0], self._events.total()
        open_jobs = int((~np.isin(self._machine.state, _OVER)).sum())
        raise PluginError(
            cause.plugin,
            cause.event,
            self._now_us,
            f"{grouped(events)} events in a row brought no job or lease nearer to its end; {open_jobs} are not over. "
            f"{cause.advice}",
        )
