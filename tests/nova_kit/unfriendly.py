"""What is done to a cloud at the wrong moment, for two clouds, the real one and the small manager: both end the same.

A case gives what was seen, without times and without what two right clouds may choose differently; `EXPECTED` has it.
"""

from __future__ import annotations

import threading
import uuid

import openstack.exceptions

from nova_kit.site import NODES
from polling import until


def _statuses(site, name, count):
    """How many of the servers became what, and how many different hosts they are on."""
    decided = site.decided(name, count)
    hosts = {host for found in decided.values() for host in found if host}
    return {status: len(found) for status, found in decided.items()} | {"hosts": len(hosts)}


def _ends(site, number):
    """How many nodes are granted once nobody waits and no more nodes go back."""
    until(
        lambda: not site.waiting() and len(site.allocated()) <= number,
        f"the rest goes back\n{site.nova.log()}",
    )
    return len(site.allocated())


def _one_of_three_that_wait_is_deleted(site, which):
    site.batch.start_job(*NODES)
    name = site.create(3)
    site.waits_for(1)
    site.admin.compute.delete_server(sorted(site.servers(name), key=lambda each: each.name)[which])
    until(lambda: len(site.servers(name)) == 2, "it is gone")
    site.batch.end_job("n01", "n02")
    return _statuses(site, name, 2), _ends(site, 2)


def the_first_of_three_that_wait_is_deleted(site):
    return _one_of_three_that_wait_is_deleted(site, 0)


def the_last_of_three_that_wait_is_deleted(site):
    return _one_of_three_that_wait_is_deleted(site, 2)


def all_of_three_that_wait_are_deleted(site):
    site.batch.start_job(*NODES)
    name = site.create(3)
    site.waits_for(1)
    site.delete(name)
    site.waits_for(0)
    site.batch.end_job(*NODES)
    until(lambda: not site.servers(name), "they are gone")
    until(site.is_home, f"no node is on its way\n{site.nova.log()}")
    return _ends(site, 0), set(site.states().values())


def one_more_than_there_is(site):
    return _statuses(site, site.create(7), 7), _ends(site, 0)


def at_most_eight_where_there_are_six(site):
    """Nova asks for as many as there may be at most, and takes no fewer."""
    cloud = site.user
    cloud.compute.create_server(
        name="most", image_id=cloud.image.find_image("tiny").id, flavor_id=cloud.compute.find_flavor("node").id,
        networks="none", min_count=1, max_count=8,
    )  # fmt: skip
    return _statuses(site, "most", 8), _ends(site, 0)


def two_creates_say_that_they_are_the_same_request(site):
    cloud, headers = site.user, {"X-OpenStack-Request-ID": f"req-{uuid.uuid4()}"}
    image, flavor = cloud.image.find_image("tiny").id, cloud.compute.find_flavor("node").id
    answers = []
    for name in ("twice-a", "twice-b"):
        server = {"name": name, "imageRef": image, "flavorRef": flavor, "networks": "none", "max_count": 2}
        answer = cloud.compute.post("/servers", json={"server": server}, headers=headers, microversion="2.96")
        answers.append(answer.status_code)
    return answers, _statuses(site, "twice", 4), _ends(site, 4)


def more_than_the_quota(site):
    project = site.user.current_project_id
    path, version = f"/os-quota-sets/{project}", "2.96"
    site.admin.compute.put(path, json={"quota_set": {"instances": 2}}, microversion=version)
    try:
        site.create(3)
    except openstack.exceptions.HttpException as error:
        return error.status_code, len(site.servers()), _ends(site, 0)
    finally:
        site.admin.compute.delete(path, microversion=version)
    return "accepted"


def twelve_creates_at_once(site):
    """Six get a node each; nobody gives one back, so that the others wait for W."""
    name = "many"

    def create(number):
        site.create(named=f"{name}-{number:02d}", connection=site.nova.connect("demo"))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _statuses(site, name, 12), _ends(site, 6)


def _is_not_offered(site):
    return _statuses(site, site.create(6), 6), site.decided(site.create(5), 5), _ends(site, 5)


def a_host_is_disabled(site):
    site.admin.compute.disable_service(site.service("n01"), "n01", "nova-compute")
    try:
        return _is_not_offered(site)
    finally:
        site.admin.compute.enable_service(site.service("n01"), "n01", "nova-compute")


def a_host_is_forced_down(site):
    site.force_down("n01", True)
    try:
        return _is_not_offered(site)
    finally:
        site.force_down("n01", False)


def a_server_is_deleted_twice(site):
    name = site.create()
    site.decided(name)
    (server,) = site.servers(name)
    path = f"/servers/{server.id}"
    first = site.user.compute.delete(path).status_code
    until(lambda: not site.servers(name), "it is gone")
    return first, site.user.compute.delete(path).status_code, _ends(site, 0)


