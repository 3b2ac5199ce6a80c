"""Jobs that share nodes in Slurm's twin: by cores, memory and GPUs, on the nodes that the real Slurm gave them."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from emulator.live.slurm.calibration import calibrate
from emulator.runs.preparation import prepare
from emulator.runs.runner import make_machine, make_mechanism
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.releases import RELEASES
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from scenario_kit import jobs_in_s
from testdata import RECORDED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from emulator.record.run_record import RunRecord
    from emulator.schedulers.slurm.releases import Release

Row = tuple[int, int, int, int, int, int]
"""submit, run, limit in seconds; nodes; cores and MiB of each."""
GPUS = {"select": {"cores": 4, "gpus": 2}}
KINDS = {"thin": {"nodes": "n[001-002]", "cores": 2}, "gpu": {"nodes": "n003", "cores": 4, "gpus": 2}}
FOUR = {"select": {"cores": 4, "parameters": "CR_Core_Memory", "memory_mb": 100}}


def run(rows: list[Row], nodes: int, gpus: Sequence[int] = (), **settings: Any) -> RunRecord:
    """`gpus`: of the first jobs, by their rows; the others say nothing of them."""
    *_, cores, memory = zip(*rows, strict=True)
    jobs = jobs_in_s(
        [row[:4] for row in rows],
        "submit_us",
        "run_us",
        "estimate_us",
        "nodes",
        extra={
            "cores": list(cores),
            "memory_kib": [each * 1024 if each >= 0 else -1 for each in memory],
            "gpus": [*gpus, *[-1] * (len(rows) - len(gpus))],
        },
    )
    record = simulate(jobs, nodes, SchedulerConfig(decide={"slurm": FOUR | settings}))
    assert_lawful(record)
    return record


def starts(rows: list[Row], nodes: int, gpus: Sequence[int] = (), **settings: Any) -> list[float]:
    return [each / US for each in run(rows, nodes, gpus, **settings).start_us.tolist()]


def cores_of(record: RunRecord) -> list[list[int]]:
    """Of each job, in order of start."""
    first = record.runs.first.tolist()
    return [record.runs.node[begin:end].tolist() for begin, end in pairwise(first)]


def test_jobs_are_on_a_node_together_while_cores_and_memory_last() -> None:
    assert starts([(0, 300, 300, 1, 2, 50), (1, 60, 60, 1, 2, 50)], 1) == [0, 1]
    assert starts([(0, 300, 300, 1, 3, 50), (1, 60, 60, 1, 2, 50)], 1) == [0, 300]
    assert starts([(0, 300, 300, 1, 2, 50), (1, 60, 60, 1, 2, 51)], 1) == [0, 300]
    by_cores = {"select": {"cores": 4}}
    assert starts([(0, 300, 300, 1, 2, 50), (1, 60, 60, 1, 2, 51)], 1, **by_cores) == [0, 1]


def test_a_job_that_says_nothing_has_all_of_its_nodes() -> None:
    assert starts([(0, 300, 300, 1, -1, 1), (1, 60, 60, 1, 1, 1)], 1) == [0, 300]
    assert starts([(0, 300, 300, 1, 1, -1), (1, 60, 60, 1, 1, 1)], 1) == [0, 300]


def test_a_job_waits_for_gpus_while_cores_are_free() -> None:
    rows: list[Row] = [(0, 300, 300, 1, 1, 1), (1, 60, 60, 1, 1, 1)]
    assert starts(rows, 1, [1, 1], **GPUS) == [0, 1]
    assert starts(rows, 1, [2, 1], **GPUS) == [0, 300]
    assert starts(rows, 1, [2], **GPUS) == [0, 1], "who says nothing wants none"


def test_backfill_plans_by_the_gpus_that_running_jobs_leave() -> None:
    """The third job waits for two GPUs; the last ones want none, and one is over before."""
    rows: list[Row] = [(0, 600, 600, 1, 1, 1), (1, 300, 300, 1, 1, 1), (2, 60, 60, 1, 1, 1)]
    rows += [(3, 60, 1200, 1, 1, 1), (4, 60, 240, 1, 1, 1)]
    assert starts(rows, 1, [1, 1, 2], **GPUS) == [0, 1, 600, 600, 30]
    assert starts(rows, 1, [1, 1, 1], **GPUS) == [0, 1, 301, 301, 30]


def test_a_record_has_cores_for_nodes() -> None:
    record = run([(0, 300, 300, 1, 3, 1), (1, 60, 60, 2, 1, 1)], 2)
    assert cores_of(record) == [[0, 1, 2], [3, 4]]
    assert record.jobs.nodes.tolist() == [3, 2]
    assert record.jobs.column("whole_nodes").tolist() == [1, 2]


def test_ends_within_half_a_minute_are_looked_at_together() -> None:
    """So the third job is planned for second 620, and the last one has time before it."""
    rows: list[Row] = [(0, 600, 600, 1, 2, 1), (20, 600, 600, 1, 1, 1), (21, 60, 60, 1, 3, 1)]
    rows.append((22, 30, 540, 1, 1, 1))
    fine = {"bf_interval": 70, "bf_resolution": 1}
    assert starts(rows, 1, **fine) == [0, 20, 600, 70], "from 70 to 610, and the head is planned for 620"
    rows[1] = (20, 640, 660, 1, 1, 1)
    assert starts(rows, 1, **fine) == [0, 20, 600, 660], "ends 80 s apart: the head is planned for 600"


def test_a_plan_reserves_whole_nodes() -> None:
    """There would be a core beside the job that waits."""
    rows: list[Row] = [(0, 600, 600, 1, 2, 1), (1, 60, 60, 1, 3, 1), (2, 60, 1800, 1, 1, 1)]
    assert starts(rows, 1) == [0, 600, 600]
    assert starts([*rows[:2], (2, 60, 540, 1, 1, 1)], 1) == [0, 600, 30]


def test_a_job_has_nodes_that_can_hold_its_part_where_nodes_are_different() -> None:
    """Cores 0 to 3 are of two thin nodes, 4 to 7 of one with GPUs."""
    kinds = {"select": {"kinds": KINDS}}
    rows: list[Row] = [
        (0, 300, 300, 1, 1, -1),
        (1, 300, 300, 1, 3, -1),
        (2, 300, 300, 1, 1, -1),
        (3, 60, 60, 1, 2, -1),
    ]
    record = run(rows, 3, [0, 0, 2], **kinds)
    assert cores_of(record) == [[0], [4, 5, 6], [7], [2, 3]]
    rows[2] = (2, 300, 300, 1, 2, -1)
    assert starts(rows, 3, [0, 0, 2], **kinds) == [0, 1, 301, 30], "it waits for the only node with GPUs"


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_has_the_nodes_of_the_least_weight(release: Release) -> None:
    """Cores 0 and 1 are of a heavy node, the others of light ones, two cores each."""
    kinds = {
        "heavy": {"nodes": "n001", "cores": 2, "weight": 5},
        "light": {"nodes": "n[002-003]", "cores": 2},
    }
    one: Row = (0, 300, 300, 1, 2, -1)
    alone = run([one, one], 3, select={"kinds": kinds}, release=release)
    assert cores_of(alone) == [[2, 3], [4, 5]]
    all_nodes = run([(0, 60, 60, 3, 2, -1)], 3, select={"kinds": kinds}, release=release)
    assert cores_of(all_nodes) == [[2, 3, 4, 5, 0, 1]]


@pytest.mark.parametrize(
    ("row", "gpus", "said"),
    [
        ((0, 60, 60, 1, -1, -1), 0, "nodes have different numbers of cores: each job needs `cores`"),
        ((0, 60, 60, 1, 5, -1), 0, "a node gives between 1 and 4 cores"),
        (
            (0, 60, 60, 2, 3, -1),
            0,
            "partition batch gives a job nodes that can hold its part, and 1 of its jobs",
        ),
        ((0, 60, 60, 2, 1, -1), 1, "partition batch gives a job nodes that can hold its part"),
    ],
)
def test_a_job_that_too_few_nodes_could_hold_is_refused(row: Row, gpus: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run([row], 3, [gpus], select={"kinds": KINDS})


def test_where_nodes_have_different_memory_each_job_says_how_much_it_wants() -> None:
    kinds = {
        "a": {"nodes": "n001", "cores": 4, "memory_mb": 50},
        "b": {"nodes": "n002", "cores": 4, "memory_mb": 90},
    }
    select = {"parameters": "CR_Core_Memory", "kinds": kinds}
    assert cores_of(run([(0, 60, 60, 1, 1, 60), (1, 60, 60, 1, 1, 40)], 2, select=select)) == [[4], [0]]
    with pytest.raises(ValueError, match="nodes have different memory: each job needs `memory_kib`"):
        run([(0, 60, 60, 1, 1, -1)], 2, select=select)


@pytest.mark.parametrize(("release", "cores"), [("22.05", [3, 12]), ("24.11", [3, 7]), ("26.05", [3, 7])])
def test_a_set_of_nodes_that_is_too_small_may_come_first(
    tmp_path: Path, release: Release, cores: list[int]
) -> None:
    """Of five nodes two neighbours have a core left, and the fourth has all four; recorded on 22.05."""
    conf = tmp_path / "slurm.conf"
    alone = [f"PartitionName=p{node} Nodes=n{node:03}" for node in (1, 2, 3, 5)]
    conf.write_text("\n".join([*alone, "PartitionName=all Nodes=ALL Default=YES"]) + "\n")
    jobs = JobTable.build(
        submit_us=[0, 0, 0, 0, US],
        run_us=[600 * US] * 5,
        nodes=[1, 1, 1, 1, 2],
        queue=[1, 2, 3, 5, 0],
        extra={"cores": [3, 3, 4, 4, 1]},
    )
    queues = {node: f"p{node}" for node in (1, 2, 3, 5)}
    slurm = {"conf": str(conf), "queues": queues, "select": {"cores": 4}, "release": release}
    assert sorted(cores_of(simulate(jobs, 5, SchedulerConfig(decide={"slurm": slurm})))[-1]) == cores


def recorded(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((RECORDED / "slurm" / name).read_text().splitlines()))


def test_a_job_gets_the_cores_that_the_real_slurm_gave_it(tmp_path: Path) -> None:
    """Slurm 22.05, CR_Core_Memory: cores and memory are in use on some of seven nodes, then a job comes; 150 times."""
    check_cores(recorded("placement-shared.csv"), "got", tmp_path / "slurm.conf", **FOUR)


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_gets_the_cores_that_each_release_gave_it(tmp_path: Path, release: Release) -> None:
    """Likewise where nodes have four GPUs, of which some are in use; 120 times, and 100 times where nodes have none."""
    select = {"cores": 4, "parameters": "CR_Core_Memory", "memory_mb": 100, "gpus": 4}
    rows = recorded("placement-gpus.csv")
    check_cores(rows, f"got_{release}", tmp_path / "slurm.conf", select=select, release=release)


def check_cores(rows: list[dict[str, str]], got: str, conf: Path, **settings: Any) -> None:
    """A job in each row gets the cores that its column `got` names."""
    alone = [f"PartitionName=p{node} Nodes=n{node:03}" for node in range(1, 8)]
    conf.write_text("\n".join([*alone, "PartitionName=all Nodes=ALL Default=YES"]) + "\n")
    said = {"conf": str(conf), "queues": {node: f"p{node}" for node in range(1, 8)}, **settings}
    for row in rows:
        used = [(*map(int, row[f"n{node:03}_busy"].split(":")), 0)[:3] for node in range(1, 8)]
        jobs = [(1, *wanted, node) for node, wanted in enumerate(used, 1) if wanted[0]]
        jobs.append((int(row["nodes"]), int(row["cores"]), int(row["memory_mb"]), int(row.get("gpus", 0)), 0))
        width, cores, memory, gpus, queue = zip(*jobs, strict=True)
        table = JobTable.build(
            submit_us=[0] * (len(jobs) - 1) + [US],
            run_us=[3600 * US] * len(jobs),
            nodes=list(width),
            queue=list(queue),
            extra={
                "cores": list(cores),
                "memory_kib": [each * 1024 for each in memory],
                "gpus": list(gpus),
            },
        )
        record = simulate(table, 7, SchedulerConfig(decide={"slurm": said}))
        found = sorted(cores_of(record)[-1]) if record.start_us[-1] == US else []
        assert found == expected_cores(row[got]), row


@pytest.mark.parametrize("release", RELEASES)
def test_jobs_wait_for_gpus_as_they_did_on_the_real_slurm(release: Release) -> None:
    """21 jobs on two nodes of four cores and two GPUs, at 60 times its clock.

    Heads wait for GPUs while cores are free, and jobs pass them or may not.
    """
    said = [row for row in recorded("starts-gpus.csv") if row["release"] == release]
    submit, run_s, limit, nodes, cores, gpus, start = (
        [int(row[name]) for row in said]
        for name in ("submit_s", "run_s", "limit_min", "nodes", "cores", "gpus", "start_s")
    )
    limit_s = [60 * each for each in limit]
    rows = list(zip(submit, run_s, limit_s, nodes, cores, [-1] * len(said), strict=True))
    found = starts(rows, 2, gpus, **GPUS, release=release, over_time_limit=1 << 30)
    assert [row["job"] for row, at, real in zip(said, found, start, strict=True) if abs(at - real) > 30] == []


def expected_cores(got: str) -> list[int]:
    """Of `n006:2-3 n007:2-3`, seven nodes of four cores."""
    cores: list[int] = []
    for each in got.split():
        name, listed = each.split(":")
        for part in listed.split(","):
            first, _, last = part.partition("-")
            begin = (int(name[1:]) - 1) * 4
            cores += range(begin + int(first), begin + int(last or first) + 1)
    return cores


def test_a_live_run_is_held_against_jobs_that_share_nodes() -> None:
    rows: list[Row] = [(0, 300, 300, 1, 3, 50), (1, 60, 60, 1, 2, 50)]
    record = run(rows, 1)
    on_nodes = replace(
        record,
        clock="live",
        node_names=("n001",),
        jobs=replace(record.jobs, nodes=record.jobs.column("whole_nodes").astype("int32")),
        scenario={"live": {"batch": "slurm"}, "mechanism": None, "scheduler": {"slurm": FOUR}},
    )
    found = calibrate(on_nodes)
    assert (found.mean_wait_off, found.differences) == (0.0, ())


def test_a_job_counts_half_by_its_nodes_and_half_by_its_cores() -> None:
    """A job of all cores of one node of three stands before one of a core of each of two: 8 of 24 cores, 2 nodes."""
    rows: list[Row] = [
        (0, 60, 60, 3, 8, -1),
        (1, 60, 60, 2, 1, -1),
        (2, 60, 60, 1, 8, -1),
        (3, 60, 60, 3, 4, -1),
    ]
    said = {"select": {"cores": 8}, "priority_type": "multifactor", "priority_weight_job_size": 1000}
    assert starts(rows, 3, **said) == [0, 60, 120, 60]
    assert starts(rows, 3, **said, priority_favor_small=True) == [0, 60, 60, 120]


def test_limits_of_qos_count_the_cores_of_jobs_that_share_nodes() -> None:
    """Three cores at a time for all, of eight."""
    rows: list[Row] = [(0, 300, 300, 1, 2, 1), (1, 300, 300, 1, 2, 1), (2, 300, 300, 1, 1, 1)]
    assert starts(rows, 2) == [0, 1, 2]
    said = {"qos": {"normal": {"GrpTRES": "cpu=3"}}, "enforce_limits": True}
    assert starts(rows, 2, **said) == [0, 300, 2]


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ({"cores": 0}, "select cores must be at least 1"),
        ({}, "say what nodes have: `cores`, if all have as many, `kinds`, or a `conf`"),
        ({"cores": 4, "gpuz": 1}, "select: gpuz: there is no such key"),
        (
            {"kinds": {"a": {"nodes": "ALL", "cores": 4, "wait": 9}}},
            "select: kinds.a.wait: there is no such key",
        ),
        ({"gpus": 1}, "memory_mb and gpus go with `cores`, or with those of each kind"),
        ({"cores": 4, "kinds": KINDS}, "give `cores`, if all nodes have as many, or `kinds`"),
        (
            {"kinds": {"all": {"nodes": "ALL", "cores": 4, "memory_mb": 9}}},
            "select kinds.all CR_Core does not look at",
        ),
        ({"kinds": {"one": {"nodes": "n001", "cores": 0}}}, "select kinds.one cores must be at least 1"),
        (
            {"kinds": {"one": {"nodes": "n001-", "cores": 4}}},
            "slurm: select.kinds.one: there is no node n001-",
        ),
        ({"cores": 4, "memory_mb": 100}, "CR_Core does not look at memory: leave memory_mb out"),
        ({"cores": 4, "parameters": "CR_Core_Memory"}, "CR_Core_Memory needs memory_mb"),
        ({"cores": 4, "parameters": "CR_Socket"}, "parameters"),
        ({"cores": 4, "gpus": -1}, "select gpus must be at least 0"),
        ({"cores": 2}, "a node gives between 1 and 2 cores, and 1 of its jobs ask"),
    ],
)
def test_what_cannot_be_is_refused(select: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run([(0, 60, 60, 1, 3, 1)], 1, select=select)


def test_a_job_with_more_memory_than_a_node_is_refused() -> None:
    with pytest.raises(ValueError, match="a node gives no more than 100 MiB of memory"):
        run([(0, 60, 60, 1, 3, 101)], 1)


@pytest.mark.parametrize(("select", "said"), [(GPUS, "2"), (FOUR, "0")])
def test_a_job_with_more_gpus_than_a_node_is_refused(select: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"a node gives no more than {said} GPUs"):
        run([(0, 60, 60, 1, 3, 1)], 1, [3], **select)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"qos": {"normal": {"GrpTRES": "node=1"}}},
            "jobs share nodes, and limits are of cpu; leave node out",
        ),
        (
            {"qos": {"normal": {}}, "cpus_per_node": 4},
            "limits in cpu are of the jobs' cores; leave cpus_per_node out",
        ),
        (
            {"qos": {"normal": {"MaxTRES": "cpu=2"}}},
            "QOS normal takes no more than 2 cores, and 1 of its jobs",
        ),
    ],
)
def test_what_does_not_go_with_sharing_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run([(0, 60, 60, 1, 3, 1)], 1, **settings)


def test_a_mechanism_does_not_go_with_it() -> None:
    scenario = from_mapping(
        {
            "nodes": 4,
            "workload": {"generate": [{"daily_batch": {"days": 0.1, "jobs": 5, "load": 0.5}}]},
            "scheduler": {"slurm": FOUR},
            "mechanism": {"balancer": {}},
        }
    )
    with pytest.raises(ScenarioError, match="jobs share nodes under this scheduler"):
        make_machine(scenario, prepare(scenario), make_mechanism(scenario))
