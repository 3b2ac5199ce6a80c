"""Slurm's twin where jobs that share nodes take the cores, memory and GPUs of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from emulator.cluster.slurm_cluster import slurm_cluster
from emulator.cluster.slurm_scheduler import Slurm
from emulator.schedulers.slurm.releases import RELEASES
from emulator.schedulers.slurm.select import Select
from emulator.simulation.loop import Loop
from emulator.validation.laws import assert_lawful
from gates import GATE
from oracle.slurm_kit import agrees_on_preemption_on_shared_nodes, runs_in_s
from scenario_kit import jobs_in_s

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.schedulers.slurm.releases import Release


def test_every_run_begins_and_ends_when_where_and_how_the_reference_says() -> None:
    for seed in range(GATE.reference_workloads):
        agrees_on_preemption_on_shared_nodes(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1040, 1040 + GATE.reference_workloads, 40))
def test_so_they_do_on_many_workloads(first: int) -> None:
    for seed in range(first, first + 40):
        agrees_on_preemption_on_shared_nodes(seed)


# -- by hand: (partition, submit, run and limit in seconds, nodes, cores and MiB of each) ------------

LOW, HIGH = 1, 2
Row = tuple[int, float, float, int, int, int]
CONF = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL PriorityTier=10 Default=YES
PartitionName=high Nodes=ALL PriorityTier=30
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.conf"
    path.write_text(CONF, "utf-8")
    return path


def run(
    conf: Path, rows: list[Row], *, nodes: int = 2, **settings: Any
) -> dict[int, list[tuple[float, float, str]]]:
    """Of each job, by number: start, end and outcome of its runs, on nodes of 4 cores and 100 MiB."""
    *_, run_s, _, cores, memory = zip(*rows, strict=True)
    jobs = jobs_in_s(
        [row[:4] for row in rows], "queue", "submit_us", "run_us", "nodes", estimate_us=[each * US for each in run_s],
        extra={"cores": list(cores), "memory_kib": [each * 1024 for each in memory]},
    )  # fmt: skip
    select = Select(4, "CR_Core_Memory", 100)
    slurm = Slurm(conf=conf, queues={LOW: "low", HIGH: "high"}, select=select, **settings)
    loop = Loop(slurm_cluster(nodes, jobs, slurm))
    loop.run()
    record = loop.record()
    assert_lawful(record)
    return {number: [run[:3] for run in runs] for number, runs in runs_in_s(record).items()}


@pytest.mark.parametrize("release", RELEASES)
def test_no_more_jobs_leave_than_a_job_needs_room(conf: Path, release: Release) -> None:
    """Two of two cores on each of two nodes; one more wants three cores: both of the first node leave."""
    low: list[Row] = [(LOW, 0, 600, 1, 2, 1)] * 4
    two = run(conf, [*low, (HIGH, 60, 100, 1, 3, 1)], release=release)
    assert [len(two[job]) for job in (1, 2, 3, 4)] == [2, 2, 1, 1]
    assert two[5] == [(61, 161, "finished")]
    one = run(conf, [*low, (HIGH, 60, 100, 1, 2, 1)], release=release)
    assert [len(one[job]) for job in (1, 2, 3, 4)] == [2, 1, 1, 1]


def test_a_job_with_room_makes_nobody_leave(conf: Path) -> None:
    found = run(conf, [(LOW, 0, 600, 2, 3, 1), (HIGH, 60, 100, 2, 1, 1)])
    assert found == {1: [(0, 600, "finished")], 2: [(60, 160, "finished")]}


def test_jobs_leave_for_memory_though_cores_are_free(conf: Path) -> None:
    found = run(conf, [(LOW, 0, 600, 2, 1, 80), (HIGH, 60, 100, 1, 1, 30)])
    assert found == {1: [(0, 60, "requeued"), (240, 840, "finished")], 2: [(61, 161, "finished")]}


def test_the_last_one_that_was_needed_comes_first_and_others_may_stay(conf: Path) -> None:
    """The narrow job is the first to leave, and that is not enough; with the wide one gone it is not needed."""
    found = run(conf, [(LOW, 0, 600, 1, 1, 1), (LOW, 1, 600, 2, 3, 1), (HIGH, 60, 100, 2, 3, 1)])
    assert [len(found[job]) for job in (1, 2)] == [1, 2]
    assert found[3] == [(61, 161, "finished")]


def test_backfill_makes_jobs_leave_too(conf: Path) -> None:
    """A main loop that looks at one job alone does not come to the second."""
    rows: list[Row] = [
        (LOW, 0, 600, 1, 4, 1),
        (HIGH, 1, 900, 1, 4, 1),
        (HIGH, 60, 900, 2, 4, 1),
        (HIGH, 61, 100, 1, 4, 1),
    ]
    found = run(conf, rows, default_queue_depth=1, sched_interval=-1)
    assert found[1][0][2] == "requeued"
    assert found[3][0][0] > found[4][0][0]
