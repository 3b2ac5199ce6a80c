"""A fleet is removed whole, also by an engine that is late."""

import docker.errors
import pytest

from emulator.live.containers import fleet


class LateNetwork:
    """It is busy with containers that are gone, as after hundreds of removals."""

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
    monkeypatch.setattr(fleet, "_NETWORK_PAUSE_S", 0)


def test_what_an_engine_still_counts_is_cut_off_and_the_network_removed_when_it_can_be():
    network = LateNetwork(busy_for=3)
    fleet._remove_network(network)
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
    with pytest.raises(docker.errors.APIError, match="active endpoints"):
        fleet._remove_network(LateNetwork(busy_for=1000))
