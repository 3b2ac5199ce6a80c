"""Leaving out jobs by what they are, and jobs that run as long as they asked for."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.workload import store
from emulator.workload.formats import load
from emulator.workload.generators import parse_generators
from emulator.workload.leave_out import LeaveOut, RunToWalltime, ScaleEstimates
from emulator.workload.paper_workloads import ApsLeases, figures
from emulator.workload.rules import to_jobs
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from testdata import TRACES


def jobs() -> JobTable:
    """A job, its twin, one that ran to its walltime, a wide one, and a lease like the first job."""
    return JobTable.build(
        submit_us=[10, 10, 20, 30, 10],
        run_us=[5, 5, 7, 5, 5],
        estimate_us=[9, 8, 7, 9, 5],
        nodes=[1, 2, 1, 8, 1],
        number=[1, 2, 3, 4, 5],
        kind=[Kind.BATCH] * 4 + [Kind.ON_DEMAND],
    )


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        (LeaveOut(), [1, 2, 5, 3, 4]),
        (LeaveOut(overrun=True), [1, 2, 5, 4]),
        (LeaveOut(twins=True), [1, 5, 3, 4]),
        (LeaveOut(wider_than=4), [1, 2, 5, 3]),
        (LeaveOut(overrun=True, twins=True, wider_than=4), [1, 5]),
    ],
)
def test_batch_jobs_are_left_out_by_what_they_are_and_leases_stay(rule, left):
    assert sorted(rule.apply(jobs(), nodes=8).number.tolist()) == sorted(left)


def test_jobs_that_run_to_their_walltime_change_nothing_else():
    found = RunToWalltime().apply(jobs(), nodes=8)
    assert found.run_us.tolist() == [9, 8, 5, 7, 9]
    assert found.number.tolist() == jobs().number.tolist()


def test_the_384_jobs_that_the_paper_has_fewer_than_its_log():
    week = to_jobs(load(TRACES / "lcrc/2015-04-05.csv.xz"), nodes=372, origin_s=0).jobs
    assert len(week) == 24_561
    assert len(LeaveOut(overrun=True, twins=True).apply(week, nodes=372)) == 24_177


def test_stored_jobs_are_used_as_they_are(tmp_path):
    path = tmp_path / "jobs.parquet"
    store.save(jobs(), path)
    (generator,) = parse_generators([{"stored_jobs": str(path)}])
    found = generator.generate(stream(1, "x"), nodes=8)
    assert found.number.tolist() == jobs().number.tolist()
    (absent,) = parse_generators([{"stored_jobs": str(tmp_path / "absent.npz")}])
    with pytest.raises(ValueError, match=r"absent.npz: No such file"):
        absent.generate(stream(1, "x"), nodes=8)


@pytest.mark.parametrize("seed", range(1, 9))
def test_leases_may_be_limited_to_so_many_at_once_and_keep_their_figures(seed):
    few = figures(ApsLeases(most_at_once=11).generate(stream(seed, "x"), nodes=372), nodes=372)
    any_number = figures(ApsLeases().generate(stream(seed, "x"), nodes=372), nodes=372)
    assert few.most_at_once == 11 < any_number.most_at_once
    assert (few.count, few.busiest_minute) == (141, 11)
    assert few.utilisation == pytest.approx(0.0125, rel=0.02)


def test_fewer_at_once_than_an_experiment_needs_is_an_error():
    with pytest.raises(ValueError, match="most_at_once is 5, fewer than the peak of 11"):
        ApsLeases(most_at_once=5)


def test_estimates_are_scaled_or_the_run_times():
    table = jobs()
    batch = table.kind == Kind.BATCH
    doubled = ScaleEstimates(factor=2).apply(table, nodes=8)
    exact = ScaleEstimates(of="run_time").apply(table, nodes=8)
    assert doubled.estimate_us.tolist() == np.where(batch, 2 * table.estimate_us, table.estimate_us).tolist()
    assert exact.estimate_us[batch].tolist() == table.run_us[batch].tolist()
    with pytest.raises(ValueError, match="factor"):
        ScaleEstimates(factor=0.5)
    with pytest.raises(ValueError, match="of is estimate or run_time, not 'runtime'"):
        ScaleEstimates(of="runtime")
