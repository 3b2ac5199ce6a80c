"""Headline figures of every mechanism, against a slow count from the run record alone (`tests/oracle/counted.py`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import emulator
from emulator.mechanisms.balancer.mechanism import BalancerMechanism
from emulator.mechanisms.hybrid import figures as hybrid_figures
from emulator.mechanisms.malleable import Malleable
from emulator.mechanisms.oversubscribe import DedicatedNodes, Oversubscribe
from emulator.mechanisms.oversubscribe import figures as sharing_figures
from emulator.mechanisms.realtime import Realtime
from emulator.mechanisms.realtime import figures as realtime_figures
from emulator.mechanisms.static_partition import StaticPartition
from emulator.metrics import classes, jobs, ondemand, pools, runs, summarize, summary
from emulator.record.run_record import NodePool
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import simulate
from emulator.workload.table import Kind
from gates import GATE
from oracle import counted, hybrid_kit
from oracle.workloads import job_table, random_workload

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def run(mechanism, table, nodes, scheduler="fcfs+easy"):
    """The record of a mechanism that brings its machine."""
    machine = mechanism.make_machine(nodes, SchedulerConfig.parse(scheduler), table, 1)
    loop = Loop(machine, mechanism, node_names=getattr(machine, "node_names", None))
    loop.run()
    return loop.record()


def given(figures, expected):
    """The figures of these names, and what was counted of them; None stays None."""
    counts = {
        name: None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)
        for name, value in expected.items()
    }
    return {name: figures[name] for name in expected}, counts


def assert_counted(record, own, expected):
    found, counts = given(summarize(record), counted.headlines(record))
    assert found == counts
    found, counts = given(own, expected)
    assert found == counts


def balancer_case(rng):
    jobs_given, nodes = random_workload(rng, jobs=30)
    table = job_table(jobs_given)
    kind = np.where(rng.random(len(table)) < 0.3, Kind.ON_DEMAND, Kind.BATCH).astype(np.int8)
    mechanism = BalancerMechanism(
        static_reserve=int(rng.integers(0, nodes // 2 + 1)),
        reserve_rule=str(rng.choice(("fixed", "refilled"))),
        wait_s=float(rng.choice((0, 5, 60))),
        idle_reserve_s=float(rng.choice((0, 3, 600))),
    )
    return simulate(replace(table, kind=kind), nodes, SchedulerConfig(), mechanism=mechanism)


def partition_case(rng):
    jobs_given, nodes = random_workload(rng, jobs=30)
    ondemand = int(rng.integers(1, nodes + 2))
    table = job_table(jobs_given)
    kind = np.where(rng.random(len(table)) < 0.3, Kind.ON_DEMAND, Kind.BATCH).astype(np.int8)
    mechanism = StaticPartition(ondemand)
    return simulate(replace(table, kind=kind), nodes + ondemand, SchedulerConfig(), mechanism=mechanism)


def hybrid_case(rng):
    found, nodes = hybrid_kit.random_jobs(rng, jobs=30)
    strategy = str(rng.choice([*hybrid_kit.STRATEGIES, "baseline"]))
    return hybrid_kit.simulate(found, nodes, strategy)[0]


def realtime_case(rng):
    jobs_given, nodes = random_workload(rng, jobs=30)
    table = job_table(jobs_given)
    table = replace(table, run_us=table.run_us * 200, estimate_us=table.estimate_us * 200)
    schemes = ("baseline", "hpq", "pre_rest", "pre_ckpt_sys", "pre_ckpt_app", "pre_ckpt")
    mechanism = Realtime(scheme=str(rng.choice(schemes)), percent=30, interval_s=700, narrow_nodes=3)
    return run(mechanism, table, nodes)


def malleable_case(rng):
    jobs_given, nodes = random_workload(rng, jobs=30)
    table = job_table(jobs_given)
    kind = rng.integers(0, 3, len(table))
    table = table.with_extra(
        job_class=kind,
        min_nodes=np.where(kind == 0, table.nodes, 1),
        max_nodes=np.where(kind == 0, table.nodes, nodes),
    )
    mechanism = Malleable(reconfiguration_s=float(rng.choice((0, 2))))
    return run(mechanism, table, nodes, "fcfs+conservative")


def sharing_case(rng, mechanism):
    jobs_given, nodes = random_workload(rng, jobs=25, nodes=6, estimates="longer")
    table = job_table(jobs_given)
    table = replace(table, nodes=np.minimum(table.nodes, nodes), queue=rng.integers(0, 2, len(table)))
    table = table.with_extra(cores=rng.integers(1, 4, len(table)), whole_nodes=table.nodes)
    name = "oversubscribe" if isinstance(mechanism, Oversubscribe) else "dedicated_nodes"
    return replace(run(mechanism, table, 2 * nodes), scenario={"mechanism": {name: {}}})


def own(record):
    return record.figures


CASES = {
    "balancer": (balancer_case, summarize, counted.of_pools),
    "static_partition": (partition_case, summarize, counted.of_pools),
    "hybrid": (hybrid_case, own, counted.of_hybrid),
    "realtime": (realtime_case, own, lambda record: counted.of_realtime(record, narrow_nodes=3)),
    "malleable": (malleable_case, classes.class_figures, counted.of_classes),
    "oversubscribe": (
        lambda rng: sharing_case(rng, Oversubscribe(cores=3, multiplicity=int(rng.integers(1, 4)))),
        own,
        lambda record: counted.of_sharing(record, responsive_queues=[0]),
    ),
    "dedicated_nodes": (
        lambda rng: sharing_case(rng, DedicatedNodes(cores=3, percent=50)),
        own,
        lambda record: counted.of_sharing(record, responsive_queues=[0]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_of_every_mechanism_on_random_workloads(name):
    case, own_figures, expected = CASES[name]
    for seed in range(GATE.counted_workloads):
        record = case(np.random.default_rng([seed, *name.encode()]))
        assert_counted(record, own_figures(record), expected(record))


FAULTS = {
    "a wait that is a microsecond longer": ("balancer", jobs, "wait_us", lambda submit, start: start - submit + 1),
    "slowdowns that divide by the time that a job was stretched to": (
        "oversubscribe", jobs, "owed_us", lambda record, rows: record.end_us[rows] - record.start_us[rows],
    ),
    "slots that count as nodes": ("oversubscribe", runs, "core_of_slot", lambda _: None),
    "the job after the last one that completes a share": (
        "oversubscribe", sharing_figures, "completion_us",
        lambda end_us, share: int(np.sort(end_us)[min(len(end_us) - 1, int(len(end_us) * share))]),
    ),
    "a queue with the job itself in it": (
        "malleable", classes, "queue_at_submit", lambda submit_us, start_us: QUEUE(submit_us, start_us) + 1,
    ),
    "another paper's slowdown": (
        "realtime", realtime_figures, "bounded_slowdown_wang",
        lambda wait, run, threshold_s: jobs.bounded_slowdown(wait + run, run, threshold_s=threshold_s),
    ),
    "a wait that ends with the first start": (
        "hybrid", hybrid_figures, "_longest_wait",
        lambda record, _: int((record.start_us - record.jobs.submit_us).max(initial=0)),
    ),
    "hours that are too long": ("balancer", summary, "HOUR_US", 3_600_000_100),
    "lent nodes that stay batch's": ("balancer", pools, "_TAKEN", (NodePool.OD_RESERVE, NodePool.DOWN)),
    "leases that count as batch jobs": (
        "static_partition", runs.NodeTime, "batch_utilization", property(lambda used: used.utilization),
    ),
    "refusals without their reason": (
        "static_partition", ondemand, "requests",
        lambda record: replace(REQUESTS(record), rejected_by_reason={}),
    ),
}  # fmt: skip
QUEUE, REQUESTS = classes.queue_at_submit, ondemand.requests


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault, monkeypatch):
    name, module, attribute, wrong = FAULTS[fault]
    monkeypatch.setattr(module, attribute, wrong)
    with pytest.raises(AssertionError):
        test_of_every_mechanism_on_random_workloads(name)


@pytest.mark.parametrize("multiplicity", [1, 2, 4])
def test_of_jobs_that_share_cores(multiplicity):
    found = emulator.run(
        SCENARIOS / "shared-cores.yaml", changes={"mechanism.oversubscribe.multiplicity": multiplicity}
    )
    figures, counts = given(found.summary, counted.headlines(found.record))
    assert figures == counts
    assert found.summary["nodes"] == 2


def test_sharing_does_not_flatter():
    """Each of 8 jobs starts at once with 4 on a core, and runs longer: bounded slowdown was 1, utilisation 44 %."""
    changes = {"mechanism.oversubscribe.multiplicity": 4}
    summary = emulator.run(SCENARIOS / "shared-cores.yaml", changes=changes).summary
    assert summary["mean_wait_s"] == 0
    assert summary["mean_bounded_slowdown"] == pytest.approx(2.0, abs=0.05)
    assert summary["utilization"] == pytest.approx(0.9565, abs=1e-4)


@pytest.mark.parametrize("name", ["default", "energy"])
def test_of_whole_nodes(name):
    found = emulator.run(SCENARIOS / f"{name}.yaml")
    figures, counts = given(found.summary, counted.headlines(found.record))
    assert figures == counts
