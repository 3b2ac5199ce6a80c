"""A real Nova, a real Placement and a real PostgreSQL ask the real Balancer. After each case every node is home again.

One test: what it takes to start all of this is shared by the cases, whichever worker runs it.
"""

from __future__ import annotations

import json
import random
import uuid

import pytest

from balancer.client import Balancer
from gates import GATE
from nova_kit.rig import RAM_MB, VCPUS
from nova_kit.script import answers
from nova_kit.site import NODES, running_site
from polling import until
from testdata import RECORDED

TRAIT = "CUSTOM_BALANCER_NODE"

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.needs("nova"),
    pytest.mark.timeout(600 + 30 * GATE.nova_rounds),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running_site(
        tmp_path_factory.mktemp("nova"), "--trait", TRAIT, "--aggregate", "balancer"
    ) as running:
        yield running


CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def all_nodes_while_jobs_hold_some(site):
    site.batch.start_job("n01", "n02")
    name = site.create(6)
    until(site.waiting, "the create waits")
    assert {each.status for each in site.servers(name)} == {"BUILD"}
    site.batch.end_job("n01", "n02")
    assert site.decided(name, 6) == {"ACTIVE": list(NODES)}
    assert site.allocated() == list(NODES)
    request = next(each for each in site.balancer.requests(state="granted") if each.ended_s is None)
    until(lambda: site.balancer.request(request.id).confirmed, "the agent confirms")


@case
def more_than_there_is_keeps_nothing(site):
    name = site.create(7)
    assert site.decided(name, 7) == {"ERROR": [None] * 7}
    assert site.allocated() == []


@case
def a_start_that_fails_returns_its_node_while_the_server_stays_in_error(site):
    site.batch.start_job("n04", "n05", "n06")
    site.nova.faults(boot_fails=["n02"])
    name = site.create(3)
    assert site.decided(name, 3) == {"ACTIVE": ["n01", "n03"], "ERROR": [None]}
    until(lambda: site.allocated() == ["n01", "n03"], "the node of the failed one goes back")


@case
def a_server_that_is_deleted_while_it_waits_withdraws_its_request(site):
    site.batch.start_job(*NODES)
    name = site.create()
    until(site.waiting, "the create waits")
    site.delete(name)
    until(lambda: not site.waiting(), "the request is withdrawn")
    assert site.allocated() == []


@case
def whichever_of_three_that_wait_is_deleted_the_other_two_start_when_two_nodes_are_free(site):
    for gone in (0, 2):
        site.batch.start_job(*NODES)
        name = site.create(3)
        until(lambda: [each.count for each in site.waiting()] == [3], "the create waits")
        site.admin.compute.delete_server(sorted(site.servers(name), key=lambda each: each.name)[gone])
        until(lambda: [each.count for each in site.waiting()] == [2], f"it waits for two\n{site.nova.log()}")
        site.batch.end_job("n01", "n02")
        assert site.decided(name, 2) == {"ACTIVE": ["n01", "n02"]}
        assert site.allocated() == ["n01", "n02"]
        clear(site)


@case
def a_server_that_is_deleted_while_it_starts_returns_its_node(site):
    site.nova.faults(boot_s=4)
    name = site.create()
    until(lambda: site.allocated() and any(each.compute_host for each in site.servers(name)), "it starts")
    site.delete(name)
    until(lambda: site.allocated() == [], "its node goes back")


@case
def two_half_node_servers_have_a_node_each_and_return_it_each(site):
    one, other = site.create(flavor="half"), site.create(flavor="half")
    (first,), (second,) = site.decided(one)["ACTIVE"], site.decided(other)["ACTIVE"]
    assert site.allocated() == sorted({first, second})
    site.delete(one)
    until(lambda: site.allocated() == [second], "only its node goes back")


@case
def a_node_with_two_servers_is_kept_until_the_last_is_gone(site):
    one = site.create(flavor="half")
    (host,) = site.decided(one)["ACTIVE"]
    two = site.create(flavor="half", connection=site.admin, availability_zone=f"nova:{host}")
    assert site.decided(two) == {"ACTIVE": [host]}
    site.delete(one)
    until(lambda: not site.servers(one), "the first is gone")
    marks = site.status.stat().st_mtime_ns
    until(lambda: site.status.stat().st_mtime_ns > marks, "the agent has looked")
    marks = site.status.stat().st_mtime_ns
    until(lambda: site.status.stat().st_mtime_ns > marks, "and again")
    assert site.allocated() == [host]
    site.delete(two)
    until(lambda: site.allocated() == [], "the node goes back with the last")


