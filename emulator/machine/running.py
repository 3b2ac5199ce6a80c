"""Actions on running jobs: stop them and keep their work, save, give and take nodes, let them stand still, slow them.

The accounting is the same in both clocks. `now_us` comes from the caller; what jobs have done is in `work.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster_views import IllegalJobTransition
from emulator.cluster.views import read_only
from emulator.kernel import tables as t
from emulator.kernel.columns import blocks, longer
from emulator.kernel.entry_points import entry_point
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.machine import work as w
from emulator.machine.account import Account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from emulator.cluster.cluster import Cluster
    from emulator.kernel.rows import Rows

_LENGTH_US = entry_point(w.length_us)


class Save(StrEnum):
    """What a job that is stopped keeps of its work."""

    NONE = "none"
    """Nothing: it begins anew, whatever it saved before."""
    LATEST_CHECKPOINT = "latest_checkpoint"
    """What its last whole checkpoint holds."""
    NOW = "now"
    """Everything: it writes a checkpoint first, and has its nodes until that is written."""


class Activity(StrEnum):
    """What a running job does. Each action says in which of them it may be taken."""

    COMPUTING = "computing"
    SAVING = "saving"
    """Writes a checkpoint and leaves its nodes then."""
    SUSPENDED = "suspended"


_ALLOWED: dict[str, frozenset[Activity]] = {
    "be preempted": frozenset(Activity),
    "save and stop": frozenset({Activity.COMPUTING}),
    "leave its nodes": frozenset({Activity.SAVING}),
    "write a checkpoint": frozenset({Activity.COMPUTING}),
    "be resized": frozenset({Activity.COMPUTING}),
    "be suspended": frozenset({Activity.COMPUTING}),
    "be resumed": frozenset({Activity.SUSPENDED}),
    "change its rate": frozenset({Activity.COMPUTING, Activity.SUSPENDED}),
}
_ALLOWED_OFF_NODES = frozenset({"be preempted", "be resumed"})
_KEEPS_WORK = (JobState.RUNNING, JobState.SUSPENDED)
"""States in which a job has work in its memory."""


@dataclass(frozen=True, slots=True)
class _Phase:
    """How a run goes on: node-us done and saved, from when on it computes, and its rate `num / den`."""

    done: int
    saved: int
    since_us: int
    num: int
    den: int

    def idle_us(self, now_us: int) -> int:
        """How long it will be before the job computes: what is left of its set-up, or of a write."""
        return max(self.since_us - now_us, 0)


@dataclass(frozen=True, slots=True)
class _Paused:
    """What a suspended job goes on with: time before it computes, its rate, and what is left of a write."""

    idle_us: int
    num: int
    den: int
    write_us: int = 0


class BrokenOff:
    """A row of the run table that a compiled run broke off. Work is node-us."""

    row: int
    did: int
    """Work done in it."""
    lost: int
    """Work thrown away at its end."""
    in_all: int
    """Work that the job had done by then."""


class RunningJobs:
    """The running jobs of a cluster and their work. Rows are those of the job table the cluster began with."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._job = cluster.kernel_table
        self._work = w.work_table(cluster.job_table())
        self._shown = read_only(self._work)
        self._done_in_last: NDArray[np.int64] | None = None
        """Of a run that is over: what each job's last run did."""
        self._done_in_row: dict[int, tuple[int, int, int]] = {}
        """Row of the run table: work that was done in it, thrown away at its end, and done by then in all."""
        self._broken_off: list[Rows[BrokenOff]] = []
        self._writing: dict[int, tuple[int, int]] = {}
        self._suspended: dict[int, _Paused] = {}
        self._saving: dict[int, int] = {}
        """When those that write down everything and leave will have done so."""
        slowed = np.flatnonzero((self._work["setup_us"] > 0) | (self._work["interval_us"] > 0))
        if len(slowed):
            self._plan_next_runs(slowed)

    # To look at.

    @property
    def work(self) -> w.Work:
        """The work of each job (`w.JobWork`); read-only, it changes as jobs run."""
        return self._shown

    @property
    def kernel_work(self) -> w.Work:
        """`work` for compiled functions, which are compiled for arrays that can be written."""
        return self._work

    def activity(self, job: int) -> Activity:
        if job in self._saving:
            return Activity.SAVING
        return Activity.SUSPENDED if job in self._suspended else Activity.COMPUTING

    def owed(self, job: int) -> int:
        """All the work of a job in node-us, done or not."""
        return int(self._work["run_us"][job]) * int(self._work["width"][job])

    def done(self, job: int, now_us: int) -> int:
        """Node-us that a job has done and not lost."""
        if self.cluster.state[job] not in _KEEPS_WORK:
            is_over = self.cluster.state[job] == JobState.ENDED
            return self.owed(job) if is_over else int(self._work[job].saved)
        return self._done_and_saved(job, now_us)[0]

    def saved(self, job: int, now_us: int) -> int:
        """Node-us of a job that a stop with `Save.LATEST_CHECKPOINT` would not take."""
        if self.cluster.state[job] not in _KEEPS_WORK:
            return self.done(job, now_us)
        return self._done_and_saved(job, now_us)[1]

    def done_of(self, jobs: NDArray[np.int64], now_us: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(done, saved) node-us of many running jobs at once."""
        done, saved = np.empty(len(jobs), np.int64), np.empty(len(jobs), np.int64)
        w.done_of_each(self._job, self._work, jobs, now_us, done, saved)
        return done, saved

    def _done_and_saved(self, job: int, now_us: int) -> tuple[int, int]:
        done, saved = w.done_at(self._job, self._work, job, now_us)
        written_us, before = self._writing.get(job, (0, 0))
        return int(done), int(before) if now_us < written_us else int(saved)

    def account(self, job: int) -> Account:
        _, done, since_us, num, den = (int(value) for value in w.phase_of(self._job, self._work, job))
        end_us = w.STILL
        if since_us != w.STILL:
            nodes = self.cluster.nodes_wanted(job)
            end_us = since_us + int(w.length_us(self._work, job, self.owed(job) - done, nodes, num, den))
        written_us, _ = self._writing.get(job, (w.STILL, 0))
        return Account(
            total=self.owed(job),
            done=done,
            since_us=since_us,
            num=num,
            den=den,
            interval_us=int(self._work[job].interval_us),
            cost_us=int(self._work[job].cost_us),
            saved=int(self._work[job].saved),
            save_us=self._saving.get(job, written_us),
            end_us=end_us,
            suspended=job in self._suspended,
        )

    def left(self, job: int, row: int) -> tuple[int, int]:  # noqa: ARG002 - the row tells it
        if row in self._done_in_row:
            _, lost, done = self._done_in_row[row]
            return done, done - lost
        for rows in reversed(self._broken_off):  # who asks wants one of the latest
            for one in rows[rows["row"] == row]:
                return int(one.in_all), int(one.in_all - one.lost)
        raise KeyError(row)

    # Starts and stops.

    def length_us(self, job: int, nodes: int) -> int:
        """Wall time of a run of the job that begins now on so many nodes, to its end."""
        left = self.owed(job) - int(self._work["saved"][job])
        return int(self._work["setup_us"][job]) + int(_LENGTH_US(self._work, job, left, nodes, 1, 1))

    def start(self, job: int, nodes: Iterable[int], now_us: int) -> None:
        """A waiting job runs on these idle nodes, which may be fewer or more than it asked for."""
        chosen = t.node_array(nodes)
        guess = self._guess(job, int(self._work[job].saved))
        setup_us = int(self._work[job].setup_us)
        expected_us = now_us + setup_us + w.length_us(self._work, job, guess, len(chosen), 1, 1)
        self.cluster.start_waiting(
            job, chosen, now_us, now_us + self.length_us(job, len(chosen)), max(expected_us, now_us + 1)
        )

    def preempt(self, job: int, save: Save, now_us: int, *, front: bool = False) -> NDArray[np.int32]:
        """A running job leaves its nodes at once and waits again. Returns the nodes. `save` is not NOW.

        One that left its nodes already gives up its memory.
        """
        self._may(job, "be preempted")
        done, saved = self._done_and_saved(job, now_us)
        kept = 0 if save is Save.NONE else saved
        return self._stop(job, done, kept, now_us, RunOutcome.PREEMPTED, front=front)

    def requeue(self, job: int, now_us: int, *, front: bool = False) -> NDArray[np.int32]:
        """As `preempt` without saving, recorded as a requeue."""
        self._may(job, "be preempted")
        done, _ = self._done_and_saved(job, now_us)
        return self._stop(job, done, 0, now_us, RunOutcome.REQUEUED, front=front)

    def cancel(self, job: int, now_us: int, *, lost: bool = False) -> None:
        """A running job leaves its nodes for good; `lost`: nobody has what it did."""
        self._may(job, "be preempted")
        done, _ = self._done_and_saved(job, now_us)
        self._note_row(job, done, done if lost else 0)
        self._forget(job)
        self._work[job].saved = 0 if lost else done
        self.cluster.end(job, now_us, RunOutcome.CANCELLED)

    def begin_save(self, job: int, write_us: int, now_us: int) -> int:
        """A running job stops computing and writes everything down. Returns when it is written."""
        self._may(job, "save and stop")
        written_us = now_us + write_us
        self._new_phase(job, replace(self._phase(job, now_us), since_us=w.STILL))
        self._saving[job] = written_us
        self.cluster.retime(job, w.STILL, max(written_us, now_us + 1))
        return written_us

    def end_save(self, job: int, now_us: int, *, front: bool = False) -> NDArray[np.int32]:
        """What `begin_save` began is over: the job leaves its nodes with all its work and waits again."""
        self._may(job, "leave its nodes")
        done, _ = self._done_and_saved(job, now_us)
        return self._stop(job, done, done, now_us, RunOutcome.PREEMPTED, front=front)

    def _stop(
        self, job: int, done: int, kept: int, now_us: int, outcome: RunOutcome, *, front: bool
    ) -> NDArray[np.int32]:
        nodes = self.cluster.nodes_of(job)
        self._note_row(job, done, done - kept)
        self._forget(job)
        self._work[job].saved = kept
        if self.cluster.state[job] == JobState.SUSPENDED:
            nodes = nodes[:0]  # it has none
            self.cluster.lose_memory(job, front=front, outcome=outcome)
        else:
            self.cluster.requeue(job, now_us, front=front, outcome=outcome)
        self._plan_next_runs(np.array([job]))
        return nodes

    def _note_row(self, job: int, done: int, lost: int) -> None:
        """The job's present row of the run table ends here: it has done so much by now, and loses some of it."""
        begun = int(w.phase_of(self._job, self._work, job)[0])
        self._done_in_row[self.cluster.run_row(job)] = (done - begun, lost, done)

    def _forget(self, job: int) -> None:
        self._writing.pop(job, None)
        self._suspended.pop(job, None)
        self._saving.pop(job, None)
        self._work[job].row = 0

    def _plan_next_runs(self, jobs: NDArray[np.intp]) -> None:
        """What the next runs of these jobs ask of the scheduler: full width, and the wall time of what is left."""
        for rows in blocks(len(jobs)):
            some = jobs[rows]
            run, estimate = np.empty(len(some), np.int64), np.empty(len(some), np.int64)
            w.lengths_of_next_runs(self._work, some.astype(np.int64), run, estimate)
            self.cluster.ask(some, run_us=run, estimate_us=estimate, nodes=self._work["width"][some])

    # Changes of a running job.

    def checkpoint(self, job: int, write_us: int, now_us: int) -> None:
        """Everything done so far is saved; for `write_us` the job computes nothing. Not whole, not kept."""
        self._may(job, "write a checkpoint")
        phase = self._phase(job, now_us)
        if write_us:
            self._writing[job] = (now_us + write_us, self._done_and_saved(job, now_us)[1])
        since_us = now_us + phase.idle_us(now_us) + write_us
        self._go_on(job, replace(phase, saved=phase.done, since_us=since_us))

    def resize(
        self, job: int, nodes: Iterable[int], now_us: int, *, pause_us: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """A running job has exactly these nodes from now on. Returns (added, freed).

        `pause_us`: for so long it computes nothing (the price of a reconfiguration).
        """
        self._may(job, "be resized")
        before, after = self.cluster.nodes_of(job), t.node_array(nodes)
        if not len(after):
            raise ValueError(f"job {self.cluster.number(job)} cannot be resized to no node: preempt it")
        phase = self._phase(job, now_us)
        self._note_row(job, phase.done, 0)
        phase = replace(phase, since_us=now_us + phase.idle_us(now_us) + pause_us)
        ends = self._ends(job, phase, len(after))
        runs_here = self.cluster.node_job
        added = after[runs_here[after] != job]
        self.cluster.change_nodes(job, after, now_us, *ends)
        self._work[job].begun = phase.done
        self._set_phase(job, phase)
        return added, before[runs_here[before] != job]

    def reassign(
        self, job: int, nodes: Iterable[int], end_us: int, now_us: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """A running lease has exactly these nodes from now on, and ends at `end_us` all the same.

        Returns (added, freed). What a narrower lease cannot do by then it never does.
        """
        self._may(job, "be resized")
        before, after = self.cluster.nodes_of(job), t.node_array(nodes)
        if not len(after):
            raise ValueError(f"lease {self.cluster.number(job)} cannot go on without a node: end it")
        phase = self._phase(job, now_us)
        self._note_row(job, phase.done, 0)
        left = (end_us - phase.since_us) * len(after)
        phase = replace(phase, done=self.owed(job) - left, saved=0)
        added = after[self.cluster.node_job[after] != job]
        self.cluster.change_lease_nodes(job, after, now_us)
        self._work[job].begun = phase.done
        self._set_phase(job, phase)
        return added, before[self.cluster.node_job[before] != job]

    def suspend(self, job: int, now_us: int) -> None:
        """A running job keeps its nodes and computes nothing until `resume`."""
        self._may(job, "be suspended")
        phase = self._phase(job, now_us)
        self._suspended[job] = _Paused(phase.idle_us(now_us), phase.num, phase.den)
        self._new_phase(job, replace(phase, since_us=w.STILL))
        self.cluster.retime(job, w.STILL, w.STILL)

    def suspend_off_nodes(self, job: int, now_us: int) -> NDArray[np.int32]:
        """As `suspend`, and the job leaves its nodes, which are returned; its memory stays there.

        A checkpoint that it was writing is not whole before it has gone on with it.
        """
        self._may(job, "be suspended")
        phase = self._phase(job, now_us)
        written_us, before = self._writing.pop(job, (0, 0))
        write_us = max(written_us - now_us, 0)
        if write_us:
            phase = replace(phase, saved=before)
        self._suspended[job] = _Paused(phase.idle_us(now_us), phase.num, phase.den, write_us)
        self._note_row(job, phase.done, 0)
        self._new_phase(job, replace(phase, since_us=w.STILL))
        self.cluster.suspend(job, now_us)
        return self.cluster.nodes_of(job)

    def with_memory_on(self, nodes: Iterable[int]) -> list[int]:
        """The jobs that left their memory on one of these nodes."""
        wanted, state = set(nodes), self.cluster.state
        away = [job for job in self._suspended if state[job] == JobState.SUSPENDED]
        return [job for job in away if not wanted.isdisjoint(self.cluster.nodes_of(job).tolist())]

    def resume(self, job: int, now_us: int) -> None:
        """A suspended job goes on. One that left its nodes needs them idle."""
        self._may(job, "be resumed")
        paused = self._suspended[job]
        phase = replace(
            self._phase(job, now_us), since_us=now_us + paused.idle_us, num=paused.num, den=paused.den
        )
        if self.cluster.state[job] == JobState.SUSPENDED:
            ends = self._ends(job, phase, self.cluster.nodes_wanted(job))
            self.cluster.resume(job, now_us, *ends)
            self._work[job].begun = phase.done
            if paused.write_us:
                self._writing[job] = (now_us + paused.write_us, phase.saved)
                phase = replace(phase, saved=phase.done)
            self._set_phase(job, phase)
        else:
            self._go_on(job, phase)
        del self._suspended[job]

    def set_rate(self, job: int, numerator: int, denominator: int, now_us: int) -> None:
        """The job's speed from now on, as a share of what its nodes can do for it alone (1 / m with m on each)."""
        self._may(job, "change its rate")
        if not 0 < numerator <= denominator:
            raise ValueError(
                f"the rate of job {self.cluster.number(job)} must be above 0 and at most 1, "
                f"not {numerator}/{denominator}"
            )
        if job in self._suspended:
            self._suspended[job] = replace(self._suspended[job], num=numerator, den=denominator)
            return
        phase = self._phase(job, now_us)
        since_us = now_us + phase.idle_us(now_us)
        self._go_on(job, replace(phase, since_us=since_us, num=numerator, den=denominator))

    def _phase(self, job: int, now_us: int) -> _Phase:
        """The present phase, as if it began now."""
        _, _, since_us, num, den = w.phase_of(self._job, self._work, job)
        # A checkpoint that is being written counts here: `_writing` says until when it does not.
        done, saved = w.done_at(self._job, self._work, job, now_us)
        return _Phase(int(done), int(saved), max(int(since_us), now_us), int(num), int(den))

    def _go_on(self, job: int, phase: _Phase) -> None:
        self._new_phase(job, phase)
        self.cluster.retime(job, *self._ends(job, phase, self.cluster.nodes_wanted(job)))

    def _ends(self, job: int, phase: _Phase, nodes: int) -> tuple[int, int]:
        """When a phase brings the job to its end, and when its user would think so."""
        ends = [
            phase.since_us + int(w.length_us(self._work, job, left, nodes, phase.num, phase.den))
            for left in (self.owed(job) - phase.done, self._guess(job, phase.done))
        ]
        return ends[0], max(ends[1], phase.since_us + 1)

    def _guess(self, job: int, done: int) -> int:
        return int(self._work[job].estimate_us) * int(self._work[job].width) - done

    def _new_phase(self, job: int, phase: _Phase) -> None:
        """The job's present run goes on in another way."""
        self._work[job].begun = w.phase_of(self._job, self._work, job)[0]
        self._set_phase(job, phase)

    def _set_phase(self, job: int, phase: _Phase) -> None:
        row = self._work[job]
        row.row = self.cluster.run_row(job) + 1
        row.done, row.saved, row.since_us = phase.done, phase.saved, phase.since_us
        row.num, row.den = phase.num, phase.den

    def _may(self, job: int, action: str) -> None:
        if not (self.cluster.state[job] == JobState.SUSPENDED and action in _ALLOWED_OFF_NODES):
            self.cluster.must_be(job, JobState.RUNNING, action)
        activity = self.activity(job)
        if activity not in _ALLOWED[action]:
            raise IllegalJobTransition(
                f"job {self.cluster.number(job)} cannot {action} while it is {activity}"
                f"{self.cluster.story(job)}"
            )

    # Afterwards.

    def all_over(self) -> None:
        """No job runs, and none will: the work of runs stays known, the table of it goes, which is large."""
        if self._done_in_last is None:
            self._done_in_last = self._in_last_runs()
            self._work = self._work[:0].copy()
            self._shown = read_only(self._work)

    def _in_last_runs(self) -> NDArray[np.int64]:
        """What each job's last run does if it goes to the job's end."""
        found = np.empty(len(self._work), np.int64)
        for rows in blocks(len(found)):
            work = self._work[rows]
            in_phase = work["row"] == self._job["run_row"][rows] + 1
            begun = np.where(in_phase, work["begun"], work["saved"])
            found[rows] = work["run_us"] * work["width"] - begun
        return found

    def note_saves(self, written_us: dict[int, int]) -> None:
        """The jobs that write everything down and leave, in a compiled run, and when they will have done so."""
        self._saving = written_us

    def note_rows(self, rows: Rows[BrokenOff]) -> None:
        """Rows of the run table that a compiled run broke off."""
        if len(rows):
            self._broken_off.append(longer(rows, 0))

    def work_of_runs(
        self, job: NDArray[np.int32], outcome: NDArray[np.int8], now_us: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(done, lost) node-us of each row of the run table. What is lost may have been done in earlier rows."""
        done, lost = np.zeros(len(job), np.int64), np.zeros(len(job), np.int64)
        last = np.flatnonzero((outcome == RunOutcome.FINISHED) | (outcome == RunOutcome.RUNNING))
        each = self._in_last_runs() if self._done_in_last is None else self._done_in_last
        done[last] = each[job[last]]
        for run_row in last[outcome[last] == RunOutcome.RUNNING]:
            row = int(job[run_row])
            done[run_row] = self.done(row, now_us) - int(w.phase_of(self._job, self._work, row)[0])
        for run_row, (did, threw_away, _) in self._done_in_row.items():
            done[run_row], lost[run_row] = did, threw_away
        for rows in self._broken_off:
            done[rows["row"]], lost[rows["row"]] = rows["did"], rows["lost"]
        return done, lost
