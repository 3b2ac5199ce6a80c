"""Jobs of Feitelson's workload model: small sizes and powers of two, longer runs on more nodes, each job repeatedly.

D. G. Feitelson: Packing schemes for gang scheduling, JSSPP 1996, LNCS 1162, and the description of the Parallel
Workloads Archive. Theirs: sizes n with probability n^-1.5, "hand-tailored to further emphasize small sizes and powers
of two". As they are usually told (that part of the description was not at hand): hyper-exponential run times whose
stages depend linearly on the size; r executions of a job with probability r^-2.5, each after the one before. The
numbers of the tailoring and of the stages are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from balancer.clock import US, micros
from emulator.plugins import check_number
from emulator.workload.relations import DELAY, KIND, NUMBER, After
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Resubmit = Literal["as_run", "after_end"]

SIZE_ORDER, REPEAT_ORDER = 1.5, 2.5
"""Of the harmonic distributions of sizes and of repetitions (the description's)."""
_SMALL = 10
"""Sizes below it are small ("only less than 10 nodes")."""
_DAY_S = 86_400
_BLOCK, _MOST_JOBS = 5_000, 100_000_000


@dataclass(frozen=True, slots=True)
class FeitelsonJobs:
    """Rigid jobs of Feitelson's model, each executed once or again and again.

    Powers of two are `powers_of_two` times, and sizes below ten nodes `small` times as probable as n^-1.5 has it; the
    largest size is the cluster. Run times are exponential with the mean `short_s`, or `long_s` with a probability that
    goes linearly from `long_share` (no node) to `long_share_whole` (all nodes). A job is executed up to `most_repeats`
    times, with the same run time, `think_s` after the end of the execution before: as if nobody ever waited
    (`as_run`), or after its end in the run (`after_end`: a dependency, docs/job-rules.md). First executions come at any
    time of `days`, independently of each other, and nothing is submitted later. Jobs are drawn until their node-time is
    `load` x nodes x `days`. Walltimes are the run times.
    """

    days: float = 7
    load: float = 0.8
    powers_of_two: float = 3
    small: float = 1
    short_s: float = 1800
    long_s: float = 12_600
    long_share: float = 0.05
    long_share_whole: float = 0.25
    most_repeats: int = 1000
    think_s: float = 0
    resubmit: Resubmit = "as_run"

    def __post_init__(self) -> None:
        owner = "feitelson"
        check_number(owner, "days", self.days, above=0, at_most=36_500)
        check_number(owner, "load", self.load, above=0, at_most=10)
        check_number(owner, "powers_of_two", self.powers_of_two, above=0, at_most=1e6)
        check_number(owner, "small", self.small, above=0, at_most=1e6)
        check_number(owner, "short_s", self.short_s, above=0, at_most=1e9)
        check_number(owner, "long_s", self.long_s, above=0, at_most=1e9)
        check_number(owner, "long_share", self.long_share, at_least=0, at_most=1)
        check_number(owner, "long_share_whole", self.long_share_whole, at_least=0, at_most=1)
        check_number(owner, "most_repeats", self.most_repeats, at_least=1, at_most=1_000_000)
        check_number(owner, "think_s", self.think_s, at_least=0, at_most=1e9)
        if self.resubmit not in get_args(Resubmit):
            raise ValueError(
                f"feitelson: resubmit is {' or '.join(get_args(Resubmit))}, not {self.resubmit!r}"
            )

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        if nodes < 1:
            raise ValueError(f"feitelson: the cluster needs at least 1 node, not {nodes}")
        target_s = self.load * nodes * self.days * _DAY_S
        blocks: list[NDArray[np.void]] = []
        drawn_s, drawn = 0, 0
        while drawn_s < target_s:
            if drawn >= _MOST_JOBS:
                raise ValueError(f"feitelson: more than {_MOST_JOBS} jobs; take fewer days or a smaller load")
            block = self._executions(rng, nodes)
            block["job"] += drawn
            spent_s = np.cumsum(block["size"] * block["run_s"])
            if drawn_s + spent_s[-1] >= target_s:  # the executions of a job belong together
                last = block["job"][np.searchsorted(spent_s, target_s - drawn_s)]
                block = block[block["job"] <= last]
            blocks.append(block)
            drawn_s, drawn = drawn_s + int((block["size"] * block["run_s"]).sum()), drawn + _BLOCK
        return self._table(np.concatenate(blocks))

    def _executions(self, rng: np.random.Generator, nodes: int) -> NDArray[np.void]:
        """Rows of `_EXECUTION`, by job and turn."""
        size = _harmonic(rng, self._weights(nodes))
        share = self.long_share + (self.long_share_whole - self.long_share) * size / nodes
        mean_s = np.where(rng.random(_BLOCK) < share, self.long_s, self.short_s)
        run_s = np.maximum(np.rint(rng.exponential(mean_s)), 1).astype(np.int64)
        turns = _harmonic(rng, np.arange(1.0, int(self.most_repeats) + 1) ** -REPEAT_ORDER)
        first_s = np.floor(rng.random(_BLOCK) * self.days * _DAY_S).astype(np.int64)
        job = np.repeat(np.arange(_BLOCK), turns)
        turn = np.arange(len(job)) - np.repeat(np.cumsum(turns) - turns, turns)
        submit_s = first_s[job] + turn * (run_s[job] + round(self.think_s))
        rows = np.empty(len(job), _EXECUTION)
        rows["job"], rows["turn"], rows["submit_s"], rows["size"], rows["run_s"] = (
            job, turn, submit_s, size[job], run_s[job],
        )  # fmt: skip
        return rows[submit_s < self.days * _DAY_S]

    def _weights(self, nodes: int) -> NDArray[np.float64]:
        size = np.arange(1, nodes + 1)
        weights = size.astype(np.float64) ** -SIZE_ORDER
        weights[(size & (size - 1)) == 0] *= self.powers_of_two
        weights[size < _SMALL] *= self.small
        return np.asarray(weights)

    def _table(self, rows: NDArray[np.void]) -> JobTable:
        rows = rows[np.lexsort((rows["job"], rows["submit_s"]))]
        extra = {}
        if self.resubmit == "after_end":
            number = np.arange(1, len(rows) + 1)
            by_job = np.lexsort((rows["turn"], rows["job"]))
            again = by_job[1:][rows["turn"][by_job[1:]] > 0]
            before = by_job[:-1][rows["turn"][by_job[1:]] > 0]
            extra = {name: np.full(len(rows), -1, np.int64) for name in (NUMBER, KIND, DELAY)}
            extra[NUMBER][again] = number[before]
            extra[KIND][again] = After.THINK
            extra[DELAY][again] = micros(round(self.think_s))
        return JobTable.build(
            submit_us=rows["submit_s"] * US,
            run_us=rows["run_s"] * US,
            nodes=rows["size"].astype(np.int32),
            extra=extra,
        )


_EXECUTION = np.dtype([(name, np.int64) for name in ("job", "turn", "submit_s", "size", "run_s")])
"""One execution of a job: which job, the how-manieth, when it is submitted, nodes, run time."""


def _harmonic(rng: np.random.Generator, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers from 1 on with these weights."""
    total = np.cumsum(weights)
    return np.asarray(np.searchsorted(total / total[-1], rng.random(_BLOCK), side="right") + 1, np.int64)
