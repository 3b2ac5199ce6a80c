"""What Slurm prints is read rightly or not at all, and humans' drains are left alone."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from balancer.drivers.base import NodeStatus, RefusedError, UnclearError
from balancer.drivers.slurm import SlurmDriver
from balancer.drivers.slurm_text import parse_jobs, parse_nodes, status_of
from balancer.plugins import BATCH_DRIVERS, make_plugin

RECORDINGS = Path(__file__).parent / "recordings" / "slurm"
HEADER = "JOBID|STATE|TIME_LEFT|NODELIST\n"
TRES = "CfgTRES=cpu=1 AllocTRES="


def recorded(name: str, folder: Path = RECORDINGS) -> str:
    return (folder / name).read_text(encoding="utf-8").split("--- stdout\n")[1].split("--- stderr")[0]


def reading(nodes: str, jobs: str) -> dict[str, NodeStatus]:
    held = parse_jobs(recorded(jobs))
    return {
        name: status_of(line, held.get(name, ()), note="balancer: lent to on-demand")
        for name, line in parse_nodes(recorded(nodes)).items()
    }


def state_of(states: str, *, jobs: str = "", cpus: int = 0, reason: str = "", more: str = "") -> NodeStatus:
    because = f" Reason={reason} [root@2026-11-21T04:05:51]" if reason else ""
    line = f"NodeName=n01 CPUAlloc={cpus} CPUTot=1 State={states} BootTime=None {TRES}{because}{more}\n"
    held = parse_jobs(HEADER + (f"{jobs}|RUNNING|1:00|n01\n" if jobs else ""))
    return status_of(parse_nodes(line)["n01"], held.get("n01", ()), note="balancer: lent to on-demand")


def test_a_busy_cluster_is_read_as_slurm_printed_it():
    assert reading("nodes-busy.txt", "jobs-running.txt") == {
        "n01": NodeStatus("busy", ("4",)),
        "n02": NodeStatus("busy", ("4",)),
        "n03": NodeStatus("busy", ("5",)),
    }


@pytest.mark.parametrize(
    "more",
    [
        " ReservationName=balancer-n01",
        " Comment=rack 7",
        " Comment=says Reason=fan [x@y] Extra=more words InstanceId=i-1 InstanceType=big ReservationName=a",
    ],
)
def test_what_slurm_prints_behind_the_reason_is_no_part_of_it(more):
    """A reservation in 26.05, a comment in all of them: our own drains read as somebody else's."""
    ours = state_of("IDLE+DRAIN", reason="balancer: lent to on-demand", more=more)
    assert (ours.is_ours, ours.note) == (True, "balancer: lent to on-demand")
    others = state_of("IDLE+DRAIN", reason="fan [2] Comment=loud", more=more)
    assert (others.is_foreign, others.note) == (True, "fan [2] Comment=loud")
    assert state_of("IDLE", more=more) == NodeStatus("idle")


def test_a_reason_that_24_11_leaves_behind_a_resume_is_none():
    assert state_of("IDLE", reason=" ") == NodeStatus("idle")
    assert state_of("IDLE", reason="balancer: lent to on-demand") == NodeStatus("idle")
    assert state_of("IDLE", reason="noisy | balancer: lent to on-demand") == NodeStatus("idle", note="noisy")


@pytest.mark.parametrize("more", [" Comment=row 7", " Extra=a=b", " Comment=moved [twice] Extra=Reason=x"])
def test_what_a_site_notes_on_a_node_is_no_part_of_our_reason(more):
    reason = "balancer: lent to on-demand"
    assert state_of("IDLE+DRAIN", reason=reason, more=more) == NodeStatus(
        "offline", (), reason, marked=True, is_ours=True
    )
    assert state_of("IDLE", more=more) == NodeStatus("idle")


def test_a_draining_node_is_not_handed_over_and_only_our_drain_is_marked():
    found = reading("nodes-draining.txt", "jobs-running.txt")
    reason = "balancer: lent to on-demand"
    assert found["n02"] == NodeStatus("offline", ("4",), reason, marked=True, is_ours=True)
    assert found["n01"] == NodeStatus("offline", ("4",), "disk broken, see ticket 17", is_foreign=True)
    assert not found["n02"].is_handed_over


def test_after_a_restart_of_the_controller_every_node_is_unknown():
    found = reading("nodes-after-restart.txt", "jobs-after-restart.txt")
    assert {status.state for status in found.values()} == {"unknown"}


@pytest.mark.parametrize(
    ("states", "how", "expected"),
    [
        ("IDLE", {}, "idle"),
        ("IDLE+PLANNED", {}, "idle"),
        ("IDLE", {"jobs": "7"}, "busy"),  # a suspended job's node may read idle
        ("IDLE", {"cpus": 1}, "unknown"),
        ("ALLOCATED", {"cpus": 1}, "busy"),
        ("MIXED", {"cpus": 1, "jobs": "7"}, "busy"),
        ("IDLE+COMPLETING", {}, "busy"),
        ("IDLE+DRAIN", {}, "offline"),
        ("IDLE+COMPLETING+DRAIN", {"jobs": "7"}, "offline"),
        ("IDLE+COMPLETING+DRAIN", {}, "unknown"),
        ("ALLOCATED+DRAIN", {"cpus": 1}, "unknown"),
        ("IDLE+DRAIN", {"cpus": 1}, "unknown"),
        ("UNKNOWN+DRAIN", {}, "unknown"),
        ("DOWN", {}, "down"),
        ("DOWN*+DRAIN", {}, "down"),
        ("DOWN+DRAIN+NOT_RESPONDING", {}, "down"),
        ("IDLE+NOT_RESPONDING", {}, "down"),
        ("IDLE*", {}, "down"),
        ("IDLE~", {}, "down"),
        ("IDLE+POWERED_DOWN", {}, "down"),
        ("IDLE+RESERVED", {}, "unknown"),
        ("IDLE+MAINTENANCE", {}, "unknown"),
        ("IDLE+FAIL", {}, "unknown"),
        ("IDLE+BRAND_NEW", {}, "unknown"),
        ("FUTURE", {}, "unknown"),
        ("IDLE+", {}, "unknown"),
    ],
)
def test_a_nodes_state_is_told_from_its_words(states, how, expected):
    assert state_of(states, **how).state == expected


