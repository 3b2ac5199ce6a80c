"""Bad moments that only a real Nova has: moves, shelving and allocations in Placement. After each, all agree again."""

from __future__ import annotations

import json
import uuid

from nova_kit.site import NODES
from polling import until

CASES = []
_PLACEMENT = {"OpenStack-API-Version": "placement 1.28"}


def case(function):
    CASES.append(function)
    return function


def running(site, flavor="node"):
    """One server, and every other node runs a job."""
    name = site.create(flavor=flavor)
    (host,) = site.decided(name)["ACTIVE"]
    site.batch.start_job(*(node for node in NODES if node != host))
    (server,) = site.servers(name)
    return server, host


def others(host):
    return [node for node in NODES if node != host]


def becomes(site, server, status):
    def there():
        (found,) = (each for each in site.servers() if each.id == server.id)
        return found if found.status == status and found.task_state is None else None

    return until(there, f"{server.name} becomes {status}\n{site.nova.log()}")


def is_deleted_while_it_waits(site, server, host):
    """Its request is withdrawn, its own node goes back, and the job that ends then gives nobody a node."""
    site.waits_for(1)
    site.admin.compute.delete_server(server)
    site.waits_for(0)
    until(lambda: not site.servers() and site.allocated() == [], f"{host} goes back\n{site.nova.log()}")
    free = others(host)[0]
    site.batch.end_job(free)
    until(lambda: site.states()[free] == "OA_IDLE", "the job has ended")
    assert site.allocated() == []


@case
def a_server_whose_migration_waits_is_deleted(site):
    server, host = running(site)
    site.act(server, "migrate")
    is_deleted_while_it_waits(site, server, host)


@case
def a_server_whose_live_migration_waits_is_deleted(site):
    server, host = running(site)
    site.act(server, "os-migrateLive", host=None, block_migration="auto")
    is_deleted_while_it_waits(site, server, host)


@case
def a_server_whose_resize_waits_is_deleted(site):
    server, host = running(site, "half")
    site.act(server, "resize", flavorRef=site.admin.compute.find_flavor("node").id)
    is_deleted_while_it_waits(site, server, host)


@case
def a_server_whose_evacuation_waits_is_deleted(site):
    server, host = running(site)
    site.force_down(host, True)
    try:
        site.act(server, "evacuate")
        is_deleted_while_it_waits(site, server, host)
    finally:
        restart(site)
        site.force_down(host, False)


def restart(site):
    """A host whose servers were evacuated is up again only after a start."""
    site.nova.kill()
    site.nova.start()


@case
def a_server_whose_unshelving_waits_is_deleted(site):
    server, host = running(site)
    shelve(site, server)
    site.batch.start_job(host)
    site.act(server, "unshelve")
    is_deleted_while_it_waits(site, server, host)


def shelve(site, server):
    """Away from its node, which goes back; what it was is an image."""
    site.act(server, "shelve")
    until(
        lambda: [each.status for each in site.servers()] == ["SHELVED_OFFLOADED"],
        f"it is shelved\n{site.nova.log()}",
    )
    until(lambda: site.states()[server.compute_host] == "OA_IDLE", f"its node goes back\n{site.nova.log()}")


@case
def a_shelved_server_comes_back_on_the_node_whose_job_ends(site):
    server, host = running(site)
    shelve(site, server)
    (image,) = (each for each in site.admin.image.images() if each.name == f"{server.name}-shelved")
    assert (image.status, image.size) == ("active", len(server.id))
    site.batch.start_job(host)
    site.act(server, "unshelve")
    site.waits_for(1)
    site.batch.end_job("n04")
    assert becomes(site, server, "ACTIVE").compute_host == "n04"
    assert site.allocated() == ["n04"]
    until(lambda: [each.name for each in site.admin.image.images()] == ["tiny"], "the image is not kept")


@case
def a_server_is_started_and_rescued_from_a_snapshot(site):
    server, host = running(site)
    image = site.user.compute.create_server_image(server, "kept", wait=True, timeout=60)
    assert (image.status, image.size) == ("active", len(server.id))
    becomes(site, server, "ACTIVE")
    site.act(server, "rescue", rescue_image_ref=image.id)
    becomes(site, server, "RESCUE")
    assert site.allocated() == [host]
    site.batch.end_job("n06" if host != "n06" else "n05")
    again = site.create(image=image.name)
    assert site.decided(again)["ACTIVE"] != [host]
    site.user.image.delete_image(image)
    assert [each.name for each in site.user.image.images()] == ["tiny"]


@case
def a_server_is_deleted_before_its_move_is_confirmed(site):
    name = site.create()
    (host,) = site.decided(name)["ACTIVE"]
    (server,) = site.servers(name)
    site.act(server, "migrate")
    moved = becomes(site, server, "VERIFY_RESIZE")
    assert site.allocated() == sorted([host, moved.compute_host])
    site.delete(name)
    until(lambda: site.allocated() == [], f"both nodes go back\n{site.nova.log()}")


@case
def a_move_is_reverted(site):
    name = site.create()
    (host,) = site.decided(name)["ACTIVE"]
    (server,) = site.servers(name)
    site.act(server, "resize", flavorRef=site.admin.compute.find_flavor("half").id)
    becomes(site, server, "VERIFY_RESIZE")
    site.act(server, "revertResize")
    assert becomes(site, server, "ACTIVE").compute_host == host
    until(lambda: site.allocated() == [host], f"the other node goes back\n{site.nova.log()}")


