"""What a scenario asks of the twin and of the real Slurm alike: what scontrol, sbatch and slurm.conf are told."""

import re
import subprocess

import pytest

from balancer.clock import US
from emulator.live.process import FleetProcessError
from emulator.live.slurm.requirements import SlurmRequirements
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.schedulers.slurm.conf_fragment import Fragment, gres_conf, slurm_conf
from emulator.schedulers.slurm.select import Select, SharedNodes, Size
from emulator.workload.table import JobTable, Kind

NAMES = tuple(f"n{number:03}" for number in range(1, 5))


def asked_of(scheduler):
    workload = {"generate": [{"daily_batch": {"days": 0.1, "jobs": 5, "load": 0.5}}]}
    return SlurmRequirements.by(
        from_mapping({"nodes": 4, "workload": workload, "scheduler": scheduler}), NAMES
    )


def asked(**slurm):
    return asked_of({"slurm": slurm})


def jobs(**columns):
    return JobTable.build(submit_us=[0, US, 2 * US], run_us=[US] * 3, nodes=[1, 2, 1], **columns)


def test_reservations_are_created_at_their_times_for_whoever_submits(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    said = {
        "downtime": {"start_s": 3600, "end_s": 7200},
        "course": {"start_s": 0, "end_s": 600, "nodes": "n[001-002,004]", "users": [7]},
    }
    told = []
    asked(reservations=said).make_reservations(lambda *words: told.append(words), ["alice"], 1_767_225_600)
    create = ("scontrol", "create", "reservation")
    assert told == [
        (
            *create, "ReservationName=course", "StartTime=now", "EndTime=2026-01-01T00:10:00",
            "Nodes=n[001-002,004]", "Users=alice,root",
        ),
        (
            *create, "ReservationName=downtime", "StartTime=2026-01-01T01:00:00", "EndTime=2026-01-01T02:00:00",
            "Nodes=n[001-004]", "Users=alice,root",
        ),
    ]  # fmt: skip


def test_what_scontrol_says_of_one_that_it_refuses_is_told():
    def refuse(*words):
        raise subprocess.CalledProcessError(1, words, "", "Invalid time specified\n")

    with pytest.raises(FleetProcessError, match=r"scontrol create reservation .*: Invalid time specified$"):
        asked(reservations={"r": {"start_s": 5, "end_s": 9}}).make_reservations(refuse, [], 0)


def test_a_reservation_that_cannot_be_is_refused_before_the_run():
    with pytest.raises(ScenarioError, match="scheduler: slurm: reservation r: there is no node n009"):
        asked(reservations={"r": {"start_s": 0, "end_s": 9, "nodes": "n009"}})


def test_jobs_ask_for_their_reservation_and_their_part_of_nodes():
    mine = {"mine": {"start_s": 0, "end_s": 9, "users": [7], "jobs": [3]}}
    batch = jobs(user=[7, 1, 1])
    reserved = ["--reservation=mine"]
    assert asked(reservations=mine).options(batch) == {1: reserved, 3: reserved}
    lease = jobs(user=7, kind=[Kind.ON_DEMAND, Kind.BATCH, Kind.ON_DEMAND])
    assert asked(reservations=mine).options(lease) == {2: reserved}
    wants = batch.with_extra(cores=batch.nodes * 2, memory_kib=batch.nodes * 1000)
    select = {"cores": 8, "parameters": "CR_Core_Memory", "memory_mb": 64}
    assert asked(reservations=mine, select=select).options(wants) == {
        1: [*reserved, "--ntasks-per-node=1", "--cpus-per-task=2", "--mem=1M"],
        2: ["--ntasks-per-node=1", "--cpus-per-task=4", "--mem=2M"],
        3: [*reserved, "--ntasks-per-node=1", "--cpus-per-task=2", "--mem=1M"],
    }
    assert asked(select={"cores": 8}).options(batch)[2] == ["--ntasks-per-node=1", "--cpus-per-task=8"]
    some = batch.with_extra(gpus=[2, 0, -1])
    assert [each[2:] for each in asked(select={"cores": 8, "gpus": 4}).options(some).values()] == [
        ["--gres=gpu:2"],
        [],
        [],
    ]


def test_jobs_ask_for_the_features_of_their_nodes_and_these_have_a_line_for_each_set_of_them(tmp_path):
    said = {"features": {"ib": "n[001-002]", "gpu:a100": "n002"}, "user_constraint": {7: "ib&gpu:a100"}}
    found = asked(select={"cores": 8}, **said)
    options = found.options(jobs(user=[7, 1, 1]))
    assert [each[2:] for each in options.values()] == [["--constraint=ib&gpu_a100"], [], []]
    text = conf_of(Select(8).on(3), tmp_path, found.features)
    lines = [line.split() for line in text.splitlines() if line.startswith("NodeName=")]
    assert [(words[0], *(word for word in words if word.startswith("Feature="))) for words in lines] == [
        ("NodeName=n001", "Feature=ib"),
        ("NodeName=n002", "Feature=gpu_a100,ib"),
        ("NodeName=n003",),
    ]


def test_other_schedulers_ask_for_nothing():
    found = asked_of("fcfs+easy")
    assert (found.options(jobs()), found.shared) == ({}, None)


def conf_of(shared, folder, features=None):
    nodes = len(shared.sizes)
    return slurm_conf(
        Fragment(), NAMES[:nodes], home=folder, spool=folder, log=folder, jobcomp=folder, host="here", user="me",
        port=1, node_ports=range(2, 2 + nodes), speed=1, hooks={}, shared=shared, features=features,
    )  # fmt: skip


def test_the_slurm_conf_of_jobs_that_share_nodes(tmp_path):
    text = conf_of(Select(8, "CR_Core_Memory", 64, 2).on(1), tmp_path)
    lines = text.splitlines()
    shared = {"SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory", "GresTypes=gpu"}
    assert shared <= set(lines)
    (node,) = [line for line in lines if line.startswith("NodeName=")]
    shape = "CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64 Gres=gpu:2"
    assert shape in node
    assert "EXCLUSIVE" not in text


MIXED = SharedNodes("CR_Core", (Size(8, 0, 0), Size(4, 0, 4), Size(8, 0, 0), Size(4, 0, 1)), (1, 9, 1, 1))


def test_nodes_of_each_size_have_a_line(tmp_path):
    lines = [line for line in conf_of(MIXED, tmp_path).splitlines() if line.startswith("NodeName=")]
    assert [
        re.sub(r" NodeHostname=\S+ NodeAddr=\S+| Boards=.* RealMemory=1| State=UNKNOWN", "", line)
        for line in lines
    ] == [
        "NodeName=n[001,003] Port=[2,4] CPUs=8 Weight=1",
        "NodeName=n002 Port=3 CPUs=4 Gres=gpu:4 Weight=9",
        "NodeName=n004 Port=5 CPUs=4 Gres=gpu:1 Weight=1",
    ]


def test_the_gres_conf_has_a_file_for_each_gpu(tmp_path):
    files = [tmp_path / f"gpu{number:03}" for number in range(4)]
    assert gres_conf(NAMES, MIXED, files) == (
        "AutoDetect=off\n"
        f"NodeName=n002 Name=gpu File={tmp_path}/gpu[000-003]\n"
        f"NodeName=n004 Name=gpu File={tmp_path}/gpu000\n"
    )
