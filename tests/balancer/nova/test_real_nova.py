"""A real Nova, a real Placement and a real PostgreSQL ask the real Balancer. After each case every node is home again.

One test: what it takes to start all of this is shared by the cases, whichever worker runs it.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from balancer.client import Balancer
from ledger_kit import postgresql
from nova_kit.batch import Batch
from nova_kit.rig import RAM_MB, VCPUS, Nova, agent_of, until
from nova_kit.script import answers
from testdata import RECORDED

NODES = tuple(f"n{number:02d}" for number in range(1, 7))
ROUNDS = int(os.environ.get("NOVA_ROUNDS", "8"))
TRAIT = "CUSTOM_BALANCER_NODE"

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.needs("nova"),
    pytest.mark.timeout(600 + 30 * ROUNDS),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
]


class Site:
    """All of it, and what a user and an operator do with it."""

    def __init__(self, nova, batch, status):
        self.nova, self.batch, self.status = nova, batch, status
        self.admin = nova.connect()
        self.user = nova.connect("demo")
        self.balancer = Balancer(batch.url, name="operator", patience_s=30)
        for name, share in (("node", 1), ("half", 2)):
            self.admin.compute.create_flavor(name=name, vcpus=VCPUS // share, ram=RAM_MB // share, disk=10)

    def create(self, count=1, *, flavor="node", connection=None, named="", **more):
        """The servers of one create, named after it."""
        cloud = connection or self.user
        name = named or f"s{random.randrange(10**9)}"
        cloud.compute.create_server(
            name=name, image_id=cloud.image.find_image("tiny").id, flavor_id=cloud.compute.find_flavor(flavor).id,
            networks="none", min_count=count, max_count=count, **more,
        )  # fmt: skip
        return name

    def servers(self, name=""):
        return [each for each in self.admin.compute.servers(all_projects=True) if each.name.startswith(name)]

    def decided(self, name, count=1):
        """Status -> hosts, once none of its servers is under way any more."""

        def ended():
            found = self.servers(name)
            return found if len(found) == count and all(each.status != "BUILD" for each in found) else None

        found = {}
        for each in until(ended, f"{name} is decided\n{self.nova.log()}"):
            found.setdefault(each.status, []).append(each.compute_host)
        return {status: sorted(hosts, key=str) for status, hosts in found.items()}

    def delete(self, name=""):
        for each in self.servers(name):
            self.admin.compute.delete_server(each, ignore_missing=True)

    def act(self, server, action, version="2.96", **arguments):
        """What only administrators do to a server."""
        path = f"/servers/{server.id}/action"
        answer = self.admin.compute.post(path, json={action: arguments}, microversion=version)
        assert answer.status_code in (200, 202, 204), answer.text

    def force_down(self, host, is_down):
        """What a monitoring does to the compute service of a host that is gone: only then may servers be evacuated."""
        found = self.admin.compute.get("/os-services?binary=nova-compute", microversion="2.96").json()
        (service,) = (each["id"] for each in found["services"] if each["host"] == host)
        body = {"forced_down": is_down}
        answer = self.admin.compute.put(f"/os-services/{service}", json=body, microversion="2.96")
        assert answer.status_code == 200, answer.text

    def states(self):
        return {node.name: node.state for node in self.balancer.nodes()}

    def allocated(self):
        return sorted(name for name, state in self.states().items() if state == "OD_ALLOC")

    def waiting(self):
        return self.balancer.requests(state="waiting")

    def intruders(self):
        return json.loads(self.status.read_text())["intruders"]

    def is_home(self):
        return (
            not self.servers()
            and set(self.states().values()) <= {"OA_IDLE", "OA_BUSY"}
            and not self.waiting()
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nova")
    with postgresql.running() as postgres:
        nova = Nova(folder, postgres, NODES)
        batch = Batch(folder, NODES, nova.environment())
        try:
            batch.start()
            nova.configure(batch.url, wait_s=60)
            nova.make_databases()
            nova.start()
            with agent_of(
                nova, batch.url, folder, "--grace-s", "5", "--trait", TRAIT, "--aggregate", "balancer"
            ) as status:
                yield Site(nova, batch, status)
        finally:
            nova.close()
            batch.kill()


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
        hosts = sorted(each.compute_host for each in site.servers())
        until(lambda: site.allocated() == hosts, f"theirs alone are granted, not {site.allocated()}")
    finally:
        site.nova.kill()  # a host whose servers were evacuated is up again only after a start
        site.nova.start()
        site.force_down(from_gone, False)


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
    for _ in range(ROUNDS):
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
