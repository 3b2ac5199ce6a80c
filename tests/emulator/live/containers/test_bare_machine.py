"""What docs/containers.md has people type on a bare machine leads to the picture that it promises."""

import os
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from balancer.version import VERSION
from emulator.report import files
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import load
from fleet_kit.short_trace import NODES, write_scenario

ROOT = Path(__file__).parents[4]
_HEADING = "## Set up a bare machine"
_INSTALL = "apt-get install -y "
_LIMIT_S = 840


def section():
    return (ROOT / "docs" / "containers.md").read_text().partition(_HEADING)[2].partition("\n## ")[0]


def typed():
    """The lines of the page's block, without what they say of themselves."""
    return [line.split("  #")[0].strip() for line in section().splitlines() if line.startswith("    ")]


def test_what_people_type_before_the_fleet_comes_up_is_what_continuous_integration_does():
    install, engine, images, _ = typed()
    ci = (ROOT / ".ci" / "run").read_text()
    wanted = set(install.removeprefix(_INSTALL).split()) - {"python3-venv"}  # CI has a Python already
    assert wanted <= set(re.search(r"^packages=\((.*)\)$", ci, re.MULTILINE)[1].split())
    assert engine in ci
    assert images in ci


@pytest.mark.parametrize("name", ["docker-compose.yml", "deploy/swarm.yml"])
def test_compose_and_swarm_run_the_images_of_this_version(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{FLEET_VERSION:-([^}]*)\}", text)) == {VERSION}


@contextmanager
def taken_away(environ):
    """Whatever happens, nothing of this project and none of its images outlives the block."""
    try:
        yield
    finally:
        down = ["docker-compose", "-f", str(ROOT / "docker-compose.yml"), "down", "-v", "-t", "5"]
        subprocess.run(down, env=environ | {"BASE_IMAGE": "none"}, capture_output=True, check=False)
        # By their names: the same images have those of other tests, too.
        shown = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", f"{environ['FLEET_IMAGES']}/*"]
        names = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split()
        subprocess.run(["docker", "rmi", *names], capture_output=True, check=bool(names))


def left(project):
    mark = f"label=com.docker.compose.project={project}"
    lists = (["ps", "-aq"], ["network", "ls", "-q"], ["volume", "ls", "-q"])
    return "".join(
        subprocess.run(
            ["docker", *words, "--filter", mark], capture_output=True, text=True, check=True
        ).stdout
        for words in lists
    )


@pytest.mark.nightly
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.needs("fleet-images", "engine-programs", "git")
def test_a_fresh_clone_leads_to_the_picture_with_what_the_page_says(alone, tmp_path):
    _, *lines = typed()
    clone, scenarios, project = tmp_path / "clone", tmp_path / "scenarios", f"fleettest{os.getpid()}bare"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    scenarios.mkdir()
    # A smaller day than the page's, on ports that nobody else has, with names that nobody else uses.
    scenario = write_scenario(scenarios, name="fleet", jobs=12, speed=1200)
    ports = {f"FLEET_{name}_PORT": "" for name in ("CONTROLLER", "BATCH", "BALANCER", "ONDEMAND")}
    environ = os.environ | ports | {
        "BALANCER_ENGINE_DIR": str(tmp_path / "engine"), "COMPOSE_PROJECT_NAME": project, "FLEET_IMAGES": project,
        "FLEET_NODES": str(NODES), "FLEET_SCENARIOS": str(scenarios),
    }  # fmt: skip
    with taken_away(environ):
        shell = subprocess.run(
            ["bash", "-e"], input="\n".join(lines), cwd=clone, env=environ, capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        assert shell.returncode == 0, shell.stdout[-3000:] + shell.stderr[-3000:]
    picture = clone / re.search(r"The picture is `(.*?)`", section())[1]
    assert "<svg" in picture.read_text()
    assert "dashboard: http://" in shell.stdout
    wanted = load(scenario)
    found = compare(run_virtual(wanted, prepare(wanted)), files.load(picture.parent))
    assert found.is_same, found
    assert left(project) == ""
