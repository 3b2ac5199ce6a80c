"""What docs/containers.md has people type on a bare machine is what continuous integration does."""

import re
from pathlib import Path

import pytest

from balancer.version import VERSION

ROOT = Path(__file__).parents[4]
_HEADING = "## From a bare machine to the first picture"


def test_what_people_type_before_the_fleet_comes_up_is_what_continuous_integration_does():
    section = (ROOT / "docs" / "containers.md").read_text().partition(_HEADING)[2].partition("\n## ")[0]
    typed = [line.split("  #")[0].strip() for line in section.splitlines() if line.startswith("    ")]
    install, engine, images, _ = typed
    ci = (ROOT / ".ci" / "run").read_text()
    wanted = set(install.removeprefix("apt-get install -y ").split()) - {
        "python3-venv"
    }  # CI has a Python already
    assert wanted <= set(re.search(r"^packages=\((.*)\)$", ci, re.MULTILINE)[1].split())
    assert engine in ci
    assert images in ci


@pytest.mark.parametrize("name", ["docker-compose.yml", "deploy/swarm.yml"])
def test_compose_and_swarm_run_the_images_of_this_version(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{FLEET_VERSION:-([^}]*)\}", text)) == {VERSION}
