"""What can be made of a server and when, who may see what is gone, and users that are made."""

from __future__ import annotations

import pytest
from keystoneauth1.exceptions import Unauthorized
from openstack import exceptions

from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer

pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
]

ACTIONS = {
    "os-stop": None, "os-start": None, "pause": None, "unpause": None, "suspend": None, "resume": None, "rescue": None,
    "unrescue": None, "changePassword": {"adminPass": "word"}, "trigger_crash_dump": None, "confirmResize": None,
    "reboot SOFT": {"type": "SOFT"}, "reboot HARD": {"type": "HARD"},
}  # fmt: skip
TO = {
    "ACTIVE": None, "SHUTOFF": "os-stop", "PAUSED": "pause", "SUSPENDED": "suspend", "RESCUE": "rescue",
}  # fmt: skip
"""Status -> the action that leads to it from ACTIVE."""
ALLOWED = {
    "ACTIVE": {
        "os-stop": "SHUTOFF", "pause": "PAUSED", "suspend": "SUSPENDED", "rescue": "RESCUE", "changePassword": "ACTIVE",
        "trigger_crash_dump": "ACTIVE", "reboot SOFT": "ACTIVE", "reboot HARD": "ACTIVE",
    },
    "SHUTOFF": {"os-start": "ACTIVE", "rescue": "RESCUE", "reboot HARD": "ACTIVE"},
    "PAUSED": {"unpause": "ACTIVE", "trigger_crash_dump": "PAUSED", "reboot HARD": "ACTIVE"},
    "SUSPENDED": {"resume": "ACTIVE", "reboot HARD": "ACTIVE"},
    "RESCUE": {"unrescue": "ACTIVE", "trigger_crash_dump": "RESCUE"},
    "ERROR": {
        "os-stop": "SHUTOFF", "rescue": "RESCUE", "trigger_crash_dump": "ERROR", "reboot HARD": "ACTIVE",
    },
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
    admin = connect(manager, "admin")
    server = made(admin)
    found = {}
    for name, arguments in ACTIONS.items():
        act(admin, server, "os-resetState", {"state": "error" if status == "ERROR" else "active"})
        if TO.get(status):
            assert act(admin, server, TO[status]) < 300
        if act(admin, server, name, arguments) != 409:
            found[name] = admin.compute.get_server(server.id).status
    assert found == ALLOWED[status]


def test_a_server_keeps_its_node_through_all_of_it_and_gives_it_back_at_its_end(manager, connect):
    admin = connect(manager, "admin")
    server = made(admin)
    for action in ("pause", "unpause", "suspend", "resume", "rescue", "unrescue"):
        act(admin, server, action)
        assert admin.compute.get_server(server.id).compute_host == server.compute_host
    assert act(admin, server, "forceDelete") == 202
    admin.compute.wait_for_delete(server, interval=0.05, wait=60)


def test_a_locked_server_is_its_administrators(manager, connect):
    user, admin = connect(manager), connect(manager, "admin")
    server = made(user)
    act(admin, server, "lock")
    refused = {name: act(user, server, name) for name in ("pause", "os-stop", "forceDelete")}
    assert refused == {"pause": 409, "os-stop": 409, "forceDelete": 409}
    assert act(admin, server, "pause") == 202


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


def test_tags_and_states_outlive_the_manager(tmp_path, connect):
    config = OndemandConfig(pool=("node001", "node002"), memory=tmp_path / "memory")
    with OndemandServer(config) as manager:
        user = connect(manager)
        server = made(user)
        user.compute.add_tag_to_server(server, "mine")
        act(user, server, "pause")
    with OndemandServer(config) as manager:
        user = connect(manager)
        again = user.compute.get_server(server.id)
        assert (again.status, again.tags) == ("PAUSED", ["mine"])
        tags = user.compute.get(f"/servers/{server.id}/tags", microversion="2.26")
        assert tags.json() == {"tags": ["mine"]}


def test_a_host_whose_compute_service_was_deleted_gets_no_server(manager, connect):
    admin = connect(manager, "admin")
    server = made(admin)
    services = {each.host: each for each in admin.compute.services(binary="nova-compute")}
    with pytest.raises(exceptions.ConflictException, match="hosting instances"):
        admin.compute.delete_service(services.pop(server.compute_host))
    gone = services.pop("node004")
    admin.compute.delete_service(gone)
    assert "node004" not in [each.name for each in admin.compute.hypervisors()]
    assert "node004" not in [
        each["name"] for each in admin.placement.get("/resource_providers").json()["resource_providers"]
    ]
    found = {made(admin, host).compute_host for host in services}
    assert found == services.keys()


def test_a_user_who_is_made_comes_in_where_a_role_was_given(manager, connect):
    admin = connect(manager, "admin")
    lab, carl = (
        admin.identity.create_project(name="lab"),
        admin.identity.create_user(name="carl", password="word"),
    )

    def comes_in(password, project="lab"):
        other = connect(manager, "carl", password=password, project_name=project)
        try:
            return other.current_project_id
        except Unauthorized:
            return None

    member = admin.identity.find_role("member")
    assert comes_in("word") is None
    admin.identity.assign_project_role_to_user(lab, carl, member)
    assert comes_in("word") == lab.id
    assert comes_in("other") is None
    assert comes_in("word", project="demo") is None
    admin.identity.update_user(carl, password="other")
    assert (comes_in("word"), comes_in("other")) == (None, lab.id)
    admin.identity.update_user(carl, enabled=False)
    assert comes_in("other") is None
