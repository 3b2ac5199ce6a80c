"""The mechanisms of shared nodes behind the harness: lawful runs, the same bytes, clear errors, the paper's figures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from balancer.clock import NEVER_US, US
from emulator.kernel.job_states import JobState
from emulator.mechanisms.oversubscribe import DedicatedNodes, Oversubscribe
from emulator.mechanisms.oversubscribe.figures import Outcomes, completion_us, figures, heat
from emulator.mechanisms.oversubscribe.phases import InteractivePhases, ShareLimit, draw_phases
from emulator.mechanisms.oversubscribe.workload import CoreJobs, CoreJobsLike
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.validation.laws import assert_lawful
from emulator.workload.swf import GPUS_KEY, SwfLog
from emulator.workload.table import JobTable, Kind
from testdata import TRACES

EASY = SchedulerConfig.parse("fcfs+easy")


def some_jobs(seed: int = 1, count: int = 300) -> JobTable:
    rng = np.random.default_rng(seed)
    return JobTable.build(
        submit_us=np.sort(rng.integers(0, 2_000, count)) * US,
        run_us=rng.integers(1, 300, count) * US,
        estimate_us=rng.integers(300, 900, count) * US,
        nodes=rng.integers(1, 4, count),
        queue=rng.integers(0, 2, count),
        extra={"cores": rng.integers(1, 5, count), "memory_kib": rng.integers(0, 1 << 20, count)},
    )


def run(mechanism, jobs: JobTable, nodes: int = 8, *, seed: int = 1):
    loop = Loop(
        machine := mechanism.make_machine(nodes, EASY, jobs, seed), mechanism, node_names=machine.node_names
    )
    loop.run()
    return loop.record()


MECHANISMS = {
    "shared": Oversubscribe(cores=4, multiplicity=3),
    "with memory": Oversubscribe(cores=4, multiplicity=3, memory_gib=1.5),
    "only responsive": Oversubscribe(cores=4, multiplicity=3, sharing="responsive"),
    "dedicated": DedicatedNodes(cores=4, percent=40),
    "overhead": Oversubscribe(cores=4, multiplicity=2, contention={"overhead": {"percent": 12.5}}),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_runs_keep_the_laws(name):
    jobs = some_jobs()
    record = run(MECHANISMS[name], jobs)
    assert_lawful(record, jobs_in=len(jobs))
    assert (record.state == JobState.ENDED).all()


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("instants", [1, 37])
def test_a_run_that_is_ended_early_keeps_the_laws(name, instants):
    jobs = some_jobs()
    mechanism = MECHANISMS[name]
    machine = mechanism.make_machine(8, EASY, jobs, 1)
    loop = Loop(machine, mechanism)
    for _ in range(7):
        machine.advance(NEVER_US, pause_after=instants)
    loop.decisions.actions.now_us = machine.now_us
    assert_lawful(loop.record(interrupted="for the test"), jobs_in=len(jobs))


@pytest.mark.parametrize("name", MECHANISMS)
def test_pauses_change_nothing(name):
    jobs = some_jobs()
    whole = run(MECHANISMS[name], jobs)
    machine = MECHANISMS[name].make_machine(8, EASY, jobs, 1)
    while machine.next_event_us != NEVER_US:
        machine.advance(NEVER_US, pause_after=5)
    assert (machine.start_us == whole.start_us).all()
    assert (machine.end_us == whole.end_us).all()


def test_slots_are_what_jobs_have_to_themselves():
    jobs = JobTable.build(submit_us=[0, 0], run_us=[US, US], nodes=[2, 1], extra={"cores": [2, 1]})
    record = run(Oversubscribe(cores=2, multiplicity=2), jobs, nodes=2)
    names = [
        [record.node_names[slot] for slot in sorted(record.runs.node[first:last])]
        for first, last in zip(record.runs.first[:-1], record.runs.first[1:], strict=True)
    ]
    assert names == [["n001/c00.1", "n001/c01.1", "n002/c00.1", "n002/c01.1"], ["n001/c00.2"]]
    assert record.jobs.nodes.tolist() == [4, 1]
    assert record.jobs.column("whole_nodes").tolist() == [2, 1]


def test_one_job_a_core_is_plain_easy_on_whole_nodes():
    """With whole-node jobs and M=1 the machine is the harness's own cluster."""
    from emulator.simulation.run import simulate  # noqa: PLC0415

    jobs = some_jobs().with_extra(cores=np.full(300, 4), memory_kib=np.zeros(300, np.int64))
    ours, plain = run(Oversubscribe(cores=4, multiplicity=1), jobs), simulate(jobs, 8, EASY)
    assert (ours.start_us == plain.start_us).all()
    assert (ours.end_us == plain.end_us).all()


