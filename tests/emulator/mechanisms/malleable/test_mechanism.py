"""Scenarios with moldable and malleable jobs: what the planner does, and what a run leaves behind."""

from __future__ import annotations

import numpy as np
import pytest

from balancer.clock import US
from emulator.mechanisms.malleable import Malleable
from emulator.mechanisms.malleable.convert import FlexibleJobs
from emulator.metrics import summarize
from emulator.metrics.classes import queue_at_submit
from emulator.runs.preparation import Prepared, prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.validation.laws import assert_lawful
from emulator.workload.speedup import Amdahl, Downey, Linear, speed_table
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from scenario_kit import jobs_in_s
from testdata import TRACES

RIGID, MOLDABLE, MALLEABLE = range(3)
KTH = TRACES / "KTH-SP2-1996-2.swf.xz"


def jobs_of(*rows, **extra) -> JobTable:
    """Rows are (submit s, run s, nodes, class)."""
    kind = [row[3] for row in rows]
    return jobs_in_s(
        [row[:3] for row in rows], "submit_us", "run_us", "nodes", extra={"job_class": kind, **extra}
    )


def run(jobs: JobTable, nodes: int = 4, scheduler: str = "fcfs+conservative", **parameters):
    scenario = from_mapping(
        {
            "nodes": nodes,
            "workload": {"trace": "made-here.swf"},
            "scheduler": scheduler,
            "mechanism": {"malleable": parameters},
        }
    )
    return run_virtual(scenario, Prepared(jobs, nodes))


def life(record, job: int) -> list[tuple[float, float, int]]:
    """(from s, to s, nodes) of each stretch of a job's life."""
    runs = record.runs
    width = np.diff(runs.first)
    rows = np.flatnonzero(runs.job == job)
    return [(runs.start_us[row] / US, runs.end_us[row] / US, int(width[row])) for row in rows]


def test_a_moldable_job_waits_for_more_nodes_if_it_then_ends_earlier():
    record = run(jobs_of((0, 10, 3, RIGID), (0, 40, 1, MOLDABLE)))
    assert life(record, 1) == [(10, 20, 4)]


def test_a_moldable_job_takes_the_one_node_that_is_idle_if_it_ends_earlier_on_it():
    record = run(jobs_of((0, 100, 3, RIGID), (0, 40, 1, MOLDABLE)))
    assert life(record, 1) == [(0, 40, 1)]


def test_a_malleable_job_grows_into_idle_nodes_and_makes_room_for_a_rigid_one():
    record = run(jobs_of((0, 40, 1, MALLEABLE), (5, 10, 3, RIGID)))
    assert life(record, 0) == [(0, 5, 4), (5, 15, 1), (15, 17.5, 4)]
    assert life(record, 1) == [(5, 15, 3)]


def test_malleable_jobs_share_the_machine_evenly_and_the_first_one_gets_the_odd_node():
    record = run(jobs_of((0, 30, 1, MALLEABLE), (0, 30, 1, MALLEABLE), (0, 30, 1, MALLEABLE)))
    assert [life(record, job)[0][2] for job in range(3)] == [2, 1, 1]


def test_a_malleable_job_keeps_what_it_was_placed_with_if_told_so():
    jobs = jobs_of((0, 40, 1, MALLEABLE), (5, 10, 1, RIGID))
    assert life(run(jobs, minimum="placed"), 1) == [(10, 20, 1)]
    assert life(run(jobs), 1) == [(5, 15, 1)]


def test_what_malleable_jobs_keep_they_may_share_among_themselves():
    jobs = jobs_of((0, 40, 1, MALLEABLE), (5, 10, 1, MALLEABLE), (6, 10, 1, RIGID))
    record = run(jobs, minimum="shared")
    assert life(record, 1)[0] == (5, 10, 2)
    assert life(record, 2)[0][0] > 6


