"""The cloud as reconcile reads it, against a manager that speaks Nova and an unmodified openstacksdk."""

from __future__ import annotations

import openstack
import pytest

from balancer.drivers.base import DriverError, RefusedError
from balancer.drivers.cloud import CloudStatus
from balancer.drivers.openstack import OpenStackDriver, OpenStackSettings
from balancer.plugins import CLOUD_DRIVERS, make_plugin
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer

pytestmark = pytest.mark.live
NODES = ("node001", "node002")


@pytest.fixture
def cloud():
    with OndemandServer(OndemandConfig(pool=NODES)) as server:
        yield server


def connection(cloud, user="admin", password="secret"):  # noqa: S107 - the manager's own
    return openstack.connect(
        auth_url=cloud.auth_url,
        username=user,
        password=password,
        project_name=user,
        user_domain_id="default",
        project_domain_id="default",
        region_name="RegionOne",
        load_yaml_config=False,
        load_envvars=False,
        api_timeout=10,
    )


def test_every_host_is_listed_with_the_servers_of_all_projects(cloud):
    with connection(cloud, "demo") as user, connection(cloud) as admin:
        image, flavor = user.image.find_image("tiny"), user.compute.find_flavor("node")
        server = user.compute.create_server(
            name="lease", image_id=image.id, flavor_id=flavor.id, networks="none"
        )
        user.compute.wait_for_server(server, wait=20, interval=0.1)
        found = OpenStackDriver(connection=admin).get_status_of_hosts()
    assert set(found) == set(NODES)
    assert sorted(each.vms for each in found.values()) == [(), (server.id,)]
    assert not any(each.enabled for each in found.values()), "the filter is the gate, not the service"


def test_where_the_service_is_the_gate_an_enabled_one_may_get_a_server(cloud):
    with connection(cloud) as admin:
        driver = OpenStackDriver(OpenStackSettings(gate="service"), admin)
        assert driver.get_status_of_hosts() == dict.fromkeys(NODES, CloudStatus(enabled=True, is_up=True))


def test_a_cloud_that_refuses_or_is_away_is_a_driver_error_and_no_answer(cloud):
    with connection(cloud, password="wrong") as stranger, pytest.raises(RefusedError, match="cannot be read"):
        OpenStackDriver(connection=stranger).get_status_of_hosts()
    with connection(cloud) as admin:
        driver = OpenStackDriver(connection=admin)
        driver.get_status_of_hosts()
        cloud.stop()
        with pytest.raises(DriverError):
            driver.get_status_of_hosts()


@pytest.mark.parametrize("settings", [{"gate": "door"}, {"colour": "red"}, {"timeout_s": 0}])
def test_a_wrong_setting_is_named(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        make_plugin(CLOUD_DRIVERS, {"openstack": settings})