@pytest.mark.parametrize(
    ("states", "is_off"),
    [
        ("IDLE+POWERED_DOWN", True),
        ("IDLE~", True),
        ("IDLE+POWERING_DOWN", False),
        ("IDLE+POWER_DOWN", False),
        ("IDLE+POWER_UP+POWERED_DOWN", False),
        ("IDLE+NOT_RESPONDING+POWERING_UP", False),
        ("DOWN+POWERED_DOWN", False),
        ("IDLE", False),
    ],
)
def test_only_a_node_that_is_quite_off_can_be_woken(states, is_off):
    assert state_of(states).is_off == is_off


@pytest.mark.parametrize(
    ("states", "is_asleep"),
    [
        ("IDLE~", True),
        ("IDLE#", True),
        ("IDLE%", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE+POWERING_DOWN", True),
        ("MIXED+POWERING_UP+NOT_RESPONDING", True),
        ("IDLE+POWER_DOWN", True),
        ("IDLE", False),
        ("IDLE*", False),
        ("DOWN+POWERED_DOWN", False),
    ],
)
def test_a_node_that_power_saving_switched_off_is_asleep_and_not_broken(states, is_asleep):
    found = state_of(states)
    assert (found.is_asleep, found.note) == (
        is_asleep,
        "asleep: power saving has switched it off" if is_asleep else "",
    )


def test_what_a_reason_says_is_not_taken_for_a_field():
    status = state_of("IDLE+DRAIN", reason="see State=IDLE CPUAlloc=0 NodeName=n02")
    assert (status.state, status.marked) == ("offline", False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "Node zz not found\n",
        "NodeName=n01 State=IDLE\n",
        f"NodeName=n01 CPUAlloc=0 {TRES}\n",
        "x\0\n",
    ],
)
def test_an_answer_about_nodes_that_cannot_be_right_is_unclear(text):
    with pytest.raises(UnclearError):
        parse_nodes(text)


@pytest.mark.parametrize(
    "line", ["7|RUNNING|1:00|", "7|RUNNING|1:00|n[01-", "7|RUNNING", "x|RUNNING|1:00|n1", "7|"]
)
def test_an_answer_about_jobs_that_cannot_be_right_is_unclear(line):
    for text in (f"{HEADER}{line}\n", f"{line}\n", "", f"{HEADER}7|RUNNING|1:00|n01"):
        with pytest.raises(UnclearError):
            parse_jobs(text)


@pytest.mark.parametrize("left", ["9:56", "2-01:00:00", "UNLIMITED", "INVALID"])
def test_a_job_is_read_whatever_time_it_has_left(left):
    jobs = parse_jobs(f"{HEADER}7_[1-3%2]|PENDING|1:00|\n7_4|RUNNING|{left}|n01\n")
    assert jobs == {"n01": ("7_4",)}


def test_only_nodes_that_nobody_has_drained_are_taken_and_only_ours_given_back(programs):
    programs.put("scontrol", f"[ $1 = update ] || sed -n '/^NodeName/p' '{RECORDINGS}/nodes-draining.txt'")
    driver = SlurmDriver()
    for change in (driver.reclaim_nodes, driver.restore_nodes):
        with pytest.raises(
            RefusedError, match=r"^n01 is drained by somebody else \(disk broken, see ticket 17\)$"
        ):
            change(["n01", "n02", "n03"])
    assert [call for call in programs.calls if "update" in call] == [
        "scontrol update nodename=n03 state=drain reason=balancer: lent to on-demand",
        "scontrol update nodename=n02 state=resume reason= ",
    ]


@pytest.mark.parametrize(
    "values", [{"mark": ""}, {"mark": "a:b"}, {"timeout_s": 0}, {"timeout_s": "1"}, {"qmgr": "x"}]
)
def test_wrong_settings_are_named(values):
    with pytest.raises(ValueError, match=next(iter(values))):
        make_plugin(BATCH_DRIVERS, {"slurm": values})


def test_openpbs_is_told_in_its_own_words(programs):
    node = '{"state": "free", "resources_assigned": {}}'
    answer = f'{{"pbs_server": "s", "nodes": {{"p01": {node}, "p02": {node}}}}}'
    programs.put("pbsnodes", f"[ $1 != -av ] || echo '{answer}'")
    programs.put("qmgr", "exit 0")
    driver = make_plugin(BATCH_DRIVERS, {"openpbs": {"comment": "lent"}})
    driver.reclaim_nodes(["p01", "p02"])
    driver.restore_nodes(["p01"])
    assert [call for call in programs.calls if "-av" not in call] == [
        "pbsnodes -o -C lent p01 p02",
        "pbsnodes -r -C  p01",
        "qmgr -c set server scheduling = True",
    ]


def test_every_declared_driver_exists_and_bears_its_name():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    declared = project["project"]["entry-points"]["balancer.batch_drivers"]
    for name, place in declared.items():
        module, _, kind = place.partition(":")
        assert getattr(importlib.import_module(module), kind).name == name
