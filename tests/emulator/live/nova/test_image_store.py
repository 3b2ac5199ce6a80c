"""The Glance around a real Nova, as an unmodified SDK finds it."""

from __future__ import annotations

import hashlib
from threading import Thread

import openstack
import pytest
from click.testing import CliRunner

from emulator.live.nova.front import Front, FrontConfig, main

pytestmark = pytest.mark.live
DATA = b"a disk"


@pytest.fixture
def connect(tmp_path):
    """`connect(user)`: to a front that has no Nova behind it."""
    front = Front(FrontConfig(hosts=("n1",), urls=tmp_path / "urls.json"))
    thread = Thread(target=front.serve)
    thread.start()
    made = []

    def connected(user="demo"):
        made.append(
            openstack.connect(
                auth_url=f"{front.url}/identity/v3", username=user, password="secret", project_name=user,
                user_domain_id="default", project_domain_id="default", region_name="RegionOne",
                load_yaml_config=False, load_envvars=False,
            )
        )  # fmt: skip
        return made[-1].image

    yield connected
    for each in made:
        each.close()
    front.stop()
    thread.join()
    front.close()


def create(glance, **more):
    body = {"name": "kept", "disk_format": "raw", "container_format": "bare"} | more
    return glance.post("/images", json=body)


def test_an_image_is_made_uploaded_changed_and_deleted(connect, tmp_path):
    glance = connect()
    made = create(glance, kind="snapshot").json()
    assert (made["status"], made["size"], made["kind"]) == ("queued", None, "snapshot")
    assert glance.get(f"/images/{made['id']}/file").status_code == 204
    assert glance.put(f"/images/{made['id']}/file", data=DATA).status_code == 204
    shown = glance.get(f"/images/{made['id']}").json()
    assert (shown["status"], shown["size"], shown["checksum"]) == (
        "active", len(DATA), hashlib.md5(DATA, usedforsecurity=False).hexdigest(),
    )  # fmt: skip
    assert glance.get(f"/images/{made['id']}/file").content == DATA
    changes = [
        {"op": "replace", "path": "/name", "value": "other"},
        {"op": "add", "path": "/why", "value": "a test"},
        {"op": "remove", "path": "/kind"},
    ]
    type_ = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    changed = glance.patch(f"/images/{made['id']}", json=changes, headers=type_).json()
    assert (changed["name"], changed["why"], "kind" in changed) == ("other", "a test", False)
    assert {each.name for each in glance.images()} == {"tiny", "other"}
    assert glance.delete(f"/images/{made['id']}").status_code == 204
    assert [each.name for each in glance.images()] == ["tiny"]
    assert list((tmp_path / "images").iterdir()) == []


def test_the_sdk_uploads_data(connect):
    glance = connect()
    made = glance.create_image("kept", data=DATA, container_format="bare", disk_format="raw")
    image = glance.get_image(made.id)
    assert (image.status, image.size) == ("active", len(DATA))
    assert glance.download_image(image).content == DATA


def test_an_administrator_shares_an_image_with_the_project_whose_server_it_was(connect):
    glance, admin = connect(), connect("admin")
    image = create(admin).json()["id"]
    shared = admin.post(f"/images/{image}/members", json={"member": "a-project"})
    assert (shared.status_code, shared.json()["member_id"], shared.json()["image_id"]) == (
        200,
        "a-project",
        image,
    )
    assert refused(glance.post(f"/images/{image}/members", json={"member": "a-project"})) == 403
    assert refused(admin.post(f"/images/{image}/members", json={})) == 400


def refused(answer):
    assert not answer.ok
    return answer.status_code


def test_what_glance_refuses_is_refused_and_changes_nothing(connect):
    glance, admin = connect(), connect("admin")
    made = create(glance).json()
    others = create(admin).json()
    tiny = glance.find_image("tiny")
    before = sorted(each.to_dict().items() for each in glance.images())
    patch = [{"op": "replace", "path": "/status", "value": "active"}]
    assert {
        "read-only": refused(create(glance, status="active")),
        "not an object": refused(glance.post("/images", json=["x"])),
        "no identifier": refused(create(glance, id="../elsewhere")),
        "there already": refused(create(glance, id=made["id"])),
        "patched read-only": refused(glance.patch(f"/images/{made['id']}", json=patch)),
        "no patch": refused(glance.patch(f"/images/{made['id']}", json={})),
        "unknown operation": refused(glance.patch(f"/images/{made['id']}", json=[{"op": "move", "path": "/name"}])),
        "absent": refused(glance.patch(f"/images/{made['id']}", json=[{"op": "remove", "path": "/colour"}])),
        "another's": refused(glance.delete(f"/images/{others['id']}")),
        "the one of all": refused(admin.delete(f"/images/{tiny.id}")),
        "unknown": refused(glance.delete(f"/images/{made['id'][:-4]}0000")),
        "uploaded twice": (
            glance.put(f"/images/{tiny.id}/file", data=DATA).status_code,
            admin.put(f"/images/{others['id']}/file", data=DATA).status_code,
            admin.put(f"/images/{others['id']}/file", data=DATA).status_code,
        ),
    } == {
        "read-only": 403, "not an object": 400, "no identifier": 400, "there already": 409, "patched read-only": 403,
        "no patch": 400, "unknown operation": 400, "absent": 409, "another's": 403, "the one of all": 403,
        "unknown": 404, "uploaded twice": (403, 204, 409),
    }  # fmt: skip
    admin.delete(f"/images/{others['id']}")
    assert sorted(each.to_dict().items() for each in glance.images()) == [
        each for each in before if dict(each)["id"] != others["id"]
    ]


def test_a_protected_image_is_kept(connect):
    glance = connect()
    made = create(glance, protected=True).json()
    assert refused(glance.delete(f"/images/{made['id']}")) == 403
    assert {each.name for each in glance.images()} == {"tiny", "kept"}


def test_a_node_that_is_listed_twice_is_told(tmp_path):
    config = tmp_path / "front.yaml"
    config.write_text(f"hosts: [n1, n2, n1]\nurls: {tmp_path / 'urls.json'}\n")
    result = CliRunner().invoke(main, ["--config", str(config)])
    assert (result.exit_code, "hosts: these nodes are listed twice: n1" in result.stderr) == (2, True)
