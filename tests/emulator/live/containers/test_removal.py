"""A fleet is removed whole, also by an engine that is late."""

from types import SimpleNamespace

import docker.errors
import pytest

from emulator.live.containers import docker_engine
from emulator.live.containers.docker_engine import FleetError


class LateNetwork:
    """It is busy with containers that are gone, as after hundreds of removals."""

    name = "fleet-net"

    def __init__(self, *, busy_for):
        self._busy_for = busy_for
        self.attrs = {"Containers": {"c1": {}, "c2": {}}}
        self.done = []

    def reload(self):
        self.done.append("reload")

    def disconnect(self, container, *, force):
        assert force
        self.done.append(f"disconnect {container}")
        self.attrs = {}
        raise docker.errors.NotFound("no such container")

    def remove(self):
        if self._busy_for:
            self._busy_for -= 1
            raise docker.errors.APIError("error while removing network: it has active endpoints")
        self.done.append("remove")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(docker_engine, "_PAUSE_S", 0)


def test_what_an_engine_still_counts_is_cut_off_and_the_network_removed_when_it_can_be():
    network = LateNetwork(busy_for=3)
    assert docker_engine.remove_network(network) == ""
    assert network.done == [
        "reload",
        "disconnect c1",
        "disconnect c2",
        "reload",
        "reload",
        "reload",
        "remove",
    ]


def test_an_engine_that_never_lets_go_is_told():
    assert docker_engine.remove_network(LateNetwork(busy_for=1000)) == (
        "cannot remove network fleet-net: error while removing network: it has active endpoints"
    )


class Engine:
    """Containers, a network and volumes of one fleet. `refuses`: names that it does not remove."""

    def __init__(self, *, containers=(), volumes=(), refuses=()):
        self.removed = []
        self._refuses = refuses
        self._containers = containers
        self.api = self
        self.networks = SimpleNamespace(list=lambda filters: [])
        self.volumes = SimpleNamespace(
            list=lambda filters: [
                SimpleNamespace(
                    name=name, attrs={"Labels": _labels()}, remove=lambda force, name=name: self._remove(name)
                )
                for name in volumes
            ]
        )

    def containers(self, all, filters):  # noqa: A002 - the name of the engine's own
        return [
            {"Id": name, "Names": [f"/fleet-{name}"], "Labels": _labels(role)}
            for role, name in self._containers
        ]

    def remove_container(self, name, force, v):
        assert force
        assert v
        self._remove(name)

    def _remove(self, name):
        if name in self._refuses:
            raise docker.errors.APIError(f"{name} is in use")
        self.removed.append(name)


def _labels(role="node"):
    return {"balancer-emulator.fleet": "fleet", "balancer-emulator.role": role}


def test_services_go_before_nodes_and_what_stays_is_told_after_all_the_rest_is_gone():
    engine = Engine(
        containers=[("node", "n001"), ("batch", "batch"), ("node", "n002")],
        volumes=["fleet", "scratch"],
        refuses={"n001", "fleet"},
    )
    removed = docker_engine.remove(engine, "fleet", threads=1)
    assert engine.removed == ["batch", "n002", "scratch"]
    assert removed == docker_engine.Removed(
        3,
        ("cannot remove container fleet-n001: n001 is in use", "cannot remove volume fleet: fleet is in use"),
    )


def test_data_of_a_run_that_is_not_over_are_kept():
    engine = Engine(containers=[("batch", "batch")], volumes=["fleet", "scratch"])
    assert docker_engine.remove(engine, "fleet", keep_data=True) == docker_engine.Removed(1, ())
    assert engine.removed == ["batch"]


def test_a_fleet_of_which_only_a_volume_is_left_is_found(monkeypatch):
    monkeypatch.setattr(docker_engine, "fleets", lambda _: {"project"})
    engine = Engine(volumes=["fleet"])
    assert (
        docker_engine.the_own_fleet(engine, None) == docker_engine.the_own_fleet(engine, "fleet") == "fleet"
    )
    assert docker_engine.the_own_fleet(engine, "other") is None
    with pytest.raises(
        FleetError, match="project is a project of Docker Compose: `docker compose -p project down`"
    ):
        docker_engine.the_own_fleet(engine, "project")
