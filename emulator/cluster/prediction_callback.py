"""Predicted run times, by which a scheduler goes instead of users' estimates (`scheduler.predict`).

Before each pass a hook tells the predictor of ends, corrects predictions that were too short, and predicts what waits.
A correction has no pass of its own, so both clocks make the same ones.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US, seconds
from emulator.cluster.pass_hook import HOOK, PassHook, address_of_hook
from emulator.cluster.seen_jobs import SeenJobs
from emulator.kernel import reshape
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_point
from emulator.kernel.job_states import RunOutcome
from emulator.plugins.failure import plugin_error
from emulator.schedulers.run_times import Ended, History, make_predictor

if TYPE_CHECKING:
    from emulator.schedulers.config import SchedulerConfig
    from emulator.schedulers.plain import Job
    from emulator.workload.table import JobTable


_YEAR_S = 31_557_600.0
_EXPECT = entry_point(reshape.expect)


class PredictionHook(PassHook):
    """The predictor `scheduler.predict` of one cluster, then `inner`. Its failure ends the run with its name."""

    def __init__(self, scheduler: SchedulerConfig, inner: PassHook | None) -> None:
        super().__init__(inner)
        self._predictions = Predictions(make_predictor(scheduler.predict), scheduler)
        self._name = scheduler.predict_name
        self._before_ends = HOOK(lambda _context, now_us: self._safely(self._correct_before, now_us))

    def learn(self, jobs: JobTable, first: int) -> None:
        super().learn(jobs, first)
        self._predictions.learn(jobs, first)

    def use(self, state: t.State) -> None:
        super().use(state)
        state.registers.correct = address_of_hook(self._before_ends)
        state.registers.ask_always |= self._predictions.at_submit

    def ask(self, now_us: int) -> None:
        self._safely(self._before_pass, now_us)
        if self._failure is None and self._inner is not None:
            self._inner.ask(now_us)

    def _before_pass(self, now_us: int) -> None:
        self._predictions.before_pass(self._state, now_us)

    def _correct_before(self, now_us: int) -> None:
        """Before `exact_ends_first` looks who ends when it was expected to: who ran on before now does not."""
        self._predictions.correct(self._state, now_us - 1)

    def _raise(self, failure: BaseException) -> None:
        row, now_us = f"run time predictor {self._name}", int(self._state.registers.now)
        raise plugin_error(row, self._predictions.event, now_us, failure) from failure


class Predictions:
    """What the `predictor` says of the jobs of one cluster. `event`: what it is called for, for an error."""

    def __init__(self, predictor: Any, scheduler: SchedulerConfig) -> None:
        self.event = "predict"
        self._exact_first = scheduler.exact_ends_first
        self._by_start = scheduler.ends_in_order_of == "start"
        self._untold: list[int] = []
        """Jobs that gave their nodes back before their turn (`exact_ends_first`)."""
        self._predictor = predictor
        self.at_submit = bool(getattr(predictor, "at_submit", False))
        """Whether each job is predicted once, at the first pass after its submit."""
        self._beyond = bool(getattr(predictor, "beyond_estimate", False))
        """Whether corrections may exceed the user's estimate."""
        self._history = History()
        self._seen = SeenJobs()
        self._kind = np.zeros(0, np.int8)
        self._estimate_us = np.zeros(0, np.int64)
        self._predicted_at = np.zeros(0, np.int64)
        """Of each job: how many had ended when it was predicted, -1 if it never was."""
        self._ends_seen = self._runs_seen = 0
        self._over: list[tuple[int, int]] = []
        """A heap of (expected end, row of the run table) of running jobs that are predicted to end before it."""

    def learn(self, jobs: JobTable, first: int) -> None:
        """Jobs that are the rows from `first` on."""
        self._seen.learn(jobs, first)
        estimate_us = np.maximum(jobs.estimate_us, 1)
        self._kind = np.concatenate((self._kind[:first], jobs.kind))
        self._estimate_us = np.concatenate((self._estimate_us[:first], estimate_us))
        self._predicted_at = np.concatenate((self._predicted_at[:first], np.full(len(jobs), -1, np.int64)))

    def before_pass(self, state: t.State, now_us: int) -> None:
        """Tell of ends, correct, predict, in this order."""
        job, queue, runs, registers = state.job, state.queue, state.runs, state.registers
        for row in self._ends_in_turn(state):
            self._tell_of_end(row, job, runs)
        self.correct(state, now_us)
        waiting = queue[registers.queue_lo : registers.queue_hi]
        latest = 0 if self.at_submit else len(self._history.ended)
        new = waiting[self._predicted_at[waiting] < latest]
        for row in new[self._kind[new] == t.BATCH].tolist():
            self._predict(job, row)

    def _ends_in_turn(self, state: t.State) -> list[int]:
        """The jobs that have ended since the last pass, in order, but for those whose turn has not come."""
        job, heap, runs, registers = state.job, state.heap, state.runs, state.registers
        row, ended = int(registers.last_ended), []
        for _ in range(int(registers.ended_n) - self._ends_seen):
            ended.append(row)
            row = int(job["ended_before"][row])
        self._ends_seen = int(registers.ended_n)
        if not self._exact_first:
            return ended[::-1]
        standing = heap[: registers.heap_n]
        early = set(standing["key"][standing["at_us"] <= registers.now].tolist())
        every = [*self._untold, *ended]
        self._untold = [row for row in every if row in early]

        def turn(row: int) -> tuple[int, int]:
            run_row = int(job["run_row"][row])
            return int(runs["end_us"][run_row]), run_row if self._by_start else row

        return sorted((row for row in every if row not in early), key=turn)

    def _tell_of_end(self, row: int, job: t.Jobs, runs: t.Runs) -> None:
        run_row = job["run_row"][row]
        if (
            runs["outcome"][run_row] not in {RunOutcome.FINISHED, RunOutcome.KILLED}
            or self._kind[row] != t.BATCH
        ):
            return
        ran_us = int(runs["end_us"][run_row] - runs["start_us"][run_row])
        ended = Ended(self._seen[row], float(seconds(ran_us)))
        self._history.add(ended)
        if hasattr(self._predictor, "on_job_end"):
            self.event = f"on_job_end of job {ended.job.number}"
            self._predictor.on_job_end(*ended)

    def correct(self, state: t.State, now_us: int) -> None:
        """Predictions whose time has come while the job runs on: the next end that is expected lies behind now."""
        job, runs, registers = state.job, state.runs, state.registers
        for run_row in range(self._runs_seen, int(registers.runs_n)):
            row = int(runs["job"][run_row])
            if job["expected_end_us"][row]:
                heapq.heappush(self._over, (int(job["expected_end_us"][row]), run_row))
        self._runs_seen = int(registers.runs_n)
        while self._over and self._over[0][0] <= now_us:
            expected_us, run_row = heapq.heappop(self._over)
            row = int(runs["job"][run_row])
            if runs["end_us"][run_row] >= 0 or job["expected_end_us"][row] != expected_us:
                continue
            start_us = int(runs["start_us"][run_row])
            latest_us = t.NEVER if self._beyond else start_us + int(self._estimate_us[row])
            later_us = expected_us
            while later_us <= now_us and later_us < latest_us:
                length_us = self._corrected(row, later_us - start_us)
                if length_us is None:
                    break
                later_us = min(start_us + length_us, latest_us)
            if later_us != expected_us:
                _EXPECT(state, row, later_us)
                job["estimate_us"][row] = later_us - start_us
                heapq.heappush(self._over, (later_us, run_row))

    def _corrected(self, row: int, ran_us: int) -> int | None:
        """None where it is the estimate, which has passed: the expected end is now."""
        seen_job = self._seen[row]
        self.event = f"correct of job {seen_job.number}"
        correct = getattr(self._predictor, "correct", None)
        said = None if correct is None else correct(seen_job, float(seconds(ran_us)), self._history)
        length_us = self._length_us(said, row, seen_job, may_exceed=self._beyond)
        if said is None and length_us <= ran_us:
            return None
        if length_us <= ran_us:
            raise ValueError(
                f"it says {said!r} s of a job that has run for {seconds(ran_us):g} s and runs on"
            )
        return length_us

    def _predict(self, job: t.Jobs, row: int) -> None:
        seen_job = self._seen[row]
        self.event = f"predict of job {seen_job.number}"
        length_us = self._length_us(self._predictor.predict(seen_job, self._history), row, seen_job)
        job["estimate_us"][row] = length_us
        self._predicted_at[row] = len(self._history.ended)

    def _length_us(self, said: Any, row: int, seen_job: Job, *, may_exceed: bool = False) -> int:
        """What it said as a length of at least 1 us, at most the estimate unless it `may_exceed` it.

        Raises ValueError.
        """
        estimate_us = int(self._estimate_us[row])
        if said is None:
            return estimate_us
        if isinstance(said, bool) or not isinstance(said, int | float | np.number) or not said > 0:
            raise ValueError(
                f"it says that job {seen_job.number} runs for {said!r};"
                " seconds above 0, or None, are expected"
            )
        if not math.isfinite(said):
            return estimate_us
        if said > max(_YEAR_S, estimate_us / US):
            raise ValueError(
                f"it says that job {seen_job.number} runs for {said!r} s, more than a year, and its estimate is "
                f"{seconds(estimate_us):g} s; return seconds (fields that end in _us are microseconds)"
            )
        length_us = max(round(float(said) * US), 1)
        return length_us if may_exceed else min(length_us, estimate_us)