@case
def a_server_that_is_forced_onto_a_batch_node_is_shown_with_what_to_do(site):
    site.batch.start_job("n03")
    name = site.create(connection=site.admin, availability_zone="nova:n03")
    assert site.decided(name) == {"ACTIVE": ["n03"]}
    (shown,) = until(site.intruders, "the agent tells of it")
    (server,) = site.servers(name)
    assert (shown["server"], shown["node"]) == (server.id, "n03")
    assert f"openstack server migrate {server.id}" in shown["what_to_do"]
    site.delete(name)
    until(lambda: not site.intruders(), "it is gone")


@case
def a_move_to_a_batch_node_waits_as_a_create_does_and_is_refused(site):
    """Evacuation, cold and live migration, each of a server of its own: no force, so Nova's scheduler is asked."""
    site.batch.start_job("n06")
    name = site.create(3)
    hosts = site.decided(name, 3)["ACTIVE"]
    gone, cold, live = sorted(site.servers(name), key=lambda each: each.compute_host)
    site.force_down(gone.compute_host, True)
    try:
        site.act(gone, "evacuate", host="n06")
        site.act(cold, "migrate", host="n06")
        site.act(live, "os-migrateLive", host="n06", block_migration="auto")
        until(lambda: len(site.waiting()) == 3, f"all three wait\n{site.nova.log()}")
        with Balancer(site.batch.url, name="nova", patience_s=30) as balancer:
            for each in site.waiting():  # as if W were over
                balancer.withdraw_request(each.id)
        until(
            lambda: not site.waiting() and all(each.task_state is None for each in site.servers(name)),
            f"Nova has given up\n{site.nova.log()}",
        )
    finally:
        site.force_down(gone.compute_host, False)
    assert sorted(each.compute_host for each in site.servers(name)) == hosts
    assert (site.allocated(), site.intruders()) == (hosts, [])
    assert site.states()["n06"] == "OA_BUSY"


@case
def servers_that_are_moved_to_a_batch_node_by_force_are_shown_and_what_is_said_helps(site):
    """Before API 2.68 no filter is asked then. Half a node: Nova forces none that needs all of a host's memory."""
    site.batch.start_job("n05", "n06")
    names = [site.create(flavor="half") for _ in range(2)]
    _, (from_gone,) = (site.decided(name)["ACTIVE"] for name in names)
    live, gone = (site.servers(name)[0] for name in names)
    site.act(live, "os-migrateLive", "2.67", host="n05", block_migration="auto", force=True)
    site.force_down(from_gone, True)
    try:
        site.act(gone, "evacuate", "2.67", host="n06", force=True)
        shown = until(
            lambda: len(site.intruders()) == 2 and site.intruders(), f"both are told of\n{site.nova.log()}"
        )
        assert {each["server"]: each["node"] for each in shown} == {live.id: "n05", gone.id: "n06"}
        assert {each["why"].partition(" (")[0] for each in shown} == {"the node is batch's"}
        assert all(f"openstack server migrate {each['server']}" in each["what_to_do"] for each in shown)
        # What a server had on a host that is gone stays its own until Nova starts there again, or it moves on.
        until(lambda: site.allocated() == [from_gone], "the node that the other left goes back")
        for name, server in zip(names, (live, gone), strict=True):
            until(lambda name=name: site.servers(name)[0].task_state is None, "it has arrived")
            site.act(server, "migrate")
            until(
                lambda name=name: site.servers(name)[0].status == "VERIFY_RESIZE",
                f"it is moved\n{site.nova.log()}",
            )
            site.act(server, "confirmResize")
        until(lambda: not site.intruders(), "the agent tells of nothing")
        assert {site.states()[name] for name in ("n05", "n06")} == {"OA_BUSY"}
        hosts = sorted({each.compute_host for each in site.servers()})
        until(lambda: site.allocated() == hosts, f"theirs alone are granted, not {site.allocated()}")
    finally:
        site.nova.kill()  # a host whose servers were evacuated is up again only after a start
        site.nova.start()
        site.force_down(from_gone, False)


