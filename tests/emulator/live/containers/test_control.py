"""What the controller tells the containers: here, who a node is."""

from __future__ import annotations

import json
import urllib.request

import pytest

from emulator.live.containers import control
from emulator.live.containers.control import ControlServer, replica_at


class _Answers:
    def start_settings(self, role, name):
        return {"role": role, "name": name}


@pytest.fixture
def ask():
    with ControlServer(("127.0.0.1", 0), _Answers()) as server:

        def ask(query):
            with urllib.request.urlopen(
                f"http://127.0.0.1:{server.port}/start/{query}", timeout=30
            ) as answer:
                return json.load(answer)["name"]

        yield ask


@pytest.fixture
def network_says(monkeypatch):
    """`network_says(name)`: the reverse look-up of every address (a container network's, which is not here)."""
    return lambda name: monkeypatch.setattr(
        control.socket, "gethostbyaddr", lambda address: (name, [], [address])
    )


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("project-node-3.project_default", "n003"),
        ("project_node_372", "n372"),
        ("merge-node-12.a-node-7.net", "n012"),
        ("1c2d3e4f5a6b", None),
        ("node", None),
        ("project-nodes-3.net", None),
    ],
)
def test_a_replica_is_named_by_its_number(network_says, name, node):
    network_says(name)
    assert replica_at("172.18.0.9") == node


def test_an_address_without_a_name_is_no_replica():
    assert replica_at("no address") is None


@pytest.mark.parametrize(
    ("query", "node"),
    [
        ("node?name=n009&host=1c2d", "n009"),
        ("node?host=1c2d", "n003"),
        ("balancer", None),
    ],
)
def test_who_says_its_name_is_believed_and_others_are_looked_up(network_says, ask, query, node):
    network_says("project-node-3.project_default")
    assert ask(query) == node


def test_a_node_that_is_no_replica_goes_by_its_host_name(network_says, ask):
    network_says("1c2d.network")
    assert ask("node?host=1c2d") == "1c2d"