def test_sharing_only_among_responsive_jobs_leaves_the_others_alone():
    jobs = some_jobs()
    record = run(MECHANISMS["only responsive"], jobs)
    normal = jobs.queue != 0
    assert (record.end_us - record.start_us == jobs.run_us)[normal].all()
    assert (record.end_us - record.start_us > jobs.run_us)[~normal].any()


def test_phases_are_drawn_from_the_seed():
    jobs = InteractivePhases(active_s=5, idle_s=20).apply(some_jobs(), nodes=8)
    once, again, other = (run(Oversubscribe(cores=4, multiplicity=3), jobs, seed=seed) for seed in (1, 1, 2))
    assert (once.end_us == again.end_us).all()
    assert (once.end_us != other.end_us).any()
    assert_lawful(once, jobs_in=len(jobs))


def test_phases_add_up_to_the_run_time():
    jobs = InteractivePhases(active_s=5, idle_s=20).apply(some_jobs(), nodes=8)
    phases = draw_phases(jobs, np.random.default_rng(1))
    assert set(phases) == set(np.flatnonzero(jobs.queue == 0).tolist())
    assert all(lengths.sum() == jobs.run_us[row] and (lengths > 0).all() for row, lengths in phases.items())


def test_a_share_limit_is_set_for_the_queues_named():
    jobs = ShareLimit(limit=1, queues=[1]).apply(some_jobs(), nodes=8)
    assert jobs.column("share_limit").tolist() == [1 if queue == 1 else -1 for queue in jobs.queue]


def test_jobs_that_are_too_wide_for_their_part_are_refused_or_an_error():
    jobs = JobTable.build(
        submit_us=[5, 6], run_us=[US, US], nodes=[4, 1], queue=[0, 1], extra={"cores": [1, 1]}
    )
    with pytest.raises(ValueError, match="job 1 wants 4 nodes, there are 2"):
        DedicatedNodes(cores=2, percent=50).make_machine(4, EASY, jobs, 1)
    record = run(DedicatedNodes(cores=2, percent=50, refuse_too_wide=True), jobs, nodes=4)
    assert record.state.tolist() == [JobState.REJECTED, JobState.ENDED]
    assert_lawful(record, jobs_in=2)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"multiplicity": 0}, "multiplicity must be at least 1"),
        ({"sharing": "some"}, "sharing is all or responsive"),
        ({"contention": "equal_share"}, "did you mean 'equal_shares'"),
        ({"responsive_queues": 0}, "responsive_queues is a list"),
    ],
)
def test_a_wrong_parameter_is_an_error(params, message):
    with pytest.raises(ValueError, match=message):
        Oversubscribe(cores=4, **params)


def test_leases_are_an_error_that_says_what_to_do():
    jobs = JobTable.build(submit_us=[0], run_us=[US], nodes=[1], kind=Kind.ON_DEMAND)
    with pytest.raises(ValueError, match="give them as batch jobs of a queue in responsive_queues"):
        Oversubscribe(cores=4).make_machine(2, EASY, jobs, 1)