@pytest.mark.parametrize("minimum", ["least", "pool", "pool_waiting_first"])
def test_what_an_ended_malleable_job_kept_goes_to_a_rigid_job_or_in_the_pools_to_a_malleable_one(minimum):
    jobs = jobs_of(
        (0, 40, 1, MALLEABLE), (0, 10, 1, MALLEABLE), (1, 20, 2, RIGID), (1, 20, 1, RIGID), (2, 5, 1, MALLEABLE)
    )  # fmt: skip
    record = run(jobs, minimum=minimum)
    assert life(record, 1)[-1][1] == 9
    rigid, malleable = life(record, 3)[0][0], life(record, 4)[0][0]
    if minimum == "least":
        assert rigid == 9 < malleable
    else:
        assert malleable == 9 < rigid
    assert_lawful(record)


def test_a_malleable_job_stays_within_its_bounds():
    jobs = jobs_of(
        (0, 40, 2, MALLEABLE),
        (1, 10, 2, RIGID),
        (2, 10, 3, RIGID),
        min_nodes=[2, -1, -1],
        max_nodes=[3, -1, -1],
    )
    record = run(jobs)
    assert {nodes for *_, nodes in life(record, 0)} == {2, 3}
    assert_lawful(record)


def test_each_change_of_width_costs_its_penalty():
    jobs = jobs_of((0, 40, 1, MALLEABLE), (5, 10, 3, RIGID))
    record = run(jobs, reconfiguration_s=2)
    # 20 s of work before the change, 8 of the 10 s beside the rigid job, and 12 on four nodes after 2 s more.
    assert life(record, 0) == [(0, 5, 4), (5, 15, 1), (15, 20, 4)]
    assert summarize(record)["overhead_node_h"] == pytest.approx((2 * 1 + 2 * 4) / 3600)
    assert_lawful(record)


def test_lengths_are_whole_ticks():
    record = run(jobs_of((0, 10, 1, MOLDABLE)), tick_s=1)
    assert life(record, 0) == [(0, 3, 4)]


def test_serial_work_is_not_done_faster_by_more_nodes_and_none_are_taken():
    record = run(jobs_of((0, 10, 1, MOLDABLE)), speedup={"amdahl": {"serial": 1.0}})
    assert life(record, 0) == [(0, 10, 1)]


def test_a_job_of_less_than_linear_speed_up_does_all_its_work_and_the_laws_know_how():
    jobs = jobs_of((0, 40, 4, MALLEABLE), (1, 30, 3, RIGID), (2, 60, 2, MALLEABLE))
    record = run(jobs, speedup={"downey": {"sigma": 1.0}})
    assert_lawful(record)


def test_a_lease_is_rejected_and_said_why():
    jobs = JobTable.build(submit_us=[0, US], run_us=[US, US], nodes=[1, 1], kind=[Kind.BATCH, Kind.ON_DEMAND])
    record = run(jobs)
    assert [lease.reason for lease in record.leases] == ["the planning scheduler serves no on-demand jobs"]
    assert_lawful(record)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"reconfiguration": "free"}, "malleable: reconfiguration is run_time or work, not 'free'"),
        (
            {"minimum": "some"},
            "malleable: minimum is least, placed, shared, pool, pool_waiting_first, not 'some'",
        ),
        (
            {"placement": "anywhere"},
            "malleable: placement is earliest_completion or at_minimum, not 'anywhere'",
        ),
        ({"reconfiguration_s": -1}, "malleable: reconfiguration_s must be at least 0, not -1"),
        ({"speedup": "amdal"}, "there is no speedup 'amdal'; did you mean 'amdahl'?"),
        ({"speedup": {"amdahl": {"serial": 2}}}, "amdahl: serial must be at most 1, not 2"),
    ],
)
def test_a_bad_parameter_is_named(parameters, sentence):
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        Malleable(**parameters)


def test_another_scheduler_is_refused():
    with pytest.raises(ScenarioError, match=r"must be fcfs\+conservative, not fcfs\+easy"):
        run(jobs_of((0, 1, 1, RIGID)), scheduler="fcfs+easy")


def test_a_class_that_does_not_exist_is_refused():
    with pytest.raises(ScenarioError, match="job 1: job_class 7 is none of 0, 1 and 2"):
        run(jobs_of((0, 1, 1, 7)))


