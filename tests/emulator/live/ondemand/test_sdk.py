"""The unmodified openstacksdk against the manager."""

from __future__ import annotations

import pytest
from openstack import exceptions

from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer

pytestmark = pytest.mark.live


def create(connection, name, nodes=1, **options):
    return connection.compute.create_server(
        name=name,
        flavor_id=connection.compute.find_flavor("node").id,
        image_id=connection.image.find_image("tiny").id,
        networks="none",
        min_count=nodes,
        max_count=nodes,
        **options,
    )


def names_and_states(connection):
    return sorted((server.name, server.status) for server in connection.compute.servers())


def test_flavors_images_and_networks_are_listed(manager, connect):
    connection = connect(manager)
    assert [(f.id, f.name, f.vcpus, f.ram) for f in connection.compute.flavors()] == [
        ("100", "node", 32, 131_072)
    ]
    assert [image.name for image in connection.image.images()] == ["tiny"]
    assert list(connection.network.networks()) == []


def test_a_server_becomes_active_and_is_gone_after_it_was_deleted(manager, connect):
    connection = connect(manager)
    server = create(connection, "vm-1")
    server = connection.compute.wait_for_server(server, interval=0.02)
    assert (server.status, server.addresses, server.compute_host) == ("ACTIVE", {}, None)
    connection.compute.delete_server(server)
    connection.compute.wait_for_delete(server, interval=0.02)
    with pytest.raises(exceptions.NotFoundException):
        connection.compute.get_server(server.id)


def test_an_administrator_sees_on_which_host_a_server_is(manager, connect):
    connection = connect(manager, "admin")
    server = connection.compute.wait_for_server(create(connection, "vm-adm"), interval=0.02)
    assert (server.compute_host, server.hypervisor_hostname) == ("node001", "node001")


def test_the_cloud_layer_creates_and_deletes_a_server_by_name(manager, connect):
    connection = connect(manager)
    server = connection.create_server(
        "vm-cl", image="tiny", flavor="node", auto_ip=False, wait=True, timeout=120
    )
    assert server.status == "ACTIVE"
    assert connection.delete_server("vm-cl", wait=True, timeout=120)


def test_many_servers_get_numbered_names_and_all_of_them_nodes(manager, connect):
    connection = connect(manager)
    connection.compute.wait_for_server(create(connection, "lease", nodes=3), interval=0.02)
    assert names_and_states(connection) == [
        ("lease-1", "ACTIVE"),
        ("lease-2", "ACTIVE"),
        ("lease-3", "ACTIVE"),
    ]


def test_many_servers_get_nodes_all_or_none(manager, connect):
    connection = connect(manager)
    first = create(connection, "wide", nodes=5)
    with pytest.raises(exceptions.ResourceFailure):
        connection.compute.wait_for_server(first, interval=0.02)
    assert {state for _, state in names_and_states(connection)} == {"ERROR"}
    fault = connection.compute.get_server(first.id).fault
    assert (fault["code"], fault["message"]) == (
        500,
        "No valid host was found. There are not enough hosts available.",
    )


def test_a_server_in_error_stays_so_when_room_appears_and_a_new_one_gets_it(manager, connect):
    connection = connect(manager)
    full = create(connection, "full", nodes=4)
    late = create(connection, "late")
    with pytest.raises(exceptions.ResourceFailure):
        connection.compute.wait_for_server(late, interval=0.02)
    for server in list(connection.compute.servers(name="^full")):
        connection.compute.delete_server(server)
    assert full.id != late.id
    assert names_and_states(connection) == [("late", "ERROR")]
    again = connection.compute.wait_for_server(create(connection, "again"), interval=0.02)
    assert again.status == "ACTIVE"


def test_the_cloud_layer_says_why_there_is_no_server(manager, connect):
    connection = connect(manager)
    create(connection, "full", nodes=4)
    with pytest.raises(exceptions.SDKException, match=r"No valid host was found\."):
        connection.create_server("over", image="tiny", flavor="node", auto_ip=False, wait=True, timeout=120)


