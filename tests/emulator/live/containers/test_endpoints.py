"""What `docker compose up` tells people, and the names of its images."""

import re
from pathlib import Path

import pytest

from balancer.version import VERSION
from emulator.live.names import endpoint_lines

ROOT = Path(__file__).parents[4]
_PORTS = {
    "FLEET_CONTROLLER_PORT": "8100",
    "FLEET_BATCH_PORT": "15001",
    "FLEET_BALANCER_PORT": "8090",
    "FLEET_ONDEMAND_PORT": "",
}


def test_people_are_told_where_each_service_is_and_how_to_get_in():
    assert list(endpoint_lines(_PORTS, "secret")) == [
        "dashboard: http://127.0.0.1:8090/ (token secret)",
        "batch server: 127.0.0.1:15001",
        "cloud: http://$(docker compose port ondemand 8774)/identity/v3",
        "where the run is: `emulator fleet status`, http://127.0.0.1:8100/status",
    ]


def test_services_that_the_run_has_not_got_and_ports_that_nobody_knows_are_left_out():
    assert [line.split(":")[0] for line in endpoint_lines(_PORTS, "")] == ["batch server", "where the run is"]
    assert list(endpoint_lines({}, "secret")) == []


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/swarm.yml"])
def test_images_are_named_by_the_version_of_the_package(file):
    named = re.findall(r"image: \$\{FLEET_IMAGES:-balancer-emulator\}/(\w+)(\S*)", (ROOT / file).read_text())
    assert {role for role, _ in named} >= {"controller", "batch", "node", "balancer", "ondemand", "replayer"}
    assert {tag for _, tag in named} == {f":${{FLEET_VERSION:-{VERSION}}}"}