def test_so_many_jobs_are_drawn_and_a_larger_share_holds_the_smaller_one():
    jobs = jobs_of(*((second, 1, 3, RIGID) for second in range(200)))

    def drawn(**shares):
        table = FlexibleJobs(**shares).apply_random(jobs, nodes=8, rng=stream(3, "x"))
        return table.extra["job_class"]

    few, many = drawn(malleable=0.1), drawn(malleable=0.5, moldable=0.25)
    assert np.bincount(few).tolist() == [180, 0, 20]
    assert np.bincount(many).tolist() == [50, 50, 100]
    assert (many[few == MALLEABLE] == MALLEABLE).all()


def test_flexible_jobs_may_have_a_least_width():
    jobs = jobs_of((0, 1, 5, RIGID), (0, 1, 1, RIGID))
    table = FlexibleJobs(malleable=1.0, least=0.5).apply_random(jobs, nodes=8, rng=stream(1, "x"))
    assert table.extra["min_nodes"].tolist() == [3, 1]
    assert table.extra["max_nodes"].tolist() == [8, 8]


def test_more_than_all_jobs_cannot_be_flexible():
    with pytest.raises(ValueError, match=r"moldable and malleable are 1\.2 of all jobs"):
        FlexibleJobs(moldable=0.6, malleable=0.6)


def test_speed_ups_are_those_of_their_papers():
    n = np.array([1, 4, 12, 64])
    assert Linear().of(n, 8).tolist() == [1, 4, 12, 64]
    assert Amdahl(0.1).of(n, 8) == pytest.approx([1, 4 / 1.3, 12 / 2.1, 64 / 7.3])
    assert Downey(0.0).of(n, 8) == pytest.approx([1, 4, 8, 8])
    assert Downey(1.0).of(n, 8) == pytest.approx([1, 32 / 9.5, 96 / 13.5, 8])
    assert Downey(2.0).of(n, 8) == pytest.approx([1, 96 / 30, 288 / 46, 8])


def test_a_speed_up_that_falls_with_the_width_is_refused():
    class Falling:
        def of(self, widths, nominal):
            return 1 / widths

    with pytest.raises(ValueError, match="is no speed-up"):
        speed_table(Falling(), np.array([1, 2], np.int32), 4, US)


def test_the_queue_at_a_submit_is_who_came_before_and_has_not_started_before():
    submit = np.array([0, 10, 20, 20, 30])
    start = np.array([0, 25, 20, 40, 30])
    assert queue_at_submit(submit, start).tolist() == [0, 0, 1, 2, 1]


def test_figures_tell_the_classes_apart():
    record = run(jobs_of((0, 40, 1, MALLEABLE), (5, 10, 3, RIGID)))
    figures = summarize(record)["job_classes"]
    assert figures["rigid_mean_response_s"] == 10
    assert figures["malleable_mean_response_s"] == 17.5
    assert figures["malleable_mean_width"] == pytest.approx(40 / 17.5)
    assert (figures["mean_changes"], figures["max_changes"]) == (1, 2)
    assert figures["moldable_mean_response_s"] is None


@pytest.mark.slow
def test_the_kth_log_rigid_is_table_2_and_all_malleable_keeps_the_laws():
    def whole(transforms):
        scenario = from_mapping(
            {
                "nodes": 100,
                "workload": {
                    "trace": str(KTH),
                    "overrun": "kill",
                    "transforms": transforms,
                },
                "scheduler": "fcfs+conservative",
                "mechanism": "malleable",
            }
        )
        return run_virtual(scenario, prepare(scenario))

    rigid = summarize(whole([{"flexible_jobs": {}}]))
    paper = {
        "mean_wait_s": 7992,
        "mean_response_s": 16849,
        "slowdown_weighted_by_area": 3.10,
        "utilization": 0.6872,
    }
    assert {name: rigid[name] for name in paper} == pytest.approx(paper, rel=0.005)
    malleable = whole([{"scale_interarrival": 0.75}, {"flexible_jobs": {"malleable": 1.0}}])
    assert malleable.wall_s < 60  # less than 1 s on an idle machine
    assert_lawful(malleable)
    assert summarize(malleable)["job_classes"]["mean_queue_at_submit"] < 0.5
