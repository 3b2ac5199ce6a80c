"""The Slurm driver and the controller hooks against a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

import balancer
from balancer.drivers.base import NodeStatus, RefusedError, UnreachableError

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def slurm(tmp_path, monkeypatch, real_slurm, kit):
    running = real_slurm(tmp_path, monkeypatch)
    try:
        running.start()
        yield running
    finally:
        running.close(kit.eventually)


def state(slurm, node):
    return slurm.driver.get_status_of_nodes([node])[node]


def test_the_driver_lends_and_gives_back_on_a_real_slurm(slurm, kit):
    kit.contract(slurm, "n01", "n02")
    assert slurm.driver.get_status_of_all_nodes(remaining=True) == dict.fromkeys(
        ("n01", "n02", "n03"), NodeStatus("idle")
    )


def test_a_reservation_keeps_a_lent_node_that_somebody_resumes(tmp_path, monkeypatch, real_slurm, kit):
    slurm = real_slurm(tmp_path, monkeypatch, hold="reservation")
    try:
        slurm.start()
        kit.contract(slurm, "n01", "n02")
        slurm.driver.reclaim_nodes(["n01"])
        slurm.scontrol("update", "nodename=n01", "state=resume")
        slurm.start_job("n01")
        said = ("show", "job", slurm.jobs["n01"])
        kit.eventually(lambda: "Reason=None" not in slurm.scontrol(*said))  # it has been looked at
        assert "JobState=PENDING" in slurm.scontrol(*said)
        kept = NodeStatus("offline", marked=True, is_ours=True)
        kit.eventually(lambda: state(slurm, "n01") == kept)
        slurm.driver.restore_nodes(["n01"])
        kit.eventually(lambda: state(slurm, "n01").jobs == (slurm.jobs["n01"],))
        assert slurm.scontrol("show", "reservation").startswith("No reservations")
    finally:
        slurm.close(kit.eventually)


def test_a_restarted_controller_never_makes_a_busy_node_handed_over(slurm, kit):
    kit.eventually(lambda: state(slurm, "n02").state == "idle")
    slurm.start_job("n02")
    kit.eventually(lambda: state(slurm, "n02").jobs)
    slurm.driver.reclaim_nodes(["n01", "n02"])
    left_us = slurm.driver.get_status_of_all_nodes(remaining=True)["n02"].remaining_us
    assert 500_000_000 < left_us <= 600_000_000
    slurm.stop_controller(kit.eventually)
    with pytest.raises(UnreachableError):
        slurm.driver.get_status_of_all_nodes()
    slurm.start_controller()

    def settled():
        try:
            busy = state(slurm, "n02")
        except UnreachableError:
            return False
        assert not busy.is_handed_over
        assert busy.state != "idle"
        return busy.state == "offline" and busy.marked and state(slurm, "n01").is_handed_over

    kit.eventually(settled)


def test_a_node_that_a_human_drained_is_left_to_the_human(slurm, kit):
    kit.eventually(lambda: state(slurm, "n03").state == "idle")
    slurm.scontrol("update", "nodename=n03", "state=drain", "reason=disk broken, ticket 17")
    for change in (slurm.driver.reclaim_nodes, slurm.driver.restore_nodes):
        with pytest.raises(RefusedError, match=r"drained by somebody else .disk broken, ticket 17."):
            change(["n03"])
    assert state(slurm, "n03") == NodeStatus("offline", (), "disk broken, ticket 17", is_foreign=True)


def test_the_controller_runs_our_hooks_and_jobs_run_whatever_they_do(tmp_path, monkeypatch, real_slurm, kit):
    command = tmp_path / "balancer"
    log = tmp_path / "told"
    command.write_text(f'#!/bin/sh\necho "$* $SLURM_JOB_NODELIST" >> "{log}"\nexit 1\n', encoding="utf-8")
    command.chmod(0o755)
    scripts = Path(balancer.__file__).parent / "hook_scripts"
    lines = ""
    for name, key in (("prolog", "PrologSlurmctld"), ("epilog", "EpilogSlurmctld")):
        installed = tmp_path / name
        text = (scripts / f"slurm-{name}").read_text(encoding="utf-8")
        installed.write_text(text.replace("${BALANCER_COMMAND:-balancer}", str(command)), encoding="utf-8")
        installed.chmod(0o755)
        lines += f"{key}={installed}\n"
    slurm = real_slurm(tmp_path / "slurm", monkeypatch, hooks=lines)
    try:
        slurm.start()
        kit.eventually(lambda: state(slurm, "n01").state == "idle")
        slurm.start_job("n01")
        kit.eventually(lambda: state(slurm, "n01").jobs)
        slurm.end_job("n01")
        told = ["hook slurm-prolog n01", "hook slurm-epilog n01"]
        kit.eventually(lambda: log.exists() and log.read_text(encoding="utf-8").splitlines() == told)
        kit.eventually(lambda: state(slurm, "n01").state == "idle")
    finally:
        slurm.close(kit.eventually)