def starts_on_the_next_node(site, name):
    """n01 comes free first, and is of no use any more."""
    site.batch.end_job("n01")
    until(lambda: site.states()["n01"] == "OA_IDLE" and site.waiting(), f"n01 goes back\n{site.nova.log()}")
    assert [each.status for each in site.servers(name)] == ["BUILD"]
    site.batch.end_job("n02")
    assert site.decided(name) == {"ACTIVE": ["n02"]}
    assert site.allocated() == ["n02"]


@case
def a_host_that_is_disabled_while_a_create_waits_is_not_used(site):
    name = site.waits()
    site.admin.compute.disable_service(site.service("n01"), "n01", "nova-compute")
    try:
        starts_on_the_next_node(site, name)
    finally:
        site.admin.compute.enable_service(site.service("n01"), "n01", "nova-compute")


@case
def nor_is_one_that_is_forced_down_meanwhile(site):
    name = site.waits()
    site.force_down("n01", True)
    try:
        starts_on_the_next_node(site, name)
    finally:
        site.force_down("n01", False)


@case
def nor_one_on_which_somebody_else_has_an_allocation_meanwhile(site):
    name = site.waits()
    providers = site.admin.placement.get("/resource_providers?name=n01").json()["resource_providers"]
    path, version = f"/allocations/{uuid.uuid4()}", {"OpenStack-API-Version": "placement 1.28"}
    body = {
        "allocations": {providers[0]["uuid"]: {"resources": {"VCPU": 1}}},
        "project_id": "x", "user_id": "x", "consumer_generation": None,
    }  # fmt: skip
    assert site.admin.placement.put(path, headers=version, json=body).status_code == 204
    try:
        starts_on_the_next_node(site, name)
    finally:
        site.admin.placement.delete(path)


@case
def nor_one_that_leaves_the_zone_that_the_create_asks_for(site):
    zone = site.admin.compute.create_aggregate(name="zone", availability_zone="zone")
    for host in ("n01", "n02"):
        site.admin.compute.add_host_to_aggregate(zone, host)
    try:
        site.batch.start_job(*NODES)
        name = site.create(availability_zone="zone")
        until(site.waiting, "the create waits")
        site.admin.compute.remove_host_from_aggregate(zone, "n01")
        starts_on_the_next_node(site, name)
    finally:
        site.delete()
        until(lambda: not site.servers(), "they are gone")
        for host in next(a for a in site.admin.compute.aggregates() if a.name == "zone").hosts:
            site.admin.compute.remove_host_from_aggregate(zone, host)
        site.admin.compute.delete_aggregate(zone)


@case
def servers_of_an_affinity_group_share_their_node_while_it_has_room(site):
    group = site.user.compute.create_server_group(name="together", policy="affinity")
    one = site.create(flavor="half", scheduler_hints={"group": group.id})
    (host,) = site.decided(one)["ACTIVE"]
    two = site.create(flavor="half", scheduler_hints={"group": group.id})
    assert site.decided(two) == {"ACTIVE": [host]}
    assert site.allocated() == [host]
    site.delete()
    until(site.is_home, "they are gone")
    site.batch.start_job(*NODES[1:])
    both = site.create(2, flavor="half", scheduler_hints={"group": group.id})
    assert site.decided(both, 2) == {"ACTIVE": ["n01", "n01"]}
    site.user.compute.delete_server_group(group)


@case
def servers_of_an_anti_affinity_group_have_a_node_each(site):
    group = site.user.compute.create_server_group(name="apart", policy="anti-affinity")
    name = site.create(2, flavor="half", scheduler_hints={"group": group.id})
    hosts = site.decided(name, 2)["ACTIVE"]
    assert len(set(hosts)) == 2
    site.batch.start_job(*(set(NODES) - set(hosts)))
    other = site.create(flavor="half", scheduler_hints={"group": group.id})
    until(site.waiting, "a third waits for a third node")
    free = min(set(NODES) - set(hosts))
    site.batch.end_job(free)
    assert site.decided(other) == {"ACTIVE": [free]}
    site.user.compute.delete_server_group(group)


