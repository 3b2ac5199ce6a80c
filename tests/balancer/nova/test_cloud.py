"""What the agent reads of Nova, against a cloud that is played call by call; the real one: test_real_nova.py."""

from io import BytesIO
from types import SimpleNamespace

import pytest
from requests import Response

from balancer.drivers.base import DriverError
from balancer.nova.cloud import NovaCloud
from balancer.nova.decide import Allocation, CloudLook, Server


class Compute:
    """Two hosts, of which one has two hypervisors, as ironic's has; two hypervisors a page."""

    def __init__(self):
        self.asked = []

    def get(self, path, *, params, microversion):
        self.asked.append((path, params, microversion))
        found = [
            {"id": uuid, "service": {"host": host}}
            for uuid, host in (("u1", "n1"), ("u2", "ironic"), ("u3", "ironic"))
        ]
        first = 2 if params else 0
        page = {"hypervisors": found[first : first + 2]}
        if not first:
            page["hypervisors_links"] = [{"rel": "next", "href": "..."}]
        return SimpleNamespace(status_code=200, json=lambda: page)


def test_the_providers_of_a_host_are_its_hypervisors_and_no_host_is_asked_for_them():
    compute = Compute()
    cloud = NovaCloud(connection=SimpleNamespace(compute=compute))
    assert cloud.providers() == {"n1": ("u1",), "ironic": ("u2", "u3")}
    assert [(path, params) for path, params, _ in compute.asked] == [
        ("/os-hypervisors/detail", {}),
        ("/os-hypervisors/detail", {"marker": "u2"}),
    ]
    # Ids are those of Placement from 2.53 on; from 2.88 on Nova asks every host for its uptime.
    assert all((2, 53) <= tuple(map(int, version.split("."))) < (2, 88) for *_, version in compute.asked)


def cut_off(*_, **__):
    """The answer of a service that ends in the middle of it."""
    response = Response()
    response.status_code, response.raw = 200, BytesIO(b"")
    return response


@pytest.mark.parametrize(
    "call",
    [
        lambda cloud: cloud.providers(),
        lambda cloud: cloud.placement("/resource_providers/u1/allocations"),
        lambda cloud: cloud.remove_allocation("n1", "c1"),
        lambda cloud: cloud.look(),
    ],
)
def test_an_answer_that_is_cut_off_is_a_cloud_that_cannot_be_read(call):
    service = SimpleNamespace(get=cut_off, services=lambda **_: cut_off().json())
    with pytest.raises(DriverError, match="the cloud cannot be read: Expecting value"):
        call(NovaCloud(connection=SimpleNamespace(compute=service, placement=service)))


class Answers:
    """Servers, moves and allocations by path; moves also of one server."""

    def __init__(self, bodies):
        self.bodies, self.asked, self.put_bodies = bodies, [], []

    def get(self, path, params=None, **_):
        self.asked.append((path, *(params or {}).values()))
        body = self.bodies.get(path)
        if "instance_uuid" in (params or {}):
            moves = [each for each in body["migrations"] if each["instance_uuid"] == params["instance_uuid"]]
            body = {"migrations": moves}
        return SimpleNamespace(status_code=404 if body is None else 200, json=lambda: body)

    def put(self, path, *, json, headers):
        self.put_bodies.append((path, json, headers))
        return SimpleNamespace(status_code=204)


def server(host, status="ACTIVE", task=None):
    shown = {"OS-EXT-SRV-ATTR:host": host, "status": status, "OS-EXT-STS:task_state": task}
    return {"server": shown}


def move(uuid, server, status, kind="live-migration", source="n2"):
    shown = {"uuid": uuid, "instance_uuid": server, "status": status, "migration_type": kind}
    return shown | {"source_compute": source}


