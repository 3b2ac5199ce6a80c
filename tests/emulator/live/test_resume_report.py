"""What a run that was stopped in the middle says of itself."""

from dataclasses import replace

import numpy as np
import pytest

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.watch import WENT_ON, with_differences
from emulator.record.run_record import LeaseOutcome, Mark, RunRecord, RunTable
from emulator.workload.table import JobTable, Kind

_FINISHED, _REQUEUED = RunOutcome.FINISHED, RunOutcome.REQUEUED
# Seconds; jobs are 1, 2, ...; the fourth and the last are requests.
_SUBMIT_S = [0, 0, 40, 45, 60, 90]
_RUNS = [(0, 0, 50, _REQUEUED), (1, 10, 30, _FINISHED), (0, 60, 160, _FINISHED), (2, 70, 75, _REQUEUED)]


@pytest.fixture
def planned():
    kind = [Kind.BATCH] * 3 + [Kind.ON_DEMAND, Kind.BATCH, Kind.ON_DEMAND]
    submit_us = np.array(_SUBMIT_S, np.int64) * US
    return JobTable.build(submit_us=submit_us, run_us=[100 * US] * 6, nodes=[1] * 6, kind=kind)


@pytest.fixture
def record(planned):
    row, start_s, end_s, outcome = (list(column) for column in zip(*_RUNS, strict=True))
    return RunRecord(
        jobs=planned,
        node_names=("n1",),
        state=np.full(6, JobState.ENDED, np.int8),
        start_us=np.zeros(6, np.int64),
        end_us=np.zeros(6, np.int64),
        runs=RunTable(
            job=np.array(row, np.int32),
            start_us=np.array(start_s, np.int64) * US,
            end_us=np.array(end_s, np.int64) * US,
            outcome=np.array(outcome, np.int8),
            first=np.arange(len(row) + 1, dtype=np.int64),
            node=np.zeros(len(row), np.int32),
        ),
        begin_us=0,
        horizon_us=200 * US,
        leases=(LeaseOutcome(5, granted=False, decided_us=95 * US),),
        marks=(Mark(20 * US, "fault: kill n001"), Mark(50 * US, WENT_ON)),
    )


def test_a_stop_after_which_all_went_on_says_so(record, planned):
    calm = replace(
        record,
        marks=(Mark(35 * US, WENT_ON),),
        runs=replace(record.runs, outcome=record.runs.outcome * 0 + 1),
    )
    assert [mark.text for mark in with_differences(calm, planned).marks] == [
        f"{WENT_ON}: nothing that was under way differs"
    ]


def test_what_was_under_way_and_went_otherwise_is_listed_with_the_mark_of_the_stop(record, planned):
    submit_us = planned.submit_us.copy()
    submit_us[2] = 55 * US  # due at 40 s
    submit_us[4] = 65 * US  # late, but not due then
    stopped = replace(
        record,
        jobs=replace(planned, submit_us=submit_us),
        leases=(*record.leases, LeaseOutcome(3, granted=False, decided_us=50 * US, reason="unreachable")),
    )
    first, second = with_differences(stopped, planned).marks
    assert first == record.marks[0]
    assert second.text.removeprefix(f"{WENT_ON}: ").split("; ") == [
        "1 job began again, since their nodes were lost (1)",
        "1 job came late (3)",
        "1 request rejected that waited then (4)",
    ]
