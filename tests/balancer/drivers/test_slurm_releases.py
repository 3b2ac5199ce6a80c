"""What Slurm 22.05, 24.11 and 26.05 print for the same changes is read alike; what is unknown is never idle."""

from __future__ import annotations

import pytest

from balancer.drivers.base import UnclearError
from balancer.drivers.slurm_site import parse_config
from balancer.drivers.slurm_text import (
    Partition,
    parse_jobs,
    parse_nodes,
    parse_partition,
    parse_reservations,
    status_of,
)
from testdata import RECORDED

RELEASES = ("22.05", "24.11", "26.05")
NAMES = ("n01", "n02", "n03", "n04", "n05")
IDLE = dict.fromkeys(NAMES, "idle")
BUSY = IDLE | {"n01": "busy"}
LENT = IDLE | {"n01": "offline, ours"}  # its job goes on
ODD = {"n02": "down", "n03": "unknown", "n05": "down, asleep"}
"""Rebooted, failing (FAIL), switched off."""
READ = {
    "idle": IDLE,
    "busy": BUSY,
    "drained-and-reserved": LENT | {"n02": "offline, ours"},
    "down-while-reserved": LENT | {"n02": "down, foreign"},
    "fail-reboot-maintenance-powering-down": LENT | ODD | {"n04": "unknown"},
    "maintenance-drained-powered-down": LENT | ODD | {"n04": "unknown, ours"},
    "powering-up": LENT | ODD | {"n04": "unknown, ours"},
    "reboot-requested-while-busy": IDLE | {"n01": "unknown, foreign", "n02": "down", "n05": "down, asleep"},
    "planned": BUSY | {"n02": "down", "n05": "down, asleep"},  # n03 is PLANNED
    "after-restart": dict.fromkeys(NAMES, "unknown") | {"n02": "down", "n05": "down, asleep"},
}
SOONER_OR_LATER = {
    # Whether the reboot had begun, and whether a node had registered, when it was asked.
    ("26.05", "fail-reboot-maintenance-powering-down", "n02"): "unknown",
    ("24.11", "after-restart", "n01"): "idle",
    ("26.05", "after-restart", "n01"): "busy",
}


@pytest.fixture(params=RELEASES)
def release(request):
    return request.param


def said(release: str, name: str) -> str:
    text = (RECORDED / "slurm" / release / f"{name}.txt").read_text(encoding="utf-8")
    return text.split("--- stdout\n")[1].split("--- stderr")[0]


def in_words(status) -> str:
    words = {"ours": status.is_ours, "foreign": status.is_foreign, "asleep": status.is_asleep}
    return ", ".join([status.state, *(word for word, is_so in words.items() if is_so)])


@pytest.mark.parametrize("when", READ)
def test_nodes_are_read_alike_in_each_release(release, when):
    jobs = {} if when in ("idle", "after-restart") else parse_jobs(said(release, "jobs-running"))
    found = {
        name: in_words(status_of(line, jobs.get(name, ()), note="balancer: lent to on-demand"))
        for name, line in parse_nodes(said(release, f"nodes-{when}")).items()
    }
    wanted = {name: SOONER_OR_LATER.get((release, when, name), word) for name, word in READ[when].items()}
    assert found == wanted


def test_the_reason_ends_before_comment_extra_and_reservation(release):
    lines = parse_nodes(said(release, "nodes-down-while-reserved"))
    assert "Comment=a comment Extra=more words" in said(release, "nodes-down-while-reserved")
    assert lines["n02"].reason == "fan [2]"
    later = parse_nodes(said(release, "nodes-maintenance-drained-powered-down"))
    assert later["n04"].reason == "balancer: lent to on-demand"


def test_jobs_reservations_and_partitions_are_read_alike_in_each_release(release):
    assert parse_jobs(said(release, "jobs-none")) == {}
    running = {"n01": ("1",)}
    assert parse_jobs(said(release, "jobs-running")) == running
    waits, goes_on = parse_jobs(said(release, "jobs-pending")), {"n01"}
    assert waits.keys() == goes_on
    assert parse_reservations(said(release, "reservation-none"), "balancer-") == frozenset()
    assert parse_reservations(said(release, "reservation"), "balancer-") == {"n02"}
    own_time = "" if release == "22.05" else "GLOBAL"
    assert parse_partition(said(release, "partition"), "batch") == Partition(frozenset(NAMES), "UP", own_time)


def test_a_controller_that_does_not_answer_leaves_nothing_that_reads_as_no_nodes_or_no_jobs(release):
    for name, read in (("nodes-no-controller", parse_nodes), ("jobs-no-controller", parse_jobs)):
        assert said(release, name) == ""
        with pytest.raises(UnclearError):
            read(said(release, name))


def test_the_configuration_of_each_release_names_who_runs_it_and_its_power_saving(release):
    found = parse_config(said(release, "config"))
    assert found["SLURM_VERSION"].startswith(f"{release}.")
    assert (found["SlurmUser"], found["SuspendTime"], found["SuspendProgram"]) == (
        "root(0)", "100000 sec", "/bin/true",
    )  # fmt: skip


def test_of_several_scripts_none_is_lost():
    """From 23.11 on each has a line of its own."""
    lines = (
        "SlurmUser = slurm(64030)\nPrologSlurmctld[0] = /etc/site\nPrologSlurmctld[1] = /etc/slurm-prolog\n"
    )
    assert parse_config(lines)["PrologSlurmctld"] == "/etc/site,/etc/slurm-prolog"
