"""What a Slurm must be set up for: a line for each thing that is not so, with what to do."""

from __future__ import annotations

import os
import socket
from datetime import datetime

import pytest

from balancer.drivers.base import NodeStatus, RefusedError, UnclearError
from balancer.drivers.slurm import SlurmDriver, SlurmSettings
from balancer.drivers.slurm_site import check_site
from balancer.drivers.slurm_text import parse_claims, parse_nodes, parse_reservations, status_of

NODES = ("n01", "n02", "n03")
HOOKS = "hooks are set on the controller (`balancer status` says when one came)"


@pytest.fixture
def site(recorded_config, monkeypatch):
    """`site(SuspendTime="NONE", ...)`: problems of a site that is the recorded one with these changes."""

    def make(*, user=0, level=None, awake_partition="", partition="", **changes):
        lines = [
            line for line in recorded_config.splitlines() if line.partition("=")[0].strip() not in changes
        ]
        config = "\n".join([*lines, *(f"{key:23} = {value}" for key, value in changes.items())]) + "\n"
        monkeypatch.setattr(os, "geteuid", lambda: user)

        def run(command):
            if "partition" in command:
                if not partition:
                    raise RefusedError("Partition lent not found")
                return f"PartitionName=lent Nodes=n01 {partition}\n"
            if command[0] != "sacctmgr":
                return config
            if level is None:
                raise RefusedError("no accounting")
            return f"{level}\n"

        found = check_site(run, "scontrol", NODES, awake_partition=awake_partition)
        return {each.what: each.problem for each in found if each.problem}

    return make


@pytest.fixture
def recorded_config(slurm_recording):
    return slurm_recording("config-power-saving.txt")


def test_power_saving_that_would_switch_lent_nodes_off_and_a_hook_that_is_missing_are_told(site):
    assert site() == {
        "power saving leaves lent nodes alone": "SuspendTime is 8 sec, and n01 and 1 more would be switched off while "
        "lent: set awake_partition (docs/balancer/drivers.md), or put them in SuspendExcNodes",
        HOOKS: "EpilogSlurmctld not set: jobs are seen at the next reading only (docs/balancer/drivers.md)",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"SuspendTime": "NONE"},
        {"SuspendTime": "INFINITE"},
        {"SuspendProgram": "(null)"},
        {"SuspendExcNodes": "n[01-09]"},
        {"SuspendExcStates": "DOWN,DRAIN"},
    ],
)
def test_power_saving_that_leaves_them_alone_is_no_problem(site, changes):
    assert site(EpilogSlurmctld="/etc/balancer/slurm-epilog", **changes) == {}


def test_nodes_that_are_excluded_by_number_only_are_not_safe(site):
    assert (
        "would be switched off" in site(SuspendExcNodes="n[01-03]:2")["power saving leaves lent nodes alone"]
    )


@pytest.mark.parametrize(("mode", "is_told"), [(None, True), (0o644, True), (0o755, False)], ids=str)
def test_on_the_controllers_host_a_hook_is_a_file_that_may_be_run(site, tmp_path, mode, is_told):
    here = socket.gethostname().partition(".")[0]
    prolog, epilog = tmp_path / "slurm-prolog", tmp_path / "slurm-epilog"
    epilog.touch(0o755)
    if mode is not None:
        prolog.touch(mode)
    keys = {"PrologSlurmctld": str(prolog), "EpilogSlurmctld": str(epilog), "SuspendTime": "NONE"}
    told = {HOOKS: f"PrologSlurmctld={prolog} is no file that may be run: slurmctld reports no job"}
    assert site(**keys, **{"SlurmctldHost[0]": f"{here}(192.0.2.1)"}) == (told if is_told else {})
    assert site(**keys, **{"SlurmctldHost[0]": "another"}) == {}


@pytest.mark.parametrize(
    ("release", "booted", "is_told"),
    [
        ("22.05.8", "2026-11-28T05:00:00", True),
        ("22.05.8", "2026-11-28T07:00:00", False),
        ("24.11.5", "2026-11-28T05:00:00", False),
    ],
)
def test_an_older_controller_takes_hooks_at_its_start_only(site, tmp_path, release, booted, is_told):
    slurm_conf, hook = tmp_path / "slurm.conf", tmp_path / "hook"
    slurm_conf.touch()
    hook.touch(0o755)
    changed_s = datetime.fromisoformat("2026-11-28T06:00:00").timestamp()
    os.utime(slurm_conf, (changed_s, changed_s))
    found = site(
        PrologSlurmctld=str(hook),
        EpilogSlurmctld=str(hook),
        SuspendTime="NONE",
        SLURM_CONF=str(slurm_conf),
        SLURM_VERSION=release,
        BOOT_TIME=booted,
        **{"SlurmctldHost[0]": socket.gethostname().partition(".")[0]},
    )
    assert [each.rpartition(": ")[2] for each in found.values()] == (["restart it"] if is_told else [])


