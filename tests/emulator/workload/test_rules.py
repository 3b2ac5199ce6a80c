"""Input rules: which jobs of a log are replayed, and how what is wrong with them is counted."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.workload.formats import TraceError, load
from emulator.workload.rules import cluster_size, to_jobs, to_log
from emulator.workload.swf import SwfLog, write_swf
from emulator.workload.table import COLUMNS, JobTable, Kind
from testdata import RECORDED, TRACES

US = 1_000_000


def log_of(*jobs, header=()):
    """A log of (number, submit, run, requested, estimate) rows."""
    names = ("number", "submit_s", "run_s", "requested_procs", "requested_s")
    columns = {name: [job[index] for job in jobs] for index, name in enumerate(names)}
    return SwfLog.build(len(jobs), header, **columns)


def table(workload):
    """(number, submit, run, estimate, nodes) of each job, in seconds."""
    jobs = workload.jobs
    times = [(column / US).tolist() for column in (jobs.submit_us, jobs.run_us, jobs.estimate_us)]
    return list(zip(jobs.number.tolist(), *times, jobs.nodes.tolist(), strict=True))


def test_jobs_are_ordered_by_submit_then_number_and_the_first_is_at_zero():
    workload = to_jobs(log_of((3, 500, 9, 1, 9), (2, 500, 9, 1, 9), (1, 700, 9, 1, 9)), nodes=4)
    assert table(workload) == [(2, 0, 9, 9, 1), (3, 0, 9, 9, 1), (1, 200, 9, 9, 1)]
    assert workload.shift_s == 500
    assert workload.rows.tolist() == [1, 0, 2]


def test_absolute_unix_times_become_times_from_the_start():
    workload = to_jobs(log_of((1, 1641021254, 9, 1, 9), (2, 1641022430, 9, 1, 9)), nodes=4)
    assert table(workload) == [(1, 0, 9, 9, 1), (2, 1176, 9, 9, 1)]
    assert workload.shift_s == 1641021254


def test_what_cannot_be_replayed_is_left_out_by_its_first_reason():
    log = log_of(
        (1, 100, 9, 4, 9),
        (2, 0, 0, 4, 9),
        (3, 0, -1, -1, 9),
        (4, 0, 0.5, 4, 9),
        (5, 0, 9, -1, 9),
        (6, 0, 9, 5, 9),
        (7, -1, 9, 1, 9),
        (8, 0, 1e10, 1, 9),
    )
    workload = to_jobs(log, nodes=4)
    assert table(workload) == [(1, 0, 9, 9, 4)]
    assert workload.left_out == {
        "no submit time": 1,
        "no run time": 3,
        "no size": 1,
        "wider than the cluster": 1,
        "longer than 285 years": 1,
    }
    assert workload.shift_s == 100  # jobs that are left out do not set the start


def test_jobs_that_ran_for_less_than_a_second_are_kept_if_one_asks_for_them():
    log = log_of((1, 0, 0, 1, 9), (2, 1, 0.5, 1, 9), (3, 2, -1, 1, 9), (4, 3, 1, 1, 9), (5, 4, 0, 9, 9))
    workload = to_jobs(log, nodes=4, zero_run="one_second")
    assert [row[2] for row in table(workload)] == [1, 1, 1]
    assert workload.left_out == {"no run time": 1, "wider than the cluster": 1}
    assert workload.counted["ran for less than a second, taken as one"] == 2


def test_a_job_without_an_estimate_takes_its_run_time_or_is_left_out():
    log = log_of((1, 0, 9, 1, -1), (2, 0, 9, 1, 12), (3, 0, 9, 1, 0))
    assert [row[3] for row in table(to_jobs(log, nodes=4))] == [9, 12, 9]
    workload = to_jobs(log, nodes=4, no_estimate="leave_out")
    assert table(workload) == [(2, 0, 9, 12, 1)]
    assert workload.left_out == {"no estimate": 2}
    with pytest.raises(ValueError, match="no_estimate is 'run_time' or 'leave_out', not 'drop'"):
        to_jobs(log, nodes=4, no_estimate="drop")


def test_the_size_is_what_was_allocated_else_what_was_requested():
    log = SwfLog.build(3, run_s=[9] * 3, submit_s=[0] * 3, number=[1, 2, 3], allocated_procs=[3, -1, 0],
                       requested_procs=[8, 8, 2])  # fmt: skip
    assert to_jobs(log, nodes=8).jobs.nodes.tolist() == [3, 8, 2]


def test_or_what_was_requested_else_what_was_allocated():
    log = SwfLog.build(3, run_s=[9] * 3, submit_s=[0] * 3, number=[1, 2, 3], allocated_procs=[3, 4, 5],
                       requested_procs=[8, -1, 0])  # fmt: skip
    assert to_jobs(log, nodes=8, size="requested").jobs.nodes.tolist() == [8, 4, 5]
    assert to_jobs(log, nodes=8, size="requested", procs_per_node=4).jobs.nodes.tolist() == [2, 1, 2]
    with pytest.raises(ValueError, match="size is 'nodes', 'procs' or 'requested', not 'field 8'"):
        to_jobs(log, nodes=8, size="field 8")  # type: ignore[arg-type]


def test_processors_become_whole_nodes_rounded_up():
    log = log_of((1, 0, 9, 1, 9), (2, 0, 9, 12, 9), (3, 0, 9, 13, 9), (4, 0, 9, 12.5, 9))
    assert to_jobs(log, nodes=8, procs_per_node=12).jobs.nodes.tolist() == [1, 1, 2, 2]


def test_a_missing_estimate_takes_the_run_time_and_is_counted():
    workload = to_jobs(log_of((1, 0, 9, 1, -1), (2, 0, 9, 1, 0), (3, 0, 9, 1, 20)), nodes=4)
    assert table(workload) == [(1, 0, 9, 9, 1), (2, 0, 9, 9, 1), (3, 0, 9, 20, 1)]
    assert workload.counted == {"estimate missing, run time taken": 2}


@pytest.mark.parametrize(
    ("overrun", "run", "estimate"), [("extend", 30, 30), ("kill", 20, 20), ("run_on", 30, 20)]
)
def test_a_job_that_ran_longer_than_its_estimate_is_extended_or_killed_or_runs_on(overrun, run, estimate):
    workload = to_jobs(log_of((1, 0, 30, 1, 20)), nodes=4, overrun=overrun)
    assert table(workload) == [(1, 0, run, estimate, 1)]
    assert workload.counted == {"ran longer than its estimate": 1}


def test_an_estimate_without_end_is_cut_and_counted():
    workload = to_jobs(log_of((1, 0, 30, 1, 2**62)), nodes=4)
    assert table(workload) == [(1, 0, 30, 9e9, 1)]
    assert workload.counted == {"estimate longer than 285 years, cut": 1}


def test_jobs_with_a_taken_or_missing_number_are_kept_with_a_new_one():
    log = log_of((7, 0, 9, 1, 9), (7, 1, 9, 1, 9), (-1, 2, 9, 1, 9), (2, 3, 9, 1, 9))
    workload = to_jobs(log, nodes=4)
    assert workload.jobs.number.tolist() == [7, 8, 9, 2]
    assert workload.counted == {"job number missing or taken, renumbered": 2}


def test_hashed_user_numbers_become_small_ones():
    log = SwfLog.build(4, submit_s=[0, 1, 2, 3], run_s=[9] * 4, requested_procs=[1] * 4, requested_s=[9] * 4,
                       number=[1, 2, 3, 4], user=[92605928607567, 5, 92605928607567, -1])  # fmt: skip
    workload = to_jobs(log, nodes=4)
    assert workload.jobs.user.tolist() == [2, 1, 2, -1]
    assert workload.counted == {"user number too large, renumbered": 3}


def test_malformed_lines_of_a_lenient_reading_are_counted(swf_file, swf_line):
    log = load(swf_file(swf_line(), "12abc", swf_line(2)), lenient=True)
    assert to_jobs(log, nodes=4).counted == {"malformed line": 1}


def test_fractions_of_seconds_are_kept_to_the_microsecond():
    assert table(to_jobs(log_of((1, 0.5, 1.25, 1, 2.000001), (2, 0.75, 1, 1, 1)), nodes=1)) == [
        (1, 0, 1.25, 2.000001, 1),
        (2, 0.25, 1, 1, 1),
    ]


@pytest.mark.parametrize(
    ("header", "procs_per_node", "nodes"),
    [
        (["; MaxNodes: 151", "; MaxProcs: 2004"], 1, 2004),
        (["; MaxNodes: 151", "; MaxProcs: 2004"], 12, 151),
        (["; MaxProcs: 2004"], 12, 167),
        (["; MaxNodes: 338 (batch partition; 512 total)"], 1, 338),
    ],
)
def test_without_a_number_of_nodes_the_header_says_it(header, procs_per_node, nodes):
    log = log_of((1, 0, 9, 1, 9), header=header)
    assert cluster_size(log, procs_per_node) == nodes
    assert to_jobs(log, nodes=None, procs_per_node=procs_per_node).nodes == nodes


@pytest.mark.parametrize("header", [[], ["; MaxNodes: unknown"], ["; MaxProcs: 0"]])
def test_a_header_without_the_size_is_an_error(header):
    with pytest.raises(
        TraceError, match="<memory>: the log does not say how many nodes the cluster has; pass --nodes N"
    ):
        to_jobs(log_of((1, 0, 9, 1, 9), header=header), nodes=None)


@pytest.mark.parametrize("nodes", [0, -3])
def test_a_cluster_without_nodes_is_an_error(nodes):
    with pytest.raises(ValueError, match=f"at least 1 node .*not {nodes}"):
        to_jobs(log_of((1, 0, 9, 1, 9)), nodes=nodes)


def test_bad_arguments_are_errors():
    with pytest.raises(ValueError, match="at least 1 processor, not 0"):
        to_jobs(log_of((1, 0, 9, 1, 9)), nodes=1, procs_per_node=0)
    with pytest.raises(ValueError, match="overrun is 'extend', 'kill' or 'run_on', not 'ignore'"):
        to_jobs(log_of((1, 0, 9, 1, 9)), nodes=1, overrun="ignore")


@pytest.mark.parametrize("name", ["zero_run", "dependencies", "cancelled", "queue_field"])
def test_a_word_that_no_option_knows_is_an_error_with_the_options_name(name):
    with pytest.raises(ValueError, match=rf"^{name} is '.*' or '.*', not 'nonsense'$"):
        to_jobs(log_of((1, 0, 9, 1, 9)), nodes=1, **{name: "nonsense"})


def test_a_trace_of_which_every_job_is_too_wide_is_an_error_that_says_so():
    with pytest.raises(TraceError, match=r"no job can be replayed on 4 nodes \(2 wider than the cluster\)"):
        to_jobs(log_of((1, 0, 9, 5, 9), (2, 0, 9, 6, 9)), nodes=4)


def test_a_log_with_a_header_only_is_an_error(swf_file):
    with pytest.raises(TraceError, match=r"log\.swf: there are no job lines$"):
        to_jobs(load(swf_file("; MaxNodes: 4")), nodes=None)


def test_a_log_with_malformed_lines_only_is_an_error_that_says_so(swf_file):
    log = load(swf_file("; MaxNodes: 4", "1 2 3", "oops"), lenient=True)
    with pytest.raises(TraceError, match=r"log\.swf: there are no job lines but 2 malformed ones$"):
        to_jobs(log, nodes=None)


def test_batch_jobs_survive_being_written_as_a_log(tmp_path):
    jobs = JobTable.build(submit_us=[0, 3 * US // 2], run_us=[9 * US, US], estimate_us=[10 * US, 2 * US],
                          nodes=[1, 4], user=[3, -1], queue=2)  # fmt: skip
    path = tmp_path / "made.swf.xz"
    write_swf(to_log(jobs, nodes=4, note="made\nhere"), path)
    workload = to_jobs(load(path), nodes=None)
    assert workload.nodes == 4
    for name in COLUMNS:
        assert getattr(workload.jobs, name).tolist() == getattr(jobs, name).tolist(), name


def test_leases_are_not_written_as_batch_jobs():
    lease = JobTable.build(submit_us=[0], run_us=[US], nodes=[1], kind=Kind.ON_DEMAND)
    with pytest.raises(ValueError, match="no on-demand leases"):
        to_log(lease, nodes=4)


@pytest.mark.parametrize("count", [1000, 5000])
def test_the_first_replayable_jobs_of_sdsc_are_those_of_the_reference_schedules(count):
    with gzip.open(RECORDED / f"schedules/input_sdsc-sp2-cln_{count}.csv.gz", "rt") as file:
        rows = [tuple(map(int, row.values())) for row in csv.DictReader(file)]
    workload = to_jobs(load(TRACES / "SDSC-SP2-1998-4.2-cln.swf.xz"), nodes=128)
    jobs = workload.jobs.take(np.arange(count))
    columns = (jobs.submit_us // US, jobs.run_us // US, jobs.estimate_us // US, jobs.nodes)
    ours = list(zip(*(column.tolist() for column in columns), strict=True))
    # The reference numbers its jobs anew from 1, in our order.
    assert [row[0] for row in rows] == list(range(1, count + 1))
    assert ours == [row[1:] for row in rows]


values = st.one_of(st.integers(-3, 200), st.just(-1), st.floats(-2, 1e13), st.integers(-(2**62), 2**62))


@given(
    st.lists(st.tuples(values, values, values, values, values), min_size=1, max_size=30),
    st.integers(1, 64),
    st.integers(1, 4),
    st.sampled_from(["extend", "kill", "run_on"]),
)
def test_every_row_is_kept_or_left_out_and_what_is_kept_can_be_replayed(rows, nodes, procs_per_node, overrun):
    log = log_of(*rows)
    try:
        workload = to_jobs(log, nodes=nodes, procs_per_node=procs_per_node, overrun=overrun)
    except TraceError as error:
        assert "no job can be replayed" in str(error)  # noqa: PT017 - either outcome is right
        return
    jobs = workload.jobs
    assert len(jobs) + sum(workload.left_out.values()) == len(rows)
    assert len(set(jobs.number.tolist())) == len(jobs)
    assert jobs.submit_us[0] == 0
    assert (np.diff(jobs.submit_us) >= 0).all()
    assert (jobs.run_us >= 1).all()
    assert overrun == "run_on" or (jobs.run_us <= jobs.estimate_us).all()
    assert ((jobs.nodes >= 1) & (jobs.nodes <= nodes)).all()
    order = np.lexsort((jobs.number, jobs.submit_us))
    assert order.tolist() == list(range(len(jobs)))
