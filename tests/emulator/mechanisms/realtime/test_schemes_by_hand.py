"""The five schemes and the baseline on schedules that fit on a sheet of paper."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.cluster.topology import BlueGeneQ, Flat, Layout
from emulator.machine.checkpoint_io import CheckpointIO
from emulator.mechanisms.realtime import tables as t
from emulator.mechanisms.realtime.figures import figures
from emulator.mechanisms.realtime.machine import RealtimeMachine
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable

US = 1_000_000
TWO_SECONDS = CheckpointIO(data_gb=2, node_gb_s=1, write_cap_gb_s=1000, read_cap_gb_s=1000)
RACK = BlueGeneQ(torus=(1, 1, 2, 2), shapes=((1, 1, 1, 1), (1, 1, 1, 2), (1, 1, 2, 2)))


def run(
    scheme: str,
    jobs: list[tuple[int, int, int, bool]],
    *,
    layout: Layout | None = None,
    interval_s: int = 0,
    walltime: float = 1,
    hpq_blocks: bool = True,
) -> RealtimeMachine:
    """`jobs`: submit, run time (seconds), nodes, whether it is real-time."""
    submit, length, nodes, realtime = zip(*jobs, strict=True)
    machine = RealtimeMachine(
        layout or Flat().layout(4),
        SchedulerConfig(),
        JobTable.build(
            submit_us=[each * US for each in submit],
            run_us=[each * US for each in length],
            estimate_us=[round(each * US * walltime) for each in length],
            nodes=list(nodes),
        ),
        scheme=scheme,
        realtime=np.array(realtime),
        interval_us=np.full(len(jobs), interval_s * US),
        io=TWO_SECONDS,
        hpq_blocks=hpq_blocks,
    )
    machine.advance(t.NEVER)
    return machine


def runs(machine: RealtimeMachine) -> list[tuple[int, int, int]]:
    """(job, start, end) of every segment, in seconds."""
    return [(int(row.job), int(row.start_us // US), int(row.end_us // US)) for row in machine.segments]


ONE_GIVES_WAY = [(0, 100, 4, False), (40, 10, 2, True)]
"""A batch job on all of four nodes, and a real-time job that wants two of them at 40 s."""


@pytest.mark.parametrize("scheme", ["baseline", "hpq"])
def test_without_preemption_a_real_time_job_waits(scheme: str):
    assert runs(run(scheme, ONE_GIVES_WAY)) == [(0, 0, 100), (1, 100, 110)]


def test_pre_rest_starts_it_at_once_and_the_other_again():
    machine = run("pre_rest", ONE_GIVES_WAY)
    assert runs(machine) == [(0, 0, 40), (1, 40, 50), (0, 50, 150)]
    assert machine.segments["redo_us"].tolist() == [40 * US, 0, 0]


def test_pre_ckpt_starts_it_when_the_other_has_written_and_nothing_is_done_twice():
    machine = run("pre_ckpt", ONE_GIVES_WAY)
    assert runs(machine) == [(0, 0, 42), (1, 42, 52), (0, 52, 114)]  # 2 s to read, 60 s of work left
    assert machine.segments["writes_us"].tolist() == [2 * US, 0, 0]
    assert machine.segments["reads_us"].tolist() == [0, 0, 2 * US]
    assert machine.segments["lost_us"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("scheme", ["pre_ckpt_sys", "pre_ckpt_app"])
def test_periodic_checkpoints_lose_what_was_done_since_the_last_one(scheme: str):
    """30 s of work, 2 s to write, 8 s that are lost; then 2 s to read, and writes at 60 and 90 s of work."""
    machine = run(scheme, ONE_GIVES_WAY, interval_s=30)
    assert runs(machine) == [(0, 0, 40), (1, 40, 50), (0, 50, 126)]
    assert machine.segments["lost_us"].tolist() == [8 * US, 0, 0]
    assert machine.segments["checkpoints"].tolist() == [1, 0, 2]


def test_a_preempted_job_goes_to_the_back_of_the_queue():
    machine = run("pre_rest", [(0, 100, 4, False), (10, 50, 4, False), (40, 10, 2, True)])
    assert runs(machine) == [(0, 0, 40), (2, 40, 50), (1, 50, 100), (0, 100, 200)]


def test_real_time_jobs_are_never_preempted():
    machine = run("pre_rest", [(0, 100, 4, True), (40, 10, 2, True)])
    assert runs(machine) == [(0, 0, 100), (1, 100, 110)]


def test_under_hpq_no_batch_job_starts_while_a_real_time_job_waits():
    jobs = [(0, 100, 3, False), (10, 10, 2, True), (20, 10, 1, False)]
    assert runs(run("hpq", jobs)) == [(0, 0, 100), (1, 100, 110), (2, 100, 110)]
    assert runs(run("baseline", jobs)) == [(0, 0, 100), (2, 20, 30), (1, 100, 110)]
    assert runs(run("hpq", jobs, hpq_blocks=False)) == [(0, 0, 100), (2, 20, 30), (1, 100, 110)]


def test_in_a_preemptive_scheme_batch_jobs_go_on_while_a_real_time_job_waits_for_another():
    jobs = [(0, 100, 3, True), (10, 10, 2, True), (20, 10, 1, False)]
    assert runs(run("pre_rest", jobs)) == [(0, 0, 100), (2, 20, 30), (1, 100, 110)]


def test_flat_victims_have_the_fewest_nodes_that_make_up_the_shortage():
    """Two nodes are wanted: of widths 3 and 1 + 1 the two narrow jobs go, for that frees no node too many."""
    jobs = [(0, 100, 3, False), (0, 100, 1, False), (0, 100, 1, False), (40, 10, 2, True)]
    machine = run("pre_rest", jobs, layout=Flat().layout(5))
    assert [job for job, _, end in runs(machine) if end == 40] == [1, 2]


def test_of_equal_victims_the_one_with_the_least_work_to_lose_goes():
    jobs = [(0, 100, 2, False), (20, 200, 2, False), (40, 10, 2, True)]
    machine = run("pre_rest", jobs)
    assert [job for job, _, end in runs(machine) if end == 40] == [1]


def test_the_partition_that_keeps_utilisation_highest_is_taken():
    """A job on two midplanes and one on a single one beside an idle one: one midplane is wanted, the idle one is it."""
    rack = RACK.layout(4 * 512)
    jobs = [(0, 100, 1024, False), (0, 100, 512, False), (40, 10, 512, True)]
    assert runs(run("pre_rest", jobs, layout=rack)) == [(0, 0, 100), (1, 0, 100), (2, 40, 50)]
    two_wanted = [*jobs[:2], (40, 10, 1024, True)]
    machine = run("pre_rest", two_wanted, layout=rack)
    assert [job for job, _, end in runs(machine) if end == 40] == [1]


def test_a_partition_takes_its_children_and_parents_with_it():
    rack = RACK.layout(4 * 512)
    whole = run("pre_rest", [(0, 100, 512, False), (0, 100, 512, False), (40, 10, 2048, True)], layout=rack)
    assert [job for job, _, end in runs(whole) if end == 40] == [0, 1]
    part = run("pre_rest", [(0, 100, 2048, False), (40, 10, 512, True)], layout=rack)
    assert [job for job, _, end in runs(part) if end == 40] == [0]


def test_a_small_job_is_put_where_it_blocks_the_fewest_partitions():
    """One midplane of the first rack is taken; the next single one goes beside it and leaves the other rack whole."""
    rack = RACK.layout(4 * 512)
    machine = run(
        "baseline", [(0, 100, 512, False), (0, 100, 512, False), (0, 100, 1024, False)], layout=rack
    )
    assert runs(machine) == [(0, 0, 100), (1, 0, 100), (2, 0, 100)]


def test_two_victims_that_write_at_once_share_the_cap():
    io = CheckpointIO(data_gb=2, node_gb_s=1, write_cap_gb_s=2, read_cap_gb_s=2)
    machine = RealtimeMachine(
        Flat().layout(4),
        SchedulerConfig(),
        JobTable.build(submit_us=[0, 0, 40 * US], run_us=[100 * US] * 3, nodes=[2, 2, 4]),
        scheme="pre_ckpt",
        realtime=np.array([False, False, True]),
        interval_us=np.zeros(3, np.int64),
        io=io,
    )
    machine.advance(t.NEVER)
    assert runs(machine)[2] == (2, 44, 144)  # 4 nodes x 2 GB at 2 GB/s


def test_utilisation_and_slowdown_of_the_sheet():
    machine = run("pre_ckpt", ONE_GIVES_WAY)
    found = figures(machine, narrow_nodes=2)
    assert found["productive_utilization"] == pytest.approx((100 * 4 + 10 * 2) / (114 * 4))
    assert found["system_utilization"] == pytest.approx((100 * 4 + 10 * 2 + 2 * 4 + 2 * 4) / (114 * 4))
    assert found["realtime_slowdown"] == pytest.approx((2 + 600) / 600)
    assert found["batch_slowdown"] == pytest.approx((14 + 600) / 600)
    assert found["batch_turnaround_s"] == 114
    assert (found["realtime_jobs_narrow_short"], found["batch_jobs_wide_short"]) == (1, 1)
    assert (found["preemptions"], found["checkpoints"]) == (1, 1)
