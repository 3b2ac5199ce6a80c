"""Dependencies, arrays, limits, cancellations and deadlines of jobs (`workload/relations.py`), whoever schedules them.

A job that must not start yet is held and stands in no queue; it is released into its place by the queue order. Whatever
a rule does at one time comes after the job ends of that time and before its submits and its pass.
"""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import TYPE_CHECKING

from balancer.clock import NEVER_US
from emulator.events.job_limits import Pools, Submissions
from emulator.kernel.job_states import JobState
from emulator.workload import relations as r
from emulator.workload.relations import After

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.events.job_limits import Limit
    from emulator.machine.actions import Accounting
    from emulator.workload.relations import Dependency
    from emulator.workload.table import JobTable


class _Due(IntEnum):
    """What is due on the agenda; at one time in this order."""

    SUBMIT = 0
    CANCEL = 1
    DEADLINE = 2
    READY = 3


"""What is due at one time, in this order."""
_FAILED_STATUS = (0, 5)
"""By the Standard Workload Format: failed, cancelled."""
_OVER = (JobState.ENDED, JobState.CANCELLED, JobState.REJECTED)
_WAITS = (JobState.QUEUED, JobState.HELD)


class JobRules:
    """The rules of these jobs, which are rows of a cluster's table in the same order.

    `begin` once, then `at` at each time at which jobs ended or something is due. `limits`: how many of a user, group,
    queue or QOS. Raises ValueError for an array with several limits, and for one of submitted jobs beside `think`.
    """

    def __init__(self, jobs: JobTable, limits: Sequence[Limit] = ()) -> None:
        self._submit_us = jobs.submit_us.tolist()
        self._run_ok = [status not in _FAILED_STATUS for status in jobs.status.tolist()]
        self._estimate_us = jobs.estimate_us.tolist()
        self._dependents: dict[int, list[Dependency]] = {}
        self._unmet: dict[int, int] = {}
        self._thinks: set[int] = set()
        for each in r.dependencies(jobs):
            self._dependents.setdefault(each.other, []).append(each)
            self._unmet[each.row] = self._unmet.get(each.row, 0) + 1
            if each.kind is After.THINK:
                self._thinks.add(each.row)
        self._doomed: set[int] = set()
        """Jobs to come whose dependency can never be met: they are cancelled when they are submitted."""
        self._ready_us: dict[int, int] = {}
        """Of jobs that wait for others: not before that."""
        self._before_start = {
            each.other for all_ in self._dependents.values() for each in all_ if each.kind is After.START
        }
        self._cancel_us, self._deadline_us = (
            _known_values(jobs, name, jobs.extra) for name in (r.CANCEL, r.DEADLINE)
        )
        self._pools = Pools(jobs, limits)
        self._submissions = Submissions(jobs, limits)
        if self._submissions.rows & self._thinks:
            raise ValueError(
                "limits of submitted jobs do not go with jobs that are submitted after others' ends (think)"
            )
        self._free: list[int] = []
        """Jobs that nothing holds any more: they are released once all that is due now has been cancelled."""
        self._agenda: list[tuple[int, int, int]] = []
        self.cancelled = 0
        """Jobs that a rule has cancelled."""

    @property
    def watches_ends(self) -> bool:
        """Also for cancellations and deadlines: those of a job that is over are no event, and cause no pass."""
        return bool(
            self._dependents or self._pools or self._submissions or self._cancel_us or self._deadline_us
        )

    @property
    def watches_passes(self) -> bool:
        """Whether somebody waits for a start."""
        return bool(self._before_start)

    def next_us(self, act: Accounting) -> int:
        """When something is due, NEVER_US if nothing is."""
        state = act.cluster.state
        while self._agenda and self._agenda[0][1] in (_Due.CANCEL, _Due.DEADLINE):
            if state[self._agenda[0][2]] not in _OVER:
                break
            heapq.heappop(self._agenda)
        return self._agenda[0][0] if self._agenda else NEVER_US

    def begin(self, act: Accounting) -> None:
        """Nothing is submitted yet. Raises ValueError."""
        if self._thinks:
            act.cluster.expect_later_submits()
        at_once = {row for row, after_us in self._cancel_us.items() if after_us == 0}
        at_once |= {row for row, after_us in self._deadline_us.items() if after_us < self._estimate_us[row]}
        self._gated = self._unmet.keys() | self._pools.rows | self._submissions.rows | at_once
        for row in self._gated:
            self._agenda.append((self._submit_us[row], _Due.SUBMIT, row))
            if row not in self._unmet:
                self._agenda.append((self._submit_us[row], _Due.READY, row))
        heapq.heapify(self._agenda)
        for row in (self._cancel_us.keys() | self._deadline_us.keys()) - self._thinks:
            self._set_ends(row, self._submit_us[row])

    def _set_ends(self, row: int, submit_us: int) -> None:
        """The job's cancellation and the last moment at which it may start, which count from its submit."""
        if row in self._cancel_us:
            heapq.heappush(self._agenda, (submit_us + self._cancel_us[row], _Due.CANCEL, row))
        if row in self._deadline_us:
            latest_us = max(submit_us + self._deadline_us[row] - self._estimate_us[row], submit_us - 1)
            heapq.heappush(self._agenda, (latest_us + 1, _Due.DEADLINE, row))

    def at(self, ended: Iterable[int], gone: Iterable[int], act: Accounting) -> None:
        """What the rules do now that these jobs have ended, and those were stopped for good."""
        for job in ended:
            self._over(job, act, succeeded=self._run_ok[job])
        for job in gone:
            self._over(job, act, succeeded=False)
        while self._free or self._pools.is_touched or (self._agenda and self._agenda[0][0] <= act.now_us):
            while self._agenda and self._agenda[0][0] <= act.now_us:
                _, what, row = heapq.heappop(self._agenda)
                self._due(what, row, act)
            released, self._free = sorted(self._free + self._pools.admit()), []
            for row in released:
                if act.cluster.state[row] == JobState.HELD:  # it may have been cancelled meanwhile
                    self._release(row, act)

    def _due(self, what: int, row: int, act: Accounting) -> None:
        state = act.cluster.state[row]
        if what == _Due.SUBMIT:
            act.cluster.hold_back(row)
            if row in self._doomed or not self._submissions.admit(row):
                self._cancel(row, act)
        elif what == _Due.CANCEL or (what == _Due.DEADLINE and state in _WAITS):
            if state not in _OVER:
                self._cancel(row, act)
        elif what == _Due.READY and state == JobState.HELD:
            if row not in self._pools:
                self._free.append(row)
            elif self._pools.is_too_large(row):
                self._cancel(row, act)
            else:
                self._pools.wait(row)

    def after_pass(self, act: Accounting) -> bool:
        """A pass is over. Returns whether another one must follow: a job waited for a start of this one."""
        state = act.cluster.state
        begun = sorted(job for job in self._before_start if state[job] == JobState.RUNNING)
        for job in begun:
            self._before_start.discard(job)
            for each in self._dependents[job]:
                if each.kind is After.START:
                    self._met(each, act.now_us)
        if self._agenda and self._agenda[0][0] <= act.now_us:
            self.at((), (), act)
            return True
        return False

    # What becomes of jobs.

    def _over(self, job: int, act: Accounting, *, succeeded: bool) -> None:
        """A job will never run again."""
        self._pools.leave(job)
        self._submissions.leave(job)
        has_started = job not in self._before_start
        self._before_start.discard(job)
        for each in self._dependents.get(job, ()):
            if act.cluster.state[each.row] in _OVER:
                continue
            if each.kind is After.START and has_started:
                continue
            if each.kind in (After.OK, After.NOT_OK) and succeeded != (each.kind is After.OK):
                if act.cluster.state[each.row] == JobState.FUTURE:
                    self._doomed.add(each.row)
                else:
                    self._cancel(each.row, act)
            else:
                self._met(each, act.now_us)

    def _met(self, each: Dependency, now_us: int) -> None:
        row = each.row
        self._ready_us[row] = max(self._ready_us.get(row, 0), now_us + each.delay_us)
        self._unmet[row] -= 1
        if not self._unmet[row]:
            heapq.heappush(self._agenda, (max(self._ready_us[row], self._submit_us[row]), _Due.READY, row))

    def _cancel(self, row: int, act: Accounting) -> None:
        act.cancel(row)
        self.cancelled += 1
        self._over(row, act, succeeded=False)

    def _release(self, row: int, act: Accounting) -> None:
        if row in self._thinks:
            act.cluster.submit_later(row, act.now_us)
            self._set_ends(row, act.now_us)
        act.cluster.release_hold(row)


def _known_values(jobs: JobTable, name: str, extra: object) -> dict[int, int]:
    """The values of a column by row, where they are known."""
    if not (isinstance(extra, dict) and name in extra):
        return {}
    return {row: value for row, value in enumerate(jobs.column(name).tolist()) if value >= 0}
