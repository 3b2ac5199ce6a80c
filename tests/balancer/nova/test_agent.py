"""The agent beside a real Balancer and a cloud in memory: what it confirms, returns and tells."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from balancer.drivers.cloud import CloudStatus
from balancer.nova.agent import Agent, AgentSettings
from balancer.nova.balancer_calls import Asker
from balancer.nova.decide import Rules
from balancer.nova.question import Create, QuestionSettings


@pytest.fixture
def site(served, client, cloud, tmp_path):
    """A Balancer with three nodes, an empty cloud, and the agent between them."""

    class Site:
        def __init__(self):
            self.world, self.url = served(nodes=3, confirm_s=60, idle_reserve_s=0)
            self.world.settled()
            self.world.cloud.hosts = dict.fromkeys(self.world.names, CloudStatus(enabled=False))
            self.cloud = cloud(self.world.names)
            self.client = client(self.url)
            self.status = tmp_path / "agent.json"
            self.agent = self.new_agent()

        def new_agent(self, **options):
            settings = AgentSettings(
                rules=Rules(owner="nova", grace_s=60.0), status_file=self.status, **options
            )
            return Agent(self.cloud, self.client, settings)

        def create(self, count=1):
            create = Create(request_id="req-1", count=count, hosts=tuple(self.world.names))
            return sorted(Asker(QuestionSettings(url=self.url)).passing(create))

        def pass_s(self, time_s):
            self.world.clock.advance_to(self.world.clock.now_us() + round(time_s * 1e6))

        def look_after_s(self, time_s):
            self.pass_s(time_s)
            self.agent.look()

        def now_has(self, node, *servers):
            """The agent sees these servers there, and no others."""
            self.cloud.put(node, *servers)
            self.agent.look()

        def started(self, *servers):
            """The node of a new grant, with these servers."""
            (node,) = self.create()
            self.now_has(node, *servers)
            return node

        def allocated(self):
            return sorted(name for name, state in self.world.settled().items() if state == "OD_ALLOC")

    return Site()


def test_a_grant_with_a_server_is_confirmed_and_goes_back_after_it(site):
    node = site.started("s1")
    assert site.client.requests()[0].confirmed
    site.look_after_s(3600)
    assert site.allocated() == [node]
    site.now_has(node)
    assert site.allocated() == []


def test_a_grant_that_never_gets_a_server_ends_by_itself(site):
    site.create()
    site.agent.look()
    assert not site.client.requests()[0].confirmed
    site.pass_s(61)
    assert site.allocated() == []


def test_of_two_servers_on_a_node_the_last_one_ends_it(site):
    node = site.started("s1", "s2")
    site.now_has(node, "s2")
    assert site.allocated() == [node]
    site.now_has(node)
    assert site.allocated() == []


def test_of_two_nodes_only_the_one_whose_server_is_gone_goes_back(site):
    one, other = site.create(2)
    site.cloud.put(one, "s1")
    site.now_has(other, "s2")
    site.now_has(one)
    assert site.allocated() == [other]


def test_a_part_of_a_grant_that_is_never_used_goes_back_after_the_grace(site):
    one, other = site.create(2)
    site.now_has(one, "s1")
    site.agent.look()
    assert site.allocated() == [one, other]
    site.look_after_s(61)
    assert site.allocated() == [one]


def test_an_agent_that_is_started_again_needs_only_the_grace(site):
    node = site.started("s1")
    site.agent = site.new_agent()
    site.now_has(node)
    assert site.allocated() == [node]
    site.look_after_s(61)
    assert site.allocated() == []


def test_while_the_cloud_does_not_answer_nothing_goes_back_and_that_is_shown(site):
    node = site.started("s1")
    site.cloud.put(node)
    site.cloud.is_away = True
    assert site.agent.look() is None
    assert site.allocated() == [node]
    assert json.loads(site.status.read_text())["problem"] == "the cloud cannot be read: no answer"
    site.cloud.is_away = False
    site.agent.look()
    assert (site.allocated(), json.loads(site.status.read_text())["problem"]) == ([], None)


def leftovers(site):
    return [(each["node"], each["consumer"]) for each in json.loads(site.status.read_text())["leftovers"]]


def test_an_allocation_of_no_server_is_told_after_the_grace_until_it_is_gone_and_the_node_goes_back(site):
    node = site.started("s1")
    site.cloud.put(node)
    site.cloud.orphans["c1"] = node
    site.agent.look()
    assert (site.allocated(), leftovers(site)) == ([node], [])
    site.look_after_s(61)
    assert (site.allocated(), leftovers(site)) == ([], [(node, "c1")])
    site.agent.look()
    (shown,) = json.loads(site.status.read_text())["leftovers"]
    assert "openstack resource provider allocation delete c1" in shown["what_to_do"]
    site.cloud.orphans.clear()
    site.agent.look()
    assert leftovers(site) == []


def test_or_is_removed_by_an_agent_that_may(site):
    site.agent = site.new_agent(removes_orphans=True)
    node = site.started("s1")
    site.cloud.put(node)
    site.cloud.orphans["c1"] = node
    site.agent.look()
    assert site.cloud.orphans == {"c1": node}
    site.look_after_s(61)
    assert (site.allocated(), site.cloud.orphans) == ([], {})


def test_one_beside_a_server_is_told_and_removed_too_and_the_server_keeps_its_node(site):
    site.agent = site.new_agent(removes_orphans=True)
    (node,) = site.create()
    site.cloud.put(node, "s1")
    site.cloud.orphans["c1"] = node
    looks(site)
    assert (site.cloud.orphans, leftovers(site)) == ({"c1": node}, [])
    site.look_after_s(60)
    assert (site.allocated(), site.cloud.orphans, leftovers(site)) == ([node], {}, [(node, "c1")])
    site.agent.look()
    assert leftovers(site) == []


def test_what_a_server_that_is_elsewhere_has_left_is_told_with_a_command_that_leaves_it_the_rest(site):
    one, other = site.create(2)
    for node in (one, other):
        site.cloud.put(node, f"server on {node}")
    site.cloud.orphans["s1"], site.cloud.providers["s1"] = one, "rp-of-one"
    looks(site)
    site.cloud.put(other)
    site.cloud.orphans["s2"], site.cloud.providers["s2"] = other, "rp-of-other"
    site.agent.look()
    site.look_after_s(60)
    assert site.allocated() == [one]
    shown = json.loads(site.status.read_text())["leftovers"]
    assert [(each["node"], each["why"]) for each in shown] == [
        (one, "an allocation of a server that is elsewhere"),
        (other, "an allocation of a server that is elsewhere"),
    ]
    assert [each["what_to_do"].partition(" (")[0] for each in shown] == [
        f"openstack resource provider allocation unset --provider {provider} {consumer} --os-placement-api-version 1.28"
        for consumer, provider in (("s1", "rp-of-one"), ("s2", "rp-of-other"))
    ]


def looks(site):
    """Until the agent has looked at each node."""
    for _ in site.world.names:
        site.agent.look()


def test_so_is_one_that_comes_when_its_node_has_gone_back(site):
    """A deletion overtook a move, and Nova gave the server that is no more its allocation back."""
    site.agent = site.new_agent(removes_orphans=True)
    node = site.started("s1")
    site.now_has(node)
    assert site.allocated() == []
    site.cloud.orphans["s1"] = node
    for _ in range(60):
        site.agent.look()
    site.look_after_s(61)
    assert site.cloud.orphans == {}


def test_a_node_that_nova_lists_no_longer_goes_back_after_the_grace_and_is_told(site):
    node = site.started("s1")
    del site.cloud.servers[node]
    site.agent.look()
    assert site.allocated() == [node]
    site.look_after_s(61)
    assert (site.allocated(), leftovers(site)) == ([], [(node, "")])


def test_a_node_whose_service_is_down_is_told_after_ten_minutes_and_goes_back_with_its_last_server(site):
    (node,) = site.create()
    site.cloud.put(node, "s1")
    site.cloud.services[node] = "down"
    site.agent.look()
    site.look_after_s(599)
    assert json.loads(site.status.read_text())["stuck"] == []
    site.look_after_s(1)
    assert json.loads(site.status.read_text())["stuck"] == [
        {
            "node": node,
            "service": "down",
            "consumers": [],
            "why": "nova-compute there is down, and servers are there",
            "what_to_do": "start nova-compute there, or evacuate its servers; the node goes back with the last of them",
        }
    ]
    site.now_has(node)
    assert (site.allocated(), json.loads(site.status.read_text())["stuck"]) == ([], [])


def test_so_is_one_that_a_server_has_allocated_and_never_comes_to(site):
    (node,) = site.create()
    site.cloud.allocated.add(node)
    site.agent.look()
    site.look_after_s(600)
    (shown,) = json.loads(site.status.read_text())["stuck"]
    assert (shown["node"], shown["consumers"]) == (node, [f"server on {node}"])
    assert f"openstack server migration list of server on {node}" in shown["what_to_do"]


def test_while_a_cell_is_silent_nothing_goes_back_and_that_is_shown(site):
    node = site.started("s1")
    site.cloud.put(node)
    site.cloud.whole = False
    site.agent.look()
    said = "a cell of Nova is silent: until it answers no node goes back"
    assert (site.allocated(), json.loads(site.status.read_text())["problem"]) == ([node], said)
    site.cloud.whole = True
    site.agent.look()
    assert (site.allocated(), json.loads(site.status.read_text())["problem"]) == ([], None)


def test_a_grant_of_somebody_else_is_left_alone(site, client):
    request = client(site.url, "odrm").request_nodes(1)
    site.look_after_s(600)
    site.agent.look()
    assert site.allocated() == list(request.nodes)


def test_a_server_on_a_batch_node_is_shown_until_it_is_gone(site):
    site.now_has("n02", "forced")
    (shown,) = json.loads(site.status.read_text())["intruders"]
    assert (shown["server"], shown["node"], shown["why"]) == (
        "forced",
        "n02",
        "the node is batch's (OA_IDLE)",
    )
    assert "openstack server migrate forced" in shown["what_to_do"]
    site.now_has("n02")
    assert json.loads(site.status.read_text())["intruders"] == []


def test_a_node_that_was_granted_anew_meanwhile_is_not_returned(site):
    """Between the look and the call the node went back and was granted again: the generation tells."""
    node = site.started("s1")
    decided = site.agent._decide()
    site.cloud.put(node)
    decided = site.agent._decide()
    assert set(decided.release) == {node}
    site.client.release_nodes([node])
    site.world.settled()
    assert site.client.request_nodes(3, idempotency_key="again").nodes
    site.agent._do(decided)
    assert site.allocated() == site.world.names


def test_a_granted_node_that_has_failed_is_told_and_nothing_is_done_about_it(site):
    node = site.started("s1")
    site.world.fails(node)
    site.agent.look()
    (failed,) = json.loads(site.status.read_text())["failed"]
    assert (failed["node"], failed["why"]) == (node, "the Balancer has found it down")
    assert site.allocated() == [node]


def test_a_status_file_that_cannot_be_written_keeps_no_node_and_is_told_once(site):
    (node,) = site.create()
    site.cloud.put(node, "s1")
    site.status.mkdir()
    with capture_logs() as told:
        site.agent.look()
        site.now_has(node)
    assert site.allocated() == []
    assert [each["file"] for each in told if each["event"] == "the status file cannot be written"] == [
        str(site.status)
    ]
