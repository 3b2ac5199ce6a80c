"""Jobs that share nodes: equal to the slow reference job by job, laws, and each rule by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.features import Feature
from emulator.cluster.node_kinds import NodeKind
from emulator.cluster.selections.shared_nodes import shared_cluster
from emulator.cluster.shared_nodes import SharedNodes
from emulator.config.node_names import default_node_names
from emulator.metrics import summarize
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from gates import GATE
from oracle.records import schedule_of, shared_nodes_of
from oracle.reference import BACKFILLS, Job, Options
from oracle.shared_nodes import Part, Request, SharedMachine
from oracle.workloads import ESTIMATES, job_table, random_workload

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

_ORDERS = ("fcfs", "sjf", "wfp3")


def record_of(jobs: JobTable, nodes: int, shared: SharedNodes, scheduler: SchedulerConfig) -> RunRecord:
    """Of a run; its scenario says what the nodes have, so that the laws look at it."""
    cluster = shared_cluster(nodes, scheduler, jobs, shared)
    loop = Loop(cluster, node_names=cluster.node_names)
    loop.run()
    part = {
        "cores": shared.cores,
        "memory_gib": None if shared.memory_kib is None else shared.memory_kib / 1024**2,
        "gpus": shared.gpus,
    }
    return replace(loop.record(), scenario={"shared_nodes": part})


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
    assert shared_nodes_of(record, room.cores) == oracle.got
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
    wrong = np.logical_or.reduce(list(shared.requests_of(jobs, nodes).left_out(jobs).values()))
    jobs = jobs.take(~wrong)
    cluster = shared_cluster(nodes, scheduler, jobs, shared)
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
    assert shared_nodes_of(record, node_of_core) == oracle.got
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
    return starts, shared_nodes_of(record, shared.cores)


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