def test_users_see_their_own_project_only(manager, connect):
    demo, admin = connect(manager), connect(manager, "admin")
    create(demo, "mine")
    assert list(admin.compute.servers()) == []
    assert [server.name for server in admin.compute.servers(all_projects=True)] == ["mine"]


def test_a_wrong_password_is_refused(manager, connect):
    with pytest.raises(exceptions.SDKException, match="HTTP 401"):
        connect(manager, password="wrong").authorize()


def test_an_expired_token_is_replaced_without_the_user_noticing(connect):
    config = OndemandConfig(pool=("node001",), token_lifetime_s=0.2)
    with OndemandServer(config) as manager:
        connection = connect(manager)
        first = connection.auth_token
        assert manager.keyring.token(first) is not None
        manager.keyring.revoke(first)
        assert [flavor.name for flavor in connection.compute.flavors()] == ["node"]


def test_long_lists_come_in_pages(manager, connect):
    connection = connect(manager)
    create(connection, "lease", nodes=4)
    pages = [server.name for server in connection.compute.servers(limit=3)]
    assert sorted(pages) == ["lease-1", "lease-2", "lease-3", "lease-4"]


def test_metadata_description_stop_and_start(manager, connect):
    connection = connect(manager)
    server = connection.compute.wait_for_server(create(connection, "vm"), interval=0.02)
    connection.compute.set_server_metadata(server, job="42", user="carl")
    connection.compute.delete_server_metadata(server, ["user"])
    connection.compute.update_server(server, name="other", description="a lease")
    connection.compute.stop_server(server)
    assert connection.compute.get_server(server.id).status == "SHUTOFF"
    connection.compute.start_server(server)
    server = connection.compute.get_server(server.id)
    assert (server.status, server.metadata) == ("ACTIVE", {"job": "42"})
    assert (server.name, server.description) == ("other", "a lease")


def test_hypervisors_and_placement_show_which_nodes_carry_servers(manager, connect):
    connection = connect(manager, "admin")
    create(connection, "vm")
    hosts = [host.name for host in connection.compute.hypervisors()]
    assert hosts == ["node001", "node002", "node003", "node004"]
    providers = {p.name: p.id for p in connection.placement.resource_providers()}
    usages = {
        name: connection.placement.get(f"/resource_providers/{uuid}/usages").json()["usages"]["VCPU"]
        for name, uuid in providers.items()
    }
    assert usages == {"node001": 32, "node002": 0, "node003": 0, "node004": 0}


def test_more_servers_than_the_quota_are_refused_at_once(manager, connect):
    connection = connect(manager)
    with pytest.raises(exceptions.ForbiddenException, match="Quota exceeded for instances"):
        create(connection, "many", nodes=1_000_000)
    assert list(connection.compute.servers()) == []


def test_a_quota_of_cores_counts_too(manager, connect):
    connection = connect(manager)
    connect(manager, "admin").set_compute_quotas("demo", cores=40)
    create(connection, "one")  # has 32
    with pytest.raises(exceptions.ForbiddenException, match="Quota exceeded for cores"):
        create(connection, "two")


def test_a_host_whose_service_is_disabled_or_down_gets_no_server(manager, connect):
    connection = connect(manager, "admin")
    services = {each.host: each for each in connection.compute.services(binary="nova-compute")}
    connection.compute.disable_service(services["node001"])
    connection.compute.update_service_forced_down(services["node002"], forced=True)
    create(connection, "lease", nodes=2)
    hosts = {each.compute_host for each in connection.compute.servers()}
    assert hosts == {"node003", "node004"}
    states = {each.name: (each.status, each.state) for each in connection.compute.hypervisors(details=True)}
    assert states["node001"][0] == "disabled"
    assert states["node002"][1] == "down"
