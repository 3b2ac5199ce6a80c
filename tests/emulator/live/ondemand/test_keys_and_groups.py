"""Key pairs, server groups, quotas and Keystone's lists, by the unmodified SDK."""

from __future__ import annotations

import pytest
from openstack import exceptions

pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGfm1rCJk2ZRGk0yCT8tL4dTg8gSB6p1ALuCDTRgXsXn somebody@somewhere"


@pytest.fixture
def user(manager, connect):
    return connect(manager)


@pytest.fixture
def admin(manager, connect):
    return connect(manager, "admin")


def create(connection, name, count=1, **more):
    image, flavor = connection.image.find_image("tiny"), connection.compute.find_flavor("node")
    server = connection.compute.create_server(
        name=name, image_id=image.id, flavor_id=flavor.id, networks="none",
        min_count=count, max_count=count, **more,
    )  # fmt: skip
    pattern = f"^{name}(-[0-9]+)?$"
    for each in connection.compute.servers(name=pattern):
        connection.compute.wait_for_server(each, status=more.get("status", "ACTIVE"), wait=60, interval=0.02)
    return connection.compute.get_server(server)


def status(error):
    return error.value.status_code


def test_a_key_is_imported_used_by_a_server_and_deleted(user):
    made = user.compute.create_keypair(name="mine", public_key=KEY)
    assert (made.name, made.type, made.fingerprint) == (
        "mine",
        "ssh",
        "67:cf:ee:4d:e9:a1:68:12:24:72:fd:fb:7a:06:d1:42",
    )
    assert [each.name for each in user.compute.keypairs()] == ["mine"]
    assert create(user, "one", key_name="mine").key_name == "mine"
    user.compute.delete_keypair("mine")
    assert list(user.compute.keypairs()) == []
    with pytest.raises(exceptions.BadRequestException):
        create(user, "two", key_name="mine")


def test_a_key_that_nova_makes_has_a_private_half(user):
    made = user.compute.create_keypair(name="made")
    assert made.private_key.startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert made.public_key.startswith("ssh-rsa ")


def test_keys_are_those_of_their_user(user, admin):
    user.compute.create_keypair(name="mine", public_key=KEY)
    assert list(admin.compute.keypairs()) == []
    assert [each.name for each in admin.compute.keypairs(user_id=user.current_user_id)] == ["mine"]
    with pytest.raises(exceptions.ForbiddenException):
        list(user.compute.keypairs(user_id=admin.current_user_id))


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": "mine", "public_key": KEY}, 409),
        ({"name": "a/b"}, 400),
        ({"name": ""}, 400),
        ({"name": "other", "public_key": "no key"}, 400),
        ({"name": "other", "type": "gpg"}, 400),
        ({"name": "other", "user_id": "somebody"}, 403),
        ({"name": "other", "colour": "red"}, 400),
    ],
)
def test_what_nova_refuses_of_a_key_is_refused(user, asked, code):
    user.compute.create_keypair(name="mine", public_key=KEY)
    answer = user.compute.post("/os-keypairs", json={"keypair": asked}, microversion="2.10")
    assert answer.status_code == code
    assert [each.name for each in user.compute.keypairs()] == ["mine"]


def test_servers_of_a_group_are_its_members(user):
    group = user.compute.create_server_group(name="apart", policy="anti-affinity")
    servers = [create(user, name, scheduler_hints={"group": group.id}) for name in ("one", "two")]
    shown = user.compute.get_server_group(group)
    assert sorted(shown.member_ids) == sorted(each.id for each in servers)
    assert servers[0].server_groups == [group.id]
    assert len({user.compute.get_server(each).id for each in servers}) == 2
    user.compute.delete_server_group(group)
    assert list(user.compute.server_groups()) == []


def test_two_servers_that_want_to_be_together_find_no_host(user):
    group = user.compute.create_server_group(name="together", policy="affinity")
    hint = {"scheduler_hints": {"group": group.id}}
    create(user, "one", **hint)
    image, flavor = user.image.find_image("tiny"), user.compute.find_flavor("node")
    two = user.compute.create_server(
        name="two", image_id=image.id, flavor_id=flavor.id, networks="none", **hint
    )
    with pytest.raises(exceptions.ResourceFailure):
        user.compute.wait_for_server(two, wait=60, interval=0.02)
    assert "No valid host was found" in user.compute.get_server(two).fault["message"]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": "g", "policy": "near"}, 400),
        ({"name": "g"}, 400),
        ({"name": "", "policy": "affinity"}, 400),
        ({"name": "g", "policy": "affinity", "rules": {"max_server_per_host": 2}}, 400),
        ({"name": "g", "policies": ["affinity"]}, 400),
    ],
)
def test_what_nova_refuses_of_a_group_is_refused(user, asked, code):
    answer = user.compute.post("/os-server-groups", json={"server_group": asked}, microversion="2.64")
    assert answer.status_code == code


def test_more_servers_than_the_quota_are_refused_at_once(user):
    with pytest.raises(exceptions.ForbiddenException, match="Quota exceeded for instances"):
        create(user, "many", 1_000_000)
    assert list(user.compute.servers()) == []


def test_quotas_of_cores_and_keys_count_too(user, admin):
    admin.set_compute_quotas("demo", cores=40, key_pairs=1)
    create(user, "one")  # has 32
    with pytest.raises(exceptions.ForbiddenException, match="Quota exceeded for cores"):
        create(user, "two")
    user.compute.create_keypair(name="mine", public_key=KEY)
    with pytest.raises(exceptions.ForbiddenException, match="too many key pairs"):
        user.compute.create_keypair(name="other", public_key=KEY)


def test_an_administrator_lists_what_keystone_knows(admin):
    identity = admin.identity
    assert sorted(each.name for each in identity.users()) == ["admin", "demo"]
    assert sorted(each.name for each in identity.roles()) == ["admin", "manager", "member", "reader"]
    assert [each.name for each in identity.domains()] == ["Default"]
    assert [each.id for each in identity.regions()] == ["RegionOne"]
    assert "nova" in [each.name for each in identity.services()]
    assert len(list(identity.endpoints(interface="public"))) == 6
    demo = identity.find_user("demo")
    assert len(list(identity.role_assignments(user_id=demo.id))) == 2


def test_a_user_may_not_list_users(user):
    with pytest.raises(exceptions.ForbiddenException):
        list(user.identity.users())
