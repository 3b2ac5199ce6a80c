"""What a real Nova refuses the manager refuses, by one script of requests; lists are filtered as Nova's are.

`tests/balancer/nova/test_real_nova.py` holds the same recording against the real one.
"""

from __future__ import annotations

import json

import pytest

from nova_kit.script import SCRIPT, answers
from testdata import RECORDED

pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
]


def made(connection, name, **more):
    image, flavor = connection.image.find_image("tiny"), connection.compute.find_flavor("node")
    server = connection.compute.create_server(
        name=name, image_id=image.id, flavor_id=flavor.id, networks="none", **more
    )
    return connection.compute.wait_for_server(server, wait=60, interval=0.05)


def test_the_manager_answers_the_script_as_nova_does(manager, connect):
    connections = {user: connect(manager, user) for user in ("demo", "admin")}
    made(connections["demo"], "script")
    recorded = json.loads((RECORDED / "nova" / "script.json").read_text())
    assert len(SCRIPT) >= 170
    assert answers(connections) == recorded


@pytest.fixture
def three(manager, connect):
    """Two servers of demo and one of admin; gives an administrator's connection."""
    user, admin = connect(manager), connect(manager, "admin")
    made(user, "one", tags=["a", "b"])
    two = made(user, "two", tags=["b"])
    admin.compute.lock_server(two)
    made(admin, "three")
    return admin


def names(connection, **query):
    found = connection.compute.get(
        "/servers", params={"all_tenants": "1"} | query, microversion="2.96"
    ).json()
    return [server["name"] for server in found["servers"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["three", "two", "one"]),
        ({"tags": "a,b"}, ["one"]),
        ({"tags-any": "a,b"}, ["two", "one"]),
        ({"not-tags": "a"}, ["three", "two"]),
        ({"not-tags-any": "a,b"}, ["three"]),
        ({"locked": "true"}, ["two"]),
        ({"sort_key": "display_name", "sort_dir": "asc"}, ["one", "three", "two"]),
        ({"changes-since": "2999-01-01T00:00:00Z"}, []),
        ({"changes-before": "2999-01-01T00:00:00Z"}, ["three", "two", "one"]),
        ({"availability_zone": "elsewhere"}, []),
        ({"flavor": "9999"}, []),
        ({"vm_state": "active"}, ["three", "two", "one"]),
        ({"limit": "0"}, []),
        ({"limit": "2"}, ["three", "two"]),
    ],
    ids=str,
)
def test_a_list_is_filtered_as_asked(three, query, expected):
    assert names(three, **query) == expected


def test_all_of_a_project_are_those_of_that_project_only(three):
    """Who deletes what this lists must not hit another project's."""
    project = three.current_project_id
    assert names(three, project_id=project) == ["three"]


def test_hypervisors_come_in_pages(three):
    assert len(list(three.compute.hypervisors(limit=3))) == 4
    assert len(list(three.compute.hypervisors(details=True, limit=1))) == 4
