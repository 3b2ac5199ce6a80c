"""Features of nodes in Slurm's twin, and the jobs that ask for them (`sbatch --constraint`, types of GPUs)."""

from __future__ import annotations

import json

import pytest

from command_line import emulate
from emulator.cluster.slurm_scheduler import Slurm
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.constraints import constraints_not_followed, features_in, nodes_with
from emulator.simulation.run import make_cluster, simulate
from emulator.workload.formats import load
from emulator.workload.swf import write_swf
from emulator.workload.table import JobTable
from gates import GATE
from oracle.slurm_kit import agrees

FEATURES = {"a": frozenset({0, 1}), "b": frozenset({1, 2}), "gpu:h100": frozenset({2, 3})}


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a", {0, 1}),
        ("a&b", {1}),
        ("a,b", {1}),
        ("a|b", {0, 1, 2}),
        ("a|b&gpu:h100", {2}),
        ("a|(b&gpu:h100)", {0, 1, 2}),
        ("(a|b)&gpu:h100", {2}),
        ("[a|b]", {0, 1, 2}),
        ("[a*1&b*2]", {0, 1, 2}),
        (" a & b ", {1}),
    ],
)
def test_a_constraint_is_a_set_of_nodes(text, nodes):
    assert nodes_with(text, FEATURES) == nodes


@pytest.mark.parametrize("text", ["", "a&", "&a", "(a", "a)", "a|", "(a|b]", "*2"])
def test_what_is_no_constraint_is_refused(text):
    with pytest.raises(ValueError, match="is no constraint, such as"):
        nodes_with(text, FEATURES)


def test_constraints_that_are_not_followed_are_named():
    assert [*constraints_not_followed(["a", "[a|b]", "knl", "a&", "a&gpu:h100"], FEATURES)] == [
        "constraints that no node could meet (knl, a&, a&gpu:h100): in the twin their jobs may have any node",
        "constraints [a|b]: in the twin any node with one of these features will do, and a job may have several kinds",
    ]


def test_the_conf_and_the_gres_conf_say_which_nodes_have_what(tmp_path):
    (tmp_path / "slurm.conf").write_text(
        "NodeName=DEFAULT CPUs=4\n"
        "NodeName=x[1-2] Feature=ib,avx Gres=gpu:A100:2(S:0)\nNodeName=x3 Features=ib\nNodeName=x4\n"
    )
    (tmp_path / "gres.conf").write_text("NodeName=x[3-4] Name=gpu Type=h100 Count=4\n")
    assert features_in(tmp_path / "slurm.conf", ["n001", "n002", "n003", "n004"]) == {
        "ib": frozenset({0, 1, 2}),
        "avx": frozenset({0, 1}),
        "gpu:a100": frozenset({0, 1}),
        "gpu:h100": frozenset({2, 3}),
    }


def jobs(*rows):
    """(user, nodes, minutes) of each, all submitted at once."""
    user, nodes, minutes = zip(*rows, strict=True)
    run_us = [each * 60_000_000 for each in minutes]
    return JobTable.build(
        submit_us=[0] * len(rows), run_us=run_us, estimate_us=run_us, nodes=nodes, user=user
    )


