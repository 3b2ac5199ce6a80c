"""What the twin of Slurm is told the real one hears, or the run is refused with the key."""

import os
import pwd
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.slurm_scheduler import Slurm
from emulator.live.slurm.requirements import (
    check_constraints,
    check_fair_shares,
    check_limits_of_users,
    check_partitions,
    check_qos,
    unheard_setting,
)
from emulator.live.slurm.system import SlurmSystem
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.workload.table import JobTable

VALUES = {
    "conf": "site.conf", "queues": {1: "batch"}, "shares": {1: 2.0}, "qos": {"normal": {"priority": 1}},
    "queue_qos": {1: "normal"}, "qos_names": {1: "normal"}, "user_qos": {1: "normal"}, "priority_type": "multifactor",
    "reservations": {"r": {"start_s": 10, "end_s": 20}}, "select": {"cores": 4},
    "features": {"ib": "n001"}, "constraint_names": {1: "ib"}, "queue_constraint": {1: "ib"},
    "user_constraint": {1: "ib"}, "associations": "assoc.txt", "users": {1: "ann"}, "accounts": {1: "physics"},
    "release": "26.05", "preempt_type": "partition_prio", "preempt_mode": "requeue",
    "priority_fair_tree": False,
}  # fmt: skip
CARRIED_OUT = {"reservations", "select", "release"} | {  # release: by other_release
    "features", "constraint_names", "queue_constraint", "user_constraint",
}  # fmt: skip
IN_THE_DATABASE = {"qos", "queue_qos", "user_qos", "cpus_per_node", "shares"}
SWITCHES = {each.name for each in fields(Slurm) if each.name not in VALUES and "bool" in str(each.type)}


def a_scenario(key):
    value = VALUES.get(key, key in SWITCHES or 7)
    return from_mapping(
        {
            "name": "told", "nodes": 16, "workload": {"generate": [{"daily_batch": {"days": 0.02, "jobs": 2}}]},
            "scheduler": {"slurm": {key: value}}, "live": {"batch": "slurm"},
        }
    )  # fmt: skip


TOLD = [["modify", "qos", "normal", "set", "GrpJobs=1"], ["modify", "user", "ann", "set", "fairshare=2"]]


@pytest.mark.parametrize("told", [None, TOLD])
@pytest.mark.parametrize("key", [each.name for each in fields(Slurm)])
def test_each_key_of_the_twin_is_heard_or_named(key, told):
    said = unheard_setting(a_scenario(key), {}, told)
    is_heard = key in CARRIED_OUT | (IN_THE_DATABASE if told else set())
    assert said == "" if is_heard else said.startswith(f"scheduler.slurm.{key}: ")


@pytest.mark.parametrize(("key", "line"), [("qos", 0), ("user_qos", 0), ("shares", 1)])
def test_what_sacctmgr_is_not_told_is_named(key, line):
    said = unheard_setting(a_scenario(key), {}, [TOLD[1 - line]])
    assert said.endswith("say it in live.batch.slurm.sacctmgr, or leave it out")


def test_a_run_whose_limits_the_real_slurm_would_not_enforce_does_not_begin():
    system = SlurmSystem(accounting="slurmdbd", sacctmgr=["modify qos normal set GrpJobs=1"])
    with pytest.raises(ScenarioError, match=r"^scheduler\.slurm\.qos: .* AccountingStorageEnforce=limits"):
        system.check(a_scenario("qos"), None, None, None)


def test_a_run_with_a_key_that_slurm_would_not_hear_does_not_begin():
    with pytest.raises(ScenarioError, match=r"^scheduler\.slurm\.bf_interval: .* live\.batch\.slurm\.conf"):
        SlurmSystem().check(a_scenario("bf_interval"), None, None, None)


def test_what_live_batch_says_as_well_is_heard():
    said = {"conf": Path("site.conf"), "queues": {1: "batch"}}
    assert [unheard_setting(a_scenario(key), said, None) for key in said] == ["", ""]


LOG = """; Queue: 1 debug
; Queue: 2 gone
; MaxNodes: 4
1 0 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1
2 5 0 60 1 -1 -1 1 60 -1 1 1 1 -1 2 -1 -1 -1
"""
CONF = """NodeName=n[001-004]
PartitionName=batch Nodes=ALL Default=YES
PartitionName=debug Nodes=n001
"""


@pytest.fixture
def named_queues(tmp_path):
    """A log whose first queue has the name of a partition, under that slurm.conf in both clocks."""
    (tmp_path / "log.swf").write_text(LOG)
    (tmp_path / "slurm.conf").write_text(CONF)
    conf = str(tmp_path / "slurm.conf")
    return from_mapping(
        {
            "name": "named", "nodes": 4, "workload": {"trace": str(tmp_path / "log.swf")},
            "scheduler": {"slurm": {"conf": conf}}, "live": {"batch": {"slurm": {"conf": conf}}},
        }
    )  # fmt: skip


def test_queues_go_to_the_partitions_of_their_names_in_both_clocks_or_the_run_is_refused(named_queues):
    prepared = prepare(named_queues)
    with pytest.raises(ScenarioError, match=r"^live\.batch\.slurm\.partitions: .*\{1: debug\}"):
        check_partitions(named_queues, prepared, {})
    check_partitions(named_queues, prepared, {1: "debug"})


