"""The plug-in `realtime`: parameters, who is real-time, and runs through the same loop as every other mechanism."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest

from emulator.mechanisms.realtime import Realtime
from emulator.mechanisms.realtime import tables as t
from emulator.mechanisms.realtime.machine import SCHEMES
from emulator.metrics import summarize
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.mira import MiraWeek
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from oracle.workloads import job_table, random_workload

US = 1_000_000
WEEK = MiraWeek("a").generate(stream(1, "test"), nodes=49_152)
TEN = JobTable.build(submit_us=[0] * 10, run_us=[US] * 10, nodes=[1] * 10)


def mira(scheme: str, **params: object) -> object:
    document = {
        "nodes": 49_152,
        "workload": {"generate": [{"mira_week": {}}]},
        "mechanism": {"realtime": {"scheme": scheme, "percent": 20, "topology": "blue_gene_q", **params}},
    }
    scenario = from_mapping(document)
    return run_virtual(scenario, prepare(scenario))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_week_of_mira_is_lawful_and_has_the_papers_figures(scheme: str):
    record = mira(scheme)
    assert_lawful(record, jobs_in=403)
    summary = summarize(record)
    assert summary["problems"] == []
    assert summary["mechanism"]["realtime_jobs"] == 81
    assert summary["preemptions"] == summary["mechanism"]["preemptions"]
    assert summary["mechanism"]["productive_utilization"] <= summary["mechanism"]["system_utilization"]
    assert (summary["preemptions"] > 0) == scheme.startswith("pre_")


def test_leases_index_list_and_percentage_together_are_the_real_time_jobs():
    jobs = JobTable.build(
        submit_us=[0] * 10, run_us=[US] * 10, nodes=[1] * 10, kind=[Kind.ON_DEMAND] + [Kind.BATCH] * 9
    )
    chosen = Realtime(jobs=[3, 4]).chosen(jobs, 1)
    assert jobs.number[chosen].tolist() == [1, 3, 4]
    more = Realtime(jobs=[3, 4], percent=50).chosen(jobs, 1)
    assert more.sum() == 3 + round(7 * 0.5)
    assert more[chosen].all()


def test_samples_differ_and_repeat():
    def sample(number: int, seed: int = 1) -> list[int]:
        return WEEK.number[Realtime(percent=20, sample=number).chosen(WEEK, seed)].tolist()

    assert sample(0) == sample(0)
    assert len({tuple(sample(number)) for number in range(20)}) == 20
    assert sample(0) != sample(0, seed=2)


def test_intervals_are_the_systems_or_a_share_of_the_walltime():
    jobs = JobTable.build(submit_us=[0, 0], run_us=[US, US], estimate_us=[100 * US, 10 * US], nodes=[1, 1])
    assert Realtime(scheme="pre_ckpt_sys", interval_s=900).intervals_us(jobs).tolist() == [900 * US] * 2
    app = Realtime(scheme="pre_ckpt_app", interval_share=0.15)
    assert app.intervals_us(jobs).tolist() == [15 * US, 1_500_000]
    assert Realtime(scheme="pre_ckpt").intervals_us(jobs).tolist() == [0, 0]


def test_jobs_count_as_wide_as_their_partition():
    jobs = JobTable.build(submit_us=[0, 0], run_us=[US, US], nodes=[1, 5000])
    machine = Realtime(topology="blue_gene_q").make_machine(49_152, SchedulerConfig(), jobs, 1)
    assert machine.job_table().nodes.tolist() == [512, 8192]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"scheme": "pre_all"}, "scheme is one of baseline, hpq"),
        ({"percent": 101}, "percent must be at most 100"),
        ({"resubmit": "front"}, "resubmit is back or place"),
        ({"interval_s": 0}, "interval_s must be at least 1"),
        ({"interval_share": 0}, "interval_share must be more than 0"),
        ({"node_gb_s": -1}, "node_gb_s must be at least"),
        ({"sample": 1.5}, "sample must be a whole number"),
        ({"jobs": ["a"]}, "jobs must be a whole number"),
    ],
)
def test_a_wrong_parameter_is_named(params: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        Realtime(**params)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": {"realtime": {"jobs": [999]}}}, "there is no job 999 in the workload"),
        ({"mechanism": {"realtime": {"topology": "cube"}}}, "there is no topology 'cube'"),
        ({"mechanism": {"realtime": {"topology": "blue_gene_q"}}, "nodes": 64}, "the machine has 64"),
        ({"scheduler": "fcfs+conservative"}, "backfill is `easy` or `none`"),
        ({"scheduler": {"reservation": "kept"}}, "option reservation can only be 'refreshed'"),
    ],
)
def test_what_cannot_be_run_is_an_error_of_the_scenario(changes: dict[str, object], message: str):
    document = {
        "nodes": 4,
        "workload": {"generate": [{"daily_batch": {"days": 0.1}}]},
        "mechanism": {"realtime": {}},
    }
    scenario = from_mapping(document | changes)
    with pytest.raises(ScenarioError, match=message):
        run_virtual(scenario, prepare(scenario))


@pytest.mark.parametrize("choice", ["first_fit", "best_fit", "shortest_first"])
@pytest.mark.parametrize("order", ["fcfs", "sjf", "largest"])
def test_the_flat_baseline_is_the_ordinary_scheduler(order: str, choice: str):
    rng = np.random.default_rng([4, *f"{order}{choice}".encode()])
    for _ in range(30):
        jobs, nodes = random_workload(rng)
        table, scheduler = job_table(jobs), SchedulerConfig(order=order, choice=choice)  # type: ignore[arg-type]
        machine = Realtime(scheme="baseline", percent=30).make_machine(nodes, scheduler, table, 1)
        machine.advance(t.NEVER)
        expected = simulate(table, nodes, scheduler)
        assert machine.start_us.tolist() == expected.start_us.tolist()


def test_the_same_seed_gives_the_same_segments():
    def segments() -> bytes:
        mechanism = Realtime(scheme="pre_ckpt", percent=30, topology="blue_gene_q")
        machine = mechanism.make_machine(49_152, SchedulerConfig(), WEEK, 5)
        machine.advance(t.NEVER)
        return machine.segments.tobytes()

    assert segments() == segments()


def test_pausing_changes_nothing():
    def ends(pause_after: int) -> list[int]:
        mechanism = Realtime(scheme="pre_ckpt_sys", percent=30, topology="blue_gene_q")
        machine = mechanism.make_machine(49_152, SchedulerConfig(), WEEK, 5)
        while machine.next_event_us != t.NEVER:
            machine.advance(t.NEVER, pause_after=pause_after)
        return machine.end_us.tolist()

    assert ends(1) == ends(1000) == ends(-1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_week_takes_less_than_a_fifth_of_a_second(scheme: str):
    mechanism = Realtime(scheme=scheme, percent=50, topology="blue_gene_q")
    spent = []
    for _ in range(2):  # the first time it may have to be compiled
        machine = mechanism.make_machine(49_152, SchedulerConfig(), WEEK, 1)
        began = process_time()
        machine.advance(t.NEVER)
        spent.append(process_time() - began)
    assert spent[-1] < 0.2
