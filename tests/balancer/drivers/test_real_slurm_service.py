"""The service on a real Slurm: whatever happens to it, no node is granted without an owner, and all come home."""

from __future__ import annotations

import json
import signal
import sys
import threading
from contextlib import ExitStack

import pytest

from balancer.client import NotObtainable
from balancer.clock import US, wall_us
from balancer.drivers.slurm_text import parse_partition
from fleet_kit.slurm_site import HOME_S, granted
from gates import GATE
from polling import until

HOOK = """#!/bin/sh
export BALANCER_URL="$(cat {folder}/url)" BALANCER_HOOK_KEY_FILE={folder}/hook.key
exec {python} -c 'from balancer.cli import main; main()' hook {name} 2>> {folder}/hook.log
"""

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(300 + GATE.slurm_outage_s),
]


def in_partition(slurm, name):
    return parse_partition(slurm.scontrol("--all", "-o", "show", "partition", name), name).nodes


def in_thread(stack, action):
    """The list in which the result, or the exception, will be."""
    found = []

    def run():
        try:
            found.append(action())
        except NotObtainable as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    stack.callback(thread.join)
    return found


def all_end_well(slurm, look, *, jobs, grants, reserve=0):
    """What must be so at the end of each: every grant is with one who answers, no job is lost, all go home.

    `grants`: owner -> client and the nodes that it says it has. Within `HOME_S` of the last release no node is lent
    or on its way but `reserve`.
    """
    kept = {node for _, nodes in grants.values() for node in nodes}
    until(lambda: granted(look) == kept, limit_s=HOME_S)
    lent = [node.name for node in look.nodes() if node.state in ("OD_ALLOC", "OD_RESERVE")]
    found = slurm.driver.get_status_of_nodes(lent)
    assert not any(status.jobs or status.state in ("idle", "busy") for status in found.values()), found
    have_nodes = {each.owner for each in look.requests(state="granted") if each.ended_s is None}
    assert have_nodes == {owner for owner, (_, nodes) in grants.items() if nodes}
    for client, nodes in grants.values():
        client.release_nodes(nodes)
    released_us = wall_us()

    def are_home():
        states = [node.state for node in look.nodes()]
        moving = {"OD_ALLOC", "RECLAIMING", "RESTORING"}.intersection(states)
        return not moving and states.count("OD_RESERVE") == reserve

    until(are_home, limit_s=HOME_S)
    print(f"all nodes at home {(wall_us() - released_us) / US:.1f} s after the last release")
    until(lambda: slurm.ended_well(jobs), lambda: slurm.not_well(jobs))


def test_after_an_outage_of_the_controller_and_a_restart_nodes_are_only_with_those_who_answer(site):
    """Half of those who asked never come back; batch works all the while."""
    slurm, service = site(count=8, wait_s=GATE.slurm_outage_s + 90)
    service.start()
    with ExitStack() as stack:
        look = stack.enter_context(service.client("look"))
        until(lambda: look.status()["nodes"].get("OA_IDLE") == 8)
        jobs = slurm.queue_jobs(12, 2)
        slurm.stop_controller()
        stopped_us = wall_us()
        for number in range(4):
            stack.enter_context(service.client(f"dead-{number}")).request_nodes(1, respond_async=True)
        clients = [stack.enter_context(service.client(f"living-{number}")) for number in range(4)]
        answers = [in_thread(stack, lambda each=each: each.request_nodes(1)) for each in clients]
        until(lambda: len(look.requests(state="waiting")) == 8)
        service.end(signal.SIGKILL)
        service.start()
        until(lambda: wall_us() - stopped_us > GATE.slurm_outage_s * US, GATE.slurm_outage_s + 60)
        assert granted(look) == set()
        slurm.start_controller()
        begun_us = wall_us()
        until(lambda: all(answers))
        print(
            f"granted {(wall_us() - begun_us) / US:.1f} s after {GATE.slurm_outage_s} s without a controller"
        )
        grants = {
            request.owner: (client, request.nodes)
            for client, (request,) in zip(clients, answers, strict=True)
        }
        assert len({node for _, nodes in grants.values() for node in nodes}) == 4
        all_end_well(slurm, look, jobs=jobs, grants=grants)


def test_power_saving_switches_off_idle_nodes_and_never_a_lent_one(site):
    """The controller is started anew and the service killed meanwhile; what goes home is switched off as before."""
    slurm, service = site(
        count=3,
        hooks="SuspendTime=4\nSuspendTimeout=2\nSuspendProgram=/bin/true\nResumeProgram=/bin/true\n",
        partitions="PartitionName=awake Nodes=ALL State=INACTIVE Hidden=YES SuspendTime=INFINITE\n",
        driver={"awake_partition": "awake"},
    )
    service.start()

    def are_off(*nodes):
        states = slurm.states()
        return all("POWER" in states[node] for node in nodes)

    with service.client("one") as client:
        until(lambda: client.status()["nodes"].get("OA_IDLE") == 3)
        request = client.request_nodes(1)
        (lent,) = request.nodes
        others = [name for name in slurm.names if name != lent]
        until(lambda: are_off(*others))
        assert slurm.states()[lent] == "IDLE+DRAIN"
        # slurm.conf gives the partition all nodes: whoever is lent stays up until somebody knows better.
        slurm.stop_controller()
        service.end(signal.SIGKILL)
        slurm.start_controller()
        service.start()
        until(lambda: in_partition(slurm, "awake") == {lent})
        until(lambda: slurm.states()[lent] == "IDLE+DRAIN")
        assert granted(client) == {lent}
        all_end_well(slurm, client, jobs=[], grants={"one": (client, request.nodes)})
        until(lambda: are_off(*slurm.names))
        assert in_partition(slurm, "awake") == set()
    assert "power saving leaves lent nodes alone" in service.log()
    assert "ok      power saving leaves lent nodes alone" in service.run(
        "check", "--config", str(service.config), check=False
    )


