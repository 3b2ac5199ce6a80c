"""A predictor of run times: how long a waiting job will run, instead of the user's estimate."""

from dataclasses import dataclass

from emulator.plugins import check_number
from emulator.schedulers.plain import Job
from emulator.schedulers.run_times import History


@dataclass(frozen=True, slots=True)
class PartOfEstimate:
    """The same `part` of every user's estimate."""

    part: float = 0.5

    def __post_init__(self) -> None:
        check_number("part_of_estimate", "part", self.part, above=0)

    def predict(self, job: Job, history: History) -> float:
        return self.part * job.estimate_us / 1e6