@case
def a_lent_node_with_room_is_asked_for_by_nobody(site):
    """A create that names it, one that does not, a resize in place, and a move onto it."""
    site.batch.start_job(*NODES[2:])
    first = site.create(flavor="half")
    (host,) = site.decided(first)["ACTIVE"]
    other = "n02" if host == "n01" else "n01"
    site.batch.start_job(other)
    named = site.create(flavor="half", connection=site.admin, host=host)
    assert site.decided(named) == {"ACTIVE": [host]}
    site.delete(named)
    until(lambda: not site.servers(named), "it is gone")
    (server,) = site.servers(first)
    site.act(server, "resize", flavorRef=site.admin.compute.find_flavor("third").id)
    until(lambda: site.servers(first)[0].status == "VERIFY_RESIZE", f"it is resized\n{site.nova.log()}")
    site.act(server, "confirmResize")
    until(lambda: site.servers(first)[0].status == "ACTIVE", "it is confirmed")
    assert site.allocated() == [host]
    site.batch.end_job(other)
    apart = site.create(flavor="half", connection=site.admin, host=other)
    assert site.decided(apart) == {"ACTIVE": [other]}
    (moved,) = site.servers(apart)
    site.act(moved, "os-migrateLive", host=host, block_migration="auto")
    until(lambda: site.servers(apart)[0].compute_host == host, f"it is moved\n{site.nova.log()}")
    until(lambda: site.allocated() == [host], "the node that it left goes back")
    assert site.decided(site.create(flavor="third")) == {"ACTIVE": [other]}, "this one has no room there"


@case
def a_flavor_that_asks_for_the_trait_finds_the_nodes(site):
    """The agent has given it to them, and has put them into the aggregate."""
    flavor = site.admin.compute.find_flavor("gated") or site.admin.compute.create_flavor(
        name="gated", vcpus=VCPUS, ram=RAM_MB, disk=10
    )
    site.admin.compute.create_flavor_extra_specs(flavor, {f"trait:{TRAIT}": "required"})
    (aggregate,) = (each for each in site.admin.compute.aggregates() if each.name == "balancer")
    assert (sorted(aggregate.hosts), aggregate.metadata) == (list(NODES), {f"trait:{TRAIT}": "required"})
    assert set(site.decided(site.create(2, flavor="gated"), 2)) == {"ACTIVE"}


@case
def a_create_outlives_a_balancer_that_is_away(site):
    site.batch.kill()
    name = site.create(2)
    until(lambda: any(each.task_state == "scheduling" for each in site.servers(name)), "it is scheduled")
    site.batch.start()
    assert set(site.decided(name, 2)) == {"ACTIVE"}


@case
def what_a_nova_that_was_killed_leaves_in_the_middle_keeps_its_nodes_until_it_is_deleted(site):
    site.nova.faults(boot_s=600)
    name = site.create(2)
    until(
        lambda: len(site.allocated()) == 2 and all(each.compute_host for each in site.servers(name)),
        "they start",
    )
    site.nova.kill()
    site.nova.faults()
    site.nova.start()
    found = until(lambda: site.servers(name), "Nova answers again")
    hosts = sorted(each.compute_host for each in found)
    assert site.allocated() == hosts
    site.delete(name)
    until(lambda: site.allocated() == [], "their nodes go back")


@case
def rounds_of_create_and_delete_under_batch_load(site):
    chance = random.Random(20)
    for _ in range(GATE.nova_rounds):
        idle = [name for name, state in site.states().items() if state == "OA_IDLE"]
        site.batch.start_job(*chance.sample(idle, min(2, len(idle))))
        names = [site.create(chance.randint(1, 2)) for _ in range(2)]
        busy = [name for name, state in site.states().items() if state == "OA_BUSY"]
        site.batch.end_job(*busy)
        for name in names:
            until(
                lambda name=name: site.servers(name) and all(s.status != "BUILD" for s in site.servers(name)),
                "decided",
            )
        assert {each.status for each in site.servers()} == {"ACTIVE"}
        assert site.allocated() == sorted(each.compute_host for each in site.servers())
        site.delete()
        until(site.is_home, f"all are home: {site.states()}")


@case
def the_script_is_answered_as_recorded(site):
    """What the small manager is held against (`test_refusals.py`)."""
    site.decided(site.create(named="script"))
    recorded = json.loads((RECORDED / "nova" / "script.json").read_text())
    assert answers({"demo": site.user, "admin": site.admin}) == recorded


def clear(site):
    """No server, no grant, no request, and every node is batch's again."""
    site.nova.faults()
    site.delete()
    until(site.is_home, f"all are home: {site.states()}")
    site.batch.end_job(*(name for name, state in site.states().items() if state == "OA_BUSY"))
    until(lambda: not site.intruders(), "the agent tells of nothing")


def test_an_unmodified_nova(site, subtests):
    for each in CASES:
        with subtests.test(each.__name__.replace("_", " ")):
            try:
                each(site)
            finally:
                clear(site)
