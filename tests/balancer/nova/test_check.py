"""`balancer nova check`: a line for everything that a cloud lacks, with what to do."""

from __future__ import annotations

import json

import openstack
import pytest

from balancer.nova.check import conf_checks, read_conf, server_checks
from balancer.nova.decide import CloudLook, Memory, Rules, plan
from command_line import balance
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer

WELL = """
[DEFAULT]
long_rpc_timeout = 3600
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = balancer.nova.scheduler_filter.BalancerFilter
enabled_filters = ComputeFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,
    BalancerFilter
[balancer]
url = http://balancer:8090
hint_address = 127.0.0.1:8092
[oslo_messaging_notifications]
driver = messagingv2
driver = balancer
"""


def wrong(tmp_path, text, wait_s=600.0):
    path = tmp_path / "nova.conf"
    path.write_text(text)
    return {each.what: each.problem for each in conf_checks(path, wait_s) if each.problem}


def test_a_configuration_in_which_all_is_well(tmp_path):
    assert wrong(tmp_path, WELL) == {}


@pytest.mark.parametrize(
    ("line", "instead", "what", "says"),
    [
        (
            "available_filters = balancer.nova",
            "available_filters = other",
            "the scheduler knows the filter",
            "add the line",
        ),
        (
            "    BalancerFilter",
            "    JsonFilter",
            "the filter is enabled, as the last one",
            "add BalancerFilter",
        ),
        (
            "    BalancerFilter",
            "    BalancerFilter,JsonFilter",
            "the filter is enabled, as the last one",
            "before JsonFilter",
        ),
        ("url = http://balancer:8090", "", "it knows where the Balancer is", "set url"),
        (
            "long_rpc_timeout = 3600",
            "long_rpc_timeout = 600",
            "the conductor waits longer than W",
            "is 600 s, W is 600 s",
        ),
        (
            "ServerGroupAntiAffinityFilter,",
            "",
            "servers of groups with affinity find their host",
            "add ServerGroupAntiAffinityFilter to enabled_filters, before BalancerFilter",
        ),
        ("driver = balancer", "", "the agent learns of changes at once", "driver = balancer"),
    ],
)
def test_what_is_missing_is_named_with_its_section(tmp_path, line, instead, what, says):
    found = wrong(tmp_path, WELL.replace(line, instead))
    assert (list(found), says in found[what]) == ([what], True)


def test_a_line_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text("[DEFAULT]\nlong_rpc_timeout\n")
    with pytest.raises(ValueError, match=r"nova\.conf:2: long_rpc_timeout is neither"):
        read_conf(path)


@pytest.fixture
def check(served, monkeypatch):
    """`check(*arguments)` against a small OpenStack with the nodes `pool`; the Balancer has n01 and n02."""
    managers = []

    def run(*arguments, pool=("n01", "n02"), has_cloud=True, before=None):
        world, url = served(nodes=2, has_cloud=has_cloud)
        world.settled()
        manager = OndemandServer(OndemandConfig(pool=pool)).__enter__()
        managers.append(manager)
        given = {
            "AUTH_URL": manager.auth_url,
            "USERNAME": "admin",
            "PASSWORD": "secret",
            "PROJECT_NAME": "admin",
        }
        given |= {"USER_DOMAIN_ID": "default", "PROJECT_DOMAIN_ID": "default", "REGION_NAME": "RegionOne"}
        for name, value in given.items():
            monkeypatch.setenv(f"OS_{name}", value)
        if before is not None:
            with openstack.connect() as connection:
                before(connection)
        ended = balance("nova", "check", "--url", url, "--json", *arguments)
        assert ended.exit_code in {0, 1}, ended.exception
        # The service of this process logs to the same place.
        listed, _ = json.JSONDecoder().raw_decode(ended.output, ended.output.index("[\n  {"))
        shown = {each["what"]: each["problem"] for each in listed}
        return ended.exit_code, {what: problem for what, problem in shown.items() if problem}

    yield run
    for manager in managers:
        manager.__exit__()


# The command's connection ends with its process.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.live
def test_a_cloud_in_which_all_is_well(check):
    assert check() == (0, {})


@pytest.mark.live
def test_what_a_cloud_lacks(check):
    status, found = check(pool=("n01", "n02.site"), has_cloud=False)
    assert status == 1
    assert set(found) == {"the Balancer itself asks Nova before a grant ends", "every node is a compute host"}
    assert found["every node is a compute host"].startswith("n02 not known to Nova: nodes must be named as")


@pytest.mark.live
def test_disabled_services_and_servers_where_none_may_be(check):
    def misuse(connection):
        compute = connection.compute
        image, flavor = connection.image.find_image("tiny"), compute.find_flavor("node")
        server = compute.create_server(name="s", image_id=image.id, flavor_id=flavor.id, networks="none")
        compute.wait_for_server(server, wait=30, interval=0.05)
        compute.disable_service(next(iter(compute.services(binary="nova-compute"))))

    status, found = check(before=misuse)
    assert status == 1
    assert "their services are enabled, lent or not" in found
    assert "no server is where none may be: " in " ".join(found)


@pytest.mark.live
def test_a_service_that_does_not_answer_and_a_cloud_that_does_not(monkeypatch):
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:9/v3")
    for name in ("USERNAME", "PASSWORD", "PROJECT_NAME", "USER_DOMAIN_ID", "PROJECT_DOMAIN_ID"):
        monkeypatch.setenv(f"OS_{name}", "admin")
    ended = balance("nova", "check", "--url", "http://127.0.0.1:9")
    assert ended.exit_code == 1
    lines = ended.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["not so  the Balancer answers", "not so  Nova answers"]
    assert ended.stderr == "balancer: the scheduler's nova.conf was not looked at: give --nova-conf FILE\n"


@pytest.mark.parametrize(("whole", "said"), [(True, ""), (False, "a cell of Nova does not answer")])
def test_servers_that_could_not_be_seen_are_not_well(whole, said):
    look = CloudLook({}, whole=whole)
    seen = plan(Rules(), cloud=look, nodes=[], requests={}, allocations={}, before=Memory(), now_s=0.0)
    (only,) = server_checks(seen)
    assert only.problem.startswith(said)
    assert bool(only.problem) is not whole


def test_a_wait_that_is_compared_with_nothing_is_a_wrong_call():
    ended = balance("nova", "check", "--wait-s", "600")
    assert (ended.exit_code, ended.stderr.startswith("balancer: --wait-s goes with --nova-conf")) == (2, True)
