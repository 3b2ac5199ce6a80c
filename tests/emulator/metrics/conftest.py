"""Small records, written job by job and run by run, in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.record.run_record import LeaseOutcome, NodePool, PoolMove, RunRecord, RunTable
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

US = 1_000_000
FINISHED = RunOutcome.FINISHED


class RecordBuilder:
    """Jobs are numbered from 0 in the order of `job` calls, which must be the order of their submits."""

    def __init__(self, nodes: int = 4, *, begin_s: int = 0, horizon_s: int = 100) -> None:
        self.nodes, self.begin_s, self.horizon_s = nodes, begin_s, horizon_s
        self.jobs: list[tuple[int, int, Kind, JobState]] = []
        self.runs: list[tuple[int, int, int, RunOutcome, tuple[int, ...]]] = []
        self.moves: list[PoolMove] = []
        self.leases: list[LeaseOutcome] = []

    def job(
        self,
        submit_s: int,
        nodes: int = 1,
        *runs: tuple[int, int] | tuple[int, int, RunOutcome],
        kind: Kind = Kind.BATCH,
        state: JobState | None = None,
        on: Sequence[int] = (),
    ) -> RecordBuilder:
        """A job with its runs as (start_s, end_s[, outcome]); an end of -1 is a run that goes on."""
        row = len(self.jobs)
        last = None
        for run in runs:
            start_s, end_s, last = (*run, FINISHED)[:3]
            last = RunOutcome.RUNNING if end_s < 0 else last
            self.runs.append((row, start_s, end_s, last, tuple(on)))
        guess = {
            None: JobState.QUEUED,
            RunOutcome.RUNNING: JobState.RUNNING,
            RunOutcome.REQUEUED: JobState.QUEUED,
        }
        self.jobs.append((submit_s, nodes, kind, guess.get(last, JobState.ENDED) if state is None else state))
        return self

    def lease(
        self, at_s: int, nodes: int, *runs: Any, granted: bool, decided_s: int, reason: str = ""
    ) -> RecordBuilder:
        row = len(self.jobs)
        state = None if granted else JobState.REJECTED
        self.job(at_s, nodes, *runs, kind=Kind.ON_DEMAND, state=state)
        self.leases.append(LeaseOutcome(row, granted, decided_s * US, reason))
        return self

    def move(self, at_s: int, nodes: Sequence[int], pool: NodePool) -> RecordBuilder:
        self.moves.append(PoolMove(at_s * US, tuple(nodes), pool))
        return self

    def record(self, **more: Any) -> RunRecord:
        runs = sorted(self.runs, key=lambda run: run[1])
        start_us, end_us = (np.full(len(self.jobs), -1, np.int64) for _ in range(2))
        for row, start_s, end_s, outcome, _ in runs:
            if outcome in (RunOutcome.FINISHED, RunOutcome.KILLED):
                start_us[row], end_us[row] = start_s * US, end_s * US

        def column(place: int) -> list[Any]:
            return [run[place] for run in runs]

        return RunRecord(
            jobs=JobTable.build(
                submit_us=np.array([job[0] for job in self.jobs], np.int64) * US,
                run_us=np.where(start_us >= 0, end_us - start_us, US),
                nodes=[job[1] for job in self.jobs],
                kind=[job[2] for job in self.jobs],
            ),
            node_names=tuple(f"n{node}" for node in range(self.nodes)),
            state=np.array([job[3] for job in self.jobs], np.int8),
            start_us=start_us,
            end_us=end_us,
            runs=RunTable(
                job=np.array(column(0), np.int32),
                start_us=np.array(column(1), np.int64) * US,
                end_us=np.array([end_s * US if end_s >= 0 else -1 for end_s in column(2)], np.int64),
                outcome=np.array(column(3), np.int8),
                first=np.cumsum([0, *(len(on) for on in column(4))]).astype(np.int64),
                node=np.array([node for on in column(4) for node in on], np.int32),
            ),
            begin_us=self.begin_s * US,
            horizon_us=self.horizon_s * US,
            moves=tuple(self.moves),
            leases=tuple(self.leases),
            **more,
        )


@pytest.fixture(scope="session")
def build() -> Callable[..., RecordBuilder]:
    return RecordBuilder
