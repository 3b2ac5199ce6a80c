"""Jobs that share nodes become the nodes that they fill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.workload.rules import to_jobs
from emulator.workload.sharing import first_fit, pack_shared
from emulator.workload.swf import FIELDS, GPUS_KEY, HOST_KEY, SwfLog

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
    # A node is asked for when the first of its jobs was, and waits as long.
    assert sorted(found.log.column("wait_s").tolist()) == [1, 5, 10]
    assert sorted(tuple(map(int, row)) for row in rows) == [(0, 50, 1, 4), (0, 100, 1, 4), (7, 60, 2, 3)]
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
def test_at_every_time_there_are_nodes_for_the_shared_cores_and_none_is_empty(found):
    shared = [job for job in found if job[3] < CORES]
    if not shared:
        return
    packed = pack_shared(log(*found), CORES).log
    mine = packed.column("queue") == 4
    begin, run = (packed.column("submit_s") + packed.column("wait_s"))[mine], packed.column("run_s")[mine]
    for time in range(100):
        running = [
            procs for submit, wait, run_s, procs in shared if submit + wait <= time < submit + wait + run_s
        ]
        nodes = int(((begin <= time) & (time < begin + run)).sum())
        assert -(-sum(running) // CORES) <= nodes <= len(running)
    assert len(packed) - int(mine.sum()) == len(found) - len(shared)
    assert np.array_equal(np.sort(packed.column("number")), np.unique(packed.column("number")))


def spans(*jobs, room=(4,)):
    """(start, end, wanted...) each."""
    start, end, *wanted = (np.array(column, np.int64) for column in zip(*jobs, strict=True))
    return list(
        map(tuple, np.column_stack(first_fit(start, end, np.column_stack(wanted), room)[:2]).tolist())
    )


def test_a_job_comes_onto_the_first_node_that_has_room():
    # The third job fits only beside the second, whose node then lasts for as long as it.
    assert spans((0, 100, 3), (1, 10, 2), (2, 50, 2)) == [(0, 100), (1, 50)]
    # Jobs end before others start: the node is handed over.
    assert spans((0, 10, 4), (10, 20, 4)) == [(0, 10), (10, 20)]
    # More nodes than there were at first.
    assert len(spans(*[(0, 5, 3)] * 40)) == 40


def test_holes_that_nobody_fits_into_stay_empty():
    """Two cores are free on each of two nodes, and three are wanted: tight packing would not see it."""
    assert spans((0, 10, 2), (0, 100, 2), (0, 10, 2), (0, 100, 2), (20, 100, 3)) == [
        (0, 100),
        (0, 100),
        (20, 100),
    ]


def test_memory_fills_a_node_as_cores_do():
    assert spans((0, 10, 1, 50), (0, 10, 1, 60), room=(4, 100)) == [(0, 10), (0, 10)]
    assert spans((0, 10, 1, 50), (0, 10, 1, 50), room=(4, 100)) == [(0, 10)]
    assert spans((0, 10, 1, 500), room=(4, 100)) == [(0, 10)]
    with_memory = replace_memory(log((0, 0, 10, 1), (0, 0, 10, 1)), 60)
    assert [pack_shared(with_memory, CORES, room).nodes for room in (None, 120, 100)] == [1, 1, 2]


def replace_memory(found, each_kb):
    columns = list(found.columns)
    columns[FIELDS.index("requested_memory_kb")] = np.full(len(found), each_kb)
    return replace(found, columns=tuple(columns))


def with_further(found, **columns):
    """The log with columns beyond the 18th."""
    keys = {"gpus": GPUS_KEY, "host": HOST_KEY}
    for name, values in columns.items():
        each = (*found.columns, np.array(values))
        found = replace(found, columns=each, header=(*found.header, f"; {keys[name]}: {len(each)}"))
    return found


def test_gpus_fill_a_node_as_cores_do():
    two = with_further(log((0, 0, 10, 1), (0, 0, 10, 1), (0, 0, 10, 1)), gpus=[3, 2, -1])
    assert [pack_shared(two, CORES, None, gpus).nodes for gpus in (None, 5, 4)] == [1, 1, 2]


def test_jobs_are_on_the_nodes_that_the_log_names_and_not_where_they_would_fit():
    """Two cores on each of two nodes, where first fit would need one; the third comes when its node is empty again."""
    found = pack_shared(
        with_further(log((0, 0, 100, 2), (0, 5, 50, 2), (60, 0, 10, 1), (7, 0, 60, 8)), host=[1, 2, 2, -1]),
        CORES,
    )
    assert (found.jobs, found.listed, found.nodes, found.most, found.fitted) == (3, 3, 3, 2, 1)
    mine = found.log.column("queue") == found.queue
    rows = zip(
        *(found.log.column(name)[mine].tolist() for name in ("submit_s", "wait_s", "run_s")), strict=True
    )
    assert sorted(rows) == [(0, 0, 100), (0, 5, 50), (60, 0, 10)]
    assert found.log.further(HOST_KEY)[mine].tolist() == [-1, -1, -1]
    assert found.crowded == {}


def test_jobs_without_a_node_are_put_beside_those_that_have_one():
    found = pack_shared(
        with_further(log((0, 0, 100, 1), (0, 0, 80, 1), (0, 0, 60, 1)), host=[5, -1, -1]), CORES
    )
    assert (found.listed, found.nodes, found.most, found.fitted) == (1, 2, 2, 1)
    assert found.log.column("run_s").tolist() == [80, 100]


def test_nodes_with_more_in_use_than_they_have_are_told():
    crowd = log((0, 0, 100, 3), (0, 50, 100, 3), (100, 0, 10, 3), (0, 0, 9, 3), (9, 0, 9, 3))
    assert pack_shared(with_further(crowd, host=[1, 1, 1, 2, 2]), CORES).crowded == {1: 6}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=30)
)
def test_a_listed_node_is_in_use_exactly_while_a_job_is_on_it(found):
    packed = pack_shared(
        with_further(
            log(*[(submit, 0, run, 1) for submit, run, _ in found]), host=[host for *_, host in found]
        ),
        CORES,
    ).log
    begin, run = packed.column("submit_s"), packed.column("run_s")
    for time in range(100):
        busy = {host for submit, run_s, host in found if submit <= time < submit + run_s}
        assert int(((begin <= time) & (time < begin + run)).sum()) == len(busy)
