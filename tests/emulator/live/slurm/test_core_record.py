"""The record of a live run in which jobs shared nodes is one of cores, as the twin's in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.kernel.job_states import RunOutcome
from emulator.live.slurm.core_record import count_nodes, in_cores, in_nodes
from emulator.record.run_record import NodePool, PoolMove, RunTable
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.select import NodeKind, Select
from emulator.simulation.run import make_cluster, simulate
from emulator.validation.laws import check
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.record.run_record import RunRecord

SELECT = Select(cores=4)
SHARED = SELECT.on(2)


def on_two_nodes(runs: Sequence[tuple[int, int, list[int]]], cores: list[int]) -> RunRecord:
    """A record in nodes, as Slurm tells it: of each job (start s, end s, nodes), and its cores on each of them."""
    starts_s, ends_s, nodes = zip(*runs, strict=True)
    widths = [len(each) for each in nodes]
    jobs = JobTable.build(
        submit_us=[start * US for start in starts_s],
        run_us=[(end - start) * US for start, end, _ in runs],
        nodes=widths,
        extra={"cores": np.array(cores)},
    )
    plain = JobTable.build(
        submit_us=jobs.submit_us.tolist(), run_us=jobs.run_us.tolist(), nodes=[1] * len(jobs)
    )
    return replace(
        simulate(plain, 2, SchedulerConfig()),
        jobs=jobs,
        start_us=np.array(starts_s) * US,
        end_us=np.array(ends_s) * US,
        horizon_us=max(ends_s) * US,
        runs=RunTable(
            job=np.arange(len(jobs), dtype=np.int32),
            start_us=np.array(starts_s) * US,
            end_us=np.array(ends_s) * US,
            outcome=np.full(len(jobs), RunOutcome.FINISHED, np.int8),
            first=np.concatenate(([0], np.cumsum(widths))),
            node=np.array([node for each in nodes for node in each], np.int32),
        ),
    )


def test_a_job_has_the_first_cores_that_are_free_on_each_of_its_nodes() -> None:
    record = on_two_nodes([(0, 10, [0]), (1, 5, [0, 1]), (5, 9, [0])], [2, 2, 1])
    found = in_cores(record, SHARED)
    assert found.node_names[:5] == ("n001/c00", "n001/c01", "n001/c02", "n001/c03", "n002/c00")
    assert found.jobs.nodes.tolist() == [2, 4, 1]
    assert [found.runs.node[found.runs.first[row] : found.runs.first[row + 1]].tolist() for row in range(3)] == [
        [0, 1], [2, 3, 4, 5], [2],
    ]  # fmt: skip
    assert check(found) == []


def test_a_node_that_gave_more_cores_than_it_has_breaks_a_law() -> None:
    found = in_cores(on_two_nodes([(0, 10, [0]), (1, 5, [0])], [3, 2]), SHARED)
    assert {each.law for each in check(found)} == {"no_node_is_booked_twice", "node_time_adds_up"}


def test_a_node_that_is_away_takes_its_cores_along() -> None:
    record = on_two_nodes([(0, 10, [0])], [1])
    found = in_cores(replace(record, moves=(PoolMove(3 * US, (1,), NodePool.DOWN),)), SHARED)
    assert found.moves == (PoolMove(3 * US, (4, 5, 6, 7), NodePool.DOWN),)


def test_such_a_record_has_the_names_and_widths_of_the_twins() -> None:
    record = on_two_nodes([(0, 10, [0]), (1, 5, [0, 1])], [2, 2])
    found = in_cores(record, SHARED)
    scheduler = SchedulerConfig(decide={"slurm": {"select": {"cores": 4}}})
    virtual = simulate(record.jobs, 2, scheduler).jobs
    assert found.node_names == make_cluster(2, scheduler, record.jobs).rules.node_names
    assert (found.jobs.nodes.tolist(), found.jobs.extra.keys()) == (
        virtual.nodes.tolist(),
        virtual.extra.keys(),
    )
    assert (in_nodes(found.jobs).nodes.tolist(), count_nodes(found.node_names)) == ([1, 2], 2)
    assert in_nodes(record.jobs) is record.jobs


def test_nodes_with_different_numbers_of_cores_have_their_own() -> None:
    kinds = {"fat": NodeKind("n001", 6), "thin": NodeKind("n002", 2)}
    record = on_two_nodes([(0, 10, [0, 1]), (1, 5, [0])], [2, 3])
    found = in_cores(
        replace(record, moves=(PoolMove(11 * US, (1,), NodePool.DOWN),)), Select(kinds=kinds).on(2)
    )
    assert found.node_names == (*(f"n001/c0{core}" for core in range(6)), "n002/c00", "n002/c01")
    assert found.runs.node.tolist() == [0, 1, 6, 7, 2, 3, 4]
    assert found.moves == (PoolMove(11 * US, (6, 7), NodePool.DOWN),)
    assert check(found) == []