def test_a_scenario_with_shared_nodes_is_lawful_and_has_the_figures():
    scenario = from_mapping(
        {
            "nodes": 150,
            "workload": {"generate": [{"core_jobs_like": {"site": "unilu", "share": 0.01}}]},
            "mechanism": {"oversubscribe": {"cores": 12, "multiplicity": 4}},
        }
    )
    record = run_virtual(scenario, prepare(scenario))
    assert_lawful(record)
    assert record.figures["jobs_responsive"] == 18
    with pytest.raises(ScenarioError, match="shared nodes have the backfilling none and easy"):
        run_virtual(scenario.model_copy(update={"scheduler": "fcfs+conservative"}), prepare(scenario))


# Figures.


def outcomes(**changes) -> Outcomes:
    jobs = JobTable.build(
        submit_us=[0, 0, 10 * US], run_us=[10 * US, 5 * US, 100 * US], nodes=[1, 1, 1], number=[7, 8, 9]
    )
    columns = {
        "jobs": jobs,
        "cores": np.array([1, 1, 200]),
        "start_us": np.array([0, 5, 10]) * US,
        "end_us": np.array([20, 15, 210]) * US,
        "is_responsive": np.array([True, True, False]),
    }
    return Outcomes(**columns | changes)


def test_the_slowdown_divides_by_the_run_time_alone():
    assert outcomes().slowdown.tolist() == [2.0, 3.0, 2.0]


def test_figures_by_class_and_of_jobs_that_are_followed():
    row = figures(outcomes(), follow=[8, 77])
    assert (row["max_wait_s_responsive"], row["max_wait_s_normal"], row["waiting_responsive"]) == (
        5.0,
        0.0,
        1,
    )
    assert (row["max_slowdown_responsive"], row["slowdown_at_most_2"]) == (3.0, 2 / 3)
    assert (row["job_8_wait_s"], row["job_8_run_s"], row["job_8_slowdown"]) == (5.0, 10.0, 3.0)
    assert not any(name.startswith("job_77") for name in row)
    assert json.loads(row["heat"])[0][0] == [2.0, 2.5]


def test_completion_counts_jobs_as_table_4_does():
    """The 49,278th of 51,871 jobs for 95 %."""
    assert completion_us(np.arange(1, 51_872), 0.95) == 49_278


def test_the_heat_map_has_jobs_and_means_by_size_and_length():
    table = np.array(heat(outcomes()))
    assert table[..., 0].sum() == 3
    assert table[5, 1].tolist() == [1.0, 2.0]


# Workloads.


