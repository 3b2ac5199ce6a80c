"""Scenarios whose jobs share nodes: what logs say of cores, memory and GPUs, kinds of nodes, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from emulator.cluster.features import TOO_FEW
from emulator.cluster.shared_nodes import TOO_MUCH
from emulator.metrics import summarize
from emulator.report.exports import accasim
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live, run_virtual
from emulator.runs.scenario import Scenario, ScenarioError, from_mapping
from emulator.sweeps.execute import execute
from emulator.validation.laws import assert_lawful, check
from emulator.workload.requests import NO_MEMORY
from oracle.records import schedule_of, shared_nodes_of
from scenario_kit import assert_refused

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.record.run_record import RunRecord

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


def under_slurm(log: Path, select: dict[str, Any], **more: Any) -> Scenario:
    workload = {"trace": str(log)} | more.pop("workload", {})
    return from_mapping({"workload": workload, "scheduler": {"slurm": {"select": select, **more}}})


@pytest.mark.parametrize("where", ["alike", "kinds", "conf"])
def test_jobs_of_a_log_share_nodes_under_slurms_twin_likewise(log: Path, where: str) -> None:
    conf = log.with_name("slurm.conf")
    conf.write_text(
        "NodeName=a[1-3] CPUs=6 RealMemory=8\nNodeName=b CPUs=4 RealMemory=8\nPartitionName=a Nodes=ALL\n"
    )
    kinds = {
        "large": {"nodes": "n[001-003]", "cores": 6, "memory_mb": 8},
        "small": {"nodes": "n004", "cores": 4, "memory_mb": 8},
    }
    all_alike: dict[str, Any] = {"cores": 4, "memory_mb": 8, "gpus": 2}
    what_nodes_have = {"alike": all_alike, "kinds": {"kinds": kinds}, "conf": {}}
    select = {"parameters": "CR_Core_Memory", **what_nodes_have[where]}
    found = prepare(under_slurm(log, select, **({"conf": str(conf)} if where == "conf" else {})))
    jobs, others = found.jobs, prepare(scenario_of(log)).jobs
    assert (found.left_out, found.counted) == ({}, {NO_MEMORY: 1})
    for name in ("cores", "memory_kib", "gpus"):
        assert jobs.column(name).tolist()[:3] == others.column(name).tolist()
    assert jobs.nodes.tolist() == [2, 1, 1, 1]


def test_jobs_of_a_log_start_under_slurms_twin_where_cores_are_left(log: Path) -> None:
    """Without memory: six cores on two nodes, three on a third, then one in each gap."""
    scenario = under_slurm(log, {"cores": 4, "gpus": 2})
    record = run_virtual(scenario, prepare(scenario))
    assert record.start_us.tolist() == [0, 0, 0, 0]
    assert shared_nodes_of(record, 4) == {1: (0, 1), 2: (2,), 3: (0,), 4: (1,)}


@pytest.mark.parametrize(
    ("select", "more", "said"),
    [
        (
            {"cores": 4},
            {"workload": {"procs_per_node": 8}},
            "procs_per_node is 8, scheduler.slurm.select.cores 4",
        ),
        ({}, {}, "slurm: select: say what nodes have"),
        ({}, {"conf": "slurm.conf"}, "slurm.conf: no NodeName line says what nodes have"),
    ],
)
def test_a_log_s_jobs_need_to_know_the_nodes_of_slurms_twin(
    log: Path, select: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    if "conf" in more:
        conf = log.with_name("slurm.conf")
        conf.write_text("PartitionName=a Nodes=ALL\n")
        more = {"conf": str(conf)}
    with pytest.raises(ScenarioError, match=said):
        prepare(under_slurm(log, select, **more))


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
    assert shared_nodes_of(records[0], 4) == shared_nodes_of(records[1], 4)
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
    ({"energy": {"busy_w": 2, "idle_w": 1}}, "energy: it counts whole nodes"),
]


@pytest.mark.parametrize(("keys", "said"), _MACHINE_REFUSES)
def test_what_it_does_not_go_with_is_refused_by_name(log: Path, keys: dict[str, Any], said: str) -> None:
    assert_refused(scenario_of(log, **keys), said)


def test_a_live_run_and_processors_a_node_are_refused(log: Path) -> None:
    scenario = scenario_of(log)
    with pytest.raises(ScenarioError, match="virtual time only; leave out `shared_nodes`"):
        check_live(scenario, prepare(scenario))
    with pytest.raises(ScenarioError, match="procs_per_node is 8, shared_nodes"):
        prepare(scenario_of(log, workload={"trace": str(log), "procs_per_node": 8}))


def test_leases_are_refused(log: Path) -> None:
    leases = [{"bursty_leases": {"days": 1, "utilisation": 0.1}}]
    assert_refused(
        scenario_of(log, workload={"trace": str(log), "generate": leases}),
        "are for batch jobs; job 5 is an on-demand lease",
    )


def test_energy_is_refused_where_jobs_share_nodes_under_slurms_twin(log: Path) -> None:
    document = {
        "workload": {"trace": str(log)},
        "scheduler": {"slurm": {"select": {"cores": 4, "gpus": 2}}},
        "energy": {"busy_w": 2, "idle_w": 1},
    }
    assert_refused(from_mapping(document | {"nodes": 16}), "energy: it counts whole nodes")
