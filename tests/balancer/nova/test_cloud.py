"""What the agent reads of Nova, against a cloud that is played call by call; the real one: test_real_nova.py."""

from types import SimpleNamespace

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


class Answers:
    """Servers, moves and allocations by path."""

    def __init__(self, bodies):
        self.bodies, self.asked = bodies, []

    def get(self, path, **_):
        self.asked.append(path)
        body = self.bodies.get(path)
        return SimpleNamespace(status_code=404 if body is None else 200, json=lambda: body)


def test_an_allocation_is_an_orphan_whose_consumer_is_no_server_and_no_move_of_one():
    moves = [{"uuid": "m1", "instance_uuid": "s1"}, {"uuid": "m2", "instance_uuid": "gone"}]
    hypervisors = {"hypervisors": [{"id": "u1", "service": {"host": "n1"}}]}
    compute = Answers(
        {"/servers/s1": {}, "/os-migrations": {"migrations": moves}, "/os-hypervisors/detail": hypervisors}
    )
    consumers = {consumer: {} for consumer in ("s1", "m1", "m2", "gone")}
    placement = Answers({"/resource_providers/u1/allocations": {"allocations": consumers}})
    cloud = NovaCloud(connection=SimpleNamespace(compute=compute, placement=placement))
    expected = {"n1": tuple(Allocation(name, name in {"gone", "m2"}) for name in ("gone", "m1", "m2", "s1"))}
    assert cloud.allocations(["n1"]) == expected
    compute.asked.clear()
    assert cloud.allocations(["n1"]) == expected
    assert "/os-migrations" not in compute.asked, "what was no move is none later"


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
