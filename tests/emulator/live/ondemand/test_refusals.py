"""What a real Nova refuses the manager refuses, by one script of requests; what it has not it names.

`tests/balancer/nova/test_real_nova.py` holds the same recording against the real one.
"""

from __future__ import annotations

import json

import pytest

from nova_kit.script import SCRIPT, answers
from testdata import RECORDED

pytestmark = pytest.mark.live


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
    assert len(SCRIPT) >= 70
    assert answers(connections) == recorded


@pytest.fixture
def three(manager, connect):
    """Two servers of demo and one of admin; gives an administrator's connection."""
    user, admin = connect(manager), connect(manager, "admin")
    made(user, "one")
    made(user, "two")
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
        ({"name": "^T"}, ["three", "two"]),
        ({"host": "node002"}, ["two"]),
        ({"changes-since": "2999-01-01T00:00:00Z"}, []),
        ({"flavor": "9999"}, []),
        ({"status": "active"}, ["three", "two", "one"]),
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


CREATE = {"name": "s", "imageRef": "IMAGE", "flavorRef": "100", "networks": "none"}
DISK = {"source_type": "volume", "uuid": "5d3b1bb9-2b0e-4f6a-9a53-0d6b1b1e7c11"}


@pytest.mark.parametrize(
    ("call", "body", "answers"),
    [
        (
            "compute POST /os-keypairs",
            {"keypair": {"name": "k"}},
            (501, "POST /compute/v2.1/os-keypairs"),
        ),
        ("compute GET /servers/SERVER/tags", None, (501, "GET /compute/v2.1/servers/")),
        ("compute POST /servers/SERVER/action", {"lock": None}, (501, "action lock")),
        ("compute POST /servers/SERVER/action", {"os-stop": {"a": 1}}, (400, "argument {'a': 1}")),
        ("compute PUT /servers/SERVER", {"server": {"hostname": "a"}}, (400, "{'hostname': 'a'}")),
        ("compute GET /servers?sort_key=uuid", None, (400, "parameter sort_key")),
        ("compute GET /servers?status=SHELVED", None, (400, "status SHELVED")),
        ("compute GET /flavors?sort_key=name", None, (400, "parameter sort_key")),
        ("compute POST /servers", {"server": CREATE | {"key_name": "k"}}, (400, "field key_name")),
        ("compute POST /servers", {"server": CREATE | {"networks": [{}]}}, (400, "network")),
        (
            "compute POST /servers",
            {"server": CREATE | {"block_device_mapping_v2": [DISK]}},
            (400, "disk"),
        ),
        ("compute POST /servers", {"server": CREATE, "os:scheduler_hints": {}}, (400, "scheduler_hints")),
        ("placement GET /traits/CUSTOM_NODE", None, (501, "GET /placement/traits/CUSTOM_NODE")),
        ("placement GET /resource_providers?required=A", None, (400, "parameter required")),
        ("identity POST /users", {"user": {"name": "carl"}}, (501, "POST /identity/v3/users")),
        ("image PUT /v2/images", {}, (501, "PUT /image/v2/images")),
        ("network POST /v2.0/networks", {}, (501, "POST /network/v2.0/networks")),
    ],
    ids=str,
)
def test_what_is_not_there_is_named(manager, connect, call, body, answers):
    service, method, path = call.split()
    cloud = connect(manager, "admin")
    server, image = made(cloud, "script"), cloud.image.find_image("tiny")
    if isinstance(body, dict) and "server" in body and method == "POST":
        body = body | {"server": body["server"] | {"imageRef": image.id}}
    answer = cloud.session.request(
        cloud.endpoint_for(service).rstrip("/") + path.replace("SERVER", server.id),
        method,
        json=body,
        headers={"OpenStack-API-Version": "compute 2.96"} if service == "compute" else {},
        raise_exc=False,
    )
    assert answer.status_code == answers[0]
    assert answers[1] in answer.text
    assert ("live.ondemand: nova" in answer.text) == (service in {"compute", "placement"})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"status": "gone"}, "status. Value: gone"),
        ({"forced_down": "maybe"}, "forced_down. Value: maybe"),
        ({"status": "disabled", "disabled_reason": 7}, "disabled_reason. Value: 7"),
        ({"status": None}, "status. Value: None"),
        ({"status": "enabled", "disabled_reason": "fan"}, "without status 'disabled'"),
        ({"host": "node001"}, "host. Value: node001"),
        ({}, "body"),
        ([], "body"),
    ],
    ids=str,
)
def test_a_change_of_a_service_that_nova_refuses_changes_nothing(manager, connect, body, problem):
    cloud = connect(manager, "admin")
    before = services(cloud)
    answer = put_service(cloud, "node001", body)
    assert (answer.status_code, problem in answer.text) == (400, True)
    assert services(cloud) == before


def test_a_word_for_no_does_not_force_a_host_down(manager, connect):
    cloud = connect(manager, "admin")
    assert put_service(cloud, "node001", {"forced_down": "false"}).json()["service"]["forced_down"] is False
    assert put_service(cloud, "node001", {"forced_down": "True"}).json()["service"]["state"] == "down"


def services(cloud):
    found = cloud.compute.get("/os-services", microversion="2.96").json()["services"]
    return [{key: value for key, value in each.items() if key != "updated_at"} for each in found]


def put_service(cloud, host, body):
    (service,) = (each for each in services(cloud) if each["host"] == host)
    path = f"/os-services/{service['id']}"
    return cloud.compute.put(path, json=body, microversion="2.96", raise_exc=False)