@case
def the_target_of_a_move_is_disabled_while_it_waits(site):
    server, host = running(site)
    first, second, *_ = others(host)
    site.act(server, "migrate")
    site.waits_for(1)
    site.admin.compute.disable_service(site.service(first), first, "nova-compute")
    try:
        site.batch.end_job(first)
        until(lambda: site.states()[first] == "OA_IDLE" and site.waiting(), f"{first} is not used")
        site.batch.end_job(second)
        assert becomes(site, server, "VERIFY_RESIZE").compute_host == second
        site.act(server, "confirmResize")
        becomes(site, server, "ACTIVE")
        until(lambda: site.allocated() == [second], f"{host} goes back\n{site.nova.log()}")
    finally:
        site.admin.compute.enable_service(site.service(first), first, "nova-compute")


@case
def a_rebuild_asks_for_no_node(site):
    server, host = running(site)
    site.act(server, "rebuild", imageRef=site.admin.image.find_image("tiny").id)
    assert becomes(site, server, "ACTIVE").compute_host == host
    assert (site.waiting(), site.allocated()) == ([], [host])


@case
def the_compute_service_of_a_granted_node_is_deleted(site):
    server, host = running(site)
    site.admin.compute.delete_server(server)
    until(lambda: not site.servers(), "the server is gone")
    service = site.service(host)
    answer = site.admin.compute.delete(f"/os-services/{service.id}", microversion="2.96")
    assert answer.status_code == 204, answer.text
    try:
        until(lambda: site.allocated() == [], f"{host} goes back\n{site.nova.log()}")
    finally:
        restart(site)
        until(lambda: any(s.host == host for s in site.admin.compute.services()), "the host is back")


def provider(site, host):
    found = site.admin.placement.get(f"/resource_providers?name={host}").json()["resource_providers"]
    return found[0]["uuid"]


def leftovers(site):
    return {(each["node"], each["consumer"]) for each in json.loads(site.status.read_text())["leftovers"]}


def allocate(site, consumer, more, **known):
    """As a Nova that was killed in the middle leaves it: these vCPUs by host, besides what the consumer has."""
    found = site.admin.placement.get(f"/allocations/{consumer}", headers=_PLACEMENT).json()
    body = {"project_id": "x", "user_id": "x", "consumer_generation": None} | found | known
    body["allocations"] = {
        uuid: {"resources": each["resources"]} for uuid, each in found["allocations"].items()
    }
    body["allocations"] |= {provider(site, host): {"resources": {"VCPU": 1}} for host in more}
    answer = site.admin.placement.put(f"/allocations/{consumer}", headers=_PLACEMENT, json=body)
    assert answer.status_code == 204, answer.text


def allocated_on(site, consumer):
    return sorted(site.admin.placement.get(f"/allocations/{consumer}").json()["allocations"])


@case
def an_allocation_of_nobody_is_beside_a_server(site):
    server, host = running(site, "half")
    nobody = str(uuid.uuid4())
    allocate(site, nobody, [host])
    until(lambda: (host, nobody) in leftovers(site), f"it is told of\n{site.status.read_text()}")
    until(lambda: allocated_on(site, nobody) == [], "it is removed")
    assert (site.allocated(), allocated_on(site, server.id)) == ([host], [provider(site, host)])


@case
def an_allocation_of_nobody_is_all_that_is_left_on_a_granted_node(site):
    server, host = running(site, "half")
    nobody = str(uuid.uuid4())
    allocate(site, nobody, [host])
    site.admin.compute.delete_server(server)
    until(lambda: site.allocated() == [], f"{host} goes back\n{site.status.read_text()}")
    until(lambda: allocated_on(site, nobody) == [], "it is removed")


@case
def a_server_has_left_an_allocation_where_it_is_no_more(site):
    one, other = site.create(flavor="half"), site.create(flavor="half")
    (first,), (second,) = site.decided(one)["ACTIVE"], site.decided(other)["ACTIVE"]
    (server,) = site.servers(one)
    allocate(site, server.id, [second])
    site.delete(other)
    until(lambda: site.allocated() == [first], f"{second} goes back\n{site.status.read_text()}")
    until(lambda: allocated_on(site, server.id) == [provider(site, first)], "it keeps what it has")


@case
def nova_is_killed_while_a_move_waits(site):
    server, host = running(site)
    site.act(server, "migrate")
    site.waits_for(1)
    site.nova.kill()
    site.batch.end_job(others(host)[0])
    restart(site)
    site.admin.compute.delete_server(server, force=True)
    until(lambda: not site.servers() and site.allocated() == [], f"all go back\n{site.nova.log()}")


@case
def the_agent_is_killed_while_servers_are_deleted(site):
    name = site.create(3)
    hosts = site.decided(name, 3)["ACTIVE"]
    assert site.allocated() == hosts
    site.agent.kill()
    site.delete(name)
    until(lambda: not site.servers(), "they are gone")
    site.agent.start()
    until(lambda: site.allocated() == [], f"their nodes go back\n{site.nova.log()}")


@case
def a_zone_and_a_host_are_asked_for_while_other_nodes_are_free(site):
    zone = site.admin.compute.create_aggregate(name="zone", availability_zone="zone")
    for host in ("n01", "n02"):
        site.admin.compute.add_host_to_aggregate(zone, host)
    try:
        site.batch.start_job("n01", "n02", "n03")
        name = site.create(availability_zone="zone")
        site.waits_for(1)
        site.batch.end_job("n02")
        assert site.decided(name) == {"ACTIVE": ["n02"]}
        name = site.create(connection=site.admin, host="n03")
        site.waits_for(1)
        site.batch.end_job("n03")
        assert site.decided(name) == {"ACTIVE": ["n03"]}
    finally:
        site.delete()
        until(lambda: not site.servers(), "they are gone")
        for host in ("n01", "n02"):
            site.admin.compute.remove_host_from_aggregate(zone, host)
        site.admin.compute.delete_aggregate(zone)
