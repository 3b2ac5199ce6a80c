"""Predictions of run times, apart from users' estimates: plug-ins of the group `emulator.run_time_predictors`.

The scheduler then expects ends and backfills by the predictions (docs/schedulers.md). A predictor has

* `predict(job, history)`: for how many seconds a waiting job will run, None where it does not know: the estimate then;
* `correct(job, ran_s, history)`, if it likes: the same of a job that has run for as long as was predicted and runs on.
  Without it the user's estimate stands;
* `on_job_end(job, run_s)`, if it likes: a job has ended;
* `at_submit`, if it likes: true where each job is predicted once, with what had ended when it was submitted. Without it
  a waiting job is predicted again when others have ended;
* `beyond_estimate`, if it likes: true where a correction may exceed the user's estimate.

A prediction above the user's estimate counts as that. A function of `(job, history)` is a predictor that has no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from emulator.plugins import check_number, make_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.schedulers.plain import Job

GROUP = "emulator.run_time_predictors"


class Ended(NamedTuple):
    """A batch job that came to its end (by itself or at its walltime), and how long its last run was."""

    job: Job
    run_s: float


class History:
    """The batch jobs that have ended in this run, in order of their ends."""

    def __init__(self) -> None:
        self.ended: list[Ended] = []
        self._of_user: dict[int, list[Ended]] = {}

    def add(self, one: Ended) -> None:
        """For the harness."""
        self.ended.append(one)
        self._of_user.setdefault(one.job.user, []).append(one)

    def of_user(self, user: int) -> Sequence[Ended]:
        """Those of one user, the latest last; jobs of no known user (-1) are those of one."""
        return self._of_user.get(user, ())


class Predicts(Protocol):
    def predict(self, job: Job, history: History) -> float | None:
        """For how many seconds the job will run, above 0."""


_STEPS_S = (60, 300, 900, 1_800, 3_600, 7_200, 18_000, 36_000, 72_000, 180_000, 360_000)


@dataclass(slots=True)
class LastTwo:
    """The mean run time of the user's last two jobs (Tsafrir, Etsion and Feitelson 2007).

    `jobs`: of how many. A prediction that was too short grows by `steps` (1, 5, 15, 30 minutes, 1, 2, 5, 10, 20, 50 and
    100 hours, one after the other), or becomes the user's `estimate`. `steps_of_first`: the first prediction and one of
    these; `doubled`: twice as long. `whole_seconds`: rounded down, as pyss does it.
    `at_submit`: a job is predicted once, when it is submitted. `beyond_estimate`: a corrected prediction may exceed the
    estimate.
    """

    jobs: int = 2
    correction: Literal["steps", "steps_of_first", "doubled", "estimate"] = "steps"
    whole_seconds: bool = False
    at_submit: bool = False
    beyond_estimate: bool = False
    _corrected: dict[int, tuple[int, float]] = field(default_factory=dict, init=False, repr=False)
    """Of jobs that run on: how often they were corrected, and what was predicted first."""

    def __post_init__(self) -> None:
        check_number("last_two", "jobs", self.jobs, at_least=1, whole=True)
        known = ("steps", "steps_of_first", "doubled", "estimate")
        if self.correction not in known:
            raise ValueError(f"last_two: correction is one of {', '.join(known)}, not {self.correction!r}")

    def predict(self, job: Job, history: History) -> float | None:
        last = history.of_user(job.user)[-self.jobs :]
        if len(last) < self.jobs:
            return None
        mean_s = sum(one.run_s for one in last) / self.jobs
        return mean_s // 1 if self.whole_seconds else mean_s

    def correct(self, job: Job, ran_s: float, _history: History) -> float | None:
        if self.correction == "estimate":
            return None
        if self.correction == "doubled":
            return 2 * ran_s
        done, first_s = self._corrected.get(job.number, (0, ran_s))
        self._corrected[job.number] = done + 1, first_s
        if self.correction == "steps":
            return ran_s + _STEPS_S[min(done, len(_STEPS_S) - 1)]
        return first_s + _STEPS_S[done] if done < len(_STEPS_S) else None

    def on_job_end(self, job: Job, _run_s: float) -> None:
        self._corrected.pop(job.number, None)


def make_predictor(item: object) -> Any:
    """The predictor that a scenario names. Raises ValueError."""
    return make_plugin(GROUP, item)
