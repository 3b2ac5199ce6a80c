"""Jobs that share nodes: equal to the slow reference job by job, laws, and each rule by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.harness.decisions import default_node_names
from emulator.harness.features import TOO_FEW, Feature
from emulator.harness.laws import assert_lawful, check
from emulator.harness.loop import Loop
from emulator.harness.node_kinds import NodeKind
from emulator.harness.run import simulate
from emulator.harness.shared_cluster import SharedNodesCluster
from emulator.harness.shared_nodes import TOO_MUCH, SharedNodes
from emulator.metrics import summarize
from emulator.report.exports import accasim
from emulator.runner import check_live, prepare, run_virtual
from emulator.scenario import Scenario, ScenarioError, from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.sweeps.execute import execute
from emulator.workload.requests import NO_MEMORY
from emulator.workload.table import JobTable
from gates import GATE
from oracle.reference import BACKFILLS, Job, Options
from oracle.shared_nodes import Part, Request, SharedMachine
from oracle.workloads import ESTIMATES, job_table, random_workload

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.harness.record import RunRecord

_ORDERS = ("fcfs", "sjf", "wfp3")


def record_of(jobs: JobTable, nodes: int, shared: SharedNodes, scheduler: SchedulerConfig) -> RunRecord:
    """Of a run; its scenario says what the nodes have, so that the laws look at it."""
    cluster = SharedNodesCluster(nodes, scheduler, jobs, shared)
    loop = Loop(cluster, node_names=cluster.node_names)
    loop.run()
    part = {
        "cores": shared.cores,
        "memory_gib": None if shared.memory_kib is None else shared.memory_kib / 1024**2,
        "gpus": shared.gpus,
    }
    return replace(loop.record(), scenario={"shared_nodes": part})


def schedule_of(record: RunRecord) -> dict[int, tuple[int, int]]:
    numbers = record.jobs.number.tolist()
    return dict(zip(numbers, zip(record.start_us.tolist(), record.end_us.tolist(), strict=True), strict=True))


def nodes_of(record: RunRecord, cores: int | list[int]) -> dict[int, tuple[int, ...]]:
    """The nodes of each job's one run, by its number; `cores`: of each node, or the node of each core."""
    runs = record.runs
    return {
        int(record.jobs.number[job]): tuple(
            sorted(
                {
                    core // cores if isinstance(cores, int) else cores[core]
                    for core in runs.node[runs.first[row] : runs.first[row + 1]].tolist()
                }
            )
        )
        for row, job in enumerate(runs.job.tolist())
    }


def random_case(
    rng: np.random.Generator, estimates: str | None = None
) -> tuple[list[Job], dict[int, Request], int, Part]:
    """A few small nodes, and jobs that share them or want them whole; often memory, sometimes GPUs."""
    nodes = int(rng.integers(1, 7))
    room = Part(int(rng.integers(1, 7)), int(rng.choice((0, 8, 9))), int(rng.choice((0, 0, 3))))
    drawn, _ = random_workload(rng, estimates=estimates, jobs=30, nodes=nodes)
    jobs, requests = [], {}
    for job in drawn:
        part = Part(
            *(
                int(rng.integers(min(least, most), most + 1))
                for least, most in zip((1, 0, 0), room, strict=True)
            )
        )
        part = room if rng.random() < 0.1 else part
        width = min(job.nodes, nodes) if rng.random() < 0.5 else 1
        requests[job.number] = Request(width, part)
        jobs.append(job._replace(nodes=width * part.cores))
    return jobs, requests, nodes, room


def table_of(jobs: list[Job], requests: dict[int, Request]) -> JobTable:
    table = job_table(jobs)
    asked = [requests[number] for number in table.number.tolist()]
    return replace(table, nodes=np.array([each.nodes for each in asked], np.int32)).with_extra(
        cores=np.array([each.part.cores for each in asked]),
        memory_kib=np.array([each.part.memory for each in asked]),
        gpus=np.array([each.part.gpus for each in asked]),
    )


def shared_of(room: Part, *, best_fit: bool = False) -> SharedNodes:
    return SharedNodes(room.cores, room.memory or None, room.gpus or None, best_fit)