def test_a_run_names_the_queues_that_have_no_partition(named_queues):
    record = run_virtual(named_queues, prepare(named_queues))
    conf = named_queues.scheduler_config.decide["slurm"]["conf"]
    assert f"no such partition in {conf}, taken for the default one: gone" in record.not_followed


def test_a_log_that_says_the_qos_of_each_job_is_refused_where_the_twin_alone_would_follow_it(tmp_path):
    (tmp_path / "log.txt").write_text(
        "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|State|AllocNodes|QOS\n"
        "1|100|100|60|2|COMPLETED|1|high\n2|100|100|60|2|COMPLETED|1|normal\n"
    )
    document = {"name": "qos", "nodes": 4, "workload": {"trace": str(tmp_path / "log.txt")}}
    table = {"scheduler": {"slurm": {"qos": {"high": {"Priority": 1}, "normal": {}}}}}
    with pytest.raises(ScenarioError, match=r"^scheduler\.slurm\.qos: .* the log says of each"):
        check_qos(from_mapping(document | table), prepare(from_mapping(document | table)))
    without = from_mapping(document | {"scheduler": "slurm"})
    check_qos(without, prepare(without))


def test_constraints_of_a_log_are_said_for_the_real_slurm_too_and_where_jobs_share_nodes(tmp_path):
    (tmp_path / "log.txt").write_text(
        "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|State|AllocNodes|AllocCPUS|Constraints\n"
        "1|100|100|60|2|COMPLETED|1|1|ib\n2|100|100|60|2|COMPLETED|1|1|\n"
    )

    def said(**slurm):
        document = {"name": "ib", "nodes": 4, "workload": {"trace": str(tmp_path / "log.txt")}}
        return from_mapping(document | {"scheduler": {"slurm": slurm}})

    def check(**slurm):
        check_constraints(said(**slurm), prepare(said(**slurm)))

    features, names, select = {"ib": "n002"}, {1: "ib"}, {"cores": 4}
    with pytest.raises(ScenarioError, match=r"^scheduler\.slurm\.constraint_names: .* \{1: 'ib'\}"):
        check(features=features, select=select)
    with pytest.raises(ScenarioError, match=r"constraints are for virtual time .* say `select`"):
        check(features=features, constraint_names=names)
    check(features=features, constraint_names=names, select=select)
    check()  # no node has the feature: in both clocks the jobs have any


JOBS_OF_TWO = JobTable.build(
    submit_us=[0, 0], run_us=[US, US], estimate_us=[US, US], nodes=[1, 1], user=[4, 7]
)


@pytest.mark.parametrize(
    "line",
    [
        "SchedulerParameters=bf_interval=60,bf_max_job_user=3",
        "SchedulerParameters=bf_max_job_user_part=1",
        "modify qos normal set MaxJobsPerUser=2",
        "modify qos normal set MaxTRESPU=node=4",
    ],
)
def test_a_limit_of_each_user_wants_a_user_of_this_machine_for_each_of_the_trace(line):
    """On all three releases bf_max_job_user=3 doubled the waits of a slice whose 20 users were one to Slurm."""
    for users in ({}, {4: "ann", 7: "ann"}, {4: pwd.getpwuid(os.geteuid()).pw_name}):
        with pytest.raises(ScenarioError, match="is for each user, and 2 users of the trace would be 1"):
            check_limits_of_users([line], JOBS_OF_TWO, users)
    check_limits_of_users([line], JOBS_OF_TWO, {4: "ann"})


@pytest.mark.parametrize(
    "line",
    [
        "SchedulerParameters=bf_max_job_user=0,bf_max_job_part=2",
        "modify qos normal set MaxJobsPU=-1",
        "modify qos normal set MaxTRESPU=node=-1",
    ],
)
def test_what_is_no_limit_of_each_user_wants_nobody(line):
    check_limits_of_users([line], JOBS_OF_TWO, {})


def test_fair_shares_want_a_user_of_this_machine_for_each_of_the_trace_and_no_accounts():
    me = pwd.getpwuid(os.geteuid()).pw_name
    workload = {"generate": [{"daily_batch": {"days": 0.1, "jobs": 5, "load": 0.5}}]}
    fair = {"priority_type": "multifactor", "priority_weight_fairshare": 1}
    document = {"nodes": 4, "workload": workload}
    asked = from_mapping(document | {"scheduler": {"slurm": fair}})
    prepared = prepare(asked)
    prepared = replace(prepared, jobs=replace(prepared.jobs, user=np.array([4, 7, 4, 7, 4])))
    for users, accounts in (({}, {}), ({4: me}, {}), ({4: "ann"}, {7: "physics"})):
        with pytest.raises(
            ScenarioError, match=r"PriorityWeightFairshare: .* live\.batch\.slurm\.users, and no accounts"
        ):
            check_fair_shares(asked, prepared, users, accounts)
    check_fair_shares(asked, prepared, {4: "ann"}, {})
    check_fair_shares(from_mapping(document), prepared, {}, {})
    without = {"priority_type": "multifactor", "priority_weight_age": 1}
    check_fair_shares(from_mapping(document | {"scheduler": {"slurm": without}}), prepared, {}, {})


def test_associations_are_said_in_the_words_of_a_live_run():
    said = unheard_setting(a_scenario("associations"), {}, TOLD)
    assert "say the same in live.batch.slurm.users, accounts and sacctmgr" in said
