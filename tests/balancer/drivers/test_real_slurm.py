"""The Slurm driver and the controller hooks against a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

import balancer
from balancer.drivers.base import NodeStatus, RefusedError, UnreachableError
from balancer.drivers.slurm import SlurmDriver
from polling import until

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def slurm(tmp_path, monkeypatch, real_slurm):
    running = real_slurm(tmp_path, monkeypatch)
    try:
        running.start()
        yield running
    finally:
        running.close()


def state(slurm, node):
    return slurm.driver.get_status_of_nodes([node])[node]


def test_the_driver_lends_and_gives_back_on_a_real_slurm(slurm, kit):
    kit.contract(slurm, "n01", "n02")
    assert slurm.driver.get_status_of_all_nodes() == dict.fromkeys(("n01", "n02", "n03"), NodeStatus("idle"))


def test_a_reservation_keeps_a_lent_node_that_somebody_resumes(tmp_path, monkeypatch, real_slurm, kit):
    slurm = real_slurm(tmp_path, monkeypatch, hold="reservation")
    try:
        slurm.start()
        kit.contract(slurm, "n01", "n02")
        slurm.driver.reclaim_nodes(["n01"])
        slurm.scontrol("update", "nodename=n01", "state=resume")
        slurm.start_job("n01")
        said = ("show", "job", slurm.jobs["n01"])
        until(lambda: "Reason=None" not in slurm.scontrol(*said))  # it has been looked at
        assert "JobState=PENDING" in slurm.scontrol(*said)
        kept = NodeStatus("offline", marked=True, is_ours=True)
        until(lambda: state(slurm, "n01") == kept)
        slurm.driver.restore_nodes(["n01"])
        until(lambda: state(slurm, "n01").jobs == (slurm.jobs["n01"],))
        assert slurm.scontrol("show", "reservation").startswith("No reservations")
    finally:
        slurm.close()


def test_a_claim_is_a_reservation_that_keeps_no_job_off_and_leaves_others_alone(slurm):
    slurm.scontrol("update", "nodename=n01", "comment=row 7")
    slurm.driver.renew_claim("0badcafe")
    (first,) = slurm.driver.read_claims().items()
    until(lambda: slurm.driver.renew_claim("0badcafe") or (*slurm.driver.read_claims().items(),) != (first,))
    for node in ("n01", "n02", "n03"):
        until(lambda node=node: state(slurm, node) == NodeStatus("idle"))
        slurm.start_job(node)
        until(lambda node=node: state(slurm, node).jobs)
    slurm.driver.renew_claim("5f3a9c01", instead_of=("0badcafe",))
    assert slurm.driver.read_claims().keys() == {"5f3a9c01"}


def test_a_restarted_controller_never_makes_a_busy_node_handed_over(slurm):
    until(lambda: state(slurm, "n02").state == "idle")
    slurm.start_job("n02")
    until(lambda: state(slurm, "n02").jobs)
    slurm.driver.reclaim_nodes(["n01", "n02"])
    slurm.stop_controller()
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

    until(settled)


def test_a_node_that_a_human_drained_is_left_to_the_human(slurm):
    until(lambda: state(slurm, "n03").state == "idle")
    slurm.scontrol("update", "nodename=n03", "state=drain", "reason=disk broken, ticket 17")
    for change in (slurm.driver.reclaim_nodes, slurm.driver.restore_nodes):
        with pytest.raises(RefusedError, match=r"drained by somebody else .disk broken, ticket 17."):
            change(["n03"])
    assert state(slurm, "n03") == NodeStatus("offline", (), "disk broken, ticket 17", is_foreign=True)


def test_the_controller_runs_our_hooks_and_jobs_run_whatever_they_do(tmp_path, monkeypatch, real_slurm):
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

    def told():
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    slurm = real_slurm(tmp_path / "slurm", monkeypatch, hooks=lines)
    try:
        slurm.start()
        until(lambda: state(slurm, "n01").state == "idle")
        slurm.start_job("n01")
        # A job that ends while its prolog still runs has its epilog beside it, and either may be the first.
        until(lambda: state(slurm, "n01").jobs and told() == ["hook slurm-prolog n01"])
        slurm.end_job("n01")
        until(lambda: told() == ["hook slurm-prolog n01", "hook slurm-epilog n01"])
        until(lambda: state(slurm, "n01").state == "idle")
    finally:
        slurm.close()


def test_a_second_service_by_mistake_drains_nothing_and_the_first_goes_on(slurm, world, tmp_path):
    """Each with a ledger of its own, on the same nodes; the first has a node, gives it back, and takes others."""

    def service(name, **options):
        (tmp_path / name).mkdir()
        driver = SlurmDriver(slurm.driver.settings)
        made = world(folder=tmp_path / name, nodes=3, has_cloud=False, driver=lambda *_: driver, **options)
        made.settled()
        return made

    def drained():
        found = slurm.driver.get_status_of_all_nodes()
        return {name: status.stamp.ledger_id for name, status in found.items() if status.marked}

    for node in slurm.names:
        until(lambda node=node: state(slurm, node) == NodeStatus("idle"))
    first = service("first", reserve=1, idle_reserve_s=0)
    mine = first.engine.ledger.ledger_id
    until(lambda: [*drained().values()] == [mine])
    second = service("second", reserve=2)
    assert second.engine.claimed.startswith(f"ledger {mine} claims the nodes")
    nodes = first.asked(2).nodes
    second.engine.reconcile()
    second.settled()
    assert drained().keys() >= {*nodes}
    first.engine.release_nodes(nodes)
    first.settled()
    second.engine.reconcile()
    second.settled()
    until(lambda: [*drained().values()] == [mine])
    assert (second.asked(1).nodes, first.engine.problem()) == ((), None)
    first.engine.stop()
    assert second.engine.adopt() == ""
    assert slurm.driver.read_claims().keys() == {second.engine.ledger.ledger_id}
    second.settled()
    until(lambda: sorted(drained().values()).count(second.engine.ledger.ledger_id) == 2)


def test_a_node_that_power_saving_has_switched_off_is_woken(tmp_path, monkeypatch, real_slurm):
    (tmp_path / "off").write_text("#!/bin/sh\n")
    (tmp_path / "on").write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/woken\n')
    for program in ("off", "on"):
        (tmp_path / program).chmod(0o755)
    power = (
        f"SuspendProgram={tmp_path}/off\nResumeProgram={tmp_path}/on\nSuspendTime=86400\nSuspendTimeout=1\n"
        "ResumeTimeout=300\n"
    )
    slurm = real_slurm(tmp_path, monkeypatch, hooks=power)
    try:
        slurm.start()
        until(lambda: state(slurm, "n01") == NodeStatus("idle"))
        slurm.scontrol("update", "nodename=n01", "state=power_down")
        until(lambda: state(slurm, "n01").is_off)
        assert (state(slurm, "n01").state, state(slurm, "n01").is_asleep) == ("down", True)
        slurm.driver.wake_nodes(["n01"])
        until((tmp_path / "woken").exists)
        until(lambda: state(slurm, "n01").is_asleep and not state(slurm, "n01").is_off)
        assert (tmp_path / "woken").read_text() == "n01\n"
    finally:
        slurm.close()