def much_is_made_of_a_server(site):
    name = site.create()
    site.decided(name)
    (server,) = site.servers(name)
    seen = []
    for action, status in (
        ({"rescue": {}}, "RESCUE"),
        ({"unrescue": None}, "ACTIVE"),
        ({"pause": None}, "PAUSED"),
        ({"pause": None}, "PAUSED"),
        ({"unpause": None}, "ACTIVE"),
        ({"suspend": None}, "SUSPENDED"),
        ({"resume": None}, "ACTIVE"),
        ({"reboot": {"type": "HARD"}}, "ACTIVE"),
        ({"os-stop": None}, "SHUTOFF"),
    ):
        path = f"/servers/{server.id}/action"
        answer = site.user.compute.post(path, json=action, microversion="2.96")
        until(lambda status=status: _is_at_rest(site, name, status), f"{action}: {status}\n{site.nova.log()}")
        seen.append((*action, answer.status_code))
    return seen, len(site.allocated())


def _is_at_rest(site, name, status):
    (found,) = site.servers(name)
    return found.status == status and found.task_state is None


def the_balancer_is_away_for_good(site):
    site.batch.kill()
    try:
        name = site.create()
        seen = _statuses(site, name, 1)
    finally:
        site.batch.start()
    return seen, _ends(site, 0)


def the_balancer_is_killed_while_a_create_waits(site):
    name = site.waits()
    site.batch.kill()
    site.batch.start()
    site.batch.end_job("n04")
    return site.decided(name), site.allocated()


def jobs_end_one_by_one_while_three_wait_for_a_node_each(site):
    site.batch.start_job(*NODES)
    for number in range(3):
        site.create(named=f"queue-{number}")
        site.waits_for(number + 1)
    for host in ("n05", "n02", "n03"):
        site.batch.end_job(host)
        until(lambda host=host: host in site.allocated(), f"{host} is granted")
    return _statuses(site, "queue", 3), sorted(site.allocated())


CASES = {
    each.__name__.replace("_", " "): each
    for each in (
        the_first_of_three_that_wait_is_deleted,
        the_last_of_three_that_wait_is_deleted,
        all_of_three_that_wait_are_deleted,
        one_more_than_there_is,
        at_most_eight_where_there_are_six,
        two_creates_say_that_they_are_the_same_request,
        more_than_the_quota,
        a_host_is_disabled,
        a_host_is_forced_down,
        a_server_is_deleted_twice,
        much_is_made_of_a_server,
        the_balancer_is_killed_while_a_create_waits,
        jobs_end_one_by_one_while_three_wait_for_a_node_each,
        twelve_creates_at_once,
        the_balancer_is_away_for_good,
    )
}
_FIVE = {"ACTIVE": ["n02", "n03", "n04", "n05", "n06"]}
EXPECTED = {
    "the first of three that wait is deleted": ({"ACTIVE": 2, "hosts": 2}, 2),
    "the last of three that wait is deleted": ({"ACTIVE": 2, "hosts": 2}, 2),
    "all of three that wait are deleted": (0, {"OA_IDLE"}),
    "one more than there is": ({"ERROR": 7, "hosts": 0}, 0),
    "at most eight where there are six": ({"ERROR": 8, "hosts": 0}, 0),
    "two creates say that they are the same request": ([202, 202], {"ACTIVE": 4, "hosts": 4}, 4),
    "more than the quota": (403, 0, 0),
    "a host is disabled": ({"ERROR": 6, "hosts": 0}, _FIVE, 5),
    "a host is forced down": ({"ERROR": 6, "hosts": 0}, _FIVE, 5),
    "a server is deleted twice": (204, 404, 0),
    "much is made of a server": (
        [
            ("rescue", 200), ("unrescue", 202), ("pause", 202), ("pause", 409), ("unpause", 202), ("suspend", 202),
            ("resume", 202), ("reboot", 202), ("os-stop", 202),
        ],
        1,
    ),
    "the balancer is killed while a create waits": ({"ACTIVE": ["n04"]}, ["n04"]),
    "jobs end one by one while three wait for a node each": ({"ACTIVE": 3, "hosts": 3}, ["n02", "n03", "n05"]),
    "twelve creates at once": ({"ACTIVE": 6, "ERROR": 6, "hosts": 6}, 6),
    "the balancer is away for good": ({"ERROR": 1, "hosts": 0}, 0),
}  # fmt: skip


def clear(site):
    """No server, no grant, no request, and every node is batch's again."""
    site.nova.faults()
    site.delete()
    until(site.is_home, f"all are home: {site.states()}\n{site.nova.log()}")
    site.batch.end_job(*site.batch.with_jobs())
    until(lambda: set(site.states().values()) == {"OA_IDLE"}, f"all nodes are idle: {site.states()}")
