"""The profiles `slurm` and `nova` of docker-compose.yml and what runs in their containers say the same."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from emulator.live.containers.remote_fleet import NOVA, SLURM, main
from emulator.live.nova.system import NovaRun
from emulator.runs.scenario import ScenarioError, load
from parts import compose_command

ROOT = Path(__file__).parents[4]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PLACES = ["python", "-m", "emulator.live.containers.remote_exec"]
PROFILES = [SLURM, NOVA]


def services(profile):
    return {
        name: service
        for name, service in COMPOSE["services"].items()
        if service.get("profiles") == [profile.name]
    }


def name_of(profile):
    return profile.name


@pytest.mark.parametrize("profile", PROFILES, ids=name_of)
def test_each_place_of_a_run_is_a_container_and_the_run_waits_for_them(profile):
    others = services(profile)
    run = others.pop(profile.name)
    assert {service["entrypoint"][-1] for service in others.values()} == profile.places
    assert all(service["entrypoint"][:-1] == PLACES for service in others.values())
    assert set(run["depends_on"]) == set(others)
    assert "entrypoint" not in run


@pytest.mark.parametrize("profile", PROFILES, ids=name_of)
def test_all_containers_share_one_network_and_one_volume_as_nobody_s_root(profile):
    found = services(profile)
    networks = {service.get("network_mode") for service in found.values()}
    (owner,) = (name for name, service in found.items() if "network_mode" not in service)
    assert networks == {None, f"service:{owner}"}
    for name, service in found.items():
        assert any(volume == f"{profile.name}:/fleet" for volume in service["volumes"]), name
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service.get("user") == (None if name == profile.name else "1000:1000")


def test_nova_s_processes_have_containers_of_their_own():
    places = {name: NOVA.place_of(name) for name in (*NovaRun.names, "nova-databases")}
    assert places == {
        "nova": "services",
        "nova-databases": "services",
        "nova-front": "front",
        "nova-postgres": "postgres",
        "nova-agent": "agent",
    }
    assert {NOVA.place_of(name) for name in ("batch", "agent")} == {"batch"}  # its agent plays the nodes
    assert {NOVA.place_of(name) for name in ("balancer", "predictor")} == {"balancer"}
    assert NOVA.place_of("replayer") == "replayer"


@pytest.mark.parametrize("profile", PROFILES, ids=name_of)
def test_its_scenario_is_for_these_containers_and_another_is_an_error_that_says_so(profile):
    own = COMPOSE["services"][profile.name]["environment"]["FLEET_SCENARIO"]
    path = re.fullmatch(r"\$\{FLEET_SCENARIO:-/(.*)\}", own)[1]
    profile.launcher.check(load(ROOT / path))
    with pytest.raises(
        ScenarioError, match=rf"the fleet of {profile.name.capitalize()}'s containers has {profile.name} only"
    ):
        profile.launcher.check(load(ROOT / "scenarios" / "fleet.yaml"))


def test_nova_in_containers_has_our_batch_server_only():
    scenario = load(ROOT / "scenarios" / "nova-fleet.yaml", ("live.batch=slurm",))
    with pytest.raises(ScenarioError, match=r"live\.batch: the fleet of Nova's containers has torque only"):
        NOVA.launcher.check(scenario)


@pytest.mark.parametrize(
    ("file", "profile"),
    [("containers/Dockerfile", SLURM), ("containers/nova.Dockerfile", NOVA), ("scripts/slurm-image", SLURM)],
)
def test_the_image_starts_what_runs_the_profile(file, profile):
    entry = re.findall(r"^ENTRYPOINT (\[.*\])$", (ROOT / file).read_text(), re.MULTILINE)[-1]
    assert json.loads(entry) == ["python", "-m", main.__module__, profile.name]


def test_the_image_of_nova_has_the_locked_packages_which_reach_the_build():
    copied = re.findall(r"^COPY (\S+)", (ROOT / "containers" / "nova.Dockerfile").read_text(), re.MULTILINE)
    assert copied == ["requirements-nova.lock"]
    assert "!requirements-nova.lock" in (ROOT / ".dockerignore").read_text().splitlines()


def services_by_compose(tmp_path, *options, **environ):
    """What Compose says of the file in a folder where no image was made."""
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    return subprocess.run(
        [*compose_command(), *options, "config", "--services"], cwd=tmp_path, env=os.environ | environ,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.needs("compose")
@pytest.mark.parametrize("profile", PROFILES, ids=name_of)
def test_compose_takes_the_profile(profile, tmp_path):
    done = services_by_compose(tmp_path, "--profile", profile.name, BASE_IMAGE="base")
    assert done.returncode == 0, done.stderr
    assert set(services(profile)) <= set(done.stdout.split())


@pytest.mark.needs("compose")
def test_compose_says_what_makes_the_images(tmp_path, monkeypatch):
    monkeypatch.delenv("BASE_IMAGE", raising=False)
    done = services_by_compose(tmp_path)
    assert done.returncode != 0
    assert "run scripts/fleet-images first" in done.stderr


def test_an_image_is_not_made_without_the_one_that_it_is_made_of(tmp_path):
    """With a `docker` that knows no image."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$@" >>$0.asked\nexit 1\n')
    docker.chmod(0o755)
    done = subprocess.run(
        [ROOT / "scripts" / "nova-image"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "make it with scripts/fleet-images" in done.stderr
    assert (tmp_path / "docker.asked").read_text().startswith("image inspect balancer-emulator/replayer:")