def starts_min(table, **slurm):
    record = simulate(
        table, 4, SchedulerConfig(decide={"slurm": {"features": {"ib": "n[003-004]"}, **slurm}})
    )
    return (record.start_us // 60_000_000).tolist()


def test_a_job_waits_for_nodes_with_its_feature_and_holds_up_its_partition():
    table = jobs((1, 1, 10), (1, 2, 5), (2, 1, 10), (2, 1, 20))
    assert starts_min(table, backfill=False) == [0, 0, 0, 5]
    asked = {"user_constraint": {1: "ib"}}
    assert starts_min(table, backfill=False, **asked) == [0, 10, 10, 10], (
        "the main loop starts nobody behind it"
    )
    assert starts_min(table, **asked) == [0, 10, 0, 0], "backfill plans it on its two nodes"
    assert starts_min(table, **asked, select={"cores": 1}) == [0, 10, 0, 0]


def test_it_holds_up_all_nodes_of_its_partition_and_not_only_those_with_the_feature(tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "SchedulerType=sched/builtin\nPartitionName=first Nodes=n[002-004] PriorityTier=2\n"
        "PartitionName=all Nodes=ALL Default=YES\n"
    )
    table = jobs((1, 1, 10), (1, 2, 5), (2, 1, 10), (2, 1, 10))
    asked = {"conf": conf, "queues": {1: "first"}, "user_constraint": {1: "ib"}}
    table.queue[:2] = 1
    assert starts_min(table, **asked) == [0, 10, 0, 10], "n001 alone is none of the partition's"


def test_a_job_that_too_few_nodes_could_hold_is_refused_with_its_constraint():
    with pytest.raises(ValueError, match="constraint ib in partition batch takes no more than 2 nodes"):
        starts_min(jobs((1, 3, 1)), user_constraint={1: "ib"})
    kinds = {"thin": {"nodes": "n[001-003]", "cores": 1}, "fat": {"nodes": "n004", "cores": 2}}
    asked = {"user_constraint": {1: "ib"}, "select": {"kinds": kinds}}
    wide = jobs((1, 2, 1)).with_extra(cores=[2])
    with pytest.raises(ValueError, match="constraint ib in partition batch gives a job nodes that can hold"):
        starts_min(wide, **asked)


def test_a_constraint_of_the_scenario_names_features_that_there_are():
    with pytest.raises(ValueError, match=r"user_constraint 1: no node has feature 'knl'; there are: ib"):
        starts_min(jobs((1, 1, 1)), user_constraint={1: "ib|knl"})
    with pytest.raises(ValueError, match="'ib&' is no constraint"):
        Slurm(queue_constraint={1: "ib&"})


def test_nodes_do_not_fail_where_jobs_have_constraints():
    slurm = {"features": {"ib": "n001"}, "user_constraint": {1: "ib"}}
    cluster = make_cluster(4, SchedulerConfig(decide={"slurm": slurm}), jobs((1, 1, 1)))
    with pytest.raises(ValueError, match="do not fail in the twin where jobs have constraints"):
        cluster.rules.expect_outages()


def test_random_workloads_with_constraints_run_as_the_reference_says():
    for seed in range(GATE.reference_workloads):
        agrees(seed, constrained=1.0)


CONF = """\
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
NodeName=g[1-2] CPUs=8 Gres=gpu:a100:4 Feature=ib
NodeName=g[3-4] CPUs=8 Gres=gpu:h100:4
PartitionName=all Nodes=ALL Default=YES
"""
HEADING = (
    "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|State|User|Partition|ReqTRES|Constraints\n"
)


def sacct(tres, constraint, count=12, first=1):
    """Jobs of one node, all its cores, that are submitted together."""
    rows = (
        f"{number}|1767225600|1767225600|600|10|1|8|COMPLETED|ann|all|cpu=8,node=1{tres}|{constraint}\n"
        for number in range(first, first + count)
    )
    return HEADING + "".join(rows)


@pytest.fixture
def emulator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm.conf").write_text(CONF)

    def run(*words):
        done = emulate(*words)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


def mean_wait_min(emulator, log):
    scheduler = "scheduler={slurm: {conf: slurm.conf, select: {}}}"
    found = emulator("run", log, "--set", scheduler, "--out", "out", "--no-report", "--json")
    today = emulator(
        "whatif", "--log", log, "--slurm-conf", "slurm.conf", "--set", "bf_interval=-1", "--json"
    )
    assert today["groups"][0]["today_min"] == pytest.approx(found["mean_wait_s"] / 60)
    return round(found["mean_wait_s"] / 60), today["notes"]


@pytest.mark.parametrize(
    ("tres", "constraint", "expected"),
    [
        (",gres/gpu=1", "", 10),
        (",gres/gpu=1,gres/gpu:h100=1", "", 25),
        (",gres/gpu:A100=1", "", 25),
        ("", "ib", 25),
        (",gres/gpu:a100=1", "ib|gpu", 25),
    ],
)
def test_a_run_and_whatif_take_each_job_s_constraint_from_the_log(
    emulator, tmp_path, tres, constraint, expected
):
    """Twelve jobs of ten minutes on four nodes wait 10 minutes in the mean, on two of these 25."""
    (tmp_path / "log.txt").write_text(sacct(tres, constraint))
    wait_min, notes = mean_wait_min(emulator, "log.txt")
    assert wait_min == (10 if constraint == "ib|gpu" else expected)
    assert any("no node could meet ((ib|gpu)&gpu:a100)" in each for each in notes) == (constraint == "ib|gpu")
    assert any(each.startswith("features of nodes (gpu:a100, gpu:h100, ib): the log") for each in notes) == (
        tres == ",gres/gpu=1"
    )


def test_constraints_survive_a_conversion_to_swf(emulator, tmp_path):
    (tmp_path / "log.txt").write_text(
        sacct(",gres/gpu:h100=1", "", count=8) + sacct("", "ib|avx", count=4, first=9)[len(HEADING) :]
    )
    write_swf(load(tmp_path / "log.txt"), tmp_path / "log.swf")
    assert mean_wait_min(emulator, "log.swf") == mean_wait_min(emulator, "log.txt")


def test_sacct_json_says_constraints_and_types_of_gpus(tmp_path):
    count = {"set": True, "infinite": False, "number": 10}
    job = {
        "job_id": 1, "state": {"current": ["COMPLETED"]}, "association": {}, "user": "ann", "partition": "all",
        "time": {"submission": 100, "start": 100, "elapsed": 60, "limit": count},
        "allocation_nodes": 1, "constraints": "ib|avx", "derived_exit_code": {},
        "tres": {"allocated": [], "requested": [{"type": "gres", "name": "gpu:a100", "count": 2}]},
    }  # fmt: skip
    (tmp_path / "log.json").write_text(json.dumps({"jobs": [job]}))
    assert load(tmp_path / "log.json").names_of("Constraint") == {1: "(ib|avx)&gpu:a100"}


def test_whatif_says_where_nodes_are_shared_by_default_alone(emulator, tmp_path):
    (tmp_path / "log.txt").write_text(sacct("", ""))
    words = ("whatif", "--log", "log.txt", "--slurm-conf", "slurm.conf", "--set", "bf_interval=60", "--json")
    shared = "jobs share nodes, as slurm.conf says{} (whole nodes: --procs-per-node)"
    assert shared.format("") in emulator(*words)["notes"]
    lines = [line for line in CONF.splitlines() if not line.startswith("Select")]
    (tmp_path / "slurm.conf").write_text("\n".join(lines) + "\n")
    assert shared.format(" by the default of SelectType") in emulator(*words)["notes"]
    assert "jobs share nodes" not in " ".join(emulator(*words, "--release", "22.05")["notes"])
