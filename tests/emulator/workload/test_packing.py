"""Packing single-core jobs onto machines: enough machines at every time, and none too many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.predictors.console import read_file
from balancer.predictors.interface import Slots
from emulator.workload.formats import load
from emulator.workload.generators import parse_generators
from emulator.workload.packing import level, machines, pack, running, to_leases, write_history
from emulator.workload.streams import stream
from emulator.workload.swf import SwfLog
from emulator.workload.table import JobTable, Kind
from testdata import TRACES

US = 1_000_000
JOBS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), max_size=60)


def log_of(jobs):
    starts, runs = ([job[0] for job in jobs], [job[1] for job in jobs])
    ones = [1] * len(jobs)
    return SwfLog.build(
        len(jobs),
        submit_s=starts,
        wait_s=[0] * len(jobs),
        run_s=runs,
        allocated_procs=ones,
        requested_procs=ones,
    )


def leases_at(leases, time_us):
    ends = leases.submit_us + leases.run_us
    return ((leases.submit_us[None] <= time_us[:, None]) & (time_us[:, None] < ends[None])).sum(axis=1)


def times_of(leases):
    return sorted(zip((leases.submit_us // US).tolist(), (leases.run_us // US).tolist(), strict=True))


@pytest.mark.parametrize("ends_first", ["newest", "oldest"])
@given(jobs=JOBS, cores=st.integers(1, 5))
def test_at_every_event_there_are_as_many_leases_as_the_running_cores_fill(jobs, cores, ends_first):
    log = log_of(jobs)
    leases = pack(log, cores_per_vm=cores, ends_first=ends_first)
    time_us = np.unique([time * US for start, run in jobs for time in (start, start + run)]).astype(np.int64)
    in_use = np.array(
        [sum(start * US <= now < (start + run) * US for start, run in jobs) for now in time_us],
        dtype=np.int64,
    )
    assert leases_at(leases, time_us).tolist() == (-(-in_use // cores)).tolist()
    assert (leases.run_us > 0).all()
    assert (leases.nodes == 1).all()
    assert (leases.kind == Kind.ON_DEMAND).all()


@given(jobs=JOBS)
def test_whichever_machine_ends_first_the_machine_time_is_the_same(jobs):
    log = log_of(jobs)
    newest, oldest = (pack(log, cores_per_vm=2, ends_first=which) for which in ("newest", "oldest"))
    assert (len(newest), newest.run_us.sum()) == (len(oldest), oldest.run_us.sum())


def test_the_newest_machine_ends_first():
    # Two machines from 0, the second from 5; one is needed from 8 to 20.
    log = log_of([(0, 20), (5, 3)])
    assert times_of(pack(log, cores_per_vm=1)) == [(0, 20), (5, 3)]
    assert times_of(pack(log, cores_per_vm=1, ends_first="oldest")) == [(0, 8), (5, 15)]


def test_a_job_that_starts_as_another_stops_needs_no_other_machine():
    assert times_of(pack(log_of([(0, 10), (10, 10)]), cores_per_vm=1)) == [(0, 20)]


def test_jobs_share_machines_of_sixteen_cores():
    assert times_of(pack(log_of([(0, 10)] * 16))) == [(0, 10)]
    assert times_of(pack(log_of([(0, 10)] * 17))) == [(0, 10), (0, 10)]


def test_jobs_without_a_start_do_not_count():
    log = SwfLog.build(2, submit_s=[0, 0], wait_s=[-1, 4], run_s=[5, 5], allocated_procs=[1, 1])
    demand = running(log)
    assert (demand.time_us.tolist(), demand.count.tolist()) == ([4 * US, 9 * US], [1, 0])


def test_no_jobs_need_no_machines():
    nothing = np.empty(0, np.int64)
    assert len(to_leases(machines(level(nothing, nothing, nothing)))) == 0


def test_an_aps_week_becomes_its_leases():
    leases = pack(load(TRACES / "aps/2014-04-27.csv.xz"))
    in_a_minute = np.searchsorted(leases.submit_us, leases.submit_us + 60 * US) - np.arange(len(leases))
    assert (len(leases), int(in_a_minute.max())) == (145, 11)
    assert round(float(leases.run_us.sum()) / 372 / 604_800e6, 5) == 0.00612


def test_a_scenario_may_have_the_leases_of_a_log_from_an_origin_on(text_file):
    path = text_file("submit_time,start_time,end_time,run_time,wait_time", "0,1,5,4,1", "10,10,19,9,0")
    (generator,) = parse_generators([{"packed_jobs": {"trace": str(path), "origin_s": 8}}])
    assert times_of(generator.generate(stream(1, "x"), nodes=4)) == [(2, 9)]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"trace": 5}, "packed_jobs: trace must be the name of a file, not 5"),
        ({"trace": "x", "cores_per_vm": 0}, "packed_jobs: cores_per_vm must be at least 1"),
        ({"trace": "x", "ends_first": "any"}, "packed_jobs: ends_first is 'newest' or 'oldest', not 'any'"),
    ],
)
def test_bad_parameters_are_said(params, message):
    with pytest.raises(ValueError, match=message):
        parse_generators([{"packed_jobs": params}])


def test_the_history_of_leases_is_what_a_predictor_is_tried_on(tmp_path):
    jobs = JobTable.build(
        submit_us=[5 * US, 10 * US, 21_600 * 3 * US], run_us=[US] * 3, nodes=[1, 2, 4], kind=Kind.ON_DEMAND
    )
    path = tmp_path / "history.csv"
    assert write_history(jobs, 86_400, path) == 4
    assert path.read_text().splitlines()[1:3] == [
        "1970-01-02T00:00:00.000000Z,3",
        "1970-01-02T06:00:00.000000Z,0",
    ]
    history = read_file(path, Slots())
    assert (history.first, [*history.nodes]) == (4, [3, 0, 0, 4])