@pytest.mark.parametrize(
    ("level", "remedy"),
    [
        (None, "sacctmgr add user 987654 account=root adminlevel=admin"),
        ("", "sacctmgr add user 987654 account=root adminlevel=admin"),
        ("None", "sacctmgr modify user 987654 set adminlevel=admin"),
    ],
)
def test_an_ordinary_user_may_not_drain_and_does_not_see_all_jobs(site, level, remedy):
    found = site(user=987654, level=level, PrivateData="jobs,usage", SuspendTime="NONE")
    assert found["may drain nodes"] == (
        "987654 is not root, nor known to be a Slurm administrator (an operator may not): " + remedy
    )
    assert "a hidden job would read as empty" in found["sees all jobs"]


@pytest.mark.parametrize(("level", "problems"), [("Administrator", set()), ("Operator", {"may drain nodes"})])
def test_an_operator_sees_all_jobs_and_only_an_administrator_may_drain(site, level, problems):
    found = site(user=987654, level=level, PrivateData="jobs", SuspendTime="NONE", EpilogSlurmctld="/e")
    assert set(found) == problems


@pytest.mark.parametrize(
    ("partition", "problem"),
    [
        ("State=INACTIVE SuspendTime=INFINITE", None),
        ("State=DOWN SuspendTime=INFINITE", None),
        ("", "there is no partition lent, so nothing is lent"),
        (
            "State=INACTIVE SuspendTime=GLOBAL",
            "SuspendTime of partition lent is GLOBAL: lent nodes are switched off",
        ),
        ("State=INACTIVE", "SuspendTime of partition lent is not known to this Slurm"),
        ("State=UP SuspendTime=INFINITE", "partition lent is UP, and jobs could be sent there"),
    ],
)
def test_the_partition_that_keeps_lent_nodes_awake_must_be_so(site, partition, problem):
    found = site(EpilogSlurmctld="/e", awake_partition="lent", partition=partition)
    said = found.pop("power saving leaves lent nodes alone", None)
    assert (said is None) == (problem is None)
    assert said is None or (said.startswith(problem) and "SuspendTime=INFINITE" in said)
    assert found == {}


def test_our_hooks_on_the_nodes_are_told_not_to_be_there(site):
    said = site(Prolog="/etc/balancer/slurm-prolog")[HOOKS]
    assert said.startswith("Prolog=/etc/balancer/slurm-prolog runs on the nodes")


def test_what_is_no_configuration_is_unclear():
    with pytest.raises(UnclearError, match="SlurmUser"):
        check_site(lambda _: "*** Welcome ***\n", "scontrol", NODES)


# Reservations

RESERVATION = (
    "ReservationName={} StartTime=2026-11-22T17:50:17 EndTime=2027-11-22T17:50:17 Duration=365-00:00:00 Nodes={} "
    "NodeCnt=1 CoreCnt=1 Features=(null) PartitionName=(null) Flags=IGNORE_JOBS,SPEC_NODES TRES=cpu=1 Users=root\n"
)


def test_only_reservations_of_ours_that_keep_their_own_node_count():
    text = RESERVATION.format("balancer-n02", "n02") + RESERVATION.format("balancer-n03", "n[01-03]")
    assert parse_reservations(text + RESERVATION.format("maintenance", "n01"), "balancer-") == {"n02"}
    assert parse_reservations("No reservations in the system\n", "balancer-") == frozenset()


def test_reservations_far_ahead_say_which_ledgers_claim_the_nodes():
    text = RESERVATION.format("balancer-claim-5f3a9c01", "n01") + RESERVATION.format("balancer-n02", "n02")
    assert parse_claims(text, "balancer-claim-") == {"5f3a9c01": "2026-11-22T17:50:17"}
    assert parse_claims("No reservations in the system\n", "balancer-claim-") == {}


@pytest.mark.parametrize("text", ["*** Monday ***\n", RESERVATION.format("balancer-n02", "n02")[:-1]])
def test_a_list_of_reservations_that_cannot_be_read_is_unclear(text):
    with pytest.raises(UnclearError):
        parse_reservations(text, "balancer-")


@pytest.mark.parametrize(
    ("states", "reason", "expected"),
    [
        ("IDLE+RESERVED", "", NodeStatus("offline", marked=True, is_ours=True)),
        ("IDLE", "", NodeStatus("offline", marked=True, is_ours=True)),
        ("IDLE+DRAIN+RESERVED", "broken", NodeStatus("offline", note="broken", is_foreign=True)),
        ("IDLE+RESERVED+NOT_RESPONDING", "", NodeStatus("down", marked=True, is_ours=True)),
    ],
)
def test_a_node_that_our_reservation_keeps_gets_no_job_also_when_it_was_resumed(states, reason, expected):
    because = f" Reason={reason} [root@2026-11-21T04:05:51]" if reason else ""
    tres = "CfgTRES=cpu=1 AllocTRES="
    line = parse_nodes(f"NodeName=n01 CPUAlloc=0 CPUTot=1 State={states} BootTime=None {tres}{because}\n")[
        "n01"
    ]
    assert status_of(line, (), note="balancer: lent", is_reserved=True) == expected


def test_what_holds_a_node_is_one_of_two():
    with pytest.raises(ValueError, match="hold must be drain or reservation, not 'rope'"):
        SlurmDriver(SlurmSettings(hold="rope"))
