"""Jobs that share nodes become the nodes that they fill."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.workload.rules import to_jobs
from emulator.workload.sharing import pack_shared
from emulator.workload.swf import SwfLog

CORES = 4


def log(*jobs):
    """(submit, wait, run, processors) each."""
    submit, wait, run, procs = zip(*jobs, strict=True)
    return SwfLog.build(
        len(jobs), ["; MaxNodes: 9"], number=list(range(1, len(jobs) + 1)), submit_s=submit, wait_s=wait, run_s=run,
        allocated_procs=procs, requested_procs=procs, queue=[3] * len(jobs),
    )  # fmt: skip


def test_small_jobs_fill_nodes_and_whole_ones_stay_what_they_are():
    found = pack_shared(log((0, 5, 100, 3), (0, 10, 50, 3), (7, 1, 60, 8), (0, -1, 60, 1)), CORES)
    assert (found.jobs, found.nodes, found.most, found.unstarted, found.queue) == (2, 2, 2, 1, 4)
    work = to_jobs(found.log, nodes=9, procs_per_node=CORES, origin_s=0)
    rows = zip(
        work.jobs.submit_us // 10**6, work.jobs.run_us // 10**6, work.jobs.nodes, work.jobs.queue, strict=True
    )
    # The second node is there for as long as both jobs run.
    assert [tuple(map(int, row)) for row in rows] == [(5, 100, 1, 4), (7, 60, 2, 3), (10, 50, 1, 4)]
    assert "4 nodes of jobs that share them" in found.log.keys["Queue"]


def test_a_log_in_which_nobody_shares_is_an_error():
    with pytest.raises(ValueError, match="fewer than 4 processors: none share nodes"):
        pack_shared(log((0, 0, 10, 4), (0, -1, 10, 1)), CORES)


jobs = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(1, 40), st.integers(1, 6)),
    min_size=1,
    max_size=30,
)


@given(jobs)
def test_at_every_time_there_are_as_many_nodes_as_the_shared_cores_fill(found):
    shared = [job for job in found if job[3] < CORES]
    if not shared:
        return
    packed = pack_shared(log(*found), CORES).log
    mine = packed.column("queue") == 4
    begin, run = packed.column("submit_s")[mine], packed.column("run_s")[mine]
    for time in range(100):
        cores = sum(
            procs for submit, wait, run_s, procs in shared if submit + wait <= time < submit + wait + run_s
        )
        assert int(((begin <= time) & (time < begin + run)).sum()) == -(-cores // CORES)
    assert (packed.column("wait_s")[mine] == 0).all()
    assert len(packed) - int(mine.sum()) == len(found) - len(shared)
    assert np.array_equal(np.sort(packed.column("number")), np.unique(packed.column("number")))
