"""The table of roles (`emulator/live/names.py`) and the files that people start containers with say the same."""

import json
import re
from pathlib import Path

import pytest
import yaml

from emulator.live.names import CONTROLLER, NODE, ROLES, image_of

ROOT = Path(__file__).parents[4]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
SWARM = yaml.safe_load((ROOT / "deploy" / "swarm.yml").read_text(encoding="utf-8"))["services"]
ENTRY = ["python", "-m", "emulator.live.containers.entry"]


def fleet_services(services):
    """Those of the fleet: no profile's, whose runs are made in another way, and no database."""
    return {name for name, service in services.items() if "profiles" not in service}


@pytest.mark.parametrize("services", [COMPOSE, SWARM], ids=["compose", "swarm"])
def test_each_role_is_a_service_with_the_image_that_the_table_says(services):
    assert fleet_services(services) == set(ROLES)
    images = {role: re.search(r"/(\w+):\$", services[role]["image"])[1] for role in ROLES}
    assert images == {role: image_of(role) for role in ROLES}
    started = {role: services[role]["entrypoint"] for role in ROLES if "entrypoint" in services[role]}
    assert started == {role: [*ENTRY, role] for role in ROLES if image_of(role) != role}


def test_compose_publishes_the_port_where_a_role_listens_and_no_other():
    published = {
        role: [int(port.rpartition(":")[2]) for port in COMPOSE[role].get("ports", [])] for role in ROLES
    }
    assert published == {role: [table.port] if table.port else [] for role, table in ROLES.items()}


def test_compose_gives_the_scratch_folder_to_those_who_share_it():
    shared = {role for role in ROLES if "scratch:/scratch" in COMPOSE[role]["volumes"]}
    assert shared == {role for role, table in ROLES.items() if table.shares_scratch}
    assert all("fleet:/fleet" in COMPOSE[role]["volumes"] for role in ROLES)


def test_the_image_of_a_role_starts_it_and_tells_its_port():
    text = (ROOT / "containers" / "Dockerfile").read_text(encoding="utf-8")
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM |\Z)", text, re.MULTILINE | re.DOTALL))
    for role in filter(lambda role: image_of(role) == role, ROLES):
        entry = re.search(r"^ENTRYPOINT (\[.*\])$", stages[role], re.MULTILINE)
        assert json.loads(entry[1]) == [*ENTRY, role]
        exposed = [int(port) for port in re.findall(r"^EXPOSE (\d+)$", stages[role], re.MULTILINE)]
        assert exposed == ([ROLES[role].port] if ROLES[role].port else []), role


def test_whoever_waits_for_another_stands_below_it_in_the_table_so_that_nobody_waits_in_a_circle():
    place = {role: number for number, role in enumerate(ROLES)}
    assert all(place[other] < place[role] for role, table in ROLES.items() for other in table.after)
    assert not {CONTROLLER, NODE} & {other for table in ROLES.values() for other in table.after}