HYPERVISORS = {"hypervisors": [{"id": "u1", "service": {"host": "n1"}}]}
CASES = [
    ("a server is there", {"s1": server("n1")}, [], Allocation("s1")),
    ("nobody", {}, [], Allocation("s1", is_orphan=True)),
    ("a server that is built", {"s1": server(None, "BUILD", "scheduling")}, [], Allocation("s1")),
    ("one that is unshelved", {"s1": server(None, "SHELVED_OFFLOADED", "unshelving")}, [], Allocation("s1")),
    ("one that could not be built", {"s1": server(None, "ERROR")}, [], Allocation("s1", True, "u1")),
    ("a server that is elsewhere", {"s1": server("n2")}, [], Allocation("s1", True, "u1")),
    ("one that moves here", {"s1": server("n2")}, [move("m1", "s1", "running")], Allocation("s1")),
    ("whose move has failed", {"s1": server("n2")}, [move("m1", "s1", "error")], Allocation("s1", True, "u1")),
    (
        "which was evacuated from here, where Nova has not started since",
        {"s1": server("n2")}, [move("m1", "s1", "done", "evacuation", "n1")], Allocation("s1"),
    ),
    (
        "which was evacuated from elsewhere",
        {"s1": server("n2")}, [move("m1", "s1", "done", "evacuation", "n3")], Allocation("s1", True, "u1"),
    ),
    (
        "which was evacuated from here, where Nova has started since",
        {"s1": server("n2")}, [move("m1", "s1", "completed", "evacuation", "n1")], Allocation("s1", True, "u1"),
    ),
    ("a resize to be confirmed", {"s2": server("n2")}, [move("s1", "s2", "finished")], Allocation("s1")),
    ("a move that is over", {"s2": server("n2")}, [move("s1", "s2", "confirmed")], Allocation("s1", is_orphan=True)),
    ("a move that has failed", {"s2": server("n1")}, [move("s1", "s2", "failed")], Allocation("s1", is_orphan=True)),
    ("a move of no server", {}, [move("s1", "s2", "running")], Allocation("s1", is_orphan=True)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("servers", "moves", "expected"), [each[1:] for each in CASES], ids=[each[0] for each in CASES]
)
def test_whose_an_allocation_is(servers, moves, expected):
    bodies = {f"/servers/{name}": body for name, body in servers.items()}
    compute = Answers(
        bodies | {"/os-migrations": {"migrations": moves}, "/os-hypervisors/detail": HYPERVISORS}
    )
    placement = Answers({"/resource_providers/u1/allocations": {"allocations": {"s1": {}}}})
    cloud = NovaCloud(connection=SimpleNamespace(compute=compute, placement=placement))
    assert cloud.allocations({"n1": ()}) == {"n1": (expected,)}
    compute.asked.clear()
    assert cloud.allocations({"n1": ()}) == {"n1": (expected,)}
    assert ("/os-migrations",) not in compute.asked, "what was no move is none later"


def test_nothing_is_asked_of_a_server_that_nova_has_just_shown_there():
    compute = Answers({"/os-hypervisors/detail": HYPERVISORS})
    placement = Answers({"/resource_providers/u1/allocations": {"allocations": {"s1": {}}}})
    cloud = NovaCloud(connection=SimpleNamespace(compute=compute, placement=placement))
    assert cloud.allocations({"n1": ["s1"]}) == {"n1": (Allocation("s1"),)}
    assert compute.asked == [("/os-hypervisors/detail",)]


def test_only_what_a_consumer_has_of_this_host_is_removed():
    has = {
        "allocations": {
            "u1": {"generation": 3, "resources": {"VCPU": 4}},
            "u2": {"generation": 9, "resources": {"VCPU": 4}},
        },
        "project_id": "p", "user_id": "u", "consumer_generation": 5,
    }  # fmt: skip
    compute = Answers({"/os-hypervisors/detail": HYPERVISORS})
    shown = {"/resource_providers/u1/allocations": {"allocations": {}}}
    placement = Answers(shown | {"/allocations/s1": has, "/allocations/none": {"allocations": {}}})
    cloud = NovaCloud(connection=SimpleNamespace(compute=compute, placement=placement))
    cloud.allocations({"n1": ()})
    cloud.remove_allocation("n1", "s1")
    cloud.remove_allocation("n1", "none")
    left = has | {"allocations": {"u2": {"resources": {"VCPU": 4}}}}
    assert placement.put_bodies == [("/allocations/s1", left, {"OpenStack-API-Version": "placement 1.28"})]


def test_a_look_says_how_the_compute_service_of_each_host_is():
    def service(host, state="up", status="enabled", *, forced=False):
        return SimpleNamespace(host=host, state=state, status=status, is_forced_down=forced)

    services = [
        service("n1"), service("n2", "down"), service("n3", status="disabled"), service("n4", "down", forced=True),
    ]  # fmt: skip
    servers = [SimpleNamespace(id="s1", name="one", status="ACTIVE", compute_host="n5")]
    compute = SimpleNamespace(services=lambda **_: services, servers=lambda **_: servers)
    assert NovaCloud(connection=SimpleNamespace(compute=compute)).look() == CloudLook(
        {"n1": (), "n2": (), "n3": (), "n4": (), "n5": (Server("s1", "one", "ACTIVE"),)},
        whole=True,
        services={"n1": "up", "n2": "down", "n3": "disabled", "n4": "forced down", "n5": "gone"},
    )