def test_a_node_that_is_switched_off_on_its_way_home_is_at_home_and_can_be_woken(site):
    slurm, service = site(
        count=1,
        hooks="SuspendTime=86400\nSuspendTimeout=2\nSuspendProgram=/bin/true\nResumeProgram=/bin/true\n",
    )
    service.start()
    with service.client("one") as client:
        until(lambda: client.status()["nodes"].get("OA_IDLE") == 1)
        (lent,) = client.request_nodes(1).nodes
        slurm.scontrol("update", f"nodename={lent}", "state=power_down")
        until(lambda: "POWER" in slurm.states()[lent])
        client.release_nodes([lent])
        until(lambda: (client.status()["nodes"].get("DOWN"), client.status()["asleep"]) == (1, 1))
        client.request_nodes(1, respond_async=True)
        until(lambda: '"waking nodes"' in service.log())


def hook_calls(service):
    """Status and caller of the hooks' calls in the log, oldest first; its last line may be half written."""
    lines = service.log().rpartition("\n")[0].splitlines()
    calls = [json.loads(line) for line in lines if '"/v1/update_nodes"' in line]
    return [(call["status"], call["caller"]) for call in calls]


def test_people_may_resume_drain_and_break_nodes_and_hooks_report_jobs_with_tokens_on(site, tmp_path):
    hooks = ""
    for name, key in (("slurm-prolog", "PrologSlurmctld"), ("slurm-epilog", "EpilogSlurmctld")):
        path = tmp_path / name
        path.write_text(HOOK.format(folder=tmp_path, python=sys.executable, name=name), encoding="utf-8")
        path.chmod(0o755)
        hooks += f"{key}={path}\n"
    slurm, service = site(
        count=5,
        hooks=hooks,
        auth=True,
        reserve=2,
        reserve_rule="refilled",
        wait_s=30,
        reconcile_period_s=3,
        driver={"hold": "reservation"},
    )
    where = ("--config", str(service.config))
    service.token = service.run("token", "create", *where, "--role", "operator", "--name", "op")
    keys = service.run("hook-key", *where, "n0[1-5]")
    (tmp_path / "hook.key").write_text(keys + "\n", encoding="utf-8")
    service.start()
    with service.client(None) as client:
        until(lambda: client.status()["nodes"].get("OD_RESERVE") == 2)
        jobs = slurm.queue_jobs(12, 2)
        request = client.request_nodes(1)
        (lent,) = request.nodes
        # Resumed by hand while it is lent: marked again, and no job starts there, however many wait.
        slurm.scontrol("update", f"nodename={lent}", "state=resume")
        until(lambda: slurm.driver.get_status_of_nodes([lent])[lent].is_ours)
        slurm.start_job(lent)
        assert "JobState=PENDING" in slurm.scontrol("show", "job", slurm.jobs[lent])
        slurm.end_job(lent)
        # A reserve node that is drained as broken leaves the reserve and is not granted.
        until(lambda: client.status()["nodes"].get("OD_RESERVE") == 2)
        drained = next(node.name for node in client.nodes() if node.state == "OD_RESERVE")
        slurm.scontrol("update", f"nodename={drained}", "state=undrain")
        slurm.scontrol("update", f"nodename={drained}", "state=drain", "reason=broken disk")
        until(lambda: client.node(drained).state == "DOWN")
        other = client.request_nodes(1)
        assert drained not in other.nodes
        # One that breaks while it is lent stays with whoever has it, and is not resumed when it goes home.
        (broken,) = other.nodes
        slurm.scontrol("update", f"nodename={broken}", "state=down", "reason=fan")
        until(lambda: client.node(broken).reported == "down")
        grants = {"op": (client, [lent, broken])}
        all_end_well(slurm, client, jobs=jobs, grants=grants, reserve=2)
        assert "DOWN" in slurm.states()[broken]
        for node in (drained, broken):
            slurm.scontrol("update", f"nodename={node}", "state=resume")
        until(lambda: "DOWN" not in {node.state for node in client.nodes()})
        # With tokens on hooks are believed: they are signed.
        until(lambda: client.status()["nodes"].get("OA_IDLE"))
        free = next(node.name for node in client.nodes() if node.state == "OA_IDLE")
        slurm.start_job(free)
        until(lambda: client.node(free).jobs == (slurm.jobs[free],))
        slurm.end_job(free)
        until(lambda: client.node(free).jobs == ())
    # A reading may have told of the job's end before its hook did, and a call is logged once it is answered.
    until(lambda: hook_calls(service)[-2:] == [(200, f"hook:{free}")] * 2)
    # A job that starts just when its node is taken is refused, which is no harm on Slurm.
    assert {status for status, _ in hook_calls(service)} <= {200, 409}
