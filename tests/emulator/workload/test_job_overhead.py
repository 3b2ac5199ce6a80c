"""What the batch system itself needs for a job."""

from __future__ import annotations

import pytest

from emulator.workload.job_overhead import JobOverhead
from emulator.workload.table import JobTable, Kind

S = 1_000_000


def test_batch_jobs_have_their_nodes_for_longer_and_leases_do_not():
    jobs = JobTable.build(
        submit_us=[0, 1, 2], run_us=[5 * S, 9 * S, 5 * S], estimate_us=[90 * S, 9 * S, 5 * S], nodes=[1, 2, 3],
        number=[1, 2, 3], kind=[Kind.BATCH, Kind.BATCH, Kind.ON_DEMAND],
    )  # fmt: skip
    found = JobOverhead(60).apply(jobs, nodes=8)
    assert found.run_us.tolist() == [65 * S, 69 * S, 5 * S]
    assert found.estimate_us.tolist() == [90 * S, 69 * S, 5 * S], (
        "what was asked for, unless the job is longer now"
    )
    assert JobOverhead(0).apply(jobs, nodes=8).run_us.tolist() == jobs.run_us.tolist()


@pytest.mark.parametrize("overhead_s", [-1, "long"])
def test_an_overhead_is_a_number_of_at_least_0(overhead_s):
    with pytest.raises(ValueError, match="job_overhead: overhead_s"):
        JobOverhead(overhead_s)