def test_cores_are_spread_evenly_over_the_fewest_nodes():
    log = SwfLog.build(
        4, number=[1, 2, 3, 4], submit_s=[5, 6, 7, 8], run_s=[10, -1, -1, 0], cpu_s=[1, 3, -1, 4],
        allocated_procs=[200, 12, 1, 25], requested_s=[5, 9, 9, 9], queue=[1, 1, 1, 0],
    )  # fmt: skip
    jobs = CoreJobs(trace="x", cores=12).of(log)
    assert jobs.number.tolist() == [1, 2, 4]
    assert (jobs.nodes.tolist(), jobs.column("cores").tolist()) == ([17, 1, 3], [12, 12, 9])
    assert (jobs.run_us // US).tolist() == [10, 3, 1]
    assert (jobs.estimate_us // US).tolist() == [10, 9, 9]
    assert CoreJobs(trace="x", cores=12, widest_responsive=12).of(log).number.tolist() == [1, 2]


def test_gpus_of_a_log_are_spread_over_the_nodes_of_a_job_if_it_has_some():
    log = SwfLog.build(
        3, number=[1, 2, 3], submit_s=[5, 6, 7], run_s=[10, 20, 30], allocated_procs=[24, 2, 1]
    )
    with pytest.raises(ValueError, match="core_jobs: gpus is true or false, not 'used'"):
        CoreJobs(trace="x", cores=12, gpus="used")
    with pytest.raises(ValueError, match=r"core_jobs: gpus: .* says nothing of GPUs; leave it out"):
        CoreJobs(trace="x", cores=12, gpus=True).of(log)
    said = replace(log, header=(f"; {GPUS_KEY}: 19",), columns=(*log.columns, np.array([3, 1, -1])))
    assert CoreJobs(trace="x", cores=12, gpus=True).of(said).column("gpus").tolist() == [2, 1, 0]
    assert CoreJobs(trace="x", cores=12).of(said).column("gpus").tolist() == [-1, -1, -1]


def test_the_jobs_of_table_1_are_found():
    trace = str(TRACES / "UniLu-Gaia-2014-1.swf.xz")
    jobs = CoreJobs(trace=trace, cores=12, widest_responsive=12).generate(np.random.default_rng(0), nodes=150)
    hrr = jobs.queue == 0
    procs = jobs.nodes * jobs.column("cores")
    assert (len(jobs), int(hrr.sum()), len(np.unique(jobs.user))) == (51_871, 1_762, 82)
    assert (int(procs.max()), int(procs[hrr].max())) == (516, 12)
    assert (int(jobs.run_us.max()) // US, int(jobs.run_us[hrr].max()) // US) == (1_800_012, 43_507)


@pytest.mark.parametrize(("site", "nodes", "jobs", "hrr", "widest"), [
    ("unilu", 150, 51_871, 1_762, 516), ("kit", 1152, 114_347, 2_349, 22_960),
])  # fmt: skip
def test_stand_ins_have_the_printed_figures(site, nodes, jobs, hrr, widest):
    table = CoreJobsLike(site).generate(np.random.default_rng(1), nodes=nodes)
    assert (len(table), int((table.queue == 0).sum())) == (jobs, hrr)
    assert int((table.nodes * table.column("cores")).max()) <= widest


@pytest.mark.parametrize(
    ("multiplicity", "gpus", "gpu_multiplicity"), [(3, 0, 1), (2, 0, 5), (1, 1, 3), (3, 2, 3), (4, 2, 1)]
)
def test_a_job_has_a_slot_of_each_core_and_gpu_it_uses(multiplicity, gpus, gpu_multiplicity):
    mechanism = Oversubscribe(
        cores=4, multiplicity=multiplicity, gpus=gpus, gpu_multiplicity=gpu_multiplicity
    )
    jobs = some_jobs()
    if gpus:
        jobs = jobs.with_extra(gpus=np.arange(len(jobs)) % (gpus + 1))
    record = run(mechanism, jobs)
    assert_lawful(record)
    most = {"c": multiplicity, "g": gpu_multiplicity}
    for row, job in enumerate(record.runs.job):
        slots = record.runs.node[record.runs.first[row] : record.runs.first[row + 1]]
        names = [record.node_names[slot] for slot in slots]
        units = {name.rpartition(".")[0] for name in names}
        assert len(units) == len(names)  # one slot of a core or GPU is enough
        assert all(int(name.rpartition(".")[2]) <= most[name.partition("/")[2][0]] for name in names)
        for node in {name.partition("/")[0] for name in names}:
            kinds = [unit.partition("/")[2][0] for unit in units if unit.startswith(f"{node}/")]
            assert kinds.count("c") == jobs.extra["cores"][job]
            assert kinds.count("g") == (jobs.extra["gpus"][job] if gpus else 0)


def test_runs_of_parts_are_theirs_in_order_of_start_on_slots_behind_each_other():
    mechanism, jobs = MECHANISMS["dedicated"], some_jobs()
    machine = mechanism.make_machine(8, EASY, jobs, 1)
    machine.advance(NEVER_US)
    rows = []
    before = 0
    for part in machine._parts:
        table = part.cluster.run_table()
        lists = np.split(table.node, table.first[1:-1])
        rows += [
            (start_us, part.rows[job], [before + slot for slot in slots.tolist()])
            for start_us, job, slots in zip(table.start_us, table.job, lists, strict=True)
        ]
        before += part.cluster.node_count
    rows.sort(key=lambda row: row[0])
    whole = machine.run_table()
    lists = np.split(whole.node, whole.first[1:-1])
    assert (whole.node.dtype, whole.first.dtype) == (np.int32, np.int64)
    assert rows == [
        (start_us, job, slots.tolist())
        for start_us, job, slots in zip(whole.start_us, whole.job, lists, strict=True)
    ]
