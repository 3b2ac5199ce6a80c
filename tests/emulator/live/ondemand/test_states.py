"""What can be made of a server and when, and who may see what is gone."""

from __future__ import annotations

import pytest

from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer

pytestmark = pytest.mark.live

ACTIONS = {
    "os-stop": None, "os-start": None, "pause": None, "unpause": None, "suspend": None, "resume": None, "rescue": None,
    "unrescue": None, "reboot SOFT": {"type": "SOFT"}, "reboot HARD": {"type": "HARD"},
}  # fmt: skip
TO = {"SHUTOFF": "os-stop", "PAUSED": "pause", "SUSPENDED": "suspend", "RESCUE": "rescue"}
"""Status -> the action that leads to it from ACTIVE."""
ALLOWED = {
    "ACTIVE": {
        "os-stop": "SHUTOFF", "pause": "PAUSED", "suspend": "SUSPENDED", "rescue": "RESCUE", "reboot SOFT": "ACTIVE",
        "reboot HARD": "ACTIVE",
    },
    "SHUTOFF": {"os-start": "ACTIVE", "rescue": "RESCUE", "reboot HARD": "ACTIVE"},
    "PAUSED": {"unpause": "ACTIVE", "reboot HARD": "ACTIVE"},
    "SUSPENDED": {"resume": "ACTIVE", "reboot HARD": "ACTIVE"},
    "RESCUE": {"unrescue": "ACTIVE"},
}  # fmt: skip
"""By the decorators of nova/compute/api.py: status -> action -> what it is then; all else is refused with 409."""


def made(connection, name="one"):
    image, flavor = connection.image.find_image("tiny"), connection.compute.find_flavor("node")
    server = connection.compute.create_server(
        name=name, image_id=image.id, flavor_id=flavor.id, networks="none"
    )
    return connection.compute.wait_for_server(server, wait=60, interval=0.05)


def act(connection, server, action, arguments=None):
    path, body = f"/servers/{server.id}/action", {action.split()[0]: arguments}
    return connection.compute.post(path, json=body, microversion="2.96").status_code


@pytest.mark.parametrize("status", ALLOWED)
def test_what_can_be_made_of_a_server_depends_on_its_status(manager, connect, status):
    user = connect(manager)
    server, found = made(user), {}
    for name, arguments in ACTIONS.items():
        for back in (("unrescue", None), ("reboot", {"type": "HARD"})):
            act(user, server, *back)
        if status in TO:
            assert act(user, server, TO[status]) < 300
        if act(user, server, name, arguments) != 409:
            found[name] = user.compute.get_server(server.id).status
    assert found == ALLOWED[status]


def test_a_server_keeps_its_node_through_all_of_it_and_gives_it_back_at_its_end(manager, connect):
    admin = connect(manager, "admin")
    server = made(admin)
    for action in ("pause", "unpause", "suspend", "resume", "rescue", "unrescue"):
        act(admin, server, action)
        assert admin.compute.get_server(server.id).compute_host == server.compute_host
    admin.compute.delete_server(server)
    admin.compute.wait_for_delete(server, interval=0.05, wait=60)
    assert {made(admin, f"s{number}").compute_host for number in range(4)} >= {server.compute_host}


def test_what_was_deleted_is_shown_to_those_who_ask(manager, connect):
    user, admin = connect(manager), connect(manager, "admin")
    server = made(user)
    made(user, "two")
    user.compute.delete_server(server)
    user.compute.wait_for_delete(server, interval=0.05, wait=60)

    def names(connection, **query):
        answer = connection.compute.get("/servers/detail", params=query, microversion="2.96").json()
        return [(each["name"], each["status"]) for each in answer["servers"]]

    assert names(user) == [("two", "ACTIVE")]
    assert names(user, deleted="true") == [("two", "ACTIVE")]
    assert names(admin, all_tenants="1", deleted="true") == [("one", "DELETED")]
    assert names(admin, all_tenants="1", status="deleted") == [("one", "DELETED")]
    since = "2020-01-01T00:00:00Z"
    assert names(user, **{"changes-since": since}) == [("two", "ACTIVE"), ("one", "DELETED")]


def test_metadata_and_states_outlive_the_manager(tmp_path, connect):
    config = OndemandConfig(pool=("node001", "node002"), memory=tmp_path / "memory")
    with OndemandServer(config) as manager:
        user = connect(manager)
        server = made(user)
        user.compute.set_server_metadata(server, job="42")
        act(user, server, "pause")
    with OndemandServer(config) as manager:
        again = connect(manager).compute.get_server(server.id)
        assert (again.status, again.metadata) == ("PAUSED", {"job": "42"})