def compare(rng: np.random.Generator, order: str, backfill: str) -> None:
    jobs, requests, nodes, room = random_case(rng, estimates=str(rng.choice(ESTIMATES)))
    best_fit = bool(rng.random() < 0.5)
    cycle_s = float(rng.choice([0, 0, 0, 7]))
    config = SchedulerConfig(order=order, backfill=backfill, cycle_s=cycle_s)  # type: ignore[arg-type]
    record = record_of(table_of(jobs, requests), nodes, shared_of(room, best_fit=best_fit), config)
    oracle = SharedMachine(
        jobs, requests, nodes, room, order, backfill, Options(cycle_s=cycle_s), best_fit=best_fit
    )
    assert schedule_of(record) == oracle.run()
    assert nodes_of(record, room.cores) == oracle.got
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_that_share_nodes_start_when_and_where_the_reference_says(order: str, backfill: str) -> None:
    rng = np.random.default_rng([41, *f"{order}+{backfill}".encode()])
    for _ in range(25):
        compare(rng, order, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_hundreds_of_workloads_on_shared_nodes_run_like_the_reference(order: str, backfill: str) -> None:
    rng = np.random.default_rng([42, *f"{order}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads // 8):
        compare(rng, order, backfill)


# Nodes of several kinds, of which jobs may have some.


def random_kinds(
    rng: np.random.Generator, estimates: str
) -> tuple[list[Job], dict[int, Request], list[Part], SharedNodes, JobTable]:
    """Up to seven nodes of up to three kinds, two features, and jobs for whom there is enough of them.

    Jobs with whole nodes have those of the smallest kind of which there are enough for them.
    """
    nodes = int(rng.integers(1, 8))
    memory, gpus = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    sizes = [
        Part(int(rng.integers(1, 7)), 9 * memory + int(rng.integers(4)) * memory, int(rng.integers(4)) * gpus)
        for _ in range(int(rng.integers(1, 4)))
    ]
    of = rng.integers(len(sizes), size=nodes).tolist()
    kinds = [
        NodeKind(
            f"k{which}",
            frozenset(node for node in range(nodes) if of[node] == which),
            size.cores,
            size.memory if memory else None,
            size.gpus if gpus else None,
        )
        for which, size in enumerate(sizes)
        if which in of
    ]
    kinds.sort(key=lambda kind: (*kind.room, kind.name))
    drawn, _ = random_workload(rng, estimates=estimates, jobs=30, nodes=nodes)
    asks = {
        name: (
            frozenset(np.flatnonzero(rng.random(nodes) < 0.6).tolist()),
            frozenset(job.number for job in drawn if rng.random() < 0.3),
        )
        for name in ("a", "b")
    }
    rows: dict[int, tuple[int, int, int, int, int]] = {}
    jobs, requests = [], {}
    for job in drawn:
        may = frozenset(range(nodes)).intersection(
            *(having for having, asking in asks.values() if job.number in asking)
        )
        size = sizes[int(rng.integers(len(sizes)))]
        least = (min(1, size.cores), 0, 0)
        part = Part(*(int(rng.integers(low, most + 1)) for low, most in zip(least, size, strict=True)))
        width = min(job.nodes, nodes) if rng.random() < 0.5 else 1
        exclusive = bool(rng.random() < 0.2)
        rows[job.number] = width, part.cores, part.memory, part.gpus, exclusive
        holding = [node for node in sorted(may) if sizes[of[node]].holds(part)]
        if exclusive:
            enough = [kind for kind in kinds if len(kind.nodes & set(holding)) >= width]
            if not enough:
                continue
            part, holding = Part(*enough[0].room), sorted(enough[0].nodes & set(holding))
        if len(holding) >= width:
            requests[job.number] = Request(width, part, frozenset(holding) if exclusive else may)
            jobs.append(job._replace(nodes=width * part.cores))
    features = tuple(Feature(name, having, jobs=asking) for name, (having, asking) in sorted(asks.items()))
    shared = SharedNodes(
        kinds[0].cores, kinds[0].memory_kib, kinds[0].gpus, kinds=tuple(kinds), features=features
    )
    table = job_table(drawn)
    columns = np.array([rows[number] for number in table.number.tolist()], np.int64).T
    table = replace(table, nodes=columns[0].astype(np.int32)).with_extra(
        cores=columns[1], memory_kib=columns[2], gpus=columns[3], exclusive=columns[4]
    )
    return jobs, requests, [sizes[which] for which in of], shared, table


def record_of_kinds(
    jobs: JobTable, nodes: int, shared: SharedNodes, scheduler: SchedulerConfig
) -> tuple[RunRecord, JobTable]:
    """As `record_of`, of the jobs for whom there are enough nodes; and these."""
    wrong = np.logical_or.reduce(list(shared.asked(jobs, nodes).left_out(jobs).values()))
    jobs = jobs.take(~wrong)
    cluster = SharedNodesCluster(nodes, scheduler, jobs, shared)
    loop = Loop(cluster, node_names=cluster.node_names)
    loop.run()
    names = default_node_names(nodes)
    kinds = {
        kind.name: {
            "nodes": ",".join(names[node] for node in sorted(kind.nodes)),
            "cores": kind.cores,
            "memory_gib": None if kind.memory_kib is None else kind.memory_kib / 1024**2,
            "gpus": kind.gpus,
        }
        for kind in shared.kinds
    }
    features = {
        each.name: {
            "nodes": ",".join(names[node] for node in sorted(each.nodes)),
            "jobs": sorted(each.jobs),
        }
        for each in shared.features
        if each.nodes
    }
    scenario = {"shared_nodes": {"kinds": kinds}, "features": features}
    return replace(loop.record(), scenario=scenario), jobs


def compare_kinds(rng: np.random.Generator, order: str, backfill: str) -> None:
    jobs, requests, rooms, shared, table = random_kinds(rng, str(rng.choice(ESTIMATES)))
    shared = replace(shared, best_fit=bool(rng.random() < 0.5))
    config = SchedulerConfig(order=order, backfill=backfill)  # type: ignore[arg-type]
    record, known = record_of_kinds(table, len(rooms), shared, config)
    assert sorted(known.number.tolist()) == sorted(requests)
    oracle = SharedMachine(
        jobs, requests, len(rooms), rooms, order, backfill, Options(), best_fit=shared.best_fit
    )
    assert schedule_of(record) == oracle.run()
    node_of_core = shared.node_of_core(len(rooms)).tolist()
    assert nodes_of(record, node_of_core) == oracle.got
    assert_lawful(record, jobs_in=len(known))


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_on_nodes_of_several_kinds_start_when_and_where_the_reference_says(
    order: str, backfill: str
) -> None:
    rng = np.random.default_rng([47, *f"{order}+{backfill}".encode()])
    for _ in range(25):
        compare_kinds(rng, order, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_hundreds_of_workloads_on_nodes_of_several_kinds_run_like_the_reference(
    order: str, backfill: str
) -> None:
    rng = np.random.default_rng([48, *f"{order}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads // 8):
        compare_kinds(rng, order, backfill)


# Laws.


@pytest.mark.parametrize("best_fit", [False, True])
def test_no_head_starts_later_than_it_was_first_planned(best_fit: bool) -> None:
    """First come, first served, and nobody runs longer than estimated: EASY keeps what it promised."""
    rng = np.random.default_rng(43)
    promises = 0
    for _ in range(60):
        jobs, requests, nodes, room = random_case(rng, "mixed")
        oracle = SharedMachine(jobs, requests, nodes, room, "fcfs", "easy", Options(), best_fit=best_fit)
        oracle.run()
        shared = shared_of(room, best_fit=best_fit)
        starts = schedule_of(record_of(table_of(jobs, requests), nodes, shared, SchedulerConfig()))
        late = {job: at for job, at in oracle.promised.items() if starts[job][0] > at}
        assert not late
        promises += len(oracle.promised)
    assert promises > 100


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_nodes_of_one_core_run_every_job_as_whole_nodes_do(backfill: str) -> None:
    rng = np.random.default_rng([44, *backfill.encode()])
    config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
    for _ in range(20):
        jobs, nodes = random_workload(rng, estimates="mixed")
        table = job_table(jobs)
        shared = record_of(table.with_extra(cores=np.ones(len(table))), nodes, SharedNodes(1), config)
        assert schedule_of(shared) == schedule_of(simulate(table, nodes, config))


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_jobs_that_all_want_whole_nodes_run_as_on_whole_nodes(backfill: str) -> None:
    """One has no column of cores, others say `exclusive`, or want all cores."""
    rng = np.random.default_rng([45, *backfill.encode()])
    config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
    for _ in range(20):
        jobs, nodes = random_workload(rng, estimates="mixed")
        table = job_table(jobs)
        cores = rng.choice([-1, 2, 8], len(table))
        asked = table.with_extra(cores=cores, exclusive=(cores == 2).astype(np.int64))
        record = record_of(asked, nodes, SharedNodes(8, memory_kib=100, gpus=2), config)
        assert schedule_of(record) == schedule_of(simulate(table, nodes, config))
        assert (record.jobs.nodes == table.nodes * 8).all()


def test_node_time_of_cores_adds_up() -> None:
    rng = np.random.default_rng(46)
    jobs, requests, nodes, room = random_case(rng, "mixed")
    record = record_of(table_of(jobs, requests), nodes, shared_of(room), SchedulerConfig())
    spent_us = sum(requests[job.number].nodes * requests[job.number].part.cores * job.run_us for job in jobs)
    assert summarize(record)["node_time_us"]["OA_BUSY"] == spent_us


# By hand: nodes of four cores and 8 KiB, jobs of ten seconds; times in seconds.

_FOUR = SharedNodes(4, memory_kib=8)


def by_hand(
    asked: list[tuple[int, int, int]],
    nodes: int = 1,
    *,
    scheduler: str = "fcfs+easy",
    shared: SharedNodes = _FOUR,
    run_s: list[int] | None = None,
    **columns: Any,
) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """Start, and nodes, of each job of (nodes, cores, memory)."""
    jobs = JobTable.build(
        submit_us=[0] * len(asked),
        run_us=[each * US for each in run_s or [10] * len(asked)],
        nodes=[each[0] for each in asked],
        extra={"cores": [each[1] for each in asked], "memory_kib": [each[2] for each in asked]},
        **columns,
    )
    record = record_of(jobs, nodes, shared, SchedulerConfig.parse(scheduler))
    assert_lawful(record)
    starts = {number: start // US for number, (start, _) in schedule_of(record).items()}
    return starts, nodes_of(record, shared.cores)


def test_jobs_share_a_node_as_long_as_its_cores_last() -> None:
    starts, _ = by_hand([(1, 2, 1), (1, 2, 1), (1, 1, 1)])
    assert starts == {1: 0, 2: 0, 3: 10}


def test_and_as_long_as_its_memory_lasts() -> None:
    starts, _ = by_hand([(1, 1, 5), (1, 1, 5), (1, 1, 3)])
    assert starts == {1: 0, 2: 10, 3: 0}


def test_and_as_long_as_its_gpus_last() -> None:
    shared = SharedNodes(4, gpus=2)
    jobs = JobTable.build(
        submit_us=[0, 0, 0], run_us=[10 * US] * 3, nodes=[1] * 3, extra={"cores": 1, "gpus": [2, 1, 0]}
    )
    starts = schedule_of(record_of(jobs, 1, shared, SchedulerConfig()))
    assert [start // US for start, _ in starts.values()] == [0, 10, 0]


def test_memory_that_nobody_looks_at_holds_up_nobody() -> None:
    starts, _ = by_hand([(1, 1, 5), (1, 1, 5)], shared=SharedNodes(4))
    assert starts == {1: 0, 2: 0}


def test_first_fit_takes_the_lowest_node_and_best_fit_the_fullest_that_has_room() -> None:
    asked = [(1, 2, 0), (1, 3, 0), (1, 1, 0)]
    _, first = by_hand(asked, 2)
    _, best = by_hand(asked, 2, shared=replace(_FOUR, best_fit=True))
    assert (first[3], best[3]) == ((0,), (1,))


def test_an_exclusive_queue_has_whole_nodes() -> None:
    shared = replace(_FOUR, exclusive_queues=(7,))
    starts, nodes = by_hand([(1, 1, 1), (1, 1, 1), (1, 1, 1)], 2, shared=shared, queue=[1, 7, 1])
    assert starts == {1: 0, 2: 0, 3: 0}
    assert nodes == {1: (0,), 2: (1,), 3: (0,)}


def test_a_job_that_runs_past_the_heads_start_takes_no_room_that_the_head_needs() -> None:
    """The head wants both nodes' four cores at 10 s; a job of 20 s would have one of the free cores until then."""
    asked = [(1, 2, 0), (2, 4, 0), (1, 1, 0), (1, 1, 0)]
    starts, _ = by_hand(asked, 2, run_s=[10, 10, 20, 10])
    assert starts == {1: 0, 2: 10, 3: 20, 4: 0}


def test_it_has_what_the_head_leaves_of_a_node() -> None:
    """The head wants two cores of the node at 10 s: a core for longer is left, and no second one."""
    asked = [(1, 3, 0), (1, 3, 0), (1, 1, 0), (1, 1, 0)]
    starts, _ = by_hand(asked, 1, run_s=[10, 10, 20, 20])
    assert starts == {1: 0, 2: 10, 3: 0, 4: 20}


def test_it_has_another_node_where_that_is_the_one_that_the_head_can_do_without() -> None:
    """Node 0 will be the head's, and has room now; node 1 has some, too, and never enough for the head."""
    asked = [(1, 2, 0), (1, 3, 0), (1, 4, 0), (1, 1, 0)]
    starts, nodes = by_hand(asked, 2, run_s=[10, 30, 10, 20])
    assert starts == {1: 0, 2: 0, 3: 10, 4: 0}
    assert nodes[4] == (1,)


def test_without_backfilling_nobody_passes_the_head() -> None:
    starts, _ = by_hand([(1, 3, 0), (1, 3, 0), (1, 1, 0)], scheduler="fcfs+none")
    assert starts == {1: 0, 2: 10, 3: 10}


def test_conservative_plans_keep_what_easy_gives_away() -> None:
    """Job 4 would delay job 3, which is not the head."""
    asked = [(1, 3, 0), (1, 2, 0), (1, 4, 0), (1, 1, 0)]
    easy, _ = by_hand(asked, run_s=[10, 10, 10, 30])
    conservative, _ = by_hand(asked, run_s=[10, 10, 10, 30], scheduler="fcfs+conservative")
    assert easy == {1: 0, 2: 10, 3: 30, 4: 0}
    assert conservative == {1: 0, 2: 10, 3: 20, 4: 30}


# From a log, and in results.

_LOG = """; MaxNodes: 4
; MaxProcs: 16
; GpusColumn: 19
1 0 -1 10 6 -1 1024 6 10 2048 1 -1 -1 -1 1 -1 -1 -1 3
2 0 -1 10 3 -1 1024 3 10 2048 1 -1 -1 -1 1 -1 -1 -1 0
3 0 -1 10 1 -1 -1 1 10 -1 1 -1 -1 -1 7 -1 -1 -1 -1
4 0 -1 10 1 -1 1024 1 10 9216 1 -1 -1 -1 1 -1 -1 -1 0
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(_LOG)
    return path


def scenario_of(log: Path, **keys: Any) -> Scenario:
    shared = {"cores": 4, "memory_gib": 8 / 1024, "gpus": 2} | keys.pop("shared_nodes", {})
    return from_mapping({"workload": {"trace": str(log)}, "shared_nodes": shared} | keys)


def test_processors_memory_and_gpus_of_a_log_are_spread_over_the_fewest_nodes(log: Path) -> None:
    prepared = prepare(scenario_of(log))
    jobs = prepared.jobs
    assert prepared.nodes == 4
    assert {name: jobs.column(name).tolist() for name in ("cores", "memory_kib", "gpus")} == {
        "cores": [3, 3, 1],
        "memory_kib": [6 * 1024, 6 * 1024, 0],
        "gpus": [2, 0, 0],
    }
    assert jobs.nodes.tolist() == [2, 1, 1]
    assert prepared.left_out == {TOO_MUCH: 1}
    assert prepared.counted == {NO_MEMORY: 1}


def test_the_memory_of_a_job_may_be_what_it_used(log: Path) -> None:
    jobs = prepare(scenario_of(log, shared_nodes={"job_memory": "used"})).jobs
    assert jobs.column("memory_kib").tolist() == [3 * 1024, 3 * 1024, 0, 1024]


def test_a_job_that_had_all_memory_of_a_node_fits_though_its_log_rounds_it_for_each_processor(
    tmp_path: Path,
) -> None:
    rows = [
        f"{job}|{job}|{job}|60|1|{cpus}|COMPLETED|cpu={cpus},mem={memory}G,gres/gpu=1"
        for job, cpus, memory in ((1, 24, 64), (2, 12, 32), (3, 12, 32))
    ]
    path = tmp_path / "sacct.txt"
    path.write_text(
        "\n".join(["JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|AllocTRES", *rows]) + "\n"
    )
    shared = {"cores": 24, "memory_gib": 64, "gpus": 2}
    scenario = from_mapping({"nodes": 1, "workload": {"trace": str(path)}, "shared_nodes": shared})
    prepared = prepare(scenario)
    assert (prepared.left_out, prepared.jobs.column("gpus").tolist()) == ({}, [1, 1, 1])
    assert run_virtual(scenario, prepared).start_us.tolist() == [0, 60 * US, 60 * US]


def test_figures_are_of_cores_and_of_what_else_is_looked_at(log: Path) -> None:
    """Job 1 has half of two nodes and more, job 2 three cores of a third, job 3 the fourth one whole."""
    scenario = scenario_of(log, shared_nodes={"exclusive": {"queues": [7]}})
    record = run_virtual(scenario, prepare(scenario))
    assert_lawful(record)
    summary = summarize(record)
    assert (summary["nodes"], summary["utilization"]) == (16, 13 / 16)
    assert summary["shared_nodes"] == {
        "nodes": 4,
        "cores": 4,
        "memory_utilization": (12 + 6 + 8) / 32,
        "gpu_utilization": (4 + 2) / 8,
        "node_utilization": 1.0,
        "jobs_per_busy_node": 1.0,
    }
    assert record.jobs.column("whole_nodes").tolist() == [2, 1, 1]
    assert (record.node_names[0], record.node_names[-1]) == ("n001/c00", "n004/c03")


def test_another_programs_plan_has_nodes_with_their_cores(log: Path) -> None:
    scenario = scenario_of(log)
    lines = accasim(run_virtual(scenario, prepare(scenario)))[""].splitlines()
    assert [line.split("__")[1] for line in lines] == ["1;3#2;3#", "3;3#", "1;1#"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"memory_gib": 5 / 1024}, "6144 KiB of memory of node n001 are in use at 0 s, it has 5120"),
        ({"gpus": 1}, "2 GPUs of node n001 are in use at 0 s, it has 1"),
        ({"cores": 2}, "job 1 has not as many cores of each of its nodes as it asked for"),
        ({"cores": 8}, "job 1 has not as many nodes as it asked for"),
    ],
)
def test_a_record_of_nodes_that_have_less_is_a_breach(log: Path, change: dict[str, Any], said: str) -> None:
    scenario = scenario_of(log)
    record = run_virtual(scenario, prepare(scenario))
    assert not check(record)
    part: Any = record.scenario["shared_nodes"]
    other = replace(record, scenario=record.scenario | {"shared_nodes": part | change})
    assert f"no_shared_node_is_overbooked: {said}" in [str(each) for each in check(other)]


def test_a_scenario_without_shared_nodes_is_stored_as_before(log: Path) -> None:
    plain = from_mapping({"workload": {"trace": str(log)}})
    assert "shared_nodes" not in plain.as_json()
    stored = scenario_of(log)
    assert from_mapping(stored.as_json()) == stored


def test_a_sweep_runs_the_jobs_that_a_run_does(log: Path) -> None:
    scenario = scenario_of(log)
    row = execute(json.dumps(scenario.as_json()))
    assert (row["jobs_run"], row["shared_nodes.nodes"]) == (3, 4)


def test_a_sweep_leaves_out_the_jobs_that_a_partition_does(log: Path) -> None:
    document = {"workload": {"trace": str(log)}, "partitions": {"all": {"default": True, "max_nodes": 3}}}
    assert execute(json.dumps(from_mapping(document).as_json()))["jobs_run"] == 3


# Nodes of several kinds, by hand: two of two cores and 4 MiB, one of four cores, 16 MiB and two GPUs.

_KINDS: dict[str, Any] = {
    "thin": {"nodes": "n[001-002]", "cores": 2, "memory_gib": 4 / 1024},
    "fat": {"nodes": "n003", "cores": 4, "memory_gib": 16 / 1024, "gpus": 2},
}


def on_kinds(
    tmp_path: Path, asked: list[tuple[int, int, int, int]], run_s: int = 10, **keys: Any
) -> tuple[dict[int, tuple[float, set[str]]], RunRecord, dict[str, int]]:
    """Of jobs of (nodes, cores, MiB, GPUs), all submitted at 0, of users 1, 2, ...: start (s) and names of nodes."""
    columns = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|UID|AllocTRES"
    rows = [
        f"{job}|0|0|{run_s}|{nodes}|{nodes * cores}|COMPLETED|{job}|"
        f"cpu={nodes * cores},mem={nodes * mib}M,gres/gpu={nodes * gpus}"
        for job, (nodes, cores, mib, gpus) in enumerate(asked, 1)
    ]
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([columns, *rows]) + "\n")
    shared = {"kinds": _KINDS} | keys.pop("shared_nodes", {})
    document = {"nodes": 3, "workload": {"trace": str(path)}, "shared_nodes": shared}
    scenario = from_mapping(document | keys)
    prepared = prepare(scenario)
    record = run_virtual(scenario, prepared)
    assert not check(record)
    runs = record.runs
    found = {
        int(record.jobs.number[job]): (
            int(runs.start_us[row]) / US,
            {
                record.node_names[core].split("/")[0]
                for core in runs.node[runs.first[row] : runs.first[row + 1]]
            },
        )
        for row, job in enumerate(runs.job.tolist())
    }
    return found, record, prepared.left_out


def test_a_job_has_nodes_of_any_kind_that_have_what_it_wants(tmp_path: Path) -> None:
    found, record, _ = on_kinds(
        tmp_path, [(1, 4, 1, 0), (1, 2, 1, 0), (1, 1, 5, 0), (1, 1, 1, 2), (2, 2, 1, 0)]
    )
    assert found == {
        1: (0, {"n003"}),  # only there are four cores
        2: (0, {"n001"}),
        3: (10, {"n003"}),  # nor are 5 MiB elsewhere
        4: (10, {"n003"}),  # nor GPUs
        5: (10, {"n001", "n002"}),
    }
    assert record.node_names == (
        "n001/c00",
        "n001/c01",
        "n002/c00",
        "n002/c01",
        *(f"n003/c0{k}" for k in range(4)),
    )
    assert summarize(record)["shared_nodes"] == {
        "nodes": 3,
        "memory_utilization": pytest.approx((1 + 1 + 5 + 1 + 2) / 48),
        "gpu_utilization": 2 / 4,
        "kinds": {
            "fat": {"nodes": 1, "cores": 4, "utilization": 6 / 8},
            "thin": {"nodes": 2, "cores": 2, "utilization": 6 / 8},
        },
        "node_utilization": pytest.approx(5 / 6),
        "jobs_per_busy_node": pytest.approx(6 / 5),
    }
    assert [line.split("__")[1] for line in accasim(record)[""].splitlines()[:2]] == ["3;4#", "1;2#"]


def test_jobs_ask_for_nodes_by_features(tmp_path: Path) -> None:
    asked = [(1, 1, 1, 0)] * 4
    features = {"fast": {"nodes": "n002", "users": [1, 2, 3]}}
    found, record, _ = on_kinds(tmp_path, asked, features=features)
    assert found == {1: (0, {"n002"}), 2: (0, {"n002"}), 3: (10, {"n002"}), 4: (0, {"n001"})}
    other = replace(
        record, scenario=record.scenario | {"features": {"fast": {"nodes": "n001", "users": [1]}}}
    )
    assert [str(each) for each in check(other)] == [
        "jobs_have_what_they_ask_for: job 1 (from 0 s) asks for fast and has nodes without it"
    ]


def test_features_go_with_nodes_of_one_kind_too(tmp_path: Path) -> None:
    shared = {"kinds": {}, "cores": 2}
    features = {"fast": {"nodes": "n002", "users": [1, 2]}}
    found, _, left_out = on_kinds(
        tmp_path, [(1, 1, 1, 0), (2, 1, 1, 0), (2, 1, 1, 0)], shared_nodes=shared, features=features
    )
    assert found == {1: (0, {"n002"}), 3: (0, {"n001", "n002"})}
    assert left_out == {TOO_FEW: 1}


def test_a_job_with_whole_nodes_has_those_of_the_smallest_kind_with_enough_of_them(tmp_path: Path) -> None:
    shared = {"exclusive": {"users": [1, 2, 3]}}
    found, record, left_out = on_kinds(
        tmp_path, [(1, 1, 1, 0), (1, 3, 1, 0), (3, 1, 1, 0), (2, 1, 1, 0)], shared_nodes=shared
    )
    assert found == {1: (0, {"n001"}), 2: (0, {"n003"}), 4: (10, {"n001", "n002"})}
    assert record.jobs.column("cores").tolist() == [2, 4, 1]
    assert left_out == {TOO_FEW: 1}  # there are three nodes, of two kinds


def test_jobs_that_no_kind_can_hold_are_left_out_and_counted(tmp_path: Path) -> None:
    found, _, left_out = on_kinds(
        tmp_path, [(1, 5, 1, 0), (1, 4, 17, 0), (1, 1, 1, 3), (2, 3, 1, 0), (3, 2, 4, 0)]
    )
    assert found == {5: (0, {"n001", "n002", "n003"})}
    assert left_out == {TOO_MUCH: 3, TOO_FEW: 1}


def test_processors_of_a_log_are_put_on_nodes_of_the_smallest_kind_unless_it_is_said(log: Path) -> None:
    kinds = {"a": {"nodes": "n[001-002]", "cores": 3}, "b": {"nodes": "n[003-004]", "cores": 6}}
    shared = {"kinds": kinds, "cores": None, "memory_gib": None, "gpus": None}
    jobs = prepare(scenario_of(log, shared_nodes=shared)).jobs
    assert list(zip(jobs.nodes.tolist(), jobs.column("cores").tolist(), strict=True)) == [
        (2, 3),
        (1, 3),
        (1, 1),
        (1, 1),
    ]
    whole = prepare(
        scenario_of(log, shared_nodes=shared, workload={"trace": str(log), "procs_per_node": 6})
    ).jobs
    assert list(zip(whole.nodes.tolist(), whole.column("cores").tolist(), strict=True)) == [
        (1, 6),
        (1, 3),
        (1, 1),
        (1, 1),
    ]


def test_one_kind_of_all_nodes_runs_as_if_there_were_no_kinds(log: Path) -> None:
    plain = scenario_of(log)
    kinds = {"all": {"nodes": "ALL", "cores": 4, "memory_gib": 8 / 1024, "gpus": 2}}
    named = scenario_of(log, shared_nodes={"kinds": kinds, "cores": None, "memory_gib": None, "gpus": None})
    records = [run_virtual(each, prepare(each)) for each in (plain, named)]
    assert schedule_of(records[0]) == schedule_of(records[1])
    assert nodes_of(records[0], 4) == nodes_of(records[1], 4)
    assert records[0].node_names == records[1].node_names


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"thin": _KINDS["thin"]}, "shared_nodes.kinds: node n003 is of no kind"),
        (
            _KINDS | {"other": {"nodes": "n[002-003]", "cores": 1, "memory_gib": 1}},
            "node n003 is of fat and of other",
        ),
        (_KINDS | {"fat": {"nodes": "n003", "cores": 4}}, "fat has no memory_gib, and others have"),
        (
            _KINDS | {"fat": {"nodes": "n004", "cores": 4, "memory_gib": 1}},
            "kinds.fat: there is no node n004",
        ),
    ],
)
def test_kinds_that_are_wrong_are_told(tmp_path: Path, kinds: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        on_kinds(tmp_path, [(1, 1, 1, 0)], shared_nodes={"kinds": kinds})


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cores": 2, "kinds": _KINDS}, "give `cores`, if all nodes have as many, or `kinds`"),
        ({}, "give `cores`, if all nodes have as many, or `kinds`"),
        ({"kinds": _KINDS, "gpus": 2}, "with `kinds` each of them has memory_gib and gpus of its own"),
    ],
)
def test_cores_of_all_or_of_kinds(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        from_mapping({"workload": {"generate": [{"daily_batch": {"days": 1}}]}, "shared_nodes": keys})


# What it does not go with.

_MACHINE_REFUSES = [
    ({"mechanism": "balancer"}, "the mechanism balancer has nodes of its own"),
    ({"scheduler": "slurm"}, "slurm has its own"),
    ({"partitions": {"all": {"default": True}}}, "partitions, reservations and placement are of whole nodes"),
    ({"placement": {"policy": "contiguous"}}, "partitions, reservations and placement are of whole nodes"),
    ({"scheduler": {"easy": {"like": "cqsim"}}}, "scheduler estimates: where jobs share nodes"),
    ({"scheduler": {"backfill": "easy", "choice": "best_fit"}}, "scheduler choice: where jobs share nodes"),
    ({"scheduler": {"backfill": "easy", "pass": "event"}}, "scheduler pass: where jobs share nodes"),
    ({"limits": [{"by": "user", "jobs": 1}]}, "limits of users, cancellations and deadlines go with plain"),
    (
        {"failures": {"model": {"exponential": {"mtbf_s": 1}}}},
        "nodes that fail or are maintained go with plain",
    ),
    ({"maintenance": [{"begin_s": 0, "end_s": 1}]}, "nodes that fail or are maintained go with plain"),
    ({"energy": {"busy_w": 2, "idle_w": 1}}, "energy: it is told of whole nodes"),
]


@pytest.mark.parametrize(("keys", "said"), _MACHINE_REFUSES)
def test_what_it_does_not_go_with_is_refused_by_name(log: Path, keys: dict[str, Any], said: str) -> None:
    scenario = scenario_of(log, **keys)
    with pytest.raises(ScenarioError, match=said):
        run_virtual(scenario, prepare(scenario))


def test_a_live_run_and_processors_a_node_are_refused(log: Path) -> None:
    scenario = scenario_of(log)
    with pytest.raises(ScenarioError, match="virtual time only; leave out `shared_nodes`"):
        check_live(scenario, prepare(scenario))
    with pytest.raises(ScenarioError, match="procs_per_node is 8, shared_nodes"):
        prepare(scenario_of(log, workload={"trace": str(log), "procs_per_node": 8}))


def test_leases_are_refused(log: Path) -> None:
    leases = [{"bursty_leases": {"days": 1, "utilisation": 0.1}}]
    scenario = scenario_of(log, workload={"trace": str(log), "generate": leases})
    with pytest.raises(ScenarioError, match="are for batch jobs; job 5 is an on-demand lease"):
        run_virtual(scenario, prepare(scenario))


def test_energy_is_refused_where_jobs_share_nodes_under_slurms_twin(log: Path) -> None:
    document = {
        "workload": {"trace": str(log)},
        "scheduler": {"slurm": {"select": {"cores": 4}}},
        "energy": {"busy_w": 2, "idle_w": 1},
    }
    scenario = from_mapping(document | {"nodes": 16})
    with pytest.raises(ScenarioError, match="energy: it is told of whole nodes"):
        run_virtual(scenario, prepare(scenario))
